"""Signed tokens: short texts that give access to one thing for a while, checked without a table."""

import base64
import hmac
import time

from benchyard.errors import Unauthorized
from benchyard.store.vault import Vault

_SIGNATURE_BYTES = 24


def make_token(vault: Vault, purpose: str, subject: str, seconds: int) -> str:
    """Return a token for `subject` and this purpose, valid for this many seconds."""
    claim = f"{int(time.time()) + seconds}:{subject}"
    signature = vault.derive(purpose, claim)[:_SIGNATURE_BYTES]
    return f"{_text(claim.encode())}.{_text(signature)}"


def check_token(vault: Vault, purpose: str, given: str) -> str:
    """Return the subject of a token; raises Unauthorized if it is forged, expired or for another purpose."""
    try:
        claim_text, signature_text = given.split(".")
        claim, signature = _bytes(claim_text).decode(), _bytes(signature_text)
        expires, subject = claim.split(":", 1)
    except ValueError as error:
        raise Unauthorized("this pass cannot be read; ask for a new one") from error
    if not hmac.compare_digest(vault.derive(purpose, claim)[:_SIGNATURE_BYTES], signature):
        raise Unauthorized("this pass is not from this server; ask for a new one")
    if int(expires) < time.time():
        raise Unauthorized("this pass has expired; ask for a new one")
    return subject


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
