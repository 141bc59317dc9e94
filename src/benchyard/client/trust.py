"""Which certificate a client takes for the server's."""

import ssl
from urllib.parse import urlsplit

import httpx

from benchyard.client.core import Server
from benchyard.errors import ServerUnreachable


def tls_context(server: Server) -> ssl.SSLContext | None:
    """What a server's certificate is checked against; None where there is no TLS.

    For a server of this machine it is what that server left for its clients, and only that; any name will
    do then, since nobody else has the key. For all others it is `SSL_CERT_FILE`, else what is known publicly.
    """
    if urlsplit(server.url).scheme != "https":
        return None
    if server.trusted is None:
        return httpx.create_ssl_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(server.trusted)
    except OSError as error:
        raise ServerUnreachable(
            f"cannot read {server.trusted}, by which the local server is known: {error}; restart the server"
        ) from error
    return context
