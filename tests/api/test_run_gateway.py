"""Models for code of one's own: a run's token, what it spends and says, and what becomes of it."""

import asyncio
import json
import os
import signal
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard import AsyncBenchyard, Benchyard
from benchyard.gateway.client import Gateway
from benchyard.gateway.trajectory.atif import Trajectory
from benchyard.hosts import leaks
from benchyard.scripted_model import RunningModel, Script, ScriptStep
from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.api.scenarios import Run, bash, function, results, scenario, start

KEY = "sk-of-the-provider-and-nobody-else"
MODEL = "claude-sonnet-4-5"
SAYS = Script(steps=(ScriptStep(text="Forty-two."),), without_tools=True)
OPTIONS = ("anthropic", "openai", "google", "house")


@pytest.fixture(scope="module")
def model() -> Iterator[RunningModel]:
    with RunningModel([SAYS], key=KEY) as running:
        yield running


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory, model: RunningModel) -> Iterator[RunningServer]:
    """A server whose providers are all one scripted model; nothing may be left of it in the end."""
    options = [f"--upstream={name}={model.url}" for name in OPTIONS]
    with RunningServer(tmp_path_factory.mktemp("yard") / "data", options) as running:
        yield running
    assert leaks.find(running.data) == []
    assert list((running.data / "gateway" / "records").glob("*")) == []


@pytest.fixture
def api(yard: RunningServer, model: RunningModel) -> Iterator[httpx.Client]:
    model.reset()
    headers = {"authorization": f"Bearer {yard.key}"}
    with httpx.Client(base_url=yard.url, headers=headers, timeout=120) as client:
        yield client


@pytest.fixture
def key(api: httpx.Client) -> None:
    if api.get("/v1/secrets/ANTHROPIC_API_KEY").status_code == 404:
        good(api.post("/v1/secrets", json={"name": "ANTHROPIC_API_KEY", "value": KEY}))


@pytest.fixture
def run(api: httpx.Client, key: None) -> Iterator[Run]:
    made = start(api, scenario(api)["id"])
    yield made
    made.end()


def opened(run: Run, **fields: Any) -> dict[str, str]:
    return good(run.post("open_gateway", {"model": MODEL, **fields}))


def question(text: str = "What is it?", **fields: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "max_tokens": 100,
        "messages": [{"role": "user", "content": text}],
        **fields,
    }


def ask_inside(run: Run, way: dict[str, str], body: dict[str, Any] | None = None) -> tuple[int, Any]:
    """A call by code in the devbox: the status, and what was answered."""
    sent = json.dumps(body or question())
    command = (
        f"curl -sS -w '\\n%{{http_code}}' {way['url']}/v1/messages -H 'x-api-key: {way['token']}' "
        f"-H 'content-type: application/json' -d @- <<'END'\n{sent}\nEND"
    )
    done = run.devbox.run(command)
    assert done["exit_status"] == 0, done
    said, _, status = done["stdout"].rpartition("\n")
    return int(status), json.loads(said)


def ask_outside(way: dict[str, str], **options: Any) -> httpx.Response:
    headers = {"x-api-key": way["token"]}
    url = way["outside_url"] + "/v1/messages"
    return httpx.post(url, **{"json": question(), "headers": headers, "timeout": 120, **options})


def trace(run: Run, name: str) -> bytes:
    found = run.api.get(f"/v1/scenarios/runs/{run.id}/traces/{name}")
    assert found.status_code == 200, found.text
    return found.content


def test_code_in_the_devbox_asks_a_model_without_its_key(run: Run, model: RunningModel) -> None:
    way = opened(run)
    assert (way["provider"], way["model"]) == ("anthropic", MODEL)
    assert way["url"].startswith("http://127.0.0.1:")
    status, said = ask_inside(run, way)
    assert (status, said["content"][0]["text"]) == (200, "Forty-two.")
    assert model.ledger.keys() == {KEY}
    seen = run.devbox.run(f"cat /proc/*/environ /proc/*/cmdline | grep -ac '{KEY[:10]}[{KEY[10]}]{KEY[11:]}'")
    assert seen["stdout"].strip() == "0", seen


def test_records_of_calls_hold_no_token_or_secret(run: Run) -> None:
    way = opened(run)
    said = f"my token is {way['token']}, and the key is {KEY}"
    assert ask_inside(run, way, question(said))[0] == 200
    run.scored()
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(trace(run, "calls.db"))
        parts = [zlib.decompress(data) for (data,) in connection.execute("SELECT data FROM parts")]
    kept = trace(run, "trajectory.json") + b"".join(parts)
    assert b"my token is ***, and the key is ***" in kept
    assert way["token"].encode() not in kept
    assert KEY.encode() not in kept


