"""No secret that a devbox was given lies in the data folder in plain text, at no time."""

import base64
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, eventually, good


@pytest.fixture(params=["native", "fake"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    """A server of its own, since all of its folder is searched."""
    with RunningServer(tmp_path / "data", ["--driver", request.param]) as running:
        yield running


@contextmanager
def client(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=90) as made:
        yield made


def found(folder: Path, value: str) -> list[str]:
    """The files below a folder that hold the value, as it is or as base64."""
    plain = value.encode()
    forms = (plain, base64.b64encode(plain).rstrip(b"=")[:-1], plain.hex().encode())
    seen = []
    for root, folders, files in os.walk(folder):
        # What the devbox itself sees, and may write there, is its own.
        folders[:] = [each for each in folders if each not in ("changes", "work", "merged", "layers")]
        for name in files:
            path = Path(root, name)
            if path.is_file() and not path.is_symlink() and any(form in path.read_bytes() for form in forms):
                seen.append(str(path.relative_to(folder)))
    return seen


def test_a_secret_is_nowhere_while_its_devbox_lives_rests_and_after(server: RunningServer) -> None:
    value = f"planted-{secrets.token_hex(16)}"
    # A digest, since what a command prints is kept as it is.
    digest = hashlib.sha256(value.encode()).hexdigest() + "  -\n"
    with client(server) as api:
        good(api.post("/v1/secrets", json={"name": "PLANTED", "value": value}))
        box = create(api, secrets={"TOKEN": "PLANTED"})
        said = 'test -n "$TOKEN" && export COPY=$TOKEN && f() { printf %s "$1" | sha256sum; }'
        assert box.run(said, shell_name="s")["exit_status"] == 0
        # Runs, and waits, while the server is stopped.
        box.start("sleep 600", shell_name="t")
        waiting = box.start('test "$TOKEN" && echo still', shell_name="t")
        assert found(server.data, value) == []
    server.kill()
    assert found(server.data, value) == []
    server.start()
    with client(server) as api:
        box = DevboxOverHttp(api, box.id)
        # The devbox and its shells have what they had.
        assert box.run('f "$COPY"; f "$TOKEN"', shell_name="s")["stdout"] == digest + digest
        assert box.run('printf %s "$TOKEN" | sha256sum')["stdout"] == digest
        assert good(box.get(f"executions/{waiting}"))["status"] == "queued"
        good(box.post("suspend"))
        box.reaches("suspended")
        assert found(server.data, value) == []
        good(box.post("resume"))
        box.reaches("running")
        assert box.run('f "$COPY"', shell_name="s")["stdout"] == digest
        good(api.post("/v1/secrets/PLANTED/delete"))
        assert found(server.data, value) == []
        good(box.post("shutdown"))
        folder = server.data / "host" / "devboxes" / box.id
        eventually(lambda: not (folder / "changes").exists(), "the disk to go")
        assert found(server.data, value) == []
        eventually(lambda: not (folder / "shells").exists(), "the shells to go")


def test_a_token_of_a_repository_is_nowhere_after_its_clone(server: RunningServer) -> None:
    token = f"ghp_{secrets.token_hex(16)}"
    with client(server) as api:
        mount = {"repo_owner": "none", "repo_name": "none", "token": token, "type": "code_mount"}
        made = good(api.post("/v1/devboxes", json={"mounts": [mount]}))
        box = DevboxOverHttp(api, made["id"])
        box.reaches("failure", "running")
        assert found(server.data, token) == []
