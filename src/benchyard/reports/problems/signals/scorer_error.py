"""A scorer could not grade the work."""

from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts


class ScorerErrorSignal(ProblemSignal):
    """Finds trials that a scorer or the scenario itself failed."""

    summary = "a scorer, or the scenario itself, failed"
    helps = "`benchyard scenario validate SCENARIO` tries the reference; then `benchyard job rescore JOB`"
    depends_on_outcome = True

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the failure, and every scorer that ended in an error."""
        found = [SignalFinding(brief(line)) for line in facts.scorer_errors]
        if facts.failure_kind in ("scorer", "scenario") and not found:
            found.append(SignalFinding(brief(facts.failure or facts.failure_type or "it failed")))
        return found
