"""The server that tests start can be stopped, killed and started again."""

from pathlib import Path

import httpx
import pytest

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


def test_one_that_does_not_start_shows_why(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable, match="--driver-option"):
        RunningServer(tmp_path / "data", ["--driver", "fake", "--driver-option", "nonsense"]).start()


def test_one_that_was_not_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable):
        RunningServer(tmp_path / "data").stop()
