"""Trials over all jobs, what people note about them, and what they left on their disks."""

import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good, refusal
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import bash, function, scenario

HOME = "/home/user/work"
VALUE = "value-that-nobody-may-see"
WORK = """
echo after > kept; rm gone; printf '%s' "$HIDDEN" > 'a secret'; ln -s /etc/shadow link; mkfifo pipe
head -c 3000000 /dev/zero > ../beside; echo 1 > answer; echo "token=$HIDDEN" > .env
"""


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def made(http: httpx.Client, name: str) -> Job:
    """A job with an agent that works and one that crashes."""
    good(http.post("/v1/secrets", json={"name": name, "value": VALUE}))
    start = {
        "working_directory": HOME,
        "launch_parameters": {"launch_commands": [f"cd {HOME} && echo before > kept && echo x > gone"]},
        "environment_variables": {"OWN": "the scenario's"},
    }
    scored = function(bash("cat answer"))
    rules = {"scoring_isolation": "system"}
    id = scenario(http, scored, name=name, environment_parameters=start, **rules)["id"]
    environment = {"secrets": {"HIDDEN": name}, "environment_variables": {"GIVEN": "by the caller"}}
    works = agent(WORK, agent_environment=environment)
    return Job(http, scenarios_spec([id], works, agent("exit 3")), name=name)


@pytest.fixture(scope="module")
def job(http: httpx.Client) -> Job:
    found = made(http, f"WORK_{secrets.token_hex(4)}")
    found.completed()
    return found


def trials(job: Job, **wanted: str) -> list[dict[str, Any]]:
    page = good(job.api.get("/v1/trials", params={"job_id": job.id, **wanted}))
    assert page["total_count"] == len(page["trials"])
    found: list[dict[str, Any]] = page["trials"]
    return found


def test_trials_of_all_jobs_are_found_by_what_is_known_of_them(http: httpx.Client, job: Job) -> None:
    crashed, worked = trials(job)
    assert (worked["outcome"], worked["agent_label"], crashed["outcome"]) == ("passed", "command", "crashed")
    for wanted, found in [
        ({"state": "failed"}, [crashed]),
        ({"outcome": "passed", "agent": "command"}, [worked]),
        ({"kind": "agent", "scenario_id": crashed["scenario_id"]}, [crashed]),
        ({"kind": "scorer"}, []),
        ({"benchmark_id": "bmd_none"}, []),
        ({"limit": "1", "starting_after": crashed["id"], "include_total_count": "false"}, [worked]),
    ]:
        page = good(http.get("/v1/trials", params={"job_id": job.id, **wanted}))
        assert page["trials"] == found
    assert "starting_after names nothing" in refusal(http.get("/v1/trials?starting_after=trl_no"), 400)


def test_people_note_what_they_think_of_results(http: httpx.Client, server: RunningServer, job: Job) -> None:
    trial = trials(job)[1]["id"]
    tag = secrets.token_hex(4)
    noted = {"add_tags": [tag, "old", tag], "note": "looks fine "}
    assert good(http.post(f"/v1/trials/{trial}/annotate", json=noted))["tags"] == [tag, "old"]
    view = good(http.post(f"/v1/trials/{trial}/annotate", json={"remove_tags": ["old"]}))
    assert (view["tags"], view["note"]) == ([tag], "looks fine")
    key = good(http.post("/v1/apikeys", json={"name": "second reader"}))["key_secret"]
    label = f"/v1/trials/{trial}/label"
    good(http.post(label, json={"name": "correct", "value": "no"}))
    good(http.post(label, json={"name": "correct", "value": "yes", "comment": "read it"}))
    with httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {key}"}) as other:
        good(other.post(label, json={"name": "correct", "value": "no"}))
    own, others = good(http.get(f"/v1/trials/{trial}"))["labels"]
    assert (own["value"], own["comment"], others["value"], others["key_name"]) == (
        "yes",
        "read it",
        "no",
        "second reader",
    )
    assert [each["name"] for each in good(http.post(label, json={"name": "correct"}))["labels"]] == [
        "correct"
    ]
    assert [each["id"] for each in trials(job, tag=tag)] == [trial]
    assert [each["tags"] for each in job.trials()] == [[], [tag]]
    assert good(job.post("annotate", {"add_tags": [tag], "note": "first try"}))["note"] == "first try"
    assert [each["id"] for each in good(http.get("/v1/benchmark_jobs", params={"tag": tag}))["jobs"]] == [
        job.id
    ]
    assert (job.get()["tags"], job.get()["note"]) == ([tag], "first try")
    assert "without spaces" in refusal(job.post("annotate", {"add_tags": ["a b"]}), 400)
    many = {"add_tags": [f"{tag}{number}" for number in range(50)]}
    assert "at most 50 tags" in refusal(http.post(f"/v1/trials/{trial}/annotate", json=many), 400)
    assert trials(job, tag=f"{tag}1") == []


