"""Trials by their own ids (an extension); a job lists its trials."""

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.models.trials import TrialView

router = APIRouter(prefix="/v1/trials", tags=["benchmark jobs"], route_class=LazyRoute)


@router.get("/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> TrialView:
    """Look a trial up."""
    return (await services.engine.jobs.trial(id)).view()
