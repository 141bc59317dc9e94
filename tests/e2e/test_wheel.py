"""The wheel, installed by somebody without the repository: quickstart is scored whole, and an agent works."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.hosts import leaks
from benchyard.scripted_model import RunningModel, solving
from tests.e2e import wheels
from tests.e2e.wheels import Installed

KEY = "sk-of-the-wheel-and-of-nobody-else"
QUICKSTART = 12
AGENT = "codex:gpt-5.5"
"""One whose program is small enough to be fetched in every test run."""
SOLVED = "quickstart/fix-a-bug"
EXTRAS = ("ast_grep_cli", "pyarrow", "asyncssh", "asyncpg", "swebench", "pytest")
_FIND = "import importlib.util, sys; print([each for each in sys.argv[1:] if importlib.util.find_spec(each)])"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The wheel of this tree in an environment of its own; nothing may be left of its server in the end."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = wheels.built(folder / "dist")
    home = folder / "home"
    home.mkdir()
    made = Installed(wheels.install(wheel, folder / "venv"), home)
    with wheels.served(made):
        yield made
    assert leaks.find(made.data) == []


def test_it_is_alone_in_its_environment(installed: Installed) -> None:
    found = installed.run(installed.python, "-c", _FIND, *EXTRAS)
    assert (found.status, found.out.strip()) == (0, "[]"), found
    where = installed.run(installed.python, "-c", "import benchyard; print(benchyard.__file__)")
    assert Path(where.out.strip()).is_relative_to(installed.python.parent.parent), where


def test_missing_dependency_is_reported_before_anything_starts(installed: Installed, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "mount", "umount"):
        found = shutil.which(name)
        assert found
        (programs / name).symlink_to(found)
    lacking = {"PATH": str(programs), "BENCHYARD_DATA": str(tmp_path / "data"), "OPENAI_API_KEY": KEY}
    try:
        doctor = installed.told("doctor", env=lacking)
        less = {each["name"]: each["remedy"] for each in doctor["findings"] if each["verdict"] == "limited"}
        assert {"node", "npm", "git", "dockerfiles", "ast-grep", "asyncssh"} <= less.keys()
        assert "uv" not in less
        listed = installed.benchyard("agent", "list", "-o", "json", env=lacking)
        lacks = {load["name"]: load.get("server_lacks") for load in json.loads(listed.out)}
        assert (lacks["codex"], lacks["mini-swe-agent"]) == (["node", "npm"], None), listed
        run = "job", "run", "--agent", AGENT, "--benchmark", "quickstart"
        refused = installed.benchyard(*run, env=lacking)
        assert (refused.status, less["node"] in refused.err) == (2, True), refused
    finally:
        stopped = installed.benchyard("server", "stop", "--yes", env=lacking)
    assert stopped.status == 0, stopped
    assert leaks.find(tmp_path / "data") == []


def test_an_agent_from_pip_is_installed_by_the_uv_that_came_along(installed: Installed) -> None:
    run = "{agent_dir}/bin/tabulate --help"
    source = "--pip", "tabulate", "--version", "0.9.0"
    installed.told("agent", "register", "from-pip", *source, "--run", run)
    ended = installed.benchyard("agent", "install", "from-pip", env={"PATH": "/usr/bin:/bin"})
    assert ended.status == 0, ended


def test_quickstart_is_scored_whole_and_a_public_agent_solves_some_of_it(installed: Installed) -> None:
    agents = "--agent", "oracle", "--agent", "nop"
    # Scored while the other job fetches its agent.
    installed.told("job", "run", "--benchmark", "quickstart", *agents, "--job-name", "both")
    with RunningModel(solving(), key=KEY) as model:
        public = "--agent", AGENT, "--base-url", model.url, "--scenarios", SOLVED
        ended = installed.benchyard(
            *("job", "run", *public, "--job-name", "public", "--fail-under", "1"),
            env={"OPENAI_API_KEY": KEY},
        )
        assert ended.status == 0, ended
        assert model.ledger.keys() == {KEY}
    watched = installed.benchyard("job", "watch", "both")
    assert watched.status == 0, watched
    outcomes = {
        each["agent_name"]: each for each in installed.told("job", "summary", "both")["benchmark_outcomes"]
    }
    told = {
        name: (each["mean_score"], each["n_completed"], each["unscored"]) for name, each in outcomes.items()
    }
    assert told == {"oracle": (1.0, QUICKSTART, 0), "nop": (0.0, QUICKSTART, 0)}
