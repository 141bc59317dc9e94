"""Devboxes: create, wait, list, change, suspend, resume, end."""

from dataclasses import replace

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.metadata_routes import add_metadata_routes
from benchyard.api.pages import PageQuery
from benchyard.api.responses import wait_for_answer
from benchyard.engine.ids import is_well_formed
from benchyard.errors import MalformedId, NotFound
from benchyard.models.devboxes import (
    DevboxChange,
    DevboxListView,
    DevboxRequest,
    DevboxStatus,
    DevboxUsageView,
    DevboxView,
    WaitRequest,
)

router = APIRouter(prefix="/v1/devboxes", tags=["devboxes"], route_class=LazyRoute)

DEVBOX_PREFIX = "dbx_"


@router.post("")
async def create(
    services: ServicesDep, identity: RequestIdentity, body: DevboxRequest | None = None
) -> DevboxView:
    """Make a devbox and answer at once; it comes up in the background."""
    devbox = await services.engine.devboxes.create(identity.caller(DEVBOX_PREFIX), body or DevboxRequest())
    return services.engine.tunnels.view(devbox)


@router.post("/create_and_await_running")
async def create_and_await_running(
    services: ServicesDep, identity: RequestIdentity, body: DevboxRequest | None = None
) -> DevboxView:
    """Make a devbox and answer once it runs, or as it is after 25 seconds."""
    devbox = await services.engine.devboxes.create(identity.caller(DEVBOX_PREFIX), body or DevboxRequest())
    return services.engine.tunnels.view(
        await wait_for_answer(services, services.engine.devboxes.wait_until_booted(devbox.id))
    )


@router.get("")
async def list_devboxes(
    services: ServicesDep, query: PageQuery, status: DevboxStatus | None = None
) -> DevboxListView:
    """List devboxes, newest first."""
    where = {"status": status.value} if status else {}
    page = await services.engine.devboxes.records.page(replace(query, where=where))
    devboxes = [services.engine.tunnels.view(devbox) for devbox in page.items]
    return DevboxListView(devboxes=devboxes, has_more=page.has_more, total_count=page.total_count)


add_metadata_routes(router, lambda services: services.engine.devboxes.records, {})


@router.get("/{id}")
async def retrieve(id: str, services: ServicesDep) -> DevboxView:
    """Look a devbox up; 400 for a malformed id, 404 for an id that no devbox has."""
    try:
        return services.engine.tunnels.view(await services.engine.devboxes.get(id))
    except NotFound as error:
        if id.startswith(DEVBOX_PREFIX) and not is_well_formed(id, DEVBOX_PREFIX):
            raise MalformedId(f"{error.message}; that is not the id of a devbox", field="id") from error
        raise


@router.post("/{id}")
async def update(id: str, services: ServicesDep, body: DevboxChange) -> DevboxView:
    """Change a devbox's name or metadata."""
    return services.engine.tunnels.view(await services.engine.devboxes.update(id, body))


@router.post("/{id}/wait_for_status")
async def wait_for_status(id: str, services: ServicesDep, body: WaitRequest) -> DevboxView:
    """Answer once the devbox has one of the statuses; 408 after at most 30 seconds."""
    return services.engine.tunnels.view(
        await wait_for_answer(services, services.engine.devboxes.wait(id, body))
    )


@router.post("/{id}/shutdown")
async def shutdown(id: str, services: ServicesDep, *, force: bool = False) -> DevboxView:
    """End a devbox; its disk goes with it."""
    return services.engine.tunnels.view(await services.engine.devboxes.shutdown(id, force=force))


@router.post("/{id}/suspend")
async def suspend(id: str, services: ServicesDep) -> DevboxView:
    """End a devbox's processes and keep its disk."""
    return services.engine.tunnels.view(await services.engine.devboxes.suspend(id))


@router.post("/{id}/resume")
async def resume(id: str, services: ServicesDep) -> DevboxView:
    """Bring a suspended devbox up again; answers once it runs, or as it is after a second."""
    await services.engine.devboxes.resume(id)
    return services.engine.tunnels.view(
        await wait_for_answer(services, services.engine.devboxes.wait_until_resumed(id))
    )


@router.post("/{id}/keep_alive")
async def keep_alive(id: str, services: ServicesDep) -> dict[str, str]:
    """Start the idle clock anew."""
    await services.engine.devboxes.keep_alive(id)
    return {}


@router.get("/{id}/usage")
async def usage(id: str, services: ServicesDep) -> DevboxUsageView:
    """Tell what a devbox has used since it was made."""
    return await services.engine.devboxes.usage(id)
