"""The server that tests start can be stopped, killed and started again."""

from pathlib import Path

import httpx
import pytest
from runloop_api_client import Runloop

from benchyard.errors import ServerUnreachable
from benchyard.testing.server import RunningServer


def test_it_comes_back_where_it_was(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", ["--driver", "fake"]) as server:
        url, key, pid = server.url, server.key, server.pid
        server.kill()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/healthz")
        server.start()
        assert (server.url, server.key) == (url, key)
        assert server.pid != pid
        assert httpx.get(f"{url}/healthz").status_code == 200


def test_server_that_does_not_start_shows_why(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable, match="--driver-option"):
        RunningServer(tmp_path / "data", ["--driver", "fake", "--driver-option", "nonsense"]).start()


def test_stopping_a_server_that_was_not_started_raises(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable):
        RunningServer(tmp_path / "data").stop()


@pytest.mark.parametrize("is_killed", [False, True])
def test_its_devboxes_end_with_it(is_killed: bool, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", ["--driver", "fake"]) as server:
        client = Runloop(base_url=server.url, bearer_token=server.key)
        client.devboxes.create_and_await_running()
        assert processes_of(tmp_path)
        if is_killed:
            server.kill()
    assert processes_of(tmp_path) == []


def processes_of(folder: Path) -> list[str]:
    commands = map(command_line, Path("/proc").glob("[0-9]*/cmdline"))
    return [text for text in commands if str(folder) in text]


def command_line(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
