"""Anthropic's Claude Code."""

import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from benchyard.agents import output_events, packages
from benchyard.agents.base import AgentEnd, Launch, ModelAccess, Task
from benchyard.agents.output_events import Event
from benchyard.agents.packages import Package
from benchyard.agents.public_agent import PublicAgent, TurnLimitConfig

OAUTH = "CLAUDE_CODE_OAUTH_TOKEN"
"""Variable for a subscription's token: the agent itself then names the kind of the token to the provider."""

_KEY = "ANTHROPIC_API_KEY"
_MODELS = (
    *("ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"),
    *("ANTHROPIC_SMALL_FAST_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL"),
)
"""Variables by which it would choose further models: all are set to the given model."""
_COMMAND = """\
mkdir -p "$state/config" && ln -s {native} "$state/config/projects"
CLAUDE_CONFIG_DIR="$state/config" {program} -p --verbose --output-format stream-json \
--permission-mode bypassPermissions --model {model}{turns}{tools}{again} < {prompt}
"""


class ClaudeCodeAgent(PublicAgent[TurnLimitConfig]):
    """Speaks the dialect of Anthropic."""

    name = "claude-code"
    Config = TurnLimitConfig
    default_version = "2.1.325"
    can_continue = True
    keys: ClassVar = {"anthropic": (_KEY, OAUTH)}

    @classmethod
    def package(cls, version: str) -> Package:
        name = f"@anthropic-ai/claude-code-linux-{packages.machine()}"
        return Package("npm", name, version, programs=(f"{packages.MODULES}/{name}/claude",))

    def invocation(self, task: Task, access: ModelAccess) -> Launch:
        turns = self.config.max_turns
        command = _COMMAND.format(
            native=self.native(task),
            program=self.at(
                f"{packages.MODULES}/@anthropic-ai/claude-code-linux-{packages.machine()}/claude"
            ),
            model=shlex.quote(access.model),
            turns=f" --max-turns {turns}" if turns else "",
            again=" --continue" if task.continues else "",
            tools="" if task.is_online else " --disallowedTools WebSearch WebFetch",
            prompt=shlex.quote(task.prompt_file),
        )
        return Launch(command, env=_environment(access))

    def reached_limit(self, ended: AgentEnd, found: Sequence[Event]) -> bool:
        return output_events.dig(output_events.last(found, "result"), "subtype") == "error_max_turns"

    def complaint(self, ended: AgentEnd, found: Sequence[Event]) -> str | None:
        result = output_events.last(found, "result")
        if result is None or result.get("is_error") is not True:
            return None
        return output_events.error_line(result.get("result")) or "it ended with an error without a message"

    def trailing(self, stdout_tail: str) -> Mapping[str, str]:
        outputs = {}
        for event in output_events.events(stdout_tail):
            for part in output_events.parts(event, "message", "content"):
                id = part.get("tool_use_id")
                if part.get("type") == "tool_result" and isinstance(id, str):
                    outputs[id] = output_events.text_of(part.get("content"))
        return outputs


def _environment(access: ModelAccess) -> dict[str, str]:
    env = {
        "ANTHROPIC_BASE_URL": access.url,
        OAUTH if access.variable == OAUTH else _KEY: access.token,
        # As root, it refuses to work without questions unless this variable declares a sandbox.
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        **dict.fromkeys(_MODELS, access.model),
    }
    if access.provider != "anthropic":
        env["CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS"] = "1"
    return env
