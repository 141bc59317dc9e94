"""What the server counts of its own work, for whoever watches it."""

import os
import resource
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchyard.api.exposition import Family, Histogram, Sample, single
from benchyard.engine.devboxes.states import ENDED
from benchyard.hosts.requests import HostActivity
from benchyard.models.devboxes import Devbox, DevboxStatus

_S = DevboxStatus
_START_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_BEGINNINGS = {_S.PROVISIONING: "create", _S.RESUMING: "resume"}
_UNMATCHED = "(unmatched)"


class Metrics:
    """Everything that has to be counted while it happens; the rest is looked at when somebody asks."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.open_requests = 0
        self.open_sockets = 0
        self._starts = {kind: Histogram(_START_BOUNDS) for kind in _BEGINNINGS.values()}
        self._ended: Counter[tuple[str, str]] = Counter()
        self._began = time.time()

    def saw(self, devbox: Devbox) -> None:
        """Note that a devbox came into another status."""
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
    ) -> Iterator[Family]:
        """All numbers as they are now."""
        yield from self._of_devboxes(live)
        yield Family("benchyard_executions_running", "gauge", "Commands that run.", single(activity.running))
        yield Family(
            "benchyard_executions_queued",
            "gauge",
            "Commands behind others in their named shells.",
            single(activity.queued),
        )
        yield Family("benchyard_executions_total", "counter", "Commands taken on.", single(activity.started))
        yield Family(
            "benchyard_leaks",
            "gauge",
            "What is left of devboxes that do not run, by kind; `benchyard doctor --leaks` lists it.",
            [Sample(count, {"kind": kind}) for kind, count in leaks.items()],
        )
        yield from self._of_requests()
        yield from _of_process(self._began)

    def _of_devboxes(self, live: Iterable[Devbox]) -> Iterator[Family]:
        counts = Counter(devbox.status for devbox in live)
        yield Family(
            "benchyard_devboxes",
            "gauge",
            "Devboxes that have not ended, by status.",
            [Sample(counts[status], {"status": status}) for status in _S if status not in ENDED],
        )
        yield Family(
            "benchyard_devboxes_ended_total",
            "counter",
            "Devboxes that ended, by status and reason.",
            [
                Sample(count, {"status": status, "reason": reason})
                for (status, reason), count in self._ended.items()
            ],
        )
        yield Family(
            "benchyard_devbox_start_seconds",
            "histogram",
            "Time from the request until the devbox runs.",
            [each for kind, starts in self._starts.items() for each in starts.samples({"kind": kind})],
        )

    def _of_requests(self) -> Iterator[Family]:
        yield Family(
            "benchyard_requests_total",
            "counter",
            "Requests answered, by method, route and status.",
            [
                Sample(count, {"method": method, "route": route, "status": status})
                for (method, route, status), count in self.requests.items()
            ],
        )
        yield Family("benchyard_requests_open", "gauge", "Requests under way.", single(self.open_requests))
        yield Family("benchyard_sockets_open", "gauge", "Terminals attached.", single(self.open_sockets))


def of_jobs(jobs: Mapping[str, int], trials: Mapping[str, int]) -> Iterator[Family]:
    """The numbers of jobs and their trials, by state."""
    yield Family(
        "benchyard_jobs",
        "gauge",
        "Jobs, by state.",
        [Sample(count, {"state": state}) for state, count in jobs.items()],
    )
    yield Family(
        "benchyard_trials",
        "gauge",
        "Trials of jobs that are not over, by state.",
        [Sample(count, {"state": state}) for state, count in trials.items()],
    )


class RequestCounts:
    """Counts every request once it has its answer; one whose client left without gets the status `none`.

    A socket counts when it has ended, as the GET that it began with: 101 where it was let in.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
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
    # A close that comes before the socket was let in goes out as a refusal.
    return {"websocket.accept": "101", "websocket.close": "403"}.get(kind, "none")


def _of_process(began: float) -> Iterator[Family]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    times = os.times()
    yield Family(
        "process_resident_memory_bytes",
        "gauge",
        "Memory of the server's process.",
        single(pages * resource.getpagesize()),
    )
    yield Family(
        "process_open_fds",
        "gauge",
        "Open descriptors.",
        single(sum(1 for _ in Path("/proc/self/fd").iterdir())),
    )
    yield Family(
        "process_max_fds",
        "gauge",
        "Limit on open descriptors.",
        single(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )
    yield Family("process_cpu_seconds_total", "counter", "CPU time.", single(times.user + times.system))
    yield Family("process_start_time_seconds", "gauge", "When the server started.", single(began))
