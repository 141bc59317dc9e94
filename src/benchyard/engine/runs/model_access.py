"""Access of runs to models: open, meter, end; usage and trajectory are stored with the run."""

import asyncio
import hmac
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from benchyard.agents.base import ModelChoice
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.descriptors import read_pieces
from benchyard.engine.devboxes.secrets import note_given_values, scrubber_of
from benchyard.engine.devboxes.states import BOOTING
from benchyard.engine.network.egress import require_gateway
from benchyard.engine.network.gateway_access import Grants, url_of
from benchyard.engine.network.model_routes import ModelKeys, ModelRoute
from benchyard.engine.redaction import Scrubber
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.engine.trajectories.traces import Traces
from benchyard.errors import BenchyardError, Conflict, NotFound, StillWaiting, Unauthorized
from benchyard.gateway.grants import Grant, GrantBudget, GrantUsage
from benchyard.gateway.trajectory.builder import TrajectoryOwner
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.jobs import TRIAL_KEY
from benchyard.models.launch import KEEP_ALIVE_MAX_SECONDS
from benchyard.models.model_access import Budget as AskedBudget
from benchyard.models.model_access import RunGateway, RunGatewayRequest, RunRoute
from benchyard.models.runs import ENDED_RUNS, RunState, ScenarioRun, TraceKind
from benchyard.store.collection import Collection
from benchyard.workers.workers import WorkerLimits, Workers

CALLS_NAME = "calls.db"
"""Trace with every call as it was."""
TRAJECTORY_NAME = "trajectory.json"
_NAMES = (CALLS_NAME, TRAJECTORY_NAME)
MOST_RECORD_BYTES = 512 * 1024**2
_TRAJECTORY = "benchyard.engine.trajectories.call_traces:make_trajectory"
_CALLS = "benchyard.engine.trajectories.call_traces:make_shown_calls"
_LIMITS = WorkerLimits(seconds=300, memory_bytes=4 * 1024**3, output_bytes=2 * MOST_RECORD_BYTES)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrajectoryContext:
    """Inputs for the trajectory of a grant's calls."""

    about: TrajectoryOwner
    clean: Scrubber
    """Removes secrets."""
    trailing: Mapping[str, str] | None = None
    """Results of tools that no call contains any more."""
    number: int = 1
    """Number of the traces: a grant that is reopened has all its calls in traces with the next number."""


@dataclass(frozen=True)
class ModelSpending:
    """Ends the access of runs to models."""

    grants: Grants
    runs: Collection[ScenarioRun]
    traces: Traces
    workers: Workers

    async def settle(self, run_id: str, grant_id: str, trajectory: TrajectoryContext) -> GrantUsage:
        """End a grant, and store usage and traces with its run; a second call changes nothing."""
        spent = await self.grants.close(grant_id)
        usage = usage_of(spent)

        def noted(run: ScenarioRun) -> ScenarioRun:
            return run.model_copy(update={"usage": usage})

        await retry_store(self.runs.change, run_id, noted)
        try:
            await self._keep(run_id, grant_id, trajectory)
        except (BenchyardError, OSError) as error:
            _log.warning("scenario run %s: its model calls are not kept: %s", run_id, error)
        return spent

    def next_number(self, run: ScenarioRun, after: int) -> int:
        """Return the next number under which the run has no foreign traces."""
        number = after + 1
        while not all(self.traces.is_free(run, numbered_name(name, number)) for name in _NAMES):
            number += 1
        return number

    async def _keep(self, run_id: str, grant_id: str, trajectory: TrajectoryContext) -> None:
        record = self.grants.records.file(grant_id)
        if not record.is_file():
            return
        given = {"file": str(record), "secrets": trajectory.clean.values}
        about = {"about": asdict(trajectory.about), "trailing": trajectory.trailing}
        name = numbered_name(TRAJECTORY_NAME, trajectory.number)
        if not await self._keep_trace(run_id, name, _TRAJECTORY, {**given, **about}, "atif"):
            return
        if record.stat().st_size <= MOST_RECORD_BYTES:
            await self._keep_trace(
                run_id, numbered_name(CALLS_NAME, trajectory.number), _CALLS, given, "file"
            )

    async def _keep_trace(
        self, run_id: str, name: str, function: str, given: Mapping[str, Any], kind: TraceKind
    ) -> bool:
        """Store a trace that a worker makes from a grant's calls; returns False if it is empty."""
        descriptor = await self.workers.make_file(function, b"", given, _LIMITS)
        try:
            size = os.fstat(descriptor).st_size
            if size:
                await self.traces.keep(run_id, name, read_pieces(descriptor, name, size), kind)
            return bool(size)
        finally:
            os.close(descriptor)


