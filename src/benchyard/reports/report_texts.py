"""Reports as text: figures with their intervals, bars of intervals, and Markdown for a pull request."""

from collections.abc import Callable, Mapping, Sequence

from benchyard.models.comparisons import DifferenceView, EstimateView
from benchyard.models.reports.job_report import (
    AgentReport,
    AmountView,
    PowerReport,
    ReportView,
    ScenarioFinding,
    ScenarioLists,
    StageTime,
)
from benchyard.reports.markdown import plain, table

BAR = 33
_MOST_ROWS = 20
_LEAST_P = 1e-16
_CURVE = (1, 2, 3, 4, 5, 8, 10, 16, 32)
"""Numbers of attempts whose chances are shown."""


def estimate_text(score: EstimateView | None) -> str:
    """Return a mean with its interval: `0.720 (0.610 to 0.810)`."""
    if score is None:
        return "-"
    if score.low is None or score.high is None:
        return f"{score.mean:.3f}"
    return f"{score.mean:.3f} ({score.low:.3f} to {score.high:.3f})"


def p_text(p: float) -> str:
    """Return a p-value: `0.031`, `4.2e-06`, or `<1e-16` for what nobody could tell from less."""
    if p < _LEAST_P:
        return f"<{_LEAST_P:.0e}"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def p_equation(p: float) -> str:
    """Return a p-value with its letter: `p = 0.031`, `p < 1e-16`."""
    told = p_text(p)
    return f"p < {told[1:]}" if told.startswith("<") else f"p = {told}"


def interval_text(difference: DifferenceView, form: Callable[[float], str] = "{:+.3f}".format) -> str:
    """Return a difference with its interval, each number in a form: `+0.025 (+0.004 to +0.046)`."""
    if difference.low is None or difference.high is None:
        return form(difference.mean)
    return f"{form(difference.mean)} ({form(difference.low)} to {form(difference.high)})"


def dollars(value: float) -> str:
    """Return a difference in dollars with its sign: `+$0.0310`."""
    return f"{value:+.4f}".replace("+", "+$").replace("-", "-$")


def seconds(milliseconds: float) -> str:
    """Return a difference in time with its sign, in seconds: `+3.1s`."""
    return f"{milliseconds / 1000:+.1f}s"


def against_texts(view: ReportView, name: Callable[[str], str]) -> list[str]:
    """Return the differences of each agent to the first, in score, cost and time; labels through a form."""
    texts = []
    for agent in view.agents:
        if (found := agent.against_first) is None:
            continue
        parts = [f"score {interval_text(found.difference)}"]
        parts += [f"cost {interval_text(found.cost_usd, dollars)}"] if found.cost_usd else []
        parts += [f"time {interval_text(found.working_ms, seconds)}"] if found.working_ms else []
        texts.append(f"{name(agent.label)} against the first: {', '.join(parts)}")
    return texts


def amount_text(amount: AmountView | StageTime | None, form: str = "{:.4f}", scale: float = 1.0) -> str:
    """Return an amount with its interval, each number in a form; empty where it is not known."""
    if amount is None:
        return ""
    mean = form.format(amount.mean / scale)
    if amount.low is None or amount.high is None:
        return mean
    return f"{mean} ({form.format(amount.low / scale)} to {form.format(amount.high / scale)})"


def interval_bar(score: EstimateView | None, width: int = BAR) -> str:
    """Return a mean and its interval as a line of characters from 0 to 1: `--[==o===]--`."""
    cells = ["-"] * width
    if score is None or score.low is None or score.high is None:
        return "".join(cells)

    def place(value: float) -> int:
        return max(0, min(width - 1, round(value * (width - 1))))

    low, high = place(score.low), place(score.high)
    cells[low : high + 1] = "=" * (high - low + 1)
    cells[low], cells[high] = "[", "]"
    cells[place(score.mean)] = "o"
    return "".join(cells)


def curve_rows(agent: AgentReport) -> list[tuple[str, str, str, str]]:
    """Return k, pass@k, pass^k and the scenarios they are of, for some k."""
    if len(agent.pass_curve) < 2:
        return []
    last = agent.pass_curve[-1].k
    return [
        (
            str(point.k),
            estimate_text(point.any_passes),
            estimate_text(point.all_pass),
            f"{point.n_scenarios}" + (f", {point.n_left_out} left out" if point.n_left_out else ""),
        )
        for point in agent.pass_curve
        if point.k in _CURVE or point.k == last
    ]


def group_texts(view: ReportView) -> list[str]:
    """Return the agents that cannot be told apart, a line for each group of several."""
    labels = [agent.label for agent in view.agents]
    return [", ".join(labels[index] for index in group) for group in view.groups if len(group) > 1]


def power_text(power: PowerReport) -> str:
    """Return what a job like this one shows, and what 2 points take."""
    attempts, scenarios = power.attempts_for_2_points, power.scenarios_for_2_points
    ways = [f"{attempts} attempts at each scenario"] if attempts else []
    ways += [f"{scenarios:,} scenarios"] if scenarios else []
    takes = f"; 0.020 takes {' or '.join(ways)}" if ways else ""
    return f"differences of {power.detectable:.3f} and more between two agents{takes}"


