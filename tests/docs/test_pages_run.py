"""What the pages tell people to type works, against a real server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchyard.testing.server import RunningServer
from tests.docs.blocks import BLOCK, script
from tests.house.tree import ROOT, tracked_files

PAGES = [page for page in tracked_files() if page.suffix == ".md" and BLOCK.search(page.read_text())]
PAGE_SECONDS = 300


def environment(server: RunningServer, home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "BENCHYARD_URL": server.url,
        "BENCHYARD_API_KEY": server.key,
        "RUNLOOP_BASE_URL": server.url,
        "RUNLOOP_API_KEY": server.key,
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_page_runs(page: Path, server: RunningServer, tmp_path: Path) -> None:
    ended = subprocess.run(
        ["bash", "-c", script(page, tmp_path)],
        cwd=tmp_path,
        env=environment(server, tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PAGE_SECONDS,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