def numbered_name(name: str, number: int) -> str:
    """Return a trace's name with its number, if that is not 1."""
    stem, dot, suffix = name.rpartition(".")
    return name if number == 1 else f"{stem}-{number}{dot}{suffix}"


def gateway_budget(budget: AskedBudget | None) -> GrantBudget:
    """Return a budget in the gateway's form; None becomes a budget without limits."""
    return GrantBudget(budget.requests, budget.tokens, budget.usd) if budget else GrantBudget()


def usage_of(spent: GrantUsage) -> dict[str, float]:
    """Return usage as it is stored with runs and trials; an unknown cost is left out."""
    used = spent.usage
    figures: dict[str, float] = {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cached_tokens": used.cached_tokens,
        "reasoning_tokens": used.reasoning_tokens,
        "model_calls": spent.calls,
        "requests": spent.requests,
    }
    if spent.rate_limited_ms:
        figures["rate_limited_ms"] = spent.rate_limited_ms
    if spent.cost_usd is not None:
        figures["cost_usd"] = spent.cost_usd
    return figures


TOKEN_PREFIX = "gws_"  # noqa: S105  (prefix of tokens)
AGENT_NAME = "interactive"
"""Name of the agent in trajectories of interactive runs."""
_PREFIX = "run-"


@dataclass(frozen=True)
class RunModelAccess:
    """Address, token and model for a user's own code."""

    url: str
    token: str
    choice: ModelChoice


