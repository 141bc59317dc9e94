"""Does some of everything on a server of an earlier commit, and leaves its data folder.

`scripts/make-data-folder.sh` runs it with that commit's code, so it speaks plain HTTP.
"""

import sys
import time
from pathlib import Path
from typing import Any

import httpx

from benchyard.testing.server import RunningServer

PATIENCE_SECONDS = 120.0
GREETS = "grep -q hello greeting"
COUNTS = 'test "$(cat count)" = 3'
SOLVES = "echo hello > greeting; echo 3 > count"


def post(api: httpx.Client, path: str, **body: Any) -> Any:
    """What the server answers to a request with this body."""
    return api.post(path, json=body).raise_for_status().json()


def reaches(api: httpx.Client, path: str, field: str, *words: str) -> Any:
    """What is at a path, once its field has one of the words."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (view := api.get(path).raise_for_status().json())[field] not in words:
        assert time.monotonic() < deadline, view
        time.sleep(0.1)
    return view


def make_scenario(api: httpx.Client, name: str, command: str) -> str:
    """The id of a new scenario, of which a command is the scorer."""
    scorer = {"name": name, "weight": 1.0, "scorer": {"type": "command_scorer", "command": command}}
    made = post(
        api,
        "/v1/scenarios",
        name=name,
        input_context={"problem_statement": f"Do what `{command}` looks at."},
        scoring_contract={"scoring_function_parameters": [scorer]},
        environment_parameters={"working_directory": "/home/user/task"},
        reference_output=f"{SOLVES}\n",
        metadata={"made": "earlier"},
    )
    return str(made["id"])


def make_job(api: httpx.Client, benchmark_id: str) -> None:
    """Carry out a job: one agent that solves all, one that solves a half, one that does nothing."""
    half = "echo hello > greeting; echo half of it was done"
    job = post(
        api,
        "/v1/benchmark_jobs",
        name="earlier job",
        metadata={"made": "earlier"},
        spec={
            "type": "benchmark",
            "benchmark_id": benchmark_id,
            "agent_configs": [
                {"name": "oracle"},
                {"name": "command", "kwargs": {"run": half}},
                {"name": "nop"},
            ],
            "orchestrator_config": {"n_attempts": 1, "n_concurrent_trials": 2},
        },
    )
    reaches(api, f"/v1/benchmark_jobs/{job['id']}", "state", "completed")


def make_run(api: httpx.Client, scenario_id: str) -> None:
    """Carry out a run by hand, and complete it."""
    run = post(api, "/v1/scenarios/start_run", scenario_id=scenario_id, run_name="earlier run")
    reaches(api, f"/v1/devboxes/{run['devbox_id']}", "status", "running")
    execute(api, run["devbox_id"], f"cd ~/task; {SOLVES}")
    post(api, f"/v1/scenarios/runs/{run['id']}/score")
    reaches(api, f"/v1/scenarios/runs/{run['id']}", "state", "scored")
    post(api, f"/v1/scenarios/runs/{run['id']}/complete")


def execute(api: httpx.Client, devbox_id: str, command: str) -> None:
    """Run a command in a devbox."""
    ended = post(api, f"/v1/devboxes/{devbox_id}/execute_sync", command=command)
    assert ended["exit_status"] == 0, ended


def make_images(api: httpx.Client) -> None:
    """Make a snapshot of a devbox, and a blueprint."""
    devbox = post(api, "/v1/devboxes/create_and_await_running", name="earlier devbox")
    execute(api, devbox["id"], "echo snapped > ~/state; ln -s state ~/link")
    snapshot = post(api, f"/v1/devboxes/{devbox['id']}/snapshot_disk", name="earlier snapshot")
    post(api, f"/v1/devboxes/{devbox['id']}/shutdown")
    assert snapshot["id"].startswith("snp_"), snapshot
    blueprint = post(
        api,
        "/v1/blueprints",
        name="earlier blueprint",
        system_setup_commands=["echo built > ~/state"],
        file_mounts={"/home/user/notes": "mounted\n"},
    )
    reaches(api, f"/v1/blueprints/{blueprint['id']}", "status", "build_complete")


def main(data: Path) -> None:
    """Start a server on the folder, work with it, and stop it."""
    with RunningServer(data) as server:
        headers = {"Authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=PATIENCE_SECONDS) as api:
            ids = [make_scenario(api, "greets", GREETS), make_scenario(api, "counts", COUNTS)]
            benchmark = post(api, "/v1/benchmarks", name="earlier benchmark", scenario_ids=ids)
            make_job(api, benchmark["id"])
            make_run(api, ids[0])
            make_images(api)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
