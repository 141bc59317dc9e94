"""Scenarios and their runs by our own client, as nouns and as objects, against a real server."""

import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchyard import Benchyard
from benchyard.errors import Conflict, NotFound, StartFailed, StillWaiting, UsageError
from benchyard.models.runs import RunProfile, RunState
from benchyard.models.scenarios import InputContext
from tests.client.scenes import PATIENCE_SECONDS, contract, points, small, unique


def test_a_scenario_is_made_found_changed_and_archived(yard: Benchyard) -> None:
    scenarios = yard.api.scenarios
    made = scenarios.create(
        name=unique("noun"),
        input_context=InputContext(problem_statement="größe\n✓"),
        scoring_contract=contract(),
        environment_parameters={"working_directory": "/srv/x"},
        metadata={"a": "1"},
        scoring_isolation="answer",
        answer_paths=("out",),
    )
    assert scenarios.retrieve(made.id) == scenarios.get(made.id) == made
    assert made.input_context.problem_statement == "größe\n✓"
    assert made.environment is not None
    assert (made.environment.working_directory, made.answer_paths) == ("/srv/x", ["out"])
    changed = scenarios.update(made.id, metadata={}, name=None)
    assert (changed.name, changed.metadata, changed.revision) == (made.name, {}, 2)
    assert [scenario.id for scenario in scenarios.list(name=made.name)] == [made.id]
    assert made.id not in [each.id for each in scenarios.list_public()]
    assert scenarios.archive(made.id).status == "archived"
    assert len(scenarios.list(name=made.name)) == 0
    assert scenarios.unarchive(made.id).status == "active"


def test_a_run_is_scored_step_by_step(yard: Benchyard) -> None:
    scenarios, runs = yard.api.scenarios, yard.api.scenarios.runs
    made = small(yard)
    run = scenarios.start_run(scenario_id=made.id, run_name="by step", run_profile={"env_vars": {"A": "b"}})
    assert run.scenario is not None
    assert run.scenario.input_context.problem_statement == "make a file `done`"
    assert yard.api.devboxes.await_running(run.devbox_id, timeout=PATIENCE_SECONDS).status == "running"
    assert yard.api.executions.run(run.devbox_id, "touch ~/done; echo $A").stdout == "b\n"
    assert runs.score(run.id).state is RunState.SCORING
    scored = runs.await_scored(run.id, timeout=PATIENCE_SECONDS)
    assert (scored.state, points(scored)) == (RunState.SCORED, 1.0)
    assert runs.score_and_await(run.id, timeout=PATIENCE_SECONDS).earlier_results is not None
    completed = runs.complete(run.id)
    assert completed.state is RunState.COMPLETED
    assert runs.complete(run.id) == completed == runs.get(run.id)
    assert runs.await_scored(run.id) == completed
    assert [each.id for each in runs.list(scenario_id=made.id, state="completed")] == [run.id]
    assert runs.list(scenario_id=made.id).runs[0].name == "by step"


def test_a_run_starts_with_its_devbox_up(yard: Benchyard) -> None:
    profile = RunProfile(env_vars={"A": "b"}, purpose="test")
    run = yard.api.scenarios.start_run_and_await_env_ready(
        scenario_id=small(yard).id, run_profile=profile, timeout=PATIENCE_SECONDS
    )
    assert (run.environment_variables, run.purpose) == ({"A": "b"}, "test")
    assert yard.api.devboxes.retrieve(run.devbox_id).status == "running"
    ended = yard.api.scenarios.runs.score_and_complete(run.id)
    assert (ended.state, points(ended)) == (RunState.COMPLETED, 0.0)


def test_a_wait_that_makes_no_sense_says_so(yard: Benchyard) -> None:
    runs = yard.api.scenarios.runs
    run = yard.api.scenarios.start_run(scenario_id=small(yard).id)
    with pytest.raises(Conflict, match="call `score` first"):
        runs.await_scored(run.id)
    assert runs.cancel(run.id).state is RunState.CANCELED
    with pytest.raises(Conflict, match="is canceled and has no score"):
        runs.await_scored(run.id)
    with pytest.raises(Conflict, match="canceled"):
        runs.score_and_await(run.id)
    with pytest.raises(NotFound):
        runs.score("scr_none")


