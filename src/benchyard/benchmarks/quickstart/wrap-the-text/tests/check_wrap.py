"""Runs the program that is graded in processes apart, and compares what they print here."""

import ctypes
import json
import os
import random
import subprocess
import sys

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # where all have one user, it cannot look into this process
GRADED = os.environ["BENCHYARD_GRADED"]  # runs the code as the user whose work it is, who cannot read this

RUNS = """
import json, os, sys

def file_of(content):
    file = os.memfd_create("stream")
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file

def text_of(file):
    os.lseek(file, 0, os.SEEK_SET)
    return os.read(file, 100_000).decode(errors="replace")

said = []
for case in json.load(sys.stdin):
    streams = file_of(case["stdin"].encode()), file_of(b""), file_of(b"")
    child = os.fork()
    if not child:
        break
    _, status = os.waitpid(child, 0)
    out, errors = text_of(streams[1]), text_of(streams[2])
    said.append({"exit_status": os.waitstatus_to_exitcode(status), "stdout": out, "stderr": errors})
else:
    print(json.dumps(said))
    sys.exit()
for number, file in enumerate(streams):
    os.dup2(file, number)
sys.argv = ["wrap.py", *case["arguments"]]
main = sys.modules["__main__"] = type(sys)("__main__")
main.__file__ = "wrap.py"
with open("wrap.py", "rb") as file:
    program = compile(file.read(), "wrap.py", "exec")
exec(program, main.__dict__)
"""  # each case in a process forked for it: Python is started once for all of them


def expected(text, width):
    paragraphs, words = [], []
    for line in [*text.split("\n"), ""]:
        words += line.split()
        if not line.split() and words:
            paragraphs.append(words)
            words = []
    return "\n\n".join(filled(paragraph, width) for paragraph in paragraphs)


def filled(words, width):
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return "\n".join(lines)


def ran(cases):
    """What the program does with each text and arguments."""
    asked = subprocess.run(
        [GRADED, "--seconds", "60", "python3", "-I", "-c", RUNS],
        input=json.dumps([{"stdin": text, "arguments": arguments} for text, arguments in cases]),
        capture_output=True,
        text=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    try:
        said = json.loads(asked.stdout.strip().splitlines()[-1])
        return [(each["exit_status"], each["stdout"], each["stderr"]) for each in said]
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        sys.exit(f"no answer: {asked.stderr[-2000:]}")


chance = random.Random(11)
cases = [("", 10), ("one", 1), ("a b  c\n\n\nd\n", 3), ("\n\n  extraordinary  \n", 5)]
for _ in range(8):
    words = ["x" * chance.randrange(1, 15) for _ in range(chance.randrange(1, 60))]
    cases.append(("".join(word + chance.choice([" ", "  ", "\n", "\n\n"]) for word in words), chance.randrange(1, 30)))
refused = [[], ["0"], ["-3"], ["many"]]
said = ran([(text, [str(width)]) for text, width in cases] + [("a b", arguments) for arguments in refused])
if len(said) != len(cases) + len(refused):
    sys.exit("no answer to some of the texts")
wrong = []
for (text, width), (status, out, _) in zip(cases, said):
    if status != 0 or not isinstance(out, str) or out.rstrip("\n") != expected(text, width):
        wrong.append(f"wrong with a width of {width}: {text!r}")
for arguments, (status, out, errors) in zip(refused, said[len(cases) :]):
    if status != 2 or out or not errors:
        wrong.append(f"wrong with the arguments {arguments}")
sys.exit("\n".join(wrong) or 0)