class RunGateways:
    """Opens and closes runs' access to models; each run has one grant, which outlives the server."""

    def __init__(
        self, tools: EngineContext, spending: ModelSpending, keys: ModelKeys, scenarios: Scenarios
    ) -> None:
        self._tools = tools
        self.spending = spending
        self._grants = spending.grants
        self._runs = spending.runs
        self.keys = keys
        self._scenarios = scenarios
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self, run_id: str, request: RunGatewayRequest) -> RunModelAccess:
        """Let the code of a run call a provider; a second provider is added, a repeated one changes nothing.

        Raises UsageError for an unknown provider or a missing key, Conflict if the run is over.
        """
        choice = self.keys.choice(request.model, request.provider)
        route = await self.keys.own_route(choice, request.secret)
        async with self._lock(run_id):
            run = await self._runs.get(run_id)
            _require_open(run)
            devbox = await self._running(run.devbox_id)
            require_gateway(self._tools, devbox)
            # Recorded before the token is used, so that it is removed from all stored output.
            await note_given_values(self._tools, devbox, [self._token(run_id)])
            # Recorded before the opening, so that every open grant is known and closed in the end.
            run = await self._runs.change(run_id, partial(_run_with_route, route, request))
            await self._let_in(run)
        return RunModelAccess(url_of(run.devbox_id, choice.provider), self._token(run_id), choice)

    async def settle(self, run: ScenarioRun) -> ScenarioRun:
        """Close the model access of a run that is being scored or is over, and store its usage and traces.

        Returns the run as it is then. A second call changes nothing.
        """
        if run.gateway is None:
            return run
        async with self._lock(run.id):
            run = await retry_store(self._runs.get, run.id)
            if run.gateway is not None and run.gateway.is_open:
                run = await self._close(run, run.gateway)
                await self._answer(run.devbox_id)
            if run.state in ENDED_RUNS:
                await self._grants.forget(grant_id_of(run.id))
        return run

    async def end(self, run: ScenarioRun) -> ScenarioRun:
        """Settle a run that is over; a failure is left to the next server."""
        try:
            return await self.settle(run)
        except BenchyardError as error:
            _log.warning("scenario run %s: its access to models could not be closed: %s", run.id, error)
            return run

    async def take_up(self, unfinished: Iterable[ScenarioRun]) -> None:
        """Reopen the grants of unfinished runs after a start, and close those of runs that are over."""
        for run in unfinished:
            if run.gateway is None or not run.gateway.is_open or run.state is RunState.SCORING:
                continue
            try:
                devbox = await self._tools.live_devboxes.get(run.devbox_id)
                if devbox.status is DevboxStatus.RUNNING:
                    await self._let_in(run)
            except BenchyardError as error:
                _log.warning("scenario run %s: its access to models is not open again: %s", run.id, error)
        for grant_id in self._grants.recorded_grants(_PREFIX):
            left = await self._runs.find(grant_id.removeprefix(_PREFIX))
            if left is not None and left.state in ENDED_RUNS:
                await self.end(left)

    async def connect(self, run_id: str, token: str | None) -> int:
        """Connect to the gateway for code outside of the devbox; returns a descriptor that the caller closes.

        Raises Unauthorized without the run's token, Conflict if its access is not open.
        """
        if token is None or not hmac.compare_digest(token.encode(), self._token(run_id).encode()):
            raise Unauthorized(
                "this token gives no access to models of this run; open_gateway returns the one that does"
            )
        run = await self._runs.get(run_id)
        if run.gateway is None or not run.gateway.is_open:
            raise Conflict(f"scenario run {run_id} has no access to models now; open_gateway gives it")
        return await self._grants.connect(run.devbox_id)

    async def _let_in(self, run: ScenarioRun) -> None:
        access = run.gateway or RunGateway()
        upstreams = {
            provider: await self.keys.upstream(ModelRoute(provider, "", route.variable, route.secret))
            for provider, route in access.routes.items()
        }
        grant = Grant(
            id=grant_id_of(run.id),
            token=self._token(run.id),
            devbox_id=run.devbox_id,
            upstreams=upstreams,
            expires_ms=now_ms() + KEEP_ALIVE_MAX_SECONDS * 1000,
            budget=gateway_budget(access.budget),
            logprobs=access.logprobs,
        )
        await self._grants.open(grant)

    async def _close(self, run: ScenarioRun, access: RunGateway) -> ScenarioRun:
        scenario = await retry_store(self._scenarios.at, run.scenario_id, run.scenario_revision)
        models = sorted({route.model for route in access.routes.values() if route.model})
        about = TrajectoryOwner(
            name=AGENT_NAME,
            model=models[0] if len(models) == 1 else None,
            session_id=run.id,
            prompt=scenario.input_context.problem_statement,
            extra={"scenario_run_id": run.id, "scenario": scenario.name},
        )
        number = self.spending.next_number(run, access.kept)
        try:
            secrets = [route.secret for route in access.routes.values() if route.secret]
            scrubber = await scrubber_of(self._tools, run.devbox_id, secrets)
            trajectory = TrajectoryContext(about, scrubber, number=number)
            await self.spending.settle(run.id, grant_id_of(run.id), trajectory)
        except NotFound:
            # The grant was never used, and the gateway that knew it is gone.
            _log.info("scenario run %s asked no models", run.id)
        return await retry_store(self._runs.change, run.id, partial(_run_with_closed_gateway, number))

    async def _answer(self, devbox_id: str) -> None:
        """Answer calls from a devbox that still runs, so that they learn that the token has ended."""
        try:
            if (await self._tools.live_devboxes.get(devbox_id)).status is DevboxStatus.RUNNING:
                await self._grants.answer(devbox_id)
        except BenchyardError as error:
            _log.info("devbox %s is not told that its token has ended: %s", devbox_id, error)

    async def _running(self, devbox_id: str) -> Devbox:
        devbox = await self._tools.live_devboxes.get(devbox_id)
        if devbox.status in BOOTING:
            raise StillWaiting(f"devbox {devbox_id} is still {devbox.status}; wait until it is running")
        if devbox.status is not DevboxStatus.RUNNING:
            raise Conflict(f"devbox {devbox_id} is {devbox.status}; models are asked while it runs")
        return devbox

    def _lock(self, run_id: str) -> asyncio.Lock:
        return self._locks.setdefault(run_id, asyncio.Lock())

    def _token(self, run_id: str) -> str:
        return TOKEN_PREFIX + self._tools.vault.derive("run-gateways", run_id).hex()


def grant_id_of(run_id: str) -> str:
    """Return the id of a run's grant, under which the gateway stores its calls."""
    return _PREFIX + run_id


def _require_open(run: ScenarioRun) -> None:
    if TRIAL_KEY in run.metadata:
        raise Conflict(f"scenario run {run.id} belongs to a job, whose agent has its own access to models")
    if run.state in ENDED_RUNS:
        raise Conflict(f"scenario run {run.id} is {run.state}; start another")
    if run.state is RunState.SCORING:
        raise Conflict(f"scenario run {run.id} is being scored; wait until it is scored")


def _run_with_route(route: ModelRoute, request: RunGatewayRequest, run: ScenarioRun) -> ScenarioRun:
    _require_open(run)
    known = run.gateway or RunGateway()
    added = RunRoute(model=route.model or None, variable=route.variable, secret=route.secret)
    update = {
        "routes": {**known.routes, route.provider: added},
        "budget": request.budget or known.budget,
        "logprobs": request.logprobs or known.logprobs,
        "is_open": True,
    }
    return run.model_copy(update={"gateway": known.model_copy(update=update)})


def _run_with_closed_gateway(number: int, run: ScenarioRun) -> ScenarioRun:
    if run.gateway is None:
        return run
    closed = run.gateway.model_copy(update={"is_open": False, "kept": number})
    return run.model_copy(update={"gateway": closed})