def test_a_wait_ends_with_its_time(yard: Benchyard) -> None:
    run = yard.api.scenarios.start_run(scenario_id=small(yard, command="sleep 600").id)
    started = time.monotonic()
    with pytest.raises(StillWaiting, match="is scoring"):
        yard.api.scenarios.runs.score_and_await(run.id, timeout=0.5)
    assert time.monotonic() - started < 30
    yard.api.scenarios.runs.cancel(run.id)


def test_a_devbox_that_cannot_start_is_reported_with_its_reason(yard: Benchyard) -> None:
    made = yard.api.scenarios.create(
        name=unique("broken"),
        input_context={"problem_statement": "never"},
        scoring_contract=contract(),
        environment_parameters={"launch_parameters": {"launch_commands": ["echo oh no; exit 3"]}},
    )
    with pytest.raises(StartFailed, match="launch command"):
        yard.api.scenarios.start_run_and_await_env_ready(scenario_id=made.id, timeout=PATIENCE_SECONDS)
    (run,) = yard.api.scenarios.runs.list(scenario_id=made.id)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (view := yard.api.scenarios.runs.get(run.id)).state is RunState.RUNNING:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert view.state is RunState.FAILED


def test_logs_and_traces_come_in_a_flat_zip(yard: Benchyard, tmp_path: Path) -> None:
    run = small(yard).run(timeout=PATIENCE_SECONDS)
    (tmp_path / "agent.log").write_bytes(b"\x00\xff of an agent")
    trajectory = {"schema_version": "ATIF-v1.4", "steps": [{"step_id": 1, "message": "✓"}]}
    run.upload_trace(trajectory)
    run.upload_trace(tmp_path / "agent.log")
    view = run.upload_trace(str(tmp_path / "agent.log"), name="second.log", kind="file")
    assert [(trace.name, trace.kind) for trace in view.traces] == [
        ("trajectory.json", "atif"),
        ("agent.log", "file"),
        ("second.log", "file"),
    ]
    with pytest.raises(UsageError, match="schema_version"):
        run.upload_trace({"steps": []}, name="other.json")
    with pytest.raises(Conflict, match="choose another name"):
        run.upload_trace(tmp_path / "agent.log")
    assert run.complete().state is RunState.COMPLETED
    size = run.download_logs(tmp_path / "logs.zip")
    assert (tmp_path / "logs.zip").stat().st_size == size
    with zipfile.ZipFile(tmp_path / "logs.zip") as archive:
        assert not [name for name in archive.namelist() if "/" in name]
        assert json.loads(archive.read(f"{run.id}_trace-trajectory.json")) == trajectory
        assert archive.read(f"{run.id}_trace-agent.log") == b"\x00\xff of an agent"
    assert yard.api.scenarios.runs.download_logs(run.id, tmp_path / "again.zip") > 0
    with pytest.raises(NotFound):
        yard.api.scenarios.runs.download_logs("scr_none", tmp_path / "none.zip")
    assert not (tmp_path / "none.zip").exists()


def test_a_scenario_as_an_object(yard: Benchyard) -> None:
    made = yard.scenario.create(
        name=unique("object"), input_context={"problem_statement": "x"}, scoring_contract=contract()
    )
    found = yard.scenario.from_id(made.id)
    assert found.get_info().id == made.id
    assert found.update(metadata={"a": "b"}).metadata == {"a": "b"}
    name = found.get_info().name
    assert [each.id for each in yard.scenario.list(name=name)] == [made.id]
    assert len(yard.scenario.list(limit=1)) == 1


def test_a_run_as_an_object(yard: Benchyard) -> None:
    run = small(yard).run_async(run_name="object")
    assert run.await_env_ready(timeout=PATIENCE_SECONDS).devbox_id == run.devbox_id
    result = run.devbox.cmd.exec("touch done; pwd")
    assert (result.exit_code, result.stdout()) == (0, "/home/user\n")
    assert run.get_score() is None
    assert run.get_info().name == "object"
    assert run.score().state is RunState.SCORING
    assert run.await_scored(timeout=PATIENCE_SECONDS).state is RunState.SCORED
    score = run.get_score()
    assert score is not None
    assert (score.score, score.scoring_function_results[0].scoring_function_name) == (1.0, "done")
    assert points(run.score_and_complete(timeout=PATIENCE_SECONDS)) == 1.0
    other = small(yard).run(timeout=PATIENCE_SECONDS)
    assert points(other.score_and_await()) == 0.0
    assert other.cancel().state is RunState.CANCELED


