"""`benchyard benchmark trends`, `benchmark insights` and `scenario history`: results over many jobs."""

import click

from benchyard.cli.connection import connect
from benchyard.cli.render import duration, echo_sentence, output_option, print_table, show, when
from benchyard.cli.run.trial_rescoring import noise_lines
from benchyard.cli.table import Narrow
from benchyard.client.lookup import find_benchmark, find_scenario
from benchyard.client.plain_text import clean
from benchyard.models.comparisons import EstimateView
from benchyard.models.reports.trends import (
    ChangeView,
    HistoryPoint,
    InsightsView,
    LeaderRow,
    ScenarioHistoryView,
    ScenarioInsight,
    TrendSeries,
    TrendsView,
)
from benchyard.reports.report_texts import estimate_text

_BAR = 21
_BAR_TITLE = "FROM 0 TO 1"
_SHOWN = 20


@click.command("trends")
@click.argument("given", metavar="ID|NAME")
@click.option("--agent", metavar="AGENT[:MODEL]", help="Only this agent.")
@output_option
def benchmark_trends(given: str, agent: str | None, output: str) -> None:
    """Show each agent on a benchmark over time, with what changed beyond chance.

    Each job is tested against the pooled jobs before it, paired by scenario and corrected for the number of
    jobs; costs and times alike. Runs made by the SDK count too.

    \b
      benchyard benchmark trends quickstart
      benchyard benchmark trends quickstart --agent codex:gpt-5 -o json
    """
    with connect() as client:
        view = client.benchmarks.trends(find_benchmark(client, given).id, agent)
    if output != "text":
        show(view, output, "")
        return
    _print_trends(view)


def _print_trends(view: TrendsView) -> None:
    if not view.series:
        click.echo("no job or run on it has ended; `benchyard job run --benchmark ...` makes one")
    for number, series in enumerate(view.series):
        if number:
            click.echo()
        click.echo(clean(series.agent_name))
        _print_series(series)
    if view.n_left_out:
        echo_sentence(f"{view.n_left_out} older jobs are left out")


def _print_series(series: TrendSeries) -> None:
    rows = []
    for point in series.points:
        changes = [("score", point.score_change), ("cost", point.cost_change), ("time", point.time_change)]
        rows.append(
            [
                when(point.time_ms)[:16],
                clean(point.name),
                clean(point.version or ""),
                _mean(point.score),
                estimate_bar(point.score),
                _cost(point.cost_usd),
                _time(point.working_ms),
                ", ".join(_change(name, each) for name, each in changes if each and each.is_change),
                _doubts(point.n_suspect, point.unscored),
            ]
        )
    titles = [
        "ENDED",
        "JOB",
        "VERSION",
        "MEAN (95 %)",
        _BAR_TITLE,
        "COST",
        "TIME",
        "CHANGE",
        "DOUBTS",
    ]
    kept = [at for at, title in enumerate(titles) if any(row[at] for row in rows)]
    narrow = Narrow(["JOB"], ["COST", "TIME", "VERSION", _BAR_TITLE])
    print_table([titles[at] for at in kept], [[row[at] for at in kept] for row in rows], narrow)
    for point in series.points:
        for note in point.notes:
            echo_sentence(f"! {clean(point.name)}: {clean(note)}")


def _change(name: str, change: ChangeView) -> str:
    better = change.difference > 0 if name == "score" else change.difference < 0
    amounts = {
        "score": f"{change.difference:+.3f}",
        "cost": f"{change.difference:+.4f}$",
        "time": f"{change.difference / 1000:+.1f}s",
    }
    return f"{name} {'better' if better else 'WORSE'} {amounts[name]}"


def estimate_bar(score: EstimateView | None) -> str:
    """Return an interval between 0 and 1 as a line of characters."""
    if score is None:
        return "." * _BAR
    ends = (score.mean if each is None else each for each in (score.low, score.mean, score.high))
    low, mean, high = map(_place, ends)
    cells = ["."] * _BAR
    cells[low : high + 1] = "=" * (high - low + 1)
    cells[low], cells[high] = "[", "]"
    cells[mean] = "o"
    return "".join(cells)


def _mean(score: EstimateView | None) -> str:
    return "-" if score is None else estimate_text(score)


def _place(value: float) -> int:
    return max(0, min(_BAR - 1, round(value * (_BAR - 1))))


def _cost(cost: EstimateView | None) -> str:
    return "" if cost is None else f"${cost.mean:.4f}"


def _time(time: EstimateView | None) -> str:
    return "" if time is None else duration(round(time.mean))


@click.command("insights")
@click.argument("given", metavar="ID|NAME")
@output_option
def benchmark_insights(given: str, output: str) -> None:
    """Show the leader board of a benchmark, what scenarios tell of agents, and what comparisons can show.

    Agents that cannot be told apart share their places. Scenarios that all agents pass or fail tell nothing
    of them; at a suspicious one, better agents do worse.

    \b
      benchyard benchmark insights quickstart
      benchyard benchmark insights quickstart -o json
    """
    with connect() as client:
        view = client.benchmarks.insights(find_benchmark(client, given).id)
    if output != "text":
        show(view, output, "")
        return
    _print_insights(view)


