"""Images (an extension): what devboxes can start from."""

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.responses import archive_response, wait_for_answer
from benchyard.models.images import (
    AliasListView,
    AliasRemoval,
    AliasView,
    CollectionView,
    CollectRequest,
    DebianImageRequest,
    ImageImportRequest,
    ImageListView,
    ImagePullRequest,
    ImageView,
    StandInRequest,
)

router = APIRouter(prefix="/v1/images", tags=["images"], route_class=LazyRoute)

_PREFIX = "img_"


@router.get("")
async def list_images(services: ServicesDep) -> ImageListView:
    """List all images, newest first; snapshots are listed as snapshots."""
    return ImageListView(images=await services.engine.library.list())


@router.post("/import")
async def import_image(
    request: Request, services: ServicesDep, identity: RequestIdentity, body: ImageImportRequest
) -> ImageView:
    """Import a root filesystem from an object, or from a folder that the server imports from."""
    return await wait_for_answer(
        services, services.engine.library.import_image(body, identity.caller(_PREFIX)), request
    )


@router.post("/debian")
async def make_debian(
    request: Request, services: ServicesDep, identity: RequestIdentity, body: DebianImageRequest
) -> ImageView:
    """Make a Debian root filesystem an image; takes minutes."""
    return await wait_for_answer(
        services, services.engine.library.make_debian(body, identity.caller(_PREFIX)), request
    )


@router.post("/stand-in")
async def stand_in(
    request: Request, services: ServicesDep, identity: RequestIdentity, body: StandInRequest
) -> ImageView:
    """Make an image that stands in for one of a registry in every Dockerfile; takes minutes."""
    return await wait_for_answer(
        services, services.engine.library.stand_in(body, identity.caller(_PREFIX)), request
    )


@router.post("/pull")
async def pull(
    request: Request, services: ServicesDep, identity: RequestIdentity, body: ImagePullRequest
) -> ImageView:
    """Get an image from its registry."""
    return await wait_for_answer(
        services, services.engine.library.pull(body, identity.caller(_PREFIX)), request
    )


@router.post("/collect")
async def collect(services: ServicesDep, body: CollectRequest) -> CollectionView:
    """Remove the longest unused images, and the builder's cache, until less than a limit is used."""
    return await wait_for_answer(services, services.engine.upkeep.collect(body.max_bytes))


@router.get("/aliases")
async def list_aliases(services: ServicesDep) -> AliasListView:
    """List which images stand in for those of registries."""
    return AliasListView(aliases=services.engine.upkeep.aliases())


@router.post("/aliases")
async def set_alias(services: ServicesDep, body: AliasView) -> AliasView:
    """Let an image stand in for a reference in every Dockerfile."""
    return await services.engine.upkeep.set_alias(body)


@router.post("/aliases/delete")
async def remove_alias(services: ServicesDep, body: AliasRemoval) -> dict[str, str]:
    """Forget an alias."""
    services.engine.upkeep.remove_alias(body.reference)
    return {}


@router.get("/{id}")
async def retrieve(id: str, services: ServicesDep) -> ImageView:
    """Look an image up by id or name."""
    return await services.engine.library.get(id)


@router.post("/{id}/pin")
async def pin(id: str, services: ServicesDep) -> ImageView:
    """Keep an image from being collected."""
    return await services.engine.library.get(await services.engine.upkeep.set_pinned(id, pinned=True))


@router.post("/{id}/unpin")
async def unpin(id: str, services: ServicesDep) -> ImageView:
    """Let an image be collected again."""
    return await services.engine.library.get(await services.engine.upkeep.set_pinned(id, pinned=False))


@router.get("/{id}/export", response_class=StreamingResponse)
async def export(id: str, services: ServicesDep) -> Response:
    """Send an image as an OCI archive."""
    return await archive_response(services, services.engine.transfers.export_image(id))


@router.post("/{id}/delete")
async def delete(id: str, services: ServicesDep, identity: RequestIdentity) -> dict[str, str]:
    """Delete an image that no other image or devbox needs; repeating the same request has the same answer."""
    request = identity.new_id("") if identity.seed else None
    await services.engine.library.delete(id, request)
    return {}
