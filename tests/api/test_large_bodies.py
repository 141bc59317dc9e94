"""Large bodies are parsed in workers: no callback of the loop feels them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.api.app import build_app
from benchyard.api.server import open_services
from benchyard.settings import Settings
from benchyard.testing.loop_probe import loop_probe

MEBIBYTE = 1024**2
SCENARIO = {
    "name": "large",
    "input_context": {"problem_statement": "Do it."},
    "scoring_contract": {
        "scoring_function_parameters": [
            {"name": "a", "weight": 1.0, "scorer": {"type": "command_scorer", "command": "true"}}
        ]
    },
}


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    """A body as a connection brings it."""
    for at in range(0, len(body), 64 * 1024):
        yield body[at : at + 64 * 1024]
        await asyncio.sleep(0)


def posted(data: Path, path: str, body: bytes) -> list[httpx.Response]:
    """The answers to a request that is sent twice by the same id, when no callback took too long."""

    async def live() -> list[httpx.Response]:
        async with open_services(Settings(data=data, driver="fake")) as services:
            key = (data / "api-key").read_text().strip()
            headers = {
                "authorization": f"Bearer {key}",
                "content-type": "application/json",
                "x-request-id": "one",
            }
            transport = httpx.ASGITransport(build_app(services))
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                # Routes and workers are made ready by the first request.
                first = json.dumps({**SCENARIO, "reference_output": "x" * 100_000}).encode()
                await client.post(path, headers={**headers, "x-request-id": "first"}, content=first)
                with loop_probe() as probe:
                    answers = [
                        await client.post(path, headers=headers, content=pieces(body)) for _ in range(2)
                    ]
                assert probe.slow == []
                return answers

    data.mkdir()
    return asyncio.run(live())


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (lambda: {"metadata": {"text": "x" * (16 * MEBIBYTE)}}, 400),
        (lambda: {"metadata": {f"key{index}": "x" for index in range(50_000)}}, 400),
        (lambda: {"unknown": [{} for _ in range(90_000)]}, 200),
        (lambda: {"reference_output": "y" * 200_000}, 200),
    ],
    ids=["text", "keys", "objects", "good"],
)
def test_no_body_is_felt(tmp_path: Path, fields: Callable[[], dict[str, Any]], status: int) -> None:
    first, again = posted(tmp_path / "data", "/v1/scenarios", json.dumps({**SCENARIO, **fields()}).encode())
    assert (first.status_code, again.status_code) == (status, status), first.text[:1000]
    # The same request is known again.
    assert first.json().get("id") == again.json().get("id")


@pytest.mark.parametrize("body", [b'{"name": ' * 20_000, b'{"name": "' + b"x" * 200_000, b"\xff" * 100_000])
def test_a_large_body_that_is_no_json_is_refused(tmp_path: Path, body: bytes) -> None:
    first, _ = posted(tmp_path / "data", "/v1/scenarios", body)
    assert first.status_code == 400


def test_no_trajectory_is_felt(tmp_path: Path) -> None:
    """It is parsed, written and kept by others; letters of several bytes, and many values."""
    steps: list[Any] = [{"step_id": at, "message": "é\n" * 40} for at in range(60_000)]
    trajectory = {"schema_version": "ATIF-v1.4", "steps": steps, "notes": "é" * (4 * MEBIBYTE)}
    body = json.dumps({"name": "way.json", "kind": "atif", "trajectory": trajectory}, ensure_ascii=False)
    data = tmp_path / "data"
    data.mkdir()

    async def live() -> None:
        async with open_services(Settings(data=data, driver="native")) as services:
            headers = {"authorization": f"Bearer {(data / 'api-key').read_text().strip()}"}
            transport = httpx.ASGITransport(build_app(services))
            async with httpx.AsyncClient(
                transport=transport, base_url="http://here", headers=headers, timeout=60
            ) as client:
                made = (await client.post("/v1/scenarios", json=SCENARIO)).json()
                asked = {"scenario_id": made["id"]}
                run = (await client.post("/v1/scenarios/start_run", json=asked)).json()
                path = f"/v1/scenarios/runs/{run['id']}/traces"
                json_type = {"content-type": "application/json"}
                with loop_probe() as probe:
                    answer = await client.post(path, headers=json_type, content=pieces(body.encode()))
                assert answer.status_code == 200, answer.text[:1000]
                assert probe.slow == []
                (kept,) = answer.json()["traces"]
                assert kept["size_bytes"] > 8 * MEBIBYTE
                content = await client.get(f"{path}/way.json")
                assert content.json() == trajectory
                ended = await client.post(f"/v1/scenarios/runs/{run['id']}/cancel")
                assert ended.status_code == 200, ended.text

    asyncio.run(live())
