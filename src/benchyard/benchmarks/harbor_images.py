"""Environments of scenarios as the folder `environment/` of a Harbor task."""

import io
import json
import posixpath
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from benchyard.benchmarks.harbor_environments import DOCKERFILE, ROOT
from benchyard.benchmarks.starting_files import StartingFile, parsed
from benchyard.benchmarks.writing import slug
from benchyard.errors import UsageError
from benchyard.models.attachments import MOST_PACKED_BYTES, PackedFile
from benchyard.models.launch import LaunchParameters, UserParameters
from benchyard.models.scenarios import ScenarioEnvironment

BASE = "python:3.12-bookworm"
"""In the place of the default image, which is a view of the server: has Python, git, patch and curl."""
STARTING = "benchyard-starting"
"""The folder with the files that are there from the start."""
USUAL = UserParameters(username="user", uid=1000)
_IGNORE = ".dockerignore"
_LONGEST_COMMAND = 60 * 1024
_MODES = 0o777
_EXECUTABLE = 0o100


@dataclass(frozen=True)
class Tree:
    """Files, links and empty folders, by their paths below a folder."""

    files: dict[str, PackedFile] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    def below(self, prefix: str) -> "Tree":
        """The same, in a folder of this name."""
        return Tree(
            {f"{prefix}/{name}": file for name, file in self.files.items()},
            {f"{prefix}/{name}": target for name, target in self.links.items()},
            tuple(f"{prefix}/{name}" for name in self.folders),
        )

    def inside(self, prefix: str) -> "Tree":
        """What is in one of its folders."""
        start = f"{prefix}/"
        return Tree(
            {name.removeprefix(start): file for name, file in self.files.items() if name.startswith(start)},
            {name.removeprefix(start): to for name, to in self.links.items() if name.startswith(start)},
            tuple(name.removeprefix(start) for name in self.folders if name.startswith(start)),
        )


@dataclass(frozen=True)
class Image:
    """What a devbox starts from, as its blueprint tells."""

    dockerfile: str
    context: Tree | None = None
    prebuilt: str | None = None
    commands: tuple[str, ...] = ()
    """That were run to set it up."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of a file that was put there."""
    user: UserParameters | None = None


def tree_of(archive: bytes) -> Tree:
    """The files of a build context; raises UsageError for what leads out of it, or is too large."""
    found = _Unpacked()
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            for about in opened:
                found.take(opened, about)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UsageError(f"the build context is no archive of files: {error}") from error
    taken = {parent for name in (*found.files, *found.links, *found.folders) for parent in _parents(name)}
    return Tree(found.files, found.links, tuple(each for each in found.folders if each not in taken))


@dataclass
class _Unpacked:
    """What was found in an archive so far."""

    files: dict[str, PackedFile] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    left: int = MOST_PACKED_BYTES

    def take(self, opened: tarfile.TarFile, about: tarfile.TarInfo) -> None:
        """Take one thing in."""
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


def context_of(image: Image) -> Tree:
    """The folder that an image is built from."""
    return image.context or Tree({DOCKERFILE: PackedFile(image.dockerfile.encode())})


def user_of(environment: ScenarioEnvironment | None, image: Image | None) -> UserParameters:
    """Who works in the devboxes of a scenario."""
    launch = environment.launch_parameters if environment else None
    own = launch.user_parameters if launch else None
    return own or (image.user if image else None) or USUAL


def home_of(user: UserParameters) -> str:
    """Where a user is at home."""
    return "/root" if user.username == ROOT else f"/home/{user.username}"


def own_folder(environment: ScenarioEnvironment, image: Image | None) -> Tree:
    """`environment/` of a scenario of ours: its image, and what its launch commands do, in a Dockerfile."""
    user = user_of(environment, image)
    image = image or Image(f"FROM {BASE}\n")
    context = image.context or Tree()
    files = dict(context.files)
    directory = environment.working_directory or home_of(user)
    launch = environment.launch_parameters or LaunchParameters()
    lines = _account(user, directory)
    mounts = [StartingFile(path, text.encode()) for path, text in image.mounts.items()]
    steps: list[StartingFile | str] = [*mounts, *image.commands]
    for command in launch.launch_commands or []:
        steps.append(parsed(command, environment.working_directory) or command)
    lines += _steps(steps, user, directory, files)
    text = image.dockerfile.rstrip("\n") + "\n"
    if len(lines) > 1 or user.username != ROOT:
        text += "\n# What the scenario does when a devbox is launched.\n" + "\n".join(lines) + "\n"
    files[DOCKERFILE] = PackedFile(text.encode())
    if _IGNORE in files and any(name.startswith(STARTING) for name in files):
        ignored = files[_IGNORE].content.rstrip(b"\n") + f"\n!{STARTING}\n!{STARTING}/**\n".encode()
        files[_IGNORE] = PackedFile(ignored, files[_IGNORE].mode)
    return Tree(files, context.links, context.folders)


def _account(user: UserParameters, directory: str) -> list[str]:
    """The lines that make the user, and the folder that is worked in."""
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
    made = {directory, home_of(user)}
    yield f"WORKDIR {home_of(user)}"
    for number, step in enumerate(steps):
        if isinstance(step, StartingFile):
            yield from _copied(number, step, (user, directory), files, made)
        else:
            if len(step) > _LONGEST_COMMAND:
                raise UsageError("a launch command is too long for a Dockerfile; put it into the image")
            yield f"USER {user.username}"
            yield f"RUN {json.dumps(['/bin/bash', '-c', step], ensure_ascii=False)}"
    yield "USER root"
    yield f"WORKDIR {_plain(directory)}"


def _copied(
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
    # Builders take a file's mode over, and git keeps only whether it can be run.
    files[name] = PackedFile(file.content, 0o755 if file.mode & _EXECUTABLE else 0o644)
    missing = [each for each in _parents(path) if each not in made and each.startswith(f"{home_of(user)}/")]
    for folder in reversed(missing):
        made.add(folder)
        step = f'mkdir -p "{folder}" && chown {user.username} "{folder}"'
        yield f"RUN {json.dumps(['/bin/sh', '-c', step], ensure_ascii=False)}"
    yield f"COPY --chown={user.username} {json.dumps([name, path], ensure_ascii=False)}"
    if file.mode not in (0o644, 0o755):
        step = f'chmod {file.mode:o} "{path}"'
        yield f"RUN {json.dumps(['/bin/sh', '-c', step], ensure_ascii=False)}"


def _plain(path: str, *, spaces: bool = False) -> str:
    """A path that means itself in a Dockerfile."""
    odd = set("$\\\"'`\n\r\0") if spaces else set("$\\\"'`\n\r\0 \t;&|<>()*?[]#~!{}")
    if set(path) & odd:
        raise UsageError(f"the path {path[:200]!r} has letters that a Dockerfile takes for something else")
    return path
