"""`benchyard job summary`: the results of a job, agent by agent, and side by side."""

import gc
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.board import amount_text
from benchyard.cli.job.gates import (
    BELOW,
    SUSPECT,
    UNSCORED,
    check_gates,
    exit_statuses,
    fail_under_option,
    max_unscored_option,
    require_good,
    suspect_option,
)
from benchyard.cli.job.names import find_job
from benchyard.cli.render import (
    command_text,
    duration,
    echo_sentence,
    facts,
    marked_score,
    output_option,
    pairs,
    print_table,
    score_text,
    show,
    when,
)
from benchyard.cli.table import Narrow
from benchyard.client.plain_text import clean
from benchyard.errors import UsageError
from benchyard.models.job_plans import count_text
from benchyard.models.jobs import (
    AgentProgress,
    AttemptOutcome,
    BenchmarkJobView,
    BenchmarkOutcome,
    JobTimes,
    ScenarioOutcome,
)
from benchyard.models.trials import AGENTS_OWN, ENDED_TRIALS, FailureReason, SuspectRule
from benchyard.reports.comparison import (
    ScenarioComparison,
    agent_labels,
    brief,
    compare_agents,
    counted_score,
    differences_to_first,
    suspects,
    why_suspect,
)

SHOWN_DIFFERENCES = 20
_MOST_TESTED = 10
_COST = "cost"
_LEAST_TOLD_MS = 1000
_MOST_CONDITIONS = 5
_LOAD = re.compile(r".*the machine's load was (?P<load>[0-9]{1,9}) on (?P<cores>[0-9]{1,9}) cores")
_TOKENS = "tokens"


@click.command(epilog=exit_statuses(0, 2, 4, BELOW, SUSPECT, UNSCORED, s0="all gates passed"))
@click.argument("given", metavar="ID|NAME")
@click.option("-e", "--extended", is_flag=True, help="Also show each scenario.")
@click.option(
    "--without-scenarios",
    is_flag=True,
    help="Leave the results of single scenarios out, which makes the JSON of a large job small.",
)
@fail_under_option()
@max_unscored_option()
@suspect_option("What becomes of suspect scores, instead of what the job says")
@output_option
def summary(
    given: str,
    extended: bool,
    without_scenarios: bool,
    fail_under: float | None,
    max_unscored: tuple[float, bool],
    suspect: SuspectRule | None,
    output: str,
) -> None:
    """Show the results of a job: for each agent the attempts by outcome, and the mean score.

    PASSED, NOT PASSED, CRASHED and UNSCORED count attempts. The mean counts crashed attempts as 0 and leaves
    out unscored ones, whose cause is the infrastructure, a scorer or a cancel. Its 95 % interval is over
    scenarios. OF COMPLETED is the mean of the completed attempts, where that differs. WITH UNSCORED has the
    means if all unscored attempts had failed, and had passed. PASS@K is the chance that any of k attempts
    passes, PASS^K that all do. `benchyard job report` has the intervals of all of them.
    SUSPECT counts scores that may not be earned; -e says why, and `--suspect zero` counts them as 0.

    \b
      benchyard job summary my-job
      benchyard job summary my-job -e
      benchyard job summary my-job -o json
      benchyard job summary my-job --without-scenarios -o json
      benchyard job summary my-job --suspect zero --fail-under 0.8
    """
    check_gates(fail_under, max_unscored)
    if without_scenarios and (extended or fail_under is not None or suspect == "fail"):
        raise UsageError("--without-scenarios goes neither with -e nor with gates, which look at scenarios")
    with connect() as client, _nothing_collected():
        view = find_job(client, given, scenarios=not without_scenarios)
        if suspect is not None:
            view = client.jobs.get(view.id, suspect=suspect, scenarios=not without_scenarios)
    if output == "text":
        summarize(view, extended=extended)
    else:
        show(view, output, "")
    if not without_scenarios and (fail_under is not None or suspect is not None):
        require_good(view, fail_under, suspect, max_unscored)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Pause garbage collection: with the many values of a large job it takes half of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def summarize(view: BenchmarkJobView, *, extended: bool) -> None:
    """Print a job for people."""
    click.echo(_head(view))
    names = [clean(each) for each in agent_labels(view.benchmark_outcomes)]
    done = {each.benchmark_run_id for each in view.benchmark_outcomes}
    going = [each for each in view.progress if each.benchmark_run_id not in done]
    if going:
        click.echo()
        titles = ["AGENT", "DONE", "MEAN SO FAR", "UNSCORED", "SUSPECT", "RETRIES"]
        print_table(titles, [_going(each) for each in going], Narrow(["AGENT"], ["RETRIES", "SUSPECT"]))
    if not view.benchmark_outcomes:
        return
    click.echo()
    _print_agents(names, view.benchmark_outcomes)
    if extended:
        _print_scenarios(names, view.benchmark_outcomes)
        _print_next(view, extended=True)
        return
    _print_reasons(view.benchmark_outcomes)
    _print_suspects(view.benchmark_outcomes)
    if len(names) > 1:
        _print_differences(names, view.benchmark_outcomes)
    _print_next(view)


