"""Benchmarks and their runs through the official client."""

import io
import uuid
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from runloop_api_client import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    Runloop,
    RunloopSDK,
)
from runloop_api_client.types import BenchmarkRunView, BenchmarkView, ScenarioView

from benchyard.testing.server import RunningServer
from tests.publishing import publish
from tests.sdk.scenes import QUICK, benchmark, points, scenario, scored, solve, started, unique


@pytest.fixture(scope="module")
def trio(client: Runloop) -> list[ScenarioView]:
    """Three scenarios that the benchmarks here are made of."""
    return [scenario(client, f"trio-{index}") for index in range(3)]


def ids(views: Any) -> list[str]:
    return [view.id for view in views]


def plain(client: Runloop, path: str) -> Any:
    return client.get(path, cast_to=object)


def pending(client: Runloop, id: str) -> Any:
    return client.benchmark_runs.retrieve(id).to_dict()["pending_scenarios"]


def test_a_benchmark_comes_back_as_it_was_made(client: Runloop, trio: list[ScenarioView]) -> None:
    wanted: dict[str, Any] = {
        "name": unique("Bank ✓"),
        "attribution": "nobody",
        "description": "three\nsmall ones",
        "metadata": {"kind": "test"},
        "required_environment_variables": ["A"],
        "required_secret_names": ["B"],
    }
    made = client.benchmarks.create(**wanted, scenario_ids=ids(trio))
    found = client.benchmarks.retrieve(made.id)
    assert found == made
    assert made.id.startswith("bmd_")
    assert (found.scenario_ids, found.status, found.is_public) == (ids(trio), "active", False)
    assert {name: found.to_dict()[name] for name in wanted} == wanted
    assert found.to_dict()["scenarioIds"] == ids(trio)


def test_an_update_keeps_what_is_null_and_clears_what_is_empty(
    client: Runloop, trio: list[ScenarioView]
) -> None:
    made = benchmark(client, *ids(trio), description="old", metadata={"a": "1"})
    changed = client.benchmarks.update(made.id, name=None, description="", metadata={})
    assert (changed.name, changed.description, changed.metadata) == (made.name, None, {})
    assert changed.scenario_ids == ids(trio)
    other = client.benchmarks.update(made.id, scenario_ids=[trio[2].id], name=unique("renamed"))
    assert (other.scenario_ids, other.name != made.name) == ([trio[2].id], True)
    assert client.benchmarks.update(made.id, scenario_ids=[]).scenario_ids == []


def test_scenarios_are_added_and_taken_out(client: Runloop, trio: list[ScenarioView]) -> None:
    a, b, c = ids(trio)
    made = benchmark(client, a)
    change = client.benchmarks.update_scenarios
    assert change(made.id, scenarios_to_add=[b, c, b]).scenario_ids == [a, b, c]
    assert change(made.id, scenarios_to_add=[a], scenarios_to_remove=[b]).scenario_ids == [a, c]
    assert change(made.id, scenarios_to_remove=["scn_never_there"]).scenario_ids == [a, c]
    assert change(made.id).scenario_ids == [a, c]
    with pytest.raises(BadRequestError, match="scn_none"):
        change(made.id, scenarios_to_add=[b, "scn_none"])
    assert client.benchmarks.retrieve(made.id).scenario_ids == [a, c]


def test_definitions_are_paged_in_the_benchmarks_own_order(client: Runloop, trio: list[ScenarioView]) -> None:
    wanted = ids(reversed(trio))
    made = benchmark(client, *wanted)
    whole = client.benchmarks.definitions(made.id)
    assert (ids(whole.scenarios), whole.has_more, whole.total_count) == (wanted, False, 3)
    first = client.benchmarks.definitions(made.id, limit=2)
    assert (ids(first.scenarios), first.has_more) == (wanted[:2], True)
    rest = client.benchmarks.definitions(made.id, limit=2, starting_after=wanted[1])
    assert (ids(rest.scenarios), rest.has_more) == (wanted[2:], False)
    assert sorted(ids(client.scenarios.list(benchmark_id=made.id))) == sorted(wanted)
    with pytest.raises(BadRequestError, match="starting_after"):
        client.benchmarks.definitions(made.id, starting_after="scn_none")


