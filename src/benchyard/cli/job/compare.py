"""`benchyard job compare` and `job gate`: two agents on the scenarios they share."""

from collections.abc import Sequence
from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.gates import (
    BELOW,
    INCONCLUSIVE,
    exit_statuses,
    suspect_option,
)
from benchyard.cli.job.output_files import replace_text
from benchyard.cli.job.report import cluster_option
from benchyard.cli.job.subjects import ComparedSubject, find_subject
from benchyard.cli.notices import say, tell
from benchyard.cli.options import FloatRange
from benchyard.cli.render import duration, echo_sentence, facts, output_option, print_table, wire
from benchyard.cli.render import show as show_data
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.plain_text import clean
from benchyard.errors import NotFound, UsageError
from benchyard.models.comparisons import (
    ComparedAgent,
    ComparisonView,
    DifferenceView,
    GateView,
    Power,
)
from benchyard.models.job_plans import count_text
from benchyard.models.reports.baselines import is_job
from benchyard.models.trials import SuspectRule
from benchyard.reports.gate_reports import deciding_text, junit, markdown
from benchyard.reports.report_texts import (
    dollars,
    estimate_text,
    interval_text,
    p_equation,
    p_text,
    seconds,
)

_SHOWN = 20
_BAR = 41
"""Characters of the bar of an interval; odd, so that 0 has the middle."""

MARGIN = 0.02
"""Default for how much worse a mean may be."""

agent_option = click.option(
    "--agent", metavar="AGENT[:MODEL]", help="Compare only this agent. Default: each that both jobs have."
)


@click.command()
@click.argument("first", metavar="JOB|RUN|BASELINE")
@click.argument("second", metavar="[JOB|RUN]", required=False)
@agent_option
@cluster_option
@suspect_option("What becomes of suspect scores, instead of what the jobs say")
@output_option
def compare(
    first: str,
    second: str | None,
    agent: str | None,
    cluster: str | None,
    suspect: SuspectRule | None,
    output: str,
) -> None:
    """Compare the agents of two jobs, or of one, on the scenarios that both have scored.

    Shows the difference with its 95 % interval over scenarios, an exact test, won and lost scenarios beside
    the number that noise alone makes, costs and times, and the parts of the set-up in which the two differ.
    With one job, every other agent is compared with its first. A benchmark run that code of your own made is
    like a job with one agent.

    \b
      benchyard job compare last-week today
      benchyard job compare main today
      benchyard job compare last-week today --agent codex:gpt-5.5 --cluster repo
      benchyard job compare my-job
      benchyard job compare bmr_4kY... bmr_7Qx...
      benchyard job compare last-week today -o json
    """
    with connect() as client:
        found = [
            client.jobs.compare(a, b, cluster=cluster, suspect=suspect)
            for a, b in find_pairs(client, first, second, agent)
        ]
    if output != "text":
        show_data({"comparisons": [wire(each) for each in found]}, output, "")
        return
    for number, view in enumerate(found):
        if number:
            click.echo()
        print_comparison(view)


