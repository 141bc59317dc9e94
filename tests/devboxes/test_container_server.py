"""A server whose devboxes an engine holds: from an imported image to the end, with a kill in between."""

from pathlib import Path

import httpx
import pytest

from benchyard.hosts import leaks
from benchyard.testing.container_engine import RunningEngine
from benchyard.testing.contracts.driver_fixture import write_system
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, eventually, good
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import command, function, results, scenario, start


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("system") / "root"
    write_system(folder)
    return folder


def client_of(server: RunningServer) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=90)


def options(podman: RunningEngine, *more: str) -> list[str]:
    given = [f"socket={podman.socket}", *more]
    return ["--driver", "container", *(word for each in given for word in ("--driver-option", each))]


def shut_down(server: RunningServer, devbox: DevboxOverHttp) -> None:
    good(devbox.post("shutdown", params={"force": "true"}))
    devbox.reaches("shutdown")
    # What has ended is cleared away behind the answer.
    assert leaks.find(server.data) == []


def test_devboxes_in_containers_outlive_a_killed_server_and_leave_nothing(
    podman: RunningEngine, system: Path, tmp_path: Path
) -> None:
    running_server = RunningServer(tmp_path / "data", options(podman, "image=small"))
    with running_server as server, client_of(server) as api:
        imported = good(api.post("/v1/images/import", json={"path": str(system), "name": "small"}))
        first = create(api, blueprint_id=imported["id"])
        assert first.run("id -un; echo kept > ~/file; cat ~/file")["stdout"] == "user\nkept\n"
        taken = good(first.post("snapshot_disk", {"name": "base"}))
        branch = create(api, snapshot_id=taken["id"])
        assert branch.run("cat ~/file")["stdout"] == "kept\n"
        # No image is named: it is the default one.
        plain = create(api)
        assert plain.run("ls ~")["stdout"] == ""
        shut_down(server, plain)
        running = first.start("echo before; while [ ! -e ~/go ]; do sleep 0.05; done; echo after; exit 4")
        stdout = server.data / "host/devboxes" / first.id / "executions" / running / "stdout"
        eventually(lambda: stdout.read_text() == "before\n", "the command's first words")
        good(branch.post("suspend"))
        branch.reaches("suspended")
        server.kill()
        assert leaks.find(server.data) == []
        server.start()
        assert first.run("touch ~/go")["exit_status"] == 0
        ended = first.ended(running)
        assert (ended["exit_status"], ended["stdout"]) == (4, "before\nafter\n")
        good(branch.post("resume"))
        branch.reaches("running")
        assert branch.run("cat ~/file")["stdout"] == "kept\n"
        shut_down(server, first)
        shut_down(server, branch)
    assert leaks.find(server.data) == []
    with podman.client() as client:
        assert client.get("/containers/json", params={"all": "true"}).json() == []


def test_no_default_image_is_an_error_that_says_how_to_name_it(podman: RunningEngine, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", options(podman)) as server, client_of(server) as api:
        made = api.post("/v1/devboxes/create_and_await_running", json={})
        told = made.text
        assert "--driver-option image=" in told, told


def test_containers_that_no_devbox_explains_are_leaks(
    podman: RunningEngine, system: Path, tmp_path: Path
) -> None:
    with RunningServer(tmp_path / "data", options(podman)) as server, client_of(server) as api:
        good(api.post("/v1/images/import", json={"path": str(system), "name": "small"}))
        devbox = create(api, blueprint_name="small")
        server.kill()
        changes = server.data / "host/devboxes" / devbox.id / "changes"
        changes.rename(changes.with_name("elsewhere"))
        assert "container" in {leak.kind for leak in leaks.find(server.data, seconds=1)}
        changes.with_name("elsewhere").rename(changes)
        server.start()
        assert devbox.run("echo still here")["stdout"] == "still here\n"


def test_scenarios_are_scored_in_containers(podman: RunningEngine, system: Path, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", options(podman)) as server, client_of(server) as api:
        imported = good(api.post("/v1/images/import", json={"path": str(system), "name": "small"}))
        environment = {"blueprint_id": imported["id"], "working_directory": "/srv/task"}
        python = {"type": "python_script_scorer", "python_script": "print(open('out').read()); print(1)"}
        shell = {"type": "bash_script_scorer", "bash_script": "ls; cat out; echo 0.5"}
        for isolation in ("clean", "answer", "live"):
            made = scenario(
                api,
                function(python, 0.5, "python"),
                function(shell, 0.5, "shell"),
                environment_parameters=environment,
                scoring_isolation=isolation,
                answer_paths=["out"],
            )
            run = start(api, made["id"])
            run.devbox.run("cd /srv/task; echo done > out; echo x > other")
            view = run.scored()
            assert view["scoring_contract_result"]["score"] == 0.75, view
            listed = "out\n" if isolation == "answer" else "other\nout\n"
            assert results(view)[1]["output"] == f"{listed}done\n0.5\n"
            report = view["tamper_report"]
            assert (report["changed_outside_total"], report["changed_inside_total"]) == (0, 2)
            good(run.post("complete"))
    assert leaks.find(server.data) == []
    with podman.client() as client:
        assert client.get("/containers/json", params={"all": "true"}).json() == []


def test_a_job_in_containers_is_scored_and_leaves_nothing(
    podman: RunningEngine, system: Path, tmp_path: Path
) -> None:
    running_server = RunningServer(tmp_path / "data", options(podman, "image=small"))
    with running_server as server, client_of(server) as api:
        good(api.post("/v1/images/import", json={"path": str(system), "name": "small"}))
        made = scenario(
            api,
            function(command("grep -q 1 answer")),
            environment_parameters={"working_directory": "/home/user/work"},
            reference_output="#!/bin/sh\necho 1 > answer\n",
        )
        own = agent('test "$(cat)" = "Do it."; id -un; echo 1 > answer; exec sleep 100', timeout_seconds=3)
        agents = ({"name": "oracle"}, {"name": "nop"}, own)
        job = Job(api, scenarios_spec([made["id"]], *agents, n_concurrent_trials=3))
        outcomes = job.completed()["benchmark_outcomes"]
        assert [outcome.get("mean_score") for outcome in outcomes] == [1.0, 0.0, 1.0], outcomes
        assert outcomes[2]["scenario_outcomes"][0]["attempts"][0]["ended_by"] == "timeout"
        stopped = Job(api, scenarios_spec([made["id"]], agent("sleep 600")))
        stopped.running()
        assert good(stopped.post("cancel"))["state"] == "cancelled"
        eventually(lambda: leaks.find(server.data) == [], "the end of everything")
