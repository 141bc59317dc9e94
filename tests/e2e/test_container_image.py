"""The recipe of the container: it is built, its server scores, and its data outlives the container."""

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchyard.testing.container_engine import RunningEngine, missing
from tests import stand_ins
from tests.api.devbox import eventually
from tests.house.tree import ROOT

SUITE = "bookworm"
BASE = "localhost/base"
IMAGE = "localhost/benchyard"
RIGHTS = ("--cap-add", "SYS_ADMIN,SYS_PTRACE,NET_ADMIN", "--security-opt", "unmask=ALL")
SCENARIO = "quickstart/fix-a-bug"
_TRUSTED = "/etc/ssl/certs"
_BUILD_SECONDS = 900.0
_COMMAND_SECONDS = 180.0

pytestmark = pytest.mark.slow


class Engine:
    """Podman with storage of its own."""

    def __init__(self, engine: RunningEngine) -> None:
        self._folder = engine.folder

    def run(self, *arguments: str | Path, seconds: float = _COMMAND_SECONDS) -> str:
        """Run podman; returns what it printed."""
        settings = {
            "CONTAINERS_CONF": str(self._folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self._folder / "storage.conf"),
            "TMPDIR": str(self._folder),
        }
        done = subprocess.run(
            ["podman", *arguments],
            cwd=ROOT,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout


def base() -> Path:
    """A small Debian with Python, made once, in the place of what a registry has; skips where none can be."""
    kept = stand_ins.cache() / f"{SUITE}-python.tar"
    if kept.exists():
        return kept
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed, so there is nothing to begin the container's image with")
    partial = kept.with_suffix(f".{os.getpid()}.tar")
    command = ["mmdebstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"]
    made = subprocess.run(
        [*command, SUITE, partial], capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
    )
    if made.returncode:
        partial.unlink(missing_ok=True)
        pytest.skip(f"no Debian can be made here: {made.stderr[-500:]}")
    partial.rename(kept)
    return kept


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine that has the image of the recipe."""
    if reason := missing("podman"):
        pytest.skip(reason)
    tar = base()
    with RunningEngine(Path(f"/var/tmp/engine-{secrets.token_hex(4)}")) as running:
        made = Engine(running)
        made.run("import", "--quiet", tar, BASE)
        arguments = [f"--build-arg=BASE={BASE}", "--build-arg=PACKAGES=git procps sudo"]
        trusted = [f"--volume={_TRUSTED}:{_TRUSTED}:ro"] if Path(_TRUSTED).is_dir() else []
        made.run(
            *("build", "--network=host", *arguments, *trusted, f"--tag={IMAGE}", "."), seconds=_BUILD_SECONDS
        )
        yield made


class Container:
    """A server in a container, on a volume that outlives it."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name

    def start(self) -> None:
        options = "serve", "--host", "127.0.0.1", "--port", "0", "--driver-option", "mode=root"
        place = "--network=host", f"--volume={self._name}:/data"
        self._engine.run("run", "--detach", "--name", self._name, *place, *RIGHTS, IMAGE, *options)
        eventually(lambda: "listening on" in self._engine.run("logs", self._name), "the server")

    def benchyard(self, *arguments: str) -> dict[str, Any]:
        """What a command inside tells."""
        found: dict[str, Any] = json.loads(
            self._engine.run("exec", self._name, "benchyard", *arguments, "-o", "json")
        )
        return found

    def end(self) -> int:
        """Stop and remove the container; returns how its server ended."""
        self._engine.run("stop", "--time", "30", self._name)
        status = self._engine.run("inspect", "--format", "{{.State.ExitCode}}", self._name)
        self._engine.run("rm", self._name)
        return int(status)


def test_its_server_scores_and_its_volume_keeps_what_came_out(engine: Engine) -> None:
    container = Container(engine, f"by-{secrets.token_hex(4)}")
    container.start()
    agents = "--agent", "oracle", "--agent", "nop"
    container.benchyard("job", "run", *agents, "--scenarios", SCENARIO, "--job-name", "inside", "--watch")
    before = container.benchyard("job", "summary", "inside")["benchmark_outcomes"]
    assert {each["agent_name"]: each["mean_score"] for each in before} == {"oracle": 1.0, "nop": 0.0}
    assert container.end() == 0
    container.start()
    try:
        assert container.benchyard("job", "summary", "inside")["benchmark_outcomes"] == before
    finally:
        assert container.end() == 0
