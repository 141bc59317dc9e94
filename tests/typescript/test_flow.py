"""The official TypeScript client drives a server through one whole flow."""

import hashlib
import json
import os
import shutil
import subprocess
import uuid
import zipfile
from pathlib import Path

import pytest

from benchyard.client import Client, Server
from benchyard.testing.server import RunningServer

HERE = Path(__file__).parent
INSTALL_SECONDS = 300
FLOW_SECONDS = 300
_MISSING = next((each for each in ("node", "npm") if shutil.which(each) is None), None)

pytestmark = pytest.mark.skipif(
    _MISSING is not None, reason=f"`{_MISSING}` is not there; `make setup` installs it"
)


@pytest.fixture(scope="module")
def installed(pytestconfig: pytest.Config) -> Path:
    """A folder with the client in it, kept from run to run; its name tells which version."""
    wanted = (HERE / "package.json").read_bytes()
    folder = pytestconfig.cache.mkdir("typescript") / hashlib.sha256(wanted).hexdigest()[:16]
    if folder.is_dir():
        return folder
    fresh = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
    fresh.mkdir(parents=True)
    (fresh / "package.json").write_bytes(wanted)
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--omit=dev"]
    ended = subprocess.run(
        ["npm", "install", *options],
        cwd=fresh,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=INSTALL_SECONDS,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    try:
        fresh.rename(folder)
    except OSError:
        # Another test process was faster.
        shutil.rmtree(fresh)
    return folder


def test_a_benchmark_is_made_run_and_scored(installed: Path, server: RunningServer, tmp_path: Path) -> None:
    script = tmp_path / "flow.mjs"
    script.write_bytes((HERE / "flow.mjs").read_bytes())
    (tmp_path / "node_modules").symlink_to(installed / "node_modules")
    ended = subprocess.run(
        ["node", script, f"ts-{uuid.uuid4().hex[:8]}", tmp_path / "logs.zip"],
        env={"PATH": os.environ["PATH"], "RUNLOOP_BASE_URL": server.url, "RUNLOOP_API_KEY": server.key},
        capture_output=True,
        timeout=FLOW_SECONDS,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["scores"] == [0.75, 1.0]
    assert told["results"] == [["text", 1.0, "complete"], ["size", 0.0, "complete"]]
    assert (told["state"], told["total"]) == ("completed", 0.875)
    first, second = told["scenarioRuns"]
    assert f"{second}_run.json" in zipfile.ZipFile(tmp_path / "logs.zip").namelist()
    with Client(Server(server.url, server.key)) as client:
        assert client.benchmark_runs.get(told["benchmarkRun"]).score == 0.875
        assert client.scenarios.runs.get(first).metadata == {"agent": "node"}
