"""Runs the program that is graded in processes of their own, and compares what they print here."""

import ctypes
import json
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


def ran(cases):
    """What the program does with each text and arguments: one process each, by one command for all of them."""
    asked = subprocess.run(
        [GRADED, "--seconds", "20", "--cases", "python3", "-I", "wrap.py"],
        input=json.dumps([{"stdin": text, "arguments": arguments} for text, arguments in cases]),
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    return json.loads(asked.stdout)


chance = random.Random(11)
cases = [("", 10), ("one", 1), ("a b  c\n\n\nd\n", 3), ("\n\n  extraordinary  \n", 5)]
for _ in range(8):
    words = ["x" * chance.randrange(1, 15) for _ in range(chance.randrange(1, 60))]
    cases.append(("".join(word + chance.choice([" ", "  ", "\n", "\n\n"]) for word in words), chance.randrange(1, 30)))
refused = [[], ["0"], ["-3"], ["many"]]
said = ran([(text, [str(width)]) for text, width in cases] + [("a b", arguments) for arguments in refused])
wrong = []
for (text, width), each in zip(cases, said):
    if each["exit_status"] != 0 or each["stdout"].rstrip("\n") != expected(text, width):
        wrong.append(f"wrong with a width of {width}: {text!r}")
for arguments, each in zip(refused, said[len(cases) :], strict=True):
    if each["exit_status"] != 2 or each["stdout"] or not each["stderr"]:
        wrong.append(f"wrong with the arguments {arguments}")
sys.exit("\n".join(wrong) or 0)
