"""What people read of a job."""

import sys
import time

import click
import pytest
from click.testing import CliRunner

from benchyard.cli.job.gates import BELOW, SUSPECT, UNSCORED, means_below, require_good, suspect_scores
from benchyard.cli.job.summary import summarize, summary
from benchyard.models.jobs import Job, JobState, OrchestratorConfig
from benchyard.models.trials import FailureReason, SuspectRule, Trial, TrialRound, TrialState
from benchyard.reports.outcomes import job_view
from tests.reports.scenes import job, trial


def printed(made: Job, trials: list[Trial], capfd: pytest.CaptureFixture[str], *, extended: bool) -> str:
    summarize(job_view(made, trials, with_scenarios=True), extended=extended)
    return capfd.readouterr().out


def cells(text: str, first: str) -> list[str]:
    """The line of a table that begins so."""
    return next(line for line in text.splitlines() if line.startswith(first)).split()


def test_tokens_cost_and_pass_at_k_are_shown_when_they_are_known(capfd: pytest.CaptureFixture[str]) -> None:
    usage = {"total_prompt_tokens": 1000.0, "total_cached_tokens": 900.0, "total_cost_usd": 0.25}
    trials = [trial(1.0, usage=usage), trial(failure="agent", attempt=2, usage=usage)]
    shown = printed(job(attempts=2, state=JobState.COMPLETED), trials, capfd, extended=False)
    assert "TOKENS" in shown
    assert "2,000" in shown
    assert "$0.5000" in shown
    assert "@1 0.500  @2 1.000" in shown
    assert "^1 0.500  ^2 0.000" in shown
    plain = printed(job(state=JobState.COMPLETED), [trial(1.0)], capfd, extended=False)
    assert "TOKENS" not in plain
    assert "COST" not in plain
    assert "PASS@K" not in plain


def test_rounds_and_rewards_are_shown_when_there_are_any(capfd: pytest.CaptureFixture[str]) -> None:
    rounds = [TrialRound(number=1, score=0.0), TrialRound(number=2, name="last", score=0.5)]
    several = trial(0.5, rounds=rounds, rewards={"pass_1": 0.0, "pass_2": 0.5})
    failed = trial(failure="agent", scenario=1)
    made = job(scenarios=2, state=JobState.COMPLETED)
    shown = printed(made, [several, failed], capfd, extended=True)
    assert cells(shown, "scenario 0")[2:] == ["not", "passed", "0.500", "1", "0.000,", "last", "0.500", "1"]
    assert "pass_1 0  pass_2 0.25" in shown, "who failed counts 0"
    plain = printed(job(state=JobState.COMPLETED), [trial(1.0)], capfd, extended=True)
    assert "ROUNDS" not in plain
    assert "REWARDS" not in plain


def test_every_reason_for_no_score_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    def reason(text: str) -> FailureReason:
        return FailureReason(exception_type="Oops", exception_message=text, kind="scenario")

    told = [f"it broke; see `benchyard blueprint logs bpt_{at}`" for at in (1, 2)]
    told += ["no room", "no time", "no way"]
    trials = [
        trial(failure="scenario", scenario=at).model_copy(update={"failure": reason(text)})
        for at, text in enumerate(told)
    ]
    made = job(scenarios=len(told), state=JobState.COMPLETED)
    shown = printed(made, trials, capfd, extended=False)
    assert shown.count("2 unscored: scenario: it broke\n") == 1
    assert shown.count("1 unscored: ") == 2
    assert "... and 1 other reason; -e shows all" in shown


