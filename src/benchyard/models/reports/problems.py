"""Problems of jobs: findings of signals, their prevalence, and groups of failures."""

from typing import Literal

from pydantic import Field

from benchyard.models.base import Model

Direction = Literal["failing", "passing"]


class ProblemFinding(Model):
    """A place in a trial where a signal was found."""

    signal: str
    detail: str
    """The command, file, host or message that it rests on."""
    steps: list[int] = Field(default_factory=list)
    """Numbers of steps of its trajectory, as `benchyard trial steps` counts them."""


class TrialMeasures(Model):
    """Numbers of a trial that its trajectory has, for comparisons with other trials."""

    n_actions: int | None = None
    """Number of calls of tools; None without a trajectory."""
    last_step: int | None = None
    failed_tests: list[str] = Field(default_factory=list)
    """Names of failed tests in the output of the scorers."""


class TrialFindings(Model):
    """Findings of all signals that need only the trial itself, as they are stored."""

    trial_id: str
    version: str
    """Digest of the facts that the findings were made of; with another digest they are made again."""
    findings: list[ProblemFinding] = Field(default_factory=list)
    unknown: list[str] = Field(default_factory=list)
    """Signals that could not decide, because a fact that they need is not known."""
    measures: TrialMeasures = Field(default_factory=TrialMeasures)
    unread: str | None = None
    """Reason why its trajectory could not be read."""


class ProblemExample(Model):
    """A trial with a problem."""

    trial_id: str
    scenario_name: str
    agent: int
    attempt: int
    detail: str
    steps: list[int] = Field(default_factory=list)


class AgentPrevalence(Model):
    """Number of an agent's trials that have a problem."""

    agent: int
    label: str
    n_found: int
    n_known: int
    """Number of its trials of which it is known whether they have it."""


class Association(Model):
    """Connection of a problem with the results, inside scenarios and agents."""

    failed_with: float | None = None
    """Share of trials with it that did not pass; None without any that has a score."""
    failed_without: float | None = None
    p: float | None = None
    """P-value of the exact test with scenarios and agents as strata; None where nothing can be tested."""
    p_adjusted: float | None = None
    """The same, corrected for the number of problems tested (Benjamini-Hochberg)."""
    goes_with: Direction | None = None
    """The claim, where the corrected p-value is below 0.05."""


class Problem(Model):
    """A signal that was found in a job."""

    signal: str
    summary: str
    helps: str
    subject: Literal["trial", "scenario"] = "trial"
    is_new: bool | None = None
    """True if the last job of the same benchmark did not have it; None where that is not known."""
    n_found: int
    """Number of trials, or of scenarios, that have it."""
    n_known: int
    """Number of them of which that is known."""
    n_scenarios: int
    agents: list[AgentPrevalence] = Field(default_factory=list)
    association: Association | None = None
    """None for problems that are made from the results themselves."""
    examples: list[ProblemExample] = Field(default_factory=list)


class FailureGroup(Model):
    """Trials that failed alike: the same stage, party at fault, message and failed tests."""

    stage: str | None = None
    kind: str
    """The party at fault, or `score` for work that did not pass."""
    template: str
    """The message with its varying parts replaced by `<*>`."""
    failed_tests: list[str] = Field(default_factory=list)
    digest: str = ""
    """Digest of the four above: groups of other jobs with the same one failed alike."""
    is_new: bool | None = None
    """True if the last job of the same benchmark did not have it; None where that is not known."""
    n_trials: int
    agents: list[str]
    n_scenarios: int
    first_time_ms: int | None = None
    last_time_ms: int | None = None
    examples: list[ProblemExample] = Field(default_factory=list)


class ProblemsView(Model):
    """Problems of a job, new ones first."""

    job_id: str
    job_name: str
    benchmark_id: str | None = None
    create_time_ms: int
    n_trials: int
    """Number of trials that count and have ended."""
    n_read: int
    """Number of them that were looked at; a repeated request goes on with the rest."""
    n_with_trajectory: int
    """Number of them with a trajectory that could be read."""
    is_complete: bool = False
    """True if all trials that have ended were looked at, and those of the previous job too."""
    previous_job_id: str | None = None
    """The last job of the same benchmark with trials that ended; problems that it did not have are new."""
    problems: list[Problem] = Field(default_factory=list)
    groups: list[FailureGroup] = Field(default_factory=list)
    n_groups: int = 0
    """Number of groups, including those that are left out."""
    left_out_groups: list[str] = Field(default_factory=list)
    """Digests of groups that are left out, for a comparison with those of the next job."""
    known: dict[str, int] = Field(default_factory=dict)
    """Signal -> the number of trials, or scenarios, of which it is known whether they have it."""
    notes: list[str] = Field(default_factory=list)


class ProblemPoint(Model):
    """Prevalence of a problem in one job."""

    job_id: str
    n_found: int
    n_known: int


class ProblemTrend(Model):
    """Prevalence of a problem over the jobs of a benchmark."""

    signal: str
    summary: str
    helps: str
    jobs: list[ProblemPoint]
    """Newest first; a job in which nothing is known of it is left out."""


class ProblemJob(Model):
    """A job of a benchmark, and how much of it was looked at."""

    job_id: str
    job_name: str
    create_time_ms: int
    n_trials: int
    n_read: int
    is_complete: bool = False


class BenchmarkProblemsView(Model):
    """Problems over the jobs of a benchmark, newest first."""

    benchmark_id: str
    jobs: list[ProblemJob] = Field(default_factory=list)
    problems: list[ProblemTrend] = Field(default_factory=list)
