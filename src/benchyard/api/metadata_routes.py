"""Routes that list the metadata keys and values in use: the same for every noun that has metadata."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from benchyard.api.deps import Services, ServicesDep
from benchyard.models.pages import MetadataKeys, MetadataValues, Where
from benchyard.store.collection import Collection


def add_metadata_routes(
    router: APIRouter,
    records: Callable[[Services], Collection[Any]],
    where: Where,
    *,
    path: str = "",
    public: tuple[str, Where] | None = None,
) -> None:
    """Add the routes for records that match `where`; with `public`, also for a server's public ones."""

    @router.get(path + "/metadata/keys")
    async def metadata_keys(services: ServicesDep) -> MetadataKeys:
        """List the metadata keys in use."""
        return MetadataKeys(keys=await records(services).metadata_keys(where))

    @router.get(path + "/metadata/keys/{key}/values")
    async def metadata_values(key: str, services: ServicesDep) -> MetadataValues:
        """List the values in use for a metadata key."""
        return MetadataValues(key=key, values=await records(services).metadata_values(key, where))

    if public is None:
        return
    noun, where_public = public

    @router.get(
        path + "/metadata/keys/public", description=f"List the metadata keys in use by public {noun}."
    )
    async def public_metadata_keys(services: ServicesDep) -> MetadataKeys:
        return MetadataKeys(keys=await records(services).metadata_keys(where_public))

    @router.get(
        path + "/metadata/keys/{key}/values/public",
        description=f"List the values in use by public {noun} for a metadata key.",
    )
    async def public_metadata_values(key: str, services: ServicesDep) -> MetadataValues:
        return MetadataValues(key=key, values=await records(services).metadata_values(key, where_public))
