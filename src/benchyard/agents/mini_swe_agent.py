"""mini-SWE-agent: a small agent with one tool, a shell."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchyard.agents import output_events
from benchyard.agents.base import AgentEnd, Launch, ModelAccess, Task
from benchyard.agents.output_events import Event
from benchyard.agents.packages import Package
from benchyard.agents.public_agent import PublicAgent, TurnLimitConfig

_SETTINGS = "/run/benchyard/mini-swe-agent.yaml"
_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_LACKING = ("mcp", "orjson", "fastapi")
"""Packages that its packages import without requiring them."""
_TRAJECTORY = "trajectory.json"
_COMMAND = """\
MSWEA_GLOBAL_CONFIG_DIR="$state" {python} -I -m minisweagent.run.mini --exit-immediately \
-c mini.yaml -c {settings} -o {native}/{trajectory} < /dev/null
status=$?
{python} -I -c {telling} {native}/{trajectory}
exit $status
"""
_EXIT = "exit"
_TELLING = """\
import json, sys
try:
    *_, said, left = json.load(open(sys.argv[1]))["messages"]
    if left["role"] == "exit" and said.get("tool_calls"):
        id, told = said["tool_calls"][-1]["id"], str(left["content"])[:16000]
        print(json.dumps({"type": "exit", "tool_call_id": id, "content": told}))
except (OSError, ValueError, KeyError, TypeError, AttributeError):
    pass
"""
"""Prints its last tool result, which is only in its own log: that call declares the work done."""


class MiniSweAgentAgent(PublicAgent[TurnLimitConfig]):
    """Speaks the dialect of OpenAI's Chat Completions, or of Anthropic."""

    name = "mini-swe-agent"
    Config = TurnLimitConfig
    default_version = "2.4.6"
    keys: ClassVar = {provider: (key,) for provider, key in _KEYS.items()}

    @classmethod
    def package(cls, version: str) -> Package:
        return Package("pip", "mini-swe-agent", version, more=_LACKING)

    def invocation(self, task: Task, access: ModelAccess) -> Launch:
        command = _COMMAND.format(
            python=self.at("bin/python3"),
            settings=_SETTINGS,
            native=self.native(task),
            trajectory=_TRAJECTORY,
            telling=shlex.quote(_TELLING),
        )
        env = {
            _KEYS.get(access.provider, _KEYS["openai"]): access.token,
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        return Launch(command, env=env, files={_SETTINGS: json.dumps(self._settings(task, access)).encode()})

    def _settings(self, task: Task, access: ModelAccess) -> dict[str, Any]:
        """Return its settings for a file, which fits a problem statement of any length."""
        is_anthropic = access.provider == "anthropic"
        return {
            "run": {"task": task.prompt},
            # The class that asks the user nothing. The gateway counts and limits the cost.
            "agent": {"agent_class": "default", "cost_limit": 0, "step_limit": self.config.max_turns or 0},
            "model": {
                "model_name": f"{'anthropic' if is_anthropic else 'openai'}/{access.model}",
                "model_kwargs": {"api_base": access.url if is_anthropic else f"{access.url}/v1"},
            },
        }

    def complaint(self, ended: AgentEnd, found: Sequence[Event]) -> str | None:
        if ended.exit_status == 0 and ended.last_error:
            return f"its last call failed: {ended.last_error}"
        return None

    def trailing(self, stdout_tail: str) -> Mapping[str, str]:
        left = output_events.last(output_events.events(stdout_tail), _EXIT) or {}
        id = left.get("tool_call_id")
        return {id: output_events.text_of(left.get("content"))} if isinstance(id, str) else {}
