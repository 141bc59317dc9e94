"""Dockerfiles of SWE-bench with stand-ins for what they download: Python, packages and the repository.

Where neither the official images nor conda and the repositories can be reached, a Python of the base image
takes the place of conda's, the index of Python packages that of its channels, and a bundle that somebody has
that of the repository. All else is as in the official Dockerfile. What comes out is not the official
environment, and is marked so.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchyard.benchmarks import swe_rows
from benchyard.benchmarks.swe_rows import Row
from benchyard.errors import BuildFailed, DatasetError
from benchyard.images.dockerfile import Dockerfile, Instruction, parse

MARK = "unofficial environment: a Python of the base image instead of conda's, packages of the index"
REPOSITORIES = "repositories"
"""Where bundles are, beside the rows."""
_BUNDLE = "repository.bundle"
_INSIDE = f"/tmp/{_BUNDLE}"  # noqa: S108  it is the build's
_ENVIRONMENT = "/opt/miniconda3/envs/testbed"
_CLONE = re.compile(r"(git clone .*?)https://github\.com/\S+")
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+")
_PYTHON = re.compile(r"python=(\d+\.\d+)")
_FROM_CONDA = ("setuptools", "wheel")
_ACTIVATE = """\
conda() {{ if [ "${{1:-}}" = activate ]; then
export CONDA_DEFAULT_ENV=testbed VIRTUAL_ENV={environment} PATH={environment}/bin:$PATH; fi; }}
if [ "${{1:-}}" = testbed ]; then conda activate; fi
"""
_INSTALL = """\
RUN <<'BENCHYARD_PYTHON'
set -eu
python=$(command -v python{version} || command -v python3)
"$python" -m venv {environment} || "$python" -m venv --without-pip {environment}
mkdir -p /opt/miniconda3/bin /opt/miniconda3/etc/profile.d
cat > /opt/miniconda3/bin/activate <<'BENCHYARD_ACTIVATE'
{activate}BENCHYARD_ACTIVATE
cp /opt/miniconda3/bin/activate /opt/miniconda3/etc/profile.d/conda.sh
cat > /opt/miniconda3/requirements.txt <<'BENCHYARD_PINS'
{pins}BENCHYARD_PINS
if [ -s /opt/miniconda3/requirements.txt ]; then
    {environment}/bin/python -m pip install --no-deps -r /opt/miniconda3/requirements.txt
fi
BENCHYARD_PYTHON
"""


def write(row: Row, data: Path, folder: Path) -> None:
    """Write the Dockerfile of a row and what it needs into a folder; raises DatasetError."""
    bundle = _bundle(row, data)
    try:
        official = parse(swe_rows.text(row, "dockerfile"))
    except BuildFailed as error:
        raise DatasetError(f"the dockerfile of the row cannot be read: {error.message}") from error
    text = "\n".join(_changed(official, _pins(row))) + "\n"
    if not _CLONE.search(swe_rows.text(row, "dockerfile")) or _INSTALL[:20] not in text:
        raise DatasetError("the dockerfile of the row is not as those of SWE-bench are: no stand-ins fit")
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text(text)
    try:
        # The same for hundreds of items.
        os.link(bundle, folder / _BUNDLE)
    except OSError:
        shutil.copyfile(bundle, folder / _BUNDLE)


def _bundle(row: Row, data: Path) -> Path:
    repo = swe_rows.text(row, "repo")
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


def _pins(row: Row) -> tuple[str, list[str]]:
    """The version of Python, and the packages of the index, that an environment file names."""
    text = swe_rows.text(row, "environment_yml", default="") or _inlined(swe_rows.text(row, "dockerfile"))
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DatasetError(f"environment_yml is no YAML: {' '.join(str(error).split())[:200]}") from error
    listed = found.get("dependencies") if isinstance(found, dict) else None
    version, pins = "3", []
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict):
            pins += [str(pin) for pin in each.get("pip") or [] if _PIN.fullmatch(str(pin))]
        elif python := _PYTHON.match(str(each)):
            version = python[1]
        elif (words := str(each).split("="))[0] in _FROM_CONDA and len(words) > 1:
            pins.append(f"{words[0]}=={words[1]}")
    # What pip installed came last.
    last = {pin.partition("==")[0].lower(): pin for pin in pins}
    return version, list(last.values())


def _inlined(dockerfile: str) -> str:
    """The environment file that a Dockerfile writes by itself."""
    found = re.search(r"cat <<'(EOF_\w+)' > \S*/environment\.yml\n(.*?)\n\1\n", dockerfile, re.DOTALL)
    return found[2] if found else ""


def _changed(official: Dockerfile, wanted: tuple[str, list[str]]) -> Iterator[str]:
    """The lines of a Dockerfile with stand-ins in the place of downloads."""
    at = 0
    for instruction in official.instructions:
        yield from official.lines[at : instruction.first - 1]
        at = instruction.last
        lines = official.lines[instruction.first - 1 : instruction.last]
        yield from _stand_in(instruction, lines, wanted)
    yield from official.lines[at:]


def _stand_in(
    instruction: Instruction, lines: tuple[str, ...], wanted: tuple[str, list[str]]
) -> Iterator[str]:
    text = "\n".join(lines)
    if instruction.name != "RUN":
        yield text
    elif "conda env create" in text:
        version, pins = wanted
        activate = _ACTIVATE.format(environment=_ENVIRONMENT)
        told = "".join(f"{pin}\n" for pin in pins)
        yield _INSTALL.format(version=version, environment=_ENVIRONMENT, activate=activate, pins=told)
    elif _CLONE.search(text):
        yield f"COPY {_BUNDLE} {_INSIDE}"
        yield _CLONE.sub(rf"\g<1>{_INSIDE}", text)
        yield f"RUN rm -f {_INSIDE}"
    elif "repo.anaconda.com" in text or instruction.rest.startswith("conda "):
        yield "# Left out: conda."
    elif instruction.rest.startswith(("apt ", "apt-get ", "adduser ")):
        body = text.removeprefix("RUN ").rstrip()
        yield f"RUN ( {body} ) || echo 'not done; what the base has is used'"
    else:
        yield text