def test_lists_are_searched_filtered_and_paged(client: Runloop) -> None:
    mark = unique("mark")
    made = [
        client.benchmarks.create(name=f"{mark}-{index}", metadata={"mark": mark, "n": str(index)})
        for index in range(5)
    ]
    newest = list(reversed(ids(made)))
    assert ids(client.benchmarks.list(search=mark, limit=2)) == newest
    assert ids(client.benchmarks.list(search=made[1].id)) == [made[1].id]
    assert ids(client.benchmarks.list(name=made[4].name)) == [made[4].id]
    narrow = {"metadata[mark]": mark, "metadata[n]": "3"}
    assert ids(client.benchmarks.list(extra_query=narrow)) == [made[3].id]
    page = client.benchmarks.list(search=mark, limit=3)
    assert (ids(page.benchmarks), page.has_more, page.total_count) == (newest[:3], True, 5)
    assert ids(client.benchmarks.list_public(search=mark)) == []
    assert mark in plain(client, "/v1/benchmarks/metadata/keys/mark/values")["values"]
    assert "mark" in plain(client, "/v1/benchmarks/metadata/keys")["keys"]


def test_public_benchmarks_are_listed_separately_and_cannot_be_changed(
    client: Runloop, server: RunningServer
) -> None:
    shown = scenario(client, "public")
    made = benchmark(client, shown.id)
    publish(server, scenarios=[shown.id], benchmarks=[made.id])
    assert ids(client.benchmarks.list_public(name=made.name)) == [made.id]
    assert ids(client.scenarios.list_public(search=shown.id)) == [shown.id]
    assert ids(client.benchmarks.list(name=made.name)) == ids(client.scenarios.list(name=shown.name)) == []
    assert client.benchmarks.retrieve(made.id).is_public
    changes: list[Callable[[], object]] = [
        lambda: client.benchmarks.update(made.id, name="mine"),
        lambda: client.benchmarks.update_scenarios(made.id, scenarios_to_remove=[shown.id]),
        lambda: client.post(f"/v1/benchmarks/{made.id}/archive", cast_to=object),
        lambda: client.scenarios.update(shown.id, name="mine"),
        lambda: client.scenarios.archive(shown.id),
    ]
    for refused in changes:
        with pytest.raises(PermissionDeniedError, match="is public and cannot be changed"):
            refused()
    own = scenario(client)
    mixed = benchmark(client, shown.id, own.id)
    assert ids(client.benchmarks.definitions(mixed.id).scenarios) == [shown.id, own.id]
    run = client.benchmarks.start_run(benchmark_id=made.id)
    child = started(client, shown.id, benchmark_run_id=run.id)
    solve(client, child)
    assert points(scored(client, child.id)) == 1.0
    assert client.benchmark_runs.complete(run.id).score == 1.0


def test_an_archived_benchmark_is_hidden_and_not_run(client: Runloop, trio: list[ScenarioView]) -> None:
    made = benchmark(client, *ids(trio))
    archived = client.post(f"/v1/benchmarks/{made.id}/archive", cast_to=BenchmarkView)
    assert archived.status == "archived"
    assert ids(client.benchmarks.list(name=made.name)) == []
    assert client.benchmarks.retrieve(made.id).status == "archived"
    with pytest.raises(BadRequestError, match="archived; unarchive it"):
        client.benchmarks.start_run(benchmark_id=made.id)
    assert client.benchmark_runs.list(benchmark_id=made.id).runs == []
    back = client.post(f"/v1/benchmarks/{made.id}/unarchive", cast_to=BenchmarkView)
    assert (back.status, ids(client.benchmarks.list(name=made.name))) == ("active", [made.id])


