"""TLS of a running server, and its certificate, either given or issued by the server itself."""

import asyncio
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from weakref import WeakKeyDictionary

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from benchyard.api.log import logger
from benchyard.errors import UsageError
from benchyard.settings import Settings
from benchyard.store.vault import write_private

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 397
"""Some clients reject certificates with a longer validity."""
RENEW_DAYS = 30
LOCAL_DOMAIN = "localhost"
LOCAL_ADDRESSES = ("127.0.0.1", "::1")

_DOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)


class Certificate(ABC):
    """The server's certificate; `chain` and `key` are the files it is loaded from."""

    chain: Path
    key: Path
    trusted: Path
    """File with the certificate that a client on this machine trusts, to know this server and no other."""

    @property
    def advice(self) -> str:
        """Instructions for clients to trust the certificate; empty if they trust it already."""
        return ""

    @abstractmethod
    def refresh(self, now: datetime) -> bool:
        """Make sure that the files are valid; return whether they have changed since the last call."""

    def load(self, context: ssl.SSLContext) -> None:
        """Use the certificate for new connections; raises UsageError if the files do not fit together."""
        for tls in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
            try:
                tls.load_cert_chain(self.chain, self.key, password="")
            except (OSError, ValueError) as error:
                raise UsageError(
                    f"{self.chain} and {self.key} are not a certificate and its key: {error}; "
                    "give PEM files, the key without a password"
                ) from error


class GivenCertificate(Certificate):
    """Files that the user creates and renews; a client on this machine trusts the first of the chain."""

    def __init__(self, chain: Path, key: Path, trusted: Path) -> None:
        self.chain = chain
        self.key = key
        self.trusted = trusted
        self._seen: tuple[int, ...] = ()

    def refresh(self, now: datetime) -> bool:
        try:
            seen = tuple(path.stat().st_mtime_ns for path in (self.chain, self.key))
            if seen == self._seen:
                return False
        except OSError as error:
            raise UsageError(f"cannot read a certificate and its key: {error}") from error
        self._seen = seen
        return True

    def load(self, context: ssl.SSLContext) -> None:
        super().load(context)
        first = x509.load_pem_x509_certificates(self.chain.read_bytes())[0]
        self.trusted.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(self.trusted, first.public_bytes(Encoding.PEM).decode())


