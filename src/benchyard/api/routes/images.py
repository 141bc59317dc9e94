"""Images (an extension): what devboxes can start from."""

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.holding import held
from benchyard.models.images import DebianImageRequest, ImageImportRequest, ImageListView, ImageView

router = APIRouter(prefix="/v1/images", tags=["images"])


@router.get("")
async def list_images(services: ServicesDep) -> ImageListView:
    """List all images, newest first; snapshots are listed as snapshots."""
    return ImageListView(images=await services.engine.library.list())


@router.post("/import")
async def import_image(services: ServicesDep, body: ImageImportRequest) -> ImageView:
    """Import a root filesystem from an object, or from a path of the server's machine."""
    return await held(services, services.engine.library.import_image(body))


@router.post("/debian")
async def make_debian(services: ServicesDep, body: DebianImageRequest) -> ImageView:
    """Make a Debian root filesystem an image; takes minutes."""
    return await held(services, services.engine.library.make_debian(body))


@router.get("/{id}")
async def retrieve(id: str, services: ServicesDep) -> ImageView:
    """Look an image up by id or name."""
    return await services.engine.library.get(id)


@router.post("/{id}/delete")
async def delete(id: str, services: ServicesDep) -> dict[str, str]:
    """Delete an image that nothing stands on."""
    await services.engine.library.delete(id)
    return {}
