"""Scenarios and their runs through the official client."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from runloop_api_client import (
    APIStatusError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    Runloop,
    RunloopSDK,
)
from runloop_api_client.types import ScenarioView

from tests.sdk.boxes import eventually, output
from tests.sdk.scenes import (
    QUICK,
    contract,
    entries,
    fields,
    function,
    points,
    scenario,
    scored,
    solve,
    started,
    unique,
)


@pytest.fixture(scope="module")
def small(client: Runloop) -> ScenarioView:
    """A scenario that several tests run."""
    return scenario(client, "small")


def names(client: Runloop, **query: Any) -> list[str]:
    return [each.name for each in client.scenarios.list(**query)]


def test_a_scenario_comes_back_as_it_was_made(client: Runloop) -> None:
    wanted = fields(
        "größe 例",
        input_context={"problem_statement": "line 1\nline 2\t✓", "additional_context": {"hints": [1, None]}},
        environment_parameters={
            "working_directory": "/opt/task",
            "launch_parameters": {"resource_size_request": "X_SMALL", "launch_commands": ["true"]},
        },
        metadata={"level": "easy"},
        reference_output="--- a/x\n+++ b/x\n",
        required_environment_variables=["TOKEN"],
        required_secret_names=["KEY"],
        scorer_timeout_sec=60,
        validation_type="FORWARD",
    )
    made = client.scenarios.create(**wanted)
    found = client.scenarios.retrieve(made.id)
    assert made == found
    assert made.id.startswith("scn_")
    assert (found.status, found.is_public) == ("active", False)
    assert found.environment is not None
    assert found.environment.launch_parameters is not None
    assert found.environment.launch_parameters.launch_commands == ["true"]
    shown = found.to_dict()
    shown["environment_parameters"] = {
        "working_directory": "/opt/task",
        "launch_parameters": {"resource_size_request": "X_SMALL", "launch_commands": ["true"]},
    }
    assert {name: shown[name] for name in wanted} == wanted


def test_an_update_keeps_what_is_null_and_clears_what_is_empty(client: Runloop) -> None:
    made = scenario(client, metadata={"a": "1"}, reference_output="x", validation_type="REVERSE")
    changed = client.scenarios.update(
        made.id,
        name=None,
        metadata={},
        reference_output="",
        input_context={"additional_context": {"n": 1}},
    )
    assert (changed.name, changed.metadata, changed.reference_output) == (made.name, {}, None)
    assert changed.validation_type == "REVERSE"
    assert changed.input_context.problem_statement == made.input_context.problem_statement
    assert changed.input_context.additional_context == {"n": 1}
    assert changed.to_dict()["revision"] == 2
    again = client.scenarios.update(made.id, input_context={"additional_context": {"n": 1}})
    assert again.to_dict()["revision"] == 2


def test_lists_are_searched_filtered_and_paged(client: Runloop) -> None:
    mark = unique("find")
    made = [
        scenario(client, f"{mark}-{index}", metadata={"mark": mark, "n": str(index)}) for index in range(5)
    ]
    other = scenario(client, validation_type="EVALUATION")
    assert names(client, search=mark, limit=2) == [each.name for each in reversed(made)]
    assert names(client, search=made[3].id) == [made[3].name]
    assert names(client, name=made[2].name) == [made[2].name]
    assert names(client, extra_query={"metadata[mark]": mark, "metadata[n][in]": "1,2"}) == [
        made[2].name,
        made[1].name,
    ]
    assert other.name in names(client, validation_type="EVALUATION", limit=5000)
    page = client.scenarios.list(search=mark, limit=2)
    assert (len(page.scenarios), page.has_more, page.total_count) == (2, True, 5)
    rest = client.scenarios.list(search=mark, limit=4, starting_after=made[1].id, include_total_count=False)
    assert ([each.id for each in rest.scenarios], rest.has_more) == ([made[0].id], False)


def test_an_archived_scenario_is_hidden_and_neither_run_nor_changed(client: Runloop) -> None:
    made = scenario(client)
    assert client.scenarios.archive(made.id).status == "archived"
    assert client.scenarios.archive(made.id).status == "archived"
    assert names(client, name=made.name) == []
    assert client.scenarios.retrieve(made.id).status == "archived"
    with pytest.raises(BadRequestError, match="archived; unarchive it"):
        client.scenarios.start_run(scenario_id=made.id)
    with pytest.raises(ConflictError, match="archived; unarchive it"):
        client.scenarios.update(made.id, name="other")
    assert client.scenarios.runs.list(scenario_id=made.id).runs == []
    back = client.post(f"/v1/scenarios/{made.id}/unarchive", cast_to=ScenarioView)
    assert (back.status, back.name) == ("active", made.name)
    assert names(client, name=made.name) == [made.name]


def test_metadata_keys_and_values_are_listed(client: Runloop) -> None:
    key = unique("key")
    scenario(client, metadata={key: "one"})
    scenario(client, metadata={key: "two"})
    assert key in plain(client, "/v1/scenarios/metadata/keys")["keys"]
    values = plain(client, f"/v1/scenarios/metadata/keys/{key}/values")
    assert (values["key"], sorted(values["values"])) == (key, ["one", "two"])
    assert key not in plain(client, "/v1/scenarios/metadata/keys/public")["keys"]


def plain(client: Runloop, path: str) -> Any:
    return client.get(path, cast_to=object)


def test_a_run_is_worked_on_scored_and_completed(client: Runloop, small: ScenarioView) -> None:
    run = started(client, small.id, run_name="first", metadata={"agent": "hand"})
    assert run.id.startswith("scr_")
    assert (run.state, run.name, run.metadata) == ("running", "first", {"agent": "hand"})
    devbox = client.devboxes.retrieve(run.devbox_id)
    assert (devbox.status, devbox.initiator_type, devbox.initiator_id) == ("running", "scenario", run.id)
    solve(client, run)
    assert client.scenarios.runs.score(run.id).state == "scoring"
    ended = client.scenarios.runs.await_scored(run.id, polling_config=QUICK)
    assert (ended.state, points(ended)) == ("scored", 1.0)
    assert ended.scoring_contract_result is not None
    (result,) = ended.scoring_contract_result.scoring_function_results
    assert (result.scoring_function_name, result.score, result.state) == ("done", 1.0, "complete")
    assert output(client, run.devbox_id, "echo still here") == "still here\n"
    completed = client.scenarios.runs.complete(run.id)
    assert (completed.state, points(completed)) == ("completed", 1.0)
    assert completed.duration_ms is not None
    assert client.scenarios.runs.complete(run.id) == completed
    assert client.devboxes.retrieve(run.devbox_id).status == "shutdown"
    with pytest.raises(ConflictError, match="cannot be scored"):
        client.scenarios.runs.score(run.id)


def test_a_run_that_did_nothing_scores_nothing(client: Runloop, small: ScenarioView) -> None:
    run = client.scenarios.start_run(scenario_id=small.id)
    ended = client.scenarios.runs.score_and_complete(run.id, polling_config=QUICK)
    assert (ended.state, points(ended)) == ("completed", 0.0)


def test_a_run_is_scored_again_and_the_old_result_is_kept(client: Runloop, small: ScenarioView) -> None:
    run = started(client, small.id)
    assert points(scored(client, run.id)) == 0.0
    solve(client, run)
    assert points(scored(client, run.id)) == 1.0
    kept = client.scenarios.runs.retrieve(run.id).to_dict()["earlier_results"]
    assert [each["score"] for each in kept] == [0.0]  # type: ignore[attr-defined]
    client.scenarios.runs.complete(run.id)


def test_asking_twice_for_a_score_makes_one(client: Runloop) -> None:
    slow = scenario(client, scoring_contract=contract(function(type="command_scorer", command="sleep 1")))
    run = started(client, slow.id)
    with ThreadPoolExecutor(8) as pool:
        states = {each.state for each in pool.map(client.scenarios.runs.score, [run.id] * 8)}
    assert states == {"scoring"}
    completed = client.scenarios.runs.complete(run.id)
    assert (completed.state, points(completed)) == ("completed", 1.0)
    assert client.scenarios.runs.retrieve(run.id).to_dict().get("earlier_results") == []


def test_a_cancelled_run_ends_its_devbox_and_has_no_score(client: Runloop, small: ScenarioView) -> None:
    run = started(client, small.id)
    assert client.scenarios.runs.cancel(run.id).state == "canceled"
    assert client.scenarios.runs.cancel(run.id).state == "canceled"
    assert client.devboxes.retrieve(run.devbox_id).status == "shutdown"
    for verb in (client.scenarios.runs.score, client.scenarios.runs.complete):
        with pytest.raises(ConflictError, match="is canceled"):
            verb(run.id)
    assert client.scenarios.runs.retrieve(run.id).scoring_contract_result is None


def test_a_run_can_be_cancelled_while_it_is_scored(client: Runloop) -> None:
    slow = scenario(client, scoring_contract=contract(function(type="command_scorer", command="sleep 600")))
    run = started(client, slow.id)
    client.scenarios.runs.score(run.id)
    assert client.scenarios.runs.cancel(run.id).state == "canceled"
    assert client.scenarios.runs.retrieve(run.id).state == "canceled"


def test_a_run_whose_devbox_is_shut_down_is_over(client: Runloop, small: ScenarioView) -> None:
    run = started(client, small.id)
    client.devboxes.shutdown(run.devbox_id)
    eventually(lambda: client.scenarios.runs.retrieve(run.id).state == "canceled", "the run's end")


def test_runs_are_listed_by_scenario_state_and_name(client: Runloop) -> None:
    made = scenario(client)
    runs = [client.scenarios.start_run(scenario_id=made.id, run_name=unique("run")) for _ in range(3)]
    client.scenarios.runs.cancel(runs[0].id)
    ids = [each.id for each in reversed(runs)]
    assert [each.id for each in client.scenarios.runs.list(scenario_id=made.id, limit=2)] == ids
    running = client.scenarios.runs.list(scenario_id=made.id, state="running")
    assert [each.id for each in running] == ids[:2]
    assert [each.id for each in client.scenarios.runs.list(name=runs[1].name or "")] == [runs[1].id]
    assert [each.id for each in client.scenarios.runs.list(search=runs[2].id)] == [runs[2].id]
    assert [each["id"] for each in plain(client, f"/v1/scenarios/{made.id}/runs")["runs"]] == ids
    for run in runs:
        client.scenarios.runs.cancel(run.id)


def test_a_run_has_what_its_profile_brings_along(client: Runloop, small: ScenarioView) -> None:
    secret = f"S_{uuid.uuid4().hex[:8]}"
    client.secrets.create(name=secret, value="hush-hush")
    run = started(
        client,
        small.id,
        run_profile={
            "env_vars": {"COLOUR": "blue"},
            "secrets": {"TOKEN": secret},
            "purpose": "a test",
            "launch_parameters": {"launch_commands": ["echo launched > ~/launched"]},
            "mounts": [{"type": "file_mount", "target": "~/note", "content": "mounted\n"}],
        },
    )
    told = output(client, run.devbox_id, "echo $COLOUR ${#TOKEN}; cat ~/launched ~/note")
    assert told == "blue 9\nlaunched\nmounted\n"
    view = client.scenarios.runs.retrieve(run.id)
    assert (view.environment_variables, view.secrets_provided) == ({"COLOUR": "blue"}, {"TOKEN": secret})
    assert view.purpose == "a test"
    assert "hush-hush" not in view.to_json()
    client.scenarios.runs.cancel(run.id)


def test_a_run_must_bring_what_the_scenario_needs(client: Runloop) -> None:
    secret = f"S_{uuid.uuid4().hex[:8]}"
    client.secrets.create(name=secret, value="v")
    made = scenario(client, required_environment_variables=["TOKEN"], required_secret_names=[secret])
    start = client.scenarios.start_run
    with pytest.raises(BadRequestError, match="needs the environment variables TOKEN"):
        start(scenario_id=made.id)
    with pytest.raises(BadRequestError, match=f"needs the secrets {secret}"):
        start(scenario_id=made.id, run_profile={"env_vars": {"TOKEN": "t"}})
    with pytest.raises(BadRequestError, match="not-there"):
        start(
            scenario_id=made.id,
            run_profile={"env_vars": {"TOKEN": "t"}, "secrets": {"A": secret, "B": "not-there"}},
        )
    assert client.scenarios.runs.list(scenario_id=made.id).runs == []
    run = start(scenario_id=made.id, run_profile={"env_vars": {"TOKEN": "t"}, "secrets": {"KEY": secret}})
    client.scenarios.runs.cancel(run.id)


def test_work_is_done_and_graded_in_the_working_directory(client: Runloop) -> None:
    made = scenario(
        client,
        environment_parameters={"working_directory": "/srv/task"},
        scoring_contract=contract(
            function("where", 0.5, type="bash_script_scorer", bash_script='[ "$PWD" = /srv/task ] && echo 1'),
            function("what", 0.5, type="command_scorer", command="grep -q yes answer"),
        ),
    )
    run = started(client, made.id)
    assert output(client, run.devbox_id, "cd /srv/task && echo yes > answer && pwd") == "/srv/task\n"
    assert points(scored(client, run.id)) == 1.0
    client.scenarios.runs.complete(run.id)


def test_a_scorer_that_fails_still_ends_in_scored(client: Runloop) -> None:
    made = scenario(
        client,
        scoring_contract=contract(
            function("nothing", 0.5, type="bash_script_scorer", bash_script="echo no number"),
            function("half", 0.5, type="bash_script_scorer", bash_script="echo score=0.5; exit 3"),
        ),
    )
    run = started(client, made.id)
    ended = scored(client, run.id)
    assert (ended.state, points(ended)) == ("scored", 0.25)
    assert ended.scoring_contract_result is not None
    nothing, half = ended.scoring_contract_result.scoring_function_results
    assert (nothing.state, nothing.score, half.state, half.score) == ("error", 0.0, "complete", 0.5)
    assert "no number" in nothing.output
    client.scenarios.runs.complete(run.id)


def test_logs_are_a_flat_zip_with_everything_in_it(client: Runloop, small: ScenarioView) -> None:
    run = started(client, small.id)
    output(client, run.devbox_id, "echo seen-in-the-logs; echo oh >&2")
    solve(client, run)
    trajectory = {"schema_version": "ATIF-v1.4", "session_id": "s", "steps": [{"step_id": 1}]}
    body = {"name": "trajectory.json", "kind": "atif", "trajectory": trajectory}
    client.post(f"/v1/scenarios/runs/{run.id}/traces", cast_to=object, body=body)
    scored(client, run.id)
    client.scenarios.runs.complete(run.id)
    files = entries(client.scenarios.runs.download_logs(run.id).read(), run.id)
    told = json.loads(files["run.json"])
    assert (told["id"], told["scenario"]["id"]) == (run.id, small.id)
    assert json.loads(files["trace-trajectory.json"]) == trajectory
    assert "scorer-0-done.log" in files
    assert b"seen-in-the-logs" in files["devbox.log"]
    assert b"seen-in-the-logs\n" in [content for name, content in files.items() if "stdout" in name]


def test_the_same_trace_twice_is_kept_once(client: Runloop, small: ScenarioView) -> None:
    run = client.scenarios.start_run(scenario_id=small.id)
    path, once = f"/v1/scenarios/runs/{run.id}/traces", f"once-{uuid.uuid4()}"
    body = {"name": "t.json", "kind": "atif", "trajectory": {"schema_version": "ATIF-v1.4", "steps": []}}
    for _ in range(2):
        view: Any = client.post(path, cast_to=object, body=body, options={"headers": {"x-request-id": once}})
        assert [(each["name"], each["kind"]) for each in view["traces"]] == [("t.json", "atif")]
    with pytest.raises(ConflictError, match="choose another name"):
        client.post(path, cast_to=object, body=body)
    for wrong, told in (
        ({**body, "name": "../up"}, "name"),
        ({**body, "name": "b", "trajectory": {"steps": []}}, "schema_version"),
        ({"name": "c", "object_id": "obj_none"}, "obj_none"),
        ({"name": "d"}, "object_id or trajectory"),
    ):
        with pytest.raises(BadRequestError, match=told):
            client.post(path, cast_to=object, body=wrong)
    assert len(client.scenarios.runs.retrieve(run.id).to_dict()["traces"]) == 1  # type: ignore[arg-type]
    client.scenarios.runs.cancel(run.id)


def test_the_same_start_twice_makes_one_run_and_one_devbox(client: Runloop, small: ScenarioView) -> None:
    once = f"once-{uuid.uuid4()}"

    def start(_: int) -> tuple[str, str]:
        run = client.scenarios.start_run(scenario_id=small.id, run_name="once", idempotency_key=once)
        return run.id, run.devbox_id

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(start, range(6)))) == 1
    with pytest.raises(BadRequestError, match="another body"):
        client.scenarios.start_run(scenario_id=small.id, run_name="twice", idempotency_key=once)
    client.scenarios.runs.cancel(start(0)[0])
    assert client.scenarios.runs.retrieve(start(0)[0]).state == "canceled"


def test_the_same_create_twice_makes_one_scenario(client: Runloop) -> None:
    once = f"once-{uuid.uuid4()}"
    wanted = fields()
    with ThreadPoolExecutor(6) as pool:
        made = pool.map(lambda _: client.scenarios.create(**wanted, idempotency_key=once).id, range(6))
        assert len(set(made)) == 1
    assert len(names(client, name=wanted["name"])) == 1
    with pytest.raises(BadRequestError, match="another body"):
        client.scenarios.create(**fields(), idempotency_key=once)


def test_a_run_keeps_the_scenario_it_began_with(client: Runloop) -> None:
    made = scenario(client)
    run = started(client, made.id)
    changed = contract(function("never", 1.0, type="command_scorer", command="false"))
    client.scenarios.update(made.id, scoring_contract=changed, input_context={"problem_statement": "other"})
    solve(client, run)
    assert points(scored(client, run.id)) == 1.0
    kept: Any = client.scenarios.runs.retrieve(run.id).to_dict()["scenario"]
    assert kept["input_context"] == {"problem_statement": made.input_context.problem_statement}
    client.scenarios.runs.complete(run.id)


def test_the_builder_makes_a_scenario_that_runs(sdk: RunloopSDK, tmp_path: Path) -> None:
    built = (
        sdk.scenario.builder(unique("built"))
        .with_problem_statement("say hello in a file `hello`")
        .with_additional_context({"language": "any"})
        .with_working_directory("/srv/work")
        .add_test_command_scorer(
            "tests",
            test_command="sh tests/check.sh",
            test_files=[{"file_path": "tests/check.sh", "file_contents": "grep -q hello hello\n"}],
            weight=3,
        )
        .add_shell_command_scorer("there", command="test -s hello", weight=2)
        .add_bash_script_scorer("half", bash_script="echo score=0.5", weight=1)
        .with_metadata({"from": "builder"})
        .with_reference_output("echo hello > hello")
        .with_validation_type("FORWARD")
        .push()
    )
    info = built.get_info()
    weights = [parameter.weight for parameter in info.scoring_contract.scoring_function_parameters]
    assert weights == pytest.approx([1 / 2, 1 / 3, 1 / 6])
    assert info.input_context.additional_context == {"language": "any"}
    assert built.update(metadata={"from": "update"}).metadata == {"from": "update"}
    assert built.id in [each.id for each in sdk.scenario.list(name=info.name)]

    run = sdk.scenario.from_id(built.id).run(run_name="by hand", polling_config=QUICK)
    assert run.devbox.cmd.exec("echo hello > /srv/work/hello").exit_code == 0
    assert run.get_score() is None
    ended = run.score_and_complete(polling_config=QUICK)
    assert ended.state == "completed"
    assert points(ended) == pytest.approx(11 / 12)
    score = run.get_score()
    assert score is not None
    assert score.score == points(ended)
    run.download_logs(tmp_path / "logs.zip")
    assert "run.json" in entries((tmp_path / "logs.zip").read_bytes(), run.id)


def test_a_run_as_an_object_goes_through_every_state(sdk: RunloopSDK) -> None:
    built = sdk.scenario.builder(unique("states")).with_problem_statement("wait")
    made = built.add_bash_script_scorer("all", bash_script="echo 1.0").push()
    run = made.run_async()
    assert run.await_env_ready(polling_config=QUICK).state == "running"
    assert run.get_info().state == "running"
    assert run.score().state == "scoring"
    assert run.await_scored(polling_config=QUICK).state == "scored"
    assert run.score_and_await(polling_config=QUICK).state == "scored"
    assert run.complete().state == "completed"
    other = made.run_async()
    assert other.cancel().state == "canceled"


def test_unknown_ids_are_not_found(client: Runloop) -> None:
    scenarios, runs = client.scenarios, client.scenarios.runs
    for verb in (scenarios.retrieve, scenarios.update, scenarios.archive):
        with pytest.raises(NotFoundError, match="scn_none"):
            verb("scn_none")
    for ask in (runs.retrieve, runs.score, runs.complete, runs.cancel, runs.download_logs):
        with pytest.raises(NotFoundError, match="scr_none"):
            ask("scr_none")
    with pytest.raises(APIStatusError, match="scn_none"):
        scenarios.start_run(scenario_id="scn_none")
    with pytest.raises(BadRequestError, match="bmr_none"):
        scenarios.start_run(scenario_id=scenario(client).id, benchmark_run_id="bmr_none")
    with pytest.raises(BadRequestError, match="starting_after"):
        scenarios.list(starting_after="scn_none")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no scorers": ({"scoring_contract": {"scoring_function_parameters": []}}, "scoring_function_parameters"),
    "too little weight": ({"scoring_contract": contract(function(weight=0.5))}, "add up to 0.5"),
    "too much weight": ({"scoring_contract": contract(function(), function("two"))}, "add up to 2"),
    "negative weight": (
        {"scoring_contract": contract(function("a", -0.5), function("b", 1))},
        "weight: .*greater than or equal to 0",
    ),
    "weight that is text": ({"scoring_contract": contract(function("a", "1"))}, "must be a number"),  # type: ignore[arg-type]
    "scorer without a type": ({"scoring_contract": contract(function(command="true"))}, "scorer 'done'"),
    "unknown scorer": ({"scoring_contract": contract(function(type="magic"))}, "scorer 'done'.*magic"),
    "scorer without a command": (
        {"scoring_contract": contract(function(type="command_scorer"))},
        "scorer 'done'.*command",
    ),
    "name of a scorer": ({"scoring_contract": contract(function("a b"))}, "name"),
    "unknown custom scorer": (
        {"scoring_contract": contract(function(type="custom_scorer", custom_scorer_type="nobody"))},
        "no custom scorer of type 'nobody'",
    ),
    "missing blueprint": ({"environment_parameters": {"blueprint_id": "bpt_none"}}, "bpt_none"),
    "missing snapshot": ({"environment_parameters": {"snapshot_id": "snp_none"}}, "snp_none"),
    "both origins": ({"environment_parameters": {"snapshot_id": "s", "blueprint_id": "b"}}, "snapshot_id"),
    "working directory that climbs": (
        {"environment_parameters": {"working_directory": "/srv/../etc"}},
        r"must not contain `..`",
    ),
    "answer path that climbs": (
        {"metadata": {"benchyard.scoring": "answer", "benchyard.answer_paths": '["../x"]'}},
        r"must not contain `..`",
    ),
    "answer without paths": ({"metadata": {"benchyard.scoring": "answer"}}, "needs answer_paths"),
    "answer paths that are no JSON": ({"metadata": {"benchyard.answer_paths": "out"}}, "must be JSON"),
    "unknown isolation": ({"metadata": {"benchyard.scoring": "magic"}}, "scoring_isolation"),
    "test file that climbs": (
        {
            "scoring_contract": contract(
                function(
                    type="test_based_scorer",
                    test_command="true",
                    test_files=[{"file_path": "../../etc/passwd", "file_contents": ""}],
                )
            )
        },
        r"\.\.",
    ),
    "name with a newline": ({"name": f"two\nlines {uuid.uuid4()}"}, "name"),
    "empty name": ({"name": ""}, "name"),
    "no time at all": ({"scorer_timeout_sec": 0}, "scorer_timeout_sec"),
    "unknown validation": ({"validation_type": "SIDEWAYS"}, "validation_type"),
    "large problem": ({"input_context": {"problem_statement": "x" * 10 * 1024**2}}, "problem_statement"),
    "no problem": ({"input_context": {}}, "problem_statement"),
}


@pytest.mark.parametrize("what", BAD)
def test_invalid_scenario_is_refused_and_nothing_is_made(client: Runloop, what: str) -> None:
    wrong, told = BAD[what]
    wanted = {**fields(), **wrong}
    with pytest.raises(BadRequestError, match=f"(?s){told}") as refused:
        client.scenarios.create(**wanted)
    assert len(str(refused.value)) < 3000
    assert names(client, name=wanted["name"], limit=1) == [] or not wanted["name"]


@pytest.mark.parametrize("what", [each for each in BAD if each not in ("empty name", "no problem")])
def test_an_update_that_could_never_run_changes_nothing(client: Runloop, what: str) -> None:
    made = scenario(client)
    with pytest.raises(BadRequestError):
        client.scenarios.update(made.id, **BAD[what][0])
    assert client.scenarios.retrieve(made.id) == made


def test_a_scenario_whose_snapshot_is_gone_is_not_run(client: Runloop, box: str) -> None:
    snapshot = client.devboxes.snapshot_disk(box, name="gone soon")
    made = scenario(client, environment_parameters={"snapshot_id": snapshot.id})
    client.devboxes.disk_snapshots.delete(snapshot.id)
    with pytest.raises(BadRequestError, match=f"scenario {made.id} cannot be run: .*{snapshot.id}"):
        client.scenarios.start_run(scenario_id=made.id)
    assert client.scenarios.runs.list(scenario_id=made.id).runs == []


def test_a_scenario_takes_its_isolation_from_metadata(client: Runloop) -> None:
    made = scenario(
        client, metadata={"benchyard.scoring": "answer", "benchyard.answer_paths": '["/srv/answer.txt"]'}
    )
    shown = client.scenarios.retrieve(made.id).to_dict()
    assert (shown["scoring_isolation"], shown["answer_paths"]) == ("answer", ["/srv/answer.txt"])