def _head(view: BenchmarkJobView) -> str:
    source = view.job_source
    end = view.end_time_ms
    times = view.times or JobTimes()
    whole = end - view.start_time_ms if end and view.start_time_ms else None
    return facts(
        {
            "job": view.id,
            "name": view.name,
            "state": view.state.value,
            "reason": view.failure_reason,
            "benchmark": source.benchmark_name or source.benchmark_id,
            "scenarios": len(view.job_spec.scenario_ids),
            "metadata": pairs(view.metadata),
            "created": when(view.create_time_ms),
            "took": duration(times.working_ms if view.times and whole is not None else whole),
            "preparing": _apart(times.preparing_ms),
            "waiting": _apart(times.waiting_ms),
            "idle": _apart(times.idle_ms),
            "rescored": _rescored(view),
        }
    )


def _apart(milliseconds: int | None) -> str | None:
    """Return a time in which no trial ran, if it is long enough for a line."""
    return duration(milliseconds) if milliseconds and milliseconds >= _LEAST_TOLD_MS else None


def _rescored(view: BenchmarkJobView) -> str | None:
    again = view.rescoring
    if again is None:
        return None
    text = f"{len(again.trial_ids)} of its trials, {view.rescoring_state or 'running'}"
    if again.pruned:
        text += f"; not kept any more: {', '.join(again.pruned)}"
    return text


def _going(progress: AgentProgress) -> list[str]:
    ended = sum(count for state, count in progress.by_state.items() if state in ENDED_TRIALS)
    model = f":{progress.model_name}" if progress.model_name else ""
    return [
        clean(progress.agent_name + model),
        f"{ended}/{progress.n_trials}",
        score_text(progress.mean_score),
        str(progress.unscored),
        str(progress.n_suspect),
        str(progress.retries),
    ]


_AGENT_COLUMNS: Mapping[str, Callable[[BenchmarkOutcome], str]] = {
    "PASSED": lambda each: _share(each.attempts.passed, each),
    "NOT PASSED": lambda each: _share(each.attempts.not_passed, each),
    "CRASHED": lambda each: _share(each.attempts.crashed, each),
    "UNSCORED": lambda each: _share(each.attempts.unscored, each) if each.attempts.unscored else "",
    "MEAN (95 %)": lambda each: _interval(each),
    "OF COMPLETED": lambda each: _of_completed(each),
    "SUSPECT": lambda each: _suspect(each),
    "WITH UNSCORED": lambda each: _score_bounds(each),
    "PASS@K (ANY)": lambda each: _chances(each, each.pass_at_k, "@"),
    "PASS^K (ALL)": lambda each: _chances(each, each.pass_all_k, "^"),
    "REWARDS": lambda each: _rewards(each.rewards),
    "TOKENS": lambda each: _amount(each, _TOKENS),
    "COST": lambda each: _amount(each, _COST),
    "DURATION": lambda each: duration(each.duration_ms),
}
_MOST_REWARDS = 4
_CLOSE = 1e-6
_MOST_REASONS = 3
_LONGEST_REASON = 800
_VARYING = re.compile(
    r"(?<=[\w.\]]):[0-9]{4,5}\b"
    r"|\b[a-z]{2,4}_[0-9A-Za-z]{8,}\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
)
"""Parts of failure messages that differ between attempts with the same reason: ports and ids."""
_ONLY_WHEN_KNOWN = (
    *("UNSCORED", "OF COMPLETED", "SUSPECT", "WITH UNSCORED", "PASS@K (ANY)", "PASS^K (ALL)"),
    *("REWARDS", "TOKENS", "COST"),
)
_DROPPED = [
    *("OF COMPLETED", "WITH UNSCORED", "REWARDS", "TOKENS", "DURATION"),
    *("PASS^K (ALL)", "PASS@K (ANY)", "COST"),
]
_NARROW_SCENARIOS = Narrow(shorten=["SCENARIO"], drop=["ROUNDS", "ATTEMPTS", "DURATION"])


