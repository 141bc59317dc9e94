"""Secrets: create, list, look up, update, delete; by name, or by id as newer clients do."""

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import PageQuery
from benchyard.engine.secrets import SECRET_PREFIX
from benchyard.models.secrets import Secret, SecretChange, SecretListView, SecretRequest, SecretView

router = APIRouter(prefix="/v1/secrets", tags=["secrets"], route_class=LazyRoute)


@router.post("")
async def create(body: SecretRequest, services: ServicesDep, identity: RequestIdentity) -> SecretView:
    """Keep a new secret."""
    return _view(await services.secrets.create(identity.new_id(SECRET_PREFIX), body, identity.body_hash))


@router.get("")
async def list_secrets(query: PageQuery, services: ServicesDep) -> SecretListView:
    """List secrets, newest first, without their values."""
    page = await services.secrets.page(query)
    secrets = [_view(secret) for secret in page.items]
    return SecretListView(secrets=secrets, has_more=page.has_more, total_count=page.total_count)


@router.get("/{name}")
async def retrieve(name: str, services: ServicesDep) -> SecretView:
    """Look a secret up by name."""
    return _view(await services.secrets.get(name))


@router.post("/{name}")
async def update(name: str, body: SecretChange, services: ServicesDep) -> SecretView:
    """Give a secret another value, by name."""
    secret = await services.secrets.get(name)
    return _view(await services.secrets.update(secret.id, body.value.get_secret_value()))


@router.post("/{name}/delete")
async def delete(name: str, services: ServicesDep) -> SecretView:
    """Forget a secret, by name."""
    secret = await services.secrets.get(name)
    await services.secrets.delete(secret.id)
    return _view(secret)


@router.get("/id/{id}")
async def retrieve_by_id(id: str, services: ServicesDep) -> SecretView:
    """Look a secret up by id."""
    return _view(await services.secrets.get_by_id(id))


@router.post("/id/{id}/update")
async def update_by_id(id: str, body: SecretChange, services: ServicesDep) -> SecretView:
    """Give a secret another value, by id."""
    return _view(await services.secrets.update(id, body.value.get_secret_value()))


@router.post("/id/{id}/delete")
async def delete_by_id(id: str, services: ServicesDep) -> SecretView:
    """Forget a secret, by id."""
    secret = await services.secrets.get_by_id(id)
    await services.secrets.delete(id)
    return _view(secret)


def _view(secret: Secret) -> SecretView:
    return SecretView.model_validate(secret.model_dump())
