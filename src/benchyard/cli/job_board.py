"""What is known of a job while it runs: kept from its events, drawn for a terminal of any size."""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchyard.cli.job_gate import rule_of
from benchyard.cli.render import clean
from benchyard.models.jobs import BenchmarkJobView, JobEvent, JobState
from benchyard.models.trials import AGENTS_OWN, ENDED_TRIALS, PASSED, SuspectRule, TrialState, TrialView

BUSY = (TrialState.PROVISIONING, TrialState.SETTING_UP, TrialState.RUNNING, TrialState.SCORING)
REMEMBERED = 100
_NEARLY = PASSED - 1e-9

_HINT = "Ctrl-C leaves this view; the job goes on"

Place = tuple[int, str, int]


class Board:
    """The present state of every trial; filled by one thread, drawn by another."""

    def __init__(self, view: BenchmarkJobView) -> None:
        self.view = view
        self.state: JobState = view.state
        self.is_away = False
        self.labels = [clean(config.label) for config in view.job_spec.agent_configs]
        self._trials: dict[Place, TrialView] = {}
        self._ended: deque[TrialView] = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()

    def note(self, event: JobEvent) -> bool:
        """Take an event in; False when it is old news."""
        with self._lock:
            if event.state is not None:
                self.state = event.state
            if event.trial is None:
                return True
            return self._note_trial(event.trial)

    def _note_trial(self, trial: TrialView) -> bool:
        place = (trial.agent, trial.scenario_id, trial.attempt)
        known = self._trials.get(place)
        if known is not None and known.retry > trial.retry:
            return False
        is_news = known is None or (known.retry, known.state, known.score) != (
            trial.retry,
            trial.state,
            trial.score,
        )
        self._trials[place] = trial
        if is_news and trial.state in ENDED_TRIALS:
            self._ended.append(trial)
        return is_news

    def label(self, agent: int) -> str:
        """What an agent is called."""
        return self.labels[agent] if 0 <= agent < len(self.labels) else f"agent {agent}"

    def line_of(self, event: JobEvent) -> str:
        """One line for a change, for logs."""
        message = f": {clean(event.message)}" if event.message else ""
        if event.trial is None:
            return f"job {self.view.id} is {event.state.value if event.state else 'there'}{message}"
        trial = event.trial
        return f"{self.label(trial.agent)}  {named(trial)}  {told(trial)}{message}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            trials, ended = list(self._trials.values()), list(self._ended)
        height = options.height or options.max_height
        agents = self._agents(trials, options.max_width)
        left = max(0, height - 5 - len(self.labels))
        busy = sorted(
            (each for each in trials if each.state in BUSY), key=lambda each: each.start_time_ms or 0
        )
        now = busy[: max(left // 2, left - len(ended))]
        recent = list(reversed(ended))[: max(0, left - len(now) - 1)]
        yield Group(self._head(), agents, Text(""), *_rows(self, now), *_gap(recent), *_rows(self, recent))
        yield self._foot()

    def _head(self) -> Text:
        since = self.view.start_time_ms or self.view.create_time_ms
        passed = duration(max(0, int(time.time() * 1000) - since))
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(clean(self.view.name), style="bold")
        head.append(f"  {self.state.value}  {passed}  {self.view.id}")
        return head

    def _foot(self) -> Text:
        text, style = ("the server is away, trying again", "bold yellow") if self.is_away else (_HINT, "dim")
        return Text(text, style=style, no_wrap=True, overflow="ellipsis")

    def refresh(self, view: BenchmarkJobView) -> None:
        """Take in how the server sees the job now."""
        with self._lock:
            self.view, self.state = view, view.state

    def _agents(self, trials: list[TrialView], width: int) -> Table:
        table = Table.grid(padding=(0, 2))
        total = len(self.view.job_spec.scenario_ids) * _attempts(self.view)
        for number, label in enumerate(self.labels):
            own = [each for each in trials if each.agent == number]
            done = sum(each.state in ENDED_TRIALS for each in own)
            bar = ProgressBar(total=max(total, 1), completed=done, width=max(4, min(30, width // 5)))
            told = tally(own, total, rule_of(self.view))
            text = Text(f"{done}/{total}  {told}", no_wrap=True, overflow="ellipsis")
            table.add_row(Text(label, no_wrap=True, overflow="ellipsis"), bar, text)
        return table


def tally(trials: Iterable[TrialView], total: int, rule: SuspectRule = "keep") -> str:
    """How many trials are in which state, and the mean so far; what nothing is heard of waits."""
    own = list(trials)
    count = Counter(each.state for each in own)
    scores = [score for each in own if (score := _counted(each, rule)) is not None]
    ended = sum(each.state in ENDED_TRIALS for each in own)
    busy = sum(count[state] for state in BUSY)
    parts = {
        "running": busy - count[TrialState.SCORING],
        "scoring": count[TrialState.SCORING],
        "waiting": max(0, total - ended - busy),
        "passed": sum(score >= _NEARLY for score in scores),
        "unscored": ended - len(scores),
        "suspect": sum(_is_suspect(each) for each in own),
    }
    told_ = [f"{amount} {name}" for name, amount in parts.items() if amount]
    mean = [f"mean {sum(scores) / len(scores):.3f}"] if scores else []
    return ", ".join([*told_, *mean])


def named(trial: TrialView) -> str:
    """A scenario, with the attempt where that is not the first."""
    attempt = f" #{trial.attempt}" if trial.attempt > 1 else ""
    retry = f" (try {trial.retry + 1})" if trial.retry else ""
    return f"{clean(trial.scenario_name)}{attempt}{retry}"


def told(trial: TrialView) -> str:
    """Where a trial is, and why."""
    return "  ".join(part for part in (_state(trial), _why(trial)) if part)


def duration(milliseconds: int | None) -> str:
    """A length of time for people."""
    if milliseconds is None:
        return ""
    if milliseconds < 10_000:
        return f"{milliseconds / 1000:.1f}s"
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"


def _rows(board: Board, trials: list[TrialView]) -> list[Text]:
    now = int(time.time() * 1000)
    found = []
    for each in trials:
        start = each.start_time_ms
        length = each.duration_ms if each.duration_ms is not None else (now - start if start else None)
        what = f"{board.label(each.agent)}  {named(each)}  {_why(each)}"
        text = f"{duration(length):>7}  {_state(each):<12}  {what}"
        style = "" if each.state in BUSY else "dim"
        found.append(Text(text, style=style, no_wrap=True, overflow="ellipsis"))
    return found


def _state(trial: TrialView) -> str:
    score = "" if trial.score is None else f"  {trial.score:g}"
    return trial.state.value.replace("_", " ") + score


def _why(trial: TrialView) -> str:
    parts = [f"ended by {trial.ended_by}"] if trial.ended_by else []
    if _is_suspect(trial):
        parts.append(f"suspect: {clean(trial.suspicions[0])}")
    if trial.failure is not None:
        parts.append(f"{trial.failure.kind}: {clean(trial.failure.exception_message)[:200]}")
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
