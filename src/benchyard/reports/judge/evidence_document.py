"""Evidence on one trial for a judge: one bounded JSON document, made in a worker of what is kept of it.

Everything in it is text of others, so it is JSON: no text can end its own string and pass for a part of the
instructions. The agent is not named, so that a judge cannot favour a model.
"""

import gc
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from benchyard.errors import UsageError
from benchyard.gateway.trajectory.documents import json_line
from benchyard.gateway.trajectory.stored_steps import StoredStep
from benchyard.models.reports.problems import ProblemFinding, TrialFindings
from benchyard.models.runs import ContractResult
from benchyard.models.trials import Trial
from benchyard.reports.problems.base import brief
from benchyard.reports.problems.digests import make_findings, signals
from benchyard.reports.problems.trajectories import cut_middle
from benchyard.reports.trajectory_steps import iterate_steps

MOST_CHARACTERS = 48_000
"""Size of the document; texts of others never make it larger."""
_MOST_STATEMENT = 5000
_MOST_SCORERS = 4
_MOST_SCORER_OUTPUT = 1200
_MOST_SIGNALS = 20
_MOST_SIGNAL_STEPS = 5
_FIRST_LINES, _LAST_LINES = 40, 80
"""Steps at the beginning and at the end that the index has."""
_MOST_LINE = 100
_MOST_EXCERPTS = 60
_LAST_EXCERPTS = 6
_MOST_STEP_TEXTS = {"message": 1200, "reasoning": 600, "arguments": 800, "result": 1200}
_MOST_CALLS = 4
_LARGEST_GROWTH = 2
"""Times that a text may grow when it is written as JSON; one with more to escape is cut further."""


@dataclass(frozen=True)
class _Outline:
    """A step in the index."""

    number: int
    source: str
    words: str
    has_error: bool

    def line(self) -> dict[str, Any]:
        marked = {"error": True} if self.has_error else {}
        return {"step": self.number, "by": self.source, "begins": self.words, **marked}


def make_evidence(content: BinaryIO, item: Mapping[str, Any], statement: str | None) -> bytes:
    """Return the evidence on a trial as JSON: the document, and the texts of each step that it shows.

    The content has what is kept of the trial: a trajectory and the calls of its models, with the sizes that
    the item gives, or None.
    """
    gc.disable()
    stored = content.read()
    (line,) = make_findings(io.BytesIO(stored), [item]).splitlines()
    found = TrialFindings.model_validate_json(line)
    trial = Trial.model_validate(item["trial"])
    result = None if item["result"] is None else ContractResult.model_validate(item["result"])
    size = item["trajectory"]
    return json_line(evidence_of(trial, result, found, statement, stored[:size] if size else None)).encode()


def evidence_of(
    trial: Trial,
    result: ContractResult | None,
    found: TrialFindings,
    statement: str | None,
    trajectory: bytes | None,
) -> dict[str, Any]:
    """Return the document as text, its digest, the texts that it shows of each step, and the last step."""
    outlines = list(_outlines(trajectory))
    document: dict[str, Any] = {
        "task": {
            "name": _bounded(trial.scenario_name, 200),
            "statement": _bounded(statement or "", _MOST_STATEMENT),
        },
        "result": _result(trial),
        "scorers": _scorers(result),
        "signals": list(_signals(found.findings)),
        "steps": {"count": len(outlines), "index": [each.line() for each in _indexed(outlines)]},
        "excerpts": [],
    }
    if found.unread is not None:
        document["steps"]["unread"] = brief(found.unread)
    _add_excerpts(document, trajectory, _wanted(outlines, found.findings))
    text = json_line(document)
    return {
        "document": text,
        "digest": hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest(),
        "shown": _shown(document),
        "last_step": outlines[-1].number if outlines else 0,
    }