def _print_agents(names: Sequence[str], outcomes: Sequence[BenchmarkOutcome]) -> None:
    columns = {
        title: [cell(each) for each in outcomes]
        for title, cell in _AGENT_COLUMNS.items()
        if title not in _ONLY_WHEN_KNOWN or any(cell(each) for each in outcomes)
    }
    narrow = Narrow(shorten=["AGENT"], drop=_DROPPED, brief=brief(names), goes_on=True)
    print_table(["AGENT", *columns], zip(names, *columns.values(), strict=True), narrow)


def _print_scenarios(names: Sequence[str], outcomes: Sequence[BenchmarkOutcome]) -> None:
    if len(names) > 1:
        click.echo()
        _print_compared(names, compare_agents(outcomes))
    for name, outcome in zip(names, outcomes, strict=True):
        click.echo(f"\n{name}")
        titles = ["SCENARIO", "OUTCOME", "SCORE", "ATTEMPTS", "DURATION", "WHY"]
        rows = [_scenario(row) for row in outcome.scenario_outcomes]
        rounds = [_rounds(row) for row in outcome.scenario_outcomes]
        if any(rounds):
            titles.insert(3, "ROUNDS")
            for row, told in zip(rows, rounds, strict=True):
                row.insert(3, clean(told))
        print_table(titles, rows, _NARROW_SCENARIOS)


def _print_reasons(outcomes: Sequence[BenchmarkOutcome]) -> None:
    """Print the reasons of crashed and unscored attempts: each once, the most frequent first."""
    counts: Counter[str] = Counter()
    wordings: dict[str, str] = {}
    for each in outcomes:
        for row in each.scenario_outcomes:
            for word, reason in _reasons(row):
                # The name of the build or devbox, which differs each time, stands at the end.
                told = f"{word}: {reason.told.partition('; see `')[0]}"
                same = _VARYING.sub("", told)
                counts[same] += 1
                wordings.setdefault(same, told)
    if counts:
        click.echo()
    for same, count in counts.most_common(_MOST_REASONS):
        echo_sentence(f"{count} {clean(wordings[same][:_LONGEST_REASON])}")
    if len(counts) > _MOST_REASONS:
        more = count_text(len(counts) - _MOST_REASONS, "other reason")
        click.echo(f"... and {more}; -e shows all")


def _reasons(row: ScenarioOutcome) -> Iterator[tuple[str, FailureReason]]:
    """Yield the outcome and the reason of each attempt that ended without a result."""
    counting = [each for each in row.attempts if not each.is_superseded]
    for each in counting:
        if each.failure_reason is not None:
            yield each.outcome or "unscored", each.failure_reason
    if not counting and row.failure_reason is not None:
        # Servers of other makes give no further details.
        yield "crashed" if row.failure_reason.kind in AGENTS_OWN else "unscored", row.failure_reason


def _print_suspects(outcomes: Sequence[BenchmarkOutcome]) -> None:
    """Print the suspect scores, and the reasons."""
    found = suspects(outcomes)
    if found:
        click.echo()
    for each in found[:_MOST_REASONS]:
        told = f"{each.label}  {each.scenario_name}  suspect: {each.why[:_LONGEST_REASON]}"
        echo_sentence(clean(told))
    if len(found) > _MOST_REASONS:
        click.echo(f"... and {len(found) - _MOST_REASONS} more that are suspect; -e shows all")