def _print_insights(view: InsightsView) -> None:
    if not view.leaders:
        click.echo("no job or run on it has a score; `benchyard job run --benchmark ...` makes one")
        return
    titles = ["PLACE", "AGENT", "MEAN (95 %)", _BAR_TITLE, "TRIALS", "COST", "TIME", "DOUBTS"]
    rows = [_leader(row) for row in view.leaders]
    kept = [at for at, title in enumerate(titles) if any(row[at] for row in rows)]
    narrow = Narrow(["AGENT"], ["TIME", "COST", "TRIALS", _BAR_TITLE])
    print_table([titles[at] for at in kept], [[row[at] for at in kept] for row in rows], narrow)
    for group in view.groups:
        if len(group) > 1:
            echo_sentence(f"cannot be told apart: {', '.join(clean(each) for each in group)}")
    if view.left_out:
        echo_sentence(f"with too few scenarios for a place: {', '.join(map(clean, view.left_out))}")
    _print_scenarios(view)
    if view.power:
        click.echo()
        _print_power(view)


def _doubts(n_suspect: int, unscored: int) -> str:
    counts = {"suspect": n_suspect, "unscored": unscored}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _leader(row: LeaderRow) -> list[str]:
    place = str(row.place) if row.best == row.worst else f"{row.place} ({row.best}-{row.worst})"
    cost = "" if row.cost_usd is None else f"${row.cost_usd:.4f}"
    time = "" if row.working_ms is None else duration(round(row.working_ms))
    bar = estimate_bar(row.score)
    doubts = _doubts(row.n_suspect, row.unscored)
    return [place, clean(row.label), _mean(row.score), bar, str(row.n_attempts), cost, time, doubts]


def _print_scenarios(view: InsightsView) -> None:
    kinds = {
        kind: sum(scenario.kind == kind for scenario in view.scenarios)
        for kind in ("saturated", "impossible", "suspicious")
    }
    click.echo()
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count) or "none stands out"
    click.echo(f"{len(view.scenarios)} scenarios, the hardest first: {told}")
    shown = view.scenarios[:_SHOWN]
    print_table(
        ["SCENARIO", "MEAN", "AGENTS", "TRIALS", "FLAKY", "TAU", ""],
        [_scenario(row) for row in shown],
        Narrow(["SCENARIO"], ["TRIALS", "FLAKY", "AGENTS"]),
    )
    if len(view.scenarios) > len(shown):
        click.echo(f"... and {len(view.scenarios) - len(shown)} more; -o json shows all")


def _scenario(row: ScenarioInsight) -> list[str]:
    return [
        clean(row.scenario_name),
        "-" if row.mean is None else f"{row.mean:.3f}",
        str(row.n_agents),
        str(row.n_attempts),
        str(row.n_flaky or ""),
        "" if row.tau is None else f"{row.tau:+.2f}",
        row.kind or "",
    ]


def _print_power(view: InsightsView) -> None:
    attempts = sorted({cell.attempts for cell in view.power})
    cells = {(cell.scenarios, cell.attempts): cell.detectable for cell in view.power}
    click.echo("differences that a comparison shows four times of five, by scenarios and attempts at each:")
    print_table(
        ["SCENARIOS", *(f"x{attempt}" for attempt in attempts)],
        [
            [str(size), *(f"{cells[size, attempt]:.3f}" for attempt in attempts)]
            for size in sorted({cell.scenarios for cell in view.power})
        ],
    )


@click.command("history")
@click.argument("given", metavar="ID|NAME")
@output_option
def scenario_history(given: str, output: str) -> None:
    """Show a scenario over all jobs and revisions: results of each agent, how flaky, how noisy its scorers.

    \b
      benchyard scenario history quickstart/fix-a-bug
      benchyard scenario history scn_4kY... -o json
    """
    with connect() as client:
        view = client.scenarios.history(find_scenario(client, given).id)
    if output != "text":
        show(view, output, "")
        return
    _print_history(view)


def _print_history(view: ScenarioHistoryView) -> None:
    click.echo(f"{clean(view.scenario_name)}  revision {view.revision}")
    if not view.agents:
        click.echo("no job or run of it has ended")
        return
    print_table(
        ["AGENT", "REVISION", "PASSED", "MEAN (95 %)", "JOBS", "FLAKY IN", "CONSISTENCY"],
        [
            [
                clean(agent.label),
                str(agent.revision or "-"),
                f"{agent.passed}/{agent.n_attempts}",
                _mean(agent.score),
                str(agent.n_jobs),
                str(agent.n_flaky or ""),
                "-" if agent.consistency is None else f"{agent.consistency:.2f}",
            ]
            for agent in view.agents
        ],
        Narrow(["AGENT"], ["CONSISTENCY", "JOBS", "REVISION"]),
    )
    click.echo()
    print_table(
        ["ENDED", "JOB OR RUN", "AGENT", "REVISION", "PASSED", ""],
        [_history_row(point) for point in view.points[-_SHOWN:]],
        Narrow(["JOB OR RUN", "AGENT"], ["REVISION"]),
    )
    if len(view.points) > _SHOWN:
        click.echo(f"the last {_SHOWN} of {len(view.points)}; -o json shows all")
    if view.scorer_noise is not None:
        click.echo()
        for line in noise_lines(view.scorer_noise):
            echo_sentence(line)


def _history_row(point: HistoryPoint) -> list[str]:
    doubts = _doubts(point.n_suspect, point.unscored)
    told = ", ".join(each for each in ("flaky" if point.is_flaky else "", doubts) if each)
    return [
        when(point.time_ms)[:16],
        clean(point.name),
        clean(point.label),
        str(point.revision or "-"),
        f"{point.passed}/{point.n_attempts}",
        told,
    ]
