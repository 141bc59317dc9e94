"""Devboxes over HTTP: created, awaited, listed, changed, rested, ended."""

from typing import Any

import httpx
import pytest

from tests.api.devbox import DevboxOverHttp, create, eventually, good, refusal


def statuses(view: dict[str, Any]) -> list[str]:
    return [each["status"] for each in view["state_transitions"]]


def test_a_created_devbox_answers_at_once_and_then_runs(api: httpx.Client) -> None:
    made = good(api.post("/v1/devboxes", json={"name": "first", "metadata": {"team": "red"}}))
    assert made["id"].startswith("dbx_")
    assert len(made["id"]) == len("dbx_") + 21
    assert made["status"] in ("provisioning", "initializing", "running")
    devbox = DevboxOverHttp(api, made["id"])
    view = devbox.reaches("running", "failure", "shutdown")
    assert view["status"] == "running"
    assert statuses(view) == ["provisioning", "initializing", "running"]
    assert (view["name"], view["metadata"], view["capabilities"]) == ("first", {"team": "red"}, [])
    assert view["initiator_type"] == "api"
    devbox.post("shutdown")


def test_create_needs_no_body(api: httpx.Client) -> None:
    made = good(api.post("/v1/devboxes", headers={"content-type": "application/json"}))
    DevboxOverHttp(api, made["id"]).post("shutdown")


def test_shutdown_answers_in_shutdown_and_twice_is_the_same(api: httpx.Client) -> None:
    devbox = create(api)
    view = good(devbox.post("shutdown"))
    assert (view["status"], view["shutdown_reason"]) == ("shutdown", "api_shutdown")
    assert view["end_time_ms"] >= view["create_time_ms"]
    assert good(devbox.post("shutdown")) == view


def test_the_same_request_makes_one_devbox(api: httpx.Client) -> None:
    headers = {"x-request-id": "devbox-once"}
    first = good(api.post("/v1/devboxes", json={"name": "once"}, headers=headers))
    assert good(api.post("/v1/devboxes", json={"name": "once"}, headers=headers))["id"] == first["id"]
    assert "another body" in refusal(api.post("/v1/devboxes", json={"name": "x"}, headers=headers), 400)
    DevboxOverHttp(api, first["id"]).post("shutdown")


def test_waiting_for_a_status_that_does_not_come_is_408(devbox: DevboxOverHttp) -> None:
    answer = devbox.post("wait_for_status", {"statuses": ["failure"], "timeout_seconds": 0.05})
    assert "running" in refusal(answer, 408)
    assert answer.headers["x-should-retry"] == "true"


@pytest.mark.parametrize("body", [{}, {"statuses": []}, {"statuses": ["gone"]}, {"statuses": "running"}])
def test_waiting_for_what_is_no_status_is_400(devbox: DevboxOverHttp, body: dict[str, Any]) -> None:
    assert "statuses" in refusal(devbox.post("wait_for_status", body), 400)


def test_a_devbox_is_listed_newest_first_and_by_status(api: httpx.Client) -> None:
    older, newer = create(api), create(api)
    page = good(api.get("/v1/devboxes", params={"limit": 2, "status": "running"}))
    assert [each["id"] for each in page["devboxes"]] == [newer.id, older.id]
    after = good(api.get("/v1/devboxes", params={"limit": 1, "starting_after": newer.id}))
    assert after["devboxes"][0]["id"] == older.id
    for devbox in (older, newer):
        devbox.post("shutdown")
    ended = good(api.get("/v1/devboxes", params={"status": "shutdown", "limit": 5000}))
    assert {older.id, newer.id} <= {each["id"] for each in ended["devboxes"]}


def test_listing_by_what_is_no_status_is_400(api: httpx.Client) -> None:
    assert "status" in refusal(api.get("/v1/devboxes", params={"status": "gone"}), 400)


def test_update_keeps_what_is_not_given_and_clears_what_is_empty(api: httpx.Client) -> None:
    devbox = create(api, name="before", metadata={"a": "1"})
    url = f"/v1/devboxes/{devbox.id}"
    assert good(api.post(url, json={"name": None, "metadata": None}))["name"] == "before"
    assert good(api.post(url, json={"metadata": {"b": "2"}}))["metadata"] == {"b": "2"}
    cleared = good(api.post(url, json={"name": "", "metadata": {}}))
    assert (cleared["name"], cleared["metadata"]) == (None, {})
    devbox.post("shutdown")


