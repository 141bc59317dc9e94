"""The ledger has every request with its key, body and cost; what else a client asks is answered too."""

import asyncio
from typing import Any

import httpx
import pytest

from benchyard.errors import ServerUnreachable
from benchyard.gateway.calls import TokenUsage
from benchyard.scripted_model import RunningModel, ScriptedModel
from tests.scripted_model.asking import DIALECTS, KEY_HEADERS, ask, body, events, path

SCRIPT: dict[str, Any] = {
    "steps": [{"shell": "ls", "usage": {"input_tokens": 100, "cached_tokens": 40, "output_tokens": 10}}]
}
REFUSED = {
    "anthropic": ("type", "authentication_error"),
    "responses": ("code", "invalid_api_key"),
    "chat": ("code", "invalid_api_key"),
    "gemini": ("status", "UNAUTHENTICATED"),
}


def test_totals_are_by_model_and_over_http_too() -> None:
    with RunningModel(SCRIPT) as model:
        for dialect in DIALECTS:
            ask(model.url, dialect, "go", streams=True)
        assert model.ledger.totals() == {"m": TokenUsage(300, 30, 120), "gemini-m": TokenUsage(100, 10, 40)}
        assert model.ledger.total() == TokenUsage(400, 40, 160)
        told = httpx.get(f"{model.url}/any/prefix/__ledger").json()
        assert told["totals"]["m"] == {
            "requests": 3,
            "input_tokens": 300,
            "output_tokens": 30,
            "cached_tokens": 120,
            "cache_write_tokens": 0,
            "reasoning_tokens": 0,
        }
        first = told["requests"][0]
        assert (first["dialect"], first["status"], first["path"]) == ("anthropic", 200, path("anthropic"))
        assert first["body"] == body("anthropic", "go", streams=True)
        assert [each["number"] for each in told["requests"]] == [1, 2, 3, 4]
        assert httpx.post(f"{model.url}/__reset").status_code == 200
        assert httpx.get(f"{model.url}/__ledger").json() == {"requests": [], "totals": {}}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_the_right_key_is_taken(dialect: str) -> None:
    header, before = KEY_HEADERS[dialect]
    with RunningModel(SCRIPT, key="real") as model:
        url = model.url + path(dialect)
        statuses = []
        given: list[dict[str, str]] = [
            {header: f"{before}real"},
            {header: f"{before}token"},
            {},
            {header: f"{before}real", "x-goog-api-key": "token", "x-api-key": "token"},
        ]
        for headers in given:
            response = httpx.post(url, json=body(dialect, "go"), headers=headers, timeout=60)
            statuses.append(response.status_code)
        assert statuses == [200, 401, 401, 401]
        key, word = REFUSED[dialect]
        assert response.json()["error"][key] == word
        assert model.ledger.keys() == {"real", "token"}
        assert [entry.key for entry in model.ledger.entries][:3] == ["real", "token", None]
        # What was refused says nothing of its body.
        assert [entry.usage is None for entry in model.ledger.entries] == [False, True, True, True]


@pytest.mark.parametrize(
    ("method", "where", "status", "key"),
    [
        ("HEAD", "/", 200, None),
        ("GET", "/", 200, "message"),
        ("HEAD", "/api/hello", 200, None),
        ("GET", "/prefix/api/hello", 200, "message"),
        ("GET", "/prefix/v1/models", 200, "data"),
        ("GET", "/prefix/v1/models/some", 200, "id"),
        ("GET", "/prefix/v1beta/models", 200, "models"),
        ("GET", "/prefix/v1beta/models/some", 200, "name"),
        ("POST", "/prefix/v1/messages/count_tokens", 200, "input_tokens"),
        ("POST", "/prefix/v1/responses/input_tokens", 200, "input_tokens"),
        ("POST", "/prefix/v1beta/models/m:countTokens", 200, "totalTokens"),
        ("GET", "/prefix/v1/responses", 405, "error"),
        ("GET", "/nowhere", 404, "error"),
        ("POST", "/nowhere", 404, "error"),
        ("DELETE", "/v1/models", 404, "error"),
    ],
)
def test_side_requests_of_clients_are_answered(method: str, where: str, status: int, key: str | None) -> None:
    with RunningModel(SCRIPT) as model:
        response = httpx.request(method, model.url + where, timeout=60)
        assert response.status_code == status
        if key is not None:
            assert key in response.json()
        (entry,) = model.ledger.entries
        assert (entry.method, entry.path, entry.status, entry.dialect) == (method, where, status, "")


