"""The command line against a real server."""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from benchyard.cli.main import run
from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str


class CommandLine:
    """Runs `benchyard` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capture = capture

    def __call__(self, *arguments: str, typed: bytes | None = None) -> Ended:
        """Run a command to its end, with this on its standard input."""
        if typed is not None:
            self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed)))
        self._capture.readouterr()
        status = run(arguments)
        printed = self._capture.readouterr()
        return Ended(status, printed.out, printed.err)

    def ok(self, *arguments: str, typed: bytes | None = None) -> str:
        """Run a command that must succeed; returns what it printed."""
        ended = self(*arguments, typed=typed)
        assert ended.status == 0, ended.err
        return ended.out


@pytest.fixture
def benchyard(
    fake_server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line of the server with the fake driver."""
    monkeypatch.setenv("BENCHYARD_URL", fake_server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", fake_server.key)
    return CommandLine(monkeypatch, capfd)


@pytest.fixture
def client(fake_server: RunningServer) -> Iterator[Client]:
    """A client of the same server."""
    with Client(Server(fake_server.url, fake_server.key)) as opened:
        yield opened


@pytest.fixture
def box(client: Client) -> Iterator[str]:
    """The id of a running devbox."""
    with client.devboxes.open() as opened:
        yield opened.id
