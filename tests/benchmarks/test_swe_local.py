"""The environment that stands in for conda's, made of a real Python and real packages of the index."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchyard.benchmarks.swe_bench import local_images
from benchyard.engine.images import stand_ins

CONDA = """\
iniconfig==1.1.1
no-such-package-anywhere==1.0
packaging==24.1
pip==24.2
pytest==7.4.4
"""
PIP = "exceptiongroup==1.2.0\npluggy==1.5.0\ntomli==2.0.1\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that is nobody else's, as it lies in a base image."""
    folder = tmp_path_factory.mktemp("base")
    for minor in ("3.9", "3.10", "3.11", "3.12"):
        if python := asyncio.run(stand_ins.find_python(minor)):
            stand_ins.write_python(python, folder)
            # What the base has of its own is not what the tests are to find.
            (_packages(folder) / "iniconfig.py").write_text("is_of_base = True\n")
            (_packages(folder) / "only_of_base.py").touch()
            # Nothing is installed on this machine.
            (folder / "bin/apt-get").symlink_to("/bin/false")
            return folder
    pytest.skip("there is no Python here that can be moved: install one with `uv python install 3.11`")


def _packages(base: Path) -> Path:
    (folder,) = base.glob("lib/python3*/site-packages")
    return folder


def _minor(base: Path) -> str:
    return _packages(base).parent.name.removeprefix("python")


def _made(base: Path, folder: Path, wanted: str, conda: str, pip: str = "") -> str:
    """Make the environment, and return what was told."""
    files = folder / "testbed"
    files.mkdir()
    (files / "conda.txt").write_text(conda)
    (files / "pip.txt").write_text(pip)
    shutil.copyfile(Path(local_images.__file__).with_suffix(".sh"), files / "make.sh")
    command = ["bash", str(files / "make.sh"), wanted, str(folder / "conda")]
    told = subprocess.run(command, env=_env(base), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-4000:]
    return told.stdout


def _env(base: Path) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    return {**kept, "PATH": f"{base / 'bin'}:/usr/bin:/bin"}


def _said(base: Path, *command: str | Path) -> str:
    words = [str(each) for each in command]
    told = subprocess.run(words, env=_env(base), cwd=base, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return told.stdout.strip()


def test_conda_and_pip_packages_are_found_through_a_link(base: Path, tmp_path: Path) -> None:
    told = _made(base, tmp_path, _minor(base), CONDA, PIP)
    _, _, different = told.partition("not as officially:\n")
    assert different.splitlines() == ["no-such-package-anywhere: not 1.0"]

    activate = f"source {tmp_path}/conda/bin/activate && conda activate testbed && "
    listed = _said(base, "bash", "-c", f"{activate} python -m pip list --format freeze").splitlines()
    assert {"packaging==24.1", "pip==24.2", "pluggy==1.5.0", "pytest==7.4.4"} <= set(listed)

    # `tox --current-env` has such a link in .tox, and runs the tests by it.
    link = tmp_path / "linked"
    link.symlink_to(tmp_path / "conda/envs/testbed/bin/python")
    assert _said(base, link, "-m", "pytest", "--version") == "pytest 7.4.4"
    assert _said(base, link, "-c", "import iniconfig; print(hasattr(iniconfig, 'is_of_base'))") == "False"

    # For all others the base's Python is as it was.
    python = base / "bin/python3"
    assert _said(base, python, "-c", "import iniconfig; print(iniconfig.is_of_base)") == "True"
    other = tmp_path / "other"
    other.symlink_to(python)
    looked = "import importlib.util as u, only_of_base; print(u.find_spec('pytest'))"
    assert _said(base, other, "-c", looked) == "None"


def test_the_nearest_newer_python_is_taken_and_later_releases(base: Path, tmp_path: Path) -> None:
    """As numpy 1.19.2, which conda has for a Python that the index has 1.19.3 for."""
    told = _made(base, tmp_path, "3.4", "pip==9.0.1\npytz==2021.0\n")
    _, _, different = told.partition("not as officially:\n")
    assert different.splitlines() == [
        f"Python {_minor(base)} instead of 3.4",
        "pytz: a later release than 2021.0",
    ]
    python = tmp_path / "conda/envs/testbed/bin/python"
    listed = _said(base, python, "-m", "pip", "list", "--format=freeze").splitlines()
    assert "pytz==2021.3" in listed
    # That version does not run in this Python: its own is kept.
    assert "pip==9.0.1" not in listed


def test_a_base_whose_python_makes_no_environments_with_pip(base: Path, tmp_path: Path) -> None:
    """As Debian's and Ubuntu's without python3-venv: pip comes by way of the base's own."""
    other = tmp_path / "base"
    shutil.copytree(base, other, symlinks=True)
    _said(other, other / "bin/python3", "-m", "ensurepip")
    shutil.rmtree(_packages(other).parent / "ensurepip")
    told = _made(other, tmp_path, _minor(other), "")
    assert "not as officially" not in told
    python = tmp_path / "conda/envs/testbed/bin/python"
    assert str(tmp_path / "conda/envs/testbed/lib") in _said(other, python, "-m", "pip", "--version")
    assert _said(other, python, "-c", "import setuptools, wheel; print('there')") == "there"
