"""An agent that tells its secret to everybody, and nobody who hears of it, through a real server."""

import base64
import io
import json
import secrets
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import Run, bash, function, scenario
from tests.cli.conftest import CommandLine

WORK: dict[str, Any] = {"environment_parameters": {"working_directory": "/home/user/work"}}
TELL = """
echo "out $TOKEN"; echo "err $TOKEN" >&2
echo "user:$TOKEN" | base64 -w0; echo
echo "$TOKEN" > "$BENCHYARD_LOGS/own.log"
head -c 300000 /dev/zero > "$BENCHYARD_LOGS/binary"; echo "$TOKEN" >> "$BENCHYARD_LOGS/binary"
echo x > "$BENCHYARD_LOGS/$TOKEN.log"
echo '{"schema_version": "ATIF-v1.4", "steps": [{"message": "'"$TOKEN"'"}]}' > "$BENCHYARD_TRAJECTORY"
echo "$TOKEN" > answer; touch "/tmp/$TOKEN"
"""


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture
def command_line(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    return CommandLine(monkeypatch, capfd)


class Secret:
    """A secret of a server, and whether it is seen."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.name = f"TOKEN_{secrets.token_hex(4)}"
        self.value = f"s3cret+{secrets.token_hex(16)}"
        good(http.post("/v1/secrets", json={"name": self.name, "value": self.value}))
        within = base64.b64encode(f"user:{self.value}\n".encode())
        self.forms = [self.value.encode(), within, quote(self.value, safe="").encode()]

    def is_in(self, data: bytes | str) -> bool:
        content = data.encode() if isinstance(data, str) else data
        return any(form in content for form in self.forms)


@pytest.fixture
def secret(http: httpx.Client) -> Secret:
    return Secret(http)


def telling(secret: Secret, more: str = "") -> dict[str, Any]:
    return agent(TELL + more, agent_environment={"secrets": {"TOKEN": secret.name}})


def run_job(http: httpx.Client, config: dict[str, Any], scorer: str) -> Job:
    made = scenario(http, function(bash(scorer)), **WORK)["id"]
    job = Job(http, scenarios_spec([made], config))
    job.completed()
    return job


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def everything_told(http: httpx.Client, job: Job) -> dict[str, bytes]:
    """All that the server says of a job and its run, by where it says it."""
    (trial,) = job.trials()
    run_id = trial["scenario_run_id"]
    asked = [
        f"/v1/benchmark_jobs/{job.id}",
        f"/v1/benchmark_jobs/{job.id}/trials",
        f"/v1/benchmark_jobs/{job.id}/artifacts",
        f"/v1/scenarios/runs/{run_id}",
        f"/v1/devboxes/{trial['devbox_id']}",
    ]
    told = {path: http.get(path).raise_for_status().content for path in asked}
    with http.stream("GET", f"/v1/benchmark_jobs/{job.id}/events", params={"follow": "false"}) as events:
        told["events"] = events.raise_for_status().read()
    for trace in job.get("/artifacts")["artifacts"]:
        told[f"trace {trace['name']}"] = http.get(
            f"/v1/scenarios/runs/{run_id}/traces/{trace['name']}"
        ).content
        link = good(http.get(f"/v1/objects/{trace['object_id']}/download"))["download_url"]
        told[f"object {trace['name']}"] = httpx.get(link).raise_for_status().content
    return told | unzipped(http.post(f"/v1/scenarios/runs/{run_id}/download_logs").content)


def test_secret_that_an_agent_prints_is_masked_everywhere(
    server: RunningServer, http: httpx.Client, secret: Secret, command_line: CommandLine, tmp_path: Path
) -> None:
    job = run_job(http, telling(secret), "cat answer; echo 1.0")
    told = everything_told(http, job)
    assert job.row()["score"] == 1.0
    assert [where for where, data in told.items() if secret.is_in(data)] == []
    hidden = {where for where, data in told.items() if b"***" in data}
    assert {"trace own.log", "trace binary", "trace trajectory.json"} <= hidden
    names = {where.partition("_")[2].partition("_")[2] for where in hidden}
    assert {"agent.stdout.log", "agent.stderr.log", "devbox.log", "scorer-0-scorer.log"} <= names
    assert len(told["trace binary"]) == 300_000 + len("***\n")
    assert json.loads(told["trace trajectory.json"])["steps"] == [{"message": "***"}]

    folder = tmp_path / "logs"
    shown = [
        command_line.ok("job", "logs", job.id, "-o", str(folder)),
        command_line.ok("job", "summary", job.id, "-e"),
        command_line.ok("job", "summary", job.id, "-o", "json"),
        command_line.ok("secret", "list", "-o", "json"),
    ]
    assert not any(secret.is_in(text) for text in shown)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name.endswith("agent.stdout.log") for path in files)
    assert [path for path in files if secret.is_in(path.read_bytes()) or secret.is_in(path.name)] == []
    assert_unknown(server, secret)


def assert_unknown(server: RunningServer, secret: Secret) -> None:
    """The server's log and its database do not have it."""
    assert not secret.is_in(server.log)
    files = [file for file in server.data.iterdir() if file.name.startswith("benchyard.db")]
    assert files
    assert not any(secret.is_in(file.read_bytes()) for file in files)


@pytest.mark.parametrize("becomes", ["another", "deleted"])
def test_a_secret_that_changes_while_the_agent_works_is_taken_out_all_the_same(
    server: RunningServer, http: httpx.Client, secret: Secret, becomes: str
) -> None:
    made = scenario(http, function(bash("cat answer; echo 1.0")), **WORK)["id"]
    wait = "until [ -e /tmp/go ]; do sleep 0.1; done\n"
    config = telling(secret)
    config["kwargs"]["run"] = wait + config["kwargs"]["run"]
    job = Job(http, scenarios_spec([made], config))
    (trial,) = job.running()
    if becomes == "another":
        good(http.post(f"/v1/secrets/{secret.name}", json={"value": "another-value"}))
    else:
        good(http.post(f"/v1/secrets/{secret.name}/delete"))
    path = f"/v1/devboxes/{trial['devbox_id']}/write_file_contents"
    good(http.post(path, json={"file_path": "/tmp/go", "contents": ""}))
    assert job.row()["score"] == 1.0
    told = everything_told(http, job)
    assert [where for where, data in told.items() if secret.is_in(data)] == []
    assert_unknown(server, secret)


def test_a_failure_does_not_tell_it_not_even_where_it_is_cut(
    server: RunningServer, http: httpx.Client, secret: Secret
) -> None:
    # The last line is cut after 500 characters, in the middle of the secret.
    more = 'printf "%0480d%s" 0 "$TOKEN" >&2; exit 3'
    job = run_job(http, telling(secret, more), "echo 0")
    reason = job.row()["failure_reason"]["exception_message"]
    assert "0000***" in reason
    assert secret.value[:8] not in reason
    told = everything_told(http, job)
    assert [
        where for where, data in told.items() if secret.is_in(data) or secret.value[:16].encode() in data
    ] == []
    assert_unknown(server, secret)


def test_a_devbox_that_cannot_be_prepared_does_not_tell_it(
    server: RunningServer, http: httpx.Client, secret: Secret
) -> None:
    launch = {"launch_commands": ["echo $TOKEN >&2; false"]}
    environment = {"environment_parameters": {**WORK["environment_parameters"], "launch_parameters": launch}}
    made = scenario(http, function(bash("echo 1")), **environment)["id"]
    job = Job(http, scenarios_spec([made], telling(secret)))
    row = job.row()
    assert "***" in row["failure_reason"]["exception_message"]
    assert [where for where, data in everything_told(http, job).items() if secret.is_in(data)] == []
    assert_unknown(server, secret)


def test_the_traces_and_logs_of_an_interactive_run_do_not_tell_it(
    server: RunningServer, http: httpx.Client, secret: Secret
) -> None:
    made = scenario(http, function(bash("cat answer; echo 1.0")), **WORK)["id"]
    body = {"scenario_id": made, "runProfile": {"secrets": {"TOKEN": secret.name}}}
    run = Run(http, good(http.post("/v1/scenarios/start_run", json=body)))
    run.devbox.reaches("running")
    assert secret.value in run.devbox.run("echo $TOKEN; echo $TOKEN > work/answer")["stdout"]
    trajectory = {"schema_version": "ATIF-v1.4", "steps": [{"message": f"it is {secret.value}"}]}
    good(run.post("traces", {"name": "mine", "kind": "atif", "trajectory": trajectory}))
    good(run.post("score"))
    eventually(lambda: run.view()["state"] == "scored", "the score")
    result = run.view()["scoring_contract_result"]
    assert (result["score"], secret.is_in(json.dumps(result))) == (1.0, False)
    told = unzipped(run.post("download_logs").content)
    told["trace"] = http.get(f"/v1/scenarios/runs/{run.id}/traces/mine").content
    assert json.loads(told["trace"])["steps"] == [{"message": "it is ***"}]
    assert [where for where, data in told.items() if secret.is_in(data)] == []
    assert_unknown(server, secret)
    good(run.post("cancel"))
