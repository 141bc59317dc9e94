"""Secrets: stored sealed, given to devboxes, never shown."""

import time

from benchyard.errors import Conflict, NotFound, StoreError, UsageError
from benchyard.models.pages import Page, Query
from benchyard.models.secrets import Secret, SecretRequest
from benchyard.store.database import Store
from benchyard.store.vault import Vault

SECRET_PREFIX = "sec_"  # noqa: S105  (an id's prefix)


class Secrets:
    """The secrets of this server."""

    def __init__(self, store: Store, vault: Vault) -> None:
        self._records = store.collection("secrets", Secret)
        self._vault = vault

    async def unreadable(self) -> list[str]:
        """Return the names of secrets that were sealed with another key than the present one."""
        names = []
        for secret in await self._records.all({}):
            try:
                self._vault.open(secret.sealed)
            except StoreError:
                names.append(secret.name)
        return sorted(names)

    async def create(self, id: str, request: SecretRequest, request_hash: str | None) -> Secret:
        """Store a new secret; raises UsageError if its name is taken."""
        now = time.time_ns() // 1_000_000
        record = Secret(
            id=id,
            create_time_ms=now,
            update_time_ms=now,
            request_hash=request_hash,
            name=request.name,
            sealed=self._vault.seal(request.value.get_secret_value()),
        )
        try:
            stored, _ = await self._records.insert_once(record)
        except Conflict as error:
            raise UsageError(f"there is a secret called {request.name}; update it instead") from error
        return stored

    async def get(self, name: str) -> Secret:
        """Return the secret with this name; raises NotFound."""
        found = await self._records.find_named(name)
        if found is None:
            raise NotFound(f"no secret is called {name[:200]}; `benchyard secret list` shows those there are")
        return found

    async def get_by_id(self, id: str) -> Secret:
        """Return the secret with this id; raises NotFound."""
        return await self._records.get(id)

    async def update(self, id: str, value: str) -> Secret:
        """Change the value of a secret."""
        new = {"sealed": self._vault.seal(value), "update_time_ms": time.time_ns() // 1_000_000}
        return await self._records.change(id, lambda secret: secret.model_copy(update=new))

    async def delete(self, id: str) -> None:
        """Delete a secret; devboxes that have its value keep it."""
        await self._records.delete(id)

    async def page(self, query: Query) -> Page[Secret]:
        """Return a page of secrets, newest first."""
        return await self._records.page(query)

    async def find(self, given: str) -> Secret:
        """Return the secret with this name or id; raises NotFound."""
        by_id = await self._records.find(given) if given.startswith(SECRET_PREFIX) else None
        return by_id or await self.get(given)

    async def value(self, name: str) -> str:
        """Return the value of a secret by its name or id; raises NotFound."""
        return self._vault.open((await self.find(name)).sealed)
