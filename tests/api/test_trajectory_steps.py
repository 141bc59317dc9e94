"""Steps of trajectories over the wire: by pieces, found, as they come, and never with a secret."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.client import AsyncClient, Client, Server
from benchyard.engine.trajectories.step_index import WHOLE_BYTES
from benchyard.models.trajectories.live_steps import LiveStep
from benchyard.scripted_model import RunningModel, Script, ScriptStep
from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.api.scenarios import Run, scenario, start

SECRET = "a-secret-of-this-run"
KEY = "sk-of-the-provider-and-nobody-else"
MODEL = "claude-sonnet-4-5"
SAYS = Script(steps=(ScriptStep(text="Forty-two."),), without_tools=True)
STEPS = [
    {"step_id": number, "source": "agent", "message": f"message {number}", "model_name": "m"}
    for number in range(1, 301)
]
DOCUMENT = {"schema_version": "ATIF-v1.4", "agent": {"name": "mine"}, "steps": STEPS}


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose provider is a scripted model."""
    with RunningModel([SAYS], key=KEY) as model:
        options = [f"--upstream=anthropic={model.url}"]
        with RunningServer(tmp_path_factory.mktemp("yard") / "data", options) as running:
            yield running


@pytest.fixture(scope="module")
def api(yard: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {yard.key}"}
    with httpx.Client(base_url=yard.url, headers=headers, timeout=120) as client:
        good(client.post("/v1/secrets", json={"name": "ANTHROPIC_API_KEY", "value": KEY}))
        good(client.post("/v1/secrets", json={"name": "MINE", "value": SECRET}))
        yield client


@pytest.fixture(scope="module")
def run(api: httpx.Client) -> Iterator[Run]:
    """A run that all tests of stored trajectories share; its devbox has a secret."""
    made = start(api, scenario(api)["id"], runProfile={"secrets": {"HIDDEN": "MINE"}})
    yield made
    made.end()


def keep(run: Run, name: str, content: bytes) -> None:
    """Keep a file as a trajectory, as it is."""
    stored = good(run.api.post("/v1/objects", json={"name": name, "content_type": "unspecified"}))
    assert httpx.put(stored["upload_url"], content=content).status_code == 200
    good(run.api.post(f"/v1/objects/{stored['id']}/complete"))
    good(run.post("traces", {"name": name, "kind": "atif", "object_id": stored["id"]}))


def steps(run: Run, rest: str = "", **query: Any) -> httpx.Response:
    return run.api.get(f"/v1/scenarios/runs/{run.id}/steps{rest}", params=query)


def between(run: Run, first: int, last: int | None = None, **query: str) -> httpx.Response:
    end = {} if last is None else {"to": last}
    return run.api.get(f"/v1/scenarios/runs/{run.id}/steps", params={"from": first, **end, **query})


def test_steps_are_read_by_pieces(run: Run) -> None:
    good(run.post("traces", {"name": "ours.json", "kind": "atif", "trajectory": DOCUMENT}))
    # As an agent, or an earlier version of the server, wrote it.
    keep(run, "foreign.json", json.dumps(DOCUMENT).encode())
    for trace in ("ours.json", "foreign.json"):
        first = steps(run, "/index", trace=trace)
        index = good(first)
        assert (index["trace"], index["count"]) == (trace, 300)
        assert index["columns"]["text"] == [step["message"] for step in STEPS]
        assert first.headers["content-encoding"] == "gzip"
        known = {"if-none-match": first.headers["etag"]}
        path = f"/v1/scenarios/runs/{run.id}/steps/index"
        assert run.api.get(path, params={"trace": trace}, headers=known).status_code == 304
        some = good(between(run, 299, trace=trace))
        assert [each["step"] for each in some["steps"]] == STEPS[298:]
        assert [each["number"] for each in some["steps"]] == [299, 300]
        many = good(between(run, 1, 300, trace=trace))
        assert (len(many["steps"]), many["next"]) == (200, 201)
        assert steps(run, "/300", trace=trace).json() == STEPS[299]
        found = good(steps(run, "/find", trace=trace, q="MESSAGE 30"))
        assert [each["number"] for each in found["found"]] == [30, 300]
    assert run.api.get(f"/v1/scenarios/runs/{run.id}/traces/ours.json").json() == DOCUMENT


def test_both_clients_read_them(run: Run, yard: RunningServer) -> None:
    async def read() -> list[Any]:
        async with AsyncClient(Server(yard.url, yard.key)) as client:
            assert (await client.trajectories.index(run.id)).count == 300
            found = await client.trajectories.find(run.id, "message 7", limit=2)
            assert (len(found.found), found.total) == (2, 11)
            return [each.step async for each in client.trajectories.steps(run.id)]

    assert asyncio.run(read()) == STEPS
    with Client(Server(yard.url, yard.key)) as client:
        assert [each.number for each in client.trajectories.steps(run.id, 150, 152)] == [150, 151, 152]
        assert client.trajectories.step(run.id, 7) == STEPS[6]


def test_what_is_not_there_or_no_trajectory_is_said(run: Run) -> None:
    assert "the steps 1 to 300, and no step 301" in refusal(steps(run, "/301"), 404)
    assert "no step 0" in refusal(steps(run, "/0"), 404)
    assert "smaller number first" in refusal(between(run, 5, 4), 400)
    assert good(between(run, 10**9))["steps"] == []
    assert "no trace 'none'" in refusal(steps(run, "/index", trace="none"), 404)
    for name, content, told in (
        ("written.json", b'{"schema_version": "ATIF-v1.4", "ste', "still being written"),
        ("deep.json", b'{"steps":' + b"[" * 10**6, "nested too deeply"),
        ("text.json", b"no JSON", "is a JSON object"),
        ("missing.json", b'{"schema_version": "ATIF-v1.4"}', "no list of steps"),
    ):
        keep(run, name, content)
        for rest, query in (("", {}), ("/index", {}), ("/1", {}), ("/find", {"q": "x"})):
            assert told in refusal(steps(run, rest, trace=name, **query), 400)
        assert run.api.get(f"/v1/scenarios/runs/{run.id}/traces/{name}").content == content


def test_no_piece_of_a_trajectory_has_a_secret(run: Run) -> None:
    around = "x" * (WHOLE_BYTES - 10)
    spread = [
        {"step_id": 1, "source": "agent", "message": "y" * 70 + SECRET},
        {"step_id": 2, "source": "user", "message": around + SECRET + around},
        {"step_id": 3, "source": "agent", "message": "", "tool_calls": [{"function_name": SECRET}]},
    ]
    document = {**DOCUMENT, "agent": {"name": SECRET}, "steps": spread}
    disguised = json.dumps(document).replace(SECRET, "\\u0061" + SECRET[1:])
    keep(run, "secret.json", json.dumps(document).encode())
    keep(run, "disguised.json", disguised.encode())
    for trace in ("secret.json", "disguised.json"):
        answers = [steps(run, rest, trace=trace) for rest in ("", "/index", "/1", "/2", "/3")]
        answers += [steps(run, "/find", trace=trace, q=q) for q in (SECRET, SECRET[:12], "xxx", "yyy")]
        assert [each for each in answers if "secret-of" in each.text] == []
        assert good(answers[5])["total"] == 0
        shown = good(answers[0])["steps"]
        assert (shown[1]["is_cut"], "its own address" in shown[1]["note"]) == (True, True)
        assert answers[3].json()["message"] == around + "***" + around
        assert good(answers[1])["columns"]["tools"][2] == ["***"]


def test_an_index_goes_with_its_run_and_is_made_again(api: httpx.Client) -> None:
    run = start(api, scenario(api)["id"])
    good(run.post("traces", {"name": "way.json", "kind": "atif", "trajectory": DOCUMENT}))

    def indexes() -> list[str]:
        listed = good(api.get("/v1/objects", params={"name": "way.json.index"}))["objects"]
        return [each["id"] for each in listed if each["state"] == "READ_ONLY"]

    assert good(steps(run, "/index"))["count"] == 300
    (id,) = indexes()
    good(api.post(f"/v1/objects/{id}/delete"))
    assert good(steps(run, "/index"))["count"] == 300
    assert indexes() == [id]
    good(run.post("cancel"))
    good(run.post("delete"))
    assert indexes() == []


def ask(way: dict[str, str], text: str) -> None:
    body = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": text}]}
    url = way["outside_url"] + "/v1/messages"
    assert httpx.post(url, json=body, headers={"x-api-key": way["token"]}, timeout=120).status_code == 200


def test_steps_come_while_code_asks_a_model(api: httpx.Client, yard: RunningServer) -> None:
    run = start(api, scenario(api)["id"])
    assert "no trajectory; while its agent works" in refusal(steps(run, "/index"), 404)
    assert "no place in a stream" in refusal(steps(run, "/live", after="x"), 400)
    way = good(run.post("open_gateway", {"model": MODEL}))
    heard: list[LiveStep] = []
    answered = threading.Event()

    def follow() -> None:
        with Client(Server(yard.url, yard.key)) as client:
            for event in client.trajectories.follow(run.id):
                heard.append(event)
                if len(heard) == 2:
                    answered.set()

    following = threading.Thread(target=follow)
    following.start()
    ask(way, f"What is {way['token']}?")
    # It comes while the run goes on.
    assert answered.wait(60)
    ask(way, "And now?")
    run.scored()
    following.join(60)
    assert [(each.kind, each.step and each.step["message"]) for each in heard] == [
        ("step", "What is ***?"),
        ("step", "Forty-two."),
        ("step", "And now?"),
        ("step", "Forty-two."),
        ("end", None),
    ]
    assert [each.number for each in heard[:4]] == [1, 2, 3, 4]
    path = f"/v1/scenarios/runs/{run.id}/steps/live"
    resumed = api.get(path, headers={"last-event-id": heard[2].cursor}).text
    assert [line for line in resumed.splitlines() if line.startswith("id: ")] == [
        f"id: {each.cursor}" for each in heard[3:]
    ]
    assert way["token"] not in resumed
    assert good(steps(run, "/index"))["columns"]["source"] == ["user", "agent"] * 2
    run.end()
