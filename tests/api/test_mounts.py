"""What is put into a devbox before it runs."""

import gzip
import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import create, good


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of repositories, as a git server would show it."""
    folder = tmp_path_factory.mktemp("forge")
    work = folder / "work"
    script = """
        git init -q -b main . && git config user.email a@b.c && git config user.name a
        echo one > file && git add file && git commit -qm one && git tag v1
        echo two > file && git commit -qam two
        git checkout -qb side && echo side > file && git commit -qam side && git checkout -q main
    """
    work.mkdir()
    subprocess.run(["sh", "-ec", script], cwd=work, check=True)
    (folder / "owner").mkdir()
    subprocess.run(["git", "clone", "-q", "--bare", work, folder / "owner" / "repo.git"], check=True)
    return folder


@pytest.fixture(scope="module")
def mounting(forge: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server whose code mounts come from the folder."""
    settings = {"BENCHYARD_GIT_URL": f"file://{forge}"}
    data = tmp_path_factory.mktemp("mounting") / "data"
    with (
        RunningServer(data, ["--driver", "fake"], settings) as server,
        httpx.Client(
            base_url=server.url, headers={"authorization": f"Bearer {server.key}"}, timeout=40
        ) as client,
    ):
        yield client


def stored(api: httpx.Client, content: bytes, content_type: str) -> str:
    made = good(api.post("/v1/objects", json={"name": "mounted", "content_type": content_type}))
    assert httpx.put(made["upload_url"], content=content).status_code == 200
    good(api.post(f"/v1/objects/{made['id']}/complete"))
    id: str = made["id"]
    return id


def archive(mode: Any) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        member = tarfile.TarInfo("folder/file.txt")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"hello"))
    return buffer.getvalue()


def test_files_are_mounted(api: httpx.Client) -> None:
    devbox = create(
        api,
        file_mounts={"~/old-way.txt": "old €"},
        mounts=[{"type": "file_mount", "target": "/home/user/deep/new-way.txt", "content": "new"}],
    )
    assert devbox.run("cat ~/old-way.txt ~/deep/new-way.txt")["stdout"] == "old €new"
    devbox.post("shutdown")


def test_objects_are_mounted_and_archives_unpacked(api: httpx.Client) -> None:
    kinds = {
        "binary": (bytes(range(256)), "~/plain"),
        "gzip": (gzip.compress(b"unzipped"), "~/deep/unzipped"),
        "tar": (archive("w"), "~/tar"),
        "tgz": (archive("w:gz"), "~/tgz"),
    }
    mounts = [
        {"type": "object_mount", "object_id": stored(api, content, kind), "object_path": path}
        for kind, (content, path) in kinds.items()
    ]
    devbox = create(api, mounts=mounts)
    assert devbox.post("download_file", {"path": "~/plain"}).content == bytes(range(256))
    assert devbox.run("cat ~/deep/unzipped")["stdout"] == "unzipped"
    assert devbox.run("cat ~/tar/folder/file.txt ~/tgz/folder/file.txt")["stdout"] == "hellohello"
    devbox.post("shutdown")


def test_an_archive_that_is_none_fails_the_devbox(api: httpx.Client) -> None:
    mount = {"type": "object_mount", "object_id": stored(api, b"nonsense", "tgz"), "object_path": "~/x"}
    made = good(api.post("/v1/devboxes/create_and_await_running", json={"mounts": [mount]}))
    assert (made["status"], made["failure_reason"]) == ("failure", "execution_failed")


@pytest.mark.parametrize(("ref", "content"), [(None, "two"), ("v1", "one"), ("side", "side")])
def test_code_is_cloned_at_its_ref(mounting: httpx.Client, ref: str | None, content: str) -> None:
    mount = {"type": "code_mount", "repo_owner": "owner", "repo_name": "repo", "git_ref": ref}
    devbox = create(mounting, mounts=[{**mount, "install_command": "cp file installed"}])
    assert devbox.run("cat ~/repo/file ~/repo/installed")["stdout"] == f"{content}\n{content}\n"
    devbox.post("shutdown")


def test_a_token_is_left_nowhere(mounting: httpx.Client) -> None:
    mount = {"repo_owner": "owner", "repo_name": "repo", "token": "hush-hush-token"}
    devbox = create(mounting, code_mounts=[mount])
    assert devbox.run("grep -r hush-hush[-]token ~/ /proc/self/environ; echo $?")["stdout"].strip() == "1"
    shown = devbox.get("logs").text + str(devbox.view()) + mounting.get("/v1/devboxes").text
    assert "hush-hush-token" not in shown
    devbox.post("shutdown")


def test_code_that_is_not_there_fails_the_devbox(mounting: httpx.Client) -> None:
    mount = {"type": "code_mount", "repo_owner": "owner", "repo_name": "nothing"}
    made = good(mounting.post("/v1/devboxes/create_and_await_running", json={"mounts": [mount]}))
    assert (made["status"], made["failure_reason"]) == ("failure", "execution_failed")
    assert "nothing" in made["state_transitions"][-1]["detail"]
