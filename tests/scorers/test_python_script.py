"""Python scripts: whose Python runs them, what it loads, and the packages they ask for."""

import asyncio
import platform
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability
from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import KitFolders
from benchyard.scorers import catalog
from benchyard.scorers.base import ScoringContext, Verdict
from benchyard.testing.contracts.driver_fixture import DriverFixture, contract
from benchyard.testing.contracts.scorer import GradingCase, GradingSuite
from tests.scorers.bare import InBareImage
from tests.scorers.wheels import use_only, wheel

WHOLE = """
import bz2, ctypes, decimal, hashlib, json, lzma, multiprocessing, sqlite3, ssl, subprocess, sys, uuid, zlib
assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
assert ctypes.CDLL(None).getpid() > 0
assert hashlib.new("sha512", b"x").digest() and ssl.create_default_context()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(abs, [-1]) == [1]
    child = subprocess.run([sys.executable, "-c", "import ssl; print(0.5)"], capture_output=True, text=True)
    print(child.stdout or child.stderr)
"""
ONLY_ITS_OWN = """
import hashlib, os, pwd, sqlite3, ssl, sys
pwd.getpwuid(0)
hashlib.new("sha256")
mapped = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line}
foreign = [path for path in mapped if not path.startswith(sys.base_prefix)]
print(foreign, [path for path in sys.path if not path.startswith(sys.base_prefix)], os.environ["PYTHONPATH"])
print(float(not foreign))
"""
OPENSSL = """openssl_conf = all
[all]
providers = providers
[providers]
legacy = legacy
default = default
[default]
activate = 1
[legacy]
module = /etc/planted.so
activate = 1
"""


def script(text: str, **fields: str) -> GradingCase:
    return GradingCase({"python_script": text, **fields})


class TestBareImage(InBareImage):
    type = "python_script_scorer"

    @contract(Capability.IMAGES)
    async def test_a_whole_python_runs_where_there_is_nothing(self, yard: DriverFixture) -> None:
        (graded,) = await self.grade(yard, script(WHOLE))
        assert isinstance(graded, Verdict), (graded, graded.details)
        assert graded.score == 0.5
        assert graded.facts == {"python": platform.python_version()}


class TestTakesNothingOfTheImage(GradingSuite):
    type = "python_script_scorer"

    @contract(Capability.HOST_VIEW)
    async def test_libraries_of_the_image_are_not_loaded(self, yard: DriverFixture) -> None:
        library = next(path for path in Path("/usr/lib").glob("*/libz.so.1"))
        planted = {
            "/etc/ld.so.preload": str(library),
            "/etc/nsswitch.conf": "passwd: planted files\n",
            "/usr/lib/ssl/openssl.cnf": OPENSSL,
            "/etc/ssl/openssl.cnf": OPENSSL,
            "/usr/bin/python3": "#!/bin/sh\necho 0.1\n",
        }
        environment = {
            "LD_PRELOAD": str(library),
            "LD_LIBRARY_PATH": str(library.parent),
            "PYTHONPATH": "/tmp/task",
            "PYTHONHOME": "/usr",
        }
        case = GradingCase(script(ONLY_ITS_OWN).fields, planted)
        (graded,) = await self.grade(yard, case, environment=environment)
        assert isinstance(graded, Verdict), (graded, graded.details)
        assert graded.output.splitlines() == ["[] [] /tmp/task", "1.0"]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index that the server is configured with: a folder."""
    wheel(
        tmp_path / "index",
        "measured",
        "def main():\n    print(0.25)\nif __name__ == '__main__':\n    main()\n",
    )
    (tmp_path / "index/unbuilt-1.0.tar.gz").write_bytes(b"")
    use_only(tmp_path / "index", monkeypatch)
    return tmp_path / "index"


@pytest.mark.usefixtures("index")
class TestPackages(InBareImage):
    type = "python_script_scorer"

    @contract(Capability.IMAGES)
    async def test_packages_are_there_for_the_script_and_for_what_it_starts(
        self, yard: DriverFixture
    ) -> None:
        head = "# /// script\n# dependencies = ['measured']\n# ///\n"
        starts = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'measured'], check=True)"
        tool = "import os, sys\nos.execv(os.path.dirname(sys.executable) + '/measured-tool', ['tool'])"
        graded = await self.grade(
            yard,
            script("import measured; measured.main()", requirements_contents="measured>=1"),
            script(head + starts),
            script(tool, requirements_contents="measured>=1"),
            script("import measured"),
        )
        assert [each.score for each in graded if isinstance(each, Verdict)] == [0.25] * 3, graded
        assert isinstance(graded[0], Verdict)
        assert graded[0].facts["packages"] == "measured==1.5"
        assert isinstance(graded[3], ScorerFailed)
        assert "No module named 'measured'" in graded[3].message


@pytest.fixture
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those that all tests share: a Python takes seconds to make."""
    return tmp_path_factory.getbasetemp() / "scorer-kits"


def made(root: Path, **fields: str) -> tuple[Path, ...]:
    scorer = catalog.parse("python_script_scorer", {"python_script": "print(1)", **fields}, ScoringContext())
    return tuple(kit.source for kit in asyncio.run(scorer.kits(KitFolders(root))))


def test_environments_are_made_once(kits: Path, index: Path) -> None:
    first = made(kits, requirements_contents="measured>=1.4")
    wheel(index, "other", "")
    (index / "measured-1.5-py3-none-any.whl").unlink()
    assert made(kits, requirements_contents="# the same\nmeasured >=1.4\n") == first
    assert made(kits, requirements_contents="other")[1] != first[1]
    with pytest.raises(ScorerFailed, match="measured"):
        made(kits, requirements_contents="measured>=1.4\nother")


@pytest.mark.parametrize("wanted", ["measured>=2", "no-such-package", "unbuilt"])
def test_packages_that_cannot_be_had_are_named(kits: Path, index: Path, wanted: str) -> None:
    with pytest.raises(ScorerFailed, match=f"cannot be installed.*{wanted}") as caught:
        made(kits, requirements_contents=wanted)
    assert len(caught.value.message) < 5000
    assert list(kits.glob("*.partial")) == []


def test_a_version_that_is_not_there_is_answered_with_those_that_are(kits: Path) -> None:
    with pytest.raises(ScorerFailed) as caught:
        made(kits, python_version_constraint="==3.1.4")
    for part in ("==3.1.4", platform.python_version(), "python_version_constraint", "uv python install"):
        assert part in caught.value.message


def test_the_head_and_the_field_must_both_be_met(kits: Path) -> None:
    head = "# /// script\n# requires-python = '<3'\n# ///\n"
    with pytest.raises(ScorerFailed, match="<3"):
        made(kits, python_script=head, python_version_constraint=">=3.11")
    assert len(made(kits, python_version_constraint=f"=={platform.python_version()}")) == 1
