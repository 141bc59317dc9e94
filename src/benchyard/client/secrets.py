"""Secrets by name; their values go in and never come out."""

from benchyard.client.core import Request, Steps, at, fetch, send
from benchyard.client.verbs import Group, S, call
from benchyard.errors import NotFound
from benchyard.models.secrets import SecretListView, SecretView

ALL = 5000


class Secrets(Group[S]):
    """The secrets of a server."""

    @call
    def create(self, name: str, value: str) -> Steps[SecretView]:
        """Make a new one; raises UsageError if the name is taken."""
        return (yield from create(name, value))

    @call
    def update(self, name: str, value: str) -> Steps[SecretView]:
        """Change the value; raises NotFound."""
        return (yield from update(name, value))

    @call
    def set(self, name: str, value: str) -> Steps[SecretView]:
        """Change the value, or make it when there is none of that name."""
        try:
            return (yield from update(name, value))
        except NotFound:
            return (yield from create(name, value))

    @call
    def get(self, name: str) -> Steps[SecretView]:
        """Look one up (not its value); raises NotFound."""
        return (yield from get(name))

    @call
    def list(self) -> Steps[list[SecretView]]:
        """All of them, without their values."""
        return (yield from everything())

    @call
    def delete(self, name: str) -> Steps[None]:
        """Remove one; raises NotFound."""
        yield from delete(name)


def create(name: str, value: str) -> Steps[SecretView]:
    """Make a secret."""
    return (yield from fetch(Request("POST", "/v1/secrets", json={"name": name, "value": value}), SecretView))


def update(name: str, value: str) -> Steps[SecretView]:
    """Change the value of a secret."""
    return (yield from fetch(Request("POST", at("/v1/secrets/{}", name), json={"value": value}), SecretView))


def get(name: str) -> Steps[SecretView]:
    """Look a secret up, but for its value."""
    return (yield from fetch(Request("GET", at("/v1/secrets/{}", name)), SecretView))


def everything() -> Steps[list[SecretView]]:
    """All secrets, without their values."""
    return (yield from fetch(Request("GET", "/v1/secrets", {"limit": ALL}), SecretListView)).secrets


def delete(name: str) -> Steps[None]:
    """Remove a secret."""
    yield from send(Request("POST", at("/v1/secrets/{}/delete", name)))