def test_a_terminal_breaks_no_word_of_a_reason(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "the model's provider at api.example.test cannot be reached: Name or service not known, try again"
    reason = FailureReason(exception_type="Oops", exception_message=told, kind="agent")
    failed = trial(failure="agent").model_copy(update={"failure": reason})
    cheated = trial(1.0, scenario=1, suspicions=[told])
    made = job(scenarios=2, state=JobState.COMPLETED)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    shown = printed(made, [failed, cheated], capfd, extended=False)
    assert " ".join(shown.split()).count(told) == 2
    assert [line for line in shown.splitlines() if len(line) > 60] == []


def test_reasons_that_differ_in_ports_and_ids_are_one(capfd: pytest.CaptureFixture[str]) -> None:
    def failed(at: int, text: str) -> Trial:
        reason = FailureReason(exception_type="Oops", exception_message=text, kind="agent")
        return trial(failure="agent", scenario=at).model_copy(update={"failure": reason})

    told = [f"no answer (127.0.0.1:2{at}048), request req_0000000{at}" for at in range(3)]
    told += ["the agent ended with exit status 1", "the agent ended with exit status 2"]
    trials = [failed(at, text) for at, text in enumerate(told)]
    made = job(scenarios=len(told), state=JobState.COMPLETED)
    shown = printed(made, trials, capfd, extended=False)
    assert f"3 crashed: agent: {told[0]}\n" in shown
    assert shown.count("1 crashed: the agent ended with exit status") == 2
    assert "other reason" not in shown


def test_a_narrow_terminal_shows_tokens_and_cost_too(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = {"total_prompt_tokens": 1_234_567.0, "total_cost_usd": 12.25}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    made = job(agents=2, attempts=2, state=JobState.COMPLETED)
    trials = [trial(1.0, usage=usage, agent=agent, attempt=at) for agent in (0, 1) for at in (1, 2)]
    summarize(job_view(made, trials, with_scenarios=True), extended=False)
    shown = capfd.readouterr()
    assert "2,469,134" in shown.out
    assert "$24.5000" in shown.out
    assert "@1 1.000  @2 1.000" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "left out" not in shown.err


def test_many_rewards_are_not_all_shown(capfd: pytest.CaptureFixture[str]) -> None:
    rewards = {f"part_{at}": 1.0 for at in range(9)}
    shown = printed(job(state=JobState.COMPLETED), [trial(1.0, rewards=rewards)], capfd, extended=False)
    assert "part_3 1  and 5 more" in shown
    assert "part_4" not in shown


def test_running_and_finished_trials_are_counted(capfd: pytest.CaptureFixture[str]) -> None:
    trials = [
        trial(0.5, agent=0),
        trial(failure="infrastructure", agent=0, scenario=1),
        trial(1.0, agent=1),
        trial(agent=1, scenario=1, state=TrialState.RUNNING),
    ]
    shown = printed(job(agents=2, scenarios=2), trials, capfd, extended=True)
    assert cells(shown, "agent-1") == ["agent-1", "1/2", "1.000", "0", "0", "0"]
    assert cells(shown, "agent-0")[1:9] == ["0", "(0%)", "1", "(50%)", "0", "(0%)", "1", "(50%)"]
    assert cells(shown, "scenario 1")[2:] == ["unscored", "-", "1", "infrastructure:", "it", "broke"]


def test_control_characters_of_agents_stay_away(capfd: pytest.CaptureFixture[str]) -> None:
    odd = trial(failure="agent").model_copy(update={"scenario_name": "a\x1b[31mb"})
    shown = printed(job(state=JobState.COMPLETED), [odd], capfd, extended=True)
    assert "\x1b" not in shown
    assert "a\ufffd[31mb" in shown


def test_ten_thousand_trials_are_shown_in_a_moment(capfd: pytest.CaptureFixture[str]) -> None:
    trials = [trial(0.5 * agent, agent=agent, scenario=number) for agent in (0, 1) for number in range(5000)]
    view = job_view(job(2, 5000, state=JobState.COMPLETED), trials, with_scenarios=True)
    begin = time.process_time()
    summarize(view, extended=False)
    assert time.process_time() - begin < 1.0, "usually a tenth of that"
    shown = capfd.readouterr().out
    assert "agent-1 against agent-0: +0.500 (+0.499 to +0.500)" in shown
    assert "scenarios: more than chance\n" in shown
    assert "and 4980 more; -e shows all" in shown


def test_a_difference_that_tells_nothing_of_other_scenarios_is_not_said_to(
    capfd: pytest.CaptureFixture[str],
) -> None:
    trials = [
        trial(1.0 - agent, agent=agent, scenario=number).model_copy(
            update={"id": f"trl_{agent}_{number}_{attempt}", "attempt": attempt}
        )
        for agent in (0, 1)
        for number in range(4)
        for attempt in (1, 2)
    ]
    summarize(job_view(job(2, 4, state=JobState.COMPLETED), trials, with_scenarios=True), extended=False)
    shown = " ".join(capfd.readouterr().out.split())
    assert "p = 0.002 on 4 scenarios: more than chance on these scenarios, which are too few" in shown


def test_below_a_threshold_or_without_a_score() -> None:
    def why(made: Job, *trials: Trial) -> list[str]:
        return means_below(job_view(made, list(trials), with_scenarios=True), 0.5)

    assert why(job(), trial(0.5)) == []
    assert why(job(agents=2), trial(0.5), trial(0.4, agent=1)) == ["agent-1: the mean 0.400 is below 0.5"]
    assert why(job(), trial(failure="scorer")) == ["agent-0: nothing was scored"]
    assert why(job(state=JobState.FAILED)) == ["the job is failed, and not every agent has an outcome"]
    assert len(why(job(agents=2, state=JobState.CANCELLED), trial(1.0))) == 1


def test_crashes_are_seen_among_several_attempts(capfd: pytest.CaptureFixture[str]) -> None:
    note = "scorer 'tests' gave 0.5: 1 of 2 passed"
    trials = [
        trial(0.5, scorer_note=note),
        trial(failure="agent", attempt=2),
        trial(failure="agent", attempt=3),
    ]
    made = job(attempts=3, state=JobState.COMPLETED)
    counts = job_view(made, trials, with_scenarios=True).benchmark_outcomes[0].attempts
    assert (counts.passed, counts.not_passed, counts.crashed, counts.unscored) == (0, 1, 2, 0)
    extended = printed(made, trials, capfd, extended=True)
    assert "1 not passed, 2 crashed" in extended
    assert "2 of 3 attempts: agent: it broke" in extended
    assert note in extended
    short = printed(made, trials, capfd, extended=False)
    assert cells(short, "agent-0")[1:7] == ["0", "(0%)", "1", "(33%)", "2", "(67%)"]
    assert f"logs: benchyard job logs {made.id}" in short


def test_unscored_trials_fail_the_gate_unless_allowed() -> None:
    def gate(*trials: Trial, most: tuple[float, bool] = (0.0, False)) -> int:
        view = job_view(
            job(scenarios=len(trials), state=JobState.COMPLETED), list(trials), with_scenarios=True
        )
        try:
            require_good(view, 0.5, max_unscored=most)
        except click.exceptions.Exit as ended:
            return ended.exit_code
        return 0

    lost = trial(failure="scorer", scenario=1)
    assert gate(trial(1.0), trial(1.0, scenario=1)) == 0
    assert gate(trial(1.0), lost) == UNSCORED
    assert gate(trial(1.0), lost, most=(1.0, False)) == 0
    assert gate(trial(1.0), lost, most=(50.0, True)) == 0
    assert gate(trial(1.0), lost, most=(49.0, True)) == UNSCORED
    assert gate(trial(0.1), lost) == BELOW


@pytest.mark.parametrize("given", ["-1", "x", "101%", "1.5", "nan", "inf", "%"])
def test_an_odd_limit_is_refused_in_the_flags_own_words(given: str) -> None:
    ended = CliRunner().invoke(summary, ["some-job", f"--max-unscored={given}"])
    assert ended.exit_code == 2
    assert "neither a number of trials such as 3, nor a share such as 5%" in ended.output


WHY = "scorers opened /usr/local/bin/python3, which was changed outside of the work"


def test_suspect_scores_are_marked_wherever_they_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    trials = [trial(1.0, suspicions=[WHY]), trial(0.0, agent=1)]
    made = job(agents=2, state=JobState.COMPLETED)
    shown = " ".join(printed(made, trials, capfd, extended=False).split())
    assert "SUSPECT" in shown
    assert f"agent-0 scenario 0 suspect: {WHY}" in shown
    assert "scenario 0 1.000 suspect 0.000" in shown, "beside the other agent's"
    extended = " ".join(printed(made, trials, capfd, extended=True).split())
    assert "passed 1.000 suspect 1" in extended
    assert f"suspect: {WHY}" in extended
    plain = printed(made, [trial(1.0), trial(0.0, agent=1)], capfd, extended=True)
    assert "suspect" not in plain.lower()


def test_a_suspect_score_that_counts_nothing_is_shown_as_it_was_given(
    capfd: pytest.CaptureFixture[str],
) -> None:
    view = job_view(
        job(state=JobState.COMPLETED), [trial(1.0, suspicions=[WHY])], with_scenarios=True, suspect="zero"
    )
    summarize(view, extended=True)
    shown = " ".join(capfd.readouterr().out.split())
    assert "1 (count 0)" in shown
    assert "not passed 0.000 suspect 1" in shown
    assert f"suspect (scored 1.000): {WHY}" in shown


def test_many_suspect_scores_are_cut_short(capfd: pytest.CaptureFixture[str]) -> None:
    trials = [trial(1.0, scenario=at, suspicions=[WHY]) for at in range(30)]
    view = job_view(job(scenarios=30, state=JobState.COMPLETED), trials, with_scenarios=True)
    summarize(view, extended=False)
    assert "... and 27 more that are suspect; -e shows all" in capfd.readouterr().out
    told = suspect_scores(view)
    assert (len(told), told[-1]) == (11, "... and 20 more")


def test_gates_fail_by_the_rule(capfd: pytest.CaptureFixture[str]) -> None:
    def status(rule: SuspectRule, least: float | None, told: SuspectRule | None = None) -> int:
        made = job(state=JobState.COMPLETED)
        spec = made.spec.model_copy(update={"orchestrator_config": OrchestratorConfig(suspect=rule)})
        made = made.model_copy(update={"spec": spec})
        view = job_view(made, [trial(1.0, suspicions=[WHY])], with_scenarios=True, suspect=told)
        try:
            require_good(view, least, told)
        except click.exceptions.Exit as ended:
            return ended.exit_code
        return 0

    assert [status("keep", None), status("keep", 0.9)] == [0, 0]
    assert [status("zero", None), status("zero", 0.9)] == [0, BELOW]
    assert [status("fail", None), status("fail", 0.9)] == [SUSPECT, SUSPECT]
    assert status("keep", None, "fail") == SUSPECT
    assert status("keep", 0.9, "zero") == BELOW
    assert status("fail", 0.9, "keep") == 0
    assert f"agent-0: scenario 0 is suspect: {WHY}" in capfd.readouterr().err