def test_the_builder_makes_every_kind_of_scorer(yard: Benchyard) -> None:
    custom = yard.scorer.create(type=unique("custom"), bash_script="echo 1")
    type = custom.get_info().type
    builder = (
        yard.scenario.builder(unique("built"))
        .from_snapshot("snp_taken_back")
        .from_blueprint("bpt_none")
        .with_working_directory("/srv/work")
        .with_launch_parameters({"resource_size_request": "X_SMALL"})
        .with_problem_statement("all")
        .with_additional_context({"hint": [1]})
        .add_test_command_scorer("test", test_command="true", test_files=[file("t.sh")])
        .add_shell_command_scorer("shell", command="true")
        .add_bash_script_scorer("bash", bash_script="echo 1")
        .add_python_script_scorer("python", python_script="print(1)", requirements_contents="")
        .add_ast_grep_scorer("ast", pattern="$A", lang="python")
        .add_custom_scorer("own", custom_scorer_type=type, scorer_params={"n": 1}, weight=5)
        .with_metadata({"m": "1"})
        .with_reference_output("true")
        .with_required_env_vars(["A"])
        .with_required_secrets(["B"])
        .with_validation_type("FORWARD")
        .with_scorer_timeout(30)
        .with_isolation("answer", answer_paths=["out"])
    )
    fields = builder.build()
    environment: Any = fields["environment_parameters"]
    assert (environment["blueprint_id"], "snapshot_id" in environment) == ("bpt_none", False)
    with pytest.raises(UsageError, match="bpt_none"):
        builder.push()
    del environment["blueprint_id"]
    made = yard.scenario.create(**fields).get_info()
    functions = made.scoring_contract.scoring_function_parameters
    assert [function.scorer["type"] for function in functions] == [
        "test_based_scorer",
        "command_scorer",
        "bash_script_scorer",
        "python_script_scorer",
        "ast_grep_scorer",
        "custom_scorer",
    ]
    assert [function.weight for function in functions] == [0.1] * 5 + [0.5]
    assert (made.scoring_isolation, made.answer_paths, made.scorer_timeout_sec) == ("answer", ["out"], 30)
    assert (made.required_environment_variables, made.required_secret_names) == (["A"], ["B"])
    assert (made.validation_type, made.reference_output) == ("FORWARD", "true")


def file(path: str) -> dict[str, str]:
    return {"file_path": path, "file_contents": "true"}


def test_the_builder_says_what_is_missing(yard: Benchyard) -> None:
    builder = yard.scenario.builder("incomplete")
    with pytest.raises(UsageError, match="with_problem_statement"):
        builder.push()
    with pytest.raises(UsageError, match="add_bash_script_scorer"):
        builder.with_problem_statement("x").push()
    for weight in (0, -1, float("nan")):
        with pytest.raises(UsageError, match="more than 0"):
            builder.add_shell_command_scorer("a", command="true", weight=weight)


def test_a_scenario_from_a_snapshot_starts_where_it_was_taken(yard: Benchyard) -> None:
    with yard.devbox.create(name="prepared") as box:
        box.file.write("task/readme", "prepared by hand")
        snapshot = box.snapshot_disk(name="prepared")
    built = yard.scenario.builder(unique("prepared")).from_snapshot(snapshot).with_problem_statement("x")
    made = built.add_shell_command_scorer("all", command="grep -q prepared ~/task/readme").push()
    run = made.run(timeout=PATIENCE_SECONDS)
    assert run.devbox.file.read("task/readme") == "prepared by hand"
    assert points(run.score_and_complete()) == 1.0


def test_value_outside_json_is_refused_before_it_is_sent(yard: Benchyard) -> None:
    with pytest.raises(UsageError, match="cannot be sent"):
        yard.api.scenarios.create(
            name="x",
            input_context={"problem_statement": "x", "additional_context": object()},
            scoring_contract=contract(),
        )
