"""The environment of a Harbor task: its Dockerfile or image, its size, who works in it and where."""

import math
import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.benchmarks.access import Access
from benchyard.benchmarks.folders import Folder
from benchyard.benchmarks.harbor_file import EnvironmentPart, HealthcheckPart, NetworkPart
from benchyard.benchmarks.packing import files_of
from benchyard.benchmarks.scenario_folder import Origin
from benchyard.errors import BuildFailed, UsageError
from benchyard.images import dockerfile
from benchyard.images.dockerfile import Instruction
from benchyard.images.words import expand
from benchyard.models.launch import LaunchParameters, Size, UserParameters

FOLDER = "environment"
DOCKERFILE = "Dockerfile"
COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
ROOT = "root"
_TEMPLATE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_GB = 1024
_MOST_CPUS, _MOST_MEMORY_GB, _MOST_DISK_GB = 16, 64, 64
_HEALTHY = """\
period=$(date +%s); fails=0
until timeout {timeout} bash -c {command}; do
    if [ $(($(date +%s) - period)) -lt {start} ]; then sleep {start_interval}; continue; fi
    fails=$((fails + 1))
    if [ "$fails" -ge {retries} ]; then echo "the health check failed $fails times" >&2; exit 1; fi
    sleep {interval}
done
"""


@dataclass(frozen=True)
class Place:
    """Where an image has one work, and as whom, as far as its Dockerfile tells."""

    workdir: str | None = None
    user: str | None = None


def check_supported(part: EnvironmentPart, folder: Folder, where: str) -> None:
    """Raise UsageError, with the capability that is missing, for what no driver of ours has."""
    needs: dict[str, object] = {
        f"os = {part.os!r}: a machine that is not Linux": part.os.lower() != "linux",
        "gpus: devboxes with GPUs": part.gpus,
        "tpu: devboxes with TPUs": part.tpu,
        "mcp_servers: servers of tools beside the agent": part.mcp_servers,
        "skills_dir: skills that agents load": part.skills_dir,
    }
    for name in COMPOSE:
        text = (
            f"{name}: side services by compose (blueprints have `services`, which the container driver runs)"
        )
        needs[text] = folder.has(f"{FOLDER}/{name}")
    for need, is_there in needs.items():
        if is_there:
            raise UsageError(f"{where}: it needs {need}, which no driver here has")


def origin(part: EnvironmentPart, folder: Folder, name: str, work: Path) -> tuple[Folder, Origin]:
    """What a devbox of this environment starts from, and the folder that this is told from."""
    path = f"{name}/{DOCKERFILE}"
    if folder.has(path):
        return folder, Origin("dockerfile", path, prebuilt=part.docker_image, on_demand=True)
    if part.docker_image is None:
        raise UsageError(f"{folder.path}: there is neither {path} nor `docker_image` in [environment]")
    made = work / "image"
    made.mkdir(parents=True, exist_ok=True)
    lines = [f"FROM {part.docker_image}"]
    if part.workdir:
        lines.append(f"WORKDIR {part.workdir}")
    loose = files_of(folder, name) if folder.has(name) else {}
    for each, file in loose.items():
        target = made / "files" / each
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    if loose:
        lines.append("COPY files/ ./")
    (made / DOCKERFILE).write_text("\n".join(lines) + "\n")
    return Folder(made), Origin("dockerfile", DOCKERFILE, on_demand=True)


def place_of(text: str) -> Place:
    """Where the last stage of a Dockerfile works, and as whom; nothing where it cannot be told."""
    try:
        read = dockerfile.parse(text)
    except BuildFailed:
        return Place()
    stages: dict[str, Place] = {}
    here, values = Place(), dict(read.global_values({}))
    for each in read.instructions:
        if each.name == "FROM":
            words = each.rest.lower().split()
            here = stages.get(words[0], Place()) if words else Place()
            stages[words[2] if len(words) == 3 else str(len(stages))] = here
        else:
            if each.name in ("ARG", "ENV"):
                values |= _values(each.rest)
            here = _moved(here, each, values)
            if stages:
                stages[next(reversed(stages))] = here
    return here