def test_the_work_is_shown_against_its_start(http: httpx.Client, job: Job) -> None:
    crashed, worked = trials(job)
    work = f"/v1/trials/{worked['id']}"
    files = good(http.get(f"{work}/files"))
    changes = {each["path"].removeprefix(f"{HOME}/"): each["change"] for each in files["files"]}
    assert changes == {
        **dict.fromkeys([".env", "a secret", "answer", "link", "pipe"], "added"),
        "gone": "deleted",
        "kept": "modified",
    }
    assert (files["start"], files["has_more"]) == ("run", False)
    whole = good(http.get(f"{work}/files", params={"scope": "all", "path": "../beside"}))["files"]
    assert [(each["path"], each["size"]) for each in whole] == [("/home/user/beside", 3_000_000)]
    diff = http.get(f"{work}/diff")
    assert diff.headers["content-type"].startswith("text/x-diff")
    assert "-before\n+after\n" in diff.text
    assert f"# left out: {HOME}/pipe: a pipe or a socket\n" in diff.text
    assert VALUE not in diff.text
    assert "+/etc/shadow\n" in diff.text
    run = f"/v1/scenarios/runs/{worked['scenario_run_id']}"
    assert http.get(f"{run}/diff").content == diff.content
    content = f"{work}/files/content"
    kept = http.get(content, params={"path": "kept", "offset": 2, "limit": 2})
    assert (kept.content, kept.headers["x-benchyard-size"]) == (b"te", "6")
    assert http.get(content, params={"path": "kept", "side": "before"}).content == b"before\n"
    part = http.get(content, params={"path": "a secret", "offset": 5, "limit": 5}).content
    assert part not in VALUE.encode()
    for path, status, says in [
        ("gone", 404, "at its end"),
        ("pipe", 400, "is no file"),
        ("/etc/../../etc/none", 404, "there is no"),
        ("link/x", 404, "there is no"),
    ]:
        assert says in refusal(http.get(content, params={"path": path}), status)
    assert "it was not scored" in refusal(http.get(f"/v1/trials/{crashed['id']}/diff"), 409)


def test_a_devbox_is_opened_on_what_a_trial_left(http: httpx.Client, job: Job) -> None:
    worked = trials(job)[1]
    path, headers = f"/v1/trials/{worked['id']}/open", {"x-request-id": secrets.token_hex(8)}
    first, devbox = (good(http.post(path, headers=headers, json={"name": "seen"})) for _ in range(2))
    assert first["id"] == devbox["id"]
    path = f"/v1/devboxes/{devbox['id']}"
    eventually(lambda: good(http.get(path))["status"] == "running", "running")
    ran = good(http.post(f"{path}/execute_sync", json={"command": f"cat {HOME}/kept; env"}))
    assert ran["stdout"].startswith("after\n")
    assert "OWN=the scenario's" in ran["stdout"]
    assert VALUE not in ran["stdout"]
    assert "GIVEN" not in ran["stdout"]
    assert devbox["metadata"] == {"benchyard.opened": worked["id"]}
    good(http.post(f"{path}/shutdown"))
    assert http.get(f"/v1/trials/{worked['id']}/diff").status_code == 200


def test_nothing_is_left_of_the_trials_of_a_deleted_job(http: httpx.Client) -> None:
    job = made(http, f"GONE_{secrets.token_hex(4)}")
    job.completed()
    trial, tag = trials(job)[0]["id"], secrets.token_hex(4)
    good(http.post(f"/v1/trials/{trial}/annotate", json={"add_tags": [tag]}))
    good(job.post("annotate", {"add_tags": [tag]}))
    good(job.post("delete"))
    eventually(lambda: trials(job) == [], "no trials")
    assert good(http.get("/v1/trials", params={"tag": tag}))["trials"] == []
    assert good(http.get("/v1/benchmark_jobs", params={"tag": tag}))["jobs"] == []
    for verb in ("files", "diff", "files/content?path=x"):
        assert "no trial" in refusal(http.get(f"/v1/trials/{trial}/{verb}"), 404)
