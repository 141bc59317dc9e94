"""Scenario runs over the wire: started, scored, ended, and none of it lost when the server is killed."""

import io
import json
import os
import signal
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.devboxes.shared.running_devbox import FirstProcess
from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, eventually, good
from tests.api.scenarios import Run, bash, command, function, results, scenario, scenario_body, start


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of a server with the native driver."""
    with client_of(server) as client:
        yield client


def client_of(server: RunningServer) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60)


def error_of(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    message: str = answer.json()["message"]
    return message


def test_a_run_is_scored_by_weight_and_completed(http: httpx.Client, server: RunningServer) -> None:
    made = scenario(
        http,
        function(command("grep -q hello greeting"), 0.5, "greets"),
        function(bash("pwd; echo score=0.5; exit 7"), 0.3, "bash"),
        function(command("false"), 0.2, "never"),
        environment_parameters={"working_directory": "/home/user/task"},
    )
    run = start(http, made["id"], run_name="mine", metadata={"k": "v"}, runProfile={"envVars": {"A": "1"}})
    assert run.devbox.view()["initiator_type"] == "scenario"
    assert run.devbox.view()["initiator_id"] == run.id
    assert run.devbox.run("stat -c %U:%G ~/task")["stdout"] == "user:user\n"
    run.devbox.run("echo hello > ~/task/greeting; echo $A")
    view = run.scored()
    assert view["scoring_contract_result"]["score"] == pytest.approx(0.65)
    assert [(each["score"], each["state"]) for each in results(view)] == [
        (1.0, "complete"),
        (0.5, "complete"),
        (0.0, "complete"),
    ]
    assert results(view)[1]["output"] == "/home/user/task\nscore=0.5\n"
    assert view["scenario"]["input_context"]["problem_statement"] == "Do it."
    ended = good(run.post("complete"))
    assert (ended["state"], ended["name"], ended["metadata"]) == ("completed", "mine", {"k": "v"})
    again = good(run.post("complete"))
    assert again == ended
    assert run.devbox.view()["status"] == "shutdown"
    assert leaks.find(server.data) == []


def test_scorers_see_what_was_left_and_not_each_other(http: httpx.Client) -> None:
    """Each has a devbox of its own, without the processes, secrets and network of the one worked in."""
    http.post("/v1/secrets", json={"name": "RUN_SECRET", "value": "hidden"})
    seen = (
        "cat ~/left",
        "ls ~",
        "env | grep -c hidden",
        "pgrep -fc 'sleep 471[1]'",
        "grep -c : /proc/net/dev",
    )
    look = "; ".join(seen)
    made = scenario(
        http,
        function(bash(f"touch ~/from-one; {look}; echo 1"), 0.5, "one"),
        function(bash(f"sleep 0.3; {look}; echo 1"), 0.5, "two"),
        metadata={"benchyard.network": "host"},
    )
    run = start(http, made["id"], runProfile={"secrets": {"TOKEN": "RUN_SECRET"}})
    run.devbox.run("nohup sleep 4711 >/dev/null 2>&1 & echo work > ~/left")
    assert run.devbox.run("echo $TOKEN")["stdout"] == "hidden\n"
    one, two = results(run.scored())
    assert one["output"] == "work\nfrom-one\nleft\n0\n0\n1\n1\n"
    assert two["output"] == "work\nleft\n0\n0\n1\n1\n"
    # Who is working there goes on undisturbed.
    assert run.devbox.run("pgrep -fc 'sleep 4711'")["stdout"] == "1\n"
    run.end()


def test_launch_commands_do_not_run_again(http: httpx.Client) -> None:
    launch = {"launch_commands": ["echo once >> ~/log"]}
    made = scenario(
        http,
        function(bash("cat ~/log; [ $(wc -l < ~/log) = 1 ] && echo 1.0 || echo 0.0")),
        environment_parameters={"launch_parameters": launch},
    )
    run = start(http, made["id"])
    assert run.scored()["scoring_contract_result"]["score"] == 1.0
    run.end()


def test_scoring_again_keeps_the_old_result(http: httpx.Client) -> None:
    made = scenario(http, function(command("test -e ~/done")))
    run = start(http, made["id"])
    assert run.scored()["scoring_contract_result"]["score"] == 0.0
    run.devbox.run("touch ~/done")
    view = run.scored()
    assert view["scoring_contract_result"]["score"] == 1.0
    assert [each["score"] for each in view["earlier_results"]] == [0.0]
    run.end()


def test_the_same_score_twice_is_one_scoring(http: httpx.Client) -> None:
    """A client that lost the answer asks again with the same id, maybe after the scoring has ended."""
    run = start(http, scenario(http)["id"])
    headers = {"x-request-id": "score-once"}
    good(run.post("score", headers=headers))
    run.reaches("scored")
    assert good(run.post("score", headers=headers))["state"] == "scored"
    assert run.view()["earlier_results"] == []
    assert good(run.post("score", headers={"x-request-id": "again"}))["state"] == "scoring"
    run.reaches("scored")
    run.end()


def test_scoring_is_begun_once_and_does_not_block(http: httpx.Client) -> None:
    made = scenario(http, function(bash("sleep 2; echo 1")))
    run = start(http, made["id"])
    with ThreadPoolExecutor(8) as pool:
        states = {good(each)["state"] for each in pool.map(lambda _: run.post("score"), range(8))}
    assert states == {"scoring"}
    assert run.devbox.run("echo still mine")["stdout"] == "still mine\n"
    # To complete it waits for the score.
    view = good(run.post("complete"))
    assert (view["state"], view["scoring_contract_result"]["score"]) == ("completed", 1.0)
    assert view["earlier_results"] == []


@pytest.mark.parametrize(
    "script", ["true", "echo nonsense", "echo NaN", "echo 7", "kill -9 $$", "exec >&-; echo 1"]
)
def test_a_scorer_that_fails_is_an_error_and_the_run_is_scored(http: httpx.Client, script: str) -> None:
    made = scenario(http, function(bash(script), 0.5, "bad"), function(command("true"), 0.5, "good"))
    run = start(http, made["id"])
    view = run.scored()
    bad, fine = results(view)
    assert (bad["state"], bad["cause"], bad["score"]) == ("error", "scorer", 0.0)
    assert all(part in bad["output"] for part in bad["reason"].split("; the start"))
    assert (fine["state"], view["scoring_contract_result"]["score"]) == ("complete", 0.5)
    run.end()


def test_a_scorer_that_hangs_ends_by_its_own_time(http: httpx.Client) -> None:
    made = scenario(
        http,
        function(bash("sleep 600 & sleep 600"), 0.5, "hangs"),
        function(command("true"), 0.5, "good"),
        scorer_timeout_sec=1,
    )
    run = start(http, made["id"])
    hangs, fine = results(run.scored())
    assert hangs["state"] == "error"
    assert "1 s" in hangs["reason"] or "time" in hangs["reason"]
    assert fine["score"] == 1.0
    run.end()


def test_a_devbox_that_ends_ends_the_run(http: httpx.Client) -> None:
    made = scenario(http)
    gone, scored = start(http, made["id"]), start(http, made["id"])
    scored.scored()
    for run in (gone, scored):
        good(run.devbox.post("shutdown"))
    assert gone.reaches("canceled")["failure_reason"] == "its devbox was shut down"
    assert scored.reaches("completed")["scoring_contract_result"]["score"] == 1.0
    assert "cannot be scored" in error_of(gone.post("score"), 409)
    brief = {"launch_parameters": {"keep_alive_time_seconds": 1}}
    body = {"scenario_id": made["id"], "runProfile": brief}
    short = Run(http, good(http.post("/v1/scenarios/start_run", json=body)))
    assert "keep_alive" in short.reaches("timeout")["failure_reason"]
    failing = scenario(http, environment_parameters={"launch_parameters": {"launch_commands": ["exit 3"]}})
    failed = Run(http, good(http.post("/v1/scenarios/start_run", json={"scenario_id": failing["id"]})))
    assert "exit 3" in failed.reaches("failed")["failure_reason"]


def test_a_run_can_be_scored_while_its_devbox_comes_up_or_rests(http: httpx.Client) -> None:
    launch = {"launch_commands": ["sleep 1; touch ~/ready"]}
    made = scenario(
        http, function(command("test -e ~/ready")), environment_parameters={"launch_parameters": launch}
    )
    run = Run(http, good(http.post("/v1/scenarios/start_run", json={"scenario_id": made["id"]})))
    assert run.scored()["scoring_contract_result"]["score"] == 1.0
    good(run.devbox.post("suspend"))
    run.devbox.reaches("suspended")
    assert run.scored()["scoring_contract_result"]["score"] == 1.0
    run.end()


def test_canceling_ends_everything(http: httpx.Client, server: RunningServer) -> None:
    made = scenario(http, function(bash("sleep 600")))
    run = start(http, made["id"])
    good(run.post("score"))
    assert good(run.post("cancel"))["state"] == "canceled"
    assert good(run.post("cancel"))["state"] == "canceled"
    assert run.devbox.view()["status"] == "shutdown"
    assert "cannot be completed" in error_of(run.post("complete"), 409)
    assert leaks.find(server.data) == []
    assert not [each for each in good(http.get("/v1/images"))["images"] if each["kind"] == "scoring"]


def test_variables_and_secrets_of_a_scenario_are_required(http: httpx.Client) -> None:
    made = scenario(http, required_environment_variables=["NEEDED"], required_secret_names=["THE_SECRET"])
    http.post("/v1/secrets", json={"name": "THE_SECRET", "value": "x"})
    before = good(http.get("/v1/devboxes"))["total_count"]
    body: dict[str, Any] = {"scenario_id": made["id"]}
    assert "NEEDED" in error_of(http.post("/v1/scenarios/start_run", json=body), 400)
    body["runProfile"] = {"envVars": {"NEEDED": "1"}}
    assert "THE_SECRET" in error_of(http.post("/v1/scenarios/start_run", json=body), 400)
    body["runProfile"]["secrets"] = {"S": "NO_SUCH_SECRET"}
    assert "THE_SECRET" in error_of(http.post("/v1/scenarios/start_run", json=body), 400)
    assert good(http.get("/v1/devboxes"))["total_count"] == before
    body["runProfile"]["secrets"] = {"S": "THE_SECRET"}
    view = good(http.post("/v1/scenarios/start_run", json=body))
    assert view["secrets_provided"] == {"S": "THE_SECRET"}
    Run(http, view).end()


def test_archived_or_unknown_scenario_cannot_run(http: httpx.Client) -> None:
    made = scenario(http)
    good(http.post(f"/v1/scenarios/{made['id']}/archive"))
    assert "archived" in error_of(http.post("/v1/scenarios/start_run", json={"scenario_id": made["id"]}), 400)
    assert error_of(http.post("/v1/scenarios/start_run", json={"scenario_id": "scn_none"}), 404)
    assert error_of(http.post("/v1/scenarios/runs/scr_none/score"), 404)
    assert error_of(http.get("/v1/scenarios/runs/scr_none"), 404)
    body = {"scenario_id": scenario(http)["id"], "benchmark_run_id": "bmr_none"}
    assert "no benchmark run" in error_of(http.post("/v1/scenarios/start_run", json=body), 400)


def test_the_same_start_twice_is_one_run(http: httpx.Client) -> None:
    made = scenario(http)
    headers = {"x-request-id": "start-once"}
    body = {"scenario_id": made["id"]}
    views = [good(http.post("/v1/scenarios/start_run", json=body, headers=headers)) for _ in range(2)]
    assert views[0]["id"] == views[1]["id"]
    listed = good(http.get("/v1/scenarios/runs", params={"scenario_id": made["id"]}))
    assert [each["id"] for each in listed["runs"]] == [views[0]["id"]]
    assert "scenario" not in listed["runs"][0]
    Run(http, views[0]).end()


def test_a_run_keeps_the_scenario_it_began_with(http: httpx.Client) -> None:
    made = scenario(http, function(command("false")))
    run = start(http, made["id"])
    change = {"scoring_contract": {"scoring_function_parameters": [function(command("true"))]}}
    assert good(http.post(f"/v1/scenarios/{made['id']}", json=change))["revision"] == 2
    view = run.scored()
    assert view["scoring_contract_result"]["score"] == 0.0
    assert (view["scenario_revision"], view["scenario"]["revision"]) == (1, 1)
    run.end()


def test_logs_come_flat_and_with_traces(http: httpx.Client) -> None:
    made = scenario(http, function(bash("echo graded; echo 1"), name="grader"))
    run = start(http, made["id"])
    run.devbox.run("echo said; echo wrong >&2")
    trajectory = {"schema_version": "ATIF-v1.4", "steps": [{"step_id": 1}]}
    good(run.post("traces", {"name": "way.json", "kind": "atif", "trajectory": trajectory}))
    run.scored()
    good(run.post("complete"))
    answer = run.post("download_logs")
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        names = archive.namelist()
        assert all("/" not in name and name.startswith(f"{run.id}_") for name in names)
        texts = {name.removeprefix(f"{run.id}_"): archive.read(name).decode() for name in names}
    assert texts["scorer-0-grader.log"] == "graded\n1\n"
    assert json.loads(texts["trace-way.json"]) == trajectory
    assert json.loads(texts["run.json"])["state"] == "completed"
    assert "said\n" in texts.values()
    assert "wrong\n" in texts.values()
    assert good(http.get(f"/v1/scenarios/runs/{run.id}"))["traces"][0]["name"] == "way.json"
    assert json.loads(http.get(f"/v1/scenarios/runs/{run.id}/traces/way.json").content) == trajectory


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"name": "x", "kind": "atif", "trajectory": {"steps": []}}, "schema_version"),
        ({"name": "x", "kind": "atif", "trajectory": {"schema_version": "ATIF-v1.4"}}, "steps"),
        ({"name": "x"}, "object_id"),
        ({"name": "x", "object_id": "obj_none"}, "obj_none"),
        ({"name": "../x", "object_id": "obj_none"}, "name"),
    ],
)
def test_traces_that_are_none(http: httpx.Client, body: dict[str, Any], told: str) -> None:
    made = scenario(http)
    run = start(http, made["id"])
    assert told in run.post("traces", body).text
    assert run.post("traces", body).status_code == 400
    assert run.view()["traces"] == []
    run.end()


def test_a_killed_server_goes_on_with_what_it_was_scoring(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, client_of(server) as http:
        gate = bash("sleep 3; cat ~/task; echo 1")
        made = scenario(http, function(gate, 0.5, "one"), function(gate, 0.5, "two"))
        run, waiting = start(http, made["id"]), start(http, made["id"])
        run.devbox.run("echo done > ~/task")
        good(run.post("score"))
        eventually(lambda: len(list((server.data / "host/devboxes").glob(f"{run.id}-1-*"))) == 2, "rooms")
        server.kill()
        server.start()
        assert run.view()["state"] == "scoring"
        view = run.reaches("scored")
        assert [each["output"] for each in results(view)] == ["done\n1\n", "done\n1\n"]
        assert waiting.view()["state"] == "running"
        # A devbox that ended while nobody looked ends its run.
        server.kill()
        held = FirstProcess.load(server.data / "host/devboxes" / waiting.devbox.id)
        assert held is not None
        os.kill(held.pid, signal.SIGKILL)
        server.start()
        assert "gone" in waiting.reaches("failed")["failure_reason"]
        good(run.post("complete"))
    assert leaks.find(server.data) == []


def test_a_stopped_server_leaves_no_room_and_goes_on_from_what_was_frozen(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, client_of(server) as http:
        run = start(http, scenario(http, function(bash("sleep 2; cat ~/done; echo 1")))["id"])
        run.devbox.run("echo before > ~/done")
        good(run.post("score"))
        rooms = server.data / "host/devboxes"
        eventually(lambda: any(rooms.glob(f"{run.id}-1-0-*")), "the room")
        run.devbox.run("echo after > ~/done")
        server.stop()
        assert list(rooms.glob(f"{run.id}-1-*")) == []
        server.start()
        assert results(run.reaches("scored"))[0]["output"] == "before\n1\n"
        good(run.post("complete"))
    assert leaks.find(server.data) == []


def test_scorers_read_the_trajectory(http: httpx.Client) -> None:
    find = (
        "python3 -c \"import json,os; print(json.loads(os.environ['RL_SCORER_CONTEXT'])['benchyard']['{}'])\""
    )
    script = f"cat $({find.format('trajectory_path')}); echo; {find.format('problem_statement')}; echo 1"
    run = start(http, scenario(http, function(bash(script)))["id"])
    trajectory = {"schema_version": "ATIF-v1.4", "steps": []}
    good(run.post("traces", {"name": "way.json", "kind": "atif", "trajectory": trajectory}))
    output = results(run.scored())[0]["output"]
    assert json.loads(output.splitlines()[0]) == trajectory
    assert output.splitlines()[1:] == ["Do it.", "1"]
    run.end()


def test_a_driver_without_walls_says_that_it_cannot(api: httpx.Client) -> None:
    made = good(api.post("/v1/scenarios", json=scenario_body()))
    told = error_of(api.post("/v1/scenarios/start_run", json={"scenario_id": made["id"]}), 400)
    assert "--driver native" in told


def test_scorers_can_be_tried(http: httpx.Client) -> None:
    find = "s/.*expected[^0-9]*\\([0-9]*\\).*/\\1/"
    script = f"given=$(echo $RL_SCORER_CONTEXT | sed '{find}'); echo $given; echo 0.$given"
    made = good(http.post("/v1/scenarios/scorers", json={"type": "tried", "bash_script": script}))
    body = {"scoring_context": {"expected": 5}, "environment_parameters": {"working_directory": "/srv/w"}}
    view = good(http.post(f"/v1/scenarios/scorers/{made['id']}/validate", json=body))
    assert view["name"] == "tried"
    assert view["scoring_result"] == {
        "scoring_function_name": "tried",
        "score": 0.5,
        "state": "complete",
        "output": "5\n0.5\n",
    }
    initiated = [
        each for each in good(http.get("/v1/devboxes"))["devboxes"] if each["initiator_id"] == made["id"]
    ]
    assert [(each["initiator_type"], each["status"]) for each in initiated] == [
        ("scoring_validation", "shutdown")
    ]


def test_devboxes_of_runs_are_used_like_any_other(http: httpx.Client) -> None:
    run = start(http, scenario(http)["id"])
    devbox = DevboxOverHttp(http, run.devbox.id)
    good(devbox.post("write_file_contents", {"file_path": "~/f", "contents": "text"}))
    assert devbox.run("cat ~/f")["stdout"] == "text"
    taken = good(devbox.post("snapshot_disk", {"name": "mid"}))
    assert taken["source_devbox_id"] == devbox.id
    run.end()
