"""Steps of stored trajectories as the wire shows them: the index, steps by their numbers, and hits."""

from typing import Any

from pydantic import Field

from benchyard.models.base import Model


class TrajectoryInfo(Model):
    """A trajectory of a document: the main one, or a sub-agent's."""

    trajectory_id: str | None = None
    schema_version: str | None = None
    agent: str | None = None
    model: str | None = None
    steps: int = 0


class StepColumns(Model):
    """Facts about steps, one list per fact and one value per step."""

    trajectory: list[int]
    """Index into the document's trajectories."""
    source: list[str]
    tools: list[list[str]]
    text: list[str]
    """The first 80 characters."""
    model: list[str | None]
    prompt_tokens: list[int | None]
    completion_tokens: list[int | None]
    cost_usd: list[float | None]
    timestamp: list[str | None]
    is_error: list[bool]
    """True if a tool's result is marked as an error."""
    is_copied: list[bool]
    """True if it repeats an earlier step as context."""
    size_bytes: list[int]


class StepIndexView(Model):
    """The index of a trajectory's steps, which are numbered from 1."""

    trace: str
    """Name of the trace that the steps are read from."""
    count: int
    problem: str | None = None
    """Reason why there may be more steps: the trajectory breaks off or is malformed after those read."""
    trajectories: list[TrajectoryInfo] = Field(default_factory=list)
    columns: StepColumns


class NumberedStep(Model):
    """A step of a trajectory with its number."""

    number: int
    size_bytes: int
    is_cut: bool = False
    """True if its texts are cut; it can be fetched whole by its number."""
    note: str | None = None
    step: Any = None
    """The step in ATIF, as its author wrote it."""


class StepRangeView(Model):
    """Some steps of a trajectory."""

    trace: str
    count: int
    """Number of all steps."""
    steps: list[NumberedStep]
    next: int | None = None
    """Number to go on from if the response became too large; None if it has all requested steps."""


class FoundStep(Model):
    """A step that contains a text."""

    number: int
    field: str
    """Path of the text within the step, such as `tool_calls[0].arguments.command`."""
    text: str
    """The text around the place."""


class FoundStepsView(Model):
    """The steps that contain a text."""

    found: list[FoundStep]
    total: int
    """Number of steps that contain it; more than are listed if there are many."""