def test_usage_and_trajectory_are_kept_and_shown_to_scorers(
    api: httpx.Client, key: None, model: RunningModel
) -> None:
    shows = r"""
        echo "$RL_SCORER_CONTEXT"
        cat "$(sed 's/.*"trajectory_path":"\([^"]*\)".*/\1/' <<< "$RL_SCORER_CONTEXT")"
        echo; echo score=1.0
    """
    run = start(api, scenario(api, function(bash(shows)))["id"])
    way = opened(run)
    for word in ("one", "two"):
        assert ask_inside(run, way, question(word))[0] == 200
    assert "usage" not in run.view()
    view = run.scored()
    spent = model.ledger.total()
    usage = view["usage"]
    assert spent.total_tokens > 0
    assert (usage["input_tokens"], usage["output_tokens"]) == (spent.input_tokens, spent.output_tokens)
    assert (usage["model_calls"], usage["cost_usd"] > 0) == (2, True)
    first, _, rest = results(view)[0]["output"].partition("\n")
    told, shown = json.loads(first), json.loads(rest.rpartition("\nscore=")[0])
    assert told["benchyard"]["usage"] == usage
    content = json.loads(trace(run, "trajectory.json"))
    assert shown == content
    Trajectory.model_validate(content)
    totals = content["final_metrics"]
    assert totals["total_prompt_tokens"] == spent.input_tokens
    assert totals["total_completion_tokens"] == spent.output_tokens
    assert content["agent"]["name"] == "interactive"
    assert trace(run, "calls.db").startswith(b"SQLite format 3")
    assert good(run.post("complete"))["usage"] == usage


def test_the_token_is_worth_nothing_once_the_run_was_scored(run: Run, model: RunningModel) -> None:
    way = opened(run)
    assert ask_outside(way).status_code == 200
    run.scored()
    assert "open_gateway" in refusal(ask_outside(way), 409)
    status, said = ask_inside(run, way)
    assert (status, said["error"]["type"]) == (401, "authentication_error")
    assert len(model.ledger.entries) == 1


def test_opened_again_after_a_score_it_counts_on(run: Run, model: RunningModel) -> None:
    way = opened(run, budget={"requests": 2})
    assert ask_outside(way).status_code == 200
    assert run.scored()["usage"]["model_calls"] == 1
    assert opened(run) == way
    assert ask_outside(way).status_code == 200
    assert ask_outside(way).status_code >= 400
    view = run.scored()
    assert view["usage"]["model_calls"] == 2
    assert view["usage"]["output_tokens"] == model.ledger.total().output_tokens
    names = {each["name"] for each in view["traces"]}
    assert {"trajectory.json", "calls.db", "trajectory-2.json", "calls-2.db"} <= names
    assert len(json.loads(trace(run, "trajectory-2.json"))["steps"]) > 0


def test_a_trajectory_of_ones_own_is_not_in_the_way(run: Run) -> None:
    mine = {"schema_version": "ATIF-v1.4", "steps": []}
    good(run.post("traces", {"name": "trajectory.json", "kind": "atif", "trajectory": mine}))
    assert ask_outside(opened(run)).status_code == 200
    run.scored()
    assert json.loads(trace(run, "trajectory.json")) == mine
    assert json.loads(trace(run, "trajectory-2.json"))["agent"]["name"] == "interactive"


@pytest.mark.parametrize("verb", ["complete", "cancel"])
def test_a_run_that_is_ended_without_a_score_keeps_what_it_spent(run: Run, verb: str) -> None:
    assert ask_outside(opened(run)).status_code == 200
    view = good(run.post(verb))
    assert view["usage"]["model_calls"] == 1
    assert json.loads(trace(run, "trajectory.json"))["final_metrics"]["total_completion_tokens"] > 0
    assert "start another" in refusal(run.post("open_gateway", {"model": MODEL}), 409)


def test_a_run_whose_devbox_ends_keeps_what_it_spent(run: Run) -> None:
    assert ask_outside(opened(run)).status_code == 200
    run.devbox.post("shutdown")
    run.reaches("canceled")
    view = good(run.post("cancel"))
    assert view["usage"]["model_calls"] == 1
    assert trace(run, "calls.db")


def test_a_budget_refuses_what_is_over_it(run: Run, model: RunningModel) -> None:
    way = opened(run, budget={"requests": 1})
    assert ask_inside(run, way)[0] == 200
    status, said = ask_inside(run, way)
    assert status >= 400
    assert "budget" in json.dumps(said)
    assert len(model.ledger.calls(titles=True)) == 1


def test_the_token_of_another_run_is_refused(run: Run, api: httpx.Client, model: RunningModel) -> None:
    other = start(api, scenario(api)["id"])
    mine, theirs = opened(run), opened(other)
    assert mine["token"] != theirs["token"]
    assert ask_inside(run, {**mine, "token": theirs["token"]})[0] == 401
    assert "open_gateway" in refusal(ask_outside({**mine, "token": theirs["token"]}), 401)
    assert model.ledger.entries == []
    other.end()


def test_a_stranger_and_the_servers_own_key_are_refused(run: Run, yard: RunningServer) -> None:
    way = opened(run)
    refusal(ask_outside(way, headers={}), 401)
    refusal(ask_outside(way, headers={"authorization": f"Bearer {yard.key}"}), 401)
    refusal(ask_outside({**way, "outside_url": f"{yard.url}/gateway/scr_nothing/anthropic"}), 401)


