"""Jobs that ended lately, whose new problems webhooks have yet to be told of."""

import asyncio
import json
import os
from collections import OrderedDict

from benchyard.engine.clock import now_ms
from benchyard.models.jobs import ENDED_JOBS, Job
from benchyard.store.database import Store

RECENT_MS = 24 * 3600 * 1000
MOST_JOBS = 1000
"""Jobs that are kept; of more, those that ended last."""
_ENDED = [each.value for each in ENDED_JOBS]


class RecentEnds:
    """The jobs that ended within a day, by the times of their ends, however long ago they were created."""

    def __init__(self, store: Store) -> None:
        self._jobs = store.collection("benchmark_jobs", Job)
        self._ends: OrderedDict[str, int] = OrderedDict()
        self._is_read = False
        """True if the jobs that ended under an earlier server are among them."""

    def note(self, job: Job) -> None:
        """Add a job that has ended or was changed after its end; one that goes on is dropped."""
        if job.state in ENDED_JOBS and job.end_time_ms is not None:
            self._ends[job.id] = job.end_time_ms
            self._drop_old()
        else:
            self._ends.pop(job.id, None)

    def forget(self, job_id: str) -> None:
        """Drop a job, until it changes again."""
        self._ends.pop(job_id, None)

    async def ids(self) -> list[str]:
        """Return the ids of the jobs, in the order of their ends."""
        if not self._is_read:
            for id, end in await self._stored():
                self._ends.setdefault(id, end)
            self._is_read = True
        self._drop_old()
        return list(self._ends)

    def _drop_old(self) -> None:
        since = now_ms() - RECENT_MS
        kept = sorted((end, id) for id, end in self._ends.items() if end >= since)[-MOST_JOBS:]
        self._ends = OrderedDict((id, end) for end, id in kept)

    async def _stored(self) -> list[tuple[str, int]]:
        descriptor = os.memfd_create("ends", os.MFD_CLOEXEC)
        try:
            await self._jobs.write_rows({"status": _ENDED}, [("id",), ("end_time_ms",)], descriptor)
            rows = await asyncio.to_thread(_read, descriptor)
        finally:
            os.close(descriptor)
        since = now_ms() - RECENT_MS
        return [
            (id, end) for id, end in rows if isinstance(id, str) and isinstance(end, int) and end >= since
        ]


def _read(descriptor: int) -> list[tuple[object, object]]:
    with open(os.dup(descriptor), "rb") as file:  # noqa: PTH123  (a descriptor)
        file.seek(0)
        return [(id, end) for id, end in json.load(file)]
