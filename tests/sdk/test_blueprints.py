"""Blueprints through the official client, and devboxes made from them."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runloop_api_client import (
    APIStatusError,
    BadRequestError,
    NotFoundError,
    Runloop,
    RunloopError,
    RunloopSDK,
)
from runloop_api_client.lib.polling import PollingConfig
from runloop_api_client.types import BlueprintView

from benchyard.testing.server import RunningServer
from tests.sdk.blocking import Loop
from tests.sdk.boxes import create, eventually, output
from tests.sdk.conftest import KINDS, connected, leaving_nothing

QUICK = PollingConfig(interval_seconds=0.1, max_attempts=1200)


def name(of: str) -> str:
    return f"{of}-{uuid.uuid4().hex[:8]}"


def built(client: Runloop, of: str, **fields: Any) -> BlueprintView:
    return client.blueprints.create_and_await_build_complete(name=name(of), polling_config=QUICK, **fields)


def log(client: Runloop, id: str) -> str:
    return "\n".join(line.message for line in client.blueprints.logs(id).logs)


@pytest.fixture(scope="module")
def tools(client: Runloop) -> Iterator[BlueprintView]:
    """A blueprint that several tests look at."""
    made = built(
        client,
        "tools",
        file_mounts={"~/notes.txt": "from a mount\n", "/etc/tools.conf": "colour=blue\n"},
        system_setup_commands=[
            "echo installing; cat ~/notes.txt",
            "sudo sh -c 'echo system > /opt/tool; id -un'",
            "id -un > ~/who; echo oh >&2",
        ],
        metadata={"team": "a"},
        launch_parameters={"keep_alive_time_seconds": 1234, "resource_size_request": "X_SMALL"},
    )
    yield made
    client.blueprints.delete(made.id)


def test_setup_commands_and_file_mounts_are_in_the_devboxes_of_a_blueprint(
    client: Runloop, tools: BlueprintView
) -> None:
    assert tools.id.startswith("bpt_")
    assert (tools.status, tools.state, tools.failure_reason) == ("build_complete", "created", None)
    assert tools.build_finish_time_ms is not None
    assert tools.build_finish_time_ms >= tools.create_time_ms
    assert tools.parameters.system_setup_commands is not None
    assert len(tools.parameters.system_setup_commands) == 3
    id = create(client, blueprint_id=tools.id)
    command = "cat ~/notes.txt /etc/tools.conf /opt/tool ~/who; stat -c %U ~/notes.txt /opt/tool"
    assert output(client, id, command) == "from a mount\ncolour=blue\nsystem\nuser\nuser\nroot\n"
    view = client.devboxes.retrieve(id)
    assert view.blueprint_id == tools.id
    taken = client.devboxes.snapshot_disk(id)
    assert taken.source_blueprint_id == tools.id
    found = client.devboxes.disk_snapshots.list(source_blueprint_id=tools.id)
    assert [each.id for each in found] == [taken.id]
    client.devboxes.shutdown(id)


def test_the_log_has_each_step_and_its_output(client: Runloop, tools: BlueprintView) -> None:
    logs = client.blueprints.logs(tools.id)
    assert logs.blueprint_id == tools.id
    said = [line.message for line in logs.logs]
    wanted = ["file ~/notes.txt: 13 bytes", "installing", "from a mount", "root", "oh", "build complete"]
    assert [line for line in said if line in wanted] == wanted
    assert [line.timestamp_ms for line in logs.logs] == sorted(line.timestamp_ms for line in logs.logs)


def test_launch_parameters_of_a_blueprint_hold_unless_the_devbox_says_otherwise(
    client: Runloop, tools: BlueprintView
) -> None:
    plain = client.devboxes.retrieve(create(client, blueprint_id=tools.id)).launch_parameters
    assert (plain.keep_alive_time_seconds, plain.resource_size_request) == (1234, "X_SMALL")
    own = create(client, blueprint_id=tools.id, launch_parameters={"keep_alive_time_seconds": 99})
    mixed = client.devboxes.retrieve(own).launch_parameters
    assert (mixed.keep_alive_time_seconds, mixed.resource_size_request) == (99, "X_SMALL")


def test_the_build_devbox_is_not_listed(client: Runloop, tools: BlueprintView) -> None:
    assert [devbox.id for devbox in client.devboxes.list(limit=1000) if tools.id in devbox.id] == []


def test_a_name_means_its_newest_good_build(client: Runloop) -> None:
    called = name("versions")
    for version in ("1", "2"):
        client.blueprints.create_and_await_build_complete(
            name=called, system_setup_commands=[f"echo {version} > ~/version"], polling_config=QUICK
        )
    with pytest.raises(RunloopError, match="failed"):
        client.blueprints.create_and_await_build_complete(
            name=called, system_setup_commands=["exit 1"], polling_config=QUICK
        )
    id = create(client, blueprint_name=called)
    assert output(client, id, "cat ~/version") == "2\n"
    newest = next(iter(client.blueprints.list(name=called, status="build_complete")))
    client.blueprints.delete(newest.id)
    older = create(client, blueprint_name=called)
    assert output(client, older, "cat ~/version") == "1\n"
    for each in (id, older):
        client.devboxes.shutdown(each)


def test_a_command_that_fails_fails_the_build_and_is_in_the_log(client: Runloop) -> None:
    begun = client.blueprints.create(
        name=name("broken"),
        system_setup_commands=["echo fine", "echo on no account >&2; exit 7", "echo never"],
    )
    assert begun.status in ("queued", "provisioning", "building")
    with pytest.raises(RunloopError, match="failed"):
        client.blueprints.await_build_complete(begun.id, polling_config=QUICK)
    failed = client.blueprints.retrieve(begun.id)
    assert (failed.status, failed.failure_reason) == ("failed", "build_failed")
    assert "ended with 7" in failed.error_message  # type: ignore[attr-defined]
    assert "on no account" in failed.error_message  # type: ignore[attr-defined]
    said = log(client, begun.id)
    assert "on no account" in said
    assert "ended with 7" in said
    assert "\nnever" not in said
    with pytest.raises(BadRequestError, match="failed"):
        client.devboxes.create(blueprint_id=begun.id)


def test_a_blueprint_on_another_one_has_both_and_outlives_it(client: Runloop) -> None:
    base = built(client, "base", system_setup_commands=["echo below > ~/below"])
    on_top = built(client, "top", base_blueprint_id=base.id, system_setup_commands=["cp ~/below ~/above"])
    by_name = built(client, "same", base_blueprint_name=base.name)
    assert (on_top.base_blueprint_id, by_name.base_blueprint_id) == (base.id, base.id)
    client.blueprints.delete(base.id)
    for blueprint, files in ((on_top, "above\nbelow\n"), (by_name, "below\n")):
        id = create(client, blueprint_id=blueprint.id)
        assert output(client, id, "ls ~") == files
        client.devboxes.shutdown(id)
    with pytest.raises(NotFoundError):
        client.blueprints.create(name="x", base_blueprint_id=base.id)
    with pytest.raises(NotFoundError):
        client.blueprints.create(name="x", base_blueprint_name=base.name)


def test_a_repository_is_in_the_devboxes_of_a_blueprint(client: Runloop) -> None:
    mount: Any = {
        "repo_owner": "owner",
        "repo_name": "repo",
        "git_ref": "v1",
        "token": "hush-token",
        "install_command": "cp file ~/installed && echo installed with $DEP",
    }
    client.secrets.create(name=(secret := f"S{uuid.uuid4().hex[:8]}"), value="sesame")
    made = built(client, "code", code_mounts=[mount], secrets={"DEP": secret})
    assert made.parameters.code_mounts is not None
    assert made.parameters.code_mounts[0].token is None
    assert "installed with ***" in log(client, made.id)
    id = create(client, blueprint_id=made.id)
    assert output(client, id, "cat ~/repo/file ~/installed") == "one\none\n"
    client.devboxes.shutdown(id)


def test_secrets_reach_the_commands_and_nothing_else(client: Runloop, server: RunningServer) -> None:
    value = f"s3cr3t'{uuid.uuid4().hex}\nsecond-{uuid.uuid4().hex}"
    secret = f"S{uuid.uuid4().hex[:8]}"
    client.secrets.create(name=secret, value=value)
    commands = [
        'test -n "$DEPLOY" && echo "is $DEPLOY"',
        'printf %s "$DEPLOY" | wc -c > ~/length',
        "read line || echo no more input",
    ]
    made = built(client, "secret", secrets={"DEPLOY": secret}, system_setup_commands=commands)
    assert made.parameters.secrets == {"DEPLOY": secret}
    said = log(client, made.id)
    assert "is ***" in said
    assert "no more input" in said
    id = create(client, blueprint_id=made.id)
    assert output(client, id, 'cat ~/length; echo "[$DEPLOY]"') == f"{len(value)}\n[]\n"
    client.devboxes.shutdown(id)
    lines = [line.encode() for line in value.splitlines()]
    kept = [path for path in server.data.rglob("*") if path.is_file() and holds(path, lines)]
    assert kept == []
    with pytest.raises(BadRequestError, match="no secret"):
        client.blueprints.create(name="x", secrets={"A": "missing_secret"}, system_setup_commands=["true"])


def holds(path: Path, lines: list[bytes]) -> bool:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    return any(line in content for line in lines)


def test_blueprints_are_listed_by_name_status_and_page(client: Runloop) -> None:
    called = name("listed")
    made = [
        client.blueprints.create_and_await_build_complete(
            name=called, metadata={"n": str(number)}, polling_config=QUICK
        ).id
        for number in range(3)
    ]
    listed = client.blueprints.list
    assert [each.id for each in listed(name=called, limit=2)] == made[::-1]
    first = listed(name=called, limit=2)
    assert (first.has_more, first.total_count) == (True, 3)
    assert [each.id for each in listed(name=called, status="build_complete")] == made[::-1]
    assert list(listed(name=called, status="failed")) == []
    assert [each.metadata for each in listed(name=called)] == [{"n": "2"}, {"n": "1"}, {"n": "0"}]
    assert client.blueprints.delete(made[1]) == {}
    assert [each.id for each in listed(name=called)] == [made[2], made[0]]
    assert list(client.blueprints.list_public()) == []


def test_a_deleted_blueprint_can_be_looked_at_and_not_used(client: Runloop) -> None:
    made = built(client, "short-lived", system_setup_commands=["echo kept > ~/file"])
    standing = create(client, blueprint_id=made.id)
    client.blueprints.delete(made.id)
    view = client.blueprints.retrieve(made.id)
    assert (view.state, view.status) == ("deleted", "build_complete")
    assert output(client, standing, "cat ~/file") == "kept\n"
    client.devboxes.suspend(standing)
    client.devboxes.await_suspended(standing)
    client.devboxes.resume(standing)
    client.devboxes.await_running(standing)
    assert output(client, standing, "cat ~/file") == "kept\n"
    for source in ({"blueprint_id": made.id}, {"blueprint_name": made.name}):
        with pytest.raises(NotFoundError):
            client.devboxes.create(**source)  # type: ignore[arg-type]
    client.devboxes.shutdown(standing)
    assert client.blueprints.delete(made.id) == {}
    with pytest.raises(NotFoundError):
        client.blueprints.retrieve("bpt_unknown")
    with pytest.raises(NotFoundError):
        client.blueprints.delete("bpt_unknown")
    with pytest.raises(NotFoundError):
        client.blueprints.logs("bpt_unknown")


def test_a_build_that_is_deleted_ends(client: Runloop, server: RunningServer) -> None:
    begun = client.blueprints.create(name=name("endless"), system_setup_commands=["echo on; sleep 1000"])
    eventually(lambda: "\non" in log(client, begun.id), "the build to run")
    with pytest.raises(BadRequestError, match="building"):
        client.devboxes.create(blueprint_id=begun.id)
    client.blueprints.delete(begun.id)
    view = client.blueprints.retrieve(begun.id)
    assert (view.state, view.status) == ("deleted", "failed")
    left = [path for path in (server.data / "host" / "devboxes").iterdir() if begun.id in path.name]
    assert left == []


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_a_preview_describes_the_build(client: Runloop) -> None:
    shown = client.blueprints.preview(
        name="p",
        dockerfile="FROM ubuntu:22.04\nRUN true\n",
        file_mounts={"/etc/conf": "x=1"},
        system_setup_commands=["sudo apt-get install -y jq"],
    ).dockerfile
    assert shown.startswith("FROM ubuntu:22.04\nRUN true\n")
    assert "COPY /etc/conf /etc/conf" in shown
    assert shown.rstrip().endswith("RUN sudo apt-get install -y jq")
    assert list(client.blueprints.list(name="p")) == []


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"base_blueprint_id": "a", "base_blueprint_name": "b"}, 400, "at most one"),
        ({"base_blueprint_id": "bpt_unknown"}, 404, "base blueprint"),
        ({"build_context": {"type": "object", "object_id": "obj_unknown"}}, 404, "obj_unknown"),
        ({"file_mounts": {"~/big": "x" * 98_251}}, 400, "98250|over"),
        ({"file_mounts": {f"~/{n}": "x" * 98_000 for n in range(81)}}, 400, "together"),
        ({"system_setup_commands": [""]}, 400, "empty"),
        ({"secrets": {"not a name": "X"}}, 400, "environment variable"),
        ({"services": [{"name": "db"}]}, 400, "image"),
        ({"services": [{"name": "db", "image": "p", "port_mappings": ["x"]}]}, 400, "port_mappings"),
        ({"launch_parameters": {"required_services": ["db"]}}, 400, "services"),
        ({"launch_parameters": {"custom_cpu_cores": 1}}, 400, "CUSTOM_SIZE"),
        ({"network_policy_id": "npl_1"}, 400, "no network policy"),
        ({"name": ""}, 400, "name"),
    ],
)
def test_invalid_blueprint_is_refused_before_anything_starts(
    client: Runloop, fields: dict[str, Any], status: int, words: str
) -> None:
    called = name("refused")
    # Not by the client's own method: that one looks at file mounts itself.
    with pytest.raises(APIStatusError, match=words) as refused:
        client.post("/v1/blueprints", cast_to=object, body={"name": called, **fields})
    assert refused.value.status_code == status
    assert list(client.blueprints.list(name=called)) == []


def test_services_are_kept_shown_and_asked_for_by_name(client: Runloop) -> None:
    service: Any = {
        "name": "db",
        "image": "postgres:16",
        "env": {"A": "1"},
        "port_mappings": ["5432:5432"],
        "credentials": {"username": "u", "password": "open sesame"},
    }
    made = built(client, "services", services=[service])
    assert made.containerized_services is not None
    shown = made.containerized_services[0]
    assert (shown.name, shown.image, shown.env) == ("db", "postgres:16", {"A": "1"})
    assert shown.credentials is not None
    assert (shown.credentials.username, shown.credentials.password) == ("u", "***")
    with pytest.raises(BadRequestError, match="cache"):
        client.devboxes.create(blueprint_id=made.id, launch_parameters={"required_services": ["cache"]})


def test_a_create_that_is_repeated_builds_once(client: Runloop) -> None:
    key = f"once-{uuid.uuid4()}"
    called = name("once")

    def ask(**changes: Any) -> BlueprintView:
        fields = {"name": called, "system_setup_commands": ["true"], **changes}
        return client.blueprints.create(**fields, idempotency_key=key)

    first = ask()
    assert ask().id == first.id
    client.blueprints.await_build_complete(first.id, polling_config=QUICK)
    assert ask().status == "build_complete"
    with pytest.raises(BadRequestError, match="another body"):
        ask(name="other")
    assert [blueprint.id for blueprint in client.blueprints.list(name=called)] == [first.id]


def test_a_context_that_is_not_uploaded_yet_is_waited_for(client: Runloop) -> None:
    thing = client.objects.create(name="context.tgz", content_type="tgz")
    context: Any = {"type": "object", "object_id": thing.id}
    begun = client.blueprints.create(name=name("waits"), dockerfile="FROM x", build_context=context)
    assert begun.status == "awaiting_upload"
    assert client.blueprints.retrieve(begun.id).status == "awaiting_upload"
    client.objects.delete(thing.id)
    of = client.blueprints.retrieve
    eventually(lambda: of(begun.id).status == "failed", "the build to be given up")
    assert "DELETED" in of(begun.id).error_message  # type: ignore[attr-defined]


def test_the_object_builds_and_starts_devboxes(sdk: RunloopSDK) -> None:
    blueprint = sdk.blueprint.create(
        name=name("object"), system_setup_commands=["echo kept > ~/file"], polling_config=QUICK
    )
    assert blueprint.get_info().status == "build_complete"
    assert "build complete" in [line.message for line in blueprint.logs().logs]
    assert blueprint.id in [each.id for each in sdk.blueprint.list(name=blueprint.get_info().name)]
    with blueprint.create_devbox() as devbox:
        assert devbox.file.read(file_path="~/file") == "kept\n"
    with sdk.devbox.create_from_blueprint_id(blueprint.id) as devbox:
        assert devbox.get_info().blueprint_id == blueprint.id
    with sdk.devbox.create_from_blueprint_name(blueprint.get_info().name) as devbox:
        assert devbox.get_info().blueprint_id == blueprint.id
    blueprint.delete()
    assert sdk.blueprint.from_id(blueprint.id).get_info().state == "deleted"


@pytest.fixture(params=KINDS)
def lonely(
    request: pytest.FixtureRequest, tmp_path: Path, loop: Loop
) -> Iterator[tuple[RunningServer, Runloop]]:
    """A server of the test's own, and a client."""
    with (
        leaving_nothing(RunningServer(tmp_path / "data")) as server,
        connected(request.param, server, loop) as client,
    ):
        yield server, client


