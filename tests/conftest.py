"""Fixtures that all tests share: servers and databases, real ones."""

import ctypes
import gc
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from benchyard.hosts import leaks
from benchyard.testing import server as running_server
from benchyard.testing.container_engine import RunningEngine, missing
from benchyard.testing.server import RunningServer
from tests import stand_ins, warm_server
from tests.groups import GroupScheduling, group_of, turn_of
from tests.postgres import new_database, running_postgres
from tests.tiers import is_left_out, is_unit

running_server.spawn = warm_server.spawn
# How long an example takes says something about the machine's load only.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As for whatever is started in the background of a shell: what tests start must not inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

MOST_MEMORY = 1000 * 1024**2
"""Bytes that a worker may take up: what a test keeps is paid for by all that come after it.

Nearly 300 MB are there before the first test: every worker collects all 8,600 tests, and what they import.
Tests of benchmarks and scorers add 35 MB, the first dozen files of those of the API 75 MB.
"""
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_TOLD = pytest.StashKey[bool]()
_started: list[str] = []
"""What the running test started."""


def _noting(started: list[str]) -> Callable[[str, object], None]:
    """What notes the starts of processes; it outlives the names of this module."""
    starts = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"}

    def note(event: str, _arguments: object) -> None:
        if event in starts:
            started.append(event)

    return note


sys.addaudithook(_noting(_started))

# Large blocks go back to the system when they are freed, and threads have no heaps of their own.
_libc = ctypes.CDLL(None)
_libc.mallopt(_M_MMAP_THRESHOLD, 128 * 1024)
_libc.mallopt(_M_ARENA_MAX, 1)

# What tests import lies in temporary folders, and stand-ins in a cache.
os.environ.setdefault("BENCHYARD_IMPORT_FROM", f"{tempfile.gettempdir()}:{stand_ins.cache()}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first, and refuse ids that tests share: workers would run only the first.

    Each is marked with its tier: `slow` is what repeats other tests, `unit` what only computes.
    """
    seen: set[str] = set()
    for item in items:
        if item.nodeid in seen:
            raise pytest.UsageError(f"two tests are called {item.nodeid}; give one of them another name")
        seen.add(item.nodeid)
        if isinstance(item, pytest.Function) and is_left_out(item):
            item.add_marker(pytest.mark.slow)
        elif isinstance(item, pytest.Function) and is_unit(item):
            item.add_marker(pytest.mark.unit)
    items.sort(key=lambda item: turn_of(group_of(item.nodeid)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test of the tier `unit` that starts a process."""
    _started.clear()
    outcome = yield
    if _started and item.get_closest_marker("unit"):
        pytest.fail(
            f"a test of `make unit` started a process ({_started[0]}); say in tests/tiers.py what it needs",
            pytrace=False,
        )
    return outcome


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail the first test after which its worker takes up too much memory."""
    taken = _memory()
    if taken > MOST_MEMORY:
        # What was given back to the allocator is not kept; it goes back to the system only when asked.
        gc.collect()
        _libc.malloc_trim(0)
        taken = _memory()
    if taken > MOST_MEMORY and not item.session.stash.get(_TOLD, False):
        item.session.stash[_TOLD] = True
        pytest.fail(
            f"this process takes up {taken // 1024**2} MB after this test, and may take up"
            f" {MOST_MEMORY // 1024**2} MB: what do this test and those before it keep?",
            pytrace=False,
        )


def _memory() -> int:
    """Return the bytes that this process has for itself: libraries that it maps are those of all workers."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand tests to workers by groups."""
    return GroupScheduling(config, log)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the native driver; nothing may be left of it in the end."""
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as running:
        yield running
    assert leaks.find(running.data) == []


@pytest.fixture(scope="session")
def fake_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the fake driver, for what needs no isolation."""
    with RunningServer(tmp_path_factory.mktemp("server") / "data", ["--driver", "fake"]) as running:
        yield running
    assert leaks.find(running.data) == []


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a Postgres server's first database."""
    with running_postgres() as url:
        yield url


@pytest.fixture
def postgres_database(postgres_url: str) -> str:
    """The URL of a new, empty Postgres database."""
    return new_database(postgres_url)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'benchyard.db'}"
    url: str = request.getfixturevalue("postgres_database")
    return url


@pytest.fixture(scope="session")
def podman() -> Iterator[RunningEngine]:
    """A container engine of our own; nothing of ours may be in it in the end."""
    if reason := missing("podman"):
        pytest.skip(reason)
    # A short path, because addresses of sockets are.
    with RunningEngine(Path(f"/var/tmp/engine-{secrets.token_hex(4)}")) as running:
        yield running
        with running.client() as client:
            assert client.get("/containers/json", params={"all": "true"}).json() == []
