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
"""It is checked by the server itself, whenever a scorer is made."""
_SHOWN = 2000
"""Of the answer, letters that are kept with the result: its end."""


class Grader(Protocol):
    """What a module of `graders` has."""

    __name__: str
    MAIN: str
    MOST_BYTES: int

    def grade(self, answer_text: str, expected: Mapping[str, Any]) -> dict[str, float]:
        """The rewards by name; `MAIN` is one of them. Called in a worker only."""

    def check(self, expected: Mapping[str, Any]) -> None:
        """Raise ValueError unless this is what `grade` needs."""

    def text_of(self, content: bytes) -> str:
        """The text of an answer's file; nothing if there is none in it."""


class AnswerConfig(Model):
    """What these scorers are made of: the answer's file, and what is expected, as their grader has it."""

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
    """Grades the answer's file by the grader of its `Config`; one that cannot be read is wrong."""

    Config = AnswerConfig

    def __init__(self, config: AnswerConfig, context: ScoringContext) -> None:
        super().__init__(config, context)
        self._grader = config.grader

    async def score(self, room: Room) -> Verdict:
        path = self.config.path
        try:
            content = await room.fetch(path, self._grader.MOST_BYTES)
        except ScorerFailed as error:
            # What the agent left there is no file, or too large: that is an answer, and a wrong one.
            content, said = b"", error.message
        else:
            said = f"{path} is not there" if content is None else _told(path, content)
        name = self._grader.__name__.rpartition(".")[2]
        rewards: dict[str, float] = await self.context.call(
            GRADE, content or b"", {"grader": name, "expected": self.config.expected}
        )
        return Verdict(rewards[self._grader.MAIN], f"{said}\n{json.dumps(rewards)}\n", rewards=rewards)


def _is_large(expected: Mapping[str, Any]) -> bool:
    """Whether it is more JSON than is looked at; what comes behind the limit is not."""
    left = _MOST_EXPECTED_BYTES
    for piece in json.JSONEncoder(allow_nan=False).iterencode(expected):
        left -= len(piece)
        if left < 0:
            return True
    return False


def _told(path: str, content: bytes) -> str:
    """The end of an answer, for people who look at the result."""
    text = content[-4 * _SHOWN :].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"{path}: {text[-_SHOWN:].rstrip()}"
