"""Executions over HTTP: three ways to run, input, signals, kills, shells, streams."""

import json
import uuid
from typing import Any

import httpx
import pytest

from tests.api.devbox import DevboxOverHttp, eventually, good, refusal


def events(
    devbox: DevboxOverHttp, execution_id: str, stream: str = "stdout", **query: Any
) -> list[dict[str, Any]]:
    path = f"/v1/devboxes/{devbox.id}/executions/{execution_id}/stream_{stream}_updates"
    with devbox.api.stream("GET", path, params=query) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def output(devbox: DevboxOverHttp, execution_id: str, stream: str = "stdout", **query: Any) -> str:
    return "".join(each["output"] for each in events(devbox, execution_id, stream, **query))


def raw(devbox: DevboxOverHttp, execution_id: str, **query: Any) -> bytes:
    answer = devbox.get(f"executions/{execution_id}/output/stdout", params=query)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    return answer.content


def test_execute_waits_and_gives_exit_status_and_output(devbox: DevboxOverHttp) -> None:
    view = devbox.run("echo out; echo err >&2; exit 3")
    assert (view["exit_status"], view["stdout"], view["stderr"]) == (3, "out\n", "err\n")
    assert (view["stdout_truncated"], view["stderr_truncated"]) == (False, False)
    assert view["devbox_id"] == devbox.id


def test_execute_with_the_same_id_runs_once(devbox: DevboxOverHttp) -> None:
    body = {"command": "echo x >> ~/once; cat ~/once", "command_id": str(uuid.uuid4())}
    first = good(devbox.post("execute", body))
    assert first["execution_id"] == body["command_id"]
    assert good(devbox.post("execute", body)) == first
    assert devbox.run("cat ~/once")["stdout"] == "x\n"
    assert "another request" in refusal(devbox.post("execute", {**body, "command": "echo y"}), 400)


def test_execute_gives_up_waiting_but_not_the_command(devbox: DevboxOverHttp) -> None:
    body = {"command": "sleep 1; echo late", "command_id": str(uuid.uuid4()), "optimistic_timeout": 0}
    view = good(devbox.post("execute", body))
    assert (view["status"], view["exit_status"], view["stdout"]) == ("running", None, None)
    assert devbox.ended(view["execution_id"])["stdout"] == "late\n"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"command": "true", "command_id": "not-a-uuid"}, "command_id"),
        ({"command": "true"}, "command_id"),
        ({"command": "", "command_id": str(uuid.uuid4())}, "command"),
        ({"command": ["true"], "command_id": str(uuid.uuid4())}, "command"),
        ({"command": "a\0b", "command_id": str(uuid.uuid4())}, "NUL"),
        (
            {"command": "true", "command_id": str(uuid.uuid4()), "optimistic_timeout": 26},
            "optimistic_timeout",
        ),
        ({"command": "true", "command_id": str(uuid.uuid4()), "shell_name": "a/b"}, "shell_name"),
    ],
)
def test_invalid_execution_is_400(devbox: DevboxOverHttp, body: dict[str, Any], says: str) -> None:
    assert says in refusal(devbox.post("execute", body), 400)


def test_execute_sync_gives_all_of_a_long_output(devbox: DevboxOverHttp) -> None:
    view = good(devbox.post("execute_sync", {"command": "seq 300000; printf '\\xff' >&2"}))
    assert view["stdout"].splitlines() == [str(number) for number in range(1, 300001)]
    assert (view["stderr"], view["hint"]) == ("\ufffd", None)
    long = good(devbox.post("execute_sync", {"command": "head -c 17000000 /dev/zero | tr '\\0' x; echo end"}))
    assert long["stdout"].endswith("x" * 1000 + "end\n")
    assert "Only the end" in long["hint"]


def test_execute_sync_waits_for_the_end(devbox: DevboxOverHttp) -> None:
    view = good(devbox.post("execute_sync", {"command": "sleep 0.2; echo done; exit 4"}))
    assert (view["exit_status"], view["stdout"], view["stderr"]) == (4, "done\n", "")
    assert "attach_stdin" in refusal(
        devbox.post("execute_sync", {"command": "cat", "attach_stdin": True}), 400
    )


