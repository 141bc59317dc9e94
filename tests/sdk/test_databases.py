"""The same through SQLite and Postgres, with the official client."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from runloop_api_client import BadRequestError, NotFoundError, Runloop

from benchyard.testing.server import RunningServer
from tests.sdk.blocking import Loop
from tests.sdk.boxes import create, output
from tests.sdk.conftest import connected, leaving_nothing


@pytest.fixture
def stored(database_url: str, tmp_path: Path) -> Iterator[RunningServer]:
    """A server on a new database of each kind."""
    with leaving_nothing(RunningServer(tmp_path / "data", ["--database-url", database_url])) as server:
        yield server


def test_devboxes_snapshots_and_lists(stored: RunningServer, loop: Loop) -> None:
    with connected("sync", stored, loop) as client:
        id = create(client, name="first", metadata={"key": "a"})
        output(client, id, "echo kept > ~/file")
        taken = client.devboxes.snapshot_disk(id, metadata={"key": "a", "other": "b"})
        found = client.devboxes.disk_snapshots.list
        assert [each.id for each in found(metadata_key="a")] == [taken.id]
        assert [each.id for each in found(metadata_key="b")] == []
        copies = [create(client, snapshot_id=taken.id) for _ in range(3)]
        assert output(client, copies[0], "cat ~/file") == "kept\n"
        client.devboxes.shutdown(id)
        page = client.devboxes.list(limit=3)
        assert ([devbox.id for devbox in page.devboxes], page.total_count) == (copies[::-1], 4)
        assert [devbox.id for devbox in client.devboxes.list(limit=3)] == [*copies[::-1], id]
        assert [devbox.id for devbox in client.devboxes.list(status="shutdown")] == [id]


def test_secrets_objects_and_idempotency_survive_a_kill(stored: RunningServer, loop: Loop) -> None:
    with connected("async", stored, loop) as client:
        client.secrets.create(name="KEPT", value="hush")
        made = client.objects.create(name="thing", content_type="text", metadata={"a": "1"})
        assert made.upload_url is not None
        httpx.put(made.upload_url, content=b"content")
        client.objects.complete(made.id)
        key = str(uuid.uuid4())
        id = client.devboxes.create_and_await_running(secrets={"V": "KEPT"}, idempotency_key=key).id
        stored.kill()
        stored.start()
        again = client.devboxes.create_and_await_running(secrets={"V": "KEPT"}, idempotency_key=key)
        assert (again.id, again.status) == (id, "running")
        with pytest.raises(BadRequestError):
            client.devboxes.create_and_await_running(name="other", idempotency_key=key)
        assert output(client, id, "echo $V") == "hush\n"
        assert httpx.get(client.objects.download(made.id).download_url).content == b"content"
        assert [each.id for each in client.objects.list(search="thin")] == [made.id]
        client.secrets.delete("KEPT")
        with pytest.raises(NotFoundError):
            client.secrets.retrieve("KEPT")
        assert_no_secret_at_rest(stored, client)


def assert_no_secret_at_rest(server: RunningServer, client: Runloop) -> None:
    """The value is in no file of the data folder but its devbox's own."""
    assert "hush" not in client.devboxes.list().to_json()
    for path in server.data.glob("*"):
        if path.is_file():
            assert b"hush" not in path.read_bytes()
    assert "hush" not in server.log
