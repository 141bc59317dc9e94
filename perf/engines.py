"""Docker and Podman as contenders: `run --rm` of an image that holds nothing but bash."""

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

_NAME = "localhost/benchyard-perf"
# What a machine without CAP_SYS_RESOURCE, systemd or pure cgroup v2 needs before podman runs at all.
_CONFIGURATION = """
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "{runtime}"
"""


class Engine:
    """One container engine, with the image loaded."""

    def __init__(self, program: str, environment: dict[str, str]) -> None:
        self.program = program
        self._environment = {**os.environ, **environment}

    def load(self, archive: Path) -> None:
        """Make the image known."""
        self._call("import", str(archive), _NAME)

    def cycle(self) -> None:
        """Create, run `bash -lc true`, remove, with the network it gives by default."""
        self._call("run", "--rm", _NAME, "/bin/bash", "-lc", "true")

    def cycle_without_network(self) -> None:
        """The same with no network, as our devboxes have none: the engine's quickest."""
        self._call("run", "--rm", "--network", "none", _NAME, "/bin/bash", "-lc", "true")

    def unload(self) -> None:
        """Take the image away again."""
        self._call("rmi", "--force", _NAME)

    def _call(self, *arguments: str) -> None:
        command = [self.program, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, env=self._environment, check=False)
        if result.returncode != 0:
            raise RuntimeError((result.stderr.strip().splitlines() or ["it failed without a word"])[-1])


def available(folder: Path) -> tuple[list[Engine], list[str]]:
    """The engines that work here, and why the others do not."""
    archive = _archive(folder)
    configuration = folder / "containers.conf"
    runtime = "runc" if shutil.which("runc") or Path("/usr/sbin/runc").exists() else "crun"
    configuration.write_text(_CONFIGURATION.format(runtime=runtime))
    working, absent = [], []
    for program, environment in (("podman", {"CONTAINERS_CONF": str(configuration)}), ("docker", {})):
        if shutil.which(program) is None:
            absent.append(f"{program}: not installed")
            continue
        engine = Engine(program, environment)
        try:
            engine.load(archive)
            engine.cycle()
        except RuntimeError as error:
            absent.append(f"{program}: {str(error)[:200]}")
            continue
        working.append(engine)
    return working, absent


def _archive(folder: Path) -> Path:
    """A root file system with bash and the libraries it links, from this machine."""
    path = folder / "bash.tar"
    needed = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout
    libraries = sorted(set(re.findall(r"(/[^\s()]+)", needed)))
    with tarfile.open(path, "w", dereference=True) as archive:
        for source in ("/bin/bash", *libraries):
            archive.add(source, arcname=source.lstrip("/"))
    return path