def test_a_run_counts_what_was_scored_and_what_was_not(client: Runloop, trio: list[ScenarioView]) -> None:
    made = benchmark(client, *ids(trio))
    run = client.benchmarks.start_run(benchmark_id=made.id, run_name="evaluation", metadata={"agent": "a"})
    assert run.id.startswith("bmr_")
    assert (run.benchmark_id, run.state, run.name, run.metadata) == (
        made.id,
        "running",
        "evaluation",
        {"agent": "a"},
    )
    assert run.to_dict()["pending_scenarios"] == ids(trio)
    first = started(client, trio[0].id, benchmark_run_id=run.id)
    solve(client, first)
    scored(client, first.id)
    second = started(client, trio[1].id, benchmark_run_id=run.id)
    assert first.benchmark_run_id == second.benchmark_run_id == run.id
    assert pending(client, run.id) == [trio[2].id]
    completed = client.benchmark_runs.complete(run.id)
    assert (completed.state, completed.score) == ("completed", 0.5)
    assert client.scenarios.runs.retrieve(first.id).state == "completed"
    assert client.scenarios.runs.retrieve(second.id).state == "canceled"
    assert {client.devboxes.retrieve(each.devbox_id).status for each in (first, second)} == {"shutdown"}
    assert client.benchmark_runs.complete(run.id) == completed
    assert client.benchmark_runs.cancel(run.id).state == "completed"
    with pytest.raises(BadRequestError, match="is completed; start another"):
        client.scenarios.start_run(scenario_id=trio[2].id, benchmark_run_id=run.id)


def test_a_cancelled_run_has_the_score_of_what_was_scored(client: Runloop, trio: list[ScenarioView]) -> None:
    made = benchmark(client, *ids(trio))
    run = client.benchmarks.start_run(benchmark_id=made.id)
    first = started(client, trio[0].id, benchmark_run_id=run.id)
    solve(client, first)
    scored(client, first.id)
    other = client.scenarios.start_run(scenario_id=trio[1].id, benchmark_run_id=run.id)
    canceled = client.benchmark_runs.cancel(run.id)
    assert (canceled.state, canceled.score) == ("canceled", 0.5)
    assert client.scenarios.runs.retrieve(other.id).state == "canceled"
    assert points(client.scenarios.runs.retrieve(first.id)) == 1.0
    assert client.benchmark_runs.cancel(run.id) == canceled
    with pytest.raises(ConflictError, match="is canceled"):
        client.benchmark_runs.complete(run.id)


def test_a_run_without_scenario_runs_has_no_score(client: Runloop) -> None:
    run = client.benchmarks.start_run(benchmark_id=benchmark(client).id)
    assert client.benchmark_runs.complete(run.id).score is None


def test_runs_and_their_scenario_runs_are_listed(client: Runloop, trio: list[ScenarioView]) -> None:
    made = benchmark(client, *ids(trio))
    runs = [client.benchmarks.start_run(benchmark_id=made.id, run_name=unique("r")) for _ in range(3)]
    client.benchmark_runs.cancel(runs[0].id)
    newest = list(reversed(ids(runs)))
    assert ids(client.benchmark_runs.list(benchmark_id=made.id, limit=2)) == newest
    running = client.benchmark_runs.list(benchmark_id=made.id, state="running")
    assert ids(running) == newest[:2]
    assert ids(client.benchmark_runs.list(name=runs[1].name or "")) == [runs[1].id]
    assert ids(client.benchmark_runs.list(search=runs[2].id)) == [runs[2].id]
    assert [each["id"] for each in plain(client, f"/v1/benchmarks/{made.id}/runs")["runs"]] == newest
    children = [client.scenarios.start_run(scenario_id=each.id, benchmark_run_id=runs[1].id) for each in trio]
    client.scenarios.runs.cancel(children[0].id)
    of = client.benchmark_runs.list_scenario_runs
    assert ids(of(runs[1].id, limit=1)) == list(reversed(ids(children)))
    assert ids(of(runs[1].id, state="canceled")) == [children[0].id]
    assert ids(client.scenarios.runs.list(benchmark_run_id=runs[1].id, limit=2)) == list(
        reversed(ids(children))
    )
    for run in runs[1:]:
        client.benchmark_runs.cancel(run.id)


def test_older_paths_of_runs_answer_the_same(client: Runloop, trio: list[ScenarioView]) -> None:
    made = benchmark(client, *ids(trio))
    run = client.benchmarks.start_run(benchmark_id=made.id)
    child = started(client, trio[0].id, benchmark_run_id=run.id)
    old = f"/v1/benchmarks/runs/{run.id}"
    assert plain(client, old) == plain(client, f"/v1/benchmark_runs/{run.id}")
    listed = plain(client, f"/v1/benchmarks/runs?benchmark_id={made.id}")
    assert listed == plain(client, f"/v1/benchmark_runs?benchmark_id={made.id}")
    assert [each["id"] for each in plain(client, f"{old}/scenario_runs")["runs"]] == [child.id]
    assert client.post(f"{old}/complete", cast_to=BenchmarkRunView).state == "completed"
    other = client.benchmarks.start_run(benchmark_id=made.id)
    gone = client.post(f"/v1/benchmarks/runs/{other.id}/cancel", cast_to=BenchmarkRunView)
    assert gone.state == "canceled"


