"""A container engine for tests alone: storage, socket and settings in one folder, cleared afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from benchyard.errors import StartFailed

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_PODMAN_SETTINGS = """\
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
"""
_PODMAN_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


def missing(kind: str = "podman") -> str | None:
    """Return the reason why no engine of that kind can be started here; None if one can."""
    if os.geteuid() != 0:
        return "only root can start a container engine of its own here"
    needed = {"podman": ("podman", "runc", "conmon"), "docker": ("dockerd", "containerd", "runc")}[kind]
    absent = [program for program in needed if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


class RunningEngine:
    """Podman's service, or Docker's daemon, in a short folder. Use as a context manager."""

    def __init__(self, folder: Path, kind: str = "podman") -> None:
        self.folder = folder
        self.kind = kind
        self.socket = folder / "engine.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / "containers.conf").write_text(_PODMAN_SETTINGS)
        (self.folder / "storage.conf").write_text(_PODMAN_STORAGE.format(folder=self.folder))
        settings = {
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "TMPDIR": str(self.folder),
        }
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **settings},
                # Podman notes here that a container was out of memory.
                cwd=self.folder,
                start_new_session=True,
            )
        self._wait_until_it_answers()
        return self

    def _command(self) -> list[str]:
        if self.kind == "podman":
            return ["podman", "system", "service", "--time=0", f"unix://{self.socket}"]
        places = [f"--data-root={self.folder}/storage", f"--exec-root={self.folder}/run"]
        names = [f"--host=unix://{self.socket}", f"--pidfile={self.folder}/pid"]
        # A bridge would change the machine's network; devboxes have none, or the machine's own.
        return ["dockerd", *places, *names, "--bridge=none", "--iptables=false", "--ip-forward=false"]

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process is not None
            if time.monotonic() > deadline or self._process.poll() is not None:
                said = (self.folder / "log").read_text(errors="replace")[-2000:]
                self._end()
                raise StartFailed(f"{self.kind} did not start:\n{said}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(self.socket)) != 0:
                return False
        try:
            with self.client() as client:
                return client.get("/_ping", timeout=10).is_success
        except httpx.HTTPError:
            return False

    def client(self) -> httpx.Client:
        """Return a client for the engine's own interface."""
        transport = httpx.HTTPTransport(uds=str(self.socket))
        return httpx.Client(transport=transport, base_url="http://engine", timeout=_STOP_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.client() as client:
            for container in client.get("/containers/json", params={"all": "true"}).json():
                client.delete(f"/containers/{container['Id']}", params={"force": "true"})
        self._end()
        for point in _mounts(self.folder):
            subprocess.run(["umount", "--lazy", point], check=True)
        shutil.rmtree(self.folder)

    def _end(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _mounts(folder: Path) -> list[str]:
    """Return the mounts below a folder, innermost first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True)
