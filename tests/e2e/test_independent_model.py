"""Agents with a model's server that somebody else wrote: it has the same account of the calls as we have."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api import scenarios
from tests.api.devbox import good
from tests.api.jobs import scenarios_spec
from tests.e2e.agents import CODEX, GOOSE, KEY, AgentJob, AgentYard, Named

PACKAGE = "@copilotkit/aimock@1.43.0"
PROGRAM = "node_modules/.bin/llmock"
PROBLEM = "Write 42 into the file /home/user/answer, without a line break."
WRITE = "printf 42 > /home/user/answer"
SAID = ({"prompt_tokens": 1201, "completion_tokens": 34}, {"prompt_tokens": 1309, "completion_tokens": 7})
"""What the fixture says that its answers used; no counting of anybody's would come to just these."""
TOOLS = {"goose": ("shell", "command"), "codex": ("exec_command", "cmd")}
"""Agent -> what its shell is called, and what the command is called there."""
CALLED = {"goose": "/v1/chat/completions", "codex": "/v1/responses"}
_PATIENCE_SECONDS = 60.0
_INSTALL_SECONDS = 300.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server as it comes from its registry; skips where there is none to be had."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm on this machine: make setup installs it")
    folder = tmp_path_factory.mktemp("aimock")
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), "--cache")
    done = subprocess.run(
        [npm, "install", *options, str(folder / "cache"), PACKAGE],
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"npm cannot install {PACKAGE} here: {done.stderr[-500:]}")
    return folder / PROGRAM


@contextmanager
def serving(program: Path, fixture: dict[str, Any], folder: Path) -> Iterator[str]:
    """The address of the server with this fixture; whoever comes with another key than ours is refused."""
    (folder / "fixture.json").write_text(json.dumps(fixture))
    log = folder / "aimock.log"
    command = [str(program), "--port", "0", "--strict", "--fixtures", str(folder / "fixture.json")]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "AIMOCK_API_KEYS": KEY},
        )
    try:
        yield listening(process, log)
    finally:
        process.terminate()
        process.wait(_PATIENCE_SECONDS)


def listening(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (found := re.search(r"listening on (http://\S+)\n", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found[1]


def fixture(agent: str) -> dict[str, Any]:
    """Asked for the first time it calls the agent's shell, and after that it is content."""
    tool, argument = TOOLS[agent]
    call = {"name": tool, "arguments": json.dumps({argument: WRITE})}
    first, second = ({**said, "total_tokens": sum(said.values())} for said in SAID)
    return {
        "fixtures": [
            {
                "match": {"userMessage": "Write 42", "hasToolResult": False},
                "response": {"toolCalls": [call], "usage": first},
            },
            {"match": {"hasToolResult": True}, "response": {"content": "Done.", "usage": second}},
        ]
    }


def asked(url: str) -> Sequence[dict[str, Any]]:
    """What the server kept of the calls of its model."""
    entries: list[dict[str, Any]] = (
        httpx.get(f"{url}/__aimock/journal", headers={"authorization": f"Bearer {KEY}"})
        .raise_for_status()
        .json()
    )
    return [entry for entry in entries if entry["method"] == "POST"]


@pytest.mark.parametrize("named", [GOOSE, CODEX], ids=str)
def test_an_agent_works_with_it_and_both_accounts_are_the_same(
    yard: AgentYard, program: Path, tmp_path: Path, named: Named
) -> None:
    yard.model.reset()
    scorer = scenarios.function(scenarios.command('test "$(cat /home/user/answer)" = 42'))
    made = scenarios.scenario(yard.api, scorer, input_context={"problem_statement": PROBLEM})
    with serving(program, fixture(named.agent), tmp_path) as url:
        job = AgentJob(yard.api, scenarios_spec([made["id"]], named.config(base_url=url)))
        row = job.row()
        journal = asked(url)
    assert row["score"] == 1.0, row
    assert [each["response"]["status"] for each in journal] == [200, 200], journal
    assert {each["path"] for each in journal} == {CALLED[named.agent]}
    (trial,) = job.trials()
    usage = trial["usage"]
    assert usage["model_calls"] == len(journal)
    assert usage["input_tokens"] == sum(said["prompt_tokens"] for said in SAID)
    assert usage["output_tokens"] == sum(said["completion_tokens"] for said in SAID)
    assert usage["cost_usd"] > 0
    trajectory = json.loads(yard.trace(row["scenario_run_id"], "trajectory.json"))
    assert trajectory["final_metrics"]["total_prompt_tokens"] == usage["input_tokens"]
    assert yard.model.ledger.entries == []
    assert good(yard.api.get(f"/v1/scenarios/runs/{row['scenario_run_id']}"))["state"] == "completed"
