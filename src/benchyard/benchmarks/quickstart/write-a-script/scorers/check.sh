# Runs the script that is graded in processes of their own, and compares what they print out here.
exec python3 -I -S - <<'PROGRAM'
import collections, ctypes, json, os, random, re, subprocess, sys

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # where all have one user, it cannot look into this process
GRADED = os.environ["BENCHYARD_GRADED"]  # runs the code as the user whose work it is, who cannot read this


def expected(text, count):
    words = collections.Counter(re.findall("[a-z]+", text.lower()))
    ordered = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    return [f"{number} {word}" for word, number in ordered[:count]]


def printed(cases):
    """The lines that the script prints for each text: one process each, by one command for all of them."""
    ran = subprocess.run(
        [GRADED, "--seconds", "20", "--cases", "bash", "--noprofile", "--norc", "top.sh"],
        input=json.dumps([{"stdin": text, "arguments": [count]} for text, count in cases]),
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"},
    )
    return [[" ".join(line.split()) for line in each["stdout"].splitlines()] for each in json.loads(ran.stdout)]


chance = random.Random(7)
words = ["Apple", "pear", "FIG", "plum", "quince", "apple", "fig", "Date", "a", "b"]
joints = [" ", ", ", "\n", " - ", ". ", "1", "_"]
cases = [("", 3), ("one", 5), ("b a", 2), ("It's 5 o'clock, it's late.\n", 10)]
for size in (5, 60, 400):
    text = "".join(chance.choice(words) + chance.choice(joints) for _ in range(size))
    cases.append((text, chance.randrange(1, 12)))
wrong = [case for case, lines in zip(cases, printed(cases), strict=True) if lines != expected(*case)]
if wrong:
    sys.exit(f"{len(wrong)} of {len(cases)} texts are wrong")
print("all texts are right")
PROGRAM
