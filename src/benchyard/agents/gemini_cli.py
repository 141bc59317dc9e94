"""Google's Gemini CLI."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchyard.agents import output_events, packages
from benchyard.agents.base import AgentEnd, Launch, ModelAccess, Task
from benchyard.agents.output_events import Event
from benchyard.agents.packages import Package
from benchyard.agents.public_agent import PublicAgent, TurnLimitConfig

_BUNDLE = f"{packages.MODULES}/@google/gemini-cli/bundle"
_TURN_LIMIT = 53
"""Exit status when the limit of turns was reached."""
_UNNAMED = "it ended with an error without a message"
_COMMAND = """\
mkdir -p "$state/.gemini" && ln -s {native} "$state/.gemini/tmp" &&
printf %s {settings} > "$state/.gemini/settings.json" || exit 1
GEMINI_CLI_HOME="$state" {node} {program} --yolo -m {model} -o stream-json{again} < {prompt}
"""


class GeminiCliAgent(PublicAgent[TurnLimitConfig]):
    """Speaks the dialect of Gemini."""

    name = "gemini-cli"
    Config = TurnLimitConfig
    default_version = "0.61.0"
    can_continue = True
    keys: ClassVar = {"google": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}

    @classmethod
    def package(cls, version: str) -> Package:
        beside = f"{_BUNDLE}/vendor/ripgrep"
        program = f"{beside}/rg-linux-{packages.machine()}"
        # It accepts no other ripgrep than the one in its own folder or one of the system.
        put = f"mkdir -p {beside} && mv {packages.ripgrep_bin()}/rg {program}"
        return Package(
            "npm",
            "@google/gemini-cli",
            version,
            more=(packages.ripgrep(), packages.node()),
            setup=(put,),
            programs=(packages.node_program(),),
        )

    def invocation(self, task: Task, access: ModelAccess) -> Launch:
        command = _COMMAND.format(
            native=self.native(task),
            settings=shlex.quote(json.dumps(self._settings(task))),
            node=self.at(packages.node_program()),
            program=self.at(f"{_BUNDLE}/gemini.js"),
            model=shlex.quote(access.model),
            again=" --resume latest" if task.continues else "",
            prompt=shlex.quote(task.prompt_file),
        )
        env = {
            "GEMINI_API_KEY": access.token,
            "GOOGLE_GEMINI_BASE_URL": access.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            # Otherwise it restarts itself with more memory than a devbox may have.
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }
        return Launch(command, env=env)

    def _settings(self, task: Task) -> dict[str, Any]:
        settings: dict[str, Any] = {
            # With its own variable for a base URL it would choose a kind of login that it then refuses.
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"enableAutoUpdate": False, "maxAttempts": 3},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        }
        if self.config.max_turns:
            settings["model"] = {"maxSessionTurns": self.config.max_turns}
        if not task.is_online:
            settings["tools"] = {"exclude": ["google_web_search", "web_fetch"]}
        return settings

    def trailing(self, stdout_tail: str) -> Mapping[str, str]:
        """Return results by the id on the wire, which lacks the tool name put before it, and by tool name."""
        outputs: dict[str, str] = {}
        names: dict[str, str] = {}
        for event in output_events.events(stdout_tail):
            id, name = event.get("tool_id"), event.get("tool_name")
            if not isinstance(id, str):
                continue
            if event.get("type") == "tool_use" and isinstance(name, str):
                names[id] = name
                # The result of a call under way is unknown: that of an earlier call must not stand for it.
                outputs.pop(name, None)
            elif event.get("type") == "tool_result":
                name = names.get(id, "")
                text = output_events.text_of(event.get("output"))
                outputs |= {key: text for key in (id.removeprefix(f"{name}__"), name) if key}
        return outputs

    def reached_limit(self, ended: AgentEnd, found: Sequence[Event]) -> bool:
        return ended.exit_status == _TURN_LIMIT

    def complaint(self, ended: AgentEnd, found: Sequence[Event]) -> str | None:
        result = output_events.last(found, "result")
        if result is None or result.get("status") != "error":
            return None
        reason = output_events.error_line(result.get("error"))
        # The server's answer comes in brackets; only its message matters.
        return output_events.error_line(reason.removeprefix("[API Error: ").removesuffix("]")) or _UNNAMED
