"""Tags, notes and verdicts of people on trials."""

import asyncio
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from benchyard.engine.clock import now_ms
from benchyard.errors import UsageError
from benchyard.models.results.annotations import (
    MOST_LABELS,
    MOST_TAGS,
    AnnotationRequest,
    LabelRequest,
    PersonLabel,
    TrialAnnotation,
)
from benchyard.models.trials import Trial, TrialView
from benchyard.store.collection import Collection
from benchyard.store.database import Store
from benchyard.store.tags import tagging

_FEW = 50
"""Number of trials up to which their views are made on the event loop."""


class TrialAnnotations:
    """The annotations of all trials, in records of their own: those of trials have a single writer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records: Collection[TrialAnnotation] = store.collection("trial_annotations", TrialAnnotation)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def views(self, trials: Sequence[Trial]) -> list[TrialView]:
        """Return trials as the wire shows them, with tags, notes and labels."""
        ids = [trial.id for trial in trials]
        found = {record.id: record for record in await self._records.all({"id": ids})} if ids else {}

        def make() -> list[TrialView]:
            return [trial.view(found.get(trial.id)) for trial in trials]

        return make() if len(trials) <= _FEW else await asyncio.to_thread(make)

    async def labels(self, trial_ids: Sequence[str]) -> dict[str, list[PersonLabel]]:
        """Return the verdicts of people on trials that have any."""
        found = await self._records.all({"id": list(trial_ids)}) if trial_ids else []
        return {each.id: each.labels for each in found if each.labels}

    async def annotate(self, trial: Trial, wanted: AnnotationRequest) -> TrialView:
        """Change tags and note of a trial; raises UsageError for too many tags."""
        return await self._change(trial, lambda old: old.model_copy(update=annotated(old.tags, wanted)))

    async def label(self, trial: Trial, wanted: LabelRequest, key_id: str, key_name: str) -> TrialView:
        """Note a person's verdict in place of an earlier one under the same name, or take it back."""
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
                raise UsageError(f"a trial has at most {MOST_LABELS} labels; remove some first")
            return old.model_copy(update={"labels": labels})

        return await self._change(trial, change)

    async def _change(self, trial: Trial, change: Callable[[TrialAnnotation], TrialAnnotation]) -> TrialView:
        async with self._locks.setdefault(trial.id, asyncio.Lock()):
            known = await self._records.find(trial.id)
            old = known or TrialAnnotation(id=trial.id, create_time_ms=now_ms(), job_id=trial.job_id)
            new = change(old)

            def work(connection: Connection) -> None:
                rows = self._records.rows
                (rows.putting(new) if known else rows.adding([new]))(connection)
                tagging(trial.id, trial.job_id, new.tags)(connection)

            await self._store.write(work)
        return trial.view(new)


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