def variance_text(agent: AgentReport) -> str | None:
    """Return the parts of an agent's uncertainty, and which of two ways makes it smaller."""
    if (parts := agent.variance) is None:
        return None
    return (
        f"error {parts.error_of_scenarios:.3f} from the choice of scenarios,"
        f" {parts.error_of_attempts:.3f} from attempts: more {parts.helps} help most"
    )


def findings(lists: ScenarioLists) -> Mapping[str, tuple[int, Sequence[ScenarioFinding], str]]:
    """Return each list of scenarios by its name, with the number of all, and what it means."""
    return {
        "flaky": (lists.n_flaky, lists.flaky, "passed by some attempts of an agent and failed by others"),
        "suspicious": (lists.n_suspicious, lists.suspicious, "better agents do worse: look at the scenario"),
        "impossible": (lists.n_impossible, lists.impossible, "no attempt of any agent scores above 0"),
        "saturated": (lists.n_saturated, lists.saturated, "every attempt of every agent passes"),
    }


def finding_text(finding: ScenarioFinding, labels: Sequence[str]) -> str:
    """Return what is told of a scenario beside its name."""
    told = f"{finding.passed} of {finding.attempts} passed"
    if finding.agent is not None and len(labels) > 1:
        told = f"{labels[finding.agent]}: {told}"
    if finding.p is not None and finding.tau is not None:
        told += f", tau {finding.tau:+.2f}, {p_equation(finding.p)}"
    return told


def markdown(view: ReportView) -> str:
    """Return a report as Markdown: agents, chances of several attempts, power, scenarios, set-up."""
    labels = [agent.label for agent in view.agents]
    lines = [f"## {plain(view.name)}", ""]
    facts = [f"{view.n_scenarios} scenarios, {view.n_attempts} attempts each", f"state: {view.state}"]
    if view.benchmark_name:
        facts.insert(0, plain(view.benchmark_name))
    lines += [" · ".join(facts), "", *_agents_table(view)]
    groups = group_texts(view)
    if groups:
        lines += ["", "Cannot be told apart: " + "; ".join(plain(group) for group in groups)]
    if against := against_texts(view, plain):
        lines += ["", *(f"- {text}" for text in against)]
    for agent in view.agents:
        lines += _curve(agent, plain(agent.label))
    if view.power is not None:
        lines += ["", f"Such a job shows {power_text(view.power)}.", "", *_power_table(view.power)]
    for name, (count, listed, meaning) in findings(view.scenarios).items():
        if count:
            lines += ["", f"**{count} {name}**: {meaning}", ""]
            rows = [[plain(each.scenario_name), plain(finding_text(each, labels))] for each in listed]
            lines += table(["scenario", ""], rows[:_MOST_ROWS])
            lines += [f"| and {count - _MOST_ROWS} more | |"] if count > _MOST_ROWS else []
    setup = [
        [plain(each.what), plain(each.value), "" if each.count is None else str(each.count)]
        for each in view.setup
    ]
    lines += [
        "",
        "<details><summary>Set-up</summary>",
        "",
        *table(["", "", "count"], setup),
        "",
        "</details>",
    ]
    lines += ["", *(f"- {plain(note)}" for note in view.notes)] if view.notes else []
    return "\n".join(lines) + "\n"


def _agents_table(view: ReportView) -> list[str]:
    titles = [
        "agent",
        "mean (95 %)",
        "rank",
        "passed",
        "unscored",
        "p against the first",
        "cost",
        "per success",
    ]
    rows = []
    for agent in view.agents:
        against, counts = agent.against_first, agent.attempts
        bounds = f", {agent.bounds[0]:.3f} to {agent.bounds[1]:.3f} with them" if agent.bounds else ""
        rows.append(
            [
                plain(agent.label),
                estimate_text(agent.score),
                rank_text(agent),
                f"{counts.passed} of {counts.passed + counts.not_passed + counts.crashed}",
                f"{counts.unscored}{bounds}",
                "" if against is None else plain(p_text(against.p_adjusted)),
                plain(amount_text(agent.cost_usd, "${:.4f}")),
                plain(amount_text(agent.usd_per_success, "${:.4f}")),
            ]
        )
    return table(titles, rows)


def rank_text(agent: AgentReport) -> str:
    """Return a rank with those that it could be: `2 (1 to 3)`."""
    if (rank := agent.rank) is None:
        return ""
    return f"{rank.place}" if rank.best == rank.worst else f"{rank.place} ({rank.best} to {rank.worst})"


def _curve(agent: AgentReport, label: str) -> list[str]:
    rows = curve_rows(agent)
    if not rows:
        return []
    return ["", f"**{label}**", "", *table(["k", "pass@k (any)", "pass^k (all)", "scenarios"], rows)]


def _power_table(power: PowerReport) -> list[str]:
    rows = [
        [
            str(row.scenarios),
            str(row.attempts),
            f"{row.detectable:.3f}",
            f"{row.trials:,}",
            "" if row.usd is None else plain(f"${row.usd:,.2f}"),
            "" if row.hours is None else f"{row.hours:,.1f}",
        ]
        for row in power.rows
    ]
    return table(["scenarios", "attempts", "shows", "trials", "cost", "hours"], rows)
