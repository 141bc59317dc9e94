"""Suspicions: reasons why a score above 0 may not be earned, one line each. Pure."""

from collections.abc import Iterable, Sequence

from benchyard.devboxes.layers.path_weight import is_needed
from benchyard.models.runs import ContractResult, ReferenceReport, TamperReport

MOST_SUSPICIONS = 20
LONGEST_SUSPICION = 500
_MOST_NAMED = 3
_LONGEST_COMMAND = 80


def suspicions(
    result: ContractResult, report: TamperReport, reference: ReferenceReport | None = None
) -> list[str]:
    """Return the suspicions about a result, weightiest first; empty for a score of 0.

    Those already in the result come first. Files that the reference changed too, and that its scorers opened,
    are part of the work.
    """
    if result.score <= 0:
        return []
    reference = reference or ReferenceReport(id="", create_time_ms=0)
    found = list(result.suspicions)
    found += [
        function_result.suspect
        for function_result in result.scoring_function_results
        if function_result.suspect and function_result.score > 0
    ]
    found += _files_opened_outside(report, reference)
    if result.isolation in ("clean", "live"):
        found += _without_programs(report, reference)
        found += _changes_meanwhile(report, reference)
    if result.isolation == "live":
        found += _processes_left(report, reference)
    found += _unknown(report, reference)
    return _distinct(found)


def with_suspicions(result: ContractResult, lines: Iterable[str]) -> ContractResult:
    """Return a result with further suspicions after its own; a result of 0 has none."""
    if result.score <= 0:
        return result
    return result.model_copy(update={"suspicions": _distinct([*result.suspicions, *lines])})


def _files_opened_outside(report: TamperReport, reference: ReferenceReport) -> list[str]:
    known = set(reference.opened_outside)
    opened = [each for each in report.changed_outside or () if each.opened]
    unlisted = max(0, (report.opened_outside_total or 0) - len(opened))
    named = [
        f"{each.path} (a link)" if each.type == "link" else each.path
        for each in opened
        if each.path not in known
    ]
    if not named:
        # All listed files are the reference's too; that is unknown of the rest.
        rest = f"scorers opened {unlisted} more files that were changed outside of the work"
        return [rest] if unlisted else []
    count = len(named) + unlisted
    verb = "was" if count == 1 else "were"
    return [f"scorers opened {_list_text(named, count)}, which {verb} changed outside of the work"]


def _without_programs(report: TamperReport, reference: ReferenceReport) -> list[str]:
    """Return lines for programs that scorers may need, and for files without which programs fail.

    A check that passes when a program fails passes without it.
    """
    known = set(reference.changed_outside)
    gone = [
        each.path
        for each in report.changed_outside or ()
        if each.lost and is_needed(each.path) and each.path not in known
    ]
    if not gone:
        return []
    verb = "is" if len(gone) == 1 else "are"
    return [f"{_list_text(gone, len(gone))} of the system {verb} deleted or made unusable"]


def _changes_meanwhile(report: TamperReport, reference: ReferenceReport) -> list[str]:
    known = set(reference.changed_while_scored)
    late = [path for path in report.changed_while_scored if path not in known]
    if not late:
        return []
    verb = "was" if len(late) == 1 else "were"
    return [f"{_list_text(late, len(late))} {verb} changed outside of the work while it was scored"]


def _processes_left(report: TamperReport, reference: ReferenceReport) -> list[str]:
    if report.processes is None:
        return ["which processes ran beside the scorers is not known"]
    if not reference.id:
        return []
    strange = [process for process in report.processes if process.user not in reference.process_users]
    if not strange:
        return []
    commands = [f"`{process.command[:_LONGEST_COMMAND]}` of {process.user}" for process in strange]
    shown = _list_text(commands, len(strange))
    theirs = ", ".join(reference.process_users)
    comparison = f"those of the reference belong to {theirs}" if theirs else "the reference leaves none"
    return [f"{shown} ran beside the scorers; {comparison}"]


def _unknown(report: TamperReport, reference: ReferenceReport) -> list[str]:
    known = {*reference.changed_outside, *reference.opened_outside}
    unlisted = report.unwatched_outside_total - len(report.unwatched_outside)
    missed = [path for path in report.unwatched_outside if path not in known]
    shown = _list_text(missed, len(missed) + unlisted) if missed else f"{unlisted} more files"
    comment = f"whether scorers opened {shown}, changed outside of the work, is not known"
    return [*([comment] if missed or unlisted else []), *report.unknown]


def _list_text(named: Sequence[str], count: int) -> str:
    """Return the first few names, and the number of the others."""
    shown = named[:_MOST_NAMED]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _distinct(lines: Iterable[str]) -> list[str]:
    """Return each line once and on one line: suspected agents choose the paths and commands in them."""
    suspicions = dict.fromkeys(" ".join(line.split())[:LONGEST_SUSPICION] for line in lines)
    return [each for each in suspicions if each][:MOST_SUSPICIONS]
