"""Verdicts of gates for other programs: Markdown for a pull request, and JUnit."""

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from benchyard.models.comparisons import ComparisonView, GateView
from benchyard.reports.markdown import plain
from benchyard.reports.report_texts import interval_text, p_text

MOST_FLIPS = 10
_MARKS = {"pass": "passed", "fail": "FAILED", "inconclusive": "inconclusive"}
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markdown(gates: Sequence[GateView]) -> str:
    """Return the verdicts as Markdown: a table, and for each pair the scenarios that differ most surely."""
    lines = ["| | first | second | difference (95 %) | p | verdict |", "|---|---|---|---|---|---|"]
    for gate in gates:
        lines.append(_row(gate))
    for gate in gates:
        lines += ["", f"**{plain(gate.comparison.b.label)}**: {plain(gate.reason)}"]
        if gate.verdict == "inconclusive":
            lines.append(f"{deciding_text(gate)}.")
        lines += _flips(gate.comparison)
        lines += [f"- {plain(note)}" for note in gate.comparison.notes]
    return "\n".join(lines) + "\n"


def _row(gate: GateView) -> str:
    view = gate.comparison
    cells = [
        plain(view.b.label),
        _score(view.a.score.mean if view.a.score else None),
        _score(view.b.score.mean if view.b.score else None),
        interval_text(view.difference) if view.difference else "-",
        "-" if view.p is None else plain(p_text(view.p)),
        _MARKS[gate.verdict],
    ]
    return f"| {' | '.join(cells)} |"


def _flips(view: ComparisonView) -> list[str]:
    if not view.scenarios:
        return []
    lines = ["", "| scenario | first | second | p |", "|---|---|---|---|"]
    for row in view.scenarios[:MOST_FLIPS]:
        lines.append(f"| {plain(row.scenario_name)} | {row.a:.3f} | {row.b:.3f} | {plain(p_text(row.p))} |")
    if len(view.scenarios) > MOST_FLIPS:
        lines.append(f"| and {len(view.scenarios) - MOST_FLIPS} more | | | |")
    return [*lines, ""]


def deciding_text(gate: GateView) -> str:
    """Return what would decide an inconclusive gate."""
    if gate.comparison.running is not None:
        return "The end of the job may decide it"
    if gate.unscored_decides:
        return "What is scored would decide it: retry what is unscored, or score it again"
    if not gate.comparison.n_shared:
        return "Both need a score at the same scenarios first"
    if gate.comparison.gate_bounds is None:
        return "Scores between 0 and 1 would decide it, or scenarios at which the difference varies"
    if gate.attempts_needed:
        return f"About {gate.attempts_needed} attempts at each scenario would decide it, if the mean stays"
    if gate.scenarios_needed:
        return f"About {gate.scenarios_needed} scenarios like these would decide it; more attempts would not"
    return "More attempts at these scenarios would hardly decide it"


def junit(gates: Sequence[GateView], inconclusive: str | None = None) -> str:
    """Return the verdicts as JUnit: a test case for each pair.

    An inconclusive one is skipped, or what it is to count as: `pass` or `fail`.
    """
    words = [inconclusive or "skip" if gate.verdict == "inconclusive" else gate.verdict for gate in gates]
    suite = Element("testsuite", name="gate", tests=str(len(gates)))
    suite.set("failures", str(words.count("fail")))
    suite.set("skipped", str(words.count("skip")))
    for gate, word in zip(gates, words, strict=True):
        name = _xml(gate.comparison.b.label)
        case = SubElement(suite, "testcase", classname=_xml(gate.comparison.b.job_name), name=name, time="0")
        if word == "fail":
            SubElement(case, "failure", message=_xml(gate.reason))
        elif word == "skip":
            SubElement(case, "skipped", message=_xml(gate.reason))
        # A failure or a skip tells the reason itself.
        told = [gate.reason] if word == "pass" else []
        SubElement(case, "system-out").text = _xml("\n".join([*told, *gate.comparison.notes]))
    root = Element("testsuites")
    root.append(suite)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
