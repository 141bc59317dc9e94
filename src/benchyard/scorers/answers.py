"""Scorers that take an answer from one file and grade it in a worker: nothing runs in the room."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from benchyard.errors import ScorerFailed
from benchyard.models.base import Model
from benchyard.scorers import base
from benchyard.scorers.base import Room, Scorer, ScoringContext, Verdict

GRADE = "benchyard.scorers.standalone.parsers:grade"
_MOST_EXPECTED_BYTES = 64 * 1024
"""Most bytes of `expected` as JSON: the server itself checks it whenever a scorer is made."""
_SHOWN = 2000
"""Most letters of the answer's end that are kept with the result."""


class Grader(Protocol):
    """Interface of the modules of `graders`."""

    __name__: str
    MAIN: str
    MOST_BYTES: int

    def grade(self, answer_text: str, expected: Mapping[str, Any]) -> dict[str, float]:
        """Return the rewards by name; `MAIN` is one of them. Called in a worker only."""

    def check(self, expected: Mapping[str, Any]) -> None:
        """Raise ValueError unless `expected` has the fields that `grade` needs."""


class AnswerConfig(Model):
    """Fields of these scorers: the answer's file, and the expected values in the form of their grader."""

    grader: ClassVar[Grader]
    path: base.FilePath
    expected: dict[str, Any]

    @model_validator(mode="after")
    def _is_usable(self) -> "AnswerConfig":
        try:
            if _is_large(self.expected):
                raise PydanticCustomError("too_large", "expected: must be at most 64 KiB of JSON")
            self.grader.check(self.expected)
        except (ValueError, RecursionError) as error:
            if isinstance(error, PydanticCustomError):
                raise
            raise PydanticCustomError("expected", "expected: {error}", {"error": str(error)}) from error
        return self


class GradedAnswer(Scorer[AnswerConfig]):
    """Grades the answer's file by the grader of its `Config`; an unreadable file is wrong."""

    Config = AnswerConfig

    def __init__(self, config: AnswerConfig, context: ScoringContext) -> None:
        super().__init__(config, context)
        self._grader = config.grader

    async def score(self, room: Room) -> Verdict:
        path = self.config.path
        try:
            content = await room.fetch(path, self._grader.MOST_BYTES)
        except ScorerFailed as error:
            # The agent left no plain file there, or a file that is too large: a wrong answer.
            content, said = b"", error.message
        else:
            said = f"{path} is not there" if content is None else _end_of_answer(path, content)
        name = self._grader.__name__.rpartition(".")[2]
        rewards: dict[str, float] = await self.context.call(
            GRADE, content or b"", {"grader": name, "expected": self.config.expected}
        )
        return Verdict(rewards[self._grader.MAIN], f"{said}\n{json.dumps(rewards)}\n", rewards=rewards)


def class_of(module: Grader) -> type[GradedAnswer]:
    """Return the scorer of a module of `graders`."""

    class Config(AnswerConfig):
        """Fields of the scorer; the module defines `expected`."""

        grader: ClassVar[Grader] = module

    scorer: type[GradedAnswer] = type("GradedAnswer", (GradedAnswer,), {"Config": Config})
    return scorer


def _is_large(expected: Mapping[str, Any]) -> bool:
    """Tell whether a value is too large as JSON; encodes no further than the limit."""
    left = _MOST_EXPECTED_BYTES
    for piece in json.JSONEncoder(allow_nan=False).iterencode(expected):
        left -= len(piece)
        if left < 0:
            return True
    return False


def _end_of_answer(path: str, content: bytes) -> str:
    """Return the end of an answer, for people who look at the result."""
    text = content[-4 * _SHOWN :].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"{path}: {text[-_SHOWN:].rstrip()}"
