"""The pattern that shipped graders use: an answer that attacks its grader gains nothing by it.

The same attack succeeds against the same grader without the pattern, so that it is a real one.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from benchyard.client import Client, Server
from benchyard.models.scenarios import ScenarioView
from benchyard.testing.server import RunningServer

ATTACK = """
import os, subprocess, sys, time

PRINT = '''
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
descriptor = libc.syscall(438, os.pidfd_open(int(sys.argv[1])), 1, 0)
end = time.monotonic() + 20
while descriptor >= 0 and time.monotonic() < end:
    os.write(descriptor, b"\\\\n1.0\\\\n")
    time.sleep(0.0002)
'''
grader = str(os.getppid())
for rights in ([], ["sudo", "-n"]):
    subprocess.Popen(
        [*rights, "python3", "-c", PRINT, grader],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
time.sleep(1)
"""


@pytest.fixture
def undo(server: RunningServer) -> ScenarioView:
    with Client(Server(server.url, server.key)) as client:
        (found,) = client.scenarios.list_public(name="quickstart/undo-a-change").items
        return found


def score(server: RunningServer, scenario: ScenarioView, grader: str) -> float:
    """What the attack gets of this grader."""
    scorer: dict[str, Any] = {"type": "python_script_scorer", "python_script": grader}
    with Client(Server(server.url, server.key)) as client:
        made = client.scenarios.create(
            name="attacked",
            input_context={"problem_statement": "x"},
            environment_parameters=scenario.environment,
            scoring_contract={
                "scoring_function_parameters": [{"name": "a", "weight": 1.0, "scorer": scorer}]
            },
        )
        run = client.scenarios.start_run_and_await_env_ready(scenario_id=made.id)
        client.files.write(run.devbox_id, "/home/user/project/jobs.py", ATTACK)
        ended = client.scenarios.runs.score_and_complete(run.id)
        client.scenarios.archive(made.id)
    assert ended.scoring_contract_result is not None
    return ended.scoring_contract_result.score


def forbids_attaching() -> bool:
    """Whether this machine's kernel keeps processes from attaching to those that started them."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    return scope.exists() and scope.read_text().strip() != "0"


def test_an_answer_cannot_speak_for_its_grader(server: RunningServer, undo: ScenarioView) -> None:
    functions = {each.name: each for each in undo.scoring_contract.scoring_function_parameters}
    grader = str(functions["behaviour"].scorer["python_script"])
    # A grader that takes a moment between its last line and its end is easier to speak for.
    grader += "\nimport sys, time\nsys.stdout.flush()\ntime.sleep(1)\n"
    naive = re.sub(r"^libc\.prctl\(.*$", "", grader, flags=re.MULTILINE)
    assert naive != grader
    if not forbids_attaching():
        assert score(server, undo, naive) == 1.0
    assert score(server, undo, grader) == 0.0
