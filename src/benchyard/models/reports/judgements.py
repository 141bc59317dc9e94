"""Judgements of trials by a model: what is asked for, what it said, and how far people agree with it."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from benchyard.models.base import Columns, Model, Record, ShortText, WireInt
from benchyard.models.model_access import Budget

FAILURE_CATEGORIES: Mapping[str, str] = {
    "plan-not-followed": "it left out a step that its own plan needed, or did what the plan did not have",
    "invented-information": "it relied on a fact, file, name or result that nothing had shown",
    "invalid-call": "it called a tool with a wrong name, wrong arguments or a broken command",
    "misread-result": "it drew a wrong conclusion from what a tool or a test had returned",
    "wrong-goal": "its plan aimed at something else than what the task asks for",
    "unclear-task": "the task leaves open what is asked for, and the agent guessed wrong",
    "unsupported-task": "the task needs a tool, a right or a resource that the agent did not have",
    "guardrail": "a safety rule of the model, the agent or the environment stopped it",
    "system-failure": "the environment, a tool, the network or the model's provider broke down",
    "wrong-scoring": "the work does what the task asks for, and the scorers say otherwise",
    "no-failure": "nothing went wrong",
    "undecided": "the evidence does not tell",
}
"""The answers that a judge chooses from: nine kinds of failures, wrong scores, none, and no answer."""
CATEGORY_LABEL = "category"
"""Name of the people's labels that judgements are compared with."""

JudgeSelection = Literal["unexplained", "failed", "all"]
"""Trials that are judged: failed ones that no signal explains, all that failed, or all that have ended."""
JudgeRunState = Literal["running", "completed", "failed", "stopped"]
MOST_JUDGED = 500
USUAL_LIMIT = 50
USUAL_BUDGET_USD = 1.0
USUAL_BUDGET_TOKENS = 500_000
"""Budget with a model whose prices are not known."""

_Word = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]


class JudgeRequest(Model):
    """The body of a call that has a model judge trials of a job."""

    model: _Word
    """The model: its name, or PROVIDER/NAME."""
    provider: _Word | None = None
    """The provider, where the model's name does not tell it."""
    secret: _Word | None = None
    """The name of the secret with the key; None looks for a secret of the provider's usual name."""
    base_url: _Word | None = None
    """The address of a proxy in front of the provider."""
    only: JudgeSelection = "unexplained"
    agent: ShortText | None = None
    """Only trials of this agent: its name, or name:model."""
    scenario: ShortText | None = None
    """Only trials at this scenario: its id or name."""
    limit: Annotated[WireInt, Field(ge=1, le=MOST_JUDGED)] = USUAL_LIMIT
    budget: Budget | None = None
    """None is one US dollar, or 500,000 tokens with a model whose prices are not known."""


class JudgeUsage(Model):
    """Tokens and cost of calls of a judge."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None where the price of the model is not known."""


class JudgeCounts(Model):
    """Numbers of trials that a judge run has dealt with."""

    judged: int = 0
    """Trials that the model was asked about, with a valid answer."""
    known: int = 0
    """Trials whose judgement was there already: the same evidence, model and instructions."""
    refused: int = 0
    """Trials whose answers were not valid, twice."""
    unanswered: int = 0
    """Trials that the model gave no answer to, or whose evidence could not be read."""

    @property
    def total(self) -> int:
        """Return the number of all trials that it has dealt with."""
        return self.judged + self.known + self.refused + self.unanswered


class JudgeRun(Record):
    """A pass of a judge over trials of a job, as it is stored."""

    job_id: str
    provider: str
    model: str
    variable: str | None = None
    secret: str | None = None
    base_url: str | None = None
    only: JudgeSelection = "unexplained"
    budget: Budget = Field(default_factory=Budget)
    trial_ids: list[str] = Field(default_factory=list)
    """The chosen trials, in the order in which they are judged."""
    n_matching: int = 0
    """Trials that the selection fits; the limit may leave some of them out."""
    n_explained: int = 0
    """Failed trials that are left out because a signal explains them."""
    n_unread: int = 0
    """Trials whose trajectories were not read for signals yet, so that they could not be chosen."""
    instructions: str = ""
    """Digest of what the model was told to do."""
    state: JudgeRunState = "running"
    note: str | None = None
    """Reason why it ended before all chosen trials were judged."""
    counts: JudgeCounts = Field(default_factory=JudgeCounts)
    usage: JudgeUsage = Field(default_factory=JudgeUsage)
    end_time_ms: int | None = None

    def columns(self) -> Columns:
        """Index by job and state."""
        return Columns(status=self.state, parent=self.job_id)

    def view(self) -> "JudgeRunView":
        """Return it as the wire shows it."""
        known = JudgeRunView.model_validate(self, from_attributes=True)
        left = 0 if self.state == "running" else len(self.trial_ids) - self.counts.total
        limited = self.n_matching - len(self.trial_ids)
        return known.model_copy(update={"n_chosen": len(self.trial_ids), "n_left_out": left + limited})


