"""A scorer could not grade the work."""

from collections.abc import Iterable

from benchyard.reports.problems.base import Finding, Signal, brief
from benchyard.reports.problems.facts import TrialFacts


class ScorerErrorSignal(Signal):
    """Finds trials that a scorer or the scenario itself failed."""

    summary = "a scorer, or the scenario itself, failed"
    helps = "`benchyard scenario validate SCENARIO` tries the reference; then `benchyard job rescore JOB`"
    depends_on_outcome = True

    def find(self, facts: TrialFacts) -> Iterable[Finding] | None:
        """Return the failure, and every scorer that ended in an error."""
        found = [Finding(brief(line)) for line in facts.scorer_errors]
        if facts.failure_kind in ("scorer", "scenario") and not found:
            found.append(Finding(brief(facts.failure or facts.failure_type or "it failed")))
        return found
