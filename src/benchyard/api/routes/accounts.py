"""The account: there is one per server."""

from datetime import UTC, datetime

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.engine.ids import id_from_bytes
from benchyard.models.accounts import AccountView

router = APIRouter(prefix="/v1/accounts", tags=["accounts"])


@router.get("/me")
async def me(services: ServicesDep) -> AccountView:
    """Look up the account of the key that is used."""
    created = datetime.fromtimestamp(services.keys.first_ms / 1000, UTC)
    id = id_from_bytes("acc_", services.vault.derive("account"))
    return AccountView(id=id, name="benchyard", created_at=created.isoformat())
