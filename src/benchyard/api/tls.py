"""TLS of a running server: its certificate is looked after for as long as it runs."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from benchyard.api.certificates import Certificate, GivenCertificate, OwnCertificate, now
from benchyard.api.log import logger
from benchyard.errors import UsageError
from benchyard.settings import Settings

LOOK_SECONDS = 600.0
_HTTP2 = "h2"


@dataclass(frozen=True)
class Tls:
    """How a server encrypts, and what it shows."""

    context: ssl.SSLContext
    certificate: Certificate
    names: "WeakKeyDictionary[ssl.SSLObject, str]"
    """Which name the client of each open connection asked for."""


@asynccontextmanager
async def open_tls(settings: Settings, look_seconds: float = LOOK_SECONDS) -> AsyncIterator[Tls | None]:
    """TLS as the settings ask for it, None for none; raises UsageError where it cannot be had."""
    certificate = _certificate(settings)
    if certificate is None:
        yield None
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([_HTTP2, "http/1.1"])
    certificate.refresh(now())
    certificate.load(context)
    names: WeakKeyDictionary[ssl.SSLObject, str] = WeakKeyDictionary()

    def note(connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        if name is not None:
            names[connection] = name

    context.sni_callback = note
    looking = asyncio.create_task(_look_after(certificate, context, look_seconds))
    try:
        yield Tls(context, certificate, names)
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


def is_http2(transport: asyncio.BaseTransport) -> bool:
    """Whether both sides settled on HTTP/2 when the encryption began."""
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return encrypted is not None and encrypted.selected_alpn_protocol() == _HTTP2


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