@click.command(
    epilog=exit_statuses(0, 2, 4, BELOW, INCONCLUSIVE, s0="every agent passed", s21="inconclusive")
)
@click.argument("job", metavar="ID|NAME")
@click.option(
    "--against",
    required=True,
    metavar="JOB|RUN|BASELINE",
    help="The baseline of that name, or the job, or the benchmark run.",
)
@agent_option
@click.option(
    "--margin",
    type=FloatRange(0, 1),
    default=MARGIN,
    show_default=True,
    help="How much worse the mean score may be.",
)
@click.option(
    "--max-unscored",
    metavar="N|P%",
    default="0",
    show_default=True,
    help="How many attempts of a pair, or which share, may be unscored before they count by their bounds.",
)
@cluster_option
@suspect_option("What becomes of suspect scores, instead of what the job says")
@click.option(
    "--inconclusive",
    type=click.Choice(["pass", "fail"]),
    help=f"End with 0 or {BELOW} where it cannot be told. Default: {INCONCLUSIVE}.",
)
@click.option(
    "--md", type=click.Path(path_type=Path), metavar="FILE", help="Also write Markdown; - prints it."
)
@click.option(
    "--junit", "junit_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write JUnit."
)
@output_option
def gate(
    job: str,
    against: str,
    agent: str | None,
    margin: float,
    max_unscored: str,
    cluster: str | None,
    suspect: SuspectRule | None,
    inconclusive: str | None,
    md: Path | None,
    junit_file: Path | None,
    output: str,
) -> None:
    """Say whether a job's agents are worse than those of another by more than a margin.

    It fails where the upper bound of the difference is below -margin, passes where the lower bound is above
    it, and is inconclusive otherwise: then it says how many attempts would decide it. While a job runs, only
    evidence that holds at every look decides. Webhooks are told of the verdict. ID may also be that of a
    benchmark run which code of your own made.

    \b
      benchyard job gate today --against last-week
      benchyard job gate today --against main
      benchyard job gate today --against main --margin 0.01 --inconclusive pass
      benchyard job gate today --against last-week --md report.md --junit gate.xml
      benchyard job gate bmr_7Qx... --against bmr_4kY... -o json
    """
    with connect() as client:
        pairs = find_pairs(client, against, job, agent)
        gates = [
            client.jobs.gate(
                a, b, margin, max_unscored=max_unscored, cluster=cluster, suspect=suspect, tell=True
            )
            for a, b in pairs
        ]
    if junit_file is not None:
        replace_text(junit_file, junit(gates, inconclusive))
    if md is not None and str(md) != "-":
        replace_text(md, markdown(gates))
    if md is not None and str(md) == "-":
        click.echo(markdown(gates), nl=False)
    elif output != "text":
        show_data({"gates": [wire(each) for each in gates]}, output, "")
    else:
        print_gates(gates)
    require_passed(gates, inconclusive)


def print_gates(gates: Sequence[GateView]) -> None:
    """Print the verdicts of gates for people."""
    for each in gates:
        _print_gate(each)


def require_passed(gates: Sequence[GateView], inconclusive: str | None) -> None:
    """Exit with a gate's status unless all passed; the worst verdict counts."""
    verdicts = {each.verdict for each in gates}
    if "fail" in verdicts or ("inconclusive" in verdicts and inconclusive == "fail"):
        raise click.exceptions.Exit(BELOW)
    if "inconclusive" in verdicts and inconclusive is None:
        raise click.exceptions.Exit(INCONCLUSIVE)


def find_pairs(client: Client, first: str, second: str | None, agent: str | None) -> list[tuple[str, str]]:
    """Return the agents to compare, as `JOB:INDEX`; raises UsageError where the jobs share none.

    The first may be a baseline's name: it is compared with every agent of the second job that it is set for.
    Each may be a benchmark run of the SDK.
    """
    if second is not None and (pairs := _baseline_pairs(client, first, second, agent)):
        return pairs
    a = find_subject(client, first)
    if second is None:
        others = [index for index in _matching(a, agent) if index > 0]
        if not others:
            raise UsageError(f"job {clean(a.name)!r} has no second agent; name a second job to compare with")
        return [(f"{a.id}:0", f"{a.id}:{index}") for index in others]
    b = find_subject(client, second)
    left, right = _matching(a, agent), _matching(b, agent)
    by_label = {_short(a, index): index for index in left}
    shared = [(by_label[_short(b, index)], index) for index in right if _short(b, index) in by_label]
    if not shared and len(left) == len(right) == 1:
        # A single agent on each side is what one wants to compare, whatever its name.
        shared = [(left[0], right[0])]
    if not shared:
        raise UsageError(
            f"the jobs share no agent: {clean(a.name)!r} has {_labels(a)}, {clean(b.name)!r} has {_labels(b)}"
        )
    return [(f"{a.id}:{index}", f"{b.id}:{other}") for index, other in shared]


