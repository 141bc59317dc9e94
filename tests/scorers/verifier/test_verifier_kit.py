"""The verifier kit in rooms: test scripts run without a network, and without anything of the image."""

import asyncio
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchyard.devboxes.base import Capability
from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, KitFolders
from benchyard.scorers.base import ProgramOptions
from benchyard.scorers.verifier import verifier_kit, wheel_kit
from benchyard.scorers.verifier.verifier_kit import ScriptNeeds, needs_of
from benchyard.testing.contracts.driver_fixture import DriverFixture, contract
from benchyard.testing.contracts.scorer import ScoringRoom, devbox_with, kits_of
from tests.scorers.bare import InBareImage
from tests.scorers.wheels import served, source, use_only, wheel

MINOR = platform.python_version().rpartition(".")[0]
JUDGE = """
import os, sys
def main():
    print("judged by", sys.version.split()[0], sys.argv[1:], os.environ["PATH"].split(":")[0])
    raise SystemExit(0 if open("answer").read() == "yes" else 1)
"""
INSTALL = """
apt-get update
apt-get install -y curl
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
source $HOME/.local/bin/env
"""
REWARD = "if [ $? -eq 0 ]; then echo 1; else echo 0; fi > reward.txt\n"
USUAL = f"{INSTALL}uvx -p {MINOR} -w beside==1.5 judge==1.5 --ctrf x -p y\n{REWARD}".replace(
    "judge==", "judge@"
)
PROJECT = (
    f"{INSTALL}uv init checks\nuv add --project checks judge==1.5\nuv run --project checks judge\n{REWARD}"
)
VENV = f"{INSTALL}uv venv -p {MINOR} v\nsource v/bin/activate\nuv pip install judge==1.5\njudge\n{REWARD}"
PLANTED = {
    **dict.fromkeys(("uvx", "uv", "judge", "curl", "apt-get", "sh"), "#!/bin/sh\nexit 0\n"),
    **dict.fromkeys(
        ("uv.toml", "pyproject.toml", "pip.conf", ".local/bin/env/x", ".config/uv/uv.toml"), "{{{"
    ),
}
INSTALLED = (
    "Package: there\nStatus: install ok installed\n\nPackage: gone\nStatus: deinstall ok config-files\n"
)


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index that the server is configured with: a folder."""
    wheel(tmp_path / "index", "judge", JUDGE)
    wheel(tmp_path / "index", "beside", "")
    use_only(tmp_path / "index", monkeypatch)
    # Of the Pythons of this machine few are enough: a kit of each would have to be made.
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path))
    return tmp_path / "index"


class TestInBareImage(InBareImage):
    type = "command_scorer"

    async def ran(
        self, yard: DriverFixture, made: Sequence[Kit], script: str, *cases: dict[str, str]
    ) -> list[tuple[str, str]]:
        """What a script writes as the reward, and all it says, with each of these files in turn."""
        room = ScoringRoom(yard, await devbox_with(yard, made))
        env = {**verifier_kit.environment(made), "HOME": "/tmp/task"}
        command = verifier_kit.command(made, "/tests/test.sh")
        how = ProgramOptions(env=env, cwd="/tmp/task")
        found = []
        for files in cases:
            for path, content in {"/tests/test.sh": script, "/tmp/task/.here": "", **files}.items():
                await room.put(path if path.startswith("/") else f"/tmp/task/{path}", content.encode())
            ran = await room.run(command, how)
            told = await room.run((command[0], "-c", 'echo "$(<reward.txt)"'), how)
            found.append((told.stdout.decode().strip(), (ran.stdout + ran.stderr).decode()))
        return found

    @contract(Capability.IMAGES)
    async def test_scripts_run_where_there_is_nothing(self, yard: DriverFixture) -> None:
        for script in (USUAL, PROJECT, VENV):
            made = await verifier_kit.make(needs_of(script), kits_of(yard))
            good, bad = await self.ran(yard, made, script, {"answer": "yes"}, {"answer": "no"})
            assert good[0] == "1", good[1]
            assert f"judged by {MINOR}" in good[1]
            assert bad[0] == "0", bad[1]

    @contract(Capability.IMAGES)
    async def test_planted_programs_are_not_used(self, yard: DriverFixture) -> None:
        made = await verifier_kit.make(needs_of(USUAL), kits_of(yard))
        script = f"PATH=$PATH:/tmp/task\n{USUAL}"
        ((reward, said),) = await self.ran(yard, made, script, {"answer": "no", **PLANTED})
        assert reward == "0", said
        assert "judged by" in said

    @contract(Capability.IMAGES)
    async def test_packages_that_come_as_source_are_built_there(self, yard: DriverFixture) -> None:
        script = f"uvx -p {MINOR} -w sourced==1.5 --from judge==1.5 python -c 'import sourced'\n"
        with (
            TemporaryDirectory() as folder,
            pytest.MonkeyPatch.context() as patch,
        ):
            wheel(Path(folder), "judge", JUDGE)
            wheel(Path(folder), "beside", "")
            source(Path(folder), "sourced", "import judge; print('built', judge.main)")
            for name in ("UV_NO_INDEX", "UV_OFFLINE", "UV_FIND_LINKS"):
                patch.delenv(name)
            with served(Path(folder)) as address:
                patch.setenv("UV_DEFAULT_INDEX", address)
                made = await verifier_kit.make(needs_of(script), kits_of(yard))
        ((_, said),) = await self.ran(yard, made, script, {})
        assert "built <function main" in said, said
        assert verifier_kit.facts(made)["packages"] == "beside==1.5 judge==1.5 sourced==1.5"

    @contract(Capability.IMAGES)
    async def test_another_python_is_used_and_reported(self, yard: DriverFixture) -> None:
        script = USUAL.replace(f"-p {MINOR}", "-p 3.99")
        made = await verifier_kit.make(needs_of(script), kits_of(yard))
        ((reward, said),) = await self.ran(yard, made, script, {"answer": "yes"})
        told = verifier_kit.facts(made)
        assert reward == "1", said
        assert told["python_asked"] == "3.99"
        assert f"judged by {told['python']}" in said
        assert told["packages"] == "beside==1.5 judge==1.5"

    @contract(Capability.IMAGES)
    async def test_programs_missing_in_the_kit_come_from_the_image_or_are_named(
        self, yard: DriverFixture
    ) -> None:
        script = """
