"""Custom scorers: make, look up, list, change, try."""

from dataclasses import replace

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import PageQuery
from benchyard.api.responses import wait_for_answer
from benchyard.engine.scenarios.custom_scorers import SCORER_PREFIX
from benchyard.models.scenarios import (
    CustomScorerListView,
    CustomScorerRequest,
    CustomScorerView,
    ScorerValidationRequest,
    ScorerValidationView,
)

router = APIRouter(prefix="/v1/scenarios/scorers", tags=["scorers"], route_class=LazyRoute)


@router.post("")
async def create(
    services: ServicesDep, identity: RequestIdentity, body: CustomScorerRequest
) -> CustomScorerView:
    """Register a bash script as a type of scorer."""
    return (await services.engine.scorers.create(identity.caller(SCORER_PREFIX), body)).view()


@router.get("")
async def list_scorers(
    services: ServicesDep, query: PageQuery, search: str | None = None
) -> CustomScorerListView:
    """List custom scorers, newest first."""
    page = await services.engine.scorers.records.page(replace(query, search=search))
    scorers = [scorer.view() for scorer in page.items]
    return CustomScorerListView(scorers=scorers, has_more=page.has_more, total_count=page.total_count)


@router.get("/{id}")
async def retrieve(id: str, services: ServicesDep) -> CustomScorerView:
    """Look a custom scorer up."""
    return (await services.engine.scorers.records.get(id)).view()


@router.post("/{id}")
async def update(id: str, services: ServicesDep, body: CustomScorerRequest) -> CustomScorerView:
    """Change a custom scorer's type or script."""
    return (await services.engine.scorers.update(id, body)).view()


@router.post("/{id}/validate", response_model_exclude_none=True)
async def validate(id: str, services: ServicesDep, body: ScorerValidationRequest) -> ScorerValidationView:
    """Try a custom scorer in a devbox made for it."""
    return await wait_for_answer(services, services.engine.scorer_validation.run(id, body))
