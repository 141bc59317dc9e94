"""The native driver keeps its contract for ordinary users: the same suite, run by a user made for it.

`make test` runs, for users with a range of ids, what is tried of every driver, and the other suites whole;
for those with one id the escapes and the lease. `make contracts` runs everything for both.
"""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.testing.contracts.driver import DriverContract
from tests.tiers import CORE_CONTRACTS

PYTHON = "/usr/bin/python3"
REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")
CLIENT_PACKAGES = ("httpx", "httpcore", "h11", "anyio", "certifi", "idna", "sniffio")
"""What the container driver speaks to its engine with: its module is looked at, though it is not run."""

CORE = sorted(
    name
    for contract in DriverContract.__mro__
    if contract.__name__ in CORE_CONTRACTS
    for name in vars(contract)
    if name.startswith("test_")
)
RUNS = [
    pytest.param("test_drivers", "rootless-range", CORE, id="core of test_drivers-rootless-range"),
    *(
        pytest.param(suite, "rootless-range", [], id=f"{suite}-rootless-range")
        for suite in ("test_containment", "test_escape", "test_lease")
    ),
    *(
        pytest.param(suite, "rootless-single", [], id=f"{suite}-rootless-single")
        for suite in ("test_escape", "test_lease")
    ),
    *(
        pytest.param(suite, mode, [], id=f"{suite}-{mode}", marks=pytest.mark.slow)
        for suite, mode in (
            ("test_drivers", "rootless-range"),
            ("test_drivers", "rootless-single"),
            ("test_containment", "rootless-single"),
        )
    ),
]


def _missing() -> str | None:
    if os.getuid() != 0:
        return "only root can make a user; the plain contract tests cover the user who runs them"
    for program in ("useradd", "newuidmap", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    probe = subprocess.run([PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False)
    return f"{PYTHON} is older than 3.11" if probe.returncode else None


@pytest.fixture(scope="module")
def user() -> Iterator[str]:
    reason = _missing()
    if reason:
        pytest.skip(reason)
    name = f"yard{os.getpid()}"
    subprocess.run(["useradd", "--create-home", "--home-dir", f"/var/tmp/{name}", name], check=True)
    subprocess.run(
        ["usermod", "--add-subuids", "300000-365535", "--add-subgids", "300000-365535", name], check=True
    )
    yield name
    subprocess.run(["pkill", "-KILL", "-u", name], check=False)
    subprocess.run(["userdel", "--force", name], check=True, capture_output=True)
    shutil.rmtree(f"/var/tmp/{name}")


@pytest.fixture(scope="module")
def checkout(user: str) -> Path:
    """A copy of the code that the user may read, wherever the original lies."""
    target = Path(f"/var/tmp/{user}/code")
    site = Path(sysconfig.get_path("purelib"))
    shutil.copytree(REPOSITORY / "src", target, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPOSITORY / "tests/contracts", target / "contracts")
    for name in (*PACKAGES, *CLIENT_PACKAGES):
        if (site / name).is_dir():
            shutil.copytree(site / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("py.py", "typing_extensions.py"):
        shutil.copy(site / name, target)
    (target / "pytest.ini").write_text("[pytest]\n")
    return target


@pytest.mark.parametrize(("suite", "mode", "some"), RUNS)
def test_the_contract_holds_without_root(
    user: str, checkout: Path, suite: str, mode: str, some: list[str]
) -> None:
    environment = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": f"/var/tmp/{user}",
        "PYTHONPATH": str(checkout),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
    command = [
        PYTHON,
        "-m",
        "pytest",
        "-q",
        "-ra",
        "-p",
        "no:cacheprovider",
        "-c",
        str(checkout / "pytest.ini"),
    ]
    chosen = f"native-{mode}" + (f" and ({' or '.join(some)})" if some else "")
    # A short path, because addresses of sockets are.
    temporary = f"--basetemp=/var/tmp/{user}/{suite[5:8]}-{mode}{'c' if some else ''}"
    run = subprocess.run(
        [*drop, *command, temporary, f"contracts/{suite}.py", "-k", chosen],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
