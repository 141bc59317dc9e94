"""Runs the program that is graded in processes of their own, and compares what they print here."""

import ctypes
import os
import random
import subprocess
import sys

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # where all have one user, it cannot look into this process
GRADED = os.environ["BENCHYARD_GRADED"]  # runs the code as the user whose work it is, who cannot read this


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


def run(text, *arguments):
    return subprocess.run(
        [GRADED, "python3", "-I", "wrap.py", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=20,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )


chance = random.Random(11)
cases = [("", 10), ("one", 1), ("a b  c\n\n\nd\n", 3), ("\n\n  extraordinary  \n", 5)]
for _ in range(8):
    words = ["x" * chance.randrange(1, 15) for _ in range(chance.randrange(1, 60))]
    cases.append(("".join(word + chance.choice([" ", "  ", "\n", "\n\n"]) for word in words), chance.randrange(1, 30)))
wrong = []
for text, width in cases:
    ran = run(text, str(width))
    if ran.returncode != 0 or ran.stdout.rstrip("\n") != expected(text, width):
        wrong.append(f"wrong with a width of {width}: {text!r}")
for arguments in ((), ("0",), ("-3",), ("many",)):
    ran = run("a b", *arguments)
    if ran.returncode != 2 or ran.stdout or not ran.stderr:
        wrong.append(f"wrong with the arguments {arguments}")
sys.exit("\n".join(wrong) or 0)
