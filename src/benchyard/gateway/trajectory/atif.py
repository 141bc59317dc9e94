"""ATIF, the format of trajectories (versions 1.0 to 1.8): what agent and model said and did, step by step."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from benchyard.models.base import Model

Version = Literal[
    "ATIF-v1.0",
    "ATIF-v1.1",
    "ATIF-v1.2",
    "ATIF-v1.3",
    "ATIF-v1.4",
    "ATIF-v1.5",
    "ATIF-v1.6",
    "ATIF-v1.7",
    "ATIF-v1.8",
]
ATIF: Version = "ATIF-v1.8"
"""The version that is written."""
ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
AudioType = Literal[
    "audio/wav",
    "audio/mpeg",
    "audio/mp4",
    "audio/aac",
    "audio/ogg",
    "audio/flac",
    "audio/webm",
    "audio/aiff",
]
_OF_AGENTS = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_OF_MODELS = ("metrics", "reasoning_content")

Extra = dict[str, Any]
Count = Annotated[int, Field(ge=0)]


class TrajectoryPart(Model):
    """Any part of a trajectory: unknown fields and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ImageSource(TrajectoryPart):
    """Location of an image."""

    media_type: ImageType
    path: str
    """A path or a URL."""


class AudioSource(TrajectoryPart):
    """Location of a recording."""

    media_type: AudioType
    path: str
    duration_sec: Annotated[float, Field(ge=0)] | None = None


class ContentPart(TrajectoryPart):
    """A piece of a message: a text, an image or a recording."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: ImageSource | AudioSource | None = None

    @model_validator(mode="after")
    def _has_what_its_type_says(self) -> Self:
        kinds: dict[str, type[Any]] = {"text": type(None), "image": ImageSource, "audio": AudioSource}
        if not isinstance(self.source, kinds[self.type]):
            raise ValueError(f"a part of type {self.type} has another source than its type says")
        if (self.text is None) == (self.type == "text"):
            raise ValueError("a part has a text exactly if its type is text")
        return self


Content = str | list[ContentPart]


class SubagentTrajectoryRef(TrajectoryPart):
    """Trajectory that a tool call started: an embedded one, or a file."""

    trajectory_id: str | None = None
    session_id: str | None = None
    """For people; it is not used to find the trajectory."""
    trajectory_path: str | None = None
    extra: Extra | None = None

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        if self.trajectory_id is None and self.trajectory_path is None:
            raise ValueError("give trajectory_id or trajectory_path")
        return self


class TrajectoryToolCall(TrajectoryPart):
    """A call of a tool."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra | None = None


class ObservationResult(TrajectoryPart):
    """Result of one call of a tool, or of another event."""

    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[SubagentTrajectoryRef] | None = None
    extra: Extra | None = None


class Observation(TrajectoryPart):
    """Results that an agent's step led to."""

    results: list[ObservationResult]


class TrajectoryMetrics(TrajectoryPart):
    """Tokens and cost of a step, and the tokens themselves if they are known."""

    prompt_tokens: int | None = None
    """All input tokens, including those read from a cache."""
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: Extra | None = None


class TrajectoryStep(TrajectoryPart):
    """A message of the system, the user or the agent."""

    step_id: Annotated[int, Field(ge=1)]
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: Content
    reasoning_content: str | None = None
    tool_calls: list[TrajectoryToolCall] | None = None
    observation: Observation | None = None
    metrics: TrajectoryMetrics | None = None
    is_copied_context: bool | None = None
    """True for a message that repeats an earlier one, so that it is not learned from again."""
    llm_call_count: Count | None = None
    """Number of model calls in this step; 0 if the agent did it without any."""
    extra: Extra | None = None

    @field_validator("timestamp")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value)
        return value

    @model_validator(mode="after")
    def _has_only_what_its_source_has(self) -> Self:
        fields_set = [name for name in _OF_AGENTS if getattr(self, name) is not None]
        if self.source != "agent" and fields_set:
            raise ValueError(f"only a step of the agent has {fields_set[0]}")
        fields_set = [name for name in _OF_MODELS if getattr(self, name) is not None]
        if self.source == "agent" and self.llm_call_count == 0 and fields_set:
            raise ValueError(f"a step without a call of a model has no {fields_set[0]}")
        return self

    @model_validator(mode="after")
    def _observes_its_own_calls(self) -> Self:
        known = {call.tool_call_id for call in self.tool_calls or []}
        for result in self.observation.results if self.observation else []:
            if result.source_call_id is not None and result.source_call_id not in known:
                raise ValueError(f"no tool call of the step is called {result.source_call_id[:200]!r}")
        return self


class TrajectoryAgent(TrajectoryPart):
    """The agent that produced the trajectory."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    """Declarations in the form of OpenAI's functions."""
    extra: Extra | None = None


class FinalMetrics(TrajectoryPart):
    """Tokens and cost of all steps together."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: Count | None = None
    extra: Extra | None = None


class Trajectory(TrajectoryPart):
    """A whole trajectory; those of sub-agents are embedded in it."""

    schema_version: Version = ATIF
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: TrajectoryAgent
    steps: Annotated[list[TrajectoryStep], Field(min_length=1)]
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra | None = None
    subagent_trajectories: "list[Trajectory] | None" = None

    @model_validator(mode="after")
    def _counts_its_steps(self) -> Self:
        for number, step in enumerate(self.steps, start=1):
            if step.step_id != number:
                raise ValueError(f"step {number} has the step_id {step.step_id}; they count from 1")
        return self

    @model_validator(mode="after")
    def _tells_its_subagents_apart(self) -> Self:
        ids = [trajectory.trajectory_id for trajectory in self.subagent_trajectories or []]
        if None in ids or len(set(ids)) < len(ids):
            raise ValueError("each of subagent_trajectories has a trajectory_id of its own")
        return self
