"""A key that asks too often is told when to come back; others do not notice."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from runloop_api_client import Runloop
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from benchyard.api.middleware.rates import Buckets
from benchyard.client import Client
from benchyard.client.operations import Server
from benchyard.models.account import ApiKeyRequest
from benchyard.testing.server import RunningServer
from tests.api.devbox import create

SLOW = ("--driver", "fake", "--requests-per-second", "2", "--request-burst", "3")


class Clock:
    """A time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("slow") / "data", SLOW) as server:
        yield server


def with_new_key(server: RunningServer) -> httpx.Client:
    """A client with a key of its own, whose bucket is full."""
    with Client(Server(server.url, server.key)) as client:
        secret = client.keys.create(ApiKeyRequest()).key_secret
    assert secret
    return httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {secret}"}, timeout=30)


def until_refused(client: httpx.Client, path: str = "/v1/accounts/me") -> httpx.Response:
    for _ in range(1000):
        answer = client.get(path)
        if answer.status_code != 200:
            return answer
    raise AssertionError("it was never refused")


def test_a_burst_is_let_through_and_then_the_rate_counts() -> None:
    clock = Clock()
    buckets = Buckets(10, 3, clock)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a") == pytest.approx(0.1)
    assert buckets.take("b") == 0
    clock.now += 0.1
    assert buckets.take("a") == 0
    assert buckets.take("a") == pytest.approx(0.1)


def test_a_bucket_never_holds_more_than_the_burst() -> None:
    clock = Clock()
    buckets = Buckets(10, 3, clock)
    buckets.take("a")
    clock.now += 1000
    assert [buckets.take("a") > 0 for _ in range(4)] == [False, False, False, True]


def test_full_buckets_are_forgotten_when_there_are_many() -> None:
    clock = Clock()
    buckets = Buckets(10, 3, clock)
    for number in range(999):
        buckets.take(f"key {number}")
    clock.now += 10
    for _ in range(3):
        buckets.take("busy")
    buckets.take("one more")
    assert len(buckets) == 2
    assert buckets.take("busy") > 0


def test_too_many_requests_are_429_with_the_time_to_wait(slow: RunningServer) -> None:
    with with_new_key(slow) as client:
        answer = until_refused(client)
        assert answer.status_code == 429
        assert answer.json()["code"] == "too_many"
        assert answer.headers["x-should-retry"] == "true"
        assert answer.headers["retry-after"] == "1"
        assert 0 < int(answer.headers["retry-after-ms"]) <= 500


def test_each_key_has_its_own_rate(slow: RunningServer) -> None:
    with with_new_key(slow) as greedy, with_new_key(slow) as modest:
        assert until_refused(greedy).status_code == 429
        assert modest.get("/v1/accounts/me").status_code == 200


def test_requests_without_a_key_are_not_counted(slow: RunningServer) -> None:
    with httpx.Client(base_url=slow.url) as stranger:
        assert {stranger.get("/healthz").status_code for _ in range(20)} == {200}
        assert {stranger.get("/v1/accounts/me").status_code for _ in range(20)} == {401}


def test_a_socket_counts_as_a_request(slow: RunningServer) -> None:
    with with_new_key(slow) as client:
        url = slow.url.replace("http", "ws", 1) + "/pty/a/ws?devbox_id=none"
        headers = {"authorization": client.headers["authorization"]}
        statuses = [status_of_socket(url, headers) for _ in range(20)]
        assert set(statuses) == {404, 429}


def status_of_socket(url: str, headers: dict[str, str]) -> int:
    with pytest.raises(InvalidStatus) as refused:
        connect(url, additional_headers=headers)
    return refused.value.response.status_code


def test_a_long_poll_counts_once_however_long_it_is_held(slow: RunningServer) -> None:
    with with_new_key(slow) as owner:
        devbox = create(owner)
        execution = devbox.start("sleep 3")
    with with_new_key(slow) as client, ThreadPoolExecutor() as pool:
        path = f"/v1/devboxes/{devbox.id}/executions/{execution}/wait_for_status"
        body = {"statuses": ["completed"], "timeout_seconds": 25}
        polls = [pool.submit(client.post, path, json=body) for _ in range(3)]
        assert [poll.result().status_code for poll in polls] == [200, 200, 200]
        assert client.post(f"/v1/devboxes/{devbox.id}/shutdown").status_code == 200


def test_both_clients_wait_and_get_their_answer(slow: RunningServer) -> None:
    with Client(Server(slow.url, slow.key)) as client:
        for _ in range(6):
            assert client.keys.list() is not None
    with Runloop(base_url=slow.url, bearer_token=slow.key) as sdk:
        for _ in range(6):
            assert sdk.secrets.list().secrets == []


def test_without_a_rate_nobody_is_refused(tmp_path: Path) -> None:
    options = ("--driver", "fake", "--requests-per-second", "0", "--request-burst", "1")
    with RunningServer(tmp_path / "data", options) as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers) as client:
            assert {client.get("/v1/accounts/me").status_code for _ in range(20)} == {200}