class OwnCertificate(Certificate):
    """A certificate for one domain, with its own authority, which can sign for no other domain."""

    def __init__(self, folder: Path, domain: str) -> None:
        if not _DOMAIN.fullmatch(domain):
            raise UsageError(f"{domain!r} is not a domain; give one such as api.example.test")
        self._folder = folder
        self._domains = sorted({domain, LOCAL_DOMAIN})
        base = domain.removeprefix("api.")
        self._below = [f"tunnel.{base}", f"ssh.{base}"]
        self._authority_key = folder / "ca-key.pem"
        self.trusted = folder / "ca.pem"
        self.chain = self.key = folder / "server.pem"

    def refresh(self, now: datetime) -> bool:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        authority = self._kept_authority(now) or self._new_authority(now)
        if self._is_good(authority[0], now):
            return False
        self._sign(*authority, now)
        return True

    @property
    def advice(self) -> str:
        domain = next((each for each in self._domains if each != LOCAL_DOMAIN), LOCAL_DOMAIN)
        return (
            f"benchyard: its certificate is for {domain}\n"
            "benchyard: that name must resolve to this machine; clients trust it by\n"
            f"  SSL_CERT_FILE={self.trusted}        (Python)\n"
            f"  NODE_EXTRA_CA_CERTS={self.trusted}  (Node)\n"
            f"  --cacert {self.trusted}             (curl)"
        )

    def _kept_authority(self, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None:
        try:
            certificate = x509.load_pem_x509_certificate(self.trusted.read_bytes())
            key = load_pem_private_key(self._authority_key.read_bytes(), None)
            allowed = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
        except (OSError, ValueError, x509.ExtensionNotFound):
            return None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            return None
        is_good = allowed == self._constraints() and _lasts(certificate, now, CERTIFICATE_DAYS)
        return (certificate, key) if is_good else None

    def _new_authority(self, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"Benchyard authority of {self._domains[0]}"[:64])
        builder = _builder(name, name, key.public_key(), now, AUTHORITY_DAYS)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(self._constraints(), critical=True)
            .sign(key, SHA256())
        )
        write_private(self._authority_key, _pem(key))
        write_private(self.trusted, certificate.public_bytes(Encoding.PEM).decode())
        return certificate, key

    def _constraints(self) -> x509.NameConstraints:
        domains = [x509.DNSName(domain) for domain in (*self._domains, *self._below)]
        addresses = [x509.IPAddress(ip_network(address)) for address in LOCAL_ADDRESSES]
        return x509.NameConstraints(permitted_subtrees=[*domains, *addresses], excluded_subtrees=None)

    def _names(self) -> x509.SubjectAlternativeName:
        names = [*self._domains, *self._below, *(f"*.{name}" for name in self._below)]
        domains = [x509.DNSName(name) for name in names]
        return x509.SubjectAlternativeName(
            [*domains, *(x509.IPAddress(ip_address(address)) for address in LOCAL_ADDRESSES)]
        )

    def _is_good(self, authority: x509.Certificate, now: datetime) -> bool:
        try:
            certificate = x509.load_pem_x509_certificate(self.chain.read_bytes())
            certificate.verify_directly_issued_by(authority)
        except (OSError, ValueError, TypeError, InvalidSignature):
            return False
        return _lasts(certificate, now, RENEW_DAYS)

    def _sign(self, authority: x509.Certificate, signer: ec.EllipticCurvePrivateKey, now: datetime) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = _builder(
            _name("Benchyard server"), authority.subject, key.public_key(), now, CERTIFICATE_DAYS
        )
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(issuer, critical=False)
            .add_extension(self._names(), critical=False)
            .sign(signer, SHA256())
        )
        # One file for both, so that a crash leaves either the old pair or the new one.
        write_private(self.chain, certificate.public_bytes(Encoding.PEM).decode() + _pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # Clocks of clients may be behind.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _lasts(certificate: x509.Certificate, now: datetime, days: int) -> bool:
    left = certificate.not_valid_after_utc - now
    return certificate.not_valid_before_utc <= now and left > timedelta(days=days)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def certificate_now() -> datetime:
    """Return the current time in UTC, as certificates use it."""
    return datetime.now(UTC)


LOOK_SECONDS = 600.0
_HTTP2 = "h2"


@dataclass(frozen=True)
class Tls:
    """TLS context of a server, and its certificate."""

    context: ssl.SSLContext
    certificate: Certificate
    names: "WeakKeyDictionary[ssl.SSLObject, str]"
    """Server name that the client of each open connection asked for."""


@asynccontextmanager
async def open_tls(settings: Settings, look_seconds: float = LOOK_SECONDS) -> AsyncIterator[Tls | None]:
    """Open TLS as the settings ask for it, or yield None; raises UsageError if it is not possible."""
    certificate = _certificate(settings)
    if certificate is None:
        yield None
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([_HTTP2, "http/1.1"])
    certificate.refresh(certificate_now())
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
    """Tell whether both sides chose HTTP/2 in the TLS handshake."""
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return encrypted is not None and encrypted.selected_alpn_protocol() == _HTTP2


def _certificate(settings: Settings) -> Certificate | None:
    folder = settings.data / "tls"
    if settings.tls_cert and settings.tls_key:
        return GivenCertificate(settings.tls_cert, settings.tls_key, folder / "given.pem")
    if not settings.tls_self_signed:
        return None
    return OwnCertificate(folder, (settings.tls_domain or LOCAL_DOMAIN).lower())


async def _look_after(certificate: Certificate, context: ssl.SSLContext, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            if certificate.refresh(certificate_now()):
                certificate.load(context)
                logger.info("the certificate was renewed")
        except (UsageError, OSError) as error:
            # The old certificate stays in use; a pair being written is complete at the next look.
            logger.warning("the certificate could not be renewed, will try again: %s", error)
