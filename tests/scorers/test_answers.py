"""Scorers that grade one file on the host keep the contract, and grade whatever is in the file's place."""

import asyncio

import pytest

from benchyard.errors import UsageError
from benchyard.scorers import catalog
from benchyard.scorers.base import ScoringContext, Verdict
from benchyard.testing.contracts.driver_fixture import DriverFixture, contract
from benchyard.testing.contracts.scorer import GradingCase, ScorerContract, ScoringRoom

ACCEPTED = {
    "aime_scorer": {"answer": 73},
    "gpqa_scorer": {"letter": "B"},
    "arc_scorer": {"task_id": "t", "outputs": [[[1, 2], [3, 4]]]},
    "replication_scorer": {"values": {"t": 5.0}, "tolerances": {"t": 0.5}},
}


class TestReplication(ScorerContract):
    """One for all: they differ by their graders only."""

    type = "replication_scorer"

    def passes(self) -> GradingCase:
        return self._case('{"t": 5.25}', 1.0)

    def fails(self) -> GradingCase:
        return self._case('{"t": 6}', 0.0)

    def _case(self, answer: str, score: float) -> GradingCase:
        expected = {"values": {"t": 5.0}, "tolerances": {"t": 0.5}}
        return GradingCase({"path": "answer", "expected": expected}, {"answer": answer}, score)

    @contract()
    async def test_time_that_is_over_is_an_error(self, yard: DriverFixture) -> None:
        """Nothing runs, so no time can be over."""
        assert await self.scores(yard, self.passes(), seconds=0.0) == [1.0]

    async def _graded(self, yard: DriverFixture, command: str) -> Verdict:
        """The verdict on what a command left in the answer's place."""
        room = ScoringRoom(yard, await yard.devbox())
        ran = await room.run(["/bin/sh", "-c", command])
        assert ran.exit_status == 0, ran
        return await self.scorer(self.passes()).score(room)

    @contract()
    async def test_any_other_file_in_place_of_the_answer_is_wrong(self, yard: DriverFixture) -> None:
        for command in (
            "true",
            "mkdir answer",
            "ln -s answer answer",
            "ln -s /nowhere answer",
            "mkfifo answer",
            "ln -s /dev/zero answer",
            "head -c 2000000 /dev/zero > answer",
            'printf \'{"t": "\\377"}\' > answer',
            "printf '\\000' > answer",
            ": > answer",
        ):
            async with asyncio.timeout(60):
                verdict = await self._graded(yard, command)
            assert (verdict.score, verdict.rewards) == (0.0, {"task_fraction": 0.0, "task.t": 0.0}), command
            assert "\0" not in verdict.output

    @contract()
    async def test_the_result_keeps_what_was_answered_and_every_reward(self, yard: DriverFixture) -> None:
        verdict = await self._graded(yard, "printf '%s' '{\"t\": 5.5}' > answer")
        assert verdict.output == 'answer: {"t": 5.5}\n{"task_fraction": 1.0, "task.t": 1.0}\n'
        assert verdict.rewards == {"task_fraction": 1.0, "task.t": 1.0}
        long = await self._graded(yard, "head -c 100000 /dev/zero | tr '\\000' x > answer")
        assert len(long.output) < 3000


def test_invalid_expected_answer_is_refused_at_creation() -> None:
    for type, right in ACCEPTED.items():
        assert (
            catalog.parse(type, {"path": "answer", "expected": right}, ScoringContext()).config.expected
            == right
        )
    refused: list[tuple[str, dict[str, object]]] = [
        ("aime_scorer", {"answer": 1000}),
        ("gpqa_scorer", {"letter": "E"}),
        ("arc_scorer", {"task_id": "t", "outputs": []}),
        ("replication_scorer", {"values": {}, "tolerances": {}}),
        ("replication_scorer", {"values": {"t": float("nan")}, "tolerances": {}}),
        ("replication_scorer", {"values": {"t": "x" * 1024**2}, "tolerances": {}}),
    ]
    for type, expected in refused:
        with pytest.raises(UsageError, match="expected"):
            catalog.parse(type, {"path": "answer", "expected": expected}, ScoringContext())
    with pytest.raises(UsageError, match="path"):
        catalog.parse("aime_scorer", {"path": "../x", "expected": {"answer": 1}}, ScoringContext())
