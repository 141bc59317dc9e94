"""`benchyard job report`: every figure of a job with its interval, and what would make it surer."""

from collections.abc import Sequence
from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.gates import suspect_option
from benchyard.cli.job.names import of_job
from benchyard.cli.job.output_files import replace_text
from benchyard.cli.render import duration, echo_sentence, facts, output_option, print_table, show, when
from benchyard.cli.table import Narrow, terminal_width
from benchyard.client.plain_text import clean
from benchyard.models.job_plans import count_text
from benchyard.models.reports.job_report import AgentReport, AmountView, PowerReport, ReportView, StageTime
from benchyard.models.trials import SuspectRule
from benchyard.reports.report_texts import (
    against_texts,
    amount_text,
    curve_rows,
    estimate_text,
    finding_text,
    findings,
    group_texts,
    interval_bar,
    markdown,
    p_text,
    power_text,
    rank_text,
    variance_text,
)

_SHOWN = 10
_FEW_AGENTS = 3
_WIDE = 100
_BAR = 33
_SHORT_NAME = 24


md_option = click.option(
    "--md", type=click.Path(path_type=Path), metavar="FILE", help="Write Markdown to a file; - prints it."
)
cluster_option = click.option(
    "--cluster",
    metavar="KEY",
    help="Metadata key of scenarios, such as repo: those with the same value may succeed and fail together.",
)


@click.command()
@click.argument("given", metavar="ID|NAME")
@md_option
@cluster_option
@suspect_option("What becomes of suspect scores, instead of what the job says")
@output_option
def report(
    given: str, md: Path | None, cluster: str | None, suspect: SuspectRule | None, output: str
) -> None:
    """Report on a job: means with their 95 % intervals, ranks, pass@k and pass^k, costs, flaky scenarios.

    Says which agents cannot be told apart, how large a difference such a job shows, and how many attempts or
    scenarios would show 2 points. Unscored attempts are left out of the mean; the bounds say what they could
    change.

    \b
      benchyard job report my-job
      benchyard job report my-job --cluster repo
      benchyard job report my-job --md report.md
      benchyard job report my-job -o json
    """
    with connect() as client:
        view = of_job(client, given, lambda id: client.jobs.report(id, cluster=cluster, suspect=suspect))
    show_report(view, md, output)


def show_report(view: ReportView, md: Path | None, output: str) -> None:
    """Print a report, or write it as Markdown."""
    if md is not None and str(md) != "-":
        replace_text(md, markdown(view))
    if md is not None and str(md) == "-":
        click.echo(markdown(view), nl=False)
    elif output != "text":
        show(view, output, "")
    elif md is not None:
        click.echo(str(md))
    else:
        print_report(view)


def print_report(view: ReportView) -> None:
    """Print a report for people."""
    click.echo(_head(view))
    if view.agents:
        click.echo()
        _print_agents(view)
    _print_curves(view)
    _print_stages(view)
    if view.power is not None:
        _print_power(view.power)
    _print_findings(view)
    if view.notes:
        click.echo()
    for note in view.notes:
        echo_sentence(f"! {clean(note)}")


def _head(view: ReportView) -> str:
    took = None if view.end_time_ms is None else duration(view.end_time_ms - view.create_time_ms)
    apart = "; ".join(clean(group) for group in group_texts(view))
    return facts(
        {
            view.kind.rpartition(" ")[2]: view.id,
            "name": clean(view.name),
            "state": view.state,
            "benchmark": clean(view.benchmark_name) if view.benchmark_name else None,
            "size": f"{count_text(view.n_scenarios, 'scenario')} x {view.n_attempts}, "
            f"{view.n_ended} of {view.n_planned} attempts have ended",
            "created": when(view.create_time_ms),
            "took": took,
            "cluster": view.cluster_key,
            "not apart": apart or None,
        }
    )


def _print_agents(view: ReportView) -> None:
    titles = ["AGENT", "MEAN (95 %)", "RANK", "PASSED", "UNSCORED", "P", "COST", "PER SUCCESS", "TIME"]
    rows = [_agent(agent) for agent in view.agents]
    narrow = Narrow(["AGENT"], ["TIME", "PER SUCCESS", "COST", "P"], goes_on=True)
    _print_used(titles, rows, narrow)
    click.echo()
    _print_bars(view.agents)
    if len(view.agents) == 1:
        for line in (variance_text(view.agents[0]), _bounds(view.agents[0]), _flaky(view.agents[0])):
            if line:
                echo_sentence(line)
        return
    click.echo()
    titles = ["AGENT", "WITH UNSCORED", "FLAKY", "CONSISTENCY", "ERROR OF SCENARIOS", "OF ATTEMPTS"]
    _print_used(titles, [_noise(agent) for agent in view.agents], Narrow(["AGENT"], ["OF ATTEMPTS"]))
    against = against_texts(view, clean)
    if against:
        click.echo()
    for text in against[:_SHOWN]:
        echo_sentence(text)
    if len(against) > _SHOWN:
        click.echo(f"... and {len(against) - _SHOWN} more; -o json shows all")


