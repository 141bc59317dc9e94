"""What a devbox can be launched with, through the official client."""

import uuid
from typing import Any

import pytest
from runloop_api_client import APIStatusError, BadRequestError, Runloop, RunloopError

from tests.sdk.boxes import create, output, reaches


def failed(client: Runloop, **request: Any) -> Any:
    """The view of a devbox that does not come up."""
    made = client.devboxes.create(**request)
    with pytest.raises(RunloopError, match="failure"):
        client.devboxes.await_running(made.id)
    return client.devboxes.retrieve(made.id)


def test_launch_commands_run_in_order_before_it_is_running(client: Runloop) -> None:
    commands = ["echo one > ~/log", "sleep 0.2; echo two >> ~/log"]
    id = create(client, launch_parameters={"launch_commands": commands})
    assert output(client, id, "cat ~/log") == "one\ntwo\n"
    client.devboxes.shutdown(id)


def test_a_launch_command_that_fails_fails_the_devbox(client: Runloop) -> None:
    launch = {"launch_commands": ["echo fine", "echo no such thing >&2; exit 3", "echo never"]}
    view = failed(client, name="fails", launch_parameters=launch)
    assert (view.status, view.failure_reason) == ("failure", "execution_failed")
    last = view.state_transitions[-1]
    assert last.failure_reason == "execution_failed"
    assert "ended with 3" in last.detail
    assert "no such thing" in last.detail
    lines = client.devboxes.logs.list(view.id).logs
    assert "never" not in [line.message for line in lines]
    assert {line.source for line in lines} == {"setup_commands"}


def test_environment_and_secrets_reach_commands(client: Runloop) -> None:
    name = f"SECRET_{uuid.uuid4().hex}"
    client.secrets.create(name=name, value="hush €\n'\"$HOME")
    id = create(
        client,
        environment_variables={"COLOUR": "bl ue €", "EMPTY": ""},
        secrets={"TOKEN": name},
        launch_parameters={"launch_commands": ['printf %s "$TOKEN" > ~/token']},
    )
    assert output(client, id, 'printf "%s|%s" "$COLOUR" "${EMPTY-unset}"') == "bl ue €|"
    assert output(client, id, 'printf %s "$TOKEN"') == "hush €\n'\"$HOME"
    assert output(client, id, "cat ~/token") == "hush €\n'\"$HOME"
    shown = client.devboxes.retrieve(id).to_json() + client.devboxes.list().to_json()
    assert "hush" not in shown
    client.devboxes.shutdown(id)
    client.secrets.delete(name)


def test_files_are_mounted_both_ways(client: Runloop) -> None:
    id = create(
        client,
        file_mounts={"~/old.txt": "old €", "/etc/benchyard-test": "root's"},
        mounts=[{"type": "file_mount", "target": "/home/user/deep/er/new.txt", "content": "new"}],
    )
    found = output(client, id, "cat ~/old.txt ~/deep/er/new.txt /etc/benchyard-test")
    assert found == "old €newroot's"
    assert output(client, id, "stat -c %U ~/old.txt ~/deep/er ~/deep/er/new.txt") == "user\n" * 3
    client.devboxes.shutdown(id)


def test_repositories_are_mounted_at_their_ref(client: Runloop) -> None:
    code = {"repo_owner": "owner", "repo_name": "repo", "git_ref": "v1", "install_command": "cp file done"}
    id = create(
        client, mounts=[{"type": "code_mount", **code}], metadata={"benchyard.network": "host"}, name="code"
    )
    assert output(client, id, "cat ~/repo/file ~/repo/done") == "one\none\n"
    assert output(client, id, "stat -c %U ~/repo/file") == "user\n"
    client.devboxes.shutdown(id)
    old_way = [{"repo_owner": "owner", "repo_name": "repo"}]
    id = create(client, code_mounts=old_way, metadata={"benchyard.network": "host"})
    assert output(client, id, "cat ~/repo/file") == "two\n"
    client.devboxes.shutdown(id)


def test_a_repository_that_cannot_be_reached_fails_the_devbox(client: Runloop) -> None:
    mounts = [{"type": "code_mount", "repo_owner": "owner", "repo_name": "repo"}]
    view = failed(client, mounts=mounts)
    assert view.failure_reason == "execution_failed"
    assert "unable to connect" in view.state_transitions[-1].detail


def test_a_token_of_any_allowed_length_is_kept_and_shown_nowhere(client: Runloop) -> None:
    code = {"type": "code_mount", "repo_owner": "owner", "repo_name": "repo", "token": "t0ken" * 819}
    id = create(client, mounts=[code], metadata={"benchyard.network": "host"})
    assert output(client, id, "cat ~/repo/file") == "two\n"
    assert "t0ken" not in client.devboxes.list().to_json()
    client.devboxes.shutdown(id)
    for token in ("x" * 4097, "a\0b"):
        with pytest.raises(BadRequestError, match="token"):
            client.devboxes.create(mounts=[{**code, "token": token}])  # type: ignore[list-item]


def test_commands_run_as_user_in_its_home(client: Runloop, box: str) -> None:
    said = "id -un; id -u; pwd; echo $HOME; touch ~/mine && stat -c %U ~/mine"
    assert output(client, box, said).split() == ["user", "1000", "/home/user", "/home/user", "user"]


