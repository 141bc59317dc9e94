"""Every end of a scorer is somebody's: what an answer can cause counts 0, and nothing else does."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.cli.job.gates import means_below
from benchyard.cli.job.summary import summarize
from benchyard.hosts import leaks
from benchyard.models.jobs import BenchmarkJobView
from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import PATIENCE_SECONDS, Run, bash, command, function, results, scenario, start
from tests.api.test_scenario_runs import client_of

WORK = "/home/user/task"
IN_WORK = {"environment_parameters": {"working_directory": WORK}}
RIGHT = "printf 'print(42)\\n' > answer.py"
GRADE = 'test "$(python3 answer.py)" = 42'
LOOP = "echo 'while True: pass' > answer.py"
KILL = "printf 'import os; os.kill(os.getppid(), 9)\\n' > answer.py"
PRINTED = f"{GRADE} && echo 1 || echo 0"
FRAGILE = bash("test -e state || echo 1")


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of a server with the native driver."""
    with client_of(server) as client:
        yield client
    assert leaks.find(server.data) == []


def worked(http: httpx.Client, work: str, *functions: dict[str, Any], **fields: Any) -> Run:
    """A run in which this was done."""
    made = scenario(http, *functions, **{**IN_WORK, "reference_output": RIGHT, **fields})
    run = start(http, made["id"])
    id = run.devbox.start(f"cd {WORK}; {work}")
    eventually(
        lambda: good(run.devbox.get(f"executions/{id}"))["status"] == "completed", "the work to be done"
    )
    return run