def _noise(agent: AgentReport) -> list[str]:
    parts, bounds = agent.variance, agent.bounds
    return [
        clean(agent.label),
        "" if bounds is None else f"{bounds[0]:.3f} to {bounds[1]:.3f}",
        "" if agent.consistency is None else f"{agent.n_flaky} of {agent.n_scenarios}",
        "" if agent.consistency is None else f"{agent.consistency:.2f}",
        "" if parts is None else f"{parts.error_of_scenarios:.3f}",
        "" if parts is None else f"{parts.error_of_attempts:.3f}",
    ]


def _print_used(titles: Sequence[str], rows: Sequence[Sequence[str]], narrow: Narrow) -> None:
    """Print a table without the columns that no row has anything in; nothing where only names are left."""
    used = [column for column in range(len(titles)) if any(row[column] for row in rows)]
    if len(used) > 1:
        print_table(
            [titles[column] for column in used], [[row[column] for column in used] for row in rows], narrow
        )


def _print_bars(agents: Sequence[AgentReport]) -> None:
    """Print the intervals of the agents under each other, from 0 to 1."""
    names = [clean(agent.label) for agent in agents]
    longest = min(_SHORT_NAME, max(map(len, names)))
    width = min(_WIDE, terminal_width() or _WIDE) - longest - 6
    for name, agent in zip(names, agents, strict=True):
        short = name if len(name) <= longest else f"{name[: longest - 1]}…"
        click.echo(f"{short:<{longest}}  0 {interval_bar(agent.score, max(_BAR, width))} 1")


def _agent(agent: AgentReport) -> list[str]:
    counts, against = agent.attempts, agent.against_first
    return [
        clean(agent.label),
        estimate_text(agent.score),
        rank_text(agent),
        f"{counts.passed} of {counts.passed + counts.not_passed + counts.crashed}",
        str(counts.unscored) if counts.unscored else "",
        "" if against is None else p_text(against.p_adjusted),
        amount_text(agent.cost_usd, "${:.4f}"),
        amount_text(agent.usd_per_success, "${:.4f}"),
        _time(agent.working_ms),
    ]


def _time(amount: AmountView | StageTime | None) -> str:
    return amount_text(amount, "{:.1f}s", 1000)


def _bounds(agent: AgentReport) -> str | None:
    if agent.bounds is None:
        return None
    low, high = agent.bounds
    return f"mean {low:.3f} if its unscored attempts had all failed, {high:.3f} if they had all passed"


def _flaky(agent: AgentReport) -> str | None:
    if agent.consistency is None:
        return None
    told = count_text(agent.n_flaky, "flaky scenario")
    return f"{told} of {agent.n_scenarios}, consistency {agent.consistency:.2f} (1: attempts always agree)"


def _print_curves(view: ReportView) -> None:
    """Print the chances of several attempts; of many agents, those of the most attempts only."""
    rows = [
        [clean(agent.label), *row]
        for agent in view.agents
        for row in curve_rows(agent)[-1 if len(view.agents) > _FEW_AGENTS else 0 :]
    ]
    titles = ["AGENT", "K", "PASS@K: ANY OF K", "PASS^K: ALL OF K", "SCENARIOS"]
    if len(view.agents) == 1:
        titles, rows = titles[1:], [row[1:] for row in rows]
    if rows:
        click.echo()
        print_table(titles, rows, Narrow(["AGENT"], ["SCENARIOS"]))


def _print_stages(view: ReportView) -> None:
    rows = [
        [clean(agent.label), clean(stage.name), _time(stage), str(stage.n)]
        for agent in view.agents[:_FEW_AGENTS]
        for stage in agent.stages
    ]
    if not rows:
        return
    click.echo()
    titles = ["AGENT", "STAGE", "TIME (95 %)", "TRIALS"]
    if len(view.agents) == 1:
        titles, rows = titles[1:], [row[1:] for row in rows]
    print_table(titles, rows, Narrow(["AGENT"], ["TRIALS"]))
    if len(view.agents) > _FEW_AGENTS:
        click.echo(f"... and those of {len(view.agents) - _FEW_AGENTS} more agents; -o json shows all")


def _print_power(power: PowerReport) -> None:
    click.echo()
    echo_sentence(f"shows {power_text(power)}")
    echo_sentence(f"from {power.basis}; chance to see it 80 %, level 5 %")
    click.echo()
    rows = [
        [
            str(row.scenarios),
            str(row.attempts),
            f"{row.detectable:.3f}",
            f"{row.trials:,}",
            "" if row.usd is None else f"${row.usd:,.2f}",
            "" if row.hours is None else f"{row.hours:,.1f}",
        ]
        for row in power.rows
    ]
    titles = ["SCENARIOS", "ATTEMPTS", "SHOWS", "TRIALS OF BOTH", "COST", "HOURS"]
    _print_used(titles, rows, Narrow())


def _print_findings(view: ReportView) -> None:
    labels = [agent.label for agent in view.agents]
    for name, (count, listed, meaning) in findings(view.scenarios).items():
        if not count:
            continue
        click.echo()
        echo_sentence(f"{count} {name}: {meaning}")
        rows = [[clean(each.scenario_name), clean(finding_text(each, labels))] for each in listed[:_SHOWN]]
        print_table(["SCENARIO", ""], rows, Narrow(["SCENARIO"]))
        if count > _SHOWN:
            most = "all" if count == len(listed) else str(len(listed))
            click.echo(f"... and {count - _SHOWN} more; -o json shows {most}")
