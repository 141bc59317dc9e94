"""Background tasks: at most one per key at a time, none of them lost."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec, TypeVar

from benchyard.errors import BenchyardError, StoreError

GRACE_SECONDS = 10
_FIRST_DELAY_SECONDS = 0.1
_LONGEST_DELAY_SECONDS = 2.0

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

BackgroundTask = Callable[[], Coroutine[Any, Any, None]]


# The keys of tasks that more than one place starts, waits for or cancels.


def devbox_key(devbox_id: str) -> str:
    """Return the key of work on a devbox itself."""
    return f"devbox/{devbox_id}"


def snapshot_key_prefix(devbox_id: str) -> str:
    """Return the prefix of the keys of work on a devbox's snapshots."""
    return f"snapshot/{devbox_id}/"


def blueprint_key(blueprint_id: str) -> str:
    """Return the key of a blueprint's build."""
    return f"blueprint/{blueprint_id}"


def plan_key(job_id: str) -> str:
    """Return the key of a job's planning."""
    return f"job/{job_id}/plan"


def trial_key(trial_id: str) -> str:
    """Return the key of a trial."""
    return f"trial/{trial_id}"


def run_key_prefix(run_id: str) -> str:
    """Return the prefix of the keys of all work on a scenario run."""
    return f"run/{run_id}/"


def scoring_key(run_id: str) -> str:
    """Return the key of the scoring of a scenario run."""
    return run_key_prefix(run_id) + "scoring"


def benchmark_run_key(run_id: str) -> str:
    """Return the key of the end of a benchmark run."""
    return f"benchmark-run/{run_id}/end"


def judge_key(run_id: str) -> str:
    """Return the key of a judge run."""
    return f"judge/{run_id}"


def removal_key(subject: str) -> str:
    """Return the key of the removal of a job, a benchmark run or a scenario run."""
    return f"removal/{subject}"


class BackgroundTasks:
    """Running tasks by key; a new task cancels the earlier ones of its key and waits for them."""

    def __init__(self) -> None:
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}
        self._kinds: Counter[str] = Counter()
        """Number of keys of each kind; a kind is a key's text up to the first slash."""
        self._closing: set[asyncio.Task[None]] = set()

    def start(self, key: str, job: BackgroundTask, *, finish: bool = False) -> None:
        """Run a job in the background; with `finish` it gets time to end when the server stops."""
        earlier = set(self._tasks.get(key, ()))
        for task in earlier:
            task.cancel()
        task = asyncio.create_task(_run_after(key, earlier, job))
        if key not in self._tasks:
            self._tasks[key] = set()
            self._kinds[_kind(key)] += 1
        self._tasks[key].add(task)
        task.add_done_callback(partial(self._forget, key))
        if finish:
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def repeat(self, key: str, work: BackgroundTask, seconds: float, what: str) -> None:
        """Do a work again and again after pauses of this length; `what` names it in the log if it fails."""

        async def repeat() -> None:
            while True:
                try:
                    await work()
                except (BenchyardError, OSError) as error:
                    _log.warning("%s: failed, will try again: %s", what, error)
                await asyncio.sleep(seconds)

        self.start(key, repeat)

    def under_way(self, prefix: str) -> list[str]:
        """Return the keys with running tasks: all under a prefix that ends with a slash, else this key."""
        if prefix and not prefix.endswith("/"):
            return [prefix] if prefix in self._tasks else []
        if prefix and not self._kinds[_kind(prefix)]:
            return []
        return [key for key in self._tasks if key.startswith(prefix)]

    async def settle(self, prefix: str) -> None:
        """Wait until no task runs under these keys."""
        while keys := self.under_way(prefix):
            await asyncio.wait(set[asyncio.Task[None]]().union(*(self._tasks[key] for key in keys)))

    async def cancel(self, prefix: str) -> None:
        """Cancel the tasks of these keys, and wait for them to end."""
        for key in self.under_way(prefix):
            for task in self._tasks[key]:
                task.cancel()
        await self.settle(prefix)

    async def close(self) -> None:
        """Give tasks that must finish their time, then cancel all others and wait for them to end."""
        if self._closing:
            await asyncio.wait(self._closing, timeout=GRACE_SECONDS)
        tasks = {task for group in self._tasks.values() for task in group}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        # A cancelled task may have started others that clear up behind it.
        late = {task for group in self._tasks.values() for task in group}
        if late:
            _, unfinished = await asyncio.wait(late, timeout=GRACE_SECONDS)
            for task in unfinished:
                task.cancel()
            await asyncio.wait(late)

    def _forget(self, key: str, task: asyncio.Task[None]) -> None:
        group = self._tasks.get(key, set())
        group.discard(task)
        if not group and self._tasks.pop(key, None) is not None:
            self._kinds[_kind(key)] -= 1


def _kind(key: str) -> str:
    return key.partition("/")[0]


async def _run_after(key: str, earlier: set[asyncio.Task[None]], job: BackgroundTask) -> None:
    if earlier:
        await asyncio.wait(earlier)
    try:
        await job()
    except Exception:  # noqa: BLE001
        # The boundary of background work: jobs record their own failures, so any error here is a bug.
        _log.exception("background work failed for %s", key)


async def retry_store(ask: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the store's answer; ask again while the store is locked, gone or full, since no caller would."""
    delay = _FIRST_DELAY_SECONDS
    while True:
        try:
            return await ask(*args, **kwargs)
        except StoreError as error:
            if not error.retryable:
                raise
            _log.warning("background work waits for the store: %s", error.message)
        await asyncio.sleep(delay)
        delay = min(delay * 2, _LONGEST_DELAY_SECONDS)