def test_metadata_in_use_can_be_listed(api: httpx.Client) -> None:
    devbox = create(api, metadata={"listed-key": "listed-value"})
    assert "listed-key" in good(api.get("/v1/devboxes/metadata/keys"))["keys"]
    values = good(api.get("/v1/devboxes/metadata/keys/listed-key/values"))
    assert values == {"key": "listed-key", "values": ["listed-value"]}
    devbox.post("shutdown")


def test_suspend_keeps_the_disk_and_resume_runs_launch_commands_again(api: httpx.Client) -> None:
    devbox = create(api, launch_parameters={"launch_commands": ["echo boot >> ~/boots"]})
    devbox.run("echo kept > ~/kept")
    running = devbox.start("sleep 1000")
    assert good(devbox.post("suspend"))["status"] in ("suspending", "suspended")
    assert devbox.reaches("suspended", "failure", "shutdown")["status"] == "suspended"
    assert devbox.ended(running)["exit_status"] != 0
    assert "resume" in refusal(devbox.post("execute_async", {"command": "true"}), 409)
    # It waits a second for that; a machine that needs longer says how far it is.
    assert good(devbox.post("resume"))["status"] in ("running", "initializing", "resuming")
    view = devbox.reaches("running", "failure", "shutdown")
    assert statuses(view)[-5:] == ["suspending", "suspended", "resuming", "initializing", "running"]
    assert devbox.run("cat ~/kept ~/boots")["stdout"] == "kept\nboot\nboot\n"
    devbox.post("shutdown")


def test_a_launch_command_that_only_works_once_does_not_cost_the_disk(api: httpx.Client) -> None:
    devbox = create(api, launch_parameters={"launch_commands": ["mkdir ~/desk", "echo up >> ~/ups"]})
    devbox.run("echo kept > ~/desk/file")
    devbox.post("suspend")
    devbox.reaches("suspended")
    devbox.post("resume")
    assert devbox.reaches("running", "failure")["status"] == "running"
    assert devbox.run("cat ~/desk/file ~/ups")["stdout"] == "kept\nup\nup\n"
    messages = [each.get("message") or "" for each in good(devbox.get("logs"))["logs"]]
    assert any("launch command 'mkdir ~/desk' ended with" in each for each in messages)
    devbox.post("shutdown")


def test_suspend_commands_run_before_and_failing_ones_do_not_stop_it(api: httpx.Client) -> None:
    hooks = {"suspend_commands": ["false", "echo bye > ~/bye", "sleep 1000"], "suspend_deadline_ms": 1000}
    devbox = create(api, launch_parameters={"lifecycle": {"lifecycle_hooks": hooks}})
    devbox.post("suspend")
    devbox.reaches("suspended")
    devbox.post("resume")
    devbox.reaches("running")
    assert devbox.run("cat ~/bye")["stdout"] == "bye\n"
    messages = [each.get("message") or "" for each in good(devbox.get("logs"))["logs"]]
    assert any("suspend command" in each for each in messages)
    devbox.post("shutdown")


def test_an_ended_devbox_can_neither_rest_nor_wake(api: httpx.Client) -> None:
    devbox = create(api)
    assert good(devbox.post("resume"))["status"] == "running"
    devbox.post("shutdown")
    assert "running" in refusal(devbox.post("suspend"), 400)
    assert "suspended" in refusal(devbox.post("resume"), 400)
    answer = devbox.post("execute_async", {"command": "true"})
    assert "ended" in refusal(answer, 409)
    assert answer.headers["x-should-retry"] == "false"


def test_keep_alive_time_ends_a_devbox(api: httpx.Client) -> None:
    devbox = create(api, launch_parameters={"keep_alive_time_seconds": 1})
    view = devbox.reaches("shutdown")
    assert view["shutdown_reason"] == "keep_alive_timeout"


@pytest.mark.parametrize(("action", "status"), [("shutdown", "shutdown"), ("suspend", "suspended")])
def test_an_idle_devbox_is_ended_or_suspended(api: httpx.Client, action: str, status: str) -> None:
    policy = {"idle_time_seconds": 1, "on_idle": action}
    devbox = create(api, launch_parameters={"after_idle": policy})
    execution = devbox.start("sleep 3; echo done")
    assert devbox.ended(execution)["stdout"] == "done\n"
    view = devbox.reaches(status)
    assert view["shutdown_reason"] == ("idle" if action == "shutdown" else None)
    devbox.post("shutdown")