def _print_next(view: BenchmarkJobView, *, extended: bool = False) -> None:
    """Print the commands that explain the attempts that did not pass."""
    counts = [each.attempts for each in view.benchmark_outcomes]
    if any(each.not_passed or each.crashed or each.unscored for each in counts):
        lines = [""] if extended else ["", *command_text(f"benchyard job summary {view.id} -e", "why:  ")]
        if name := _worst_scenario(view.benchmark_outcomes):
            lines += command_text(f"benchyard trial show {view.id} {shlex.quote(clean(name))}", "one:  ")
        lines += command_text(f"benchyard job problems {view.id}", "all:  ")
        click.echo("\n".join([*lines, *command_text(f"benchyard job logs {view.id}", "logs: ")]))


def _worst_scenario(outcomes: Sequence[BenchmarkOutcome]) -> str | None:
    """Return the first scenario with a crashed attempt, else a failed one, else an unscored one."""
    found: dict[str, str] = {}
    for each in outcomes:
        for row in each.scenario_outcomes:
            for attempt in row.attempts:
                if attempt.outcome and not attempt.is_superseded:
                    found.setdefault(attempt.outcome, row.scenario_name)
    return next((found[kind] for kind in ("crashed", "not_passed", "unscored") if kind in found), None)


def _print_differences(names: Sequence[str], outcomes: Sequence[BenchmarkOutcome]) -> None:
    click.echo()
    tested = differences_to_first(outcomes)
    for each in tested[:_MOST_TESTED]:
        told = "more than chance" if each.is_real else "may be chance"
        if each.is_real and not each.is_general:
            told += " on these scenarios, which are too few to tell of others"
        echo_sentence(
            f"{clean(each.label)} against {clean(each.first)}: {each.text}, p = {_p(each.p)} on"
            f" {count_text(each.n, 'scenario')}: {told}"
        )
    if len(tested) > _MOST_TESTED:
        click.echo(f"... and {count_text(len(tested) - _MOST_TESTED, 'other agent')}; `job report` has all")
    differing = sorted((row for row in compare_agents(outcomes) if row.differs), key=lambda row: -row.spread)
    if differing:
        click.echo("\nscenarios whose scores differ most, each of which may be chance:")
        _print_compared(names, differing[:SHOWN_DIFFERENCES])
    if len(differing) > SHOWN_DIFFERENCES:
        click.echo(f"... and {len(differing) - SHOWN_DIFFERENCES} more; -e shows all")


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def _print_compared(names: Sequence[str], rows: Sequence[ScenarioComparison]) -> None:
    table = []
    for row in rows:
        cells = [
            marked_score(score, is_suspect=is_suspect) if score is not None else "unscored" if state else "-"
            for score, state, is_suspect in zip(row.scores, row.states, row.suspect, strict=True)
        ]
        table.append([clean(row.scenario_name), *cells])
    print_table(["SCENARIO", *names], table, Narrow(["SCENARIO", *names], brief=brief(names)))


def _scenario(row: ScenarioOutcome) -> list[str]:
    reason = row.failure_reason
    ends = sorted({each.ended_by for each in row.attempts if each.ended_by and not each.is_superseded})
    why = [_told_suspect(row, told)] if (told := why_suspect(row)) else []
    why += [f"ended by {', '.join(ends)}"] if ends else []
    counting = [each for each in row.attempts if not each.is_superseded]
    why += _failures(counting)
    if reason is not None and not any(each.failure_reason for each in counting):
        why.append(reason.told[:200])
    failures = [each.answer_failure for each in counting if each.answer_failure]
    why += [f"answer: {failure[:200]}" for failure in failures[:1]]
    if (counted_score(row) or 0.0) < 1.0:
        notes = [each.scorer_note for each in counting if each.scorer_note and not each.answer_failure]
        why += notes[:1]
        lines = [line for each in counting for line in each.conditions]
        why += conditions_once(lines)[:_MOST_CONDITIONS]
    return [
        clean(row.scenario_name),
        _kinds(row, counting),
        marked_score(counted_score(row), is_suspect=row.n_suspect > 0),
        str(sum(not each.is_superseded for each in row.attempts)),
        duration(row.duration_ms if row.working_ms is None else row.working_ms),
        clean("; ".join(why)),
    ]


