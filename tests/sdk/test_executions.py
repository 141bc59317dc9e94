"""Commands through the official client: three ways to run, input, signals, kills, shells."""

import uuid
from typing import Any

import pytest
from runloop_api_client import BadRequestError, NotFoundError, Runloop
from runloop_api_client.lib.polling import PollingConfig, PollingTimeout

from tests.sdk.boxes import eventually, output, run


def start(client: Runloop, box: str, command: str, **options: Any) -> str:
    return client.devboxes.execute_async(box, command=command, **options).execution_id


def ended(client: Runloop, box: str, id: str) -> Any:
    return client.devboxes.executions.await_completed(id, devbox_id=box)


def printed(client: Runloop, box: str, id: str, text: str) -> None:
    """Wait until a command that still runs has printed this."""
    with client.devboxes.executions.stream_stdout_updates(id, devbox_id=box) as stream:
        seen = ""
        for chunk in stream:
            seen += chunk.output
            if text in seen:
                return
    raise AssertionError(f"it ended with {seen!r} and never printed {text!r}")


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_execute_sync_waits_for_the_end(client: Runloop, box: str) -> None:
    view = client.devboxes.execute_sync(box, command="echo out; echo err >&2; exit 3")
    assert (view.devbox_id, view.exit_status, view.stdout, view.stderr) == (box, 3, "out\n", "err\n")
    nested = client.devboxes.executions.execute_sync(box, command="printf x")
    assert (nested.exit_status, nested.stdout, nested.stderr) == (0, "x", "")
    with pytest.raises(BadRequestError, match="attach_stdin"):
        client.devboxes.execute_sync(box, command="cat", attach_stdin=True)


def test_execute_async_answers_at_once(client: Runloop, box: str) -> None:
    begun = client.devboxes.execute_async(box, command="sleep 0.3; echo out; echo err >&2; exit 4")
    assert (begun.devbox_id, begun.status, begun.exit_status) == (box, "running", None)
    assert begun.execution_id.startswith("exec_")
    view = ended(client, box, begun.execution_id)
    assert (view.status, view.exit_status, view.stdout, view.stderr) == ("completed", 4, "out\n", "err\n")
    assert (view.stdout_truncated, view.stderr_truncated) == (False, False)
    assert client.devboxes.executions.retrieve(begun.execution_id, devbox_id=box) == view


def test_execute_with_the_callers_id_runs_once(client: Runloop, box: str) -> None:
    id = str(uuid.uuid4())
    command = f"echo x >> ~/{id}; cat ~/{id}"
    first = client.devboxes.execute(box, command=command, command_id=id)
    assert (first.execution_id, first.status, first.stdout) == (id, "completed", "x\n")
    assert client.devboxes.execute(box, command=command, command_id=id) == first
    assert output(client, box, f"cat ~/{id}") == "x\n"
    with pytest.raises(BadRequestError, match="another request"):
        client.devboxes.execute(box, command="true", command_id=id)
    with pytest.raises(BadRequestError, match="command_id"):
        client.devboxes.execute(box, command="true", command_id="../../x")


def test_execute_gives_up_waiting_at_its_timeout(client: Runloop, box: str) -> None:
    id = str(uuid.uuid4())
    view = client.devboxes.execute(box, command="sleep 0.5; echo late", command_id=id, optimistic_timeout=0)
    assert (view.status, view.exit_status) == ("running", None)
    waited = client.devboxes.wait_for_command(id, devbox_id=box, statuses=["completed"], timeout_seconds=20)
    assert (waited.status, waited.stdout) == ("completed", "late\n")


def test_waiting_for_a_command_ends_when_the_caller_has_no_more_time(client: Runloop, box: str) -> None:
    id = start(client, box, "sleep 1000")
    with pytest.raises(PollingTimeout):
        client.devboxes.executions.await_completed(
            id, devbox_id=box, polling_config=PollingConfig(timeout_seconds=0.3)
        )
    client.devboxes.executions.kill(id, devbox_id=box)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("true", 0),
        ("false", 1),
        ("exit 255", 255),
        ("no-such-command-here", 127),
        ("/etc/passwd", 126),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("if then", 2),
    ],
)
def test_exit_codes_are_a_shells(client: Runloop, box: str, command: str, status: int) -> None:
    view = run(client, box, command)
    assert (view.status, view.exit_status) == ("completed", status)


def test_a_command_of_many_lines_and_a_huge_one_run(client: Runloop, box: str) -> None:
    assert output(client, box, "cat <<'END'\na $HOME \\ 'b\"\nEND\necho 'ü'") == "a $HOME \\ 'b\"\nü\n"
    text = "x" * 300_000
    assert output(client, box, f"printf %s {text} | wc -c").strip() == "300000"


