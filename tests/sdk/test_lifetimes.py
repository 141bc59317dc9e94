"""How long devboxes live, and how they rest and wake, through the official client."""

import contextlib
import os
import signal

import pytest
from runloop_api_client import BadRequestError, ConflictError, Runloop, RunloopSDK

from tests.sdk.boxes import create, output, reaches, run
from tests.sdk.leftovers import members


def test_a_devbox_ends_when_its_keep_alive_time_is_over(client: Runloop) -> None:
    id = create(client, launch_parameters={"keep_alive_time_seconds": 1})
    ended = reaches(client, id, "shutdown")
    assert ended.shutdown_reason == "keep_alive_timeout"


def test_an_idle_devbox_is_shut_down(client: Runloop) -> None:
    policy = {"idle_time_seconds": 1, "on_idle": "shutdown"}
    id = create(client, launch_parameters={"after_idle": policy})
    assert reaches(client, id, "shutdown").shutdown_reason == "idle"


def test_an_idle_devbox_is_suspended_and_can_be_resumed(client: Runloop) -> None:
    policy = {"idle_time_seconds": 1, "on_idle": "suspend"}
    id = create(client, launch_parameters={"lifecycle": {"after_idle": policy}})
    client.devboxes.write_file_contents(id, file_path="~/kept", contents="still here")
    assert client.devboxes.await_suspended(id).status == "suspended"
    client.devboxes.resume(id)
    client.devboxes.await_running(id)
    assert client.devboxes.read_file_contents(id, file_path="~/kept") == "still here"
    client.devboxes.shutdown(id)


def test_use_keeps_a_devbox_from_being_idle(client: Runloop) -> None:
    policy = {"idle_time_seconds": 2, "on_idle": "shutdown"}
    id = create(client, launch_parameters={"after_idle": policy})
    assert output(client, id, "sleep 3; echo done") == "done\n"
    assert client.devboxes.retrieve(id).status == "running"
    client.devboxes.keep_alive(id)
    client.devboxes.shutdown(id)


def test_suspending_keeps_the_disk_and_ends_the_processes(client: Runloop) -> None:
    id = create(client, environment_variables={"COLOUR": "blue"})
    output(client, id, "echo kept > ~/file; sudo -n true; mkdir -p ~/a/b; ln -s file ~/link")
    running = client.devboxes.execute_async(id, command="echo begun; exec sleep 1000")
    output(client, id, "cd ~/a/b && export LEFT=behind", shell_name="work")
    asked = client.devboxes.suspend(id)
    assert asked.status in ("suspending", "suspended")
    assert client.devboxes.await_suspended(id).status == "suspended"
    ended = client.devboxes.executions.retrieve(running.execution_id, devbox_id=id)
    assert (ended.status, ended.stdout) == ("completed", "begun\n")
    assert ended.exit_status != 0
    with pytest.raises(ConflictError, match="resume it first"):
        client.devboxes.execute_async(id, command="true")
    client.devboxes.resume(id)
    assert client.devboxes.await_running(id).status == "running"
    assert output(client, id, "cat ~/link; echo $COLOUR") == "kept\nblue\n"
    assert run(client, id, "pgrep -f 'sleep [1]000'").exit_status == 1
    client.devboxes.shutdown(id)


def test_suspend_and_resume_can_be_repeated_and_refused(client: Runloop) -> None:
    id = create(client)
    assert client.devboxes.resume(id).status == "running"
    client.devboxes.suspend(id)
    client.devboxes.suspend(id)
    client.devboxes.await_suspended(id)
    assert client.devboxes.suspend(id).status == "suspended"
    client.devboxes.resume(id)
    client.devboxes.await_running(id)
    passed = [state_transition.status for state_transition in client.devboxes.retrieve(id).state_transitions]
    assert passed[-5:] == ["suspending", "suspended", "resuming", "initializing", "running"]
    client.devboxes.suspend(id)
    client.devboxes.await_suspended(id)
    assert client.devboxes.shutdown(id).status == "shutdown"
    with pytest.raises(BadRequestError, match="suspended"):
        client.devboxes.suspend(id)
    with pytest.raises(BadRequestError, match="resumed"):
        client.devboxes.resume(id)


def test_suspend_commands_run_before_it_rests(client: Runloop) -> None:
    hooks = {"suspend_commands": ["echo saved > ~/saved", "exit 1"], "suspend_deadline_ms": 20_000}
    id = create(client, launch_parameters={"lifecycle": {"lifecycle_hooks": hooks}})
    client.devboxes.suspend(id)
    client.devboxes.await_suspended(id)
    client.devboxes.resume(id)
    client.devboxes.await_running(id)
    assert output(client, id, "cat ~/saved") == "saved\n"
    client.devboxes.shutdown(id)


def test_suspend_commands_that_take_too_long_do_not_hold_it_up(client: Runloop) -> None:
    hooks = {"suspend_commands": ["sleep 1000"], "suspend_deadline_ms": 200}
    id = create(client, launch_parameters={"lifecycle": {"lifecycle_hooks": hooks}})
    client.devboxes.suspend(id)
    assert client.devboxes.await_suspended(id).status == "suspended"
    client.devboxes.shutdown(id)


def test_the_object_suspends_and_resumes(sdk: RunloopSDK) -> None:
    with sdk.devbox.create() as devbox:
        devbox.cmd.exec("echo kept > ~/file")
        devbox.suspend()
        assert devbox.await_suspended().status == "suspended"
        assert devbox.resume().status == "running"
        assert devbox.cmd.exec("cat ~/file").stdout() == "kept\n"
        devbox.keep_alive()
    assert devbox.get_info().status == "shutdown"


def test_root_cannot_end_a_devbox_by_killing_all_it_sees(client: Runloop) -> None:
    id = create(client, launch_parameters={"user_parameters": {"username": "root", "uid": 0}})
    assert run(client, id, "kill -9 -1; kill -9 1; exit 5").exit_status in (5, 137)
    assert output(client, id, "echo still here") == "still here\n"
    assert client.devboxes.retrieve(id).status == "running"
    client.devboxes.shutdown(id)


def test_a_devbox_that_dies_is_a_failure_with_a_reason(client: Runloop) -> None:
    id = create(client)
    for process in members(id):
        # The first one takes the others along.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    view = reaches(client, id, "failure")
    assert view.failure_reason == "health_check_failed"
    assert view.end_time_ms is not None
    with pytest.raises(ConflictError, match="has ended"):
        client.devboxes.execute_async(id, command="true")