def test_a_build_that_a_killed_server_left_is_built_again_once(lonely: tuple[RunningServer, Runloop]) -> None:
    server, client = lonely
    slow = "echo begun; sleep 1000"
    begun = client.blueprints.create(name="cut", system_setup_commands=["echo one > ~/file", slow])
    behind = [client.blueprints.create(name="behind", system_setup_commands=["true"]) for _ in range(3)]
    eventually(lambda: log(client, begun.id).count("\nbegun") == 1, "the build to run")
    client.blueprints.delete(behind[0].id)
    server.kill()
    server.start()
    eventually(lambda: log(client, begun.id).count("\nbegun") == 2, "the build to run again")
    assert client.blueprints.retrieve(begun.id).status == "building"
    assert "begins again" in log(client, begun.id)
    for each in behind[1:]:
        assert client.blueprints.await_build_complete(each.id, polling_config=QUICK).id == each.id
    server.restart()
    eventually(lambda: log(client, begun.id).count("\nbegun") == 3, "a stop not to count")
    server.kill()
    server.start()
    of = client.blueprints.retrieve
    eventually(lambda: of(begun.id).status == "failed", "the build to be given up")
    assert "stopped 2 times" in of(begun.id).error_message  # type: ignore[attr-defined]
    left = [path.name for path in (server.data / "host" / "devboxes").iterdir() if begun.id in path.name]
    assert left == []