def _result(trial: Trial) -> dict[str, Any]:
    failure = trial.failure
    told = {
        "outcome": trial.outcome(),
        "score": trial.score,
        "ended_by_limit": trial.ended_by,
        "exit_status": trial.exit_status,
        "failed_stage": failure.stage if failure else None,
        "failure": _bounded(failure.told, 600) if failure else None,
        "answer_failure": _bounded(trial.answer_failure, 600) if trial.answer_failure else None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _scorers(result: ContractResult | None) -> list[dict[str, Any]]:
    rows = result.scoring_function_results if result else []
    # Those that did not give full marks first: they say what is missing.
    ordered = sorted(rows, key=lambda each: each.score)[:_MOST_SCORERS]
    return [
        {
            "name": _bounded(each.scoring_function_name, 100),
            "score": each.score,
            "output": _bounded(each.output, _MOST_SCORER_OUTPUT),
        }
        for each in ordered
    ]


def _signals(findings: Sequence[ProblemFinding]) -> Iterator[dict[str, Any]]:
    """Yield findings, one of each signal before the second of any."""
    known, places = signals(), dict[str, int]()
    ranked = []
    for each in findings:
        places[each.signal] = places.get(each.signal, 0) + 1
        ranked.append((places[each.signal], each))
    for _, each in sorted(ranked, key=lambda row: row[0])[:_MOST_SIGNALS]:
        yield {
            "signal": each.signal,
            "means": known[each.signal].summary if each.signal in known else "",
            "detail": _bounded(each.detail, 200),
            "steps": each.steps[:_MOST_SIGNAL_STEPS],
        }


def _outlines(trajectory: bytes | None) -> Iterator[_Outline]:
    for step in _steps(trajectory):
        yield _Outline(
            step.number, brief(step.source, 20), _bounded(_words(step), _MOST_LINE), step.has_error
        )


def _steps(trajectory: bytes | None) -> Iterator[StoredStep]:
    if trajectory is None:
        return
    try:
        yield from iterate_steps(trajectory)
    except (UsageError, RecursionError):
        # The findings tell why it could not be read, and the document passes that on.
        return


def _words(step: StoredStep) -> str:
    """Return a step on one line: its first call with its arguments, else its words or results."""
    for call in step.calls[:1]:
        return brief(f"{call.name}: {_plain(call.arguments)}", _MOST_LINE)
    texts = (step.text, step.reasoning, *(each.text for each in step.observations))
    return brief(next((each for each in texts if each.strip()), ""), _MOST_LINE)


def _plain(arguments: Any) -> str:
    if isinstance(arguments, dict) and len(arguments) == 1:
        (arguments,) = arguments.values()
    return arguments if isinstance(arguments, str) else json_line(arguments)


def _indexed(outlines: Sequence[_Outline]) -> list[_Outline]:
    if len(outlines) <= _FIRST_LINES + _LAST_LINES:
        return list(outlines)
    return [*outlines[:_FIRST_LINES], *outlines[-_LAST_LINES:]]


def _wanted(outlines: Sequence[_Outline], findings: Sequence[ProblemFinding]) -> list[int]:
    """Return the steps worth an excerpt, the most telling first: last ones, those of signals, errors."""
    own = [each.number for each in outlines if each.source == "agent"]
    of_signals = [step for each in findings for step in each.steps[:_MOST_SIGNAL_STEPS]]
    errors = [each.number for each in outlines if each.has_error]
    ordered = [*own[-2:], *of_signals[:30], *own[-_LAST_EXCERPTS:], *own[:2], *errors, *reversed(own)]
    there = {each.number for each in outlines}
    return [each for each in dict.fromkeys(ordered) if each in there][:_MOST_EXCERPTS]


def _add_excerpts(document: dict[str, Any], trajectory: bytes | None, wanted: Sequence[int]) -> None:
    """Add the excerpts of steps, as many as there is room for, in the order of the steps."""
    found = {each.number: _excerpt(each) for each in _steps(trajectory) if each.number in set(wanted)}
    room = MOST_CHARACTERS - len(json_line(document))
    kept = []
    for number in wanted:
        size = len(json_line(found[number])) + 1
        if size <= room:
            kept.append(found[number])
            room -= size
    document["excerpts"] = sorted(kept, key=lambda each: int(each["step"]))


def _excerpt(step: StoredStep) -> dict[str, Any]:
    most = _MOST_STEP_TEXTS
    told: dict[str, Any] = {
        "step": step.number,
        "by": brief(step.source, 20),
        "message": _bounded(step.text, most["message"]),
        "reasoning": _bounded(step.reasoning, most["reasoning"]),
        "calls": [
            {
                "tool": _bounded(each.name, 100),
                "arguments": _bounded(_plain(each.arguments), most["arguments"]),
            }
            for each in step.calls[:_MOST_CALLS]
        ],
        "results": [_bounded(each.text, most["result"]) for each in step.observations[:_MOST_CALLS]],
    }
    return {name: value for name, value in told.items() if value}


def _shown(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the texts that the document shows of each step, which quotes are looked up in."""
    shown: dict[str, list[str]] = {}
    for line in document["steps"]["index"]:
        shown.setdefault(str(line["step"]), []).append(line["begins"])
    for each in document["excerpts"]:
        calls = [text for call in each.get("calls", ()) for text in (call["tool"], call["arguments"])]
        texts = [each.get("message", ""), each.get("reasoning", ""), *calls, *each.get("results", ())]
        shown.setdefault(str(each["step"]), []).extend(text for text in texts if text)
    return shown


def _bounded(text: str, most: int) -> str:
    """Return the beginning and the end of a text that stays bounded when it is written as JSON."""
    cut = cut_middle(text, most)
    written = len(json_line(cut))
    if written > _LARGEST_GROWTH * most:
        # Control characters become six each.
        cut = cut_middle(text, most // 4)
    return cut
