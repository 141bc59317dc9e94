"""Whose failure it is that a scorer gave no score."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from benchyard.engine.runs.scorer_failures import (
    ReferenceVerdict,
    ScorerFailure,
    failed_result,
    judge_by_reference,
    try_scorer,
)
from benchyard.engine.runs.scoring_room import GradingRoom
from benchyard.errors import (
    DevboxGone,
    DiskFull,
    ImageError,
    ScorerFailed,
    StartFailed,
    StillWaiting,
    UsageError,
)
from benchyard.models.runs import ContractResult
from benchyard.models.scenarios import ScoringFunction
from benchyard.scorers.base import Scorer, Verdict

GOOD = Verdict(1.0)
FUNCTION = ScoringFunction(name="one", weight=1.0, scorer={"type": "command_scorer", "command": "true"})


class OnMachine(GradingRoom):
    """A stage on a machine that is sound, or not."""

    def __init__(self, *, is_sound: bool) -> None:
        self.is_sound = is_sound
        self.asked = 0

    async def grade(self, scorer: Scorer[Any]) -> Verdict:
        raise AssertionError("it is graded by the test")

    async def has_sound_machine(self) -> bool:
        self.asked += 1
        return self.is_sound


def graded(
    ends: Sequence[Verdict | Exception], *, is_sound: bool = True
) -> tuple[Verdict | ScorerFailure, int]:
    """What comes out for a scorer that ends so, one try after the other, and how often it was tried."""
    stage, tries = OnMachine(is_sound=is_sound), iter(ends)
    count = 0

    async def grade() -> Verdict:
        nonlocal count
        count += 1
        end = next(tries)
        if isinstance(end, Exception):
            raise end
        return end

    return asyncio.run(try_scorer(grade, stage, 10.0, "scorer 'one'")), count


def test_a_second_try_counts_where_the_first_failed() -> None:
    assert graded([ScorerFailed("oops"), GOOD]) == (GOOD, 2)


@pytest.mark.parametrize(
    "error",
    [
        ScorerFailed("no score"),
        TimeoutError(),
        DevboxGone("the devbox ended"),
        StartFailed("it did not come up"),
        StillWaiting("it was killed, but has not ended"),
        UsageError("the name of a user that is none"),
        AttributeError("a mistake of a scorer"),
        RecursionError(),
    ],
)
def test_failures_that_an_answer_can_cause_are_judged_by_the_reference(error: Exception) -> None:
    failure, tries = graded([error, error])
    assert isinstance(failure, ScorerFailure)
    assert (failure.cause, tries) == (None, 2)


@pytest.mark.parametrize("error", [DiskFull("full"), OSError(5, "no"), ImageError("an image is gone")])
def test_failures_of_the_machine_are_tried_again_and_blamed_on_it(error: Exception) -> None:
    failure, tries = graded([error, error])
    assert isinstance(failure, ScorerFailure)
    assert (failure.cause, tries) == ("machine", 2)
    assert graded([error, GOOD]) == (GOOD, 2)


def test_failure_of_the_machine_does_not_count_against_the_answer() -> None:
    assert graded([DiskFull("full"), ScorerFailed("oops"), GOOD]) == (GOOD, 3)
    failure, tries = graded([ScorerFailed("oops"), DiskFull("full"), ScorerFailed("oops again")])
    assert (failure, tries) == (ScorerFailure("oops again"), 3)


@pytest.mark.parametrize("error", [DevboxGone("gone"), StartFailed("it did not come up")])
def test_a_devbox_that_fails_on_a_broken_machine_is_the_machines(error: Exception) -> None:
    failure, _ = graded([error, error], is_sound=False)
    assert isinstance(failure, ScorerFailure)
    assert failure.cause == "machine"
    assert "nor did a devbox without the answer come up" in failure.reason


def test_failures_that_no_answer_can_cause_are_not_tried_again() -> None:
    failure, tries = graded([ScorerFailed("there is no such attachment", cause="scorer")])
    assert (failure, tries) == (ScorerFailure("there is no such attachment", cause="scorer"), 1)


def result(*failures: ScorerFailure) -> ContractResult:
    return ContractResult(
        score=0.0, scoring_function_results=[failed_result(FUNCTION, each) for each in failures]
    )


def test_the_reference_tells_the_answers_failures_from_the_scorers() -> None:
    found = judge_by_reference(
        result(ScorerFailure("a", "said\n"), ScorerFailure("b")), ReferenceVerdict({1: "b too"})
    )
    answer, scorer = found.scoring_function_results
    assert (answer.state, answer.cause, answer.score) == ("complete", "answer", 0.0)
    assert answer.output.startswith("said\n[benchyard] a\n[benchyard] the reference does not")
    assert (scorer.state, scorer.cause) == ("error", "scorer")
    assert "(b too)" in str(scorer.reason)
    assert found.answer_failure == f"scorer 'one': {answer.reason}"


def test_known_causes_stay_unchanged() -> None:
    (known,) = judge_by_reference(
        result(ScorerFailure("full", cause="machine")), ReferenceVerdict({})
    ).scoring_function_results
    assert (known.state, known.cause, known.reason) == ("error", "machine", "full")


def test_a_reference_that_could_not_be_tried_blames_nobody() -> None:
    (found,) = judge_by_reference(
        result(ScorerFailure("a")), ReferenceVerdict({}, unknown="no room")
    ).scoring_function_results
    assert (found.state, found.cause) == ("error", "machine")
    assert "no room" in str(found.reason)
