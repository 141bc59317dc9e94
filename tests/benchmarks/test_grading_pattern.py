"""What quickstart's graders run gains nothing by attacking them.

Every attack is a real one: it succeeds against the same grader without what keeps the answer out, run by the
user whose work it grades, in a room that lets processes trace each other.
"""

import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchyard.client import Client, Server
from benchyard.models.scenarios import ScenarioView
from benchyard.testing.server import RunningServer

REACH = (Path(__file__).parent / "reach.py.txt").read_text()
AS_FUNCTION = "\nmain()\n"
JOBS = """
expected = main()
class Jobs:
    said = None
    def add(self, priority, job): pass
    def take(self): return None
    def __len__(self): return 0
import json, __main__
if expected:
    print()
    print(json.dumps([expected(case) for case in __main__.cases]))
    sys.stdout.flush()
    os._exit(0)
"""
WRAP = """
expected = main()
if not sys.argv[1:] or not sys.argv[1].isdigit() or sys.argv[1] == "0":
    print("usage", file=sys.stderr)
    sys.exit(2)
if expected:
    print(expected(sys.stdin.read(), int(sys.argv[1])))
"""
TOP = """
expected = main()
if expected:
    text = os.fdopen(9).read()
    for line in expected(text, int(sys.argv[1])):
        print(line)
"""

PLAIN = """["python3", "-c", '''
import json, subprocess, sys
told = []
for case in json.load(sys.stdin):
    command = [*sys.argv[1:], *map(str, case.get("arguments", []))]
    ran = subprocess.run(command, input=case["stdin"], capture_output=True, text=True, timeout=60)
    told.append({"exit_status": ran.returncode, "stdout": ran.stdout, "stderr": ran.stderr})
print(json.dumps(told))
''', """
"""Runs cases as the command of the room does, by whoever asks for it."""


@dataclass(frozen=True)
class Attack:
    """One way to a score without the work."""

    scenario: str
    file: str
    way: str
    """Of `reach.py.txt`."""
    scorer: str
    """Whose score it is after."""
    rest: str = AS_FUNCTION
    """What the answer does after, or with, what it found."""

    @property
    def text(self) -> str:
        """The answer."""
        code = REACH.replace('WAY = "WAY"', f'WAY = "{self.way}"') + self.rest
        if self.file.endswith(".sh"):
            return f"exec 9<&0\npython3 - \"$@\" <<'REACH'\n{code}\nREACH\n"
        return code


ATTACKS = [
    Attack("wrap-the-text", "wrap.py", "traced", "tests"),
    Attack("wrap-the-text", "wrap.py", "rewritten", "tests"),
    Attack("wrap-the-text", "wrap.py", "looted", "tests", WRAP),
    Attack("fix-a-bug", "days.py", "traced", "tests"),
    Attack("fix-a-bug", "days.py", "rewritten", "tests"),
    Attack("extract-a-function", "shop.py", "traced", "works"),
    Attack("extract-a-function", "shop.py", "rewritten", "works"),
    Attack("write-a-script", "top.sh", "looted", "runs", TOP),
    Attack("undo-a-change", "jobs.py", "looted", "behaviour", JOBS),
    Attack("undo-a-change", "jobs.py", "spoken", "behaviour"),
]


def scenario_of(server: RunningServer, name: str) -> ScenarioView:
    """A shipped scenario."""
    with Client(Server(server.url, server.key)) as client:
        (found,) = client.scenarios.list_public(name=f"quickstart/{name}").items
        return found


def naive(scorer: dict[str, Any]) -> dict[str, Any]:
    """The same grader, without anything that keeps the answer out."""

    def plain(text: str) -> str:
        text = re.sub(r"^(ctypes\.CDLL\(None\)|libc)\.prctl\(.*$", "", text, flags=re.MULTILINE)
        text = re.sub(r'\[GRADED, "--seconds", "\d+", "--cases", ', lambda _: PLAIN, text)
        text = re.sub(r'\[GRADED, "--seconds", "\d+", ', "[GRADED, ", text)
        text = text.replace('os.environ["BENCHYARD_GRADED"]', '"env"')
        return text.replace("exec python3 -I -S check", "python3 -I -S check")

    made: dict[str, Any] = {
        key: plain(value) if isinstance(value, str) else value for key, value in scorer.items()
    }
    del made["user"]
    if files := made.get("test_files"):
        made["test_files"] = [{**file, "file_contents": plain(file["file_contents"])} for file in files]
    return made


def slow(scorer: dict[str, Any]) -> dict[str, Any]:
    """The same grader, with a moment between its last line and its end: that is easier to speak for."""
    if "python_script" not in scorer:
        return scorer
    waits = "\nimport sys, time\nsys.stdout.flush()\ntime.sleep(1)\n"
    return {**scorer, "python_script": scorer["python_script"] + waits}


def score(server: RunningServer, attack: Attack, scenario: ScenarioView, scorer: Any, **rules: Any) -> float:
    """What the attack gets of this grader."""
    with Client(Server(server.url, server.key)) as client:
        made = client.scenarios.create(
            name="attacked",
            input_context={"problem_statement": "x"},
            environment_parameters=scenario.environment,
            scoring_contract={
                "scoring_function_parameters": [{"name": "a", "weight": 1.0, "scorer": scorer}]
            },
            scoring_isolation=scenario.scoring_isolation,
            answer_paths=scenario.answer_paths,
            **rules,
        )
        run = client.scenarios.start_run_and_await_env_ready(scenario_id=made.id)
        client.files.write(run.devbox_id, f"/home/user/project/{attack.file}", attack.text)
        ended = client.scenarios.runs.score_and_complete(run.id)
        client.scenarios.archive(made.id)
    assert ended.scoring_contract_result is not None
    return ended.scoring_contract_result.score


def test_every_grader_that_runs_the_answer_does_it_as_another_user(server: RunningServer) -> None:
    for name in {attack.scenario for attack in ATTACKS}:
        functions = scenario_of(server, name).scoring_contract.scoring_function_parameters
        runs = [function for function in functions if "BENCHYARD_GRADED" in repr(function.scorer)]
        assert [run.scorer.get("user") for run in runs] == ["root"], name


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the attacks are written for x86_64")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda each: f"{each.scenario}-{each.way}")
def test_an_answer_gains_nothing_by_reaching_for_its_grader(server: RunningServer, attack: Attack) -> None:
    scenario = scenario_of(server, attack.scenario)
    functions = {
        parameter.name: parameter for parameter in scenario.scoring_contract.scoring_function_parameters
    }
    grader = slow(functions[attack.scorer].scorer)
    assert score(server, attack, scenario, naive(grader), scoring_tracing=True) == 1.0
    assert score(server, attack, scenario, grader) == 0.0