class JudgeRunView(Model):
    """A pass of a judge over trials of a job."""

    id: str
    job_id: str
    create_time_ms: int
    end_time_ms: int | None = None
    provider: str
    model: str
    instructions: str
    """Digest of what the model was told to do."""
    only: JudgeSelection
    budget: Budget
    state: JudgeRunState
    note: str | None = None
    """Reason why it ended before all chosen trials were judged."""
    n_matching: int
    """Trials that the selection fits."""
    n_chosen: int = 0
    """Trials that it judges."""
    n_left_out: int = 0
    """Trials that the selection fits, and that the limit, the budget or its end left out."""
    n_explained: int = 0
    """Failed trials that are left out because a signal explains them."""
    n_unread: int = 0
    """Trials whose trajectories were not read for signals yet, so that they could not be chosen."""
    counts: JudgeCounts
    usage: JudgeUsage
    """All that its calls used, with those whose answers were not valid."""


class Citation(Model):
    """A quote that was found, word for word, in what the judge was shown of a step."""

    step: int
    quote: str


class Judgement(Record):
    """The opinion of a model on one trial, as it is stored; only its citations are checked."""

    job_id: str
    trial_id: str
    run_id: str
    """The judge run that asked for it."""
    provider: str
    model: str
    instructions: str
    evidence: str
    """Digest of the evidence that the model was given."""
    trial_version: str
    """Digest of the trial's end and score."""
    category: str
    critical_step: int | None = None
    """The step after which the trial could no longer succeed unless it was put right."""
    explanation: str
    citations: list[Citation] = Field(default_factory=list)
    n_false_citations: int = 0
    """Citations that were dropped, because their quote is not in their step."""
    is_repeated: bool = False
    """True if its first answer was not valid."""
    usage: JudgeUsage = Field(default_factory=JudgeUsage)

    def columns(self) -> Columns:
        """Index by job and trial."""
        return Columns(name=self.trial_id, parent=self.job_id)


class JudgementView(Model):
    """The opinion of a model on one trial."""

    trial_id: str
    scenario_name: str = ""
    agent: int = 0
    """Index into the job's agents."""
    attempt: int = 1
    run_id: str
    create_time_ms: int
    provider: str
    model: str
    instructions: str
    evidence: str
    category: str
    critical_step: int | None = None
    explanation: str
    citations: list[Citation] = Field(default_factory=list)
    n_false_citations: int = 0
    is_supported: bool = False
    """True if it has citations, and all that it gave were found."""
    is_stale: bool = False
    """True if the trial was scored again since."""
    is_repeated: bool = False
    usage: JudgeUsage


class Disagreement(Model):
    """A trial on which a judge and people say different things."""

    trial_id: str
    judge: str
    people: str


class JudgeAgreement(Model):
    """Agreement of a judge with people's labels, over the trials that have both."""

    provider: str
    model: str
    instructions: str
    label: str
    """Name of the labels."""
    n: int
    """Number of trials that have a judgement and a label."""
    n_agree: int
    agreement: float | None = None
    agreement_low: float | None = None
    agreement_high: float | None = None
    """Wilson's 95 % interval."""
    kappa: float | None = None
    """Cohen's kappa: agreement beyond what the frequencies alone give; None where it is not defined."""
    kappa_low: float | None = None
    kappa_high: float | None = None
    """The 95 % interval from the large-sample error; None where there are too few trials for one."""
    n_disputed: int = 0
    """Trials left out because people disagree among themselves, without a majority."""
    n_other_values: int = 0
    """Trials left out because their label is none of the judge's categories."""
    disagreements: list[Disagreement] = Field(default_factory=list)
    note: str | None = None


class JudgementsView(Model):
    """Judgements of a job's trials, with the passes that made them."""

    job_id: str
    job_name: str
    runs: list[JudgeRunView] = Field(default_factory=list)
    """Newest first."""
    judgements: list[JudgementView] = Field(default_factory=list)
    """The newest of each trial and judge."""
    agreement: list[JudgeAgreement] = Field(default_factory=list)
    """Figures of each judge that has judged trials with labels."""
