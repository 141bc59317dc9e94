"""Scenarios, benchmarks and custom scorers as they are kept and changed."""

from pathlib import Path
from typing import Any

import pytest

from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.engine import Engine
from benchyard.engine.ids import random_id
from benchyard.errors import Conflict, Forbidden, NotFound, UsageError
from benchyard.models.benchmarks import BenchmarkChange, BenchmarkRequest, BenchmarkScenariosChange
from benchyard.models.pages import Query
from benchyard.models.scenarios import CustomScorerRequest, Scenario, ScenarioChange, ScenarioRequest
from tests.engine.yard import run

COMMAND = {"type": "command_scorer", "command": "true"}


def request(name: str = "one", scorer: dict[str, Any] | None = None, **fields: Any) -> ScenarioRequest:
    function = {"name": "scorer", "weight": 1.0, "scorer": scorer or COMMAND}
    body = {
        "name": name,
        "input_context": {"problem_statement": "do it"},
        "scoring_contract": {"scoring_function_parameters": [function]},
        **fields,
    }
    return ScenarioRequest.model_validate(body)


async def made(engine: Engine, **fields: Any) -> Scenario:
    return await engine.scenarios.create(Caller(random_id("scn_")), request(**fields))


def test_a_change_keeps_the_id_and_counts_the_revision(tmp_path: Path) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        first = await made(engine, metadata={"a": "b"}, reference_output="patch")
        assert first.revision == 1
        same = await engine.scenarios.update(first.id, ScenarioChange(name="one"))
        assert same.revision == 1
        await engine.scenarios.freeze(first)
        change = ScenarioChange.model_validate(
            {"input_context": {"problem_statement": "do it well"}, "metadata": {}, "reference_output": ""}
        )
        second = await engine.scenarios.update(first.id, change)
        assert (second.id, second.revision) == (first.id, 2)
        assert (second.metadata, second.reference_output) == ({}, None)
        assert (await engine.scenarios.at(first.id, 1)).input_context.problem_statement == "do it"
        assert (await engine.scenarios.at(first.id, 2)).input_context.problem_statement == "do it well"
        with pytest.raises(NotFound):
            await engine.scenarios.at(first.id, 3)

    run(tmp_path, live)


def test_the_same_request_again_makes_nothing(tmp_path: Path) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        asked = Caller(random_id("scn_"), "hash")
        first = await engine.scenarios.create(asked, request())
        assert await engine.scenarios.create(asked, request()) == first
        with pytest.raises(UsageError, match="x-request-id"):
            await engine.scenarios.create(Caller(asked.id, "another"), request("two"))

    run(tmp_path, live)


def test_archived_scenarios_are_hidden_and_stay_as_they_are(tmp_path: Path) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        scenario = await made(engine)
        for _ in range(2):
            assert (await engine.scenarios.archive(scenario.id, is_archived=True)).status == "archived"
        with pytest.raises(Conflict, match="unarchive"):
            await engine.scenarios.update(scenario.id, ScenarioChange(name="two"))
        assert (await engine.scenarios.archive(scenario.id, is_archived=False)).status == "active"
        assert (await engine.scenarios.update(scenario.id, ScenarioChange(name="two"))).name == "two"

    run(tmp_path, live)


def test_public_definitions_cannot_be_changed(tmp_path: Path) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        scenario = await engine.scenarios.create(Caller(random_id("scn_")), request(), is_public=True)
        wanted = BenchmarkRequest(name="public", scenario_ids=[scenario.id])
        benchmark = await engine.benchmarks.create(Caller(random_id("bmd_")), wanted, is_public=True)
        with pytest.raises(Forbidden):
            await engine.scenarios.update(scenario.id, ScenarioChange(name="two"))
        with pytest.raises(Forbidden):
            await engine.scenarios.archive(scenario.id, is_archived=True)
        with pytest.raises(Forbidden):
            await engine.benchmarks.update(benchmark.id, BenchmarkChange(name="mine"))
        with pytest.raises(Forbidden):
            await engine.benchmarks.archive(benchmark.id, is_archived=True)
        # But anybody's benchmark may use its scenarios.
        own = BenchmarkRequest(name="own", scenario_ids=[scenario.id, (await made(engine)).id])
        assert len((await engine.benchmarks.create(Caller(random_id("bmd_")), own)).scenario_ids) == 2

    run(tmp_path, live)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"scorer": {"type": "no_such_scorer"}}, "there are: .*bash_script_scorer"),
        ({"scorer": {"command": "true"}}, "there are: .*bash_script_scorer"),
        ({"scorer": {"type": "python_script_scorer"}}, "python_script"),
        ({"scorer": {"type": "custom_scorer", "custom_scorer_type": "mine"}}, "register it"),
        ({"environment_parameters": {"blueprint_id": "bpt_none"}}, "no blueprint or image"),
        ({"environment_parameters": {"snapshot_id": "snp_none"}}, "no snapshot"),
        ({"environment_parameters": {"working_directory": "/a/../b"}}, r"`\.\.`"),
        ({"metadata": {"benchyard.scoring": "never"}}, "scoring_isolation"),
    ],
)
def test_invalid_scenario_is_refused_and_not_kept(tmp_path: Path, fields: dict[str, Any], told: str) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        with pytest.raises(UsageError, match=told):
            await made(engine, **fields)
        assert await engine.scenarios.records.all({"parent": "own"}) == []
        # And nothing becomes so later.
        good = await made(engine)
        if "scorer" in fields:
            function = {"name": "scorer", "weight": 1, "scorer": fields["scorer"]}
            fields["scoring_contract"] = {"scoring_function_parameters": [function]}
        with pytest.raises(UsageError, match=told):
            await engine.scenarios.update(good.id, ScenarioChange.model_validate(fields))
        assert await engine.scenarios.get(good.id) == good

    run(tmp_path, live, "native")