def test_keep_alive_resets_the_idle_clock(api: httpx.Client) -> None:
    devbox = create(api)
    assert good(devbox.post("keep_alive")) == {}
    devbox.post("shutdown")
    assert refusal(devbox.post("keep_alive"), 409)


def test_the_end_of_the_entrypoint_is_the_end_of_the_devbox(api: httpx.Client) -> None:
    devbox = create(api, entrypoint="until [ -e ~/stop ]; do sleep 0.05; done")
    devbox.run("touch ~/stop")
    assert devbox.reaches("shutdown")["shutdown_reason"] == "entrypoint_exit"


def test_usage_is_counted(devbox: DevboxOverHttp) -> None:
    usage = good(devbox.get("usage"))
    assert usage["id"] == devbox.id
    assert usage["status"] == "running"
    assert usage["total_elapsed_seconds"] >= usage["total_active_seconds"] >= 0
    assert {"vcpu_seconds", "memory_gb_seconds", "disk_gb_seconds", "start_time_ms"} <= usage.keys()


def test_an_unknown_devbox_is_404_everywhere(api: httpx.Client) -> None:
    unknown = DevboxOverHttp(api, "dbx_unknown")
    assert refusal(api.get(f"/v1/devboxes/dbx_{'0' * 21}"), 404)
    assert refusal(api.get("/v1/devboxes/unknown"), 404)
    # What begins like an id and cannot be one is answered as the original does.
    assert "dbx_unknown" in refusal(api.get("/v1/devboxes/dbx_unknown"), 400)
    body = {"command": "true", "path": "a", "file_path": "a", "contents": "a", "statuses": ["running"]}
    verbs = "shutdown suspend resume keep_alive wait_for_status execute_async execute_sync read_file_contents"
    for verb in [
        *verbs.split(),
        "write_file_contents",
        "download_file",
        "snapshot_disk",
        "create_pty_tunnel",
    ]:
        assert refusal(unknown.post(verb, body), 404), verb
    for path in ("usage", "logs", "executions/exec_1", "logs/tail"):
        assert refusal(unknown.get(path), 404), path
    assert refusal(api.post("/v1/devboxes/dbx_unknown", json={"name": "x"}), 404)


def test_a_devbox_gets_its_environment(api: httpx.Client) -> None:
    good(api.post("/v1/secrets", json={"name": "DEVBOX_SECRET", "value": "s3cret-value"}))
    devbox = create(
        api, environment_variables={"GREETING": "hello there"}, secrets={"TOKEN": "DEVBOX_SECRET"}
    )
    assert devbox.run('echo "$GREETING $TOKEN"')["stdout"] == "hello there s3cret-value\n"
    assert "s3cret-value" not in str(devbox.view())
    devbox.post("shutdown")


def test_failed_launch_commands_fail_the_devbox_and_say_so(api: httpx.Client) -> None:
    launch = {"launch_commands": ["echo fine", "echo oh no >&2; exit 3", "echo never"]}
    made = good(api.post("/v1/devboxes/create_and_await_running", json={"launch_parameters": launch}))
    assert (made["status"], made["failure_reason"]) == ("failure", "execution_failed")
    assert "oh no" in made["state_transitions"][-1]["detail"]
    logs = good(api.get(f"/v1/devboxes/{made['id']}/logs"))["logs"]
    commands = [each for each in logs if each["source"] == "setup_commands"]
    assert [each["cmd"] for each in commands if "cmd" in each] == launch["launch_commands"][:2]
    assert 3 in [each.get("exit_code") for each in commands]


def test_a_slow_launch_shows_initializing_and_can_be_shut_down(api: httpx.Client) -> None:
    body = {"launch_parameters": {"launch_commands": ["sleep 1000"]}}
    made = good(api.post("/v1/devboxes", json=body))
    devbox = DevboxOverHttp(api, made["id"])
    devbox.reaches("initializing")
    assert "initializing" in refusal(devbox.post("execute_async", {"command": "true"}), 408)
    assert good(devbox.post("shutdown"))["status"] == "shutdown"
    eventually(lambda: devbox.view()["status"] == "shutdown", "shutdown to stay")
