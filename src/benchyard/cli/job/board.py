"""The live state of a job: updated by its events, drawn for a terminal of any size."""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchyard.cli.job.gates import suspect_rule
from benchyard.cli.render import duration
from benchyard.cli.table import LEAST_NAME, shorten_name
from benchyard.client.plain_text import clean
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView, JobEvent, JobState, Preparation
from benchyard.models.trials import AGENTS_OWN, ENDED_TRIALS, PASSED, SuspectRule, TrialState, TrialView
from benchyard.reports.comparison import brief

BUSY = (TrialState.PROVISIONING, TrialState.SETTING_UP, TrialState.RUNNING, TrialState.SCORING)
REMEMBERED = 100
_WIDE = 100
"""Least columns of a terminal in which agents have their full labels."""
_PARTS = ("cache", "reasoning")
_LEAST_LEFT_MS = 1000
_NEARLY = PASSED - 1e-9

_HINT = "Ctrl-C leaves this view; the job goes on"

TrialPlace = tuple[int, str, int]


class JobBoard:
    """The present state of every trial; filled by one thread, drawn by another."""

    def __init__(self, view: BenchmarkJobView) -> None:
        self.view = view
        self.state: JobState = view.state
        self.is_away = False
        self.labels = [clean(config.label) for config in view.job_spec.agent_configs]
        self._brief = brief(self.labels)
        self._trials: dict[TrialPlace, TrialView] = {}
        self._ended: deque[TrialView] = deque(maxlen=REMEMBERED)
        self._preparations = {(each.name, each.start_time_ms): each for each in view.preparations}
        self._usage: dict[str, dict[str, float]] = {}
        """Usage of every trial, also of superseded ones: it was spent all the same."""
        self._clock_ms = 0
        self._lock = threading.Lock()

    def note(self, event: JobEvent) -> bool:
        """Apply an event; False if it changes nothing that is shown."""
        with self._lock:
            if event.state is not None:
                self.state = event.state
            if event.preparation is not None:
                key = event.preparation.name, event.preparation.start_time_ms
                self._preparations[key] = event.preparation
            if event.trial is None:
                return True
            self._usage[event.trial.id] = event.trial.usage
            return self._note_trial(event.trial)

    def _note_trial(self, trial: TrialView) -> bool:
        place = (trial.agent, trial.scenario_id, trial.attempt)
        known = self._trials.get(place)
        if known is not None and known.retry > trial.retry:
            return False
        is_news = known is None or _shown_of(known) != _shown_of(trial)
        self._trials[place] = trial
        if is_news and trial.state in ENDED_TRIALS:
            self._ended.append(trial)
        return is_news

    def _total(self) -> int:
        return len(self.labels) * len(self.view.job_spec.scenario_ids) * _attempts(self.view)

    def label(self, agent: int) -> str:
        """Return the label of an agent."""
        return self.labels[agent] if 0 <= agent < len(self.labels) else f"agent {agent}"

    def shorter_label(self, agent: int) -> str:
        """Return the label of an agent for narrow terminals."""
        label = self.label(agent)
        return self._brief.get(label, label)

    def line_of(self, event: JobEvent) -> str:
        """Return one line for a change, for logs."""
        message = f": {clean(event.message)}" if event.message else ""
        if event.preparation is not None:
            return preparation_text(event.preparation)
        if event.trial is None:
            return f"job {self.view.id} is {event.state.value if event.state else 'there'}{message}"
        trial = event.trial
        return f"{self.label(trial.agent)}  {scenario_label(trial)}  {state_text(trial)}{message}"

    def present(self) -> str:
        """Return the current activity in one line, for logs without a recent line."""
        now = int(time.time() * 1000)
        with self._lock:
            trials, usage = list(self._trials.values()), list(self._usage.values())
            preparing = [each for each in self._preparations.values() if each.end_time_ms is None]
        for each in preparing:
            return f"{preparation_text(each)}, {duration(max(0, now - each.start_time_ms))} so far"
        busy = [each for each in trials if each.state in BUSY]
        done = sum(each.state in ENDED_TRIALS for each in trials)
        left = time_left(self.view, trials, now)
        parts = [f"{done} of {self._total()} trials ended, {len(busy)} under way", *usage_text(usage)]
        if longest := min(busy, key=lambda each: each.start_time_ms or now, default=None):
            length = duration(max(0, now - (longest.start_time_ms or now)))
            parts.append(f"the longest: {scenario_label(longest)}  {state_text(longest)}  {length}")
        return ", ".join([*parts, *([f"about {duration(left)} left"] if left is not None else [])])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            trials, ended = list(self._trials.values()), list(self._ended)
            preparing = [each for each in self._preparations.values() if each.end_time_ms is None]
            usage = list(self._usage.values())
        height = options.height or options.max_height
        agents = self._agents(trials, options.max_width)
        if self.state in ENDED_JOBS:
            preparing = []
        left = max(0, height - 6 - len(self.labels) - len(preparing))
        busy = sorted(
            (each for each in trials if each.state in BUSY), key=lambda each: each.start_time_ms or 0
        )
        now = busy[: max(left // 2, left - len(ended))]
        recent = list(reversed(ended))[: max(0, left - len(now) - 1)]
        yield Group(
            self._head(),
            self._figures(trials, usage),
            agents,
            Text(""),
            *(_preparation_row(each) for each in preparing),
            *_rows(self, now, options.max_width),
            *_gap(recent),
            *_rows(self, recent, options.max_width),
        )
        yield self._foot()

    def _head(self) -> Text:
        since = self.view.resume_time_ms or self.view.create_time_ms
        # Clocks may be adjusted, and the server's may differ: the time that is shown never decreases.
        self._clock_ms = max(self._clock_ms, int(time.time() * 1000) - since)
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(clean(self.view.name), style="bold")
        head.append(f"  {self.state.value}  {duration(self._clock_ms)}  {self.view.id}")
        return head

    def _figures(self, trials: list[TrialView], usage: list[dict[str, float]]) -> Text:
        """Return the number of finished trials, their usage so far, and the estimated time left."""
        done = sum(each.state in ENDED_TRIALS for each in trials)
        left = time_left(self.view, trials, int(time.time() * 1000))
        parts = [
            f"{done} of {self._total()} trials",
            *usage_text(usage),
            *([f"about {duration(left)} left"] if left is not None else []),
        ]
        return Text("  ".join(parts), no_wrap=True, overflow="ellipsis")

    def _foot(self) -> Text:
        text, style = ("the server is away, trying again", "bold yellow") if self.is_away else (_HINT, "dim")
        return Text(text, style=style, no_wrap=True, overflow="ellipsis")

    def refresh(self, view: BenchmarkJobView) -> None:
        """Take over the server's present view of the job."""
        with self._lock:
            self.view, self.state = view, view.state

    def _agents(self, trials: list[TrialView], width: int) -> Table:
        table = Table.grid(padding=(0, 2))
        total = len(self.view.job_spec.scenario_ids) * _attempts(self.view)
        for number, label in enumerate(self.labels):
            own = [each for each in trials if each.agent == number]
            done = sum(each.state in ENDED_TRIALS for each in own)
            share = width // (5 if width >= _WIDE else 8)
            bar = ProgressBar(total=max(total, 1), completed=done, width=max(4, min(30, share)))
            told = tally(own, total, suspect_rule(self.view))
            text = Text(f"{done}/{total}  {told}", no_wrap=True, overflow="ellipsis")
            if width < _WIDE:
                label = shorten_name(self.shorter_label(number), max(LEAST_NAME, width // 3))
            table.add_row(Text(label, no_wrap=True, overflow="ellipsis"), bar, text)
        return table


def tally(trials: Iterable[TrialView], total: int, rule: SuspectRule = "keep") -> str:
    """Return the mean so far, and the number of trials in each state; unknown trials count as waiting.

    The most important figures come first: a narrow terminal cuts off the end.
    """
    own = list(trials)
    count = Counter(each.state for each in own)
    scores = [score for each in own if (score := _counted(each, rule)) is not None]
    ended = sum(each.state in ENDED_TRIALS for each in own)
    busy = sum(count[state] for state in BUSY)
    crashed = sum(each.outcome == "crashed" for each in own)
    parts = {
        "passed": sum(score >= _NEARLY for score in scores),
        "not passed": sum(score < _NEARLY for score in scores) - crashed,
        "crashed": crashed,
        "unscored": ended - len(scores),
        "suspect": sum(_is_suspect(each) for each in own),
        "running": busy - count[TrialState.SCORING],
        "scoring": count[TrialState.SCORING],
        "waiting": max(0, total - ended - busy),
    }
    told_ = [f"{amount} {name}" for name, amount in parts.items() if amount]
    mean = [f"mean {sum(scores) / len(scores):.3f}"] if scores else []
    return ", ".join([*mean, *told_])


def usage_text(usage: Iterable[Mapping[str, float]]) -> list[str]:
    """Return tokens and cost of trials, in words; the cost only if it is known of every trial with usage."""
    asked = [each for each in usage if each]
    tokens = sum(amount_text(each, "tokens") or 0 for each in asked)
    costs = [amount_text(each, "cost") for each in asked]
    known = [cost for cost in costs if cost is not None]
    found = [f"{tokens:,.0f} tokens"] if tokens else []
    return [*found, f"${sum(known):.4f}"] if known and len(known) == len(costs) else found


def amount_text(usage: Mapping[str, float], kind: str) -> float | None:
    """Return the sum of all `cost` or `tokens`; cached and reasoning tokens are parts of the others."""
    found = [
        each
        for name, each in usage.items()
        if kind in name.lower() and not any(part in name.lower() for part in _PARTS)
    ]
    return sum(found) if found else None


def time_left(view: BenchmarkJobView, trials: Sequence[TrialView], now_ms: int) -> int | None:
    """Estimate the milliseconds left from the trials that have ended; None without a basis."""
    total = len(view.job_spec.scenario_ids) * _attempts(view)
    busy = [each for each in trials if each.state in BUSY]
    work = longest = 0.0
    for agent in range(len(view.job_spec.agent_configs)):
        own = [each for each in trials if each.agent == agent]
        lengths = [each.working_ms for each in own if each.state in ENDED_TRIALS and each.working_ms]
        begun = [each for each in own if each.state in BUSY]
        waiting = total - sum(each.state in ENDED_TRIALS for each in own) - len(begun)
        if not begun and waiting <= 0:
            continue
        if not lengths:
            return None
        mean = sum(lengths) / len(lengths)
        left = [max(0.0, mean - (now_ms - (each.start_time_ms or now_ms))) for each in begun]
        work += sum(left) + mean * max(0, waiting)
        longest = max(longest, *left, mean if waiting > 0 else 0.0)
    if not busy:
        return None
    found = int(max(longest, work / len(busy)))
    return found if found >= _LEAST_LEFT_MS else None


def preparation_text(preparation: Preparation) -> str:
    """Return an install in words, with the time it took."""
    what = clean(preparation.what)
    if preparation.end_time_ms is None:
        return f"installing {what}"
    took = duration(preparation.end_time_ms - preparation.start_time_ms)
    if preparation.failure:
        return f"could not install {what} after {took}"
    return f"installed {what} in {took}"


def scenario_label(trial: TrialView) -> str:
    """Return the name of a scenario, with the number of an attempt after the first."""
    attempt = f" #{trial.attempt}" if trial.attempt > 1 else ""
    retry = f" (try {trial.retry + 1})" if trial.retry else ""
    return f"{clean(trial.scenario_name)}{attempt}{retry}"


def state_text(trial: TrialView) -> str:
    """Return the state of a trial, and the reason."""
    return "  ".join(part for part in (_state(trial), _why(trial)) if part)


def _rows(board: JobBoard, trials: list[TrialView], width: int) -> list[Text]:
    now = int(time.time() * 1000)
    found = []
    for each in trials:
        start = each.start_time_ms
        length = each.working_ms if each.working_ms is not None else (now - start if start else None)
        before = f"{duration(length):>7}  {_state(each):<12}  "
        label = board.label(each.agent) if width >= _WIDE else board.shorter_label(each.agent)
        what = _who_and_what(label, scenario_label(each), width - cell_len(before))
        text = f"{before}{what}  {_why(each)}".rstrip()
        style = "" if each.state in BUSY else "dim"
        found.append(Text(text, style=style, no_wrap=True, overflow="ellipsis"))
    return found


def _who_and_what(label: str, name: str, room: int) -> str:
    """Return agent and scenario in one line; in little room both are shortened but stay distinct."""
    gap = "  "
    if cell_len(label + gap + name) > room:
        label = shorten_name(label, max(LEAST_NAME, room - cell_len(gap + name)))
        name = shorten_name(name, max(LEAST_NAME, room - cell_len(label + gap)))
    return f"{label}{gap}{name}"


def _preparation_row(preparation: Preparation) -> Text:
    length = max(0, int(time.time() * 1000) - preparation.start_time_ms)
    return Text(f"{duration(length):>7}  {preparation_text(preparation)}", no_wrap=True, overflow="ellipsis")


def _shown_of(trial: TrialView) -> tuple[object, ...]:
    return trial.retry, trial.state, trial.score, trial.activity


def _state(trial: TrialView) -> str:
    """Return the stage of a trial, or its outcome in the words of the summary."""
    score = "" if trial.score is None else f"  {trial.score:g}"
    return (trial.outcome or trial.state.value).replace("_", " ") + score


def _why(trial: TrialView) -> str:
    parts = [clean(trial.activity)] if trial.activity and trial.state in BUSY else []
    parts += [f"ended by {trial.ended_by}"] if trial.ended_by else []
    if _is_suspect(trial):
        parts.append(f"suspect: {clean(trial.suspicions[0])}")
    if trial.failure is not None:
        parts.append(clean(trial.failure.told)[:200])
    if trial.answer_failure is not None:
        parts.append(f"answer: {clean(trial.answer_failure)[:200]}")
    return "  ".join(parts)


def _gap(after: list[TrialView]) -> list[Text]:
    return [Text("ended:", style="dim")] if after else []


def _attempts(view: BenchmarkJobView) -> int:
    config = view.job_spec.orchestrator_config
    return config.attempts if config else 1


def _is_suspect(trial: TrialView) -> bool:
    return trial.state is TrialState.COMPLETED and bool(trial.suspicions) and bool(trial.score)


def _counted(trial: TrialView, rule: SuspectRule) -> float | None:
    if trial.state is TrialState.COMPLETED:
        return 0.0 if rule == "zero" and _is_suspect(trial) else trial.score
    is_own = trial.state in ENDED_TRIALS and trial.failure and trial.failure.kind in AGENTS_OWN
    return 0.0 if is_own else None
