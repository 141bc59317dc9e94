"""The gateway for code outside of devboxes: the path after a run's id goes to the run's models."""

from fastapi import APIRouter, Request
from fastapi.responses import Response
from multidict import CIMultiDict

from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.model_calls import ModelCall
from benchyard.gateway.proxy.requests import token_of

router = APIRouter(prefix="/gateway", tags=["scenario runs"], route_class=LazyRoute)


@router.api_route("/{run_id}/{path:path}", methods=["GET", "HEAD", "POST"], include_in_schema=False)
async def call_model(run_id: str, request: Request, services: ServicesDep) -> Response:
    """Call a model with the token of a run, in the format of its provider (an extension)."""
    token = token_of(CIMultiDict(request.headers.items()), request.url.query)
    return ModelCall(services, await services.engine.run_gateways.connect(run_id, token))