def test_an_update_may_say_more_about_scoring_and_forgets_nothing(tmp_path: Path) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        metadata = {"benchyard.scoring": "answer", "benchyard.answer_paths": '["out"]'}
        scenario = await made(engine, metadata=metadata)
        assert (scenario.scoring_isolation, scenario.answer_paths) == ("answer", ["out"])
        renamed = await engine.scenarios.update(scenario.id, ScenarioChange(name="two"))
        assert (renamed.scoring_isolation, renamed.answer_paths) == ("answer", ["out"])
        change = ScenarioChange(metadata={"benchyard.scoring": "live"})
        assert (await engine.scenarios.update(scenario.id, change)).scoring_isolation == "live"

    run(tmp_path, live)


def test_benchmarks_keep_their_order_and_have_names_of_their_own(tmp_path: Path) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        ids = [(await made(engine, name=f"s{at}")).id for at in range(5)]
        wanted = BenchmarkRequest(name="b", scenario_ids=[ids[3], ids[1], ids[3]])
        benchmark = await engine.benchmarks.create(Caller(random_id("bmd_")), wanted)
        assert benchmark.scenario_ids == [ids[3], ids[1]]
        change = BenchmarkScenariosChange(scenarios_to_add=[ids[0], ids[1]], scenarios_to_remove=[ids[3]])
        benchmark = await engine.benchmarks.change_scenarios(benchmark.id, change)
        assert (benchmark.scenario_ids, benchmark.revision) == ([ids[1], ids[0]], 2)
        assert (await engine.benchmarks.change_scenarios(benchmark.id, change)).revision == 2
        page = await engine.benchmarks.definitions(benchmark.id, Query(limit=1))
        assert ([each.id for each in page.items], page.has_more, page.total_count) == ([ids[1]], True, 2)
        page = await engine.benchmarks.definitions(benchmark.id, Query(limit=1, starting_after=ids[1]))
        assert ([each.id for each in page.items], page.has_more) == ([ids[0]], False)
        with pytest.raises(UsageError, match="starting_after"):
            await engine.benchmarks.definitions(benchmark.id, Query(starting_after=ids[3]))
        with pytest.raises(UsageError, match="there already"):
            await engine.benchmarks.create(Caller(random_id("bmd_")), BenchmarkRequest(name="b"))
        other = await engine.benchmarks.create(Caller(random_id("bmd_")), BenchmarkRequest(name="c"))
        with pytest.raises(UsageError, match="there already"):
            await engine.benchmarks.update(other.id, BenchmarkChange(name="b"))
        with pytest.raises(UsageError, match="no scenario"):
            await engine.benchmarks.update(other.id, BenchmarkChange(scenario_ids=["scn_none"]))
        cleared = await engine.benchmarks.update(
            benchmark.id, BenchmarkChange(scenario_ids=[], description="d")
        )
        assert (cleared.scenario_ids, cleared.description) == ([], "d")

    run(tmp_path, live)


def test_custom_scorers_have_types_of_their_own(tmp_path: Path) -> None:
    async def live(engine: Engine, _tools: EngineContext) -> None:
        scorers = engine.scorers
        first = CustomScorerRequest(type="mine", bash_script="echo 1.0")
        made_one = await scorers.create(Caller(random_id("scs_")), first)
        with pytest.raises(UsageError, match="there already"):
            await scorers.create(Caller(random_id("scs_")), first)
        assert (await scorers.update(made_one.id, first)).revision == 1
        changed = await scorers.update(made_one.id, CustomScorerRequest(type="mine", bash_script="echo 0"))
        assert (changed.revision, changed.bash_script) == (2, "echo 0")
        other = await scorers.create(Caller(random_id("scs_")), CustomScorerRequest(type="x", bash_script=""))
        with pytest.raises(UsageError, match="there already"):
            await scorers.update(other.id, first)
        scenario = await made(engine, scorer={"type": "custom_scorer", "custom_scorer_type": "mine"})
        assert scenario.revision == 1

    run(tmp_path, live)
