"""A server of one's own: started when it is needed, once, and stopped when told."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchyard.client import servers
from benchyard.client.servers import recorded_pid, running_server
from benchyard.errors import ServerUnreachable


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose server is stopped in the end."""
    yield tmp_path / "data"
    servers.stop_server(tmp_path / "data")


def benchyard(data: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    chosen = {"BENCHYARD_URL", "BENCHYARD_API_KEY", "RUNLOOP_BASE_URL", "RUNLOOP_API_KEY"}
    environ = {name: value for name, value in os.environ.items() if name not in chosen}
    command = [sys.executable, "-m", "benchyard.cli.main", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**environ, "BENCHYARD_DATA": str(data)}, check=False
    )


def test_a_command_starts_a_server_says_so_and_the_next_one_uses_it(data: Path) -> None:
    first = benchyard(data, "key", "list")
    assert first.returncode == 0, first.stderr
    assert "started a server" in first.stderr
    assert "benchyard server stop" in first.stderr
    assert data.stat().st_mode & 0o777 == 0o700
    second = benchyard(data, "key", "list")
    assert (second.returncode, second.stderr) == (0, "")
    status = benchyard(data, "server", "status")
    assert status.returncode == 0
    assert str(recorded_pid(data)) in status.stdout
    assert benchyard(data, "server", "stop").returncode == 0
    assert running_server(data) is None
    assert benchyard(data, "server", "status").returncode == 13
    assert benchyard(data, "server", "stop").returncode == 0


def test_two_commands_at_once_start_one_server(data: Path) -> None:
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: benchyard(data, "key", "list", "-o", "json"), range(2))
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout == second.stdout


def test_a_server_that_cannot_start_is_an_error_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "benchyard.db").write_text("this is no database" * 1000)
    with pytest.raises(ServerUnreachable, match=r"server\.log"):
        servers.start_server(tmp_path / "data", lambda: None)


def test_a_record_of_a_server_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text(f'{{"url": "http://127.0.0.1:9", "pid": {os.getpid()}}}')
    (tmp_path / "api-key").write_text("key")
    assert servers.stop_server(tmp_path) is None
