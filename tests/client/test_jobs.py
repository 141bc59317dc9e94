"""Jobs by the client, against a server that answers from a script."""

import asyncio
import json
from typing import Any

import pytest

from benchyard import Benchyard
from benchyard.client import AsyncClient
from benchyard.client.event_streams import EventParser
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, Send, Steps
from benchyard.errors import BenchyardError, NotFound, ServerUnreachable, StillWaiting
from benchyard.models.jobs import AgentConfig, JobEvent, JobRequest, ScenariosSpec
from tests.client.stub import Answer, Asked, error, in_turn, stub, talking

PATH = "/v1/benchmark_jobs"


def job(state: str = "completed", **fields: Any) -> dict[str, Any]:
    """A job as the wire shows it."""
    return {
        "id": "bmj_1",
        "name": "test",
        "state": state,
        "create_time_ms": 1_700_000_000_000,
        "job_source": {"type": "scenarios", "scenario_ids": ["scn_1"]},
        "job_spec": {"agent_configs": [{"name": "nop"}], "scenario_ids": ["scn_1"]},
        **fields,
    }


def trial(id: str = "trl_1") -> dict[str, Any]:
    """A trial as the wire shows it."""
    return {
        "id": id,
        "job_id": "bmj_1",
        "agent": 0,
        "scenario_id": "scn_1",
        "scenario_name": "one",
        "attempt": 1,
        "retry": 0,
        "state": "completed",
        "is_superseded": False,
        "create_time_ms": 1,
        "stages": [],
        "usage": {},
    }


def frame(seq: int, state: str | None = None) -> bytes:
    """An event as the stream has it."""
    event = {"seq": seq, "time_ms": 1, "type": "job" if state else "trial", "state": state}
    return f"id: {seq}\ndata: {json.dumps(event)}\n\n".encode()


def test_verbs_ask_for_what_they_say() -> None:
    with talking(lambda asked: Answer(job())) as (client, server):
        agent = AgentConfig(name="nop")
        spec = ScenariosSpec(type="scenarios", scenario_ids=["scn_1"], agent_configs=[agent])
        assert client.jobs.create(JobRequest(spec=spec)).id == "bmj_1"
        client.jobs.create({"spec": spec, "name": None})
        client.jobs.cancel("bmj_1")
        client.jobs.resume("bmj_1")
        client.jobs.retry("bmj_1", only="failed")
        client.jobs.rescore("bmj_1", ["trl_1"])
        client.jobs.rescore("bmj_1")
        asked = [(each.method, each.path.removeprefix(PATH)) for each in server.asked]
        verbs = ["", "", "/cancel", "/resume", "/retry", "/rescore", "/rescore"]
        assert asked == [("POST", f"/bmj_1{verb}" if verb else "") for verb in verbs]
        bodies = [json.loads(each.body or b"null") for each in server.asked]
        assert bodies[0]["spec"]["agent_configs"] == [{"type": "job_agent", "name": "nop"}]
        assert bodies[0] == bodies[1]
        assert bodies[2:4] == [None, None]
        assert bodies[4:] == [{"only": "failed"}, {"trial_ids": ["trl_1"], "times": 1}, {"times": 1}]


def test_reports_are_waited_for_as_long_as_they_may_take() -> None:
    """A worker may compute for minutes; the usual time for an answer is one."""
    asked: list[Request] = []

    def first_request(steps: Steps[Any]) -> None:
        action = next(steps)
        assert isinstance(action, Send)
        asked.append(action.request)

    with talking(lambda _: Answer({})) as (client, _):
        jobs = client.jobs
        for steps in (
            jobs.report.steps("bmj_1"),
            jobs.table.steps("bmj_1"),
            jobs.compare.steps("bmj_1", "bmj_2"),
            jobs.gate.steps("bmj_1", "bmj_2"),
            jobs.problems.steps("bmj_1"),
            jobs.problems_of.steps("bench"),
            jobs.get.steps("bmj_1"),
            client.benchmarks.trends.steps("bmd_1"),
            client.benchmarks.insights.steps("bmd_1"),
            client.scenarios.history.steps("scn_1"),
        ):
            first_request(steps)
    assert {each.timeout for each in asked} == {TRANSFER_TIMEOUT}


def test_changes_are_answered_without_scenarios() -> None:
    with talking(lambda asked: Answer(job())) as (client, server):
        client.jobs.rename("bmj_1", "other")
        client.jobs.annotate("bmj_1", add_tags=["a"], note="b")
        client.jobs.pin("bmj_1")
        assert [each.query for each in server.asked] == [{"scenarios": "false"}] * 3
        assert json.loads(server.asked[1].body) == {"add_tags": ["a"], "remove_tags": [], "note": "b"}


def test_trials_of_all_pages() -> None:
    pages = in_turn(
        Answer({"trials": [trial("trl_1"), trial("trl_2")], "has_more": True}),
        Answer({"trials": [trial("trl_3")], "has_more": False}),
    )
    with talking(pages) as (client, server):
        found = list(client.jobs.trials("bmj_1", status="completed", agent=0))
        assert [each.id for each in found] == ["trl_1", "trl_2", "trl_3"]
        assert [each.query.get("starting_after") for each in server.asked] == [None, "trl_2"]
        assert {each.query["agent"] for each in server.asked} == {"0"}


