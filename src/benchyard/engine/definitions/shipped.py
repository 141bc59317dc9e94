"""Benchmarks that come with the package: public from a server's first start on, and anew when they change."""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from benchyard.benchmarks import shipped_benchmarks
from benchyard.benchmarks.files import benchmark_file
from benchyard.benchmarks.files.benchmark_file import BenchmarkDraft
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.engine.definitions.benchmarks import BENCHMARK_PREFIX, Benchmarks
from benchyard.engine.definitions.custom_scorers import SCORER_PREFIX, CustomScorers
from benchyard.engine.definitions.scenarios import SCENARIO_PREFIX, Scenarios
from benchyard.engine.devboxes import Asked
from benchyard.engine.ids import id_from_bytes
from benchyard.errors import UsageError
from benchyard.models.scenarios import CustomScorerRequest

_log = logging.getLogger(__name__)


def public_id(prefix: str, name: str) -> str:
    """The id of something that comes with the package: the same on every server."""
    return id_from_bytes(prefix, hashlib.sha256(f"benchyard {prefix}{name}".encode()).digest())


class Shipped:
    """Publishes what comes with the package."""

    def __init__(self, scorers: CustomScorers, scenarios: Scenarios, benchmarks: Benchmarks) -> None:
        self._scorers = scorers
        self._scenarios = scenarios
        self._benchmarks = benchmarks

    async def open(self, folders: Sequence[Path] | None = None) -> None:
        """Publish what this version of the package brings; what is known already is left alone."""
        for folder in shipped_benchmarks.folders() if folders is None else folders:
            digest = await asyncio.to_thread(shipped_benchmarks.digest, folder)
            id = public_id(BENCHMARK_PREFIX, folder.name)
            known = await self._benchmarks.records.find(id)
            if known is None or known.request_hash != digest:
                await self._try_to_publish(folder, Asked(id, digest))

    async def _try_to_publish(self, folder: Path, asked: Asked) -> None:
        try:
            draft = await asyncio.to_thread(benchmark_file.read_benchmark, folder)
            await self._publish(draft, asked)
        except UsageError as error:
            # A name that somebody has taken must not keep the server from starting.
            _log.error("the public benchmark %s was not loaded: %s", folder.name, error.message)

    async def _publish(self, draft: BenchmarkDraft, asked: Asked) -> None:
        """Make all of it; the benchmark comes last, so that what is cut short is begun again."""
        ids = [await self._scenario(each) for each in draft.scenarios if isinstance(each, ScenarioDraft)]
        before = await self._benchmarks.records.find(asked.id)
        for gone in set(before.scenario_ids if before else ()) - set(ids):
            await self._scenarios.records.change(
                gone, lambda scenario: scenario.model_copy(update={"status": "archived"})
            )
        await self._benchmarks.publish(asked, draft.request.model_copy(update={"scenario_ids": ids}))

    async def _scenario(self, draft: ScenarioDraft) -> str:
        for type, script in draft.custom_scorers.items():
            request = CustomScorerRequest(type=type, bash_script=script)
            await self._scorers.publish(public_id(SCORER_PREFIX, type), request)
        id = public_id(SCENARIO_PREFIX, draft.request.name)
        return (await self._scenarios.publish(id, draft.request)).id
