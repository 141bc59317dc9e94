"""`benchyard server` and what operators delete, as they type it."""

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchyard.client import Client, Server
from benchyard.hosts import leaks
from benchyard.models.runs import RUN_KEY
from benchyard.testing.server import RunningServer
from tests.api.devbox import good
from tests.api.scenarios import Run, bash, function, scenario
from tests.cli.conftest import CommandLine
from tests.cli.test_job import FIX, WAITS, running_trial, started
from tests.cli.test_scenario import changed

START_SECONDS = 60.0


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line of the server with the native driver."""
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    return CommandLine(monkeypatch, capfd)


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[RunningServer]:
    """A server of the test's own."""
    with RunningServer(tmp_path / "data") as running:
        yield running
    assert leaks.find(running.data) == []


def finished(benchyard: CommandLine, name: str) -> str:
    """A job of one trial that has ended."""
    run = "--agent", "oracle", "--scenarios", FIX, "-n", name, "--watch", "-o", "json"
    found: str = json.loads(benchyard.ok("job", "run", *run))["id"]
    return found


@pytest.mark.parametrize("options", [[], ["--user"], ["--run-as", "daemon", "--data", "/srv/by"]], ids=str)
def test_systemd_takes_the_unit(benchyard: CommandLine, tmp_path: Path, options: list[str]) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed, so nobody can say whether the unit is right")
    unit = tmp_path / "benchyard.service"
    unit.write_text(benchyard.ok("server", "unit", *options, "--", "--keep-results", "90d"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_starts_this_program_and_leaves_devboxes_alone(benchyard: CommandLine) -> None:
    lines = benchyard.ok("server", "unit", "--", "--host", "0.0.0.0").splitlines()
    program = Path(sys.executable).with_name("benchyard")
    assert f"ExecStart={program} serve --data /var/lib/benchyard --host 0.0.0.0" in lines
    assert {"KillMode=process", "Delegate=yes", "StateDirectory=benchyard"} <= set(lines)
    elsewhere = benchyard.ok("server", "unit", "--data", "/srv/a b/50%$x")
    assert 'serve --data "/srv/a b/50%%$$x"' in elsewhere
    assert "StateDirectory" not in elsewhere
    assert benchyard("server", "unit", "--user", "--run-as", "nobody").status == 2
    assert benchyard("server", "unit", "--", "a\nUser=root").status == 2


def test_a_stop_says_which_jobs_go_on_later(
    benchyard: CommandLine, lonely: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHYARD_URL", lonely.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", lonely.key)
    run = "--agent", "command", "--agent-kwargs", f"run={WAITS}", "--scenarios", FIX, "-n", "the long one"
    job = started(benchyard, *run)
    with Client(Server(lonely.url, lonely.key)) as client:
        running_trial(client, job["id"])
    ended = benchyard("server", "stop", "--data", str(lonely.data))
    assert ended.status == 0, ended
    assert "1 job is not over; it goes on at the next start:" in ended.err
    assert f"the long one  running  ({job['id']})" in ended.err
    lonely.wait()
    lonely.start()
    with Client(Server(lonely.url, lonely.key)) as client:
        running_trial(client, job["id"])
    benchyard.ok("job", "cancel", job["id"])
    with Client(Server(lonely.url, lonely.key)) as client:
        assert client.jobs.get(job["id"]).state.value == "cancelled"


def test_a_second_server_says_what_to_do_about_the_first(server: RunningServer) -> None:
    command = [sys.executable, "-m", "benchyard.cli.main", "serve", "--port", "0", "--data", str(server.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    assert done.returncode == 5, done
    for told in (server.url, f"process {server.pid}", f"`benchyard server stop --data {server.data}`"):
        assert told in done.stderr, told


def test_disk_use_is_shown_by_kind(benchyard: CommandLine, server: RunningServer) -> None:
    shown = benchyard.ok("server", "disk")
    for kind in ("images", "final states", "executions", "objects", "trial files", "database", "total"):
        assert any(line.startswith(kind) for line in shown.splitlines()), (kind, shown)
    view = json.loads(benchyard.ok("server", "disk", "-o", "json"))
    assert Path(view["data"]) == server.data


def test_a_job_is_renamed_and_deleted_with_what_belongs_to_it(benchyard: CommandLine) -> None:
    name, other = f"first-{secrets.token_hex(4)}", f"other-{secrets.token_hex(4)}"
    job = finished(benchyard, name)
    benchyard.ok("job", "rename", name, other)
    assert json.loads(benchyard.ok("job", "list", "--name", other, "-o", "json"))[0]["id"] == job
    assert benchyard("job", "summary", name).status == 4
    unsure = benchyard("job", "delete", other, typed=b"")
    assert (unsure.status, "--yes" in unsure.err) == (2, True)
    assert "1 trial," in benchyard.ok("job", "delete", other, "--yes")
    assert benchyard("job", "summary", job).status == 4


def test_two_jobs_of_a_name_are_not_deleted_by_it(benchyard: CommandLine) -> None:
    name = f"twice-{secrets.token_hex(4)}"
    ids = [finished(benchyard, name) for _ in range(2)]
    refused = benchyard("job", "delete", name, "--yes")
    assert refused.status == 2
    assert all(each in refused.err for each in ids)
    benchyard.ok("job", "delete", *ids, "--yes")


def test_a_run_is_deleted_unless_it_is_of_a_job(benchyard: CommandLine, server: RunningServer) -> None:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
        scenario_id = scenario(http, function(bash("echo 1")))["id"]
        run = Run(http, good(http.post("/v1/scenarios/start_run", json={"scenario_id": scenario_id})))
        assert benchyard("run", "delete", run.id, "--yes").status == 5
        assert benchyard.ok("run", "rename", run.id, "old") == f"{run.id}  old\n"
        assert benchyard("run", "rename", run.id, "").status == 2
        assert run.view()["name"] == "old"
        good(run.post("cancel"))
        assert benchyard("run", "delete", run.id, typed=b"").status == 2
        assert benchyard.ok("run", "delete", run.id, "--yes").startswith(f"{run.id}  deleted")
        assert benchyard("run", "show", run.id).status == 4
        job = finished(benchyard, f"with-run-{secrets.token_hex(4)}")
        (of_job,) = good(http.get(f"/v1/benchmark_jobs/{job}/trials"))["trials"]
    refused = benchyard("run", "rename", of_job["scenario_run_id"], "mine")
    assert (refused.status, f"benchyard job rename {job}" in refused.err) == (5, True), refused
    refused = benchyard("run", "delete", of_job["scenario_run_id"], "--yes")
    assert (refused.status, f"benchyard job delete {job}" in refused.err) == (2, True), refused
    benchyard.ok("job", "delete", job, "--yes")


def test_a_benchmark_run_is_renamed(benchyard: CommandLine, server: RunningServer) -> None:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
        scenario_id = scenario(http, function(bash("echo 1")))["id"]
        body = {"name": f"b-{secrets.token_hex(4)}", "scenario_ids": [scenario_id]}
        made = good(http.post("/v1/benchmarks", json=body))
        run = good(http.post("/v1/benchmarks/start_run", json={"benchmark_id": made["id"]}))["id"]
        assert benchyard.ok("run", "rename", run, "nightly") == f"{run}  nightly\n"
        assert good(http.get(f"/v1/benchmark_runs/{run}"))["name"] == "nightly"
        good(http.post(f"/v1/benchmark_runs/{run}/cancel"))


def test_an_object_is_renamed_unless_it_is_kept_with_a_run(
    benchyard: CommandLine, server: RunningServer, tmp_path: Path
) -> None:
    (tmp_path / "one.txt").write_text("one\n")
    made = json.loads(benchyard.ok("object", "upload", str(tmp_path / "one.txt"), "-o", "json"))["id"]
    assert benchyard.ok("object", "rename", made, "two.txt") == f"{made}  two.txt\n"
    assert json.loads(benchyard.ok("object", "show", made, "-o", "json"))["name"] == "two.txt"
    assert benchyard("object", "rename", made, "two\nlines").status == 2
    of_run = "--metadata", f"{RUN_KEY}=scr_1", "-o", "json"
    kept = json.loads(benchyard.ok("object", "upload", str(tmp_path / "one.txt"), *of_run, "-o", "json"))[
        "id"
    ]
    refused = benchyard("object", "rename", kept, "other")
    assert (refused.status, "scr_1" in refused.err) == (5, True), refused
    benchyard.ok("object", "delete", made, kept, "--yes")
    assert benchyard("object", "rename", made, "again").status == 5


def test_a_benchmark_is_renamed_and_deleted_with_its_scenarios(
    benchyard: CommandLine, tmp_path: Path
) -> None:
    name = f"mine-{secrets.token_hex(4)}"
    benchyard.ok("benchmark", "new", str(tmp_path / name))
    changed(tmp_path / name / "first-task", name=f"{name}-first")
    benchyard.ok("benchmark", "push", str(tmp_path / name))
    benchyard.ok("benchmark", "rename", name, f"old-{name}")
    shown = json.loads(benchyard.ok("benchmark", "show", f"old-{name}", "-o", "json"))
    (scenario,) = shown["scenario_ids"]
    assert benchyard("scenario", "delete", scenario, "--yes").status == 5
    gone = benchyard.ok("benchmark", "delete", f"old-{name}", "--with-scenarios", "--yes")
    assert gone == f"old-{name}  deleted, and 1 scenario\n"
    assert benchyard("benchmark", "show", f"old-{name}").status == 4
    assert benchyard("scenario", "show", scenario).status == 4
    assert benchyard("benchmark", "delete", "quickstart", "--yes").status != 0


def test_old_results_go_unless_they_are_pinned(benchyard: CommandLine) -> None:
    kept, loose = f"kept-{secrets.token_hex(4)}", f"loose-{secrets.token_hex(4)}"
    ids = [finished(benchyard, each) for each in (kept, loose)]
    assert "--keep-results" in benchyard("server", "gc", "--dry-run").err
    benchyard.ok("job", "pin", kept)
    would = benchyard("server", "gc", "--keep-results", "0.00001h", "--dry-run")
    assert would.status == 0, would
    assert ids[1] in would.out
    assert ids[0] not in would.out
    assert "1 pinned job stays" in would.err
    benchyard.ok("job", "summary", loose)
    assert benchyard("server", "gc", "--keep-results", "0.00001h", typed=b"").status == 2
    benchyard.ok("job", "unpin", kept)
    benchyard.ok("job", "delete", *ids, "--yes")


def test_a_data_folder_is_deleted_when_asked_twice(
    benchyard: CommandLine, lonely: RunningServer, tmp_path: Path
) -> None:
    data = str(lonely.data)
    assert "stop it first" in benchyard("server", "delete", "--data", data, "--yes").err
    benchyard.ok("server", "stop", "--data", data)
    assert "give --yes" in benchyard("server", "delete", "--data", data).err
    assert (lonely.data / "api-key").is_file()
    assert benchyard.ok("server", "delete", "--data", data, "--yes").split() == ["deleted", data]
    assert not lonely.data.exists()
    assert "not the data folder" in benchyard("server", "delete", "--data", str(tmp_path), "--yes").err
