"""Images devboxes start from."""

from benchyard.client.bodies import Progress, Source, silent
from benchyard.client.core import Request, Steps, at, fetch, send
from benchyard.client.objects import upload
from benchyard.client.verbs import Group, S, call
from benchyard.errors import BenchyardError
from benchyard.models.images import DebianImageRequest, ImageImportRequest, ImageListView, ImageView
from benchyard.models.objects import ObjectRequest

LONG = 3600.0


class Images(Group[S]):
    """The images of a server."""

    @call
    def list(self) -> Steps[list[ImageView]]:
        """All images, newest first."""
        return (yield from fetch(Request("GET", "/v1/images"), ImageListView)).images

    @call
    def get(self, id: str) -> Steps[ImageView]:
        """Look one up by id or name; raises NotFound."""
        return (yield from fetch(Request("GET", at("/v1/images/{}", id)), ImageView))

    @call
    def import_path(self, path: str, name: str) -> Steps[ImageView]:
        """Import a folder or archive that lies on the server's own machine."""
        request = ImageImportRequest(name=name, path=path)
        return (yield from fetch(Request("POST", "/v1/images/import", json=request, timeout=LONG), ImageView))

    @call
    def import_archive(self, source: Source, name: str, progress: Progress = silent) -> Steps[ImageView]:
        """Upload an archive (root filesystem, OCI or docker) and import it; the upload is removed again."""
        stored = yield from upload(source, ObjectRequest(name=name, content_type="binary"), progress)
        request = ImageImportRequest(name=name, object_id=stored.id)
        remove = Request("POST", at("/v1/objects/{}/delete", stored.id))
        try:
            image = yield from fetch(
                Request("POST", "/v1/images/import", json=request, timeout=LONG), ImageView
            )
        except BenchyardError:
            yield from send(remove)
            raise
        yield from send(remove)
        return image

    @call
    def make_debian(self, request: DebianImageRequest) -> Steps[ImageView]:
        """Make a Debian root filesystem an image."""
        return (yield from fetch(Request("POST", "/v1/images/debian", json=request, timeout=LONG), ImageView))

    @call
    def delete(self, id: str) -> Steps[None]:
        """Remove one; raises Conflict while others are built on it."""
        yield from send(Request("POST", at("/v1/images/{}/delete", id)))
