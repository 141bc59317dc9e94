"""The server's secret key: encrypts stored values, and is the root of keys for other purposes."""

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from benchyard.errors import StoreError


class Vault:
    """Encrypts and decrypts values with the key in a file (0600), which is created at the first start."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._key = _read_or_make(file)
        self._cipher = Fernet(self._key)
        self._roots: dict[str, bytes] = {}

    def seal(self, value: str) -> str:
        """Return the value, encrypted and authenticated."""
        return self._cipher.encrypt(value.encode()).decode()

    def open(self, sealed: str) -> str:
        """Return the decrypted value; raises StoreError if it was sealed with another key."""
        try:
            return self._cipher.decrypt(sealed.encode()).decode()
        except InvalidToken as error:
            raise StoreError(
                f"a secret was sealed with another key than the one in {self._file.name}; "
                "put the old key file back, or set the secret again"
            ) from error

    def seal_variables(self, variables: Mapping[str, str]) -> str:
        """Encrypt the variables of an environment; return an empty text if there are none."""
        return self.seal(json.dumps(dict(variables))) if variables else ""

    def open_variables(self, sealed: str | Mapping[str, str]) -> dict[str, str]:
        """Decrypt variables; unsealed ones of an earlier version are accepted. Raises StoreError."""
        if isinstance(sealed, str):
            variables: dict[str, str] = json.loads(self.open(sealed)) if sealed else {}
            return variables
        return dict(sealed)

    def derive(self, purpose: str, message: str = "") -> bytes:
        """Return 32 bytes that only this server can compute, for one purpose and message."""
        root = self._roots.get(purpose)
        if root is None:
            root = self._roots[purpose] = hmac.digest(self._key, purpose.encode(), hashlib.sha256)
        return hmac.digest(root, message.encode(), hashlib.sha256)


def write_private(file: Path, content: str) -> None:
    """Write a file that only its owner may read, whole or not at all, synced to disk when this returns."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(descriptor)
    partial.rename(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read_or_make(file: Path) -> bytes:
    if not file.exists():
        write_private(file, Fernet.generate_key().decode())
    key = file.read_text().strip().encode()
    try:
        Fernet(key)
    except ValueError as error:
        raise StoreError(f"{file} does not hold a key; restore it from a backup") from error
    return key