def graded(http: httpx.Client, work: str, *functions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The view of a run in which this was done, once it was scored."""
    run = worked(http, work, *functions, **fields)
    good(run.post("score"))
    deadline = time.monotonic() + 3 * PATIENCE_SECONDS
    while (view := run.view())["state"] != "scored":
        assert time.monotonic() < deadline, view
        time.sleep(0.05)
    run.end()
    return view


def blamed(view: dict[str, Any]) -> tuple[str, str | None, float]:
    """How the first scorer ended, whose that is, and the score."""
    first = results(view)[0]
    return first["state"], first.get("cause"), view["scoring_contract_result"]["score"]


def references(http: httpx.Client, scenario_id: str) -> list[dict[str, Any]]:
    """The runs of a scenario's reference."""
    listed = good(http.get("/v1/scenarios/runs", params={"scenario_id": scenario_id, "limit": 100}))["runs"]
    return [each for each in listed if (each["name"] or "").startswith("reference of")]


PYTHON = """\
import subprocess
ran = subprocess.run(["python3", "answer.py"], capture_output=True, text=True)
print(1.0 if ran.stdout == "42\\n" else 0.0)
"""
MAKE_TESTS = "sudo mkdir -p /tests; printf '{}' | sudo tee /tests/test.sh > /dev/null"
BIGCODEBENCH = {
    "type": "bigcodebench_scorer",
    "code_prompt": "def task_func():\n",
    "test": "import unittest\nclass TestCases(unittest.TestCase):\n    def test_it(self):\n"
    "        self.assertEqual(task_func(), 42)\n",
    "modules": [],
}
ENDS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "command: a loop": (command(GRADE), RIGHT, LOOP, "took longer"),
    "command: a signal": (command(GRADE), RIGHT, KILL, "signal 9"),
    "bash: a loop": (bash(PRINTED), RIGHT, LOOP, "took longer"),
    "bash: nothing printed": (bash("cat score"), "echo 1 > score", "true", "printed nothing"),
    "bash: no score": (bash("cat score"), "echo 1 > score", "echo 2 > score", "not from 0 to 1"),
    "python: a loop": ({"type": "python_script_scorer", "python_script": PYTHON}, RIGHT, LOOP, "took longer"),
    "python: a signal": ({"type": "python_script_scorer", "python_script": PYTHON}, RIGHT, KILL, "signal 9"),
    "tests: a loop": (
        {
            "type": "test_based_scorer",
            "test_command": "python3 check.py",
            "test_files": [{"file_path": "check.py", "file_contents": "import answer\n"}],
        },
        RIGHT,
        LOOP,
        "took longer",
    ),
    "tests: no place for them": (
        {
            "type": "test_based_scorer",
            "test_command": "python3 tests/check.py",
            "test_files": [{"file_path": "tests/check.py", "file_contents": "import os\n"}],
        },
        RIGHT,
        "echo no > tests",
        "could not be put in place",
    ),
    "ast-grep: no folder": (
        {"type": "ast_grep_scorer", "pattern": "print($A)", "search_directory": "src", "lang": "python"},
        "mkdir src; echo 'print(1)' > src/a.py",
        "true",
        "cannot search",
    ),
    "harbor: no reward": (
        {"type": "harbor_scorer", "tests": None, "user": "root"},
        MAKE_TESTS.format("echo 1 > /logs/verifier/reward.txt\\n"),
        MAKE_TESTS.format("kill -9 $$\\n"),
        "left neither",
    ),
    "harbor: a loop": (
        {"type": "harbor_scorer", "tests": None, "user": "root"},
        MAKE_TESTS.format("echo 1 > /logs/verifier/reward.txt\\n"),
        MAKE_TESTS.format("while :; do :; done\\n"),
        "not done in time",
    ),
    "bigcodebench: too large": (
        BIGCODEBENCH,
        "printf 'def task_func():\\n    return 42\\n' > solution.py",
        "head -c 2000000 /dev/zero > solution.py",
        "larger than",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_an_answer_that_makes_a_scorer_fail_counts_0(http: httpx.Client, end: str) -> None:
    scorer, reference, work, reason = ENDS[end]
    view = graded(http, work, function(scorer), reference_output=reference, scorer_timeout_sec=8)
    (result,) = results(view)
    assert blamed(view) == ("complete", "answer", 0.0), result
    assert reason in result["reason"]
    assert "the reference does not make it fail, so the answer counts 0" in result["output"]


def test_a_registered_script_is_judged_as_any_other(http: httpx.Client) -> None:
    registered = {"type": "causes/custom", "bash_script": PRINTED}
    good(http.post("/v1/scenarios/scorers", json=registered))
    own = {"type": "custom_scorer", "custom_scorer_type": "causes/custom"}
    assert blamed(graded(http, KILL, function(own))) == ("complete", "answer", 0.0)


@pytest.mark.parametrize("kind", ["aime", "gpqa", "arc", "replication"])
def test_an_answer_that_cannot_be_read_is_a_wrong_one(http: httpx.Client, kind: str) -> None:
    expected = {
        "aime": {"answer": 73},
        "gpqa": {"letter": "C"},
        "arc": {"task_id": "t", "outputs": [[[1]]]},
        "replication": {"values": {"t": 5.0}, "tolerances": {"t": 0.5}},
    }[kind]
    scorer = {"type": f"{kind}_scorer", "path": "answer.txt", "expected": expected}
    view = graded(http, "ln -s /proc/self/mem answer.txt", function(scorer), reference_output=None)
    assert blamed(view) == ("complete", None, 0.0), results(view)
    assert "could not be read" in results(view)[0]["output"]


@pytest.mark.parametrize("isolation", ["clean", "live"])
def test_a_loop_counts_0_wherever_it_is_graded(http: httpx.Client, isolation: str) -> None:
    fields = {"scoring_isolation": isolation, "scorer_timeout_sec": 3}
    assert blamed(graded(http, LOOP, function(command(GRADE)), **fields)) == ("complete", "answer", 0.0)


TOO_MUCH = {
    "too many files": "mkdir out; cd out; seq 100001 | xargs -n 2000 touch",
    "too large": "mkdir out; truncate -s 2G out/sparse",
}


@pytest.mark.parametrize("work", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_an_answer_that_is_too_much_counts_0(http: httpx.Client, work: str) -> None:
    rules = {"scoring_isolation": "answer", "answer_paths": ["out"], "reference_output": "mkdir out"}
    view = graded(http, work, function(command("true")), **rules)
    assert blamed(view) == ("complete", "answer", 0.0), results(view)
    assert "more than" in results(view)[0]["reason"]


def test_full_memory_that_a_test_is_led_to_is_no_full_disk(http: httpx.Client) -> None:
    files = [{"file_path": "tests/check.py", "file_contents": "a hidden test"}]
    tests = {"type": "test_based_scorer", "test_command": "true", "test_files": files}
    fill = "mkdir /dev/shm/t; ln -s /dev/shm/t tests; cat /dev/zero > /dev/shm/all; true"
    view = graded(http, fill, function(tests), scoring_isolation="live", reference_output="true")
    assert blamed(view) == ("complete", "answer", 0.0), view
    assert "no space left" in results(view)[0]["reason"]


def test_a_live_devbox_whose_programs_do_not_end_is_scored(http: httpx.Client) -> None:
    """What scorers brought along is taken away by a program of the devbox, which was made another."""
    program = "#!/bin/bash\nwhile :; do read -t 9 < <(:); sleep 9; done\n"
    plant = f"printf '{program}' > sleeper; chmod 755 sleeper; sudo cp sleeper /usr/bin/rm"
    files = [{"file_path": "tests/check.py", "file_contents": "a hidden test"}]
    tests = {"type": "test_based_scorer", "test_command": "grep -q hidden tests/check.py"}
    run = worked(http, plant, function({**tests, "test_files": files}), scoring_isolation="live")
    good(run.post("score"))
    view = run.reaches("scored")
    assert view["scoring_contract_result"]["score"] == 1.0
    left = run.devbox.run(f"cat {WORK}/tests/check.py; sudo cat /run/benchyard-*/*")
    run.end()
    assert "hidden" not in left["stdout"]


def test_a_scorer_that_fails_with_the_reference_too_is_to_blame(http: httpx.Client) -> None:
    view = graded(http, RIGHT, function(bash("echo nonsense"), 0.5), function(command("true"), 0.5, "fine"))
    assert blamed(view)[:2] == ("error", "scorer"), results(view)
    assert "the reference makes it fail too" in results(view)[0]["reason"]
    assert results(view)[1]["state"] == "complete"


def test_without_a_reference_the_start_is_asked(http: httpx.Client) -> None:
    breaks = graded(http, "echo broken > state", function(FRAGILE), reference_output=None)
    assert blamed(breaks) == ("complete", "answer", 0.0)
    assert "the start, untouched, does not make it fail" in results(breaks)[0]["reason"]
    broken = graded(http, "true", function(bash("cat score")), reference_output=None)
    assert blamed(broken) == ("error", "scorer", 0.0)


def test_a_reference_that_does_not_apply_shows_nothing(http: httpx.Client) -> None:
    view = graded(
        http,
        "echo broken > state",
        function(FRAGILE),
        reference_output="touch state; exit 3",
    )
    assert blamed(view) == ("complete", "answer", 0.0)
    assert "the start, untouched" in results(view)[0]["reason"]


def test_a_failure_of_the_moment_counts_for_nobody(http: httpx.Client) -> None:
    """In `live` the second try is in the same devbox, where the first left its mark."""
    flaky = bash("test -e /tmp/tried && echo 1; touch /tmp/tried")
    view = graded(http, "true", function(flaky), scoring_isolation="live")
    assert blamed(view) == ("complete", None, 1.0)


def test_a_second_try_finds_a_new_room(http: httpx.Client) -> None:
    marked = bash("test -e /tmp/tried && echo 1; touch /tmp/tried")
    view = graded(http, "true", function(marked), reference_output="touch /tmp/tried")
    assert blamed(view) == ("complete", "answer", 0.0)


def test_missing_server_dependency_is_the_machines_failure(http: httpx.Client) -> None:
    needs = {
        "type": "python_script_scorer",
        "python_script": "print(1)",
        "python_version_constraint": "==3.99.*",
    }
    view = graded(http, RIGHT, function(needs))
    assert blamed(view) == ("error", "machine", 0.0)
    good(http.post("/v1/secrets", json={"name": "CAUSES", "value": "x"}))
    made = scenario(http, function(command("true")), **IN_WORK, scoring_secrets={"A": "CAUSES"})
    run = start(http, made["id"])
    good(http.post("/v1/secrets/CAUSES/delete"))
    assert blamed(run.scored()) == ("error", "machine", 0.0)
    run.end()


def test_the_reference_is_tried_once_for_all(http: httpx.Client) -> None:
    made = scenario(http, function(command(GRADE)), **IN_WORK, reference_output=RIGHT)
    runs = [start(http, made["id"]) for _ in range(3)]
    for run in runs:
        run.devbox.run(f"cd {WORK}; {KILL}")
        good(run.post("score"))
    assert [blamed(run.reaches("scored")) for run in runs] == [("complete", "answer", 0.0)] * 3
    (once,) = references(http, made["id"])
    assert once["state"] == "completed"
    for run in runs:
        run.end()


def test_rescored_run_is_judged_by_the_same_rule(http: httpx.Client) -> None:
    run = worked(http, KILL, function(command("true")))
    assert run.scored()["scoring_contract_result"]["score"] == 1.0
    good(run.post("complete"))
    contract = {"scoring_function_parameters": [function(command(GRADE))]}
    id = run.view()["scenario_id"]
    good(http.post(f"/v1/scenarios/{id}", json={"scoring_contract": contract}))
    good(run.post("rescore"))
    eventually(lambda: "rescoring" not in run.view(), "the rescoring")
    assert blamed(run.view()) == ("complete", "answer", 0.0)


def test_a_try_that_breaks_the_scorer_leads_to_the_next(http: httpx.Client) -> None:
    run = worked(http, KILL, function(command(GRADE)), tries=2)
    view = run.scored()
    assert blamed(view) == ("complete", "answer", 0.0)
    assert view["next_round"]["number"] == 2
    run.devbox.run(f"cd {WORK}; {RIGHT}")
    good(run.post("score"))
    eventually(lambda: run.view()["scoring_contract_result"]["round"] == 2, "the second round")
    assert run.reaches("scored")["scoring_contract_result"]["score"] == 1.0
    run.end()


def test_a_loop_pulls_the_mean_of_a_job_down(http: httpx.Client, capfd: pytest.CaptureFixture[str]) -> None:
    fields = {**IN_WORK, "reference_output": RIGHT, "scorer_timeout_sec": 3}
    ids = [scenario(http, function(command(GRADE)), name=name, **fields)["id"] for name in ("one", "two")]
    work = f'grep -q one "$BENCHYARD_PROMPT_FILE" && {{ {RIGHT}; }} || {{ {LOOP}; }}'
    for id, name in zip(ids, ("one", "two"), strict=True):
        good(http.post(f"/v1/scenarios/{id}", json={"input_context": {"problem_statement": name}}))
    job = Job(http, scenarios_spec(ids, agent(work)))
    (outcome,) = job.completed()["benchmark_outcomes"]
    assert (outcome["mean_score"], outcome.get("unscored", 0)) == (0.5, 0), json.dumps(outcome)
    failures = [each["answer_failure"] for each in job.trials() if each.get("answer_failure")]
    assert len(failures) == 1
    assert "took longer" in failures[0]
    view = BenchmarkJobView.model_validate(job.get())
    assert means_below(view, 0.9) == ["command: the mean 0.500 is below 0.9"]
    summarize(view, extended=True)
    assert "answer: scorer 'scorer': the scorer took longer" in " ".join(capfd.readouterr().out.split())


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(tmp_path / "data") as running:
        yield running
    assert leaks.find(running.data) == []


@pytest.mark.parametrize("moment", ["the second try", "the reference", "the reference's scoring", "a stop"])
def test_a_server_that_is_killed_loses_and_doubles_nothing(own_server: RunningServer, moment: str) -> None:
    """Tries of a killed server count for nothing, and what it had begun for the reference is ended."""
    with client_of(own_server) as http:
        slow = bash(f"echo try; sleep 1; {PRINTED}")
        fields = {"reference_output": f"sleep 2; {RIGHT}", "scorer_timeout_sec": 30}
        run = worked(http, KILL, function(slow), **fields)
        good(run.post("score"))
        scenario_id = run.view()["scenario_id"]

        def is_there() -> bool:
            if moment == "the second try":
                return "is tried again" in own_server.log
            begun = references(http, scenario_id)
            wanted = ("scoring",) if moment == "the reference's scoring" else ("running", "scoring")
            return bool(begun) and begun[0]["state"] in wanted

        eventually(is_there, moment)
        if moment == "a stop":
            own_server.stop()
        else:
            own_server.kill()
        own_server.start()
        view = run.reaches("scored")
        assert blamed(view) == ("complete", "answer", 0.0)
        assert (view["earlier_results"], view["scoring_contract_result"]["round"]) == ([], 1)
        states = sorted(each["state"] for each in references(http, scenario_id))
        assert states == (["completed"] if moment == "the second try" else ["canceled", "completed"])
        run.end()
        live = ("provisioning", "initializing", "running", "suspending", "suspended", "resuming")

        def are_gone() -> bool:
            listed = good(http.get("/v1/devboxes", params={"limit": 100}))["devboxes"]
            return not any(each["status"] in live for each in listed)

        eventually(are_gone, "all devboxes to end")
