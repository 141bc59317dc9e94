"""Reports as HTML for notebooks: a table, and the intervals of the agents as a picture."""

import html
from collections.abc import Sequence

from benchyard.models.reports.job_report import AgentReport, ReportView
from benchyard.reports.report_texts import amount_text, estimate_text, rank_text

_ROW = 22
_LEFT, _WIDTH, _RIGHT = 190, 360, 16
_LONGEST = 28
_MOST_AGENTS = 100
_GREY, _BLUE = "#888", "#2463a8"


def report_html(view: ReportView) -> str:
    """Return a report as HTML, with every name escaped; it loads nothing and runs nothing."""
    agents = view.agents[:_MOST_AGENTS]
    head = f"{_text(view.name)} · {_text(view.state)} · {view.n_ended} of {view.n_planned} attempts"
    titles = ("agent", "mean (95 %)", "rank", "passed", "unscored", "cost")
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(agent))}</tr>" for agent in agents)
    notes = "".join(f"<li>{_text(note)}</li>" for note in view.notes)
    return (
        # Amounts of dollars are no formulas, whatever a notebook thinks.
        f'<div class="tex2jax_ignore mathjax_ignore"><p><b>{head}</b></p>'
        f"{intervals_svg(agents)}"
        f"<table><thead><tr>{''.join(f'<th>{title}</th>' for title in titles)}</tr></thead>"
        f"<tbody>{rows}</tbody></table><ul>{notes}</ul></div>"
    )


def _cells(agent: AgentReport) -> list[str]:
    counts = agent.attempts
    return [
        _text(agent.label),
        estimate_text(agent.score),
        rank_text(agent),
        f"{counts.passed} of {counts.passed + counts.not_passed + counts.crashed}",
        str(counts.unscored),
        amount_text(agent.cost_usd, "${:.4f}"),
    ]


def intervals_svg(agents: Sequence[AgentReport]) -> str:
    """Return the means of agents with their intervals as an SVG picture, on a scale that holds them all."""
    low, high = _scale(agents)
    height = _ROW * (len(agents) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="means with 95 % intervals"'
        f' width="{_LEFT + _WIDTH + _RIGHT}" height="{height}" font-family="sans-serif" font-size="12">'
    ]

    def x(value: float) -> float:
        return round(_LEFT + _WIDTH * (value - low) / (high - low), 2)

    for share in (low, (low + high) / 2, high):
        parts.append(
            f'<line x1="{x(share)}" x2="{x(share)}" y1="0" y2="{height - _ROW}" stroke="#ddd"/>'
            f'<text x="{x(share)}" y="{height - 6}" text-anchor="middle" fill="{_GREY}">{share:g}</text>'
        )
    for index, agent in enumerate(agents):
        y = _ROW * index + _ROW // 2
        label = agent.label if len(agent.label) <= _LONGEST else f"{agent.label[: _LONGEST - 1]}…"
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{_text(label)}</text>')
        if (score := agent.score) is None:
            continue
        if score.low is not None and score.high is not None:
            parts.append(
                f'<line x1="{x(score.low)}" x2="{x(score.high)}" y1="{y}" y2="{y}" stroke="{_BLUE}"'
                f' stroke-width="3"/>'
            )
        parts.append(f'<circle cx="{x(score.mean)}" cy="{y}" r="5" fill="{_BLUE}"/>')
    return "".join([*parts, "</svg>"])


def _scale(agents: Sequence[AgentReport]) -> tuple[float, float]:
    """Return the ends of the scale: 0 and 1, and further where scores or intervals are."""
    ends = [0.0, 1.0]
    for agent in agents:
        if agent.score is not None:
            ends += [
                each for each in (agent.score.mean, agent.score.low, agent.score.high) if each is not None
            ]
    return min(ends), max(ends)


def _text(text: str) -> str:
    return html.escape(text, quote=True)
