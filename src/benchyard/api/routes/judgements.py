"""Judges of jobs (extensions): a model is asked why trials failed, and its judgements are shown."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter
from fastapi import Query as Parameter

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.engine.judge.service import JUDGE_RUN_PREFIX
from benchyard.errors import UsageError
from benchyard.models.jobs import Job
from benchyard.models.reports.judgements import (
    CATEGORY_LABEL,
    JudgementsView,
    JudgeRequest,
    JudgeRunView,
)
from benchyard.models.results.annotations import LabelName
from benchyard.reports.judge.agreement import agreements

_MOST_ID = 128

router = APIRouter(prefix="/v1/benchmark_jobs", tags=["problems"], route_class=LazyRoute)


@router.post("/{id}/judge", response_model_exclude_none=True)
async def judge(
    id: str, services: ServicesDep, identity: RequestIdentity, body: JudgeRequest
) -> JudgeRunView:
    """Have a model judge why trials of a job failed (an extension); it goes on in the background.

    The model is asked through the gateway, with a key that is a secret and a budget. A trial that the same
    model has judged by the same evidence is not asked about again.
    """
    engine = services.engine
    job = await engine.jobs.get(id)
    agents = _agents_named(job, body.agent)
    if body.only == "unexplained":
        # The findings of signals, which choose the trials, are made when they are first asked for.
        await services.problem_reports.job(engine, job)
    return (await engine.judges.begin(identity.caller(JUDGE_RUN_PREFIX), job, body, agents)).view()


@router.post("/{id}/judge/stop", response_model_exclude_none=True)
async def stop(id: str, services: ServicesDep) -> JudgementsView:
    """End the judge run of a job that is under way (an extension); its judgements stay."""
    job = await services.engine.jobs.get(id)
    await services.engine.judges.stop(job)
    return await _view(services, job, None, CATEGORY_LABEL)


@router.get("/{id}/judgements", response_model_exclude_none=True)
async def judgements(
    id: str,
    services: ServicesDep,
    trial_id: Annotated[str | None, Parameter(max_length=_MOST_ID, description="only of this trial")] = None,
    label: Annotated[
        LabelName, Parameter(description="name of the people's labels that judgements are compared with")
    ] = CATEGORY_LABEL,
) -> JudgementsView:
    """Show the judgements of a job's trials, and how far people agree with them (an extension)."""
    job = await services.engine.jobs.get(id)
    return await _view(services, job, trial_id, label)


async def _view(services: Services, job: Job, trial_id: str | None, label: str) -> JudgementsView:
    """Return judgements with their agreement with people's labels of this name."""
    view = await services.engine.judges.view(job, trial_id)
    labels = await services.engine.trial_annotations.labels([each.trial_id for each in view.judgements])
    return view.model_copy(update={"agreement": agreements(view.judgements, labels, label)})


def _agents_named(job: Job, given: str | None) -> Sequence[int] | None:
    """Return the indexes of the agents of that name or label; raises UsageError if there are none."""
    if given is None:
        return None
    configs = job.spec.agent_configs
    found = [
        number
        for number, each in enumerate(configs)
        if given in (each.name, each.label, f"{each.name}:{each.model_name}")
    ]
    if not found:
        labels = ", ".join(each.label[:100] for each in configs[:10])
        raise UsageError(f"no agent of the job is called {given[:100]!r}; there are: {labels}", field="agent")
    return found
