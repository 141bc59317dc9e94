"""Benchmarks and their runs by our own client, as nouns and as objects, against a real server."""

import zipfile
from pathlib import Path

import pytest

from benchyard import Benchyard
from benchyard.errors import Conflict, NotFound, UsageError
from tests.client.scenes import PATIENCE_SECONDS, small, unique


def test_a_benchmark_is_made_found_changed_and_archived(yard: Benchyard) -> None:
    benchmarks = yard.api.benchmarks
    a, b, c = (small(yard).id for _ in range(3))
    made = benchmarks.create(name=unique("noun"), scenario_ids=(a, b), metadata={"k": "v"})
    assert benchmarks.retrieve(made.id) == benchmarks.get(made.id) == made
    assert benchmarks.update(made.id, description="d").description == "d"
    changed = benchmarks.update_scenarios(made.id, scenarios_to_add=[c], scenarios_to_remove=[a])
    assert changed.scenario_ids == [b, c]
    page = benchmarks.definitions(made.id, limit=1)
    assert (len(page), page.has_more, page.total_count, page.scenarios[0].id) == (1, True, 2, b)
    assert [each.id for each in page] == [b, c]
    found = benchmarks.list(name=made.name)
    assert found[0].scenario_ids == [b, c]
    assert made.id not in [each.id for each in benchmarks.list_public()]
    assert benchmarks.archive(made.id).status == "archived"
    with pytest.raises(UsageError, match="archived"):
        benchmarks.start_run(benchmark_id=made.id)
    assert benchmarks.unarchive(made.id).status == "active"
    with pytest.raises(UsageError, match="is there already"):
        benchmarks.create(name=made.name)
    with pytest.raises(NotFound):
        benchmarks.get("bmd_none")


def test_a_run_has_pending_scenarios_until_they_are_begun(yard: Benchyard, tmp_path: Path) -> None:
    scenarios = [small(yard) for _ in range(2)]
    made = yard.api.benchmarks.create(
        name=unique("run"), scenario_ids=[scenario.id for scenario in scenarios]
    )
    run = yard.api.benchmarks.start_run(benchmark_id=made.id, run_name="r", metadata={"a": "b"})
    assert run.pending_scenarios == [scenario.id for scenario in scenarios]
    child = yard.api.scenarios.start_run_and_await_env_ready(
        scenario_id=scenarios[0].id, benchmark_run_id=run.id, timeout=PATIENCE_SECONDS
    )
    runs = yard.api.benchmark_runs
    assert runs.retrieve(run.id).pending_scenarios == [scenarios[1].id]
    yard.devbox.from_id(child.devbox_id).file.write("done", "")
    yard.api.scenarios.runs.score_and_await(child.id)
    assert [each.id for each in runs.list_scenario_runs(run.id, state="scored")] == [child.id]
    completed = runs.complete(run.id)
    assert (completed.state, completed.score) == ("completed", 1.0)
    assert runs.get(run.id) == completed == runs.complete(run.id, timeout=PATIENCE_SECONDS)
    assert [each.id for each in runs.list(benchmark_id=made.id, state="completed")] == [run.id]
    assert runs.download_logs(run.id, tmp_path / "logs.zip") > 0
    names = zipfile.ZipFile(tmp_path / "logs.zip").namelist()
    assert f"{child.id}_run.json" in names
    other = yard.api.benchmarks.start_run(benchmark_id=made.id)
    assert runs.cancel(other.id).state == "canceled"
    with pytest.raises(Conflict, match="canceled"):
        runs.complete(other.id)


def test_a_benchmark_and_its_run_as_objects(yard: Benchyard, tmp_path: Path) -> None:
    first, second = small(yard), small(yard)
    made = yard.benchmark.create(name=unique("object"))
    assert made.add_scenarios([first.id, second.id]).scenario_ids == [first.id, second.id]
    assert made.remove_scenarios([first.id]).scenario_ids == [second.id]
    name = made.update(attribution="us").name
    assert yard.benchmark.from_id(made.id).get_info().attribution == "us"
    assert [each.id for each in yard.benchmark.list(name=name)] == [made.id]
    run = made.start_run(run_name="objects")
    assert (run.benchmark_id, run.get_info().pending_scenarios) == (made.id, [second.id])
    child = second.run(benchmark_run_id=run.id, timeout=PATIENCE_SECONDS)
    child.devbox.write("done", "")
    child.score_and_complete(timeout=PATIENCE_SECONDS)
    assert [each.id for each in run.list_scenario_runs()] == [child.id]
    assert run.list_scenario_runs(state="failed") == []
    assert run.complete(timeout=PATIENCE_SECONDS).score == 1.0
    assert run.download_logs(tmp_path / "logs.zip") > 0
    other = made.start_run()
    assert [each.id for each in made.list_runs()] == [other.id, run.id]
    assert other.cancel().score is None


def test_lists_of_objects_hold_all_or_as_many_as_are_wanted(yard: Benchyard) -> None:
    mark = unique("many")
    ids = [yard.benchmark.create(name=f"{mark}-{index}").id for index in range(5)]
    assert [each.id for each in yard.benchmark.list(search=mark)] == ids[::-1]
    assert [each.id for each in yard.benchmark.list(search=mark, limit=3)] == ids[:1:-1]
    rest = yard.benchmark.list(search=mark, starting_after=ids[2])
    assert [each.id for each in rest] == [ids[1], ids[0]]
