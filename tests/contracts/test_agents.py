"""Every agent of this house keeps the agent contract."""

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchyard.agents import catalog, packages
from benchyard.agents.base import Agent
from benchyard.agents.own_agent import InstalledAgent, OwnAgent, OwnAgentConfig, check_kwargs
from benchyard.agents.public_agent import PublicAgent
from benchyard.errors import UsageError
from benchyard.hosts.kits import Kit, Kits
from benchyard.testing.contracts.agent import STATEMENT, AgentContract

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

STAND_IN = """\
#!/bin/sh
set -eu
# What is called afterwards only reads the log.
[ "${1:-} ${2:-}" != "-I -c" ] || exit 0
keep() { echo session > "$1/session.txt"; }
case " $* " in
    *" -i "*) cat "$BENCHYARD_PROMPT_FILE" > prompt.txt ;;
    *minisweagent*) [ -r /run/benchyard/mini-swe-agent.yaml ] && echo in its settings > prompt.txt ;;
    *) cat > prompt.txt ;;
esac
for folder in "${CLAUDE_CONFIG_DIR:+$CLAUDE_CONFIG_DIR/projects}" "${CODEX_HOME:+$CODEX_HOME/sessions}" \\
    "${XDG_DATA_HOME:+$XDG_DATA_HOME/opencode}" "${GOOSE_PATH_ROOT:-}" \\
    "${GEMINI_CLI_HOME:+$GEMINI_CLI_HOME/.gemini/tmp}" \\
    "${MSWEA_GLOBAL_CONFIG_DIR:+$BENCHYARD_LOGS/mini-swe-agent}"; do
    [ -z "$folder" ] || keep "$folder"
done
env | grep -q token-of-the-trial
test -w "$HOME"
printf done > answer.txt
"""
"""In the place of each program: what it was given as the problem, and where it keeps its session."""


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
        config = OwnAgentConfig(name=self.name, run_command=run, kwargs=self.kwargs)
        return OwnAgent(config, InstalledAgent((kit,), (f"{kit.target}/bin",)))

    def refused(self, kwargs: Mapping[str, str]) -> UsageError:
        with pytest.raises(UsageError) as caught:
            check_kwargs(self.name, "run {prompt_file} {effort}", kwargs)
        return caught.value


class PublicContract(AgentContract):
    """One that is published: here with a program in its place that notes how it was called.

    Whether the real one takes such a call well is shown by those that run it against a model.
    """

    program: ClassVar[str]
    prompt: ClassVar[bytes] = STATEMENT.encode()

    async def agent(self, kits: Kits) -> Agent[Any]:
        agent = catalog.make(self.name, self.kwargs)
        assert isinstance(agent, PublicAgent)

        async def fill(folder: Path) -> None:
            place = folder / self.program
            place.parent.mkdir(parents=True)
            place.write_text(STAND_IN)
            place.chmod(0o755)

        kit = Kit(await kits.folder(self.name, fill), f"/opt/benchyard/agents/{self.name}")
        agent.installed = InstalledAgent((kit,))
        return agent

    def __init_subclass__(cls) -> None:
        cls.left = {
            "prompt.txt": cls.prompt,
            f"/logs/agent/{cls.name}/session.txt": b"session\n",
            "answer.txt": b"done",
        }


class TestClaudeCode(PublicContract):
    name = "claude-code"
    program = f"lib/node_modules/@anthropic-ai/claude-code-linux-{packages.machine()}/claude"


class TestCodex(PublicContract):
    name = "codex"
    program = f"lib/node_modules/@openai/codex/vendor/{platform.machine()}-unknown-linux-musl/bin/codex"


class TestOpencode(PublicContract):
    name = "opencode"
    program = f"lib/node_modules/opencode-linux-{packages.machine()}/bin/opencode"


class TestGoose(PublicContract):
    name = "goose"
    program = "lib/node_modules/@aaif/goose-binary-linux-x64/bin/goose"


class TestGeminiCli(PublicContract):
    name = "gemini-cli"
    program = packages.node_program()


class TestMiniSweAgent(PublicContract):
    name = "mini-swe-agent"
    program = "bin/python3"
    prompt = b"in its settings\n"


def test_none_is_left_out() -> None:
    public = (TestClaudeCode, TestCodex, TestOpencode, TestGoose, TestGeminiCli, TestMiniSweAgent)
    tested = {each.name for each in (TestNop, TestOracle, TestCommand, *public)}
    assert set(catalog.names()) == tested
