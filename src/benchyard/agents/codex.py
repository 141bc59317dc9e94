"""OpenAI's Codex."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from benchyard.agents import output_events, packages
from benchyard.agents.base import AgentEnd, Launch, ModelAccess, Task
from benchyard.agents.output_events import Event
from benchyard.agents.packages import Package
from benchyard.agents.public_agent import PublicAgent, PublicConfig

_KEY = "OPENAI_API_KEY"
_TREES = {"x64": "x86_64-unknown-linux-musl", "arm64": "aarch64-unknown-linux-musl"}
_COMMAND = """\
mkdir -p "$state/codex" && ln -s {native} "$state/codex/sessions"
CODEX_HOME="$state/codex" {program} exec --json --skip-git-repo-check \
--dangerously-bypass-approvals-and-sandbox --disable plugins -m {model} {settings}{again} - < {prompt}
status=$?
cat {native}/*/*/*/rollout-*.jsonl 2>/dev/null | grep -F '_call_output"' | tail -n 4 | tail -c {most}
exit $status
"""
_MOST_RESULTS_BYTES = 24_000
"""Limit on these results, so that the stream's last event stays within the stored end of the output."""
_RESULTS = ("function_call_output", "custom_tool_call_output")


class CodexAgent(PublicAgent[PublicConfig]):
    """Speaks the dialect of OpenAI's Responses. The number of its turns cannot be limited."""

    name = "codex"
    Config = PublicConfig
    default_version = "0.166.0"
    can_continue = True
    keys: ClassVar = {"openai": (_KEY,)}

    @classmethod
    def package(cls, version: str) -> Package:
        # Its programs need no C library, and find each other in their own folder.
        return Package("npm", "@openai/codex", f"{version}-linux-{packages.machine()}")

    def invocation(self, task: Task, access: ModelAccess) -> Launch:
        tree = f"{packages.MODULES}/@openai/codex/vendor/{_TREES[packages.machine()]}"
        command = _COMMAND.format(
            native=self.native(task),
            program=self.at(f"{tree}/bin/codex"),
            model=shlex.quote(access.model),
            settings=" ".join(f"-c {shlex.quote(setting)}" for setting in _settings(task, access)),
            again=" resume --last" if task.continues else "",
            prompt=shlex.quote(task.prompt_file),
            most=_MOST_RESULTS_BYTES,
        )
        return Launch(command, env={_KEY: access.token})

    def complaint(self, ended: AgentEnd, found: Sequence[Event]) -> str | None:
        turn = output_events.last(found, "turn.failed", "turn.completed")
        if turn is None or turn.get("type") != "turn.failed":
            return None
        return output_events.error_line(turn.get("error")) or "its turn failed"

    def trailing(self, stdout_tail: str) -> Mapping[str, str]:
        """Return results from its own log, printed at its end: its stream has no ids of calls."""
        outputs = {}
        for event in output_events.events(stdout_tail):
            id = output_events.dig(event, "payload", "call_id")
            if isinstance(id, str) and output_events.dig(event, "payload", "type") in _RESULTS:
                outputs[id] = output_events.text_of(output_events.dig(event, "payload", "output"))
        return outputs


def _settings(task: Task, access: ModelAccess) -> list[str]:
    """Return settings for a provider of our own: the built-in one tries web sockets and another key first."""
    provider = {
        "name": '"gateway"',
        "base_url": json.dumps(f"{access.url}/v1"),
        "env_key": json.dumps(_KEY),
        "wire_api": '"responses"',
        "supports_websockets": "false",
        "request_max_retries": "2",
        "stream_max_retries": "2",
    }
    table = ",".join(f"{name}={value}" for name, value in provider.items())
    settings = ["model_provider=gateway", "analytics.enabled=false", f"model_providers.gateway={{{table}}}"]
    return settings if task.is_online else [*settings, 'web_search="disabled"']
