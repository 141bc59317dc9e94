# Runs the script that is graded in processes of their own, and compares what they print out here.
exec python3 -I - <<'PROGRAM'
import collections, ctypes, os, random, re, subprocess, sys

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # where all have one user, it cannot look into this process
GRADED = os.environ["BENCHYARD_GRADED"]  # runs the code as the user whose work it is, who cannot read this


def expected(text, count):
    words = collections.Counter(re.findall("[a-z]+", text.lower()))
    ordered = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    return [f"{number} {word}" for word, number in ordered[:count]]


def printed(text, count):
    ran = subprocess.run(
        [GRADED, "bash", "--noprofile", "--norc", "top.sh", str(count)],
        input=text,
        capture_output=True,
        text=True,
        timeout=20,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"},
    )
    return [" ".join(line.split()) for line in ran.stdout.splitlines()]


chance = random.Random(7)
words = ["Apple", "pear", "FIG", "plum", "quince", "apple", "fig", "Date", "a", "b"]
joints = [" ", ", ", "\n", " - ", ". ", "1", "_"]
cases = [("", 3), ("one", 5), ("b a", 2), ("It's 5 o'clock, it's late.\n", 10)]
for _ in range(6):
    text = "".join(chance.choice(words) + chance.choice(joints) for _ in range(chance.randrange(5, 200)))
    cases.append((text, chance.randrange(1, 12)))
wrong = [case for case in cases if printed(*case) != expected(*case)]
if wrong:
    sys.exit(f"{len(wrong)} of {len(cases)} texts are wrong")
print("all texts are right")
PROGRAM
