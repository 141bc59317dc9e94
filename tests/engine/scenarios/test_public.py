"""What comes with the package: there from the first start, the same everywhere, and nobody's to change."""

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from benchyard.benchmarks import builtin_benchmarks
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.engine import Engine
from benchyard.engine.ids import random_id
from benchyard.engine.scenarios.benchmarks import BENCHMARK_PREFIX
from benchyard.engine.scenarios.public import ShippedBenchmarks, public_id
from benchyard.engine.scenarios.scenarios import SCENARIO_PREFIX
from benchyard.errors import Forbidden, NotFound
from benchyard.models.benchmarks import BenchmarkChange, BenchmarkRequest
from benchyard.models.scenarios import CustomScorerRequest, Scenario, ScenarioChange
from tests.engine.yard import opened, run

QUICKSTART = public_id(BENCHMARK_PREFIX, "quickstart")
FIX = public_id(SCENARIO_PREFIX, "quickstart/fix-a-bug")


def loader(engine: Engine) -> ShippedBenchmarks:
    return ShippedBenchmarks(engine.scorers, engine.scenarios, engine.benchmarks)


def copied(place: Path) -> Path:
    """A benchmark of its own that looks like the one we ship."""
    (source,) = builtin_benchmarks.folders()
    shutil.copytree(source, place)
    for file in place.rglob("*.yaml"):
        file.write_text(file.read_text().replace("name: quickstart", f"name: {place.name}"))
    return place


def test_a_new_server_has_it_and_its_scenarios_could_be_made_by_anybody(tmp_path: Path) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        quickstart = await engine.benchmarks.get(QUICKSTART)
        assert (quickstart.name, quickstart.is_public, quickstart.revision) == ("quickstart", True, 1)
        assert len(quickstart.scenario_ids) == 12
        assert FIX in quickstart.scenario_ids
        for id in quickstart.scenario_ids:
            scenario = await engine.scenarios.get(id)
            assert scenario.is_public
            await engine.scenarios.check(scenario)

    run(tmp_path, live)


def test_ids_are_the_same_everywhere() -> None:
    assert QUICKSTART == "bmd_tzaZvD3MfvR5Sr0rpUe5w"
    assert FIX == "scn_EH4gxLq99f3eRfQMxkwpQ"


def test_public_scenarios_cannot_be_changed(tmp_path: Path) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        with pytest.raises(Forbidden):
            await engine.scenarios.update(FIX, ScenarioChange(name="mine"))
        with pytest.raises(Forbidden):
            await engine.scenarios.archive(FIX, is_archived=True)
        with pytest.raises(Forbidden):
            await engine.benchmarks.update(QUICKSTART, BenchmarkChange(name="mine"))
        scorer = await engine.scorers.records.find_named("benchyard.expected-lines")
        assert scorer is not None
        for type in (scorer.type, "other"):
            with pytest.raises(Forbidden, match="server's own"):
                await engine.scorers.update(scorer.id, CustomScorerRequest(type=type, bash_script="echo 1"))
        request = CustomScorerRequest(type="benchyard.mine", bash_script="echo 1")
        with pytest.raises(Forbidden, match="server's own"):
            await engine.scorers.create(Caller(random_id("scs_")), request)

    run(tmp_path, live)


def test_a_second_start_writes_nothing_and_both_are_quick(tmp_path: Path) -> None:
    folder = copied(tmp_path / "ours")

    async def live() -> None:
        kept, took = [], []
        for _ in range(2):
            async with opened(tmp_path) as (engine, _tools):
                begin = time.process_time()
                await loader(engine).open([folder])
                took.append(time.process_time() - begin)
                kept.append({each.id: each for each in await engine.scenarios.records.all({})})
        assert kept[0] == kept[1]
        # Of the processor's time, which others on the machine cannot take; with room for a slow one.
        assert took[0] < 0.5
        assert took[1] < 0.1

    asyncio.run(live())


def test_changes_of_a_new_version_raise_the_revision(tmp_path: Path) -> None:
    folder = copied(tmp_path / "ours")

    async def scenario(engine: Engine, name: str) -> Scenario:
        return await engine.scenarios.get(public_id(SCENARIO_PREFIX, f"ours/{name}"))

    async def live(engine: Engine, _tools: EngineContext) -> None:
        await loader(engine).open([folder])
        first = await scenario(engine, "fix-a-bug")
        (folder / "fix-a-bug/problem.md").write_text("Something else.")
        await loader(engine).open([folder])
        second = await scenario(engine, "fix-a-bug")
        assert (second.id, second.revision) == (first.id, 2)
        assert second.create_time_ms == first.create_time_ms
        assert second.input_context.problem_statement == "Something else."
        assert (await engine.scenarios.at(first.id, 1)).input_context == first.input_context
        assert (await scenario(engine, "parse-a-log")).revision == 1

    run(tmp_path, live)


def test_a_scenario_that_a_new_version_has_not_is_archived_and_can_come_back(tmp_path: Path) -> None:
    folder = copied(tmp_path / "ours")
    file = folder / "benchmark.yaml"
    whole = file.read_text()
    id = public_id(SCENARIO_PREFIX, "ours/fix-a-bug")

    async def live(engine: Engine, _tools: EngineContext) -> None:
        statuses = []
        for text in (whole, whole.replace("  - fix-a-bug\n", ""), whole):
            file.write_text(text)
            await loader(engine).open([folder])
            benchmark = await engine.benchmarks.get(public_id(BENCHMARK_PREFIX, "ours"))
            found = await engine.scenarios.get(id)
            statuses.append((found.status, found.revision, id in benchmark.scenario_ids, benchmark.revision))
        assert statuses == [("active", 1, True, 1), ("archived", 1, False, 2), ("active", 1, True, 3)]

    run(tmp_path, live)


def test_a_name_that_is_taken_does_not_keep_the_server_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = copied(tmp_path / "ours")

    async def live(engine: Engine, _tools: EngineContext) -> None:
        mine = await engine.benchmarks.create(Caller(random_id("bmd_")), BenchmarkRequest(name="ours"))
        await loader(engine).open([folder])
        assert "ours was not loaded: a benchmark named 'ours' is there already" in caplog.text
        assert (await engine.benchmarks.records.find_named("ours")) == mine
        with pytest.raises(NotFound):
            await engine.benchmarks.get(public_id(BENCHMARK_PREFIX, "ours"))

    run(tmp_path, live)
