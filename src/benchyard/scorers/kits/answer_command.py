"""The command by which scorers that grade as root run the answer, as the scenario's user."""

import json
from collections.abc import Iterable
from pathlib import Path

from benchyard.hosts.kits import Kit, Kits
from benchyard.scorers import base
from benchyard.scorers.kits import python_kit, pythons
from benchyard.scorers.standalone import answer_program, context_texts

NAME = "graded"
VARIABLE = "BENCHYARD_GRADED"
"""Variable that names the command to scorers."""
_USER, _WITHHELD = 'USER = "nobody"\n', "WITHHELD: list[str] = []\n"


async def kit(kits: Kits) -> Kit:
    """Return the Python kit that runs the command; nothing in the devbox can replace it."""
    return await python_kit.make(await pythons.choose(None), kits)


def program(interpreter: str, user: str, secrets: Iterable[str] = ()) -> bytes:
    """Return the command's file: run by `interpreter`, for this user, without the grader's variables.

    `secrets` names further variables of the grader to withhold.
    """
    text = Path(answer_program.__file__).read_text()
    withheld = [*context_texts.VARIABLES, base.FILE_VARIABLE, VARIABLE, *secrets]
    for line, value in ((_USER, f"USER = {json.dumps(user)}\n"), (_WITHHELD, f"WITHHELD = {withheld!r}\n")):
        if text.count(line) != 1:
            raise AssertionError(f"answer_program.py has no line {line!r}")
        text = text.replace(line, value)
    return f"#!{interpreter}\n{text}".encode()