def test_commands_run_as_root_on_request(client: Runloop) -> None:
    id = create(client, launch_parameters={"user_parameters": {"username": "root", "uid": 0}})
    assert output(client, id, "id -un; id -u; pwd").split() == ["root", "0", "/root"]
    output(client, id, "touch /etc/by-root && rm /etc/by-root")
    client.devboxes.shutdown(id)


def test_commands_run_as_a_user_made_for_it(client: Runloop) -> None:
    id = create(client, launch_parameters={"user_parameters": {"username": "ada", "uid": 1815}})
    assert output(client, id, "id -un; id -u; pwd; whoami").split() == ["ada", "1815", "/home/ada", "ada"]
    client.devboxes.write_file_contents(id, file_path="~/note", contents="hers")
    assert output(client, id, "stat -c %U /home/ada/note; cat ~/note") == "ada\nhers"
    client.devboxes.shutdown(id)


@pytest.mark.parametrize(
    "user",
    [
        {"username": "root", "uid": 1000},
        {"username": "ada", "uid": 0},
        {"username": "a b", "uid": 1001},
        {"username": "../x", "uid": 1001},
        {"username": "ada", "uid": -1},
        {"username": "ada", "uid": 2**31},
    ],
)
def test_a_user_that_cannot_be_is_refused(client: Runloop, user: Any) -> None:
    with pytest.raises(BadRequestError, match="user_parameters"):
        client.devboxes.create(launch_parameters={"user_parameters": user})


@pytest.mark.parametrize("size", ["X_SMALL", "SMALL", "MEDIUM", "LARGE", "X_LARGE", "XX_LARGE"])
def test_every_size_runs(client: Runloop, size: Any) -> None:
    id = create(client, launch_parameters={"resource_size_request": size})
    assert client.devboxes.retrieve(id).launch_parameters.resource_size_request == size
    assert output(client, id, "echo it runs") == "it runs\n"
    client.devboxes.shutdown(id)


def test_a_custom_size_runs_and_is_shown(client: Runloop) -> None:
    size = {"custom_cpu_cores": 2, "custom_gb_memory": 4, "custom_disk_size": 2}
    id = create(client, launch_parameters={"resource_size_request": "CUSTOM_SIZE", **size})
    shown = client.devboxes.retrieve(id).launch_parameters
    assert (shown.custom_cpu_cores, shown.custom_gb_memory, shown.custom_disk_size) == (2, 4, 2)
    client.devboxes.shutdown(id)


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        ({"resource_size_request": "CUSTOM_SIZE"}, "custom_cpu_cores"),
        ({"resource_size_request": "HUGE"}, "resource_size_request"),
        ({"resource_size_request": "SMALL", "custom_cpu_cores": 2}, "CUSTOM_SIZE"),
        (
            {"resource_size_request": "CUSTOM_SIZE", "custom_cpu_cores": 3, "custom_gb_memory": 6},
            "multiple of 2",
        ),
        ({"resource_size_request": "CUSTOM_SIZE", "custom_cpu_cores": 2, "custom_gb_memory": 64}, "ratio"),
        ({"keep_alive_time_seconds": 0}, "keep_alive_time_seconds"),
        ({"keep_alive_time_seconds": 172_801}, "keep_alive_time_seconds"),
        ({"after_idle": {"idle_time_seconds": 5, "on_idle": "explode"}}, "on_idle"),
        ({"launch_commands": "not a list"}, "launch_commands"),
    ],
)
def test_launch_parameters_that_cannot_be_are_refused(client: Runloop, launch: Any, says: str) -> None:
    with pytest.raises(BadRequestError, match=says):
        client.devboxes.create(launch_parameters=launch)


def test_the_end_of_the_entrypoint_ends_the_devbox(client: Runloop) -> None:
    made = client.devboxes.create(entrypoint="until [ -e ~/go ]; do sleep 0.05; done")
    client.devboxes.await_running(made.id)
    client.devboxes.execute_async(made.id, command="touch ~/go")
    assert reaches(client, made.id, "shutdown").shutdown_reason == "entrypoint_exit"


@pytest.mark.parametrize(
    ("request_", "feature"),
    [
        ({"mcp": {"A": {"mcp_config": "g", "secret": "s"}}}, "mcp"),
        ({"mounts": [{"type": "broker_mount", "axon_id": "axn_x"}]}, "broker_mount"),
    ],
)
def test_unsupported_parameter_is_refused_by_name(client: Runloop, request_: Any, feature: str) -> None:
    with pytest.raises(APIStatusError, match=feature) as refused:
        client.devboxes.create(**request_)
    assert refused.value.status_code == 501


def test_sudo_works_or_is_reported_as_missing(client: Runloop, box: str) -> None:
    doctor = client.get("/v1/doctor", cast_to=object)
    assert isinstance(doctor, dict)
    if "sudo" in doctor["capabilities"]:
        assert output(client, box, "sudo -n id -u") == "0\n"
    else:
        assert "sudo" in {each["capability"] for each in doctor["missing"]}
