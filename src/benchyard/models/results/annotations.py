"""Tags and notes of jobs, trials and runs, and verdicts of people on trials and scenario runs."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from benchyard.models.base import Columns, Model, Record

MOST_TAGS = 50
MOST_LABELS = 200
MOST_NOTE = 10_000

_TAG = re.compile(r"^[^\s,\x00-\x1f\x7f]{1,64}$")
_LABEL = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


def _tag(given: str) -> str:
    if not _TAG.fullmatch(given):
        raise PydanticCustomError("tag", "a tag has 1 to 64 characters, without spaces and commas")
    return given


def _label(given: str) -> str:
    if not _LABEL.fullmatch(given):
        told = "a label's name has letters, digits and . _ -, a letter or digit first, at most 64 in all"
        raise PydanticCustomError("label", told)
    return given


Tag = Annotated[str, AfterValidator(_tag), Field(json_schema_extra={"pattern": _TAG.pattern})]
"""A word that jobs or trials are found by: no spaces and no commas."""
LabelName = Annotated[str, AfterValidator(_label), Field(json_schema_extra={"pattern": _LABEL.pattern})]
LabelValue = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class AnnotationRequest(Model):
    """Changes of tags and note; fields left out stay as they are."""

    add_tags: list[Tag] = Field(default_factory=list, max_length=MOST_TAGS)
    remove_tags: list[Tag] = Field(default_factory=list, max_length=MOST_TAGS)
    note: Annotated[str, StringConstraints(max_length=MOST_NOTE, pattern=r"^[^\x00]*$")] | None = None
    """The new note; an empty one removes it."""


class LabelRequest(Model):
    """The caller's verdict on a trial or a scenario run; a second one of the same name replaces the first."""

    name: LabelName
    """The question, such as `correct` or `reward-hack`."""
    value: LabelValue | None = None
    """The answer, such as `yes` or `0.5`; None takes the caller's verdict back."""
    comment: Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00]*$")] | None = None


class PersonLabel(Model):
    """The verdict of a person on a trial or a scenario run, to compare judges with."""

    name: str
    value: str
    comment: str | None = None
    key_id: str
    """The key of who gave it."""
    key_name: str
    """The name of that key at that time."""
    time_ms: int


class TrialAnnotation(Record):
    """Tags, note and labels of a trial, which only its job writes, or of a run of the SDK."""

    job_id: str
    """The trial's job, or the run's benchmark run, or the run itself: it is deleted with that."""
    tags: list[str] = Field(default_factory=list)
    note: str | None = None
    labels: list[PersonLabel] = Field(default_factory=list)

    def columns(self) -> Columns:
        """Index by job."""
        return Columns(parent=self.job_id)
