"""Tags, notes and verdicts of people on trials, and on benchmark runs and scenario runs of the SDK."""

import asyncio
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from benchyard.engine.clock import now_ms
from benchyard.errors import Conflict, UsageError
from benchyard.models.jobs import JOB_KEY, TRIAL_KEY
from benchyard.models.results.annotations import (
    MOST_LABELS,
    MOST_TAGS,
    AnnotationRequest,
    LabelRequest,
    PersonLabel,
    TrialAnnotation,
)
from benchyard.models.runs import BenchmarkRun, ScenarioRun
from benchyard.models.trials import Trial, TrialView
from benchyard.store.collection import Collection
from benchyard.store.database import Store
from benchyard.store.tags import tagging

_FEW = 50
"""Number of trials up to which their views are made on the event loop."""


class TrialAnnotations:
    """The annotations of all trials and runs, in records of their own: those of trials have one writer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records: Collection[TrialAnnotation] = store.collection("trial_annotations", TrialAnnotation)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def views(self, trials: Sequence[Trial]) -> list[TrialView]:
        """Return trials as the wire shows them, with tags, notes and labels."""
        found = await self.of([trial.id for trial in trials])

        def make() -> list[TrialView]:
            return [trial.view(found.get(trial.id)) for trial in trials]

        return make() if len(trials) <= _FEW else await asyncio.to_thread(make)

    async def labels(self, trial_ids: Sequence[str]) -> dict[str, list[PersonLabel]]:
        """Return the verdicts of people on trials that have any."""
        found = await self._records.all({"id": list(trial_ids)}) if trial_ids else []
        return {each.id: each.labels for each in found if each.labels}

    async def of(self, ids: Sequence[str]) -> dict[str, TrialAnnotation]:
        """Return what people noted on trials or runs, by their ids; without those that have nothing."""
        return {each.id: each for each in await self._records.all({"id": ids})} if ids else {}

    async def annotate(self, trial: Trial, wanted: AnnotationRequest) -> TrialView:
        """Change tags and note of a trial; raises UsageError for too many tags."""
        return trial.view(await self._annotate(trial.id, trial.job_id, wanted))

    async def annotate_run(
        self, run: ScenarioRun | BenchmarkRun, wanted: AnnotationRequest
    ) -> TrialAnnotation:
        """Change tags and note of a run; raises Conflict for one that belongs to a job."""
        return await self._annotate(run.id, _parent(run), wanted)

    async def label(self, trial: Trial, wanted: LabelRequest, key_id: str, key_name: str) -> TrialView:
        """Note a person's verdict in place of an earlier one under the same name, or take it back."""
        return trial.view(await self._label(trial.id, trial.job_id, wanted, key_id, key_name))

    async def label_run(
        self, run: ScenarioRun, wanted: LabelRequest, key_id: str, key_name: str
    ) -> TrialAnnotation:
        """Note a person's verdict on a scenario run; raises Conflict for one that belongs to a job."""
        return await self._label(run.id, _parent(run), wanted, key_id, key_name)

    async def _annotate(self, id: str, parent: str, wanted: AnnotationRequest) -> TrialAnnotation:
        return await self._change(id, parent, lambda old: old.model_copy(update=annotated(old.tags, wanted)))

    async def _label(
        self, id: str, parent: str, wanted: LabelRequest, key_id: str, key_name: str
    ) -> TrialAnnotation:
        label = wanted.value and PersonLabel(
            name=wanted.name,
            value=wanted.value,
            comment=wanted.comment or None,
            key_id=key_id,
            key_name=key_name,
            time_ms=now_ms(),
        )

        def change(old: TrialAnnotation) -> TrialAnnotation:
            others = [each for each in old.labels if (each.name, each.key_id) != (wanted.name, key_id)]
            labels = [*others, label] if label else others
            if len(labels) > MOST_LABELS:
                raise UsageError(f"there are at most {MOST_LABELS} labels on one; remove some first")
            return old.model_copy(update={"labels": labels})

        return await self._change(id, parent, change)

    async def _change(
        self, id: str, parent: str, change: Callable[[TrialAnnotation], TrialAnnotation]
    ) -> TrialAnnotation:
        async with self._locks.setdefault(id, asyncio.Lock()):
            known = await self._records.find(id)
            old = known or TrialAnnotation(id=id, create_time_ms=now_ms(), job_id=parent)
            new = change(old)

            def work(connection: Connection) -> None:
                rows = self._records.rows
                (rows.putting(new) if known else rows.adding([new]))(connection)
                tagging(id, parent, new.tags)(connection)

            await self._store.write(work)
        return new


def _parent(run: ScenarioRun | BenchmarkRun) -> str:
    """Return the run with which what is noted on this one is deleted; raises Conflict for a run of a job."""
    if trial_id := run.metadata.get(TRIAL_KEY):
        raise Conflict(f"run {run.id} belongs to a trial; note it there: `benchyard trial show {trial_id}`")
    if job_id := run.metadata.get(JOB_KEY):
        raise Conflict(f"run {run.id} belongs to a job; note it there: `benchyard job summary {job_id}`")
    return (run.benchmark_run_id if isinstance(run, ScenarioRun) else None) or run.id


def annotated(tags: Sequence[str], wanted: AnnotationRequest) -> dict[str, object]:
    """Return the changes of a thing with these tags; raises UsageError for too many tags."""
    every = dict.fromkeys([*tags, *wanted.add_tags])
    kept = [tag for tag in every if tag not in wanted.remove_tags]
    if len(kept) > MOST_TAGS:
        raise UsageError(f"at most {MOST_TAGS} tags; remove some first", field="add_tags")
    changes: dict[str, object] = {"tags": kept}
    if wanted.note is not None:
        changes["note"] = wanted.note.strip() or None
    return changes
