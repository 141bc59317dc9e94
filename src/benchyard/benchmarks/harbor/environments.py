"""Environments of Harbor tasks: read into those of scenarios, and written from them."""

import io
import json
import math
import posixpath
import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchyard.benchmarks.files.bounded_folder import BoundedFolder, packed_files
from benchyard.benchmarks.files.scenario_draft import (
    EnvironmentOrigin,
    NetworkAccess,
    StartingFile,
    starting_file_of,
)
from benchyard.benchmarks.files.writer import slug
from benchyard.benchmarks.harbor.task_file import HealthcheckPart, NetworkPart, TaskEnvironmentPart
from benchyard.errors import BuildFailed, UsageError
from benchyard.images.dockerfile import parser
from benchyard.images.dockerfile.parser import Instruction, expand_variables
from benchyard.models.launch import LaunchParameters, Size, UserParameters
from benchyard.models.scenarios import ScenarioEnvironment
from benchyard.models.scoring.attachments import MOST_PACKED_BYTES, PackedFile

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
class UserAndDirectory:
    """Working directory and user of an image, as far as its Dockerfile states them."""

    workdir: str | None = None
    user: str | None = None


def check_supported(part: TaskEnvironmentPart, folder: BoundedFolder, where: str) -> None:
    """Raise UsageError, naming the capability, if the environment needs one that no driver has."""
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
            raise UsageError(f"{where}: it needs {need}, which no driver here supports")


def origin_of(
    part: TaskEnvironmentPart, folder: BoundedFolder, name: str, work: Path
) -> tuple[BoundedFolder, EnvironmentOrigin]:
    """Return the origin of a devbox of this environment, and the folder that its paths are relative to."""
    path = f"{name}/{DOCKERFILE}"
    if folder.has(path):
        return folder, EnvironmentOrigin("dockerfile", path, prebuilt=part.docker_image, on_demand=True)
    if part.docker_image is None:
        raise UsageError(f"{folder.path}: there is neither {path} nor `docker_image` in [environment]")
    made = work / "image"
    made.mkdir(parents=True, exist_ok=True)
    lines = [f"FROM {part.docker_image}"]
    if part.workdir:
        lines.append(f"WORKDIR {part.workdir}")
    loose = packed_files(folder, name) if folder.has(name) else {}
    for each, file in loose.items():
        target = made / "files" / each
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    if loose:
        lines.append("COPY files/ ./")
    (made / DOCKERFILE).write_text("\n".join(lines) + "\n")
    return BoundedFolder(made), EnvironmentOrigin("dockerfile", DOCKERFILE, on_demand=True)


def user_and_directory_of(text: str) -> UserAndDirectory:
    """Return the working directory and user of a Dockerfile's last stage; empty if they cannot be read."""
    try:
        read = parser.parse_dockerfile(text)
    except BuildFailed:
        return UserAndDirectory()
    stages: dict[str, UserAndDirectory] = {}
    here, values = UserAndDirectory(), dict(read.global_values({}))
    for instruction in read.instructions:
        if instruction.name == "FROM":
            words = instruction.rest.lower().split()
            here = stages.get(words[0], UserAndDirectory()) if words else UserAndDirectory()
            stages[words[2] if len(words) == 3 else str(len(stages))] = here
        else:
            if instruction.name in ("ARG", "ENV"):
                values |= _values(instruction.rest)
            here = _user_and_directory_after(here, instruction, values)
            if stages:
                stages[next(reversed(stages))] = here
    return here


def _user_and_directory_after(
    here: UserAndDirectory, each: Instruction, values: Mapping[str, str]
) -> UserAndDirectory:
    """Return the working directory and user after an instruction."""
    if each.name == "WORKDIR":
        path = _filled(each.rest.strip(), values)
        return UserAndDirectory(posixpath.normpath(posixpath.join(here.workdir or "/", path)), here.user)
    if each.name == "USER":
        return UserAndDirectory(here.workdir, _filled(each.rest.strip(), values).partition(":")[0])
    return here