def test_execute_async_sent_twice_runs_once(devbox: DevboxOverHttp) -> None:
    headers = {"x-request-id": "exec-once"}
    body = {"command": "echo x >> ~/async-once"}
    first = good(devbox.post("execute_async", body, headers=headers))["execution_id"]
    assert first.startswith("exec_")
    assert good(devbox.post("execute_async", body, headers=headers))["execution_id"] == first
    assert refusal(devbox.post("execute_async", {"command": "true"}, headers=headers), 400)
    devbox.ended(first)
    assert devbox.run("cat ~/async-once")["stdout"] == "x\n"


def test_a_command_that_is_not_found_ends_with_127(devbox: DevboxOverHttp) -> None:
    view = devbox.run("no-such-command-here")
    assert view["exit_status"] == 127
    assert "no-such-command-here" in view["stderr"]


def test_views_show_the_last_lines_and_say_when_some_are_left_out(devbox: DevboxOverHttp) -> None:
    view = devbox.run("seq 1 1000")
    lines = view["stdout"].splitlines()
    assert (len(lines), lines[-1], view["stdout_truncated"]) == (100, "1000", True)
    path = f"executions/{view['execution_id']}"
    short = good(devbox.get(path, params={"last_n": "2"}))
    assert (short["stdout"], short["stdout_truncated"]) == ("999\n1000\n", True)
    assert good(devbox.get(path, params={"last_n": "1000"}))["stdout_truncated"] is False
    for wrong in ("-1", "x", "1.5", "9999999999"):
        assert "last_n" in refusal(devbox.get(path, params={"last_n": wrong}), 400)


def test_waiting_for_an_execution_is_408_until_it_ends(devbox: DevboxOverHttp) -> None:
    execution = devbox.start("sleep 1000")
    wait = f"executions/{execution}/wait_for_status"
    answer = devbox.post(wait, {"statuses": ["completed"], "timeout_seconds": 0})
    assert "running" in refusal(answer, 408)
    assert good(devbox.post(wait, {"statuses": ["running"]}))["status"] == "running"
    killed = good(devbox.post(f"executions/{execution}/kill", {"kill_process_group": True}))
    assert (killed["status"], killed["exit_status"]) == ("completed", 137)
    assert good(devbox.post(f"executions/{execution}/kill")) == killed


def test_commands_killed_as_they_end_leave_the_devbox_alone(devbox: DevboxOverHttp) -> None:
    for _ in range(20):
        execution = devbox.start("true")
        assert good(devbox.post(f"executions/{execution}/kill"))["status"] == "completed"
    assert devbox.view()["status"] == "running"
    assert devbox.run("echo alive")["stdout"] == "alive\n"


def test_input_and_signals_reach_a_command(devbox: DevboxOverHttp) -> None:
    execution = devbox.start("cat", attach_stdin=True)
    send = f"executions/{execution}/send_std_in"
    assert good(devbox.post(send, {"text": "hello "}))["success"] is True
    assert good(devbox.post(send, {"text": "world\n", "signal": "EOF"}))["success"] is True
    assert devbox.ended(execution)["stdout"] == "hello world\n"
    assert good(devbox.post(send, {"text": "late"}))["success"] is False
    assert "text" in refusal(devbox.post(send, {}), 400)
    assert "signal" in refusal(devbox.post(send, {"signal": "QUIT"}), 400)


def test_an_interrupt_ends_a_command(devbox: DevboxOverHttp) -> None:
    execution = devbox.start(
        "trap 'exit 42' INT; echo ready; while :; do sleep 0.05; done", attach_stdin=True
    )
    eventually(lambda: raw(devbox, execution) == b"ready\n", "the command to be ready")
    devbox.post(f"executions/{execution}/send_std_in", {"signal": "INTERRUPT"})
    assert devbox.ended(execution)["exit_status"] == 42


def test_a_named_shell_keeps_directory_and_variables_and_queues(devbox: DevboxOverHttp) -> None:
    shell = {"shell_name": "work"}
    devbox.run("mkdir -p ~/sub && cd ~/sub && export COLOUR=blue", **shell)
    slow = devbox.start("sleep 0.5; echo slow >> order", **shell)
    queued = devbox.start("echo fast >> order; pwd; echo $COLOUR", **shell)
    view = devbox.ended(queued)
    assert view["shell_name"] == "work"
    assert view["stdout"].splitlines()[0].endswith("/sub")
    assert view["stdout"].splitlines()[1] == "blue"
    assert devbox.ended(slow)["exit_status"] == 0
    assert devbox.run("cat ~/sub/order")["stdout"] == "slow\nfast\n"
    assert devbox.run("echo ${COLOUR:-none}")["stdout"] == "none\n"


