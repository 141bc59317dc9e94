"""Every agent of this house keeps the agent contract."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchyard.agents import catalog
from benchyard.agents.base import Agent
from benchyard.agents.registered import Installed, OwnAgent, OwnConfig, check_kwargs
from benchyard.errors import UsageError
from benchyard.hosts.kits import Kit, Kits
from benchyard.testing.agent_contract import STATEMENT, AgentContract

ALL_OF_IT = """\
test "$PWD" = {workdir} && cat > stdin.txt && cat {prompt_file} > file.txt &&
printf %s "$BENCHYARD_PROMPT" > variable.txt && printf %s {model} > model.txt &&
printf %s "$BENCHYARD_MODEL" > model-variable.txt && printf '{"a": {}}' > "$BENCHYARD_TRAJECTORY" &&
echo log > {logs}/log.txt && ! touch {prompt_file} 2>/dev/null
"""
ALL_LEFT: Mapping[str, bytes] = {
    **dict.fromkeys(("stdin.txt", "file.txt", "variable.txt"), STATEMENT.encode()),
    **dict.fromkeys(("model.txt", "model-variable.txt"), b"a model/of 'ours'"),
    "/logs/agent/trajectory.json": b'{"a": {}}',
    "/logs/agent/log.txt": b"log\n",
}


class TestNop(AgentContract):
    name = "nop"


class TestOracle(AgentContract):
    name = "oracle"
    left: ClassVar = {"answer.txt": b"done"}


class TestCommand(AgentContract):
    name = "command"
    kwargs: ClassVar = {"run": ALL_OF_IT}
    left = ALL_LEFT


class TestRegistered(AgentContract):
    """One that was registered: a program in its own folder, which comes first in PATH."""

    name = "mine"
    kwargs: ClassVar = {"effort": "very 'high'"}
    left: ClassVar = {**ALL_LEFT, "who.txt": b"mine /opt/benchyard/agents/agt_1 very 'high'\n"}

    async def agent(self, kits: Kits) -> Agent[Any]:
        async def fill(folder: Path) -> None:
            (folder / "bin").mkdir()
            # In the place of a program that every system has.
            (folder / "bin" / "cal").write_text('#!/bin/sh\necho mine "$@"\n')
            (folder / "bin" / "cal").chmod(0o755)

        kit = Kit(await kits.folder("contract", fill), "/opt/benchyard/agents/agt_1")
        run = ALL_OF_IT + 'cal "$BENCHYARD_AGENT_DIR" {effort} > who.txt && test -x {agent_dir}/bin/cal\n'
        config = OwnConfig(name=self.name, run_command=run, kwargs=self.kwargs)
        return OwnAgent(config, Installed((kit,), (f"{kit.target}/bin",)))

    def refused(self, kwargs: Mapping[str, str]) -> UsageError:
        with pytest.raises(UsageError) as caught:
            check_kwargs(self.name, "run {prompt_file} {effort}", kwargs)
        return caught.value


def test_none_is_left_out() -> None:
    tested = {each.name for each in (TestNop, TestOracle, TestCommand)}
    assert set(catalog.names()) == tested