def require_side(client: Client, given: str) -> None:
    """Raise NotFound if there is no baseline, job or run of that name, before anything is started."""
    if is_job(given) or not any(client.baselines.list(name=given, limit=1)):
        find_subject(client, given)


def _baseline_pairs(
    client: Client, name: str, second: str, agent: str | None
) -> list[tuple[str, str]] | None:
    """Return the agents of a baseline and a job; None if no baseline ever had the name."""
    named = [] if is_job(name) else list(client.baselines.list(name=name, deleted=True, limit=1000))
    if not named:
        return None
    b = find_subject(client, second)
    here = [each for each in named if each.benchmark_id == b.benchmark_id]
    known = {each.agent_name: each for each in here if each.delete_time_ms is None}
    wanted = _matching(b, agent)
    indexes = [index for index in wanted if _short(b, index) in known]
    if not indexes:
        gone = {each.agent_name for each in here if each.delete_time_ms is not None}
        was = "was deleted" if gone & {_short(b, index) for index in wanted} else "is not set"
        benchmark = b.benchmark_name or b.benchmark_id
        where = f"on {clean(benchmark)}" if benchmark else "without a benchmark"
        raise NotFound(
            f"baseline {name!r} {was} for {_labels(b)} {where}; `benchyard baseline set {name} JOB` sets it, "
            "`benchyard baseline list --all` shows all"
        )
    pairs = [(known[_short(b, index)], index) for index in indexes]
    return [(f"{found.job_id}:{found.agent}", f"{b.id}:{index}") for found, index in pairs]


def _matching(job: ComparedSubject, agent: str | None) -> list[int]:
    """Return the indexes of the agents with a name, `name:model`, or of all; raises UsageError for none."""
    found = [
        index
        for index, each in enumerate(job.agents)
        if agent is None or agent in (each.label, each.name, _short(job, index))
    ]
    if not found:
        raise UsageError(f"job {clean(job.name)!r} has no agent {agent!r}; it has {_labels(job)}")
    return found


def _short(job: ComparedSubject, index: int) -> str:
    """Return an agent's name and model without its version, which is often what differs."""
    config = job.agents[index]
    return f"{config.name}:{config.model_name}" if config.model_name else config.name


def _labels(job: ComparedSubject) -> str:
    return ", ".join(clean(each.label) for each in job.agents[:_SHOWN])


def print_comparison(view: ComparisonView) -> None:
    """Print a comparison for people."""
    rows = [_side("first", view.a), _side("second", view.b)]
    titles = ["", "JOB", "AGENT", "MEAN (95 %)", "ATTEMPTS", "UNSCORED", "SUSPECT"]
    print_table(titles, rows, Narrow(["JOB", "AGENT"], ["SUSPECT", "ATTEMPTS"]))
    click.echo()
    if view.difference is not None:
        click.echo(interval_bar(view.difference))
        click.echo(facts(_facts(view)))
    if view.setup:
        click.echo()
        print_table(
            ["SET-UP", "FIRST", "SECOND", "SCENARIOS", ""],
            [
                [each.what, clean(each.a), clean(each.b), str(each.n_scenarios or ""), _weight(each.weight)]
                for each in view.setup
            ],
            Narrow(["FIRST", "SECOND"], ["SCENARIOS"]),
        )
    if view.notes:
        click.echo()
    for note in view.notes:
        echo_sentence(f"! {clean(note)}")
    if view.scenarios:
        click.echo()
        table = [
            [clean(row.scenario_name), f"{row.a:.3f}", f"{row.b:.3f}", p_text(row.p)]
            for row in view.scenarios[:_SHOWN]
        ]
        print_table(["SCENARIO", "FIRST", "SECOND", "P OF IT ALONE"], table, Narrow(["SCENARIO"]))
        if len(view.scenarios) > _SHOWN:
            click.echo(f"... and {len(view.scenarios) - _SHOWN} more; -o json shows all")


