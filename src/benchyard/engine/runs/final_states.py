"""Final states: a run's disk at its end, kept for a while so that it can be scored again."""

import contextlib
import logging
from collections import defaultdict
from dataclasses import dataclass
from functools import partial

from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.boot import FINAL_KIND, PRISTINE
from benchyard.engine.runs.records import RunRecords
from benchyard.engine.runs.scoring_room import ScoringCase, frozen_id
from benchyard.errors import BenchyardError, NotFound, message_of
from benchyard.models.runs import FinalState, ScenarioRun

LIVE = "it was scored live, in its devbox: what counted was something that ran there, and that has ended"
CANCELED = "the run was canceled"
_OFF = "this server keeps none; start it with --final-state-max-size 256MiB to keep those of later runs"
_FINAL = "-final"
_START = "-start"
_DAY_MS = 24 * 3600 * 1000
_PRUNE_SECONDS = 3600.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinalStateFate:
    """Fate of a final state: stored, or missing for a reason."""

    state: FinalState | None = None
    gone: str | None = None


class FinalStates:
    """All final states of this server: images of the layers that scorings froze.

    The image is made before the run's record names it, and the record drops the name before the image is
    removed: a crash leaves an image without a name, never a name without its image.
    """

    def __init__(self, tools: EngineContext) -> None:
        self._tools = tools
        self._unnamed: set[str] = set()
        """Images that were made here, and are not in a record yet."""

    async def keep(self, case: ScoringCase) -> FinalStateFate:
        """Keep the image frozen for a scoring; errors become the reason why there is no final state."""
        try:
            return await self._keep(case)
        except (BenchyardError, OSError) as error:
            return FinalStateFate(gone=f"it could not be kept: {message_of(error)}")

    async def _keep(self, case: ScoringCase) -> FinalStateFate:
        most = self._tools.settings.final_state_max_bytes
        if not most:
            return FinalStateFate(gone=_OFF)
        sources = {frozen_id(case.run) + _FINAL: case.image_id}
        if case.scenario.keeps_start:
            sources[frozen_id(case.run) + _START] = case.devbox.id + PRISTINE
        images = self._tools.images
        size = sum([await images.size(await images.get(each), most) for each in sources.values()])
        if size > most:
            excess = f"what was changed takes more than {most} bytes, which are the most that are kept"
            return FinalStateFate(gone=f"it is too large: {excess} (--final-state-max-size)")
        self._unnamed |= sources.keys()
        for made, source in sources.items():
            # An image with this name is from a server that was killed before noting it.
            await self._remove(made)
            await images.share(source, made, FINAL_KIND)
        made_images = [*sources]
        state = FinalState(
            image_id=made_images[0],
            start_image_id=made_images[1] if len(made_images) > 1 else None,
            size_bytes=size,
            create_time_ms=now_ms(),
            working_directory=case.working_directory,
            home=case.home,
            launch_parameters=case.devbox.launch_parameters,
            environment_variables=case.devbox.environment_variables,
        )
        return FinalStateFate(state)

    async def settle(self, scored: ScenarioRun, now: ScenarioRun) -> None:
        """Remove the images of this scoring and the one before, except those that the run now names."""
        frozen = frozen_id(scored)
        ids = {frozen + _FINAL, frozen + _START, *images_of_final_state(scored)}
        for image_id in ids - images_of_final_state(now):
            await self._remove(image_id)
        self._unnamed -= ids

    async def _remove(self, image_id: str) -> None:
        with contextlib.suppress(NotFound):
            await self._tools.images.remove(image_id)

    def watch(self, run_records: RunRecords) -> None:
        """Start removing expired final states, at first also images that a stop left without a name."""
        prune = partial(self.prune, run_records)
        self._tools.work.repeat("finals/prune", prune, _PRUNE_SECONDS, "removing old final states")

    async def prune(self, run_records: RunRecords) -> None:
        """Remove expired final states, and images that no run names."""
        images = defaultdict(set)
        for image in await self._tools.images.list():
            if image.kind == FINAL_KIND:
                images[image.id.partition("-")[0]].add(image.id)
        for run_id, found in images.items():
            try:
                await self._prune(run_records, run_id, found)
            except BenchyardError as error:
                # An unreadable record must not keep the other final states.
                _log.warning("the final state of run %s is left alone: %s", run_id, error.message)

    async def _prune(self, run_records: RunRecords, run_id: str, found: set[str]) -> None:
        # Read before the record: an image that is named in between is then in one of the two.
        loose = found - self._unnamed
        run = await run_records.records.find(run_id)
        if run is not None and self._is_over(run):
            days = f"{self._tools.settings.final_state_days:g} days"
            reason = f"it was pruned after {days} (--final-state-days)"
            gone = {"final_state": None, "final_state_gone": reason}
            run = await run_records.change(
                run_id, lambda now: now.model_copy(update=gone) if self._is_over(now) else now
            )
        for image_id in loose - (images_of_final_state(run) if run else set()):
            await self._remove(image_id)

    def _is_over(self, run: ScenarioRun) -> bool:
        if run.final_state is None or run.rescoring is not None:
            return False
        return now_ms() - run.final_state.create_time_ms > self._tools.settings.final_state_days * _DAY_MS


def images_of_final_state(run: ScenarioRun) -> set[str]:
    """Return the images of a run's final state."""
    return run.final_state.image_ids() if run.final_state else set()
