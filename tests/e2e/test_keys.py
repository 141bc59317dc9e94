"""No provider's key is where an agent could look, or where we write anything down."""

import json
import os
import shlex
import sqlite3
import time
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from benchyard.scripted_model import RunningModel, Script, ScriptStep
from tests.api.devbox import good
from tests.e2e.agents import ALL, CODEX, FULL, KEY, PATIENCE_SECONDS, AgentYard, Named

_HALVES = (KEY[:12], KEY[12:])
_HUNT = f"""\
a={_HALVES[0]}; b={_HALVES[1]}
environments=$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n')
lines=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n')
echo "environments: $(printf '%s\\n' "$environments" | grep -c -- "$a$b")"
echo "command lines: $(printf '%s\\n' "$lines" | grep -c -- "$a$b")"
echo "files: $(grep -rsl --exclude-dir=proc --exclude-dir=sys -- "$a$b" / 2>/dev/null | wc -l)"
"""
"""In two halves, and read before it is looked through: whoever looks would find the looking otherwise."""


def hunting() -> RunningModel:
    steps = [{"shell": "true"}, {"text": "Done.", "latency": PATIENCE_SECONDS}]
    return RunningModel([Script(steps=tuple(ScriptStep.model_validate(step) for step in steps))], key=KEY)


@pytest.mark.parametrize("named", ALL if FULL else (CODEX,), ids=str)
def test_no_key_is_found_anywhere_while_an_agent_works(yard: AgentYard, named: Named) -> None:
    with hunting() as model:
        job = yard.job(named.config(base_url=model.url), names=("fix-a-bug",))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not any(entry.results for entry in model.ledger.calls()):
            assert time.monotonic() < deadline, job.get()
            time.sleep(0.05)
        # As root in the devbox, and over everything that we write down.
        (trial,) = job.running()
        body = {"command": f"sudo sh -c {shlex.quote(_HUNT)}", "optimistic_timeout": 25}
        box = f"/v1/devboxes/{trial['devbox_id']}"
        begun = good(yard.api.post(f"{box}/execute_async", json=body))
        waited = f"{box}/executions/{begun['execution_id']}/wait_for_status"
        while (told := yard.api.post(waited, json={"statuses": ["completed"]})).status_code == 408:
            assert time.monotonic() < deadline, told.text
        found = good(told)["stdout"]
        written = [str(path) for path in places(yard) if holds_key(path)]
        assert job.post("cancel").status_code == 200
    assert found.split("\n")[:3] == ["environments: 0", "command lines: 0", "files: 0"]
    assert written == []
    assert [str(path) for path in places(yard) if holds_key(path)] == []


def test_a_cancelled_trial_keeps_its_trajectory_without_the_token(yard: AgentYard) -> None:
    steps = [{"shell": "env | grep OPENAI_API_KEY"}, {"text": "Done.", "latency": PATIENCE_SECONDS}]
    script = Script(steps=tuple(ScriptStep.model_validate(step) for step in steps))
    with RunningModel([script], key=KEY) as model:
        job = yard.job(CODEX.config(base_url=model.url), names=("fix-a-bug",))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (called := [entry for entry in model.ledger.calls() if entry.results]):
            assert time.monotonic() < deadline, job.get()
            time.sleep(0.05)
        assert "OPENAI_API_KEY=gws_" in json.dumps(called[0].body)
        assert job.post("cancel").status_code == 200
        spent = model.ledger.total()
    (trial,) = job.trials()
    assert trial["usage"]["input_tokens"] == spent.input_tokens
    text = yard.trace(trial["scenario_run_id"], "trajectory.json").decode()
    said = json.loads(text)
    assert said["final_metrics"]["total_prompt_tokens"] == spent.input_tokens
    (used, *_) = [step for step in said["steps"] if step.get("tool_calls")]
    assert "OPENAI_API_KEY=***" in json.dumps(used["observation"]), used
    assert "gws_" not in text + told_in(yard.trace(trial["scenario_run_id"], "calls.db"))


def told_in(record: bytes) -> str:
    """Everything that a record of calls holds, as one text."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(record)
        rows = [row for table in ("parts", "calls") for row in connection.execute(f"SELECT * FROM {table}")]
    return "\n".join(_plain(value) for row in rows for value in row)


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        try:
            return zlib.decompress(value).decode(errors="replace")
        except zlib.error:
            return value.decode(errors="replace")
    return str(value)


def places(yard: AgentYard) -> list[Path]:
    """Everything that the server and its gateway keep, and what is to be seen of their processes."""
    data = yard.server.data
    # What comes and goes meanwhile is left out, which `Path.rglob` does not do.
    files = [Path(folder, name) for folder, _, names in os.walk(data) for name in names]
    files = [path for path in files if path.is_file() and "kits" not in path.parts[:-1]]
    pids = [yard.server.pid, *gateways(data)]
    seen = [Path(f"/proc/{pid}/{name}") for pid in pids for name in ("environ", "cmdline")]
    return [*files, *seen, data.with_name(f"{data.name}.log")]


def gateways(data: Path) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if b"benchyard.gateway" in line and str(data).encode() in line:
            found.append(int(path.parent.name))
    return found


def holds_key(path: Path) -> bool:
    try:
        return KEY.encode() in path.read_bytes()
    except OSError:
        # It came and went.
        return False


def test_a_token_is_worth_nothing_after_its_trial_nor_elsewhere(yard: AgentYard) -> None:
    steps = [{"shell": "env | grep OPENAI_API_KEY; env | grep -i GW_KEY; true"}, {"text": "Done."}]
    script = Script(steps=tuple(ScriptStep.model_validate(step) for step in steps))
    with RunningModel([script], key=KEY) as model:
        yard.job(CODEX.config(base_url=model.url), names=("fix-a-bug",)).completed()
        seen = json.dumps(model.ledger.calls()[-1].body)
    token = seen[seen.index("gws_") :].split('"')[0].split("\\")[0]
    script = Script(
        steps=tuple(ScriptStep.model_validate(each) for each in [{"shell": spending(token)}, {"text": "."}])
    )
    with RunningModel([script], key=KEY) as model:
        yard.job(CODEX.config(base_url=model.url), names=("fix-a-bug",)).completed()
        told = json.dumps(model.ledger.calls()[-1].body)
    assert "answered: 401" in told, told[-2000:]


def spending(token: str) -> str:
    """A command of the agent that asks its model with another trial's token."""
    code = (
        "import glob, os, re, urllib.error, urllib.request\n"
        "text = ' '.join(open(each, errors='replace').read() for each in glob.glob('/var/tmp/agent.*/*.toml')"
        " + glob.glob('/tmp/agent.*/*.toml') + glob.glob('/var/tmp/agent.*/*/*.toml'))\n"
        "text += ' '.join(os.environ.values()) + open('/proc/%d/cmdline' % os.getppid()).read()\n"
        "for each in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try: text += open(each).read()\n"
        "    except OSError: pass\n"
        "url = re.search(r'http://127\\.0\\.0\\.1:\\d+', text)[0] + '/openai/v1/responses'\n"
        f"headers = {{'authorization': 'Bearer {token}', 'content-type': 'application/json'}}\n"
        'request = urllib.request.Request(url, b\'{"model": "gpt-5.5"}\', headers)\n'
        "try: print('answered:', urllib.request.urlopen(request).status)\n"
        "except urllib.error.HTTPError as error: print('answered:', error.code)\n"
    )
    return f"cat > /tmp/spend.py <<'END'\n{code}END\npython3 /tmp/spend.py"
