"""Counts of the server's own work, and their text for Prometheus."""

import asyncio
import collections
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchyard.api.log import logger
from benchyard.engine.devboxes.states import ENDED
from benchyard.hosts.leaks import KINDS, Leak
from benchyard.hosts.requests import HostActivity
from benchyard.models.devboxes import Devbox, DevboxStatus

_S = DevboxStatus
_START_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_BEGINNINGS = {_S.PROVISIONING: "create", _S.RESUMING: "resume"}
_UNMATCHED = "(unmatched)"


class ServerMetrics:
    """Numbers for Prometheus: some are counted as events happen, the others computed on request."""

    def __init__(self) -> None:
        # The moments at which counts began would be families of their own in this format.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = self._counter(
            "benchyard_requests_total",
            "Requests answered, by method, route and status.",
            ("method", "route", "status"),
        )
        self.open_requests = Gauge("benchyard_requests_open", "Requests under way.", registry=self._registry)
        self.open_sockets = Gauge("benchyard_sockets_open", "Terminals attached.", registry=self._registry)
        self._ended = self._counter(
            "benchyard_devboxes_ended_total",
            "Devboxes that ended, by status and reason.",
            ("status", "reason"),
        )
        self._starts = Histogram(
            "benchyard_devbox_start_seconds",
            "Time from the request until the devbox runs.",
            ("kind",),
            registry=self._registry,
            buckets=_START_BOUNDS,
        )
        for kind in _BEGINNINGS.values():
            self._starts.labels(kind)

    def _counter(self, name: str, help: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, help, labels, registry=self._registry)

    def saw(self, devbox: Devbox) -> None:
        """Note that a devbox changed its status."""
        if devbox.status is _S.RUNNING:
            self._saw_start(devbox)
        elif devbox.status in ENDED:
            reason = devbox.failure_reason or devbox.shutdown_reason or "unknown"
            self._ended.labels(devbox.status, reason).inc()

    def _saw_start(self, devbox: Devbox) -> None:
        running = devbox.state_transitions[-1]
        for step in reversed(devbox.state_transitions):
            if step.status in _BEGINNINGS:
                seconds = max(0, running.transition_time_ms - step.transition_time_ms) / 1000
                self._starts.labels(_BEGINNINGS[step.status]).observe(seconds)
                return

    def page(self, computed: Iterable[Metric]) -> bytes:
        """Return all numbers as text: those that were counted, and these."""
        return generate_latest(_Families([*computed, *self._registry.collect()]))


class _Families(Collector):
    """Families that are there already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def host_families(
    live: Iterable[Devbox], activity: HostActivity, leaks: Mapping[str, int]
) -> Iterator[Metric]:
    """Yield the numbers of devboxes, executions and leaks."""
    counts = collections.Counter(devbox.status for devbox in live)
    yield _by_label(
        "benchyard_devboxes",
        "Devboxes that have not ended, by status.",
        "status",
        {status: counts[status] for status in _S if status not in ENDED},
    )
    yield GaugeMetricFamily("benchyard_executions_running", "Commands that run.", activity.running)
    yield GaugeMetricFamily(
        "benchyard_executions_queued", "Commands that wait for others in their named shells.", activity.queued
    )
    yield CounterMetricFamily("benchyard_executions_total", "Commands taken on.", activity.started)
    yield _by_label(
        "benchyard_leaks",
        "Leftovers of devboxes that do not run, by kind; `benchyard doctor --leaks` lists it.",
        "kind",
        leaks,
    )


def job_families(jobs: Mapping[str, int], trials: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the numbers of jobs and their trials, by state."""
    yield _by_label("benchyard_jobs", "Jobs, by state.", "state", jobs)
    yield _by_label("benchyard_trials", "Trials of jobs that are not over, by state.", "state", trials)


def _by_label(name: str, help: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, help, labels=(label,))
    for value, number in values.items():
        family.add_metric((value,), number)
    return family


class RequestCounts:
    """Counts every answered request; a request whose client left before gets the status `none`.

    A socket counts when it has ended, as the GET with which it began: 101 if it was accepted.
    """

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        status = "none"

        async def noted(message: Message) -> None:
            nonlocal status
            if status == "none":
                status = _status(message)
            await send(message)

        is_socket = scope["type"] == "websocket"
        open_ones = self._metrics.open_sockets if is_socket else self._metrics.open_requests
        open_ones.inc()
        try:
            await self._app(scope, receive, noted)
        finally:
            open_ones.dec()
            route = getattr(scope.get("route"), "path", _UNMATCHED)
            self._metrics.requests.labels(scope.get("method", "GET"), route, status).inc()


def _status(message: Message) -> str:
    kind = message["type"]
    if kind in ("http.response.start", "websocket.http.response.start"):
        return str(message["status"])
    # A close before the socket was accepted is sent as a refusal.
    return {"websocket.accept": "101", "websocket.close": "403"}.get(kind, "none")


LEAK_LOOK_SECONDS = 60.0


class LeakCounts:
    """Counts leaks, in a thread and at most once per `every` seconds: a search reads much of `/proc`."""

    def __init__(
        self,
        find: Callable[[], Sequence[Leak]],
        every: float = LEAK_LOOK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._every = every
        self._clock = clock
        self._counts: Mapping[str, int] | None = None
        self._looked_at = 0.0
        self._look: asyncio.Task[None] | None = None

    async def counts(self) -> Mapping[str, int]:
        """Return the leaks by kind at the last search; only the first search is waited for."""
        is_old = self._counts is None or self._clock() - self._looked_at >= self._every
        if is_old and (self._look is None or self._look.done()):
            self._look = asyncio.create_task(self._count())
        if self._counts is None and self._look is not None:
            await asyncio.shield(self._look)
        return self._counts or {}

    async def _count(self) -> None:
        began = self._clock()
        try:
            found = await asyncio.to_thread(self._find)
        except (OSError, ValueError) as error:
            # The machine changed during the search; the next one will find the leak if it persists.
            logger.warning("leaks could not be counted, will try again: %s", error)
            return
        counted = collections.Counter(leak.kind for leak in found)
        self._counts = {kind: counted[kind] for kind in KINDS}
        self._looked_at = began
