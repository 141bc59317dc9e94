"""`make demo` shows what it says, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

from tests.house.tree import ROOT

DEMO_SECONDS = 300


def processes_with(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found


def test_the_demo_branches_devboxes_and_cleans_up(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
    }
    ended = subprocess.run(
        [ROOT / "scripts/demo.sh"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=DEMO_SECONDS,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "left:\n    first draft\n    a happy end\n" in ended.stdout
    assert "right:\n    first draft\n    a sad end\n" in ended.stdout
    assert "on 12 scenarios: more than chance" in ended.stdout
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []
