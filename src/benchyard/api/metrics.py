"""Counts of the server's own work, and their text for Prometheus."""

import asyncio
import os
import resource
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchyard.api.log import logger
from benchyard.engine.devboxes.states import ENDED
from benchyard.hosts.leaks import KINDS, Leak
from benchyard.hosts.requests import HostActivity
from benchyard.models.devboxes import Devbox, DevboxStatus

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True)
class MetricSample:
    """A number with its labels; `suffix` follows the name of its family."""

    value: float
    labels: Labels
    suffix: str = ""


@dataclass(frozen=True)
class MetricFamily:
    """Numbers that share a name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Iterable[MetricSample]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the family in the text format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for sample in self.samples:
            yield f"{self.name}{sample.suffix}{_labels(sample.labels)} {_number(sample.value)}"


def single_sample(value: float) -> tuple[MetricSample, ...]:
    """Return the samples of a family with a single number."""
    return (MetricSample(value, {}),)


class Histogram:
    """Counts of values by upper bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self, labels: Labels) -> Iterator[MetricSample]:
        """Yield the numbers of the histogram, with these labels."""
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            yield MetricSample(total, {**labels, "le": _number(bound)}, "_bucket")
        yield MetricSample(self._sum, labels, "_sum")
        yield MetricSample(total, labels, "_count")


def metrics_text(families: Iterable[MetricFamily]) -> str:
    """Return the page with all families."""
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


_S = DevboxStatus
_START_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_BEGINNINGS = {_S.PROVISIONING: "create", _S.RESUMING: "resume"}
_UNMATCHED = "(unmatched)"


class ServerMetrics:
    """Counts that must be taken as events happen; all other numbers are computed on request."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.open_requests = 0
        self.open_sockets = 0
        self._starts = {kind: Histogram(_START_BOUNDS) for kind in _BEGINNINGS.values()}
        self._ended: Counter[tuple[str, str]] = Counter()
        self._began = time.time()

    def saw(self, devbox: Devbox) -> None:
        """Note that a devbox changed its status."""
        if devbox.status is _S.RUNNING:
            self._saw_start(devbox)
        elif devbox.status in ENDED:
            reason = devbox.failure_reason or devbox.shutdown_reason or "unknown"
            self._ended[devbox.status, reason] += 1

    def _saw_start(self, devbox: Devbox) -> None:
        running = devbox.state_transitions[-1]
        for step in reversed(devbox.state_transitions):
            if step.status in _BEGINNINGS:
                seconds = max(0, running.transition_time_ms - step.transition_time_ms) / 1000
                self._starts[_BEGINNINGS[step.status]].observe(seconds)
                return

    def families(
        self, live: Iterable[Devbox], activity: HostActivity, leaks: Mapping[str, int]
    ) -> Iterator[MetricFamily]:
        """Yield all current numbers."""
        yield from self._of_devboxes(live)
        yield MetricFamily(
            "benchyard_executions_running", "gauge", "Commands that run.", single_sample(activity.running)
        )
        yield MetricFamily(
            "benchyard_executions_queued",
            "gauge",
            "Commands that wait for others in their named shells.",
            single_sample(activity.queued),
        )
        yield MetricFamily(
            "benchyard_executions_total", "counter", "Commands taken on.", single_sample(activity.started)
        )
        yield MetricFamily(
            "benchyard_leaks",
            "gauge",
            "Leftovers of devboxes that do not run, by kind; `benchyard doctor --leaks` lists it.",
            [MetricSample(count, {"kind": kind}) for kind, count in leaks.items()],
        )
        yield from self._of_requests()
        yield from _of_process(self._began)

    def _of_devboxes(self, live: Iterable[Devbox]) -> Iterator[MetricFamily]:
        counts = Counter(devbox.status for devbox in live)
        yield MetricFamily(
            "benchyard_devboxes",
            "gauge",
            "Devboxes that have not ended, by status.",
            [MetricSample(counts[status], {"status": status}) for status in _S if status not in ENDED],
        )
        yield MetricFamily(
            "benchyard_devboxes_ended_total",
            "counter",
            "Devboxes that ended, by status and reason.",
            [
                MetricSample(count, {"status": status, "reason": reason})
                for (status, reason), count in self._ended.items()
            ],
        )
        yield MetricFamily(
            "benchyard_devbox_start_seconds",
            "histogram",
            "Time from the request until the devbox runs.",
            [sample for kind, starts in self._starts.items() for sample in starts.samples({"kind": kind})],
        )

    def _of_requests(self) -> Iterator[MetricFamily]:
        yield MetricFamily(
            "benchyard_requests_total",
            "counter",
            "Requests answered, by method, route and status.",
            [
                MetricSample(count, {"method": method, "route": route, "status": status})
                for (method, route, status), count in self.requests.items()
            ],
        )
        yield MetricFamily(
            "benchyard_requests_open", "gauge", "Requests under way.", single_sample(self.open_requests)
        )
        yield MetricFamily(
            "benchyard_sockets_open", "gauge", "Terminals attached.", single_sample(self.open_sockets)
        )


def job_families(jobs: Mapping[str, int], trials: Mapping[str, int]) -> Iterator[MetricFamily]:
    """Yield the numbers of jobs and their trials, by state."""
    yield MetricFamily(
        "benchyard_jobs",
        "gauge",
        "Jobs, by state.",
        [MetricSample(count, {"state": state}) for state, count in jobs.items()],
    )
    yield MetricFamily(
        "benchyard_trials",
        "gauge",
        "Trials of jobs that are not over, by state.",
        [MetricSample(count, {"state": state}) for state, count in trials.items()],
    )


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
        self._change_open(1, is_socket=is_socket)
        try:
            await self._app(scope, receive, noted)
        finally:
            self._change_open(-1, is_socket=is_socket)
            route = getattr(scope.get("route"), "path", _UNMATCHED)
            self._metrics.requests[scope.get("method", "GET"), route, status] += 1

    def _change_open(self, by: int, *, is_socket: bool) -> None:
        if is_socket:
            self._metrics.open_sockets += by
        else:
            self._metrics.open_requests += by


def _status(message: Message) -> str:
    kind = message["type"]
    if kind in ("http.response.start", "websocket.http.response.start"):
        return str(message["status"])
    # A close before the socket was accepted is sent as a refusal.
    return {"websocket.accept": "101", "websocket.close": "403"}.get(kind, "none")


def _of_process(began: float) -> Iterator[MetricFamily]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    times = os.times()
    yield MetricFamily(
        "process_resident_memory_bytes",
        "gauge",
        "Memory of the server's process.",
        single_sample(pages * resource.getpagesize()),
    )
    yield MetricFamily(
        "process_open_fds",
        "gauge",
        "Open descriptors.",
        single_sample(sum(1 for _ in Path("/proc/self/fd").iterdir())),
    )
    yield MetricFamily(
        "process_max_fds",
        "gauge",
        "Limit on open descriptors.",
        single_sample(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )
    yield MetricFamily(
        "process_cpu_seconds_total", "counter", "CPU time.", single_sample(times.user + times.system)
    )
    yield MetricFamily(
        "process_start_time_seconds", "gauge", "When the server started.", single_sample(began)
    )


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
            leaks = await asyncio.to_thread(self._find)
        except (OSError, ValueError) as error:
            # The machine changed during the search; the next one will find the leak if it persists.
            logger.warning("leaks could not be counted, will try again: %s", error)
            return
        counted = Counter(leak.kind for leak in leaks)
        self._counts = {kind: counted[kind] for kind in KINDS}
        self._looked_at = began
