"""Validation against a real server: what it finds, and that it leaves nothing behind."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from benchyard.client import AsyncClient, Server
from benchyard.client.benchmark_files.results import ScenarioValidation, ValidationAttempt
from benchyard.client.validation import ValidationOptions, Validator
from benchyard.models.runs import RunProfile
from benchyard.models.scenarios import IsolationChoice, ScenarioView, ValidatedIsolation
from benchyard.testing.server import RunningServer

DIRECTORY = "/home/user/it"
DIFF = "--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-old\n+new\n"
UNDONE = "--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-new\n+old\n"


def command(text: str) -> dict[str, Any]:
    return {"type": "command_scorer", "command": text}


@asynccontextmanager
async def scenario(client: AsyncClient, scorer: dict[str, Any], **fields: Any) -> AsyncIterator[ScenarioView]:
    """A scenario whose file x.txt holds `old`."""
    launch = {"launch_commands": [f"echo {fields.pop('begins', 'old')} > {DIRECTORY}/x.txt"]}
    made = await client.scenarios.create(
        **{
            "name": "validated",
            "input_context": {"problem_statement": "Write new into x.txt."},
            "scoring_contract": {
                "scoring_function_parameters": [{"name": "check", "weight": 1.0, "scorer": scorer}]
            },
            "environment_parameters": {"working_directory": DIRECTORY, "launch_parameters": launch},
            **fields,
        }
    )
    yield made
    await client.scenarios.archive(made.id)


Checked = Callable[..., ScenarioValidation]


@pytest.fixture
def validated(server: RunningServer) -> Checked:
    """Makes a scenario, validates it, and sees that no devbox of it is left."""

    def check(
        scorer: dict[str, Any], options: ValidationOptions | None = None, **fields: Any
    ) -> ScenarioValidation:
        async def live() -> ScenarioValidation:
            told: list[ValidationAttempt] = []
            async with AsyncClient(Server(server.url, server.key)) as client:
                async with scenario(client, scorer, **fields) as made:
                    validator = Validator(client, options, lambda _name, attempt: told.append(attempt))
                    result = await validator.validate(made)
                    runs = [run async for run in client.scenarios.runs.list(scenario_id=made.id)]
                assert sorted(map(repr, told)) == sorted(map(repr, result.attempts))
                assert {run.state.value for run in runs} <= {"completed", "canceled", "failed"}
                own = [each.name async for each in client.scenarios.list(search="validat")]
                assert own == []
            return result

        return asyncio.run(live())

    return check


IS_NEW = command('test "$(cat x.txt)" = new')


@pytest.mark.parametrize(
    "fields",
    [
        {"reference_output": DIFF},
        {"reference_output": DIFF, "validation_type": "FORWARD"},
        {"reference_output": "echo new > x.txt\n"},
        {"reference_output": UNDONE, "validation_type": "REVERSE"},
    ],
    ids=["diff", "forward", "script", "reverse"],
)
def test_a_scenario_that_is_solved_by_its_reference_is_valid(
    validated: Checked, fields: dict[str, Any]
) -> None:
    result = validated(IS_NEW, **fields)
    assert result.problems == []
    assert (result.is_valid, result.is_chosen, result.isolation) == (True, False, "system")
    assert result.validated == ValidatedIsolation(isolation="system")
    scores = [(attempt.kind, attempt.isolation, attempt.score) for attempt in result.attempts]
    assert scores == [("reference", "system", 1.0)] * 2 + [("nothing", "system", 0.0)] * 2


def test_reference_is_reversed_by_the_originals_metadata(validated: Checked) -> None:
    result = validated(
        command('test "$(cat x.txt)" = old'),
        begins="new",
        reference_output=DIFF,
        metadata={"reference_patch_direction": "reverse"},
    )
    assert result.is_valid


@pytest.mark.parametrize(
    ("scorer", "fields", "said"),
    [
        (IS_NEW, {}, "reference got no score and no score instead of 1: there is no reference output"),
        (IS_NEW, {"reference_output": "true"}, "reference got 0 and 0 instead of 1: check: 0"),
        (IS_NEW, {"reference_output": "echo oh no >&2; exit 3"}, "the reference output ended with 3: oh no"),
        (IS_NEW, {"reference_output": DIFF, "begins": "other"}, "the reference output ended with 1"),
        (command("true"), {"reference_output": DIFF}, "nothing got 1 and 1 instead of 0"),
        (
            IS_NEW,
            {"reference_output": DIFF, "nop_score": 0.5},
            "nothing got 0 and 0 instead of 0.5: check: 0",
        ),
        (
            {"type": "bash_script_scorer", "bash_script": "echo nonsense"},
            {"reference_output": DIFF},
            "reference got 0 and 0 instead of 1: check: 0 (",
        ),
        (
            IS_NEW,
            {"reference_output": DIFF, "required_environment_variables": ["NEEDED"]},
            "needs the environment variables NEEDED",
        ),
    ],
    ids=["missing", "useless", "failing", "unfit", "too easy", "nop", "broken scorer", "gate"],
)
def test_problems_are_named(
    validated: Checked, scorer: dict[str, Any], fields: dict[str, Any], said: str
) -> None:
    result = validated(scorer, **fields)
    assert not result.is_valid
    assert said in "\n".join(result.problems)


def test_a_declared_nop_score_is_what_nothing_must_get(validated: Checked) -> None:
    scorer = {
        "type": "bash_script_scorer",
        "bash_script": 'if [ "$(cat x.txt)" = new ]; then echo 1; else echo 0.25; fi',
    }
    assert validated(scorer, reference_output=DIFF, nop_score=0.25).is_valid


def test_results_that_differ_are_found(validated: Checked) -> None:
    script = 'n=$(od -An -N4 -tu4 /dev/urandom | tr -d " "); echo "score=$(python3 -c "print($n / 2**32)")"'
    result = validated({"type": "bash_script_scorer", "bash_script": script}, reference_output=DIFF)
    assert not result.is_valid


def test_variables_of_a_run_can_be_given(validated: Checked) -> None:
    options = ValidationOptions(RunProfile(env_vars={"WORD": "new"}))
    result = validated(
        IS_NEW, options, reference_output="echo $WORD > x.txt", required_environment_variables=["WORD"]
    )
    assert result.is_valid


def test_an_attempt_that_takes_too_long_is_given_up(validated: Checked) -> None:
    result = validated(IS_NEW, ValidationOptions(seconds=4.0), reference_output="sleep 600")
    assert "it was not done after 4 s" in result.problems[0]


REFERENCE = """
echo new > x.txt; sudo sh -c 'echo new > /srv/x.txt'
setsid nohup sleep 86399 >/dev/null 2>&1 < /dev/null & sleep 0.2
"""
ROOMS = {
    "answer": 'test "$(cat x.txt)" = new',
    "system": "test -e ../made && grep -q new x.txt",
    "clean": "grep -q new /srv/x.txt",
    "live": "pgrep -f 'sleep 86399' >/dev/null",
}
"""Isolation -> what passes in it, and in none that is stricter."""


@pytest.mark.parametrize("room", ROOMS)
def test_the_strictest_isolation_that_does_is_found(validated: Checked, room: str) -> None:
    reference = f"touch ../made; {REFERENCE}"
    result = validated(command(ROOMS[room]), reference_output=reference, answer_paths=["x.txt"])
    assert (result.problems, result.strictest, result.isolation) == ([], room, room)
    stricter = list(ROOMS)[: list(ROOMS).index(room)]
    assert list(result.failed) == stricter
    assert result.validated is not None
    assert [*result.validated.failed] == stricter
    assert all("reference got 0 and 0 instead of 1" in why for why in result.failed.values())
    tried = [(attempt.kind, attempt.score) for attempt in result.attempts if attempt.isolation == room]
    assert tried == [("reference", 1.0)] * 2 + [("nothing", 0.0)] * 2


@pytest.mark.parametrize(("room", "chosen"), [("system", "clean"), ("clean", "live"), ("live", "live")])
def test_chosen_isolation_stays_and_a_stricter_one_is_named(
    validated: Checked, room: str, chosen: str
) -> None:
    reference = f"touch ../made; {REFERENCE}"
    result = validated(command(ROOMS[room]), reference_output=reference, scoring_isolation=chosen)
    assert (result.problems, result.isolation, result.strictest) == ([], chosen, room)
    assert result.clean_suffices is (room != "live")
    assert ("prefer it" in result.notes[0]) is (room != chosen)
    assert [
        note for note in result.notes if "`system` isolation would not do" in note
    ] != [] or room == "system"


def test_an_answer_that_was_chosen_is_as_strict_as_can_be(validated: Checked) -> None:
    fields = {"scoring_isolation": "answer", "answer_paths": ["x.txt"], "reference_output": DIFF}
    result = validated(IS_NEW, **fields)
    assert (result.problems, result.strictest, len(result.attempts)) == ([], "answer", 4)


def test_a_scorer_that_breaks_when_nothing_is_done_is_noted(validated: Checked) -> None:
    scorer = {"type": "bash_script_scorer", "bash_script": "grep -q new x.txt && echo 1"}
    result = validated(scorer, reference_output=DIFF)
    assert result.is_valid
    assert "with nothing done a scorer ends in an error" in result.notes[0]


def test_an_expected_answer_is_written_where_answers_are(validated: Checked) -> None:
    """EVALUATION: the scorer is told what is expected, and the answer path holds it."""
    script = (
        "import json, os\n"
        "expected = json.loads(os.environ['RL_SCORER_CONTEXT'])['benchyard']['reference_output']\n"
        "print(1.0 if open('x.txt').read() == expected else 0.0)\n"
    )
    result = validated(
        command(f"test 1.0 = $(python3 -c {json.dumps(script).replace(chr(92) + 'n', chr(10))})"),
        reference_output="forty-two\n",
        validation_type="EVALUATION",
        scoring_isolation="answer",
        answer_paths=["x.txt"],
    )
    assert result.problems == []
    assert len(result.attempts) == 4


def test_without_an_answer_path_the_environment_itself_is_evaluated(validated: Checked) -> None:
    result = validated(IS_NEW, begins="new", reference_output="new", validation_type="EVALUATION")
    assert result.is_valid
    assert [attempt.kind for attempt in result.attempts] == ["reference"] * 2
    assert "EVALUATION" in result.notes[0]


def test_the_reference_outputs_of_steps_are_applied_one_after_the_other(validated: Checked) -> None:
    def step(name: str, text: str, before: str, **fields: Any) -> dict[str, Any]:
        check = command(f'test "$(cat x.txt)" = {text}')
        contract = {"scoring_function_parameters": [{"name": "check", "weight": 1.0, "scorer": check}]}
        reference = f"test $(cat x.txt) = {before} && echo {text} > x.txt\n"
        return {
            "name": name,
            "problem_statement": f"Write {text}.",
            "scoring_contract": contract,
            "reference_output": reference,
            **fields,
        }

    steps = [step("one", "new", "old"), step("two", "newer", "prepared", setup="echo prepared > x.txt")]
    result = validated(IS_NEW, steps=steps)
    assert result.is_valid, result.problems
    assert [attempt.scorers for attempt in result.attempts if attempt.kind == "reference"] == [
        {"check": 1.0, "step one": 1.0, "step two": 1.0}
    ] * 2
    steps[1]["reference_output"] = "true"
    result = validated(IS_NEW, steps=steps)
    assert "reference got 0.5 and 0.5" in result.problems[0]


def test_a_scenario_with_tries_is_validated_as_one_without(validated: Checked) -> None:
    result = validated(IS_NEW, reference_output=DIFF, tries=2)
    assert result.is_valid, result.problems


INSTALLS = """
printf '#!/bin/sh\\nexit 0\\n' > /tmp/tool; chmod 755 /tmp/tool; sudo cp /tmp/tool /usr/local/bin/tool
"""


@pytest.mark.parametrize("chosen", ["auto", "clean"])
def test_work_like_the_reference_is_not_suspect_once_it_was_validated(
    server: RunningServer, chosen: IsolationChoice
) -> None:
    """What the reference does beside the work is known from the copies that were tried, and kept."""

    async def suspicions() -> list[str]:
        async with (
            AsyncClient(Server(server.url, server.key)) as client,
            scenario(client, command("tool"), reference_output=INSTALLS, scoring_isolation=chosen) as made,
        ):
            found = (await Validator(client).validate(made)).validated
            assert found is not None
            assert (found.isolation, [*found.failed]) == ("clean", ["system"])
            await client.scenarios.update(made.id, validated_isolation=found)
            run = await client.scenarios.start_run(scenario_id=made.id)
            await client.devboxes.await_running(run.devbox_id)
            await client.executions.run(run.devbox_id, INSTALLS)
            scored = await client.scenarios.runs.score_and_await(run.id)
            await client.scenarios.runs.complete(run.id)
            result = scored.scoring_contract_result
            assert result is not None
            assert (result.score, result.isolation) == (1.0, "clean")
            return result.suspicions

    assert asyncio.run(suspicions()) == []
