"""API keys: make, list and revoke them."""

from benchyard.client.core import Flow, Request, Steps, at, fetch, send
from benchyard.client.pages import pages
from benchyard.client.verbs import Group, S, call, items
from benchyard.models.keys import ApiKeyCreatedView, ApiKeyRequest, ApiKeyView


class Keys(Group[S]):
    """The API keys of a server."""

    @call
    def create(self, request: ApiKeyRequest) -> Steps[ApiKeyCreatedView]:
        """Make a key; only this answer holds its secret."""
        return (yield from fetch(Request("POST", "/v1/apikeys", json=request), ApiKeyCreatedView))

    @items
    def list(self, limit: int | None = None) -> Flow[ApiKeyView]:
        """Newest first, without their secrets."""
        yield from pages(Request("GET", "/v1/apikeys"), "apikeys", ApiKeyView, limit)

    @call
    def revoke(self, id: str) -> Steps[None]:
        """Close a key for good."""
        yield from send(Request("POST", at("/v1/apikeys/{}/revoke", id)))
