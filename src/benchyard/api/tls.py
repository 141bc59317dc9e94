"""TLS of a running server: its certificate is looked after for as long as it runs."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from benchyard.api.certificates import Certificate, GivenCertificate, OwnCertificate, now
from benchyard.api.log import logger
from benchyard.errors import UsageError
from benchyard.settings import Settings

LOOK_SECONDS = 600.0


@dataclass(frozen=True)
class Tls:
    """How a server encrypts, and what it shows."""

    context: ssl.SSLContext
    certificate: Certificate


@asynccontextmanager
async def open_tls(settings: Settings, look_seconds: float = LOOK_SECONDS) -> AsyncIterator[Tls | None]:
    """TLS as the settings ask for it, None for none; raises UsageError where it cannot be had."""
    certificate = _certificate(settings)
    if certificate is None:
        yield None
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    certificate.refresh(now())
    certificate.load(context)
    looking = asyncio.create_task(_look_after(certificate, context, look_seconds))
    try:
        yield Tls(context, certificate)
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


def _certificate(settings: Settings) -> Certificate | None:
    folder = settings.data / "tls"
    if settings.tls_cert and settings.tls_key:
        return GivenCertificate(settings.tls_cert, settings.tls_key, folder / "given.pem")
    return OwnCertificate(folder, settings.tls_domain) if settings.tls_domain else None


async def _look_after(certificate: Certificate, context: ssl.SSLContext, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            if certificate.refresh(now()):
                certificate.load(context)
                logger.info("the certificate was renewed")
        except (UsageError, OSError) as error:
            # The old one is still shown; a pair that is being written is whole at the next look.
            logger.warning("the certificate could not be renewed, will try again: %s", error)
