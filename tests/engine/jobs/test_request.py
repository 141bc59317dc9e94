"""Which scenarios a job is about, however its conditions are written."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from benchyard.engine.jobs.request import select_scenarios
from benchyard.errors import UsageError
from benchyard.models.jobs import Selection
from benchyard.models.scenarios import Scenario
from benchyard.testing.loop_probe import loop_probe
from benchyard.workers.workers import Workers
from tests.engine.jobs.test_plan import scenario

SIX = [scenario(number) for number in range(6)]


def long_ones(count: int) -> list[Scenario]:
    """That many scenarios with long names and labels."""
    labels = {"level": "a" * 1000, "tags": "a," * 9999}
    return [
        scenario(number).model_copy(update={"name": f"{'abcdefgh' * 11}{number}", "metadata": labels})
        for number in range(count)
    ]


def found(of: Sequence[Scenario] = SIX, **fields: Any) -> list[str]:
    """The ids that are chosen; the loop is not held up."""

    async def choose() -> list[str]:
        async with Workers() as workers:
            await workers.call("json:load", b"[]")
            with loop_probe() as probe:
                try:
                    chosen = await select_scenarios(list(of), Selection(**fields), workers.call)
                finally:
                    assert probe.slow == []
            return [each.id for each in chosen]

    return asyncio.run(choose())


def test_filters_know_names_ids_and_metadata() -> None:
    assert found(filters={"parity": "odd"}) == ["scn_1", "scn_3", "scn_5"]
    assert found(filters={"parity": "odd", "name": "name-[35]"}) == ["scn_3", "scn_5"]
    assert found(filters={"id": "scn_4"}) == ["scn_4"]
    with pytest.raises(UsageError, match="parity=none"):
        found(filters={"parity": "none"})


def test_a_part_by_ids_conditions_and_globs() -> None:
    assert found(where=["parity!=odd"]) == ["scn_0", "scn_2", "scn_4"]
    assert found(where=["name=name-1", "name=name-4"]) == ["scn_1", "scn_4"]
    assert found(where=["name~=3$ or id=scn_5"]) == ["scn_3", "scn_5"]
    assert found(include=["*-[0-3]"], exclude=["*-1"], limit=2) == ["scn_0", "scn_2"]
    assert found(scenario_ids=["scn_4", "scn_2"], exclude=["name-4"]) == ["scn_2"]
    with pytest.raises(UsageError, match="no scenario scn_9"):
        found(scenario_ids=["scn_9"])
    with pytest.raises(UsageError, match="parity is even, odd"):
        found(where=["parity=none"])
    with pytest.raises(UsageError, match="is not a condition"):
        found(where=["parity"])
    with pytest.raises(UsageError, match="is not a valid regular expression"):
        found(where=["name~=("])


@pytest.mark.parametrize(
    "fields",
    [
        {"where": ["name~=^((a|b|c|d|e|f|g|h)+)+$"]},
        {"include": [("*a" * 500)[:-6] + f"b{number:03}" for number in range(200)]},
        {"where": ["name=" + "hgfedcba" * 12]},
        {"where": [" or ".join(["tag=*x"] * 100)] * 50},
    ],
    ids=["expression", "globs", "a typing mistake", "labels"],
)
def test_nothing_that_a_client_writes_holds_the_loop_up(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        found(long_ones(300 if "tag" in str(fields) else 2000), **fields)
