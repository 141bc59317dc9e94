"""What the server tells Prometheus is what happened."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from benchyard.api.metrics import ServerMetrics
from benchyard.engine.devboxes.states import Move, record_after_move
from benchyard.models.devboxes import Devbox, DevboxStatus, StateTransition
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, eventually
from tests.api.test_pty import Terminals

S = DevboxStatus
LINE = re.compile(r'^[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-z]+="([^"\\\n]|\\.)*",?)+\})? (\+Inf|-?[0-9.e+-]+)$')


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("metrics") / "data", ["--driver", "fake"]) as running:
        yield running


@pytest.fixture
def own_api(own_server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {own_server.key}"}
    with httpx.Client(base_url=own_server.url, headers=headers, timeout=40) as client:
        yield client


def numbers(api: httpx.Client) -> dict[str, float]:
    """Every line of the page: what it is called, and its value."""
    answer = api.get("/metrics")
    assert answer.status_code == 200, answer.text
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def end(api: httpx.Client, devbox: DevboxOverHttp) -> None:
    """End a devbox and wait until nothing of it is counted any more."""
    devbox.post("shutdown")
    eventually(lambda: numbers(api)['benchyard_devboxes{status="running"}'] == 0, "its end")
    eventually(lambda: _under_way(api) == (0, 0), "the end of its executions")


def test_the_page_is_in_the_text_format(own_api: httpx.Client) -> None:
    answer = own_api.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.text.endswith("\n")
    families = []
    for line in answer.text.splitlines():
        if line.startswith("# TYPE "):
            families.append(line.split()[2])
        elif not line.startswith("# HELP "):
            assert LINE.match(line), line
            assert line.startswith(families[-1])
    assert len(families) == len(set(families))


def test_devboxes_and_executions_are_counted(own_api: httpx.Client) -> None:
    before = numbers(own_api)
    devbox = create(own_api)
    first = devbox.start("sleep 60", shell_name="one")
    second = devbox.start("true", shell_name="one")
    eventually(lambda: _under_way(own_api) == (1, 1), "one that runs and one that waits")
    now = numbers(own_api)
    assert now['benchyard_devboxes{status="running"}'] == before['benchyard_devboxes{status="running"}'] + 1
    assert now["benchyard_executions_total"] == before["benchyard_executions_total"] + 2
    started = 'benchyard_devbox_start_seconds_count{kind="create"}'
    assert now[started] == before[started] + 1
    devbox.post(f"executions/{first}/kill")
    devbox.ended(second)
    eventually(lambda: _under_way(own_api) == (0, 0), "the end of both")
    devbox.post("shutdown")
    ended = 'benchyard_devboxes_ended_total{reason="api_shutdown",status="shutdown"}'
    eventually(lambda: numbers(own_api).get(ended, 0) == before.get(ended, 0) + 1, "the end to be counted")
    assert numbers(own_api)['benchyard_devboxes{status="running"}'] == 0


def _under_way(api: httpx.Client) -> tuple[float, float]:
    now = numbers(api)
    return now["benchyard_executions_running"], now["benchyard_executions_queued"]


def test_the_same_request_again_is_not_another_execution(own_api: httpx.Client) -> None:
    devbox = create(own_api)
    before = numbers(own_api)["benchyard_executions_total"]
    headers = {"x-request-id": "the same one"}
    for _ in range(3):
        devbox.post("execute_async", {"command": "true"}, headers=headers)
    assert numbers(own_api)["benchyard_executions_total"] == before + 1
    end(own_api, devbox)


def test_requests_are_counted_by_route_never_by_what_is_in_the_path(own_api: httpx.Client) -> None:
    own_api.get("/v1/devboxes/secret-looking")
    own_api.get("/v1/no-such-noun")
    httpx.get(f"{own_api.base_url}/v1/secrets", timeout=60)
    counted = {
        f'benchyard_requests_total{{method="GET",route="{route}",status="{status}"}}'
        for route, status in (("/v1/devboxes/{id}", 404), ("(unmatched)", 404), ("(unmatched)", 401))
    }
    # A request is counted when it is done with, a moment after its answer.
    eventually(lambda: counted <= numbers(own_api).keys(), "all three")
    eventually(lambda: numbers(own_api)["benchyard_requests_open"] == 1, "no request but this")
    assert "secret-looking" not in own_api.get("/metrics").text


def test_terminals_are_counted(own_server: RunningServer, own_api: httpx.Client) -> None:
    devbox = create(own_api)
    terminals = Terminals(devbox, own_server)
    base = 'benchyard_requests_total{method="GET",route="/pty/{session_name}/ws",status='
    with terminals.attach("one"):
        eventually(lambda: numbers(own_api)["benchyard_sockets_open"] == 1, "the terminal")
        with pytest.raises(InvalidStatus):
            terminals.attach("one")
    eventually(lambda: numbers(own_api)["benchyard_sockets_open"] == 0, "the terminal to be left")
    counted = {f'{base}"{status}"}}' for status in (101, 409)}
    eventually(lambda: counted <= numbers(own_api).keys(), "both attempts")
    end(own_api, devbox)


def test_the_process_is_measured(own_server: RunningServer, own_api: httpx.Client) -> None:
    found = numbers(own_api)
    assert found["process_resident_memory_bytes"] > 10_000_000
    assert 3 < found["process_open_fds"] < found["process_max_fds"]
    assert found["process_cpu_seconds_total"] > 0
    began = Path(f"/proc/{own_server.pid}").stat().st_ctime
    assert abs(found["process_start_time_seconds"] - began) < 60


def test_a_key_is_asked_for_unless_the_page_was_opened(own_server: RunningServer, tmp_path: Path) -> None:
    assert httpx.get(f"{own_server.url}/metrics", timeout=60).status_code == 401
    with RunningServer(tmp_path / "data", ["--driver", "fake", "--open-metrics"]) as opened:
        assert httpx.get(f"{opened.url}/metrics", timeout=60).status_code == 200
        assert httpx.get(f"{opened.url}/metrics/", timeout=60).status_code == 401
        assert httpx.get(f"{opened.url}/v1/secrets").status_code == 401


def test_a_resume_is_a_start_of_its_own() -> None:
    metrics = ServerMetrics()
    first = StateTransition(status=S.PROVISIONING, transition_time_ms=1000)
    devbox = Devbox(id="dbx_1", create_time_ms=1000, image="host", state_transitions=[first])
    steps = [
        (S.INITIALIZING, 1010),
        (S.RUNNING, 1040),
        (S.SUSPENDING, 5000),
        (S.SUSPENDED, 6000),
        (S.RESUMING, 9000),
        (S.INITIALIZING, 9100),
        (S.RUNNING, 9200),
    ]
    for status, at in steps:
        devbox = record_after_move(devbox, Move(status), at)
        metrics.saw(devbox)
    lines = metrics.page([]).decode().splitlines()
    assert [each for each in lines if each.startswith("benchyard_devbox_start_seconds_sum")] == [
        'benchyard_devbox_start_seconds_sum{kind="create"} 0.04',
        'benchyard_devbox_start_seconds_sum{kind="resume"} 0.2',
    ]
    assert 'benchyard_devbox_start_seconds_bucket{kind="create",le="0.025"} 0.0' in lines
    assert 'benchyard_devbox_start_seconds_bucket{kind="create",le="0.05"} 1.0' in lines
    assert 'benchyard_devbox_start_seconds_bucket{kind="create",le="+Inf"} 1.0' in lines


def test_a_reason_may_have_any_letters() -> None:
    metrics = ServerMetrics()
    devbox = Devbox(id="dbx_1", create_time_ms=1, image="host", state_transitions=[])
    metrics.saw(devbox.model_copy(update={"status": S.FAILURE, "failure_reason": 'one"two\\three\nfour'}))
    ended = r'benchyard_devboxes_ended_total{reason="one\"two\\three\nfour",status="failure"} 1.0'
    assert ended in metrics.page([]).decode().splitlines()