def _values(rest: str) -> Mapping[str, str]:
    try:
        pairs = [word.partition("=") for word in shlex.split(rest) if "=" in word]
    except ValueError:
        return {}
    return {name: value for name, _, value in pairs}


def _filled(text: str, values: Mapping[str, str]) -> str:
    try:
        return expand_variables(text, values).strip("\"'")
    except ValueError:
        return text


def launch_parameters(part: TaskEnvironmentPart, user: str) -> LaunchParameters:
    """Return size and user of a devbox of this environment, and the check that it is ready."""
    checks = [healthcheck_command(part.healthcheck)] if part.healthcheck else None
    return LaunchParameters(user_parameters=_user(user), launch_commands=checks, **_size(part))


def healthcheck_command(check: HealthcheckPart) -> str:
    """Return a command that waits until a check succeeds, and fails after too many failures."""
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


def _size(part: TaskEnvironmentPart) -> dict[str, Any]:
    """Return the smallest available size that is at least as large as the task requests."""
    if part.cpus is None and part.memory_mb is None and part.storage_mb is None:
        return {}
    memory = _even((part.memory_mb or 2 * _GB) / _GB)
    cpus = max(part.cpus or 1.0, memory / 8)
    cpus = next((cores for cores in (0.5, 1.0) if cpus <= cores), None) or _even(cpus)
    memory = max(memory, _even(2 * cpus)) if cpus > 0.5 else max(memory, 1)
    return {
        "resource_size_request": Size.CUSTOM_SIZE,
        "custom_cpu_cores": min(cpus, _MOST_CPUS),
        "custom_gb_memory": min(memory, _MOST_MEMORY_GB),
        "custom_disk_size": min(max(2, _even((part.storage_mb or 10 * _GB) / _GB)), _MOST_DISK_GB),
    }


def _even(value: float) -> int:
    return 1 if value <= 1 else 2 * math.ceil(value / 2)


def network_access(part: NetworkPart, inherited: NetworkAccess) -> NetworkAccess:
    """Return the network access of a phase."""
    if part.network_mode is None:
        return inherited
    modes: Mapping[str, NetworkAccess] = {
        "public": NetworkAccess("open"),
        "no-network": NetworkAccess("none"),
        "allowlist": NetworkAccess("allow-list", tuple(part.allowed_hosts or ())),
    }
    return modes[part.network_mode]


@dataclass(frozen=True)
class Variables:
    """Environment variables, and the names of those that must be given when a run begins."""

    plain: dict[str, str]
    required: list[str]


def variables_of(env: Mapping[str, str], where: str) -> Variables:
    """Return variables as a scenario has them: `${NAME}` must be given, a run may replace a default."""
    plain: dict[str, str] = {}
    required: list[str] = []
    for name, value in env.items():
        match = _TEMPLATE.fullmatch(value)
        if match is None:
            plain[name] = value
        elif match[2] is not None:
            plain[name] = match[2]
        elif match[1] == name:
            required.append(name)
        else:
            raise UsageError(
                f'{where}: {name} = "{value}" takes the value of another variable; write ${{{name}}} and '
                "give it with --env-vars or --secrets"
            )
    return Variables(plain, required)


BASE = "python:3.12-bookworm"
"""Replaces the default image, which is a view of the server: has Python, git, patch and curl."""
STARTING = "benchyard-starting"
"""Folder of the files that are there from the start."""
USUAL = UserParameters(username="user", uid=1000)
_IGNORE = ".dockerignore"
_LONGEST_COMMAND = 60 * 1024
_MODES = 0o777
_EXECUTABLE = 0o100