apt-get install -y there && echo "1: $?"
apt-get -qq install -y -o X=y there gone; echo "2: $?"
curl -fsSL https://astral.sh/uv/install.sh -o install.sh && sh install.sh && ~/.local/bin/uv --version
wget -qO- https://astral.sh/uv/install.sh | sh && uv --version
if curl -s file:///tmp/task/answer; then echo; fi
"""
        made = await verifier_kit.make(ScriptNeeds(), kits_of(yard))
        files = {"/var/lib/dpkg/status": INSTALLED, "answer": "fetched"}
        ((_, said),) = await self.ran(yard, made, script, files)
        lines = said.splitlines()
        assert {"1: 0", "2: 100"} <= set(lines), lines
        assert any(
            "could not be installed: gone. Add them to environment/Dockerfile" in line for line in lines
        )
        assert len([line for line in lines if line.startswith("uv 0.") or line.startswith("uv 1.")]) == 2
        assert ("fetched" in lines) == (shutil.which("curl") is not None)


def test_wheels_are_fetched_once_and_then_need_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kits = KitFolders(tmp_path / "kits")

    async def make(script: str) -> Kit:
        return await wheel_kit.make(needs_of(script), platform.python_version(), kits)

    first = asyncio.run(make("pip install judge==1.5"))
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "empty"))
    assert asyncio.run(make("pip install judge==1.5")) == first
    assert [path.name for path in (first.source / "wheels").iterdir()] == ["judge-1.5-py3-none-any.whl"]
    with pytest.raises(ScorerFailed, match=r"(?s)beside==1\.5.*UV_DEFAULT_INDEX"):
        asyncio.run(make(f"uvx -p {MINOR} beside@1.5"))
