"""Folders of this machine as agents, blueprints and copies in devboxes, by both clients of a real server."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_type

import pytest

from benchyard.client import Client
from benchyard.client.bodies import Progress
from benchyard.errors import BuildFailed, DevboxError, NotFound, UsageError
from benchyard.models.agents import AgentView
from benchyard.models.blueprints import BlueprintView
from benchyard.models.devboxes import DevboxRequest
from tests.client.scenes import unique

RUN = "sh {agent_dir}/agent.sh {prompt_file}"


class Seen:
    """Counts the bytes of transfers, by their names."""

    def __init__(self) -> None:
        self.bytes: dict[str, int] = {}

    @contextmanager
    def meter(self, name: str, size: int | None) -> Iterator[Progress]:
        """Count what passes in the block."""

        def count(further: int) -> None:
            self.bytes[name] = self.bytes.get(name, 0) + further

        yield count


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an executable, an empty folder, a link, and a file that is left out of contexts."""
    made = tmp_path / "folder"
    (made / "empty").mkdir(parents=True)
    (made / "agent.sh").write_text("echo an agent\n")
    (made / "agent.sh").chmod(0o755)
    (made / "left-out").write_text("not for contexts\n")
    (made / ".dockerignore").write_text("left-out\n")
    (made / "link").symlink_to("agent.sh")
    return made


@pytest.fixture
def box(client: Client) -> Iterator[str]:
    """The id of a devbox."""
    made = client.devboxes.create_and_await_running(DevboxRequest(name=unique("box")))
    yield made.id
    client.devboxes.shutdown(made.id)


def test_a_folder_is_copied_into_a_devbox_and_out(
    client: Client, box: str, folder: Path, tmp_path: Path
) -> None:
    seen = Seen()
    client.files.upload_folder(box, "~/in it", str(folder), meter=seen.meter)
    told = client.executions.run(box, "cd 'in it' && stat -c %a agent.sh && readlink link && ls -A").stdout
    assert told.split() == ["755", "agent.sh", ".dockerignore", "agent.sh", "empty", "left-out", "link"]
    assert client.executions.run(box, "ls -A ~ | grep -c '[.]benchyard-.*[.]tar'").stdout == "0\n"
    client.files.download_folder(box, "~/in it", tmp_path / "out", meter=seen.meter)
    assert (tmp_path / "out/agent.sh").read_text() == "echo an agent\n"
    assert (tmp_path / "out/link").readlink() == Path("agent.sh")
    assert (tmp_path / "out/empty").is_dir()
    assert set(seen.bytes) == {str(folder), "~/in it"}
    with pytest.raises(DevboxError, match="copying failed in the devbox"):
        client.files.download_folder(box, "/no/such/folder", tmp_path / "none")


def test_an_agent_is_registered_from_a_folder_a_file_and_a_repository(client: Client, folder: Path) -> None:
    seen = Seen()
    name = unique("agent")
    made = assert_type(
        client.agents.register(
            name, RUN, object=str(folder), version="1", setup=["true"], metadata={"a": "b"}, meter=seen.meter
        ),
        AgentView,
    )
    assert made.source is not None
    assert (made.name, made.version, made.source.type, made.source.setup) == (name, "1", "object", ["true"])
    assert seen.bytes.keys() == {f"{name}.tgz"}
    filed = client.agents.register(name, RUN, object=str(folder / "agent.sh"), version="2")
    assert filed.source is not None
    assert filed.source.type == "object"
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", "-C", folder, *command], check=True)
    committed = client.agents.register(name, RUN, git=str(folder), ref="HEAD", version="3")
    assert committed.source is not None
    assert committed.source.type == "object"
    packaged = client.agents.register(name, RUN, pip="a-package", version="4.0")
    assert packaged.source is not None
    assert packaged.source.type == "pip"
    assert client.agents.get(packaged.id).version == "4.0"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, "where the agent comes from"),
        ({"npm": "a", "pip": "b"}, "where the agent comes from"),
        ({"pip": "a", "ref": "main"}, "--ref is for --git"),
        ({"git": "https://git.example/a", "registry": "https://b.example"}, "--registry is for"),
        ({"object": "./no-such-folder"}, "there is no folder or file"),
    ],
)
def test_sources_that_contradict_themselves_are_refused(
    client: Client, source: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        client.agents.register("refused", RUN, **source)  # type: ignore[arg-type]


def test_a_reference_that_is_no_commit_is_refused(client: Client, folder: Path) -> None:
    with pytest.raises(UsageError, match="not a branch, tag or commit"):
        client.agents.register("refused", RUN, git=str(folder), ref="--output=/tmp/x")
    with pytest.raises(UsageError, match="could not be packed"):
        client.agents.register("refused", RUN, git=str(folder))


def test_a_blueprint_is_built_from_files_and_commands(client: Client, folder: Path) -> None:
    lines: list[str] = []
    name = unique("built")
    view = assert_type(
        client.blueprints.build(
            name=name,
            files={"~/agent.sh": folder / "agent.sh"},
            commands=["sh ~/agent.sh"],
            metadata={"a": "b"},
            tell=lambda line: lines.append(line.message),
        ),
        BlueprintView,
    )
    assert (view.name, view.status.value, view.metadata) == (name, "build_complete", {"a": "b"})
    assert "an agent" in lines
    stacked = client.blueprints.build(name=unique("on-it"), base=name, commands=["true"], wait=False)
    assert client.blueprints.wait(stacked.id).base_blueprint_id == view.id
    with pytest.raises(BuildFailed, match="was not built"):
        client.blueprints.build(name=unique("failing"), commands=["false"])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"name": "nothing"}, "there is nothing to build"),
        ({"commands": ["true"]}, "give the blueprint a name"),
        ({"name": "binary", "files": {"/a": "binary"}}, "is not UTF-8 text"),
        ({"name": "missing", "files": {"/a": "missing"}}, "could not be read"),
        ({"context": "."}, "there is no Dockerfile"),
    ],
)
def test_builds_that_cannot_be_are_refused(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, object],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=words):
        client.blueprints.build(**asked)  # type: ignore[arg-type]


def test_an_unknown_network_policy_is_refused_before_anything_is_sent(client: Client) -> None:
    with pytest.raises(NotFound, match="no network policy"):
        client.blueprints.build(name="refused", commands=["true"], network_policy="no-such-policy")