def conditions_once(lines: Sequence[str]) -> list[str]:
    """Return the conditions of several attempts, each once; of the machine's load, the highest."""
    found: dict[str, str] = {}
    loads: dict[str, int] = {}
    for line in lines:
        if load := _LOAD.fullmatch(line):
            key = f"load on {load['cores']}"
            loads[key] = max(loads.get(key, 0), int(load["load"]))
            found[key] = f"the machine's load was up to {loads[key]} on {load['cores']} cores"
        else:
            found[line] = line
    return list(found.values())


def _kinds(row: ScenarioOutcome, counting: Sequence[AttemptOutcome]) -> str:
    """Return the outcome of the attempts in a word, or their counts if they differ."""
    counts = Counter(each.outcome.replace("_", " ") for each in counting if each.outcome)
    if not counts:
        # Servers of other makes give no further details.
        return row.state.lower()
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _failures(counting: Sequence[AttemptOutcome]) -> list[str]:
    """Return the reasons of attempts without a result: each once, with the number of its attempts."""
    reasons = [each.failure_reason for each in counting if each.failure_reason]
    counts = Counter(each.told[:200] for each in reasons)
    of = f" of {len(counting)} attempts: " if len(counting) > 1 else ""
    return [f"{count if of else ''}{of}{reason}" for reason, count in counts.most_common(_MOST_REASONS)]


def _told_suspect(row: ScenarioOutcome, why: str) -> str:
    """Return the reason of a suspicion, with the original scores if they count differently."""
    given = [each.score for each in row.attempts if each.score is not None and not each.is_superseded]
    is_changed = bool(given) and row.score is not None and abs(sum(given) / len(given) - row.score) > _CLOSE
    scores = f" (scored {', '.join(score_text(each) for each in given)})" if is_changed else ""
    return f"suspect{scores}: {why}"


def _score_bounds(outcome: BenchmarkOutcome) -> str:
    """Return the means with all unscored attempts failed, and passed."""
    bounds = outcome.score_bounds
    return "" if bounds is None else f"{bounds[0]:.3f} to {bounds[1]:.3f}"


def _chances(outcome: BenchmarkOutcome, chances: Mapping[str, float], mark: str) -> str:
    """Return chances by k; those that not all scored scenarios have enough attempts for say how many had."""
    most = max(outcome.pass_scenarios.values(), default=0)
    told = []
    for k, share in chances.items():
        count = outcome.pass_scenarios.get(k, most)
        told.append(f"{mark}{k} {share:.3f}" + (f" of {count}" if count < most else ""))
    return "  ".join(told)


def _suspect(outcome: BenchmarkOutcome) -> str:
    if not outcome.n_suspect:
        return ""
    return f"{outcome.n_suspect} (count 0)" if outcome.suspect == "zero" else str(outcome.n_suspect)


def _rounds(row: ScenarioOutcome) -> str:
    """Return the score of each round, attempt by attempt."""
    counting = [each for each in row.attempts if each.rounds and not each.is_superseded]
    told = (
        ", ".join(f"{each.name or each.number} {score_text(each.score)}" for each in attempt.rounds)
        for attempt in counting
    )
    return "; ".join(told)


def _rewards(rewards: Mapping[str, float]) -> str:
    """Return the first few rewards as text; some scenarios have one for each of their parts."""
    shown = [f"{clean(name)} {mean:.3g}" for name, mean in list(rewards.items())[:_MOST_REWARDS]]
    more = len(rewards) - len(shown)
    return "  ".join([*shown, f"and {more} more"] if more else shown)


def _share(count: int, outcome: BenchmarkOutcome) -> str:
    return f"{count} ({count / outcome.n_trials:.0%})" if outcome.n_trials else str(count)


def _of_completed(outcome: BenchmarkOutcome) -> str:
    """Return the mean of the completed attempts, if it differs from the mean."""
    told = score_text(outcome.average_score)
    return "" if told == score_text(outcome.mean_score) else told


def _interval(outcome: BenchmarkOutcome) -> str:
    if outcome.mean_score is None or outcome.mean_low is None or outcome.mean_high is None:
        return score_text(outcome.mean_score)
    return f"{outcome.mean_score:.3f} ({outcome.mean_low:.3f} to {outcome.mean_high:.3f})"


def _amount(outcome: BenchmarkOutcome, kind: str) -> str:
    found = amount_text(outcome.usage, kind)
    if found is None:
        return ""
    return f"${found:.4f}" if kind == _COST else f"{found:,.0f}"