def _moved(here: Place, each: Instruction, values: Mapping[str, str]) -> Place:
    """Where one works after an instruction."""
    if each.name == "WORKDIR":
        path = _filled(each.rest.strip(), values)
        return Place(posixpath.normpath(posixpath.join(here.workdir or "/", path)), here.user)
    if each.name == "USER":
        return Place(here.workdir, _filled(each.rest.strip(), values).partition(":")[0])
    return here


def _values(rest: str) -> Mapping[str, str]:
    try:
        pairs = [word.partition("=") for word in shlex.split(rest) if "=" in word]
    except ValueError:
        return {}
    return {name: value for name, _, value in pairs}


def _filled(text: str, values: Mapping[str, str]) -> str:
    try:
        return expand(text, values).strip("\"'")
    except ValueError:
        return text


def launch(part: EnvironmentPart, user: str) -> LaunchParameters:
    """Size and user of a devbox of this environment, and the check that it is ready."""
    checks = [healthy(part.healthcheck)] if part.healthcheck else None
    return LaunchParameters(user_parameters=_user(user), launch_commands=checks, **_size(part))


def healthy(check: HealthcheckPart) -> str:
    """A command that waits until a check succeeds, and fails when it has failed too often."""
    return _HEALTHY.format(
        command=shlex.quote(check.command),
        timeout=f"{check.timeout_sec:g}",
        start=math.ceil(check.start_period_sec),
        start_interval=f"{check.start_interval_sec:g}",
        interval=f"{check.interval_sec:g}",
        retries=check.retries,
    )


def _user(user: str) -> UserParameters:
    if user in (ROOT, "0"):
        return UserParameters(username=ROOT, uid=0)
    return (
        UserParameters(username=f"user{user}", uid=int(user))
        if user.isdigit()
        else UserParameters(username=user)
    )


def _size(part: EnvironmentPart) -> dict[str, Any]:
    """The smallest size we have that is at least what is asked for."""
    if part.cpus is None and part.memory_mb is None and part.storage_mb is None:
        return {}
    memory = _even((part.memory_mb or 2 * _GB) / _GB)
    cpus = max(part.cpus or 1.0, memory / 8)
    cpus = next((each for each in (0.5, 1.0) if cpus <= each), None) or _even(cpus)
    memory = max(memory, _even(2 * cpus)) if cpus > 0.5 else max(memory, 1)
    return {
        "resource_size_request": Size.CUSTOM_SIZE,
        "custom_cpu_cores": min(cpus, _MOST_CPUS),
        "custom_gb_memory": min(memory, _MOST_MEMORY_GB),
        "custom_disk_size": min(max(2, _even((part.storage_mb or 10 * _GB) / _GB)), _MOST_DISK_GB),
    }


def _even(value: float) -> int:
    return 1 if value <= 1 else 2 * math.ceil(value / 2)


def access(part: NetworkPart, inherited: Access) -> Access:
    """What a phase may reach."""
    if part.network_mode is None:
        return inherited
    modes: Mapping[str, Access] = {
        "public": Access("open"),
        "no-network": Access("none"),
        "allowlist": Access("allow-list", tuple(part.allowed_hosts or ())),
    }
    return modes[part.network_mode]


@dataclass(frozen=True)
class Variables:
    """Environment variables, and what has to be given for them when a run begins."""

    plain: dict[str, str]
    required: list[str]


def variables(env: Mapping[str, str], where: str) -> Variables:
    """Variables as a scenario has them: `${NAME}` is asked for, a default may be replaced by a run's own."""
    plain: dict[str, str] = {}
    required: list[str] = []
    for name, value in env.items():
        found = _TEMPLATE.fullmatch(value)
        if found is None:
            plain[name] = value
        elif found[2] is not None:
            plain[name] = found[2]
        elif found[1] == name:
            required.append(name)
        else:
            raise UsageError(
                f'{where}: {name} = "{value}" takes the value of another variable; write ${{{name}}} and '
                "give it with --env-vars or --secrets"
            )
    return Variables(plain, required)
