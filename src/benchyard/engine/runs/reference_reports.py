"""Reports of references: their effects beside the work, for comparison with other runs."""

from collections.abc import Sequence

from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.runs.scoring_room import ScoringCase
from benchyard.engine.runs.suspicions import suspicions
from benchyard.models.runs import ContractResult, CountedTests, ReferenceReport, TamperReport
from benchyard.models.scenarios import Scenario
from benchyard.store.collection import Collection

MOST_PATHS = 10_000
MOST_COUNTS = 20
"""Most counts to store for one scorer, in case its report varies each time."""
_FULL = 1.0 - 1e-9


class ReferenceReports:
    """Compares a run's effects beside the work with those of the reference."""

    def __init__(self, records: Collection[ReferenceReport]) -> None:
        self._records = records

    async def judged(self, case: ScoringCase, result: ContractResult, report: TamperReport) -> ContractResult:
        """Return the result with its suspicions; a reference's own result becomes the measure for others."""
        if case.is_reference:
            if result.score >= _FULL and case.kept is None:
                await retry_store(self._remember, case.scenario, result, report)
            return result.model_copy(update={"suspicions": []})
        found = suspicions(result, report)
        if found or (result.isolation == "live" and report.processes):
            found = suspicions(result, report, await retry_store(self._known_report, case.scenario))
        return result.model_copy(update={"suspicions": found})

    async def counted(self, case: ScoringCase, function: str) -> Sequence[CountedTests]:
        """Return the tests that a scorer's report counted for the reference; empty if that is unknown."""
        if case.is_reference:
            return ()
        known = await retry_store(self._known_report, case.scenario)
        return known.counted.get(function, ()) if known else ()

    async def _known_report(self, scenario: Scenario) -> ReferenceReport | None:
        return await self._records.find(scenario.graded_digest)

    async def _remember(self, scenario: Scenario, result: ContractResult, report: TamperReport) -> None:
        """Store the effects of a reference beside those of its other runs or rounds."""
        id = scenario.graded_digest
        files = report.changed_outside or []
        fresh = ReferenceReport(
            id=id,
            create_time_ms=now_ms(),
            changed_outside=[file.path for file in files],
            opened_outside=[file.path for file in files if file.opened],
            changed_while_scored=report.changed_while_scored,
            process_users=sorted({each.user for each in report.processes or ()}),
            counted={
                function_result.scoring_function_name: [function_result.counted]
                for function_result in result.scoring_function_results
                if function_result.counted
            },
        )
        known, is_new = await self._records.insert_once(fresh)
        if not is_new and _merge_reports(known, fresh) != known:
            await self._records.change(id, lambda record: _merge_reports(record, fresh))


def _merge_reports(known: ReferenceReport, fresh: ReferenceReport) -> ReferenceReport:
    counted = dict(known.counted)
    for name, counts in fresh.counted.items():
        before = counted.get(name, [])
        counted[name] = [*before, *(count for count in counts if count not in before)][:MOST_COUNTS]
    lists = {
        name: list(dict.fromkeys([*getattr(known, name), *getattr(fresh, name)]))[:MOST_PATHS]
        for name in ("changed_outside", "opened_outside", "changed_while_scored", "process_users")
    }
    return known.model_copy(update={**lists, "counted": counted})