@dataclass(frozen=True)
class FileTree:
    """Files, links and empty folders, by their paths below a folder."""

    files: dict[str, PackedFile] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    def below(self, prefix: str) -> "FileTree":
        """Return the same tree in a folder of this name."""
        return FileTree(
            {f"{prefix}/{name}": file for name, file in self.files.items()},
            {f"{prefix}/{name}": target for name, target in self.links.items()},
            tuple(f"{prefix}/{name}" for name in self.folders),
        )

    def inside(self, prefix: str) -> "FileTree":
        """Return the content of one of its folders."""
        start = f"{prefix}/"
        return FileTree(
            {name.removeprefix(start): file for name, file in self.files.items() if name.startswith(start)},
            {name.removeprefix(start): to for name, to in self.links.items() if name.startswith(start)},
            tuple(name.removeprefix(start) for name in self.folders if name.startswith(start)),
        )


@dataclass(frozen=True)
class ImageParts:
    """Start of a devbox, as its blueprint describes it."""

    dockerfile: str
    context: FileTree | None = None
    prebuilt: str | None = None
    commands: tuple[str, ...] = ()
    """Commands that were run to set it up."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of a file that was put there."""
    user: UserParameters | None = None


def tree_of(archive: bytes) -> FileTree:
    """Return the files of a build context; raises UsageError if paths leave it, or it is too large."""
    unpacked = _Unpacked()
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            for about in opened:
                unpacked.take(opened, about)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UsageError(f"the build context is not an archive of files: {error}") from error
    taken = {
        parent for name in (*unpacked.files, *unpacked.links, *unpacked.folders) for parent in _parents(name)
    }
    return FileTree(
        unpacked.files, unpacked.links, tuple(folder for folder in unpacked.folders if folder not in taken)
    )


@dataclass
class _Unpacked:
    """Contents of an archive found so far."""

    files: dict[str, PackedFile] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    left: int = MOST_PACKED_BYTES

    def take(self, opened: tarfile.TarFile, about: tarfile.TarInfo) -> None:
        """Add one member of the archive."""
        name = posixpath.normpath(about.name)
        if name.startswith(("/", "../")) or name == ".." or "\0" in name:
            raise UsageError(f"the build context has a file outside of itself: {name[:200]!r}")
        self.left -= about.size
        if self.left < 0:
            raise UsageError(f"the build context holds more than {MOST_PACKED_BYTES} bytes")
        if about.isdir():
            self.folders += [name] if name != "." else []
        elif about.issym():
            self.links[name] = _inner_link(name, about.linkname)
        elif (content := opened.extractfile(about)) is not None:
            self.files[name] = PackedFile(content.read(), about.mode & _MODES)


def _parents(name: str) -> Iterator[str]:
    while name not in ("", "/"):
        name = posixpath.dirname(name)
        yield name


def _inner_link(name: str, target: str) -> str:
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if target.startswith("/") or reached.split("/")[0] == "..":
        raise UsageError(f"the build context has a link that leads out of it: {name[:200]!r}")
    return target


def build_context(image: ImageParts) -> FileTree:
    """Return the folder that an image is built from."""
    return image.context or FileTree({DOCKERFILE: PackedFile(image.dockerfile.encode())})


def user_of(environment: ScenarioEnvironment | None, image: ImageParts | None) -> UserParameters:
    """Return the user who works in the devboxes of a scenario."""
    launch = environment.launch_parameters if environment else None
    own = launch.user_parameters if launch else None
    return own or (image.user if image else None) or USUAL


def home_of(user: UserParameters) -> str:
    """Return a user's home directory."""
    return "/root" if user.username == ROOT else f"/home/{user.username}"


