"""What becomes of a trial when its run was scored again, or could not be."""

from benchyard.engine.jobs.rescoring import rescored_trial
from benchyard.models.runs import ContractResult, ScenarioRun, ScorerResult
from benchyard.models.trials import ScoreRecord, Trial, TrialState

TRIAL = Trial(
    id="trl_1",
    create_time_ms=1,
    job_id="bmj_1",
    scenario_id="scn_1",
    scenario_name="one",
    state=TrialState.COMPLETED,
    score=0.5,
    scored_revision=1,
)


def run(score: float, state: str = "complete", failure: str | None = None) -> ScenarioRun:
    said = ScorerResult.model_validate(
        {"scoring_function_name": "s", "weight": 1.0, "score": score, "state": state, "output": ""}
    )
    result = ContractResult(score=score, scoring_function_results=[said], scenario_revision=2)
    return ScenarioRun(
        id="scr_1",
        create_time_ms=1,
        scenario_id="scn_1",
        devbox_id="dbx_1",
        result=result,
        rescoring_failure=failure,
    )


def test_a_new_score_stands_beside_the_old_one() -> None:
    found = rescored_trial(TRIAL, run(1.0))
    assert (found.score, found.scored_revision) == (1.0, 2)
    assert found.earlier_scores == [ScoreRecord(score=0.5, scenario_revision=1)]


def test_a_scoring_that_could_not_be_done_is_noted_and_changes_no_score() -> None:
    found = rescored_trial(TRIAL, run(0.5, failure="the disk was full"))
    assert (found.score, found.earlier_scores, found.rescore_note) == (0.5, [], "the disk was full")


def test_a_scorer_that_fails_leaves_the_score_as_it_was() -> None:
    found = rescored_trial(TRIAL, run(0.0, state="error"))
    assert (found.score, found.earlier_scores) == (0.5, [])
    assert found.rescore_note
