"""The program `buildah` with its own storage and settings, independent of this machine's configuration."""

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchyard.images.builders import processes
from benchyard.images.builders.base import BuildDoor, Log
from benchyard.images.builders.engine_storage import EngineStorage

_FILES, _PROCESSES = 20_000, 32_768
_PASSED_ON = (
    "PATH",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
)
_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'
_REGISTRIES = 'unqualified-search-registries = ["docker.io"]\nshort-name-mode = "disabled"\n'
_SECONDS = 600.0
_HEREDOCS_SINCE = (1, 33)


@dataclass(frozen=True)
class BuildahCall:
    """A call of the engine."""

    arguments: Sequence[str]
    folder: Path
    """A folder for the engine's temporary files during this call."""
    environment: Mapping[str, str] = field(default_factory=dict)
    network: bool = True
    door: BuildDoor | None = None
    seconds: float = _SECONDS
    group: processes.BuildGroup = field(default_factory=processes.NoBuildGroup)
    overfull: processes.Overfull | None = None


class BuildahTool:
    """Calls of `buildah` on the storage below a folder."""

    def __init__(self, folder: Path, program: str) -> None:
        self._folder = folder
        self._program = program
        self.storage = EngineStorage(folder / "storage")

    @cached_property
    def about(self) -> str:
        """Return name and version, as in `buildah 1.28.2`."""
        answer = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=False)
        match = re.search(r"(?<!\d)\d++(\.\d++)++", answer.stdout)
        return f"buildah {match[0] if match else ''}".strip()

    @property
    def knows_heredocs(self) -> bool:
        """Tell whether this version reads here-documents itself."""
        match = re.search(r"(?<!\d)(\d++)\.(\d++)", self.about)
        return match is not None and (int(match[1]), int(match[2])) >= _HEREDOCS_SINCE

    def write_settings(self) -> None:
        """Write the settings that the engine would otherwise read from the machine's own files."""
        settings = self._folder / "settings"
        settings.mkdir(mode=0o700, parents=True, exist_ok=True)
        limits = (
            _limit("nofile", resource.RLIMIT_NOFILE, _FILES),
            _limit("nproc", resource.RLIMIT_NPROC, _PROCESSES),
        )
        ulimits = ", ".join(f'"{limit}"' for limit in limits)
        containers = (
            f"[containers]\ndefault_ulimits = [{ulimits}]\n"
            '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        )
        texts = {
            "containers.conf": containers,
            "storage.conf": f'[storage]\ndriver = "overlay"\ngraphroot = "{self.storage.folder}"\n',
            "policy.json": _POLICY,
            "registries.conf": _REGISTRIES,
        }
        for name, text in texts.items():
            (settings / name).write_text(text)
        # The operator of the server may put the keys of registries here.
        if not (settings / "auth.json").exists():
            (settings / "auth.json").write_text("{}")

    async def run(self, call: BuildahCall, log: Log) -> int:
        """Call the engine; return its exit status."""
        work = processes.BuildProcess(
            self._command(call),
            self._environment(call),
            call.folder,
            network=call.network,
            door=call.door,
            seconds=call.seconds,
            group=call.group,
            overfull=call.overfull,
        )
        return await processes.run_process(work, log)

    def _command(self, call: BuildahCall) -> list[str]:
        verb, *rest = call.arguments
        flags = ["--root", str(self.storage.folder), "--runroot", str(call.folder / "run")]
        policy = ["--signature-policy", str(self._folder / "settings" / "policy.json")]
        trusting = policy if verb in ("build", "pull") else []
        return [self._program, *flags, "--storage-driver", "overlay", verb, *trusting, *rest]

    def _environment(self, call: BuildahCall) -> Mapping[str, str]:
        settings = self._folder / "settings"
        temporary = call.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        own = {
            "CONTAINERS_CONF": settings / "containers.conf",
            "CONTAINERS_STORAGE_CONF": settings / "storage.conf",
            "CONTAINERS_REGISTRIES_CONF": settings / "registries.conf",
            "REGISTRY_AUTH_FILE": settings / "auth.json",
            "HOME": call.folder,
            "TMPDIR": temporary,
            "XDG_RUNTIME_DIR": temporary,
        }
        rootless = {} if os.geteuid() == 0 else {"_CONTAINERS_USERNS_CONFIGURED": "done"}
        return {
            **inherited_environment(),
            **rootless,
            **{name: str(path) for name, path in own.items()},
            **call.environment,
        }


def inherited_environment() -> dict[str, str]:
    """Return the part of our own environment that an engine's program inherits."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


def find_buildah() -> str | None:
    """Return the path of `buildah` if it and its dependencies are there."""
    return None if processes.missing_programs() else shutil.which("buildah")


def _limit(name: str, kind: int, wanted: int) -> str:
    """Return a limit for a build's processes, at most the limit of this process."""
    hard = resource.getrlimit(kind)[1]
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return f"{name}={value}:{value}"
