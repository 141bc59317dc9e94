"""The account, its keys and its secrets, and a devbox's log, through the official client."""

import time
import uuid

import pytest
from runloop_api_client import APIStatusError, AuthenticationError, NotFoundError, Runloop, RunloopSDK
from runloop_api_client.sdk import Devbox

from benchyard.testing.server import RunningServer
from tests.sdk.boxes import create, output, run


def secret_name() -> str:
    return f"SECRET_{uuid.uuid4().hex}"


def test_there_is_one_account(client: Runloop) -> None:
    me = client.accounts.me()
    assert me.id.startswith("acc_")
    assert me.account_status == "ACCOUNT_STATUS_ENABLED"
    assert client.accounts.me() == me


def test_a_new_key_opens_the_server_until_it_expires(client: Runloop, server: RunningServer) -> None:
    made = client.apikeys.create(name="second")
    assert made.name == "second"
    assert made.key_secret is not None
    with Runloop(base_url=server.url, bearer_token=made.key_secret) as other:
        assert other.accounts.me() == client.accounts.me()
    past = int(time.time() * 1000) - 1
    expired = client.apikeys.create(name="expired", expires_at_ms=past)
    assert expired.expires_at_ms == past
    assert expired.key_secret is not None
    with (
        Runloop(base_url=server.url, bearer_token=expired.key_secret) as other,
        pytest.raises(AuthenticationError),
    ):
        other.accounts.me()


def test_secrets_are_kept_changed_and_forgotten_but_never_shown(client: Runloop) -> None:
    name = secret_name()
    made = client.secrets.create(name=name, value="first-value")
    assert (made.name, made.id.startswith("sec_")) == (name, True)
    with pytest.raises(APIStatusError, match=name):
        client.secrets.create(name=name, value="other")
    assert client.secrets.retrieve(name) == made
    changed = client.secrets.update(name, value="second-value")
    assert (changed.id, changed.update_time_ms >= made.update_time_ms) == (made.id, True)
    listed = client.secrets.list(limit=1000)
    assert name in {secret.name for secret in listed.secrets}
    assert "value" not in listed.to_json()
    id = create(client, secrets={"VALUE": name})
    assert output(client, id, "echo $VALUE") == "second-value\n"
    client.devboxes.shutdown(id)
    assert client.secrets.delete(name).name == name
    with pytest.raises(NotFoundError):
        client.secrets.retrieve(name)
    with pytest.raises(APIStatusError, match=name):
        client.devboxes.create(secrets={"VALUE": name})


def test_the_object_layer_keeps_secrets_too(sdk: RunloopSDK) -> None:
    name = secret_name()
    made = sdk.secret.create(name=name, value="one")
    assert made.get_info().name == name
    made.update("two")
    assert name in [each.name for each in sdk.secret.list()]
    with sdk.devbox.create(secrets={"VALUE": name}) as devbox:
        assert devbox.cmd.exec("echo $VALUE").stdout() == "two\n"
    sdk.secret.delete(name)
    with pytest.raises(NotFoundError):
        sdk.secret.from_name(name).get_info()


def test_the_log_has_what_was_run_and_printed(client: Runloop, box: str) -> None:
    ran = run(client, box, "echo logged; echo wrong >&2; exit 5", shell_name="logged")
    lines = client.devboxes.logs.list(box, execution_id=ran.execution_id).logs
    assert lines[0].cmd == "echo logged; echo wrong >&2; exit 5"
    assert {"logged", "wrong"} <= {line.message for line in lines}
    assert lines[-1].exit_code == 5
    assert {(line.cmd_id, line.source, line.shell_name) for line in lines} == {
        (ran.execution_id, "exec", "logged")
    }
    other = run(client, box, "echo other")
    by_shell = client.devboxes.logs.list(box, shell_name="logged").logs
    assert {each.cmd_id for each in by_shell} == {ran.execution_id}
    everything = client.devboxes.logs.list(box).logs
    assert {ran.execution_id, other.execution_id} <= {each.cmd_id for each in everything}
    times = [each.timestamp_ms for each in everything]
    assert times == sorted(times)


def test_the_log_can_be_read_after_the_end(sdk: RunloopSDK) -> None:
    with sdk.devbox.create(launch_parameters={"launch_commands": ["echo prepared"]}) as devbox:
        devbox.cmd.exec("echo said")
    assert {"prepared", "said"} <= messages(devbox)


def messages(devbox: Devbox) -> set[str | None]:
    return {log.message for log in devbox.logs().logs}