class Restarting:
    """A server whose stream is cut, then ends too early, then tells the rest."""

    def __init__(self) -> None:
        self.streams = [
            Answer(frame(1, "running") + b": alive\n\n" + frame(2) + frame(3)[:9], cut=True),
            Answer(frame(3)),
            Answer(frame(3) + frame(4, "completed")),
        ]
        self.looks = ["running", "completed"]

    def __call__(self, asked: Asked) -> Answer:
        if asked.path.endswith("/events"):
            return self.streams.pop(0)
        return Answer(job(self.looks.pop(0)))


def test_events_go_on_after_the_last_one_and_come_once() -> None:
    heard: list[bool] = []
    with talking(Restarting()) as (client, server):
        events = list(client.jobs.events("bmj_1", told=heard.append))
        assert [event.seq for event in events] == [1, 2, 3, 4]
        streams = [each for each in server.asked if each.path.endswith("/events")]
        assert [each.query["after"] for each in streams] == ["0", "2", "3"]
        looks = [each for each in server.asked if not each.path.endswith("/events")]
        assert {each.query.get("scenarios") for each in looks} == {"false"}
        assert heard == [False, True]


def test_events_are_awaited_too() -> None:
    async def followed() -> list[int]:
        async with AsyncClient(server.server) as client:
            return [event.seq async for event in client.jobs.events("bmj_1", after=0)]

    with stub(Restarting()) as server:
        assert asyncio.run(followed()) == [1, 2, 3, 4]


def test_a_job_that_ended_long_ago_has_no_more_events() -> None:
    def script(asked: Asked) -> Answer:
        return Answer(b": nothing\n\n") if asked.path.endswith("/events") else Answer(job("cancelled"))

    with talking(script) as (client, _):
        assert list(client.jobs.events("bmj_1", after=9)) == []


def test_events_of_no_job_and_of_a_server_that_stays_away(unused_url: str) -> None:
    with talking(lambda asked: error(404, "not_found")) as (client, _), pytest.raises(NotFound):
        list(client.jobs.events("bmj_1"))
    with Benchyard(unused_url, "key") as yard, pytest.raises(ServerUnreachable, match="was away"):
        list(yard.job.from_id("bmj_1").events(patience=0.01))


def test_invalid_event_is_refused() -> None:
    parser = EventParser(JobEvent, "an event of a job", largest=100)
    with pytest.raises(BenchyardError, match="not an event"):
        list(parser.feed(b"data: {}\n\n"))
    with pytest.raises(NotFound, match="gone"):
        list(parser.feed(b'event: error\ndata: {"code": "not_found", "message": "gone"}\n\n'))
    assert list(parser.feed(b": comment\n\n\n\n")) == []
    with pytest.raises(BenchyardError, match="without end"):
        list(parser.feed(b"data: " + b"x" * 100))


def test_wait_returns_the_end_or_raises_at_its_timeout() -> None:
    with talking(in_turn(Answer(job("queued")), Answer(job("running")), Answer(job("timeout")))) as (
        client,
        server,
    ):
        assert client.jobs.wait("bmj_1", 60).state == "timeout"
        # Looks leave the scenarios out, of which a large job has many; the result has them.
        assert [each.query for each in server.asked] == [{"scenarios": "false"}] * 3 + [{}]
    with (
        talking(lambda asked: Answer(job("running"))) as (client, _),
        pytest.raises(StillWaiting, match="running"),
    ):
        client.jobs.wait("bmj_1", 0.05)


def test_jobs_as_objects() -> None:
    def script(asked: Asked) -> Answer:
        if asked.path.endswith("/trials"):
            return Answer({"trials": [trial()], "has_more": False})
        return Answer(
            {"jobs": [job()], "has_more": False} if asked.method == "GET" and asked.path == PATH else job()
        )

    with stub(script) as server, Benchyard(server.url, "key") as yard:
        made = yard.job.create(spec={"type": "benchmark", "benchmark_id": "quickstart", "agent_configs": []})
        assert repr(made) == "<Job bmj_1>"
        assert made.wait().state == made.get_info().state == "completed"
        assert [each.id for each in made.trials()] == ["trl_1"]
        assert made.outcomes() == []
        assert [each.id for each in yard.job.list(status="completed,failed")] == ["bmj_1"]
        assert server.asked[-1].query["status"] == "completed,failed"
        for verb in (made.cancel, made.resume, made.retry, made.rescore):
            assert verb().id == "bmj_1"


def test_a_job_from_its_beginning_to_its_end(yard: Benchyard) -> None:
    agents = [{"name": "oracle"}, {"name": "nop"}]
    spec = {
        "type": "benchmark",
        "benchmark_id": "quickstart",
        "agent_configs": agents,
        "selection": {"limit": 1},
    }
    made = yard.job.create(spec=spec, name="by the SDK", metadata={"a": "b"})
    events = list(made.events())
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert events[-1].state == "completed"
    view = made.wait(timeout=60)
    assert (view.name, view.metadata, view.n_trials) == ("by the SDK", {"a": "b"}, 2)
    assert [each.mean_score for each in made.outcomes()] == [1.0, 0.0]
    assert sorted(each.agent for each in made.trials()) == [0, 1]
    assert made.id in [each.id for each in yard.job.list(name="by the SDK")]
    assert yard.api.jobs.artifacts(made.id).has_more is False
    assert list(made.events(after=events[-1].seq)) == []
