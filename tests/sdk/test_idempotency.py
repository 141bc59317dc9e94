"""The same request twice makes one thing, also at the same moment, through the official client."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from runloop_api_client import BadRequestError, Runloop

from tests.sdk.boxes import create, output

T = TypeVar("T")


def key() -> str:
    return f"once-{uuid.uuid4()}"


def at_once(call: Callable[[], T], times: int = 8) -> list[T]:
    with ThreadPoolExecutor(times) as pool:
        return [future.result() for future in [pool.submit(call) for _ in range(times)]]


def test_one_devbox_per_key(client: Runloop) -> None:
    once = key()
    first = client.devboxes.create(name="once", metadata={"b": "2", "a": "1"}, idempotency_key=once)
    again = client.devboxes.create(metadata={"a": "1", "b": "2"}, name="once", idempotency_key=once)
    assert first.id == again.id
    assert client.devboxes.create(name="once", idempotency_key=key()).id != first.id
    with pytest.raises(BadRequestError, match="another body"):
        client.devboxes.create(name="twice", idempotency_key=once)
    client.devboxes.shutdown(first.id)
    ended = client.devboxes.create(name="once", metadata={"a": "1", "b": "2"}, idempotency_key=once)
    assert (ended.id, ended.status) == (first.id, "shutdown")


def test_duplicates_at_the_same_moment_make_one_devbox(client: Runloop) -> None:
    once = key()
    made = at_once(lambda: client.devboxes.create_and_await_running(name="once", idempotency_key=once))
    assert len({each.id for each in made}) == 1
    assert {each.status for each in made} == {"running"}
    client.devboxes.shutdown(made[0].id)


def test_one_execution_per_key(client: Runloop, box: str) -> None:
    once = key()
    file = uuid.uuid4().hex
    command = f"echo x >> ~/{file}; sleep 0.2"
    made = at_once(lambda: client.devboxes.execute_async(box, command=command, idempotency_key=once))
    ids = {each.execution_id for each in made}
    assert len(ids) == 1
    client.devboxes.executions.await_completed(ids.pop(), devbox_id=box)
    assert output(client, box, f"cat ~/{file}") == "x\n"
    with pytest.raises(BadRequestError, match="another request"):
        client.devboxes.execute_async(box, command="true", idempotency_key=once)


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_execute_sync_waits_for_the_one_that_runs(client: Runloop, box: str) -> None:
    once = key()
    file = uuid.uuid4().hex
    command = f"echo x >> ~/{file}; sleep 0.3; cat ~/{file}"
    made = at_once(lambda: client.devboxes.execute_sync(box, command=command, idempotency_key=once), 4)
    assert {each.stdout for each in made} == {"x\n"}


def test_one_snapshot_per_key(client: Runloop, box: str) -> None:
    once = key()
    made = at_once(lambda: client.devboxes.snapshot_disk(box, name="once", idempotency_key=once), 4)
    assert len({each.id for each in made}) == 1
    with pytest.raises(BadRequestError):
        client.devboxes.snapshot_disk(box, name="twice", idempotency_key=once)
    status = client.devboxes.disk_snapshots.query_status(made[0].id)
    assert status.status == "complete"


def test_one_object_and_one_secret_per_key(client: Runloop) -> None:
    once = key()
    made = at_once(lambda: client.objects.create(name="once", content_type="text", idempotency_key=once), 4)
    assert len({each.id for each in made}) == 1
    with pytest.raises(BadRequestError):
        client.objects.create(name="twice", content_type="text", idempotency_key=once)
    name = f"S_{uuid.uuid4().hex}"
    secrets = at_once(lambda: client.secrets.create(name=name, value="v", idempotency_key=once), 4)
    assert len({secret.id for secret in secrets}) == 1
    with pytest.raises(BadRequestError):
        client.secrets.create(name=name, value="w", idempotency_key=once)


def test_a_key_stands_for_one_call_only(client: Runloop, box: str) -> None:
    """The same key for other things is another request each time."""
    once = key()
    devbox = client.devboxes.create(name="x", idempotency_key=once)
    other = create(client)
    start = client.devboxes.execute_async
    ran = {start(id, command="echo x", idempotency_key=once).execution_id for id in (box, other)}
    assert len(ran) == 2
    for id in (devbox.id, other):
        client.devboxes.shutdown(id)
