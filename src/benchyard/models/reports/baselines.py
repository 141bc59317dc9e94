"""Baselines: results of an agent on a benchmark, kept under a name that later jobs are compared with."""

from typing import Annotated

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from benchyard.models.base import Columns, Model, Record, ShortText

_JOB_PREFIX = "bmj_"
_RUN_PREFIX = "bmr_"


def is_run(text: str) -> bool:
    """Tell whether a side of a comparison is a benchmark run, by its id."""
    return text.startswith(_RUN_PREFIX)


def is_job(text: str) -> bool:
    """Tell whether a side of a comparison is a job or a benchmark run, by its id, rather than a baseline."""
    return text.startswith(_JOB_PREFIX) or is_run(text)


def _like_no_job(name: str) -> str:
    if is_job(name):
        raise PydanticCustomError("like_a_job", "must not begin as the ids of jobs and benchmark runs do")
    return name


BaselineName = Annotated[
    str,
    StringConstraints(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"),
    AfterValidator(_like_no_job),
]
"""Letters, digits, and `.`, `_`, `/`, `-` after the first; never like the id of a job or a benchmark run."""


class BaselineRequest(Model):
    """A job, or a benchmark run of the SDK, to keep as a baseline: all its agents, or one."""

    name: BaselineName
    job_id: str
    """The id of either."""
    agent: ShortText | None = None
    """Index or label of one agent; all by default."""


class Baseline(Record):
    """A baseline as it is stored; one name has one of them for each benchmark and agent."""

    name: str
    benchmark_id: str | None = None
    """None for jobs over scenarios without a benchmark."""
    benchmark_name: str | None = None
    agent_name: str
    """The agent with its model, without its version: `codex:gpt-5`."""
    job_id: str
    job_name: str
    agent: int
    """Index into the job's agents."""
    label: str
    set_time_ms: int
    delete_time_ms: int | None = None

    def columns(self) -> Columns:
        """Index by name, whether it is deleted, and job."""
        return Columns(name=self.name, status="deleted" if self.delete_time_ms else "set", parent=self.job_id)

    def view(self) -> "BaselineView":
        """Return the baseline as the wire shows it."""
        return BaselineView.model_validate(self, from_attributes=True)


class BaselineView(Model):
    """A baseline as the wire shows it."""

    id: str
    name: str
    benchmark_id: str | None = None
    benchmark_name: str | None = None
    agent_name: str
    job_id: str
    job_name: str
    agent: int
    label: str
    set_time_ms: int
    delete_time_ms: int | None = None
    """Time at which it was deleted; None while it holds."""


class BaselineListView(Model):
    """A page of baselines."""

    baselines: list[BaselineView]
    has_more: bool = False
    total_count: int | None = None
