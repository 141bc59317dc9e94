"""Keys that open the server: create, check, revoke."""

import base64
import hashlib
import hmac
import logging
from pathlib import Path

from benchyard.engine.clock import now_ms
from benchyard.engine.ids import random_id
from benchyard.errors import Unauthorized
from benchyard.models.account import ApiKey, ApiKeyRequest
from benchyard.models.pages import Page, Query
from benchyard.store.database import Store
from benchyard.store.vault import Vault, write_private

_log = logging.getLogger(__name__)

KEY_PREFIX = "key_"
_FIRST = "first"
_SECRET_PREFIX = "by_"  # noqa: S105  (prefix of secrets, so that leaked ones are recognised)


class ApiKeys:
    """All keys; held in memory as hashes, since every request asks for one."""

    def __init__(self, store: Store, vault: Vault) -> None:
        self._records = store.collection("api_keys", ApiKey)
        self._vault = vault
        self._by_hash: dict[str, ApiKey] = {}

    async def open(self, file: Path) -> None:
        """Load the keys; if none opens, create one and write it to `file` for the owner's command line."""
        await self._load()
        now = now_ms()
        if any(key.opens_at(now) for key in self._by_hash.values()):
            self._see_to(file, now)
            return
        # Write the file first: after a crash in between, the next start uses the secret in it.
        id = random_id(KEY_PREFIX)
        secret = file.read_text().strip() if file.exists() else ""
        if not secret or _hash(secret) in self._by_hash:
            secret = self._secret(id)
            write_private(file, secret + "\n")
        await self._records.insert(ApiKey(id=id, create_time_ms=now, name=_FIRST, key_hash=_hash(secret)))
        await self._load()

    def _see_to(self, file: Path, now: int) -> None:
        """Warn if the key file is missing or useless; write the first key into it again if it is known."""
        given = self._by_hash.get(_hash(file.read_text().strip())) if file.exists() else None
        if given is not None and given.opens_at(now):
            return
        problem = "holds a key that opens nothing any more" if file.exists() else "is gone"
        open_keys = [key for key in self._by_hash.values() if key.opens_at(now)]
        # A secret follows from its key's id, as long as the server's own secret is the same.
        first = [key for key in open_keys if key.name == _FIRST]
        known = [secret for key in first if _hash(secret := self._secret(key.id)) == key.key_hash]
        if known and not file.exists():
            write_private(file, known[0] + "\n")
            _log.warning("%s was gone: it was written again, with a key that opens this server", file)
            return
        _log.warning(
            "%s %s, so that commands on this machine cannot use it: put it back from a backup, or "
            "write a key into it that you have (`benchyard key list` tells of %d that open this server)",
            file,
            problem,
            len(open_keys),
        )

    @property
    def first_ms(self) -> int:
        """Return the time at which the oldest key was made: the server was set up then."""
        return min(key.create_time_ms for key in self._by_hash.values())

    def check(self, secret: str) -> ApiKey:
        """Return the key with this secret; raises Unauthorized."""
        hashed = _hash(secret)
        key = self._by_hash.get(hashed)
        if key is None or not hmac.compare_digest(key.key_hash, hashed):
            raise Unauthorized("this API key is not known here; `benchyard key create` makes one")
        if not key.opens_at(now_ms()):
            raise Unauthorized(
                "this API key was revoked or has expired; `benchyard key create` makes a new one"
            )
        return key

    def name_of(self, id: str) -> str:
        """Return the name of a key; its id if it has none."""
        return next((key.name for key in self._by_hash.values() if key.id == id and key.name), id)

    async def create(self, id: str, request: ApiKeyRequest, request_hash: str | None) -> tuple[ApiKey, str]:
        """Create a key; the same request again returns the same key and secret."""
        secret = self._secret(id)
        record = ApiKey(
            id=id,
            create_time_ms=now_ms(),
            request_hash=request_hash,
            name=request.name or "",
            key_hash=_hash(secret),
            expires_at_ms=request.expires_at_ms,
        )
        stored, _ = await self._records.insert_once(record)
        await self._load()
        return stored, secret

    async def revoke(self, id: str) -> ApiKey:
        """Revoke a key for good; a second call changes nothing."""
        now = now_ms()

        def change(key: ApiKey) -> ApiKey:
            return key if key.revoked_at_ms else key.model_copy(update={"revoked_at_ms": now})

        revoked = await self._records.change(id, change)
        await self._load()
        return revoked

    async def page(self, query: Query) -> Page[ApiKey]:
        """Return a page of keys, newest first."""
        return await self._records.page(query)

    async def _load(self) -> None:
        self._by_hash = {key.key_hash: key for key in await self._records.all({})}

    def _secret(self, id: str) -> str:
        return _SECRET_PREFIX + base64.urlsafe_b64encode(self._vault.derive("api-keys", id)).decode().rstrip(
            "="
        )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
