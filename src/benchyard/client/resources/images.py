"""Images devboxes start from."""

from collections.abc import Sequence

from benchyard.client.bodies import Progress, Sized, Source, Target, no_progress
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Request, Steps, at, fetch, send
from benchyard.client.resources.files import download
from benchyard.client.resources.objects import Objects
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

LONG = 3600.0


class Images(VerbGroup[S]):
    """The images of a server."""

    @call
    def list(self) -> Steps[list[ImageView]]:
        """All images, newest first."""
        return (yield from fetch(Request("GET", "/v1/images"), ImageListView)).images

    @call
    def get(self, id: str) -> Steps[ImageView]:
        """Look an image up by id or name; raises NotFound."""
        return (yield from fetch(Request("GET", at("/v1/images/{}", id)), ImageView))

    @call
    def import_path(self, path: str, name: str, *, detach: bool = False) -> Steps[ImageView]:
        """Import a folder or archive on the server's machine; the server must run with `--import-from`.

        With `detach` it goes on without this client, and the image is of kind `importing` until it is
        complete.
        """
        request = ImageImportRequest(name=name, path=path, detach=detach)
        return (yield from fetch(Request("POST", "/v1/images/import", json=request, timeout=LONG), ImageView))

    @call
    def import_archive(
        self, source: Source, name: str, progress: Progress = no_progress, *, detach: bool = False
    ) -> Steps[ImageView]:
        """Upload an archive (root filesystem, OCI or docker) and import it; the upload is removed again."""

        def use(object_id: str) -> Steps[ImageView]:
            request = ImageImportRequest(name=name, object_id=object_id, detach=detach)
            return (
                yield from fetch(Request("POST", "/v1/images/import", json=request, timeout=LONG), ImageView)
            )

        return (yield from Objects(self.session).through(source, name, use, progress))

    @call
    def export(
        self, id: str, target: Target, progress: Progress = no_progress, sized: Sized = no_progress
    ) -> Steps[int]:
        """Fetch an image as an OCI archive; a path appears only when it is complete. Returns the size."""
        request = Request("GET", at("/v1/images/{}/export", id), timeout=LONG)
        return (yield from download(request, target, progress, sized))

    @call
    def make_debian(self, request: DebianImageRequest) -> Steps[ImageView]:
        """Make a Debian root filesystem as an image."""
        return (yield from fetch(Request("POST", "/v1/images/debian", json=request, timeout=LONG), ImageView))

    @call
    def stand_in(self, reference: str, name: str | None = None) -> Steps[ImageView]:
        """Let the server make an image that stands in for a registry's image."""
        request = StandInRequest(reference=reference, name=name)
        posted = Request("POST", "/v1/images/stand-in", json=request, timeout=LONG)
        return (yield from fetch(posted, ImageView))

    @call
    def pull(self, reference: str, name: str | None = None) -> Steps[ImageView]:
        """Let the server get an image from its registry."""
        request = ImagePullRequest(reference=reference, name=name)
        return (yield from fetch(Request("POST", "/v1/images/pull", json=request, timeout=LONG), ImageView))

    @call
    def aliases(self) -> Steps[Sequence[AliasView]]:
        """Return the images that stand in for images of registries."""
        return (yield from fetch(Request("GET", "/v1/images/aliases"), AliasListView)).aliases

    @call
    def set_alias(self, reference: str, image: str) -> Steps[AliasView]:
        """Let an image stand in for a reference in every Dockerfile."""
        request = AliasView(reference=reference, image=image)
        return (yield from fetch(Request("POST", "/v1/images/aliases", json=request), AliasView))

    @call
    def remove_alias(self, reference: str) -> Steps[None]:
        """Forget an alias; raises NotFound."""
        request = AliasRemoval(reference=reference)
        yield from send(Request("POST", "/v1/images/aliases/delete", json=request))

    @call
    def pin(self, id: str, *, pinned: bool = True) -> Steps[ImageView]:
        """Keep an image from being collected, or let it be collected again."""
        path = at("/v1/images/{}/pin" if pinned else "/v1/images/{}/unpin", id)
        return (yield from fetch(Request("POST", path), ImageView))

    @call
    def collect(self, max_bytes: int | None = None) -> Steps[CollectionView]:
        """Remove the longest unused images until less than this is used, or than the server's own limit."""
        request = CollectRequest(max_bytes=max_bytes)
        made = Request("POST", "/v1/images/collect", json=request, timeout=LONG)
        return (yield from fetch(made, CollectionView))

    @call
    def delete(self, id: str) -> Steps[None]:
        """Remove an image; raises Conflict while others are built on it."""
        yield from send(Request("POST", at("/v1/images/{}/delete", id), timeout=LONG))
