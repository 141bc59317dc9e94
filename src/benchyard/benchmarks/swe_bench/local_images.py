"""Dockerfiles of SWE-bench with stand-ins for their downloads: Python, packages and the repository.

They are for servers that reach neither the official images nor conda and the repositories. A Python of the
base image replaces conda's, packages of the Python index replace those of conda's channels, and a bundle
replaces the repository. All else is as in the official Dockerfile. The result is not the official
environment, and is marked so.
"""

import itertools
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchyard.benchmarks.swe_bench import items
from benchyard.benchmarks.swe_bench.items import Row
from benchyard.errors import BuildFailed, DatasetError
from benchyard.images.dockerfile.parser import Dockerfile, Instruction, parse_dockerfile

MARK = "unofficial environment: a Python of the base image instead of conda's, packages of the index"
REPOSITORIES = "repositories"
"""Folder of the bundles, beside the rows."""
_BUNDLE = "repository.bundle"
_INSIDE = f"/tmp/{_BUNDLE}"  # noqa: S108  it is the build's
_MAKE = Path(__file__).with_suffix(".sh")
_FILES = "testbed"
"""Folder of the files that make the environment, beside the Dockerfile."""
_THERE = f"/tmp/{_FILES}"  # noqa: S108  it is the build's
_CLONE = re.compile(r"(git clone (?:(?!git clone ).)*?)https://github\.com/\S+")
_FORGET = re.compile(r"^git remote remove origin$", re.MULTILINE)
_OF_SYSTEM = re.compile(r"^apt(?:-get)? .*$", re.MULTILINE)
_WRITES = re.compile(r"cat <<'(EOF_\w+)' > \S*/environment\.yml\n")
_MOST_WRITES = 20
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+")
_PYTHON = re.compile(r"python=(\d+\.\d+)")
_OF_CONDA = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]*)=([A-Za-z0-9.!+_]+)=(?:[A-Za-z0-9]+_)?py(?:\d|h|_|ge)[A-Za-z0-9_]*"
)
"""Pattern of conda's Python packages, by their build; others are libraries, which bases name differently."""
_NOT_OF_INDEX = frozenset({"pyqt", "pyqt5-sip", "sip", "numpy-base", "pyarrow-core"})
"""Packages of conda that the index splits differently."""
_NAMES_OF_INDEX = {
    "antlr-python-runtime": "antlr4-python3-runtime",
    "brotli-python": "brotli",
    "dask-core": "dask",
    "iris": "scitools-iris",
    "matplotlib-base": "matplotlib",
    "msgpack-python": "msgpack",
    "python-eccodes": "eccodes",
    "python-fastjsonschema": "fastjsonschema",
    "python-tzdata": "tzdata",
    "python-xxhash": "xxhash",
    "seaborn-base": "seaborn",
}
"""Name of a package at conda -> its different name in the index."""


def write(row: Row, data: Path, folder: Path) -> None:
    """Write the Dockerfile of a row and the files it needs into a folder; raises DatasetError."""
    bundle = _bundle(row, data)
    try:
        official = parse_dockerfile(items.text_of(row, "dockerfile"))
    except BuildFailed as error:
        raise DatasetError(f"the dockerfile of the row cannot be read: {error.message}") from error
    pins = _pins(row)
    text = "\n".join(_lines_with_stand_ins(official, pins)) + "\n"
    if not _CLONE.search(items.text_of(row, "dockerfile")) or f"COPY {_FILES}" not in text:
        raise DatasetError("the dockerfile of the row is not as those of SWE-bench are: no stand-ins fit")
    files = folder / _FILES
    files.mkdir(parents=True)
    (folder / "Dockerfile").write_text(text)
    shutil.copyfile(_MAKE, files / "make.sh")
    (files / "conda.txt").write_text("".join(f"{pin}\n" for pin in pins.conda))
    (files / "pip.txt").write_text("".join(f"{pin}\n" for pin in pins.pip))
    try:
        # A link saves space: hundreds of items share a bundle.
        os.link(bundle, folder / _BUNDLE)
    except OSError:
        shutil.copyfile(bundle, folder / _BUNDLE)