def test_lists_of_models_name_those_that_were_given() -> None:
    with RunningModel(SCRIPT, models=["a", "b"]) as model:
        listed = httpx.get(f"{model.url}/v1/models").json()["data"]
        assert [each["id"] for each in listed] == ["a", "b"]
        google = httpx.get(f"{model.url}/v1/models", headers={"x-goog-api-key": "k"}).json()["models"]
        assert [each["name"] for each in google] == ["models/a", "models/b"]


@pytest.mark.parametrize("sent", [b"", b"nonsense", b"[]", b"[" * 100_000, b'"text"', b"\xff"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_that_is_not_an_object_is_refused(dialect: str, sent: bytes) -> None:
    with RunningModel(SCRIPT) as model:
        response = httpx.post(model.url + path(dialect), content=sent, timeout=60)
        assert response.status_code == 400
        assert "error" in response.json()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_of_the_wrong_shapes_is_answered_as_far_as_it_goes(dialect: str) -> None:
    odd: dict[str, Any] = {
        "model": 3,
        "tools": [None, 1, {"name": 5}, {"function": []}, {"functionDeclarations": [{"name": None}]}],
        "metadata": [],
        "text": [],
        "stream_options": 1,
        "generationConfig": "x",
    }
    messages: list[Any] = [1, None, {}, {"role": []}, {"role": "assistant", "content": 7}]
    shapes: list[Any] = [None, 5, "x", messages, {"a": 1}]
    for shape in shapes:
        odd |= {"messages": shape, "input": shape, "contents": shape}
        with RunningModel(SCRIPT) as model:
            assert httpx.post(model.url + path(dialect), json=odd, timeout=60).status_code == 200


def test_bodies_need_not_be_kept() -> None:
    async def run() -> None:
        async with ScriptedModel(SCRIPT) as model:
            model.keeps_bodies = False
            async with httpx.AsyncClient(base_url=model.url, timeout=60) as client:
                await client.post(path("chat"), json=body("chat", "go"))
            assert [(entry.body, entry.status) for entry in model.ledger.entries] == [(None, 200)]

    asyncio.run(run())


def test_many_streams_at_once_all_end_well() -> None:
    script = {"steps": [{"text": "many words, again and again " * 20, "chunk_delay": 0.02}]}

    async def stream(client: httpx.AsyncClient, dialect: str) -> int:
        url = path(dialect, streams=True)
        response = await client.post(url, json=body(dialect, "go", streams=True))
        return len(list(events(response.text)))

    async def run() -> None:
        async with ScriptedModel(script) as model:
            limits = httpx.Limits(max_connections=200)
            async with httpx.AsyncClient(base_url=model.url, timeout=120, limits=limits) as client:
                counts = await asyncio.gather(*(stream(client, each) for each in DIALECTS * 32))
            assert len(set(counts[:4])) > 1
            assert counts == counts[:4] * 32
            assert len(model.ledger.calls()) == 128
            assert all(entry.is_complete for entry in model.ledger.entries)

    asyncio.run(run())


def test_two_cannot_have_the_same_port() -> None:
    with RunningModel(SCRIPT) as model:
        port = int(model.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            RunningModel(SCRIPT, address=("127.0.0.1", port)).__enter__()


def test_reset_needs_a_running_model() -> None:
    with pytest.raises(ServerUnreachable):
        RunningModel(SCRIPT).reset()
    with RunningModel(SCRIPT) as model:
        ask(model.url, "chat", "go")
        model.reset()
        assert model.ledger.entries == []