def test_the_logs_of_all_scenario_runs_come_in_one_flat_zip(
    client: Runloop, trio: list[ScenarioView]
) -> None:
    made = benchmark(client, *ids(trio))
    run = client.benchmarks.start_run(benchmark_id=made.id)
    children = [started(client, each.id, benchmark_run_id=run.id) for each in trio[:2]]
    scored(client, children[0].id)
    client.benchmark_runs.complete(run.id)
    packed = io.BytesIO(raw(client, f"/v1/benchmark_runs/{run.id}/download_logs"))
    names = zipfile.ZipFile(packed).namelist()
    assert not [name for name in names if "/" in name]
    assert {f"{each.id}_run.json" for each in children} <= set(names)
    assert f"{children[0].id}_scorer-0-done.log" in names


def raw(client: Runloop, path: str) -> bytes:
    """The bytes that a path answers, whichever kind of client this is."""
    url, key = str(client.base_url).rstrip("/"), client.bearer_token
    return httpx.post(f"{url}{path}", headers={"authorization": f"Bearer {key}"}).content


def test_a_run_must_bring_what_the_benchmark_needs(client: Runloop, trio: list[ScenarioView]) -> None:
    secret = f"S_{uuid.uuid4().hex[:8]}"
    client.secrets.create(name=secret, value="v")
    made = benchmark(
        client, trio[0].id, required_environment_variables=["TOKEN"], required_secret_names=[secret]
    )
    start = client.benchmarks.start_run
    with pytest.raises(BadRequestError, match="needs the environment variables TOKEN"):
        start(benchmark_id=made.id)
    with pytest.raises(BadRequestError, match=f"needs the secrets {secret}"):
        start(benchmark_id=made.id, run_profile={"env_vars": {"TOKEN": "t"}})
    assert client.benchmark_runs.list(benchmark_id=made.id).runs == []
    run = start(benchmark_id=made.id, run_profile={"env_vars": {"TOKEN": "t"}, "secrets": {"KEY": secret}})
    assert (run.environment_variables, run.secrets_provided) == ({"TOKEN": "t"}, {"KEY": secret})
    child = started(client, trio[0].id, benchmark_run_id=run.id, run_profile={"env_vars": {"OWN": "o"}})
    view = client.devboxes.execute_and_await_completion(child.devbox_id, command="echo $TOKEN $OWN ${#KEY}")
    assert view.stdout == "t o 1\n"
    client.benchmark_runs.cancel(run.id)


def test_only_scenarios_of_the_benchmark_belong_to_its_run(client: Runloop, trio: list[ScenarioView]) -> None:
    made = benchmark(client, trio[0].id)
    run = client.benchmarks.start_run(benchmark_id=made.id)
    with pytest.raises(BadRequestError, match="is not part of the benchmark"):
        client.scenarios.start_run(scenario_id=trio[1].id, benchmark_run_id=run.id)
    client.benchmarks.update(made.id, scenario_ids=[trio[1].id])
    assert pending(client, run.id) == [trio[0].id]
    assert client.benchmark_runs.list_scenario_runs(run.id).runs == []
    client.benchmark_runs.cancel(run.id)


def test_the_same_request_twice_makes_one_benchmark_and_one_run(client: Runloop) -> None:
    once, name = f"once-{uuid.uuid4()}", unique("once")
    with ThreadPoolExecutor(6) as pool:
        made = set(pool.map(lambda _: client.benchmarks.create(name=name, idempotency_key=once).id, range(6)))
        assert len(made) == 1
        (id,) = made
        runs = set(
            pool.map(
                lambda _: client.benchmarks.start_run(benchmark_id=id, idempotency_key=once).id, range(6)
            )
        )
        assert len(runs) == 1
    with pytest.raises(BadRequestError, match="another body"):
        client.benchmarks.create(name=unique("twice"), idempotency_key=once)
    with pytest.raises(BadRequestError, match="another body"):
        client.benchmarks.start_run(benchmark_id=id, run_name="other", idempotency_key=once)


