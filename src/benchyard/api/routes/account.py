"""The account and its API keys: create, list, revoke."""

from datetime import UTC, datetime

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import PageQuery
from benchyard.engine.api_keys import KEY_PREFIX
from benchyard.engine.ids import account_id
from benchyard.models.account import (
    AccountView,
    ApiKey,
    ApiKeyCreatedView,
    ApiKeyListView,
    ApiKeyRequest,
    ApiKeyView,
)

router = APIRouter(route_class=LazyRoute)


@router.get("/v1/accounts/me", tags=["accounts"])
async def me(services: ServicesDep) -> AccountView:
    """Look up the account of the key that is used."""
    created = datetime.fromtimestamp(services.keys.first_ms / 1000, UTC)
    return AccountView(id=account_id(services.vault), name="benchyard", created_at=created.isoformat())


@router.post("/v1/apikeys", tags=["apikeys"])
async def create(body: ApiKeyRequest, services: ServicesDep, identity: RequestIdentity) -> ApiKeyCreatedView:
    """Make a key; its secret is in this answer and nowhere else."""
    key, secret = await services.keys.create(identity.new_id(KEY_PREFIX), body, identity.body_hash)
    return ApiKeyCreatedView(id=key.id, name=key.name, key_secret=secret, expires_at_ms=key.expires_at_ms)


@router.get("/v1/apikeys", tags=["apikeys"])
async def list_keys(query: PageQuery, services: ServicesDep) -> ApiKeyListView:
    """List keys, newest first."""
    page = await services.keys.page(query)
    keys = [_view(key) for key in page.items]
    return ApiKeyListView(apikeys=keys, has_more=page.has_more, total_count=page.total_count)


@router.post("/v1/apikeys/{id}/revoke", tags=["apikeys"])
async def revoke(id: str, services: ServicesDep) -> ApiKeyView:
    """Revoke a key, which opens nothing any more."""
    return _view(await services.keys.revoke(id))


def _view(key: ApiKey) -> ApiKeyView:
    return ApiKeyView.model_validate(key.model_dump())
