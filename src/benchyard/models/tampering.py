"""What was done to the devbox of a run beside the work itself."""

from pydantic import Field

from benchyard.models.base import Model, Record


class ChangedFile(Model):
    """One path that is not as it was when the devbox began to run."""

    path: str
    kind: str
    """`added`, `modified` or `deleted`."""
    type: str
    """`file`, `folder`, `link`, `device` or `other`."""
    mode: int | None = None
    size: int | None = None
    opened: bool = False
    """Whether scorers opened or ran it, or what it leads to where it is a link."""


class LeftProcess(Model):
    """A process that ran when the work was over."""

    pid: int
    user: str
    command: str


class TamperReport(Model):
    """What was done to the devbox beside the work itself: facts, not a verdict.

    None stands for what could not be found out; an empty list means that there was nothing. Every list begins
    with what weighs most: opened by scorers before what was not, outside of the work before inside, programs,
    libraries and settings before the rest. A list that was cut is named in the notes, and its total is whole.
    """

    changed_outside: list[ChangedFile] | None = None
    """Outside of the work: the working directory, without one the user's home, and the answer's paths."""
    changed_outside_total: int | None = None
    opened_outside_total: int | None = None
    """How many of them the scorers opened; None where that is not known of any."""
    changed_inside_total: int | None = None
    special_inside: list[ChangedFile] | None = None
    """Links, devices and setuid files in the work: more than they seem to whoever opens them."""
    special_inside_total: int | None = None
    processes: list[LeftProcess] | None = None
    processes_total: int | None = None
    opened_by_scorers: list[str] | None = None
    """Changed files, inside and outside, that the scorers opened."""
    opened_by_scorers_total: int | None = None
    refused: list[str] = Field(default_factory=list)
    """What was not taken over from the answer, and why."""
    refused_total: int = 0
    unwatched_outside: list[str] = Field(default_factory=list)
    """Changed files outside of the work of which it is not known whether scorers opened them."""
    unwatched_outside_total: int = 0
    changed_while_scored: list[str] = Field(default_factory=list)
    """In `live`: files of the system, and hidden ones of the home, that were changed beside the scorers."""
    unknown: list[str] = Field(default_factory=list)
    """What else could not be found out and might speak against the score."""
    notes: list[str] = Field(default_factory=list)
    """What else the reader has to know: which lists were cut, when they were made, a missing network."""


class CountedTests(Model):
    """How many tests a test runner's report tells of."""

    tests: int
    skipped: int = 0


class ReferenceReport(Record):
    """What a reference did beside the work itself; its id is the digest of how a scenario is graded.

    So it holds for the copies of a scenario that validation tries in other isolations, and after it was
    stored which of them does.
    """

    opened_outside: list[str] = Field(default_factory=list)
    """Paths outside of the work that it changed, and that scorers opened."""
    changed_outside: list[str] = Field(default_factory=list)
    """All paths outside of the work that it changed, opened or not."""
    changed_while_scored: list[str] = Field(default_factory=list)
    """What is changed while it is scored, by the scorers themselves as a rule."""
    process_users: list[str] = Field(default_factory=list)
    """Who the processes belonged to that it left running; empty where it left none."""
    counted: dict[str, list[CountedTests]] = Field(default_factory=dict)
    """Scoring function -> what its runner's report counted, in each run that counted something else."""