def test_a_stream_replays_a_finished_execution_from_any_offset(devbox: DevboxOverHttp) -> None:
    execution = devbox.run("printf 'abcdef'; printf 'xyz' >&2")["execution_id"]
    assert events(devbox, execution) == [{"output": "abcdef", "offset": 6}]
    assert output(devbox, execution, offset="4") == "ef"
    assert events(devbox, execution, offset="6") == []
    assert events(devbox, execution, offset="600") == []
    assert output(devbox, execution, "stderr") == "xyz"


def test_a_stream_follows_a_command_to_its_end(devbox: DevboxOverHttp) -> None:
    execution = devbox.start("for i in 1 2 3; do echo $i; sleep 0.1; done")
    found = events(devbox, execution)
    assert "".join(each["output"] for each in found) == "1\n2\n3\n"
    assert found[-1]["offset"] == 6


def test_binary_output_is_text_with_replacements_and_raw_bytes_as_they_are(devbox: DevboxOverHttp) -> None:
    view = devbox.run(r"printf 'a\377\342\202\254b\342\202'")
    data = b"a\xff\xe2\x82\xacb\xe2\x82"
    assert view["stdout"] == data.decode(errors="replace")
    assert output(devbox, view["execution_id"]) == data.decode(errors="replace")
    assert raw(devbox, view["execution_id"]) == data
    assert raw(devbox, view["execution_id"], offset=5) == data[5:]


def test_raw_output_can_be_followed(devbox: DevboxOverHttp) -> None:
    execution = devbox.start("echo one; sleep 0.3; echo two")
    assert raw(devbox, execution, follow=True) == b"one\ntwo\n"


@pytest.mark.parametrize("offset", ["-1", "x", "1.5", "9" * 40])
def test_an_offset_that_is_none_is_400(devbox: DevboxOverHttp, offset: str) -> None:
    execution = devbox.run("true")["execution_id"]
    path = f"executions/{execution}/stream_stdout_updates"
    assert "offset" in refusal(devbox.get(path, params={"offset": offset}), 400)


def test_an_unknown_execution_is_404(devbox: DevboxOverHttp) -> None:
    for path in (
        "executions/exec_x",
        "executions/exec_x/stream_stdout_updates",
        "executions/exec_x/output/stdout",
    ):
        assert refusal(devbox.get(path), 404)
    assert refusal(devbox.post("executions/exec_x/kill"), 404)
    assert refusal(devbox.post("executions/exec_x/send_std_in", {"text": "a"}), 404)
    assert refusal(devbox.post("executions/exec_x/wait_for_status", {"statuses": ["completed"]}), 404)


def test_paths_in_ids_lead_nowhere(devbox: DevboxOverHttp, api: httpx.Client) -> None:
    for id in ("..%2f..%2frequest", "%2e%2e", "a%00b", "x" * 500):
        assert devbox.get(f"executions/{id}").status_code in (400, 404)
        assert api.get(f"/v1/devboxes/{id}/logs").status_code in (400, 404)


def test_the_log_has_commands_and_their_output(devbox: DevboxOverHttp) -> None:
    execution = devbox.run("echo logged; echo wrong >&2; exit 5", shell_name="logged")["execution_id"]
    lines = good(devbox.get("logs", params={"execution_id": execution}))["logs"]
    assert next(each.get("cmd") for each in lines) == "echo logged; echo wrong >&2; exit 5"
    assert {"logged", "wrong"} <= {each.get("message") for each in lines}
    assert lines[-1]["exit_code"] == 5
    assert all(each["cmd_id"] == execution and each["source"] == "exec" for each in lines)
    by_shell = good(devbox.get("logs", params={"shell_name": "logged"}))["logs"]
    assert {each["cmd_id"] for each in by_shell} == {execution}
    assert refusal(devbox.get("logs", params={"execution_id": "exec_x"}), 404)
