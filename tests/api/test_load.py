"""Many clients at once: everybody gets the whole answer, and the server's memory stays flat."""

import asyncio
import hashlib
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, good
from tests.api.load import MB, allow_descriptors, answer, descriptors, events, memory, peak_memory, request

READERS = 1000
EXECUTIONS = 200
DEVBOXES = 4


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server of this file's own, so that its memory is nobody else's."""
    allow_descriptors(READERS + 1000)
    options = ["--driver", "fake", "--requests-per-second", "0"]
    with RunningServer(tmp_path_factory.mktemp("busy") / "data", options) as running:
        yield running


@pytest.fixture(scope="module")
def http(busy: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {busy.key}"}
    with httpx.Client(base_url=busy.url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def devboxes(http: httpx.Client) -> list[DevboxOverHttp]:
    return [create(http) for _ in range(DEVBOXES)]


def test_the_server_raises_its_own_limit_of_descriptors(tmp_path: Path) -> None:
    soft_here, hard_here = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard_here))
    with RunningServer(tmp_path / "data", ["--driver", "fake"]) as server:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_here, hard_here))
        lines = Path(f"/proc/{server.pid}/limits").read_text().splitlines()
        soft, hard = next(line for line in lines if line.startswith("Max open files")).split()[3:5]
        assert int(soft) == min(int(hard), 65_536)


async def run_all(server: RunningServer, devboxes: list[DevboxOverHttp], count: int) -> None:
    """Executions at once, each waited for, with the output and the status that it must have."""

    async def one(number: int) -> None:
        devbox = devboxes[number % len(devboxes)].id
        command = f"read line; echo {number}-$line; echo {number} >&2; exit {number % 100}"
        body = {"command": f"echo in | {{ {command}; }}"}
        status, text = await answer(
            server, request(server, "POST", f"/v1/devboxes/{devbox}/execute_async", body)
        )
        assert status == 200, text
        id = json.loads(text)["execution_id"]
        path = f"/v1/devboxes/{devbox}/executions/{id}/wait_for_status"
        for _ in range(20):
            status, text = await answer(server, request(server, "POST", path, {"statuses": ["completed"]}))
            if status != 408:
                break
        view = json.loads(text)
        assert (status, view["status"]) == (200, "completed"), text
        assert (view["stdout"], view["stderr"]) == (f"{number}-in\n", f"{number}\n")
        assert view["exit_status"] == number % 100

    await asyncio.gather(*(one(number) for number in range(count)))


def test_two_hundred_executions_at_once_all_end_as_they_should(
    busy: RunningServer, http: httpx.Client, devboxes: list[DevboxOverHttp]
) -> None:
    async def main() -> list[int]:
        running = asyncio.create_task(run_all(busy, devboxes, EXECUTIONS))
        others = []
        while not running.done():
            # Whoever asks for something else meanwhile is served too.
            status, _ = await answer(busy, request(busy, "GET", "/v1/devboxes?limit=1"))
            others.append(status)
        await running
        return others

    others = asyncio.run(main())
    assert others
    assert set(others) == {200}
    page = http.get("/metrics").text
    assert "benchyard_executions_running 0.0\n" in page
    assert "benchyard_executions_queued 0.0\n" in page


def read_by_many(server: RunningServer, devbox: DevboxOverHttp, kilobytes: int) -> None:
    """Have a thousand clients read an output while it is written, and see that each gets all of it."""
    block = "".join(f"{number:07}\n" for number in range(128))
    expected = hashlib.sha256((block * kilobytes).encode())
    script = f"read go; for i in $(seq {kilobytes}); do seq -f %07g 0 127; done"
    id = devbox.start(script, attach_stdin=True)

    async def main() -> None:
        sums = [hashlib.sha256() for _ in range(READERS)]
        path = f"/v1/devboxes/{devbox.id}/executions/{id}/stream_stdout_updates"
        reading = [asyncio.create_task(events(server, path, adding_to(one))) for one in sums]
        await wait_for_open(server, READERS)
        good(await asyncio.to_thread(devbox.post, f"executions/{id}/send_std_in", {"text": "go\n"}))
        await asyncio.gather(*reading)
        assert {one.digest() for one in sums} == {expected.digest()}

    asyncio.run(main())


def test_a_thousand_readers_each_get_all_of_an_output_while_it_is_written(
    busy: RunningServer, devboxes: list[DevboxOverHttp]
) -> None:
    before = memory(busy)
    read_by_many(busy, devboxes[0], 64)
    # What is on its way to one client, and the client itself: a piece of output in several forms.
    assert peak_memory(busy) - before < READERS * 0.4 * MB


@pytest.mark.slow
def test_a_thousand_readers_of_a_large_output_cost_no_more(
    busy: RunningServer, devboxes: list[DevboxOverHttp]
) -> None:
    before = memory(busy)
    read_by_many(busy, devboxes[0], 2048)
    assert peak_memory(busy) - before < READERS * 0.4 * MB


def adding_to(digest: "hashlib._Hash") -> Callable[[str], None]:
    return lambda text: digest.update(text.encode())


async def wait_for_open(server: RunningServer, count: int) -> None:
    """Until that many requests are under way."""
    for _ in range(600):
        _, page = await answer(server, request(server, "GET", "/metrics"))
        line = next(line for line in page.decode().splitlines() if line.startswith("benchyard_requests_open"))
        if int(float(line.split()[1])) > count:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"there were never {count} requests open")


def rounds_of_load(
    server: RunningServer, devboxes: list[DevboxOverHttp], rounds: int, size: int
) -> list[int]:
    """The server's memory after each of some rounds of the same load."""
    id = devboxes[0].start("seq 1 20000")
    devboxes[0].ended(id)
    path = f"/v1/devboxes/{devboxes[0].id}/executions/{id}/stream_stdout_updates"

    async def one_round() -> None:
        readers = [events(server, path, lambda text: None) for _ in range(size)]
        lists = [answer(server, request(server, "GET", "/v1/devboxes?limit=5000")) for _ in range(size)]
        await asyncio.gather(run_all(server, devboxes, size), *readers, *lists)

    used = []
    for _ in range(rounds):
        asyncio.run(one_round())
        used.append(memory(server))
    return used


def test_the_same_load_again_costs_no_more_memory(
    busy: RunningServer, devboxes: list[DevboxOverHttp]
) -> None:
    open_before = descriptors(busy)
    used = rounds_of_load(busy, devboxes, rounds=5, size=40)
    assert used[-1] - used[1] < 8 * MB, used
    assert descriptors(busy) <= open_before + 20


@pytest.mark.slow
def test_the_same_heavy_load_again_costs_no_more_memory(
    busy: RunningServer, devboxes: list[DevboxOverHttp]
) -> None:
    used = rounds_of_load(busy, devboxes, rounds=10, size=250)
    assert used[-1] - used[3] < 16 * MB, used