def test_answers_come_out_as_they_are_said(run: Run, model: RunningModel) -> None:
    way = opened(run)
    url, headers = way["outside_url"] + "/v1/messages", {"authorization": f"Bearer {way['token']}"}
    body = question(stream=True)
    with httpx.stream("POST", url, json=body, headers=headers, timeout=120) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line.startswith("event: ")]
    assert lines[0] == "event: message_start"
    assert lines[-1] == "event: message_stop"
    assert model.ledger.calls(titles=True)[0].streams
    missing = httpx.post(f"{way['outside_url']}/v1/nothing", json={}, headers=headers, timeout=120)
    assert "is not a call of a model" in missing.text


def test_a_run_may_ask_several_providers(run: Run, api: httpx.Client, model: RunningModel) -> None:
    good(api.post("/v1/secrets", json={"name": "SPARE_KEY", "value": KEY}))
    first = opened(run)
    second = good(run.post("open_gateway", {"provider": "house", "secret": "SPARE_KEY"}))
    assert (second["token"], second["provider"]) == (first["token"], "house")
    assert "model" not in second
    for way in (first, second):
        assert ask_outside(way, headers={"authorization": f"Bearer {way['token']}"}).status_code == 200
    assert run.scored()["usage"]["model_calls"] == 2
    assert [entry.model for entry in model.ledger.calls(titles=True)] == [MODEL, MODEL]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "anthropic, google, house, openai"),
        ({"model": "llama-9"}, "one of anthropic"),
        ({"provider": "antropic"}, "there are: anthropic"),
        ({"model": "gpt-4o"}, "benchyard secret set OPENAI_API_KEY"),
        ({"provider": "gemini"}, "benchyard secret set GEMINI_API_KEY"),
        ({"model": MODEL, "secret": "NO_SUCH"}, "benchyard secret set NO_SUCH"),
        ({"model": MODEL, "budget": {"requests": -1}}, "budget"),
    ],
)
def test_invalid_gateway_request_is_refused_with_a_remedy(run: Run, body: dict[str, Any], says: str) -> None:
    assert says in refusal(run.post("open_gateway", body), 400)


def test_nothing_is_lost_when_the_server_is_killed_between_two_calls(
    run: Run, yard: RunningServer, model: RunningModel
) -> None:
    way = opened(run)
    assert ask_inside(run, way)[0] == 200
    yard.kill()
    yard.start()
    assert ask_inside(run, way)[0] == 200
    assert ask_outside(way).status_code == 200
    assert opened(run) == way
    view = run.scored()
    assert view["usage"]["model_calls"] == 3
    assert view["usage"]["output_tokens"] == model.ledger.total().output_tokens


def test_nothing_is_lost_when_the_gateway_is_killed_too(
    run: Run, yard: RunningServer, model: RunningModel
) -> None:
    way = opened(run)
    assert ask_inside(run, way)[0] == 200
    gateway = gateway_of(yard.data, f"run-{run.id}")
    yard.kill()
    os.kill(gateway, signal.SIGKILL)
    yard.start()
    assert ask_inside(run, way)[0] == 200
    assert good(run.post("complete"))["usage"]["model_calls"] == 2


def test_a_run_that_ended_while_the_server_was_away_keeps_what_it_spent(
    run: Run, yard: RunningServer
) -> None:
    assert ask_inside(run, opened(run))[0] == 200
    yard.kill()
    yard.start()
    view = good(run.post("cancel"))
    assert view["usage"]["model_calls"] == 1


def test_runs_of_the_sdk_open_it(api: httpx.Client, key: None, yard: RunningServer) -> None:
    made = scenario(api)["id"]
    with Benchyard(yard.url, yard.key) as client:
        run = client.scenario.from_id(made).run()
        way = run.open_gateway(model=f"anthropic/{MODEL}", budget={"requests": 5})
        assert (way.provider, way.model) == ("anthropic", MODEL)
        assert ask_outside(way.model_dump()).status_code == 200
        usage = run.score_and_complete().usage
        assert usage is not None
        assert usage["model_calls"] == 1
    asyncio.run(awaited(yard, made))


async def awaited(yard: RunningServer, scenario_id: str) -> None:
    async with AsyncBenchyard(yard.url, yard.key) as client:
        run = await client.scenario.from_id(scenario_id).run()
        way = await run.open_gateway(provider="anthropic")
        assert (way.provider, way.model) == ("anthropic", None)
        assert (await asyncio.to_thread(ask_outside, way.model_dump())).status_code == 200
        usage = (await run.complete()).usage
        assert usage is not None
        assert usage["model_calls"] == 1


def gateway_of(data: Path, grant_id: str) -> int:
    """The process of a server's gateway, once it has all calls of a grant on disk."""

    async def told() -> int:
        gateway = Gateway(data / "gateway")
        await gateway.open()
        try:
            assert (await gateway.spent(grant_id)).calls == 1
            return int((await gateway.status())["pid"])
        finally:
            await gateway.close()

    return asyncio.run(told())
