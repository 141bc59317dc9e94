"""Facts of one trial, as signals see them: bounded, and None where a fact is not known."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from benchyard.gateway.records.call_summaries import CallSummary


@dataclass(frozen=True)
class ToolAction:
    """A call of a tool by the agent, with its result."""

    step: int
    """Number of the step in the trajectory, from 1."""
    tool: str
    arguments: str
    """The arguments as JSON, cut."""
    digest: str
    """Digest of tool and whole arguments: equal for equal calls."""
    command: str | None = None
    """The command line, if the tool runs one."""
    paths: tuple[str, ...] = ()
    """Files that the call writes, as far as its arguments tell."""
    is_edit: bool = False
    """True if the tool edits files."""
    output: str | None = None
    """The beginning and the end of the result; None if no result is known."""
    output_digest: str | None = None
    exit_status: int | None = None
    is_error: bool = False
    """True if the result reports that the call failed."""


@dataclass(frozen=True)
class AgentTurn:
    """A step of the agent: its message and the tools it called."""

    step: int
    message: str
    """The beginning and the end of what it said."""
    actions: tuple[ToolAction, ...] = ()
    prompt_tokens: int | None = None
    end_ms: int | None = None
    """Time at which the model had answered."""
    stop: str | None = None
    """Reason why the model stopped, in its provider's word."""
    is_main: bool = True
    """False for the turns of sub-agents."""


@dataclass(frozen=True)
class PeerTrial:
    """Another trial at the same scenario, or the trial itself among them."""

    trial_id: str
    agent: int
    score: float | None = None
    """None if it has no score that counts."""
    passed: bool | None = None
    n_actions: int | None = None
    cost_usd: float | None = None
    working_ms: int | None = None
    failure_kind: str | None = None


@dataclass(frozen=True)
class ScenarioPeers:
    """All counted trials of a job at one scenario."""

    trials: tuple[PeerTrial, ...]
    agent_means: dict[int, float] = field(default_factory=dict)
    """Agent -> its mean score at the other scenarios."""

    @cached_property
    def _by_agent(self) -> dict[int, list[PeerTrial]]:
        found: dict[int, list[PeerTrial]] = {}
        for each in self.trials:
            found.setdefault(each.agent, []).append(each)
        return found

    def of_agent(self, agent: int) -> list[PeerTrial]:
        """Return the trials of one agent."""
        return self._by_agent.get(agent, [])


@dataclass(frozen=True)
class TrialFacts:
    """Facts of one trial that has ended."""

    trial_id: str = ""
    agent: int = 0
    passed: bool | None = None
    """None if it has no score that counts."""
    score: float | None = None
    ended_by: str | None = None
    stage: str | None = None
    """Stage in which it failed."""
    failure_kind: str | None = None
    failure_type: str | None = None
    failure: str | None = None
    """Message of the failure."""
    exit_status: int | None = None
    conditions: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()
    n_changed: int | None = None
    """Number of files that were changed in the work and outside of it."""
    scorer_errors: tuple[str, ...] = ()
    working_ms: int | None = None
    cost_usd: float | None = None
    rate_limited_ms: int | None = None
    turns: tuple[AgentTurn, ...] | None = None
    """None if no trajectory is kept, or it cannot be read."""
    calls: tuple[CallSummary, ...] | None = None
    peers: ScenarioPeers | None = None
    """None while the other trials are not looked at."""

    @cached_property
    def actions(self) -> Sequence[ToolAction] | None:
        """Return all calls of tools in order; None without a trajectory."""
        return None if self.turns is None else [action for turn in self.turns for action in turn.actions]

    @property
    def last_turn(self) -> AgentTurn | None:
        """Return the agent's last step with words or calls."""
        said = [turn for turn in self.turns or () if turn.is_main and (turn.message.strip() or turn.actions)]
        return said[-1] if said else None

    @cached_property
    def _steps_by_time(self) -> dict[int, int]:
        return {turn.end_ms: turn.step for turn in self.turns or () if turn.end_ms is not None}

    def steps_of(self, calls: Iterable[CallSummary]) -> list[int]:
        """Return the steps that calls of a model became; a failed call becomes none."""
        times = self._steps_by_time
        return [times[call.end_ms] for call in calls if call.end_ms in times]

    def steps_before(self, call: CallSummary) -> list[int]:
        """Return the last step before a call that became none."""
        if call.end_ms is None:
            return []
        earlier = [
            turn for turn in self.turns or () if turn.end_ms is not None and turn.end_ms <= call.end_ms
        ]
        return [max(earlier, key=lambda turn: turn.end_ms or 0).step] if earlier else []

    def outputs(self) -> Iterator[tuple[ToolAction, str]]:
        """Yield each call of a tool that has a result, with the result."""
        for action in self.actions or ():
            if action.output is not None:
                yield action, action.output
