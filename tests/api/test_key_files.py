"""Files that hold keys, or what they seal: lost ones are told of at the start, and none is open to others."""

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import create, good, refusal


@contextmanager
def client(server: RunningServer, key: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as made:
        yield made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(tmp_path / "data", ["--driver", "fake"]) as running:
        yield running


def test_lost_key_files_are_told_of_at_the_start(server: RunningServer) -> None:
    key = server.key
    with client(server, key) as api:
        good(api.post("/v1/secrets", json={"name": "KEPT", "value": "a-value"}))
    server.stop()
    assert "gone" not in server.log
    api_key, secret_key = server.data / "api-key", server.data / "secret-key"
    old = secret_key.read_text()
    api_key.unlink()
    server.start()
    # It follows from the server's own secret, and is the same again.
    assert server.key == key
    assert f"{api_key} was gone: it was written again" in server.log
    assert stat.S_IMODE(api_key.stat().st_mode) == 0o600
    server.stop()
    secret_key.unlink()
    api_key.unlink()
    server.start()
    assert f"{secret_key} was missing, and a new one was made" in server.log
    assert "KEPT" in server.log
    assert "secret update" in server.log
    assert f"{api_key} is gone" in server.log
    server.stop()
    api_key.write_text(key)
    secret_key.write_text(old)
    begun = len(server.log)
    server.start()
    assert "secret-key" not in server.log[begun:]
    assert "api-key" not in server.log[begun:]


def test_databases_are_closed_to_others_also_those_of_before(server: RunningServer) -> None:
    with client(server, server.key) as api:
        box = create(api)
        box.run("true")
        assert _open_to_others(server.data) == []
        server.stop()
        database = server.data / "benchyard.db"
        database.chmod(0o644)
        database.with_name("benchyard.db-wal").touch(0o644)
        server.start()
        assert _open_to_others(server.data) == []


def _open_to_others(data: Path) -> list[str]:
    found = [path for path in data.rglob("*.db*") if path.is_file()]
    assert found
    return [str(path) for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_a_deletion_that_is_asked_for_again_is_told_the_same(server: RunningServer, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    with client(server, server.key) as api:
        made = good(api.post("/v1/images/import", json={"name": "mine", "path": str(root)}))
        path = f"/v1/images/{made['id']}/delete"

        def delete(request: str) -> httpx.Response:
            return api.post(path, headers={"x-request-id": request})

        with ThreadPoolExecutor(4) as pool:
            assert [answer.status_code for answer in pool.map(delete, ["one"] * 4)] == [200] * 4
        assert delete("one").status_code == 200
        assert "no image" in refusal(delete("another"), 404)
