"""What scorers are told, and how it fits into a variable."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchyard.errors import ScorerFailed
from benchyard.scorers import base
from benchyard.scorers.base import AS_USUAL, ProgramOptions, Room, RoomResult, ScoringContext
from benchyard.scorers.standalone import context_texts

LIMIT = 128 * 1024
ANY_TEXT = st.text(st.characters(), max_size=50)


class Shelf(Room):
    """A room in which files are kept, and nothing runs."""

    def __init__(self) -> None:
        self.working_directory = "/"
        self.kept: dict[str, bytes] = {}

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        raise NotImplementedError

    async def keep(self, name: str, content: bytes) -> str:
        self.kept[f"/kept/{name}"] = content
        return f"/kept/{name}"

    async def clear(self, folder: str, user: str | None = None) -> None:
        raise NotImplementedError

    async def fetch(self, path: str, limit: int) -> bytes | None:
        raise NotImplementedError

    async def run(self, argv: Sequence[str], how: ProgramOptions = AS_USUAL) -> RoomResult:
        raise NotImplementedError


def told(facts: Mapping[str, object], params: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
    """What the variable and the file say."""
    shelf = Shelf()
    found = asyncio.run(base.scorer_environment(shelf, ScoringContext(facts), params))
    assert found["RL_SCORER_CONTEXT"] == found["RL_TEST_CONTEXT"]
    for name, value in found.items():
        assert len(f"{name}={value}".encode()) < LIMIT
        assert "\0" not in value
    return json.loads(found["RL_SCORER_CONTEXT"]), json.loads(
        shelf.kept[found["BENCHYARD_SCORER_CONTEXT_FILE"]]
    )


def test_parameters_stand_at_the_root_and_facts_below() -> None:
    whole = {"limit": 5, "benchyard": {"problem_statement": "Do.", "duration_seconds": 1.5}}
    assert told({"problem_statement": "Do.", "duration_seconds": 1.5}, {"limit": 5}) == (whole, whole)
    assert told({}) == ({"benchyard": {}}, {"benchyard": {}})


@settings(deadline=None)
@given(ANY_TEXT, st.integers(0, 20_000), st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=3))
def test_long_statements_are_cut_to_what_fits(text: str, times: int, params: dict[str, str]) -> None:
    params.pop("benchyard", None)
    shown, whole = told({"problem_statement": text * times, "cost": 1}, params)
    assert whole == {**params, "benchyard": {"problem_statement": text * times, "cost": 1}}
    if shown != whole:
        facts = shown["benchyard"]
        assert facts["problem_statement_truncated"] is True
        assert (text * times).startswith(facts["problem_statement"])
        assert len(context_texts.encode(shown).encode()) > context_texts.MOST_VARIABLE_BYTES - 10
        assert {**shown, "benchyard": None} == {**params, "benchyard": None}


def test_facts_that_do_not_fit_are_in_the_file_only() -> None:
    shown, whole = told({"problem_statement": "Do.", "trace": "x" * LIMIT}, {"limit": 5})
    assert shown == {"limit": 5, "benchyard": {"truncated": True}}
    assert len(whole["benchyard"]["trace"]) == LIMIT


def test_facts_that_json_cannot_say_are_an_error_of_the_scorer() -> None:
    with pytest.raises(ScorerFailed, match="cannot be passed to a scorer"):
        told({"cost": float("nan")})
