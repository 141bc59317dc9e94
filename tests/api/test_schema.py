"""Whatever is sent, fitting the schema or not, gets an answer below 500, or 501 with a feature's name."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchyard.testing.server import RunningServer
from tests.house.tree import ROOT


@pytest.mark.parametrize("extent", ["short", pytest.param("whole", marks=pytest.mark.slow)])
def test_no_request_makes_the_server_fail(extent: str, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        command = [sys.executable, "-m", "tests.api.fuzzing", server.url, server.key, extent]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{ended.stderr[-10_000:]}\n{server.log[-5000:]}"
        assert int(ended.stdout.splitlines()[-1]) > 100