def _bundle(row: Row, data: Path) -> Path:
    repo = items.text_of(row, "repo")
    name = repo.replace("/", "__")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise DatasetError(f"repo {repo[:100]!r} is not `owner/name`")
    folder = (data if data.is_dir() else data.parent) / REPOSITORIES
    if not (folder / f"{name}.bundle").is_file():
        raise DatasetError(
            f"the variant `local` needs {folder / name}.bundle; where the repository can be reached: "
            f"git clone --mirror https://github.com/{repo} {name}.git && "
            f"git -C {name}.git bundle create {name}.bundle --all"
        )
    return folder / f"{name}.bundle"


@dataclass(frozen=True)
class EnvironmentPins:
    """Python version and packages that an environment file names."""

    python: str
    pip: tuple[str, ...]
    """Packages that pip installs officially."""
    conda: tuple[str, ...]
    """Python packages that conda installs officially and that the index has, mostly in the same versions."""


def _pins(row: Row) -> EnvironmentPins:
    """Return the version of Python, and the packages of the index, that an environment file names."""
    text = items.text_of(row, "environment_yml", default="") or _inlined(items.text_of(row, "dockerfile"))
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())[:200]
        raise DatasetError(f"environment_yml is not valid YAML: {problem}") from error
    listed = document.get("dependencies") if isinstance(document, dict) else None
    version = "3"
    pip: dict[str, str] = {}
    conda: dict[str, str] = {}
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict):
            pins = [str(pin) for pin in item.get("pip") or [] if _PIN.fullmatch(str(pin))]
            pip |= {_plain(pin.partition("==")[0]): pin for pin in pins}
        elif python := _PYTHON.match(str(item)):
            version = python[1]
        elif (package := _OF_CONDA.fullmatch(str(item))) and package[1] not in _NOT_OF_INDEX:
            name = _NAMES_OF_INDEX.get(package[1], package[1])
            conda[_plain(name)] = f"{name}=={package[2]}"
    # Pins of pip win, since it installed last.
    return EnvironmentPins(
        version, tuple(pip.values()), tuple(pin for name, pin in conda.items() if name not in pip)
    )


def _plain(name: str) -> str:
    """Return the name of a package in the index's normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _inlined(dockerfile: str) -> str:
    """Return the environment file that a Dockerfile itself writes."""
    for head in itertools.islice(_WRITES.finditer(dockerfile), _MOST_WRITES):
        content, end, _ = dockerfile[head.end() :].partition(f"\n{head[1]}\n")
        if end:
            return content
    return ""


def _lines_with_stand_ins(official: Dockerfile, wanted: EnvironmentPins) -> Iterator[str]:
    """Yield the lines of a Dockerfile with stand-ins for its downloads."""
    at = 0
    for instruction in official.instructions:
        yield from official.lines[at : instruction.first - 1]
        at = instruction.last
        lines = official.lines[instruction.first - 1 : instruction.last]
        yield from _stand_in(instruction, lines, wanted)
    yield from official.lines[at:]


def _stand_in(instruction: Instruction, lines: tuple[str, ...], wanted: EnvironmentPins) -> Iterator[str]:
    text = "\n".join(lines)
    if instruction.name != "RUN":
        yield text
    elif "conda env create" in text:
        yield f"COPY {_FILES} {_THERE}"
        yield f"RUN bash {_THERE}/make.sh {wanted.python} && rm -r {_THERE}"
    elif _CLONE.search(text):
        yield f"COPY {_BUNDLE} {_INSIDE}"
        cloned = _CLONE.sub(rf"\g<1>{_INSIDE}", text)
        # Older gits keep the name of a deleted branch, and their `gc` fails on it.
        cloned = _FORGET.sub(r"\g<0>\nrm -rf .git/refs/remotes/origin", cloned)
        yield _OF_SYSTEM.sub(_if_it_can_be_had, cloned)
        yield f"RUN rm -f {_INSIDE}"
    elif "repo.anaconda.com" in text or instruction.rest.startswith("conda "):
        yield "# Left out: conda."
    elif instruction.rest.startswith(("apt ", "apt-get ", "adduser ")):
        yield f"RUN {_if_it_can_be_had(text.removeprefix('RUN ').rstrip())}"
    else:
        yield text


def _if_it_can_be_had(command: str | re.Match[str]) -> str:
    """Return a command that installs system packages, or else continues with those of the base."""
    text = command if isinstance(command, str) else command[0]
    return f"( {text} ) || echo 'not done; what the base has is used'"