def test_text_and_end_of_input_reach_a_command(client: Runloop, box: str) -> None:
    id = start(client, box, "cat", attach_stdin=True)
    send = client.devboxes.executions.send_std_in
    answer = send(id, devbox_id=box, text="hello €\n")
    assert (answer.devbox_id, answer.execution_id, answer.success) == (box, id, True)
    printed(client, box, id, "hello €")
    assert send(id, devbox_id=box, text="x" * 200_000).success
    assert send(id, devbox_id=box, signal="EOF").success
    view = ended(client, box, id)
    assert (view.exit_status, len(view.stdout)) == (0, 200_008)
    assert send(id, devbox_id=box, text="late").success is False


def test_an_interrupt_reaches_a_command(client: Runloop, box: str) -> None:
    command = "trap 'echo caught; exit 42' INT; echo ready; while :; do sleep 0.05; done"
    id = start(client, box, command, attach_stdin=True)
    printed(client, box, id, "ready")
    assert client.devboxes.executions.send_std_in(id, devbox_id=box, signal="INTERRUPT").success
    view = ended(client, box, id)
    assert (view.exit_status, view.stdout) == (42, "ready\ncaught\n")


def test_a_command_without_input_reads_its_end(client: Runloop, box: str) -> None:
    assert output(client, box, "cat; echo done") == "done\n"


def test_kill_ends_a_command_and_can_be_repeated(client: Runloop, box: str) -> None:
    id = start(client, box, "echo begun; exec sleep 1000")
    printed(client, box, id, "begun")
    killed = client.devboxes.executions.kill(id, devbox_id=box)
    view = ended(client, box, id)
    assert (view.status, view.exit_status, view.stdout) == ("completed", 137, "begun\n")
    assert killed.execution_id == id
    assert client.devboxes.executions.kill(id, devbox_id=box) == view


def test_kill_of_the_process_group_takes_the_children_too(client: Runloop, box: str) -> None:
    mark = f"1{uuid.uuid4().int % 10**9:09}"
    id = start(client, box, f"sleep {mark} & echo begun; wait")
    printed(client, box, id, "begun")
    # Until it runs its program, the child has its parent's name.
    eventually(lambda: run(client, box, f"pgrep -fc '^sleep {mark}'").stdout == "1\n", "the child")
    client.devboxes.executions.kill(id, devbox_id=box, kill_process_group=True)
    assert ended(client, box, id).exit_status == 137
    eventually(lambda: run(client, box, f"pgrep -fc '^sleep {mark}'").stdout == "0\n", "the child to be gone")


def test_a_named_shell_keeps_directory_and_environment(client: Runloop, box: str) -> None:
    name = uuid.uuid4().hex
    first = run(client, box, f"mkdir {name} && cd {name} && export COLOUR=blue && NUMBER=7", shell_name=name)
    assert first.shell_name == name
    assert output(client, box, "pwd; echo $COLOUR $NUMBER", shell_name=name) == f"/home/user/{name}\nblue 7\n"
    assert run(client, box, "exit 3", shell_name=name).exit_status == 3
    assert output(client, box, "pwd; echo $COLOUR", shell_name=name) == f"/home/user/{name}\nblue\n"
    assert output(client, box, "pwd; echo ${COLOUR:-none}") == "/home/user\nnone\n"
    assert output(client, box, "echo ${COLOUR:-none}", shell_name=f"{name}-other") == "none\n"


def test_a_named_shell_runs_one_command_after_the_other(client: Runloop, box: str) -> None:
    name = uuid.uuid4().hex
    commands = [f"sleep 0.{5 - index}; echo {index} >> ~/{name}" for index in range(4)]
    ids = [start(client, box, command, shell_name=name) for command in commands]
    states = [client.devboxes.executions.retrieve(id, devbox_id=box).status for id in ids]
    assert states[1:] == ["queued"] * 3
    for id in ids:
        assert ended(client, box, id).exit_status == 0
    assert output(client, box, f"cat ~/{name}") == "0\n1\n2\n3\n"


def test_a_queued_command_can_be_killed_and_the_next_runs(client: Runloop, box: str) -> None:
    name = uuid.uuid4().hex
    first = start(client, box, "sleep 1000", shell_name=name)
    second = start(client, box, f"touch ~/{name}", shell_name=name)
    third = start(client, box, "echo third", shell_name=name)
    client.devboxes.executions.kill(second, devbox_id=box)
    client.devboxes.executions.kill(first, devbox_id=box)
    assert ended(client, box, third).stdout == "third\n"
    assert ended(client, box, second).exit_status == 137
    assert run(client, box, f"test -e ~/{name}").exit_status == 1


def test_an_unknown_execution_is_not_found(client: Runloop, box: str) -> None:
    executions = client.devboxes.executions
    with pytest.raises(NotFoundError):
        executions.retrieve("exec_unknown", devbox_id=box)
    with pytest.raises(NotFoundError):
        executions.kill("exec_unknown", devbox_id=box)
    with pytest.raises(NotFoundError):
        executions.send_std_in("exec_unknown", devbox_id=box, text="x")
    with pytest.raises(NotFoundError):
        executions.await_completed("exec_unknown", devbox_id=box)
