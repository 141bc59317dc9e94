"""OpenCode, which speaks with every provider."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchyard.agents import output_events, packages
from benchyard.agents.base import AgentEnd, Launch, ModelAccess, Task
from benchyard.agents.output_events import Event
from benchyard.agents.packages import Package
from benchyard.agents.public_agent import PublicAgent, TurnLimitConfig

_TOKEN = "BENCHYARD_TOKEN"  # noqa: S105  (a variable's name)
_OTHER = "gateway"
"""Name of the server's own upstreams for opencode: their real name might be that of a provider it knows."""
_ROOTS = {"anthropic": "v1", "openai": "v1", "google": "v1beta"}
_OFF = (
    *("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_DEFAULT_PLUGINS"),
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
)
_COMMAND = """\
export XDG_DATA_HOME="$state/data" XDG_CONFIG_HOME="$state/config" XDG_CACHE_HOME="$state/cache" \
XDG_STATE_HOME="$state/state"
mkdir -p "$XDG_DATA_HOME" && ln -s {native} "$XDG_DATA_HOME/opencode"
PATH="$PATH":{ripgrep} {program} run --pure --auto {again} --format json -m {model} < {prompt}
"""


class OpencodeAgent(PublicAgent[TurnLimitConfig]):
    """Speaks the dialect of its model's provider. Its limit of turns is only a hint to its model."""

    name = "opencode"
    Config = TurnLimitConfig
    default_version = "1.18.33"
    can_continue = True
    keys: ClassVar = {
        "anthropic": ("ANTHROPIC_API_KEY",),
        "openai": ("OPENAI_API_KEY",),
        "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    }

    @classmethod
    def package(cls, version: str) -> Package:
        name = f"opencode-linux-{packages.machine()}"
        programs = (f"{packages.MODULES}/{name}/bin/opencode",)
        return Package("npm", name, version, more=(packages.ripgrep(),), programs=programs)

    def invocation(self, task: Task, access: ModelAccess) -> Launch:
        provider = access.provider if access.provider in _ROOTS else _OTHER
        model = f"{provider}/{access.model}"
        command = _COMMAND.format(
            native=self.native(task),
            ripgrep=self.at(packages.ripgrep_bin()),
            program=self.at(f"{packages.MODULES}/opencode-linux-{packages.machine()}/bin/opencode"),
            model=shlex.quote(model),
            again="--continue" if task.continues else "--title benchyard",
            prompt=shlex.quote(task.prompt_file),
        )
        settings: dict[str, Any] = {
            "model": model,
            "small_model": model,
            "autoupdate": False,
            "share": "disabled",
            # Snapshots copy the working directory and would fill its logs.
            "snapshot": False,
            "permission": "allow",
            "provider": {provider: _provider(access)},
        }
        if self.config.max_turns:
            settings["agent"] = {"build": {"steps": self.config.max_turns}}
        env = {
            _TOKEN: access.token,
            "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
            **dict.fromkeys(_OFF, "1"),
        }
        return Launch(command, env=env)

    def complaint(self, ended: AgentEnd, found: Sequence[Event]) -> str | None:
        event = output_events.last(found, "error", "step_finish")
        if event is None or event.get("type") != "error":
            return None
        return output_events.error_line(event.get("error")) or "it ended with an error without a message"

    def trailing(self, stdout_tail: str) -> Mapping[str, str]:
        outputs = {}
        for event in output_events.events(stdout_tail):
            id = output_events.dig(event, "part", "callID")
            if event.get("type") == "tool_use" and isinstance(id, str):
                outputs[id] = output_events.text_of(output_events.dig(event, "part", "state", "output"))
        return outputs


def _provider(access: ModelAccess) -> dict[str, Any]:
    root = _ROOTS.get(access.provider, "v1")
    provider: dict[str, Any] = {
        "options": {"baseURL": f"{access.url}/{root}", "apiKey": f"{{env:{_TOKEN}}}"},
        # It uses an unknown model as it is.
        "models": {access.model: {}},
    }
    if access.provider not in _ROOTS:
        provider["npm"] = "@ai-sdk/openai-compatible"
    return provider
