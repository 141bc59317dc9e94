"""What scorers printed, and names of files and processes, made to take long: the loop does not feel it."""

import asyncio

import pytest

from benchyard.devboxes.layers.changes import MOST_LISTED
from benchyard.engine.redaction import Scrubber
from benchyard.engine.runs.final_states import FinalStateFate
from benchyard.engine.runs.results import Outcome, outcome_after_round, report_outcome
from benchyard.engine.runs.tamper import MOST_PROCESSES, MOST_SHOWN, TamperFindings, WorkPaths
from benchyard.hosts.grading import DiskChange, DiskChanges
from benchyard.models.runs import ContractResult, LeftProcess, ScenarioRun, TamperReport
from benchyard.testing.loop_probe import loop_probe
from benchyard.workers.workers import Workers
from tests.engine.runs.test_results import Rounds, a_scenario

KIB_64 = 64 * 1024


@pytest.mark.parametrize(
    "output",
    [" " * KIB_64, "time: " * 11_000, "\x1b]" * 32_000, "(in 1.5 s" * 7_000, "1" * KIB_64, "---" * 21_000],
)
def test_no_output_is_felt_when_it_becomes_a_prompt(output: str) -> None:
    scenario = a_scenario(tries=2)
    run: ScenarioRun = Rounds(scenario).run
    told = [
        {"scoring_function_name": f"{at}", "score": 0.0, "state": "complete", "output": output}
        for at in range(8)
    ]
    result = ContractResult.model_validate({"score": 0.0, "scoring_function_results": told})

    async def live() -> str:
        async with Workers() as workers:
            assert await workers.call("json:load", b"[]") == []
            with loop_probe() as probe:
                outcome = await outcome_after_round(
                    scenario, run, Outcome(result, TamperReport()), workers.call
                )
            assert probe.slow == []
        assert outcome.next_round is not None
        return outcome.next_round.problem_statement

    assert "was graded" in asyncio.run(live())


def test_no_names_are_felt_when_they_become_a_report() -> None:
    """As many changed files as are listed, with long names, and as many processes: all are searched."""
    secrets = [f"secret-number-{number}" for number in range(20)]
    named = (f"/srv/{'a' * 300}{number:06}{secrets[number % 20]}" for number in range(MOST_LISTED))
    found = DiskChanges(
        tuple(DiskChange(path, "added", "file", 0o644, 1) for path in named), MOST_LISTED, False, True
    )
    findings = TamperFindings(WorkPaths(("/home/user/work",)), changes=found)
    findings.processes = [
        LeftProcess(pid=pid, user="user", command="x" * 500) for pid in range(MOST_PROCESSES)
    ]
    findings.processes_total = MOST_PROCESSES
    findings.saw([each.path for each in found.changes[:2000]])
    result = ContractResult(score=1.0, scoring_function_results=[])

    async def live() -> Outcome:
        with loop_probe() as probe:
            outcome = await report_outcome(result, findings, FinalStateFate(), Scrubber(secrets))
        assert probe.slow == []
        return outcome

    told = asyncio.run(live()).tamper
    assert len(told.changed_outside or ()) == MOST_SHOWN
    assert not any("secret-number" in each.path for each in told.changed_outside or ())
