"""A large job is opened, followed, changed, compared and judged while the event loop goes on."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.api import problem_reports
from benchyard.api.app import build_app
from benchyard.api.deps import Services
from benchyard.api.server import open_services
from benchyard.models.jobs import Job, JobState
from benchyard.models.trials import Trial
from benchyard.settings import Settings
from benchyard.store.trial_facts import TrialFactTable
from benchyard.testing.loop_probe import loop_probe
from tests.reports.scenes import job, trial

AGENTS, ATTEMPTS = 2, 5
MANY, SOME = 600, 40
"""Scenarios of a job with thousands of trials, and of one that is just too large for the event loop."""

Ask = Callable[..., Awaitable[tuple[int, dict[str, str], bytes]]]


def stored(state: JobState, scenarios: int) -> tuple[Job, list[Trial]]:
    """A job with many trials, and these."""
    made = job(AGENTS, scenarios, ATTEMPTS, state).model_copy(update={"start_time_ms": 1})
    id = f"bmj_{state.value}"
    trials = [
        trial(
            float((agent + scenario + attempt) % 3 > 0),
            agent=agent,
            scenario=scenario,
            attempt=attempt,
            start_time_ms=1,
            end_time_ms=5,
            usage={"cost_usd": 0.1, "input_tokens": 10.0},
            scorer_note="2 of 3 tests failed: test_a, test_b",
        ).model_copy(update={"id": f"trl_{id}_{agent}_{scenario}_{attempt}", "job_id": id})
        for agent in range(AGENTS)
        for scenario in range(scenarios)
        for attempt in range(1, ATTEMPTS + 1)
    ]
    return made.model_copy(update={"id": id, "end_time_ms": 9}), trials


async def fill(services: Services, scenarios: int) -> None:
    for state in (JobState.COMPLETED, JobState.TIMEOUT):
        made, trials = stored(state, scenarios)
        store = services.store
        await store.collection("benchmark_jobs", Job).insert(made)
        rows = store.collection("trials", Trial).rows
        for start in range(0, len(trials), 500):
            part = trials[start : start + 500]
            await store.write(rows.adding(part))
            await store.write(TrialFactTable(store).adding(part))


@asynccontextmanager
async def serving(data: Path, scenarios: int) -> AsyncIterator[tuple[Services, Ask]]:
    """A server in this process with large jobs, and a client that unpacks nothing on the event loop."""
    async with open_services(Settings(data=data, driver="fake")) as services:
        await fill(services, scenarios)
        headers = {
            "authorization": f"Bearer {(data / 'api-key').read_text().strip()}",
            "accept-encoding": "gzip",
        }
        transport = httpx.ASGITransport(build_app(services))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://here", headers=headers, timeout=300
        ) as client:

            async def ask(method: str, path: str, **options: Any) -> tuple[int, dict[str, str], bytes]:
                async with client.stream(method, path, **options) as answer:
                    raw = b"".join([piece async for piece in answer.aiter_raw()])
                    return answer.status_code, dict(answer.headers), raw

            # Routes and workers are made ready by the first request.
            await ask("GET", "/v1/benchmark_jobs", params={"limit": 1})
            await ask("GET", "/v1/trials", params={"limit": 1})
            yield services, ask


def parsed(answer: tuple[int, dict[str, str], bytes]) -> Any:
    status, headers, raw = answer
    assert headers.get("content-encoding") == "gzip"
    content = zlib.decompress(raw, 31)
    assert status == 200, content[:1000]
    return json.loads(content)


REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "view": ("GET", "/v1/benchmark_jobs/bmj_completed", {}),
    "short view": ("GET", "/v1/benchmark_jobs/bmj_completed?scenarios=false", {}),
    "tag": ("POST", "/v1/benchmark_jobs/bmj_completed/annotate", {"json": {"add_tags": ["nightly"]}}),
    "pin": ("POST", "/v1/benchmark_jobs/bmj_completed/pin", {}),
    "cancel": ("POST", "/v1/benchmark_jobs/bmj_timeout/cancel", {}),
    "page of trials": ("GET", "/v1/benchmark_jobs/bmj_completed/trials?limit=5000", {}),
    "trials of all jobs": ("GET", "/v1/trials?limit=5000", {}),
    "report": ("GET", "/v1/benchmark_jobs/bmj_completed/report", {}),
    "table": ("GET", "/v1/benchmark_jobs/bmj_completed/table", {}),
    "comparison": ("GET", "/v1/compare?a=bmj_completed:0&b=bmj_timeout:1", {}),
    "gate": ("GET", "/v1/gate?a=bmj_completed:0&b=bmj_timeout:1", {}),
    "told gate": ("POST", "/v1/gate?a=bmj_completed:0&b=bmj_timeout:1&margin=0.1", {}),
    "problems": ("GET", "/v1/benchmark_jobs/bmj_completed/problems", {}),
}


def test_no_request_about_a_large_job_is_felt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_reports, "READING_SECONDS", 1.0)
    data = tmp_path / "data"
    data.mkdir()
    slow: dict[str, list[str]] = {}

    async def live() -> None:
        async with serving(data, MANY) as (_, ask):
            for name, (method, path, options) in REQUESTS.items():
                # The first request of a route is slow: its models are built.
                await ask(method, path.replace("bmj_completed", "bmj_none"), **options)
                with loop_probe() as probe:
                    answer = await ask(method, path, **options)
                    again = await ask(method, path, **options)
                # What this test does next is part of the same callback.
                slow[name] = list(probe.slow)
                assert (answer[0], again[0]) == (200, 200), (name, answer[2][:500])
                view = parsed(answer)
                if name in ("view", "tag", "pin", "cancel"):
                    rows = [each["scenario_outcomes"] for each in view["benchmark_outcomes"]]
                    assert [len(each) for each in rows] == [MANY] * AGENTS
                if name == "tag":
                    assert view["tags"] == ["nightly"]

    asyncio.run(live())
    assert {name: each for name, each in slow.items() if each} == {}


def test_a_running_jobs_view_is_made_once_for_all_who_ask(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()

    async def live() -> None:
        async with serving(data, SOME) as (services, ask):
            # Its end is a moment ago, so its trials may still be ending.
            made = await services.engine.jobs.get("bmj_completed")
            records = services.engine.jobs.records
            from_now = {"end_time_ms": made.create_time_ms + 10**15}
            await records.change(made.id, lambda old: old.model_copy(update=from_now))
            calls: list[str] = []
            call = services.workers.call

            async def counted(function: str, *rest: Any, **options: Any) -> Any:
                calls.append(function.rpartition(":")[2])
                return await call(function, *rest, **options)

            services.workers.call = counted  # type: ignore[method-assign]
            path = "/v1/benchmark_jobs/bmj_completed"
            answers = await asyncio.gather(*(ask("GET", path) for _ in range(10)))
            assert len({answer[1]["etag"] for answer in answers}) == 1
            assert calls == ["make_job_view"]
            await asyncio.gather(*(ask("GET", f"{path}?scenarios=false") for _ in range(10)))
            assert calls == ["make_job_view", "make_short_view"]
            query = "/v1/compare?a=bmj_completed:0&b=bmj_completed:1"
            await asyncio.gather(*(ask("GET", query) for _ in range(10)))
            assert calls[2:] == ["make_comparison"]
            # A change of the job is seen at once.
            changed = parsed(await ask("POST", f"{path}/rename?scenarios=false", json={"name": "other"}))
            assert changed["name"] == "other"
            assert parsed(await ask("GET", f"{path}?scenarios=false"))["name"] == "other"

    asyncio.run(live())


def test_lists_have_tags_and_are_compressed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()

    async def live() -> None:
        async with serving(data, SOME) as (_, ask):
            for path in (
                "/v1/trials?limit=50",
                "/v1/benchmark_jobs",
                "/v1/gate?a=bmj_timeout:0&b=bmj_timeout:1",
            ):
                status, headers, raw = await ask("GET", path)
                assert (status, headers["content-encoding"]) == (200, "gzip")
                assert int(headers["content-length"]) == len(raw)
                assert "accept-encoding" in headers["vary"].lower()
                known = {"if-none-match": headers["etag"]}
                status, again, raw = await ask("GET", path, headers=known)
                assert (status, again["etag"], raw) == (304, headers["etag"], b"")
                plain = await ask("GET", path, headers={"accept-encoding": "gzip;q=0"})
                assert "content-encoding" not in plain[1]
                assert json.loads(plain[2])
            # An answer to a change has no tag, and a short one is sent as it is.
            told = await ask("POST", "/v1/benchmark_jobs/bmj_timeout/delete")
            assert "content-encoding" not in told[1]

    asyncio.run(live())
