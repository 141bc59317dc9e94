"""Devboxes through the official client: made, awaited, listed, changed, ended."""

import time
import uuid

import httpx
import pytest
from runloop_api_client import APIStatusError, BadRequestError, Runloop
from runloop_api_client.lib.polling import PollingConfig, PollingTimeout

from benchyard.testing.server import RunningServer
from tests.sdk.boxes import eventually

SHORT = PollingConfig(timeout_seconds=0.3)


def test_create_answers_at_once_and_await_running_waits(client: Runloop) -> None:
    made = client.devboxes.create(name="made", metadata={"a": "1"})
    assert made.id.startswith("dbx_")
    assert (made.status, made.name, made.metadata) == ("provisioning", "made", {"a": "1"})
    running = client.devboxes.await_running(made.id)
    assert (running.id, running.status, running.initiator_type) == (made.id, "running", "api")
    passed = [state_transition.status for state_transition in running.state_transitions]
    assert passed == ["provisioning", "initializing", "running"]
    assert running.create_time_ms <= time.time() * 1000
    assert client.devboxes.retrieve(made.id) == running
    client.devboxes.shutdown(made.id)


def test_create_and_await_running_returns_a_running_devbox(client: Runloop) -> None:
    made = client.devboxes.create_and_await_running()
    assert (made.status, made.name, made.metadata, made.capabilities) == ("running", None, {}, [])
    assert made.end_time_ms is None
    client.devboxes.shutdown(made.id)


def test_waiting_ends_when_the_caller_has_no_more_time(client: Runloop) -> None:
    made = client.devboxes.create(launch_parameters={"launch_commands": ["sleep 1000"]})
    with pytest.raises(PollingTimeout):
        client.devboxes.await_running(made.id, polling_config=SHORT)
    assert client.devboxes.retrieve(made.id).status == "initializing"
    assert client.devboxes.shutdown(made.id).status == "shutdown"


def test_waiting_for_a_status_that_does_not_come_is_408(client: Runloop, box: str) -> None:
    body = {"statuses": ["suspended"], "timeout_seconds": 0.1}
    with pytest.raises(APIStatusError) as refused:
        client.post(
            f"/v1/devboxes/{box}/wait_for_status", cast_to=object, body=body, options={"max_retries": 0}
        )
    assert refused.value.status_code == 408


def test_lists_come_page_by_page_newest_first(client: Runloop) -> None:
    made = [client.devboxes.create(name=f"page-{index}").id for index in range(5)]
    first = client.devboxes.list(limit=2)
    assert ([devbox.id for devbox in first.devboxes], first.has_more) == (made[:-3:-1], True)
    assert first.total_count is not None
    assert first.total_count >= 5
    following = first.get_next_page()
    assert [devbox.id for devbox in following.devboxes] == made[-3:-5:-1]
    everything = [devbox.id for devbox in client.devboxes.list(limit=2)]
    assert everything[:5] == made[::-1]
    assert len(everything) == len(set(everything)) == first.total_count
    assert client.devboxes.list(limit=1, include_total_count=False).total_count is None
    for id in made:
        client.devboxes.shutdown(id)


def test_lists_are_filtered_by_status(client: Runloop) -> None:
    made = client.devboxes.create_and_await_running()
    client.devboxes.shutdown(made.id)
    ended = {devbox.id: devbox.status for devbox in client.devboxes.list(status="shutdown", limit=1000)}
    assert ended[made.id] == "shutdown"
    assert set(ended.values()) == {"shutdown"}
    assert made.id not in {devbox.id for devbox in client.devboxes.list(status="running", limit=1000)}


@pytest.mark.parametrize("limit", [0, -1, 5001])
def test_an_invalid_limit_is_refused(client: Runloop, limit: int) -> None:
    with pytest.raises(BadRequestError, match="limit"):
        client.devboxes.list(limit=limit)


def test_name_and_metadata_can_be_changed(client: Runloop) -> None:
    made = client.devboxes.create(name="before", metadata={"a": "1", "b": "2"})
    assert client.devboxes.update(made.id, name="after").metadata == {"a": "1", "b": "2"}
    changed = client.devboxes.update(made.id, metadata={"c": "3"})
    assert (changed.name, changed.metadata) == ("after", {"c": "3"})
    found = client.devboxes.retrieve(made.id)
    assert (found.name, found.metadata) == ("after", {"c": "3"})
    client.devboxes.shutdown(made.id)


def test_shutdown_answers_with_the_end_and_can_be_repeated(client: Runloop, server: RunningServer) -> None:
    made = client.devboxes.create_and_await_running()
    client.devboxes.execute_async(made.id, command="sleep 1000")
    ended = client.devboxes.shutdown(made.id)
    assert (ended.status, ended.shutdown_reason) == ("shutdown", "api_shutdown")
    assert ended.end_time_ms is not None
    assert client.devboxes.shutdown(made.id) == ended
    assert client.devboxes.retrieve(made.id) == ended
    disk = server.data / "host" / "devboxes" / made.id / "changes"
    eventually(lambda: not disk.exists(), "its disk to be gone")


def test_a_devbox_can_be_ended_while_it_comes_up(client: Runloop) -> None:
    made = client.devboxes.create(launch_parameters={"launch_commands": ["sleep 1000"]})
    assert client.devboxes.shutdown(made.id).status == "shutdown"
    assert client.devboxes.retrieve(made.id).status == "shutdown"


def test_usage_counts_time_and_size(client: Runloop) -> None:
    made = client.devboxes.create_and_await_running(
        launch_parameters={
            "resource_size_request": "CUSTOM_SIZE",
            "custom_cpu_cores": 2,
            "custom_gb_memory": 4,
            "custom_disk_size": 2,
        }
    )
    usage_of = client.devboxes.retrieve_resource_usage
    eventually(lambda: usage_of(made.id).total_active_seconds >= 1, "time to pass for it")
    usage = usage_of(made.id)
    assert (usage.id, usage.status, usage.start_time_ms) == (made.id, "running", made.create_time_ms)
    assert usage.vcpu_seconds >= 2 * usage.total_active_seconds
    assert usage.memory_gb_seconds >= 4 * usage.total_active_seconds
    assert usage.disk_gb_seconds >= 2 * usage.total_elapsed_seconds
    client.devboxes.shutdown(made.id)
    ended = client.devboxes.retrieve_resource_usage(made.id)
    assert (ended.status, ended.end_time_ms is not None) == ("shutdown", True)


def test_keep_alive_answers_and_needs_a_devbox_that_runs(client: Runloop, box: str) -> None:
    assert client.devboxes.keep_alive(box) == {}
    ended = client.devboxes.create()
    client.devboxes.shutdown(ended.id)
    with pytest.raises(APIStatusError, match="has ended"):
        client.devboxes.keep_alive(ended.id)


def test_a_request_that_is_slow_to_come_back_is_not_made_twice(client: Runloop, box: str) -> None:
    """The client gives up and asks again with the same id; the command runs once."""
    name = uuid.uuid4().hex
    command = f"echo x >> ~/{name}; sleep 0.5; cat ~/{name}"
    with pytest.warns(DeprecationWarning, match="deprecated"):
        result = client.devboxes.execute_sync(box, command=command, timeout=httpx.Timeout(0.25))
    assert result.stdout == "x\n"
