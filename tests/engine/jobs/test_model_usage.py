"""The bell at the end of an agent's time, with stand-ins for its devbox and the gateway."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from benchyard.engine.clock import now_ms
from benchyard.engine.jobs.model_access import budget_spent
from benchyard.engine.jobs.model_usage import agent_deadline
from benchyard.engine.jobs.trial_context import TrialContext
from benchyard.errors import BenchyardError, Conflict, StillWaiting
from benchyard.gateway.grants import GrantUsage
from benchyard.hosts.host import ExecutionState
from benchyard.models.model_access import Budget
from benchyard.models.trials import Trial
from tests.gateway.station import live


class Stage:
    """A trial whose agent works, and what its provider let it wait."""

    def __init__(self, *, waited_seconds: float = 0.0, failure: BenchyardError | None = None) -> None:
        self.waited_seconds = waited_seconds
        self.failure = failure
        self.killed = asyncio.Event()
        self.looks = asyncio.Semaphore(0)
        self.refusal: BenchyardError | None = None

    async def spent(self, _grant_id: str) -> GrantUsage:
        self.looks.release()
        if self.failure is not None:
            raise self.failure
        return GrantUsage(rate_limited_ms=round(self.waited_seconds * 1000))

    async def control(self, *_given: Any) -> bool:
        self.killed.set()
        if self.refusal is not None:
            raise self.refusal
        return True

    def context(self) -> TrialContext:
        services = {"tools": SimpleNamespace(host=self), "access": SimpleNamespace(grants=self)}
        inputs = SimpleNamespace(route="a route")
        trial, devbox = SimpleNamespace(id="trl_1"), SimpleNamespace(id="dbx_1")
        round = {"in_round": str, "is_shared": True, "waited_ms": 0.0}
        return cast(
            "TrialContext",
            SimpleNamespace(inputs=inputs, trial=trial, the_devbox=devbox, **services, **round),
        )


def agent(ran_seconds: float = 0.0, **changes: Any) -> ExecutionState:
    start = now_ms() - round(ran_seconds * 1000)
    given = {"id": "agent", "devbox_id": "dbx_1", "command": "", "status": "running", "start_ms": start}
    return ExecutionState(**{**given, **changes})


@live
async def test_an_agent_is_ended_when_its_time_is_over() -> None:
    stage = Stage()
    async with agent_deadline(stage.context(), 0.01, agent()) as deadline:
        await stage.killed.wait()
    assert deadline.rang


@live
async def test_an_agent_has_so_much_longer_as_it_waited_and_no_more() -> None:
    stage = Stage(waited_seconds=0.3)
    async with agent_deadline(stage.context(), 0.01, agent()) as deadline:
        await stage.looks.acquire()
        assert not deadline.rang
        await stage.killed.wait()
    stage = Stage(waited_seconds=1000)
    async with agent_deadline(stage.context(), 0.01, agent()) as deadline:
        await stage.looks.acquire()
    assert not deadline.rang


@live
async def test_an_agent_of_an_earlier_server_has_what_is_left_of_its_time() -> None:
    """Not its whole time once more: what it waited for is all that is added."""
    stage = Stage(waited_seconds=200)
    async with agent_deadline(stage.context(), 1000, agent(ran_seconds=1201)) as deadline:
        await stage.killed.wait()
    assert deadline.rang
    stage = Stage(waited_seconds=700)
    async with agent_deadline(stage.context(), 1000, agent(ran_seconds=1201)) as deadline:
        await stage.looks.acquire()
    assert not deadline.rang


@live
async def test_an_agent_is_ended_in_time_where_the_gateway_does_not_answer() -> None:
    stage = Stage(failure=StillWaiting("the gateway does not start"))
    async with agent_deadline(stage.context(), 0.01, agent()) as deadline:
        await stage.killed.wait()
    assert deadline.rang


@live
async def test_failing_kill_at_the_deadline_is_ignored() -> None:
    stage = Stage()
    stage.refusal = Conflict("it has ended")
    async with agent_deadline(stage.context(), 0.01, agent()) as deadline:
        await stage.killed.wait()
    assert deadline.rang


@live
async def test_an_agent_that_an_earlier_server_ended_had_no_more_time() -> None:
    """That server was killed before it could note why."""
    over = {"status": "completed", "signal": 9, "exit_status": 137}
    for ran, waited, rang in [(1201, 200, True), (1201, 300, False), (999, 0, False)]:
        state = agent(ran_seconds=ran, **over, end_ms=now_ms())
        async with agent_deadline(Stage(waited_seconds=waited).context(), 1000, state) as deadline:
            assert deadline.rang is rang


def test_budget_of_a_job_is_reduced_by_earlier_trials() -> None:
    used = {"model_calls": 2, "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}
    trials = [a_trial(used), a_trial({}), a_trial(used)]
    assert budget_spent(trials) == Budget(requests=4, tokens=30, usd=1.0)
    unknown = {key: value for key, value in used.items() if key != "cost_usd"}
    assert budget_spent([*trials, a_trial(unknown)]) == Budget(requests=6, tokens=45, usd=None)
    assert budget_spent([]) == Budget(requests=0, tokens=0, usd=0)


def a_trial(usage: dict[str, float]) -> Trial:
    return cast("Trial", SimpleNamespace(usage=usage))
