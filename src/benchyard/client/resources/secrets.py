"""Secrets, whose values go in and never come out; and API keys."""

from benchyard.client.listings import items_of_pages
from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import Flow, Request, Steps, at, fetch, send
from benchyard.errors import NotFound
from benchyard.models.account import ApiKeyCreatedView, ApiKeyRequest, ApiKeyView
from benchyard.models.secrets import SecretListView, SecretView

ALL = 5000


class Secrets(VerbGroup[S]):
    """The secrets of a server."""

    @call
    def create(self, name: str, value: str) -> Steps[SecretView]:
        """Make a secret; raises UsageError if the name is taken."""
        request = Request("POST", "/v1/secrets", json={"name": name, "value": value})
        return (yield from fetch(request, SecretView))

    @call
    def update(self, name: str, value: str) -> Steps[SecretView]:
        """Change the value of a secret; raises NotFound."""
        request = Request("POST", at("/v1/secrets/{}", name), json={"value": value})
        return (yield from fetch(request, SecretView))

    @call
    def set(self, name: str, value: str) -> Steps[SecretView]:
        """Change the value, or make the secret if none has that name."""
        try:
            return (yield from self.update.steps(name, value))
        except NotFound:
            return (yield from self.create.steps(name, value))

    @call
    def get(self, name: str) -> Steps[SecretView]:
        """Look a secret up, without its value; raises NotFound."""
        return (yield from fetch(Request("GET", at("/v1/secrets/{}", name)), SecretView))

    @call
    def list(self) -> Steps[list[SecretView]]:
        """Return all secrets, without their values."""
        return (yield from fetch(Request("GET", "/v1/secrets", {"limit": ALL}), SecretListView)).secrets

    @call
    def delete(self, name: str) -> Steps[None]:
        """Remove a secret; raises NotFound."""
        yield from send(Request("POST", at("/v1/secrets/{}/delete", name)))


class Keys(VerbGroup[S]):
    """The API keys of a server."""

    @call
    def create(self, request: ApiKeyRequest) -> Steps[ApiKeyCreatedView]:
        """Make a key; only this answer holds its secret."""
        return (yield from fetch(Request("POST", "/v1/apikeys", json=request), ApiKeyCreatedView))

    @items
    def list(self, limit: int | None = None) -> Flow[ApiKeyView]:
        """Yield keys, newest first, without their secrets."""
        yield from items_of_pages(Request("GET", "/v1/apikeys"), "apikeys", ApiKeyView, limit)

    @call
    def revoke(self, id: str) -> Steps[None]:
        """Revoke a key for good."""
        yield from send(Request("POST", at("/v1/apikeys/{}/revoke", id)))