def environment_folder(environment: ScenarioEnvironment, image: ImageParts | None) -> FileTree:
    """Return `environment/` of a scenario: a Dockerfile of its image and its launch commands."""
    user = user_of(environment, image)
    image = image or ImageParts(f"FROM {BASE}\n")
    context = image.context or FileTree()
    files = dict(context.files)
    directory = environment.working_directory or home_of(user)
    launch = environment.launch_parameters or LaunchParameters()
    lines = _account(user, directory)
    mounts = [StartingFile(path, text.encode()) for path, text in image.mounts.items()]
    steps: list[StartingFile | str] = [*mounts, *image.commands]
    for command in launch.launch_commands or []:
        steps.append(starting_file_of(command, environment.working_directory) or command)
    lines += _steps(steps, user, directory, files)
    text = image.dockerfile.rstrip("\n") + "\n"
    if len(lines) > 1 or user.username != ROOT:
        text += "\n# What the scenario does when a devbox is launched.\n" + "\n".join(lines) + "\n"
    files[DOCKERFILE] = PackedFile(text.encode())
    if _IGNORE in files and any(name.startswith(STARTING) for name in files):
        ignored = files[_IGNORE].content.rstrip(b"\n") + f"\n!{STARTING}\n!{STARTING}/**\n".encode()
        files[_IGNORE] = PackedFile(ignored, files[_IGNORE].mode)
    return FileTree(files, context.links, context.folders)


def _account(user: UserParameters, directory: str) -> list[str]:
    """Return the lines that make the user and the working directory."""
    if user.username == ROOT:
        return ["USER root", f"WORKDIR {_plain(directory)}"]
    name, uid = user.username, f"-u {user.uid} " if user.uid is not None else ""
    return [
        "USER root",
        f"RUN id {name} > /dev/null 2>&1 || useradd -m {uid}{name} || adduser -D {uid}{name}",
        f"RUN mkdir -p {_plain(directory)} && chown {name} {_plain(directory)}",
    ]


def _steps(
    steps: list[StartingFile | str], user: UserParameters, directory: str, files: dict[str, PackedFile]
) -> Iterator[str]:
    folders = {directory, home_of(user)}
    yield f"WORKDIR {home_of(user)}"
    for number, step in enumerate(steps):
        if isinstance(step, StartingFile):
            yield from _copy_lines(number, step, (user, directory), files, folders)
        else:
            if len(step) > _LONGEST_COMMAND:
                raise UsageError("a launch command is too long for a Dockerfile; put it into the image")
            yield f"USER {user.username}"
            yield f"RUN {json.dumps(['/bin/bash', '-c', step], ensure_ascii=False)}"
    yield "USER root"
    yield f"WORKDIR {_plain(directory)}"


def _copy_lines(
    number: int,
    file: StartingFile,
    whose: tuple[UserParameters, str],
    files: dict[str, PackedFile],
    made: set[str],
) -> Iterator[str]:
    user, directory = whose
    path = posixpath.normpath(posixpath.join(directory, file.path))
    _plain(path, spaces=True)
    name = f"{STARTING}/{number}-{slug(posixpath.basename(path))}"
    # Builders copy a file's mode, but git keeps only its executable bit.
    files[name] = PackedFile(file.content, 0o755 if file.mode & _EXECUTABLE else 0o644)
    missing = [
        parent for parent in _parents(path) if parent not in made and parent.startswith(f"{home_of(user)}/")
    ]
    for folder in reversed(missing):
        made.add(folder)
        step = f'mkdir -p "{folder}" && chown {user.username} "{folder}"'
        yield f"RUN {json.dumps(['/bin/sh', '-c', step], ensure_ascii=False)}"
    yield f"COPY --chown={user.username} {json.dumps([name, path], ensure_ascii=False)}"
    if file.mode not in (0o644, 0o755):
        step = f'chmod {file.mode:o} "{path}"'
        yield f"RUN {json.dumps(['/bin/sh', '-c', step], ensure_ascii=False)}"


def _plain(path: str, *, spaces: bool = False) -> str:
    """Return a path without special meaning in a Dockerfile; raises UsageError for any other."""
    odd = set("$\\\"'`\n\r\0") if spaces else set("$\\\"'`\n\r\0 \t;&|<>()*?[]#~!{}")
    if set(path) & odd:
        raise UsageError(f"the path {path[:200]!r} has characters with a special meaning in a Dockerfile")
    return path
