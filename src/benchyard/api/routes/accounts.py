"""The account: there is one per server."""

from datetime import UTC, datetime

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.routing import LateRoute
from benchyard.engine.ids import account_id
from benchyard.models.accounts import AccountView

router = APIRouter(prefix="/v1/accounts", tags=["accounts"], route_class=LateRoute)


@router.get("/me")
async def me(services: ServicesDep) -> AccountView:
    """Look up the account of the key that is used."""
    created = datetime.fromtimestamp(services.keys.first_ms / 1000, UTC)
    return AccountView(id=account_id(services.vault), name="benchyard", created_at=created.isoformat())
