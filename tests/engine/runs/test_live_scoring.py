"""A `live` scoring whose devbox cannot be made ready is tried twice, and then judged."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from benchyard.engine.runs.scorer_failures import is_undecided
from benchyard.engine.runs.scoring import Scoring
from benchyard.engine.runs.scoring_room import CleanRoom, RoomContext
from benchyard.errors import ScorerFailed, StillWaiting
from benchyard.models.runs import ScorerResult
from tests.engine.runs.test_results import a_scenario

GOOD = ScorerResult(scoring_function_name="one", weight=1.0, score=1.0, state="complete", output="")


class Unready(Scoring):
    """Scorings in a devbox in which something goes wrong before the scorers begin."""

    def __init__(self, *ends: Exception) -> None:
        self._tools: Any = SimpleNamespace(host=SimpleNamespace(with_disk=lambda: {"dbx_1"}))
        self._ends = list(ends)
        self.tries = 0

    async def _inside(self, context: RoomContext) -> list[ScorerResult]:
        self.tries += 1
        if self._ends:
            raise self._ends.pop(0)
        return [GOOD]


def scored(scoring: Scoring) -> list[ScorerResult]:
    case = SimpleNamespace(
        devbox=SimpleNamespace(id="dbx_1"),
        kept=None,
        image_id="run_1",
        scenario=a_scenario(),
        scorer_seconds=10.0,
    )
    context: Any = SimpleNamespace(case=case)
    return asyncio.run(scoring._in_its_devbox(context))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether a fresh devbox comes up."""
    state = {"is_sound": True}

    async def has_sound_machine(_: CleanRoom) -> bool:
        return state["is_sound"]

    monkeypatch.setattr(CleanRoom, "has_sound_machine", has_sound_machine)
    return state


SLOW = StillWaiting("execution x was killed, but has not ended")


def test_it_is_tried_again(machine: dict[str, bool]) -> None:
    assert machine["is_sound"]
    scoring = Unready(SLOW)
    assert (scored(scoring), scoring.tries) == ([GOOD], 2)


def test_after_two_tries_the_reference_decides(machine: dict[str, bool]) -> None:
    assert machine["is_sound"]
    scoring = Unready(SLOW, SLOW)
    results = scored(scoring)
    assert results
    assert all(map(is_undecided, results))
    assert "has not ended" in str(results[0].reason)
    assert scoring.tries == 2


def test_on_a_broken_machine_it_is_the_machines(machine: dict[str, bool]) -> None:
    machine["is_sound"] = False
    with pytest.raises(StillWaiting):
        scored(Unready(SLOW, SLOW))


def test_what_is_known_to_be_the_machines_stays_so(machine: dict[str, bool]) -> None:
    assert machine["is_sound"]
    with pytest.raises(ScorerFailed, match="a policy"):
        scored(Unready(ScorerFailed("a policy is missing", cause="machine")))
