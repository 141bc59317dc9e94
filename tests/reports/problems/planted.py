"""Small trajectories made by hand, with one problem planted in each."""

import json
from dataclasses import dataclass, field
from typing import Any

from benchyard.gateway.records.call_summaries import CallSummary
from benchyard.reports.problems.facts import PeerTrial, ScenarioPeers, TrialFacts
from benchyard.reports.problems.trajectories import turns_of
from benchyard.reports.trajectory_steps import iterate_steps

Step = dict[str, Any]


def said(message: str, **fields: Any) -> Step:
    """A message of the agent."""
    return {"source": "agent", "message": message, **fields}


def ran(command: str, output: str = "ok", status: int | None = None, **fields: Any) -> Step:
    """A command of the agent, and its output."""
    told = output if status is None else f"{output}\n[exit {status}]"
    return called("bash", {"command": command}, told, **fields)


def called(
    tool: str, arguments: dict[str, Any], output: str = "ok", *, is_error: bool = False, **fields: Any
) -> Step:
    """A call of any tool, and its result."""
    result: Step = {"source_call_id": "1", "content": output}
    if is_error:
        result["extra"] = {"is_error": True}
    calls = [{"tool_call_id": "1", "function_name": tool, "arguments": arguments}]
    return said("", tool_calls=calls, observation={"results": [result]}, **fields)


def wrote(path: str) -> Step:
    """A file written with a tool for it."""
    return called("write_file", {"file_path": path, "content": "x"})


def trajectory(*steps: Step) -> bytes:
    """A trajectory of these steps, after the task, which is step 1."""
    first = {"source": "user", "message": "Fix it."}
    numbered = [{"step_id": number, **step} for number, step in enumerate((first, *steps), start=1)]
    document = {"schema_version": "ATIF-v1.6", "agent": {"name": "a", "version": "1"}, "steps": numbered}
    return json.dumps(document).encode()


def facts(*steps: Step, **known: Any) -> TrialFacts:
    """The facts of a trial with these steps."""
    return TrialFacts(turns=turns_of(iterate_steps(trajectory(*steps))), **known)


def model_call(number: int, status: int = 200, second: int = 0, **known: Any) -> CallSummary:
    """A call of a model that ended at a second of the first of January."""
    values = {"error": None, "stop": None, "waited_ms": 0, **known}
    return CallSummary(number=number, status=status, end_ms=1767225600000 + second * 1000, **values)


def at(second: int) -> str:
    """The time of a second of that day, as trajectories write it."""
    return f"2026-01-01T00:00:{second:02}.000Z"


def peers(*trials: PeerTrial, means: dict[int, float] | None = None) -> TrialFacts:
    """The first of several trials at a scenario."""
    first = trials[0]
    return TrialFacts(
        trial_id=first.trial_id,
        agent=first.agent,
        cost_usd=first.cost_usd,
        working_ms=first.working_ms,
        peers=ScenarioPeers(trials, means or {}),
    )


def peer(number: int, agent: int = 0, **known: Any) -> PeerTrial:
    """A trial at the same scenario."""
    return PeerTrial(trial_id=f"trl_{number}", agent=agent, **known)


@dataclass(frozen=True)
class Planted:
    """A trial with a problem, and the same without it."""

    signal: str
    facts: TrialFacts
    steps: list[int] = field(default_factory=list)
    """The steps of its first finding."""
    detail: str = ""
    """A part of what is said of it."""
    clean: TrialFacts | None = None
    """A trial that must not have it."""
