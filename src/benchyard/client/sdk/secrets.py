"""Secrets as objects: their values go in and never come out."""

from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Steps
from benchyard.client.resources.secrets import Secrets
from benchyard.models.secrets import SecretView


class Secret(VerbGroup[S]):
    """A named value that devboxes get in their environment."""

    def __init__(self, session: S, name: str, id: str | None = None) -> None:
        super().__init__(session)
        self.name = name
        self.id = id
        """None until the server has answered."""

    def __repr__(self) -> str:
        return f"<Secret {self.name}>"

    @call
    def get_info(self) -> Steps[SecretView]:
        """Return its id and the times of its creation and last change; raises NotFound."""
        return (yield from Secrets(self.session).get.steps(self.name))

    @call
    def update(self, value: str) -> Steps[SecretView]:
        """Change its value; raises NotFound."""
        return (yield from Secrets(self.session).update.steps(self.name, value))

    @call
    def delete(self) -> Steps[None]:
        """Remove it; raises NotFound."""
        yield from Secrets(self.session).delete.steps(self.name)


class SecretOps(VerbGroup[S]):
    """Makes and finds secrets."""

    @call
    def create(self, name: str, value: str) -> Steps[Secret[S]]:
        """Make a secret; raises UsageError if the name is taken."""
        view = yield from Secrets(self.session).create.steps(name, value)
        return Secret(self.session, view.name, view.id)

    def from_name(self, name: str) -> Secret[S]:
        """Return the secret of that name, without a request to the server."""
        return Secret(self.session, name)

    @call
    def update(self, secret: Secret[S] | str, value: str) -> Steps[Secret[S]]:
        """Change the value of a secret; raises NotFound."""
        name = secret if isinstance(secret, str) else secret.name
        view = yield from Secrets(self.session).update.steps(name, value)
        return Secret(self.session, view.name, view.id)

    @call
    def delete(self, secret: Secret[S] | str) -> Steps[None]:
        """Remove a secret; raises NotFound."""
        name = secret if isinstance(secret, str) else secret.name
        yield from Secrets(self.session).delete.steps(name)

    @call
    def list(self, limit: int | None = None) -> Steps[list[Secret[S]]]:
        """List secrets; all, or at most `limit`."""
        views = yield from Secrets(self.session).list.steps()
        return [Secret(self.session, view.name, view.id) for view in views[:limit]]