def _side(name: str, side: ComparedAgent) -> list[str]:
    score = side.score
    mean = "-" if score is None else estimate_text(score)
    return [
        name,
        clean(side.job_name),
        clean(side.label),
        mean,
        str(side.n_attempts),
        str(side.unscored),
        str(side.n_suspect),
    ]


def _weight(weight: str) -> str:
    return "compared on purpose" if weight == "subject" else "! makes it unfair"


def _facts(view: ComparisonView) -> dict[str, object]:
    difference = view.difference
    assert difference is not None
    groups = f", {difference.n_clusters} groups by {view.cluster_key}" if view.cluster_key else ""
    bounds = view.bounds
    return {
        "difference": f"{interval_text(difference)}, {difference.n} shared scenarios{groups}",
        "with unscored": f"{bounds[0]:+.3f} to {bounds[1]:+.3f}" if bounds else None,
        "chance of it": None if view.p is None else f"{p_equation(view.p)}, {view.p_method}",
        "scenarios": _flips(view),
        "cost": _costs(view.cost_usd),
        "time": _times(view.working_ms),
        "can show": _power(view.power),
    }


def _flips(view: ComparisonView) -> str | None:
    flips = view.flips
    if flips is None:
        return None
    noise = "" if flips.expected is None else f" (noise alone: about {flips.expected:.0f} would differ)"
    if flips.expected is not None and flips.n_repeated < view.n_shared:
        repeated = count_text(flips.n_repeated, "scenario")
        noise = (
            f" ({flips.differ_repeated} of the {repeated} with several attempts differ;"
            f" noise alone: about {flips.expected:.0f})"
        )
    return f"{flips.won} won, {flips.lost} lost{noise}, {flips.both} both pass, {flips.neither} neither"


def _costs(difference: DifferenceView | None) -> str | None:
    if difference is None:
        return None
    return f"{interval_text(difference, dollars)} an attempt"


def _times(difference: DifferenceView | None) -> str | None:
    if difference is None:
        return None
    return f"{interval_text(difference, seconds)} an attempt"


def _power(power: Power | None) -> str | None:
    if power is None:
        return None
    told = f"differences of {power.detectable:.3f} and more"
    if power.attempts_for_2_points is None:
        return f"{told}; no number of attempts at these scenarios would show 0.020"
    if not power.more_trials:
        return told
    cost = f", about ${power.more_usd:,.2f}" if power.more_usd is not None else ""
    time = f", {duration(round(power.more_ms))} of work" if power.more_ms is not None else ""
    more = f"{power.more_trials} more trials{cost}{time}"
    return f"{told}; 0.020 takes {power.attempts_for_2_points} attempts at each scenario: {more}"


def interval_bar(difference: DifferenceView) -> str:
    """Return an interval as a line of characters, with 0 in the middle."""
    low_end = difference.mean if difference.low is None else difference.low
    high_end = difference.mean if difference.high is None else difference.high
    most = max(abs(low_end), abs(high_end), 0.001)
    scale = next((limit for limit in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if most <= limit), most)
    middle = _BAR // 2

    def place(value: float) -> int:
        return max(0, min(_BAR - 1, round(middle + value / scale * middle)))

    cells = ["-"] * _BAR
    if difference.low is not None:
        low, high = place(low_end), place(high_end)
        cells[low : high + 1] = "=" * (high - low + 1)
        cells[low], cells[high] = "[", "]"
    cells[middle] = "|"
    cells[place(difference.mean)] = "o"
    return f"worse {-scale:+g} {''.join(cells)} {scale:+g} better"


def _print_gate(view: GateView) -> None:
    label = clean(view.comparison.b.label)
    echo_sentence(f"{view.verdict}  {label}: {clean(view.reason)}")
    if view.verdict == "inconclusive":
        told = deciding_text(view)
        echo_sentence(f"  {told[0].lower()}{told[1:]}")
    for note in view.comparison.notes:
        tell(f"{label}: {note}")
    say(f"benchyard job compare {view.comparison.a.job_id} {view.comparison.b.job_id}")
