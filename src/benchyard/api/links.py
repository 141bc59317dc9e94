"""Signed links: each allows one action on one object until it expires, without a key."""

import hmac
import time
from typing import Annotated, Literal

from fastapi import Depends, Query, Request

from benchyard.api.deps import Services, ServicesDep, services_of
from benchyard.errors import Forbidden

UPLOAD_SECONDS = 24 * 3600

Verb = Literal["upload", "download"]


def signed_link(request: Request, verb: Verb, object_id: str, seconds: int) -> str:
    """Return a link to this server, below the address of the request or the public URL of the settings."""
    services = services_of(request)
    expires = int(time.time()) + seconds
    signature = _signature(services, verb, object_id, expires)
    return f"{_base(request)}/objects/{verb}/{object_id}?expires={expires}&signature={signature}"


def outside_url(request: Request, run_id: str, provider: str) -> str:
    """Return the URL at which code outside of a run's devbox calls models, with the run's token."""
    return f"{_base(request)}/gateway/{run_id}/{provider}"


def _base(request: Request) -> str:
    return (services_of(request).settings.public_url or str(request.base_url)).rstrip("/")


def _may(verb: Verb, services: Services, id: str, expires: int, signature: str) -> str:
    if not hmac.compare_digest(_signature(services, verb, id, expires).encode(), signature.encode()):
        raise Forbidden("this link's signature is invalid; ask for a new link")
    if expires < time.time():
        raise Forbidden("this link has expired; ask for a new one")
    return id


async def _may_upload(
    id: str, services: ServicesDep, expires: int, signature: Annotated[str, Query(max_length=200)]
) -> str:
    return _may("upload", services, id, expires, signature)


async def _may_download(
    id: str, services: ServicesDep, expires: int, signature: Annotated[str, Query(max_length=200)]
) -> str:
    return _may("download", services, id, expires, signature)


UploadId = Annotated[str, Depends(_may_upload)]
DownloadId = Annotated[str, Depends(_may_download)]


def _signature(services: Services, verb: Verb, object_id: str, expires: int) -> str:
    return services.vault.derive("links", f"{verb}\0{object_id}\0{expires}").hex()