def test_names_are_taken_once(client: Runloop) -> None:
    made = benchmark(client)
    with pytest.raises(BadRequestError, match="is there already"):
        client.benchmarks.create(name=made.name)
    other = benchmark(client)
    with pytest.raises(BadRequestError, match="is there already"):
        client.benchmarks.update(other.id, name=made.name)
    assert client.benchmarks.retrieve(other.id) == other


def test_unknown_ids_are_not_found(client: Runloop) -> None:
    for verb in (
        client.benchmarks.retrieve,
        client.benchmarks.update,
        client.benchmarks.update_scenarios,
        client.benchmarks.definitions,
    ):
        with pytest.raises(NotFoundError, match="bmd_none"):
            verb("bmd_none")
    for ask in (
        client.benchmark_runs.retrieve,
        client.benchmark_runs.complete,
        client.benchmark_runs.cancel,
        client.benchmark_runs.list_scenario_runs,
    ):
        with pytest.raises(NotFoundError, match="bmr_none"):
            ask("bmr_none")
    with pytest.raises(NotFoundError, match="bmd_none"):
        client.benchmarks.start_run(benchmark_id="bmd_none")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "name with a newline": ({"name": f"two\nlines {uuid.uuid4()}"}, "name"),
    "empty name": ({"name": ""}, "name"),
    "unknown scenario": ({"scenario_ids": ["scn_none"]}, "no scenario 'scn_none'"),
    "scenario that is a path": ({"scenario_ids": ["../x"]}, r"no scenario '\.\./x'"),
    "large description": ({"description": "x" * 10 * 1024**2}, "description"),
    "metadata that is no text": ({"metadata": {"a": 1}}, "metadata"),
    "empty variable": ({"required_environment_variables": [""]}, "required_environment_variables"),
}


@pytest.mark.parametrize("what", BAD)
def test_invalid_benchmark_is_refused_and_nothing_is_made(client: Runloop, what: str) -> None:
    wrong, told = BAD[what]
    wanted = {"name": unique("bad"), **wrong}
    with pytest.raises(BadRequestError, match=told) as refused:
        client.benchmarks.create(**wanted)
    assert len(str(refused.value)) < 3000
    assert not wanted["name"] or ids(client.benchmarks.list(name=wanted["name"])) == []
    if what == "empty name":
        return
    made = benchmark(client)
    with pytest.raises(BadRequestError, match=told):
        client.benchmarks.update(made.id, **wrong)
    assert client.benchmarks.retrieve(made.id) == made


def test_a_benchmark_as_an_object_is_run(sdk: RunloopSDK) -> None:
    scenarios = [
        sdk.scenario.builder(unique("object"))
        .with_problem_statement("make a file `done`")
        .add_shell_command_scorer("done", command="test -e ~/done")
        .push()
        for _ in range(2)
    ]
    made = sdk.benchmark.create(name=unique("objects"), scenario_ids=[scenarios[0].id])
    assert made.add_scenarios([scenarios[1].id]).scenario_ids == [each.id for each in scenarios]
    assert made.remove_scenarios([scenarios[1].id]).scenario_ids == [scenarios[0].id]
    assert made.update(description="objects").description == "objects"
    assert made.get_info().description == "objects"
    assert made.id in [each.id for each in sdk.benchmark.list(limit=100)]
    run = sdk.benchmark.from_id(made.id).start_run(run_name="as objects")
    assert run.benchmark_id == made.id
    assert [each.id for each in made.list_runs()] == [run.id]
    child = scenarios[0].run(benchmark_run_id=run.id, polling_config=QUICK)
    child.devbox.file.write(file_path="done", contents="")
    child.score_and_complete(polling_config=QUICK)
    assert [each.id for each in run.list_scenario_runs()] == [child.id]
    assert run.get_info().state == "running"
    assert (run.complete().score, run.get_info().state) == (1.0, "completed")
    assert made.start_run().cancel().state == "canceled"
