"""SWE-bench Verified without its images: items of whole projects.

The rows are real; only their commit is another, that of a repository which is made here of published sources:
the nearest release, with the item's own change and tests taken back.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchyard.client import Client, Server
from benchyard.client.benchmark_files import benchmark_import
from benchyard.client.benchmark_files.benchmark_import import BenchmarkImport
from benchyard.testing.server import RunningServer
from tests import parity, stand_ins
from tests.benchmarks.executing import both
from tests.benchmarks.samples.finding import sample

pytestmark = pytest.mark.slow
NAME = "swe-bench-verified"
BASE = "ubuntu:jammy"
_PATIENCE_SECONDS = 1800.0
_FETCHING = ("pip==24.2", "setuptools==75.1.0", "wheel==0.44.0")
_OLDER_PYTHON = """\
import collections, collections.abc
for name in ("Mapping", "MutableMapping"):
    setattr(collections, name, getattr(collections.abc, name))
"""
"""What setup.py of old projects needs so that its metadata can be read."""

Row = dict[str, Any]


def _requests_before(repository: Path, row: Row) -> None:
    """Take back in 1.2.0 what it has of the item; around it that release is not as the commit was."""
    models = repository / "requests/models.py"
    start, end = "    def prepare_content_length", "    def prepare_auth"
    hunk = row["patch"].partition(" @@")[2].splitlines()[1:]
    before = "".join(f"{line[1:]}\n" for line in hunk if not line.startswith("+"))
    text = models.read_text()
    old = before[before.index(start) : before.index(end)]
    models.write_text(text[: text.index(start)] + old + text[text.index(end) :])
    tests = repository / "test_requests.py"
    text = tests.read_text()
    first, following = "    def test_no_content_length", "    def test_path_is_not_double_encoded"
    tests.write_text(f"{text[: text.index(first)]}\n{text[text.index(following) :]}")
    row["patch"] = row["patch"].replace(f"{end}(self, auth):", f"{end}(self, auth, url=''):")


def _before(repository: Path, row: Row) -> None:
    for each in ("patch", "test_patch"):
        _run(repository, "git", "apply", "-R", "--verbose", given=row[each])


@dataclass(frozen=True)
class Project:
    """An item, and the release that its repository is made of."""

    item: str
    release: str
    take_back: Callable[[Path, Row], None] = _before


PROJECTS = (
    Project("psf__requests-1142", "requests==1.2.0", _requests_before),
    Project("sphinx-doc__sphinx-10466", "sphinx==5.0.0"),
)


def _run(folder: Path, *command: str, given: str | None = None, env: dict[str, str] | None = None) -> str:
    told = subprocess.run(
        command,
        cwd=folder,
        input=given,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, (command, told.stdout[-2000:], told.stderr[-2000:])
    return told.stdout.strip()


def _unpacked(release: str, folder: Path) -> Path:
    """What a project has published of a release."""
    (folder / "older").mkdir(parents=True)
    (folder / "older/sitecustomize.py").write_text(_OLDER_PYTHON)
    _run(folder, sys.executable, "-m", "venv", "fetching")
    python = str(folder / "fetching/bin/python")
    _run(folder, python, "-m", "pip", "install", *_FETCHING)
    fetch = ("-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation")
    _run(folder, python, *fetch, release, env={"PYTHONPATH": str(folder / "older")})
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder / "unpacked", filter="data")
    (found,) = (folder / "unpacked").iterdir()
    return found


def _commit(repository: Path, when: str, message: str) -> str:
    dates = {f"GIT_{who}_DATE": when for who in ("AUTHOR", "COMMITTER")}
    names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    _run(repository, "git", "add", "--all", "--force")
    _run(repository, "git", *names, "commit", "--quiet", "-m", message, env=dates)
    return _run(repository, "git", "rev-parse", "HEAD")


def _made(project: Project, folder: Path) -> Path:
    """Write the data that is imported: the row, and the repository with the solution after the base."""
    lines = sample("swe-bench-verified/verified-sample.jsonl").read_text().splitlines()
    (row,) = [found for line in lines if (found := json.loads(line))["instance_id"] == project.item]
    repository = _unpacked(project.release, folder)
    for each in repository.glob("*.egg-info"):
        shutil.rmtree(each)
    _run(repository, "git", "init", "--quiet", "--initial-branch", "main")
    project.take_back(repository, row)
    base = _commit(repository, row["created_at"], "as it was")
    for patch in ("patch", "test_patch"):
        _run(repository, "git", "apply", "--verbose", given=row[patch])
    _commit(repository, "2024-01-01T00:00:00Z", "solved")
    data = folder / "data"
    (data / "repositories").mkdir(parents=True)
    bundle = data / "repositories" / f"{row['repo'].replace('/', '__')}.bundle"
    _run(repository, "git", "bundle", "create", str(bundle), "--all")
    (data / "rows.jsonl").write_text(re.sub(row["base_commit"], base, json.dumps(row)) + "\n")
    return data


@pytest.mark.parametrize("project", PROJECTS, ids=[each.item for each in PROJECTS])
def test_the_gold_patch_resolves_it_and_nothing_does_not(
    project: Project, server: RunningServer, tmp_path: Path
) -> None:
    data = _made(project, tmp_path)
    with Client(Server(server.url, server.key)) as client:
        stand_ins.provide(client, BASE)
        made = benchmark_import.import_benchmark(
            client, BenchmarkImport(NAME, name=project.item, local=data, variant="local")
        )
        assert made.broken == []
        oracle, nop = both(client, made, _PATIENCE_SECONDS)
    assert list(oracle.values()) == [1.0]
    assert list(nop.values()) == [0.0]
    parity.note(f"{NAME}, of published sources", [project.item], len(PROJECTS))
