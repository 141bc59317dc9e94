"""`benchyard blueprint` against a real server."""

import json
import secrets
from pathlib import Path

import pytest
import yaml

from benchyard.client import Client, Server
from benchyard.errors import BuildFailed
from benchyard.models.blueprints import BlueprintRequest
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line of the server with the native driver."""
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    return CommandLine(monkeypatch, capfd)


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"cli-{secrets.token_hex(4)}"


def test_a_blueprint_is_built_shown_used_and_deleted(
    benchyard: CommandLine, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "setup.sh"
    script.write_text("echo set up > ~/done\n")
    ended = benchyard(
        *("blueprint", "build", "--name", name, "--file", f"{script}:~/setup.sh", "--run", "sh ~/setup.sh"),
        *("--run", "echo one line; echo another", "--metadata", "a=b", "-o", "json"),
    )
    assert ended.status == 0, ended.err
    view = json.loads(ended.out)
    assert (view["name"], view["status"], view["metadata"]) == (name, "build_complete", {"a": "b"})
    assert "one line\nanother\n" in ended.err
    assert view["id"] in benchyard.ok("blueprint", "list", "--name", name)
    assert yaml.safe_load(benchyard.ok("blueprint", "show", name, "-o", "yaml"))["id"] == view["id"]
    assert "2" in benchyard.ok("blueprint", "show", view["id"])
    assert "one line\nanother\n" in benchyard.ok("blueprint", "logs", name)
    assert "one line\nanother\n" in benchyard.ok("blueprint", "logs", "-f", name)
    on_top = json.loads(
        benchyard.ok(
            "blueprint", "build", "--name", f"{name}-2", "--base", name, "--run", "true", "-o", "json"
        )
    )
    assert on_top["base_blueprint_id"] == view["id"]
    for image in (name, view["id"], f"{name}-2"):
        box = json.loads(benchyard.ok("devbox", "create", "--blueprint", image, "-o", "json"))
        assert box["blueprint_id"] in (view["id"], on_top["id"])
        assert benchyard.ok("devbox", "exec", box["id"], "--", "cat ~/done") == "set up\n"
        benchyard.ok("devbox", "shutdown", box["id"])
    assert benchyard.ok("blueprint", "delete", view["id"], f"{name}-2").count("deleted") == 2
    assert benchyard("blueprint", "show", f"{name}-2").status == 4


def test_a_build_that_fails_says_so_and_fails(benchyard: CommandLine, name: str) -> None:
    ended = benchyard("blueprint", "build", "--name", name, "--run", "echo oh no; exit 3")
    assert ended.status == BuildFailed.exit_code
    assert "oh no" in ended.err
    assert ended.err.count("ended with 3") == 1, "once, where it belongs"
    assert "benchyard blueprint logs bpt_" in ended.err
    assert ended.out == ""


def test_a_build_need_not_be_waited_for(benchyard: CommandLine, name: str) -> None:
    made = json.loads(
        benchyard.ok("blueprint", "build", "--name", name, "--run", "sleep 0.5", "--no-wait", "-o", "json")
    )
    assert made["status"] in ("queued", "provisioning", "building")
    assert "build complete" in benchyard.ok("blueprint", "logs", "-f", made["id"])


def test_a_context_goes_up_with_the_dockerfile_and_away_after_the_build(
    benchyard: CommandLine, name: str, tmp_path: Path, server: RunningServer
) -> None:
    context = tmp_path / name
    context.mkdir()
    assert "no" in benchyard("blueprint", "build", str(context)).err
    (context / "Dockerfile").write_text("FROM scratch\n")
    with Client(Server(server.url, server.key)) as client:
        before = len([each for each in client.objects.list() if each.state.value != "DELETED"])
        ended = benchyard("blueprint", "build", str(context), "--build-arg", "A=1")
        # Whether Dockerfiles can be built depends on the machine; what was sent does not.
        assert ended.status in (0, BuildFailed.exit_code), ended.err
        view = next(iter(client.blueprints.list(name)))
        assert view.parameters.dockerfile == "FROM scratch\n"
        assert view.parameters.build_args == {"A": "1"}
        assert view.parameters.build_context is not None
        assert client.objects.get(view.parameters.build_context.object_id).state.value == "DELETED"
        assert len([each for each in client.objects.list() if each.state.value != "DELETED"]) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--name", "x"],
        ["--run", "true"],
        ["--name", "x", "--run", "true", "--secret", "A"],
        ["--name", "x", "--run", "true", "--secret", "A=NO_SUCH_SECRET"],
        ["--name", "x", "--run", "true", "--file", "/no/such:/x"],
        ["--name", "", "--run", "true"],
        ["--name", "x", "--run", "\0"],
    ],
)
def test_invalid_build_is_refused(benchyard: CommandLine, arguments: list[str]) -> None:
    assert benchyard("blueprint", "build", *arguments).status == 2
    assert "x" not in [each["name"] for each in json.loads(benchyard.ok("blueprint", "list", "-o", "json"))]


def test_the_client_waits_previews_and_reports_failures(server: RunningServer, name: str) -> None:
    with Client(Server(server.url, server.key)) as client:
        request = BlueprintRequest(name=name, system_setup_commands=["true"])
        assert client.blueprints.preview(request).endswith("RUN true\n")
        assert client.blueprints.wait(client.blueprints.create(request).id).status.value == "build_complete"
        broken = client.blueprints.create(BlueprintRequest(name=name, system_setup_commands=["exit 4"]))
        with pytest.raises(BuildFailed, match="ended with 4"):
            client.blueprints.wait(broken.id)


def test_unbuilt_blueprint_is_shown_as_on_demand(
    benchyard: CommandLine, server: RunningServer, name: str
) -> None:
    with Client(Server(server.url, server.key)) as client:
        made = client.blueprints.create(
            BlueprintRequest(name=name, dockerfile="FROM scratch", on_demand=True)
        )
    try:
        assert "on demand" in benchyard.ok("blueprint", "list", "--name", name)
        shown = json.loads(benchyard.ok("blueprint", "show", name, "-o", "json"))
        assert shown["status"] == "queued", "the wire is as it was"
    finally:
        benchyard.ok("blueprint", "delete", made.id)
