"""Imports by path: from folders that the operator named, and only while somebody waits for them."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from benchyard.client import Client
from benchyard.client.operations import Server
from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good, refusal

IMPORTS = ("/v1/images/import", "/v1/devboxes/disk_snapshots/import")


def root_in(folder: Path) -> Path:
    (folder / "etc").mkdir(parents=True)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "secret.txt").write_text("of the host")
    return folder


@contextlib.contextmanager
def served(data: Path, *options: str, driver: str = "fake") -> Iterator[tuple[RunningServer, httpx.Client]]:
    nothing = {"BENCHYARD_IMPORT_FROM": ""}
    with RunningServer(data, ["--driver", driver, *options], nothing) as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as api:
            yield server, api


@pytest.mark.parametrize("route", IMPORTS)
def test_nothing_is_imported_by_path_unless_the_operator_named_a_folder(tmp_path: Path, route: str) -> None:
    root = root_in(tmp_path / "home")
    with served(tmp_path / "data") as (_, api):
        assert "--import-from" in refusal(api.post(route, json={"name": "steal", "path": str(root)}), 400)
        assert [each["name"] for each in good(api.get("/v1/images"))["images"]] == ["host"]


def test_paths_outside_and_links_are_refused(tmp_path: Path) -> None:
    allowed = root_in(tmp_path / "allowed" / "root").parent
    elsewhere = root_in(tmp_path / "allowed-not")
    (allowed / "link").symlink_to(elsewhere)
    (allowed / "relative").symlink_to("../allowed-not")
    (allowed / "via").symlink_to(tmp_path)
    (allowed / "inner").symlink_to("root")
    (allowed / "loop").symlink_to("loop")
    os.mkfifo(allowed / "pipe")
    data = allowed / "data"
    with served(data, "--import-from", str(allowed)) as (_, api):

        def answer(path: str) -> str:
            return refusal(api.post("/v1/images/import", json={"name": "steal", "path": path}), 400)

        for path in (
            str(elsewhere),
            f"{allowed}/link",
            f"{allowed}/relative",
            f"{allowed}/via/allowed-not",
            f"{allowed}/../allowed-not",
            f"{allowed}/loop",
            f"{allowed}/missing",
            f"{elsewhere}/missing",
            f"{allowed}/root\0",
            str(tmp_path),
            str(data),
            f"{data}/secret-key",
            f"{data}/images",
            "/proc/self/root",
            "/proc/self/cwd",
            "/",
        ):
            assert "--import-from" in answer(path) or "absolute path" in answer(path), path
        assert "neither a file nor a folder" in answer(f"{allowed}/pipe")
        for name in ("root", "inner"):
            made = good(api.post("/v1/images/import", json={"name": name, "path": f"{allowed}/{name}"}))
            assert good(api.post(f"/v1/images/{made['id']}/delete")) == {}
        assert [each["name"] for each in good(api.get("/v1/images"))["images"]] == ["host"]


def test_a_users_own_folder_is_sent_instead_with_its_owners(tmp_path: Path) -> None:
    # A folder that the server does not import from, since it is told of none.
    root = root_in(tmp_path / "rootfs")
    os.chown(root / "secret.txt", 1234, 4321)
    with served(tmp_path / "data", driver="native") as (running, api):
        environment = {**os.environ, "BENCHYARD_URL": running.url, "BENCHYARD_API_KEY": running.key}
        typed = [sys.executable, "-m", "benchyard.cli.main", "image", "import", str(root), "--name", "sent"]
        subprocess.run(typed, check=True, capture_output=True, env=environment, timeout=90)
        made = good(api.get("/v1/images/sent"))
        layers = running.data / "images" / "layers"
        (kept,) = layers.glob("*/secret.txt")
        assert (kept.stat().st_uid, kept.stat().st_gid) == (1234, 4321)
        assert good(api.post(f"/v1/images/{made['id']}/delete")) == {}


PART = "part-of-the-slow-one-"


def slow(folder: Path, parts: int) -> Path:
    """A root filesystem of so many hundred files."""
    root = root_in(folder)
    for number in range(parts):
        (root / f"{PART}{number}").mkdir()
        for file in range(100):
            (root / f"{PART}{number}/{file}").touch()
    return root


@pytest.mark.parametrize("route", IMPORTS)
def test_an_import_stops_when_its_client_leaves(tmp_path: Path, route: str) -> None:
    with served(tmp_path / "data", "--import-from", str(tmp_path), driver="native") as (server, api):
        for parts in (40, 160, 640):
            root = slow(tmp_path / f"slow-{parts}", parts)
            if _is_stopped(server, api, route, root):
                break
        else:
            pytest.fail("every import went on to its end")
        # The next one takes its turn at once.
        small = root_in(tmp_path / "small")
        good(api.post("/v1/images/import", json={"name": "small", "path": str(small)}))


def _is_stopped(server: RunningServer, api: httpx.Client, route: str, root: Path) -> bool:
    """Leave in the middle of an import, and see it stop; False where it was done already."""
    partial, layers = (server.data / "images" / name for name in ("partial", "layers"))
    before = {path.name for path in layers.iterdir()}
    with _posted(server, route, {"name": root.name, "path": str(root)}) as is_answered:
        eventually(lambda: _holds_parts(partial) or is_answered(), "the import to begin")
        if route == IMPORTS[0]:
            # Of the same name, and refused at once: it is answered while the other is under way.
            bad = {"name": root.name, "path": "/etc"}
            assert "--import-from" in refusal(api.post(route, json=bad), 400)
            bad["path"] = str(root / f"{PART}1")
            assert "at its top" in refusal(api.post(route, json=bad), 400)
            assert _seen(api).get(root.name) == "importing" or is_answered()
        if is_answered():
            return False
    eventually(lambda: not _holds_parts(partial), "what was half imported to go")
    # It is told of until all of it has gone.
    eventually(lambda: _seen(api).get(root.name) not in ("importing", "in_progress"), "the import to end")
    if root.name in _seen(api):
        # It was done before the server could hear that its client left.
        return False
    assert {path.name for path in layers.iterdir()} == before
    return True


def _holds_parts(folder: Path) -> bool:
    """Whether something of a slow import is in a folder, in which anything may come and go."""
    return any(name.startswith(PART) for _, names, _ in os.walk(folder) for name in names)


def _seen(api: httpx.Client) -> dict[str, str]:
    """Images and snapshots by name, with what they are."""
    images = good(api.get("/v1/images"))["images"]
    snapshots = good(api.get("/v1/devboxes/disk_snapshots"))["snapshots"]
    return {
        **{each["name"]: each["kind"] for each in images},
        **{each["name"]: _status(api, each["id"]) for each in snapshots},
    }


def _status(api: httpx.Client, snapshot_id: str) -> str:
    answer = api.get(f"/v1/devboxes/disk_snapshots/{snapshot_id}/status")
    # One that is abandoned goes between two requests.
    return "in_progress" if answer.status_code == 404 else str(good(answer)["status"])


@contextlib.contextmanager
def _posted(server: RunningServer, route: str, body: dict[str, str]) -> Iterator[Callable[[], bool]]:
    """A request whose client leaves when the block ends; what is yielded tells whether it is answered."""
    content = json.dumps(body).encode()
    head = (
        f"POST {route} HTTP/1.1\r\nhost: server\r\nauthorization: Bearer {server.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
        connection.sendall(head.encode() + content)
        yield lambda: bool(select.select([connection], [], [], 0)[0])


def test_a_detached_import_goes_on_and_tells_how_it_went(tmp_path: Path) -> None:
    root = root_in(tmp_path / "root")
    with served(tmp_path / "data", "--import-from", str(tmp_path), driver="native") as (server, api):
        body = {"name": "own", "path": str(root), "detach": True}
        begun = good(api.post("/v1/images/import", json=body))
        assert begun["name"] == "own"
        eventually(lambda: good(api.get("/v1/images/own"))["kind"] == "image", "it to be imported")
        assert good(api.get("/v1/images/own"))["id"] == begun["id"]
        (tmp_path / "nonsense").write_bytes(b"nonsense" * 100)
        good_or_not = api.post(
            "/v1/images/import", json={"name": "bad", "path": str(tmp_path / "nonsense"), "detach": True}
        )
        assert good_or_not.status_code in (200, 400)
        eventually(lambda: api.get("/v1/images/bad").status_code == 400, "it to fail")
        assert "not a readable tar" in api.get("/v1/images/bad").json()["message"]
        with Client(Server(server.url, server.key)) as client:
            client.images.export("own", tmp_path / "own.oci")
            # The upload is removed by who sent it, and the import goes on without.
            sent = client.snapshots.import_archive(tmp_path / "own.oci", "sent", detach=True)
            assert list(client.objects.list()) == []
            eventually(lambda: client.snapshots.status(sent.id).status == "complete", "the snapshot")
            again = client.images.import_archive(tmp_path / "own.oci", "again", detach=True)
            eventually(lambda: client.images.get(again.id).kind == "image", "the image")
