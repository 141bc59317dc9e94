"""The agents there are, with the keys that each needs and whether they are there."""

import os
from collections.abc import Callable, Mapping

from benchyard.agents import providers
from benchyard.cli.render import age
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.wanted import AgentPageFields
from benchyard.models.agents import AgentView

_PAGE = 100


class ListedAgent(AgentView):
    """An agent in a list."""

    missing_keys: dict[str, list[str]] | None = None
    """Provider -> the variables any of which would open it, where neither server nor caller has one."""


COLUMNS: Mapping[str, Callable[[ListedAgent], object]] = {
    "NAME": lambda view: view.name,
    "VERSION": lambda view: view.version,
    "INSTALLED": lambda view: ", ".join(view.installed_versions or []),
    "MISSING KEY": lambda view: _missing_key(view),
    "SERVER LACKS": lambda view: ", ".join(view.server_lacks or []),
    "FROM": lambda view: view.source.type if view.source else None,
    "SOURCE": lambda view: view.source.described() if view.source else None,
    "AGE": lambda view: None if view.is_public else age(view.create_time_ms),
    "ID": lambda view: view.id,
}
"""`agent show` tells which keys an agent takes."""
NARROW = Narrow(shorten=["NAME", "SOURCE"], drop=["ID", "AGE", "SOURCE", "FROM"])


def _missing_key(view: ListedAgent) -> str:
    """The providers any of whose keys would do, where there is none yet."""
    missing = view.missing_keys or {}
    return " or ".join(missing) if len(missing) == len(view.keys or {}) else ""


def listed(
    client: Client, name: str | None, *, own: bool, environ: Mapping[str, str] = os.environ
) -> list[ListedAgent]:
    """Users' own agents, newest first, where they are asked for; then those that come with the server."""
    query: AgentPageFields = {"limit": _PAGE, "name": name} if name else {"limit": _PAGE}
    found = list(client.agents.list(**query)) if own else []
    public = sorted(client.agents.list_public(**query), key=lambda view: view.name)
    has_keys = any(view.keys for view in public)
    secrets = {secret.name for secret in client.secrets.list()} if has_keys else set()
    given = {variable for variable, value in environ.items() if value}
    return [_with_missing(view, secrets, given) for view in [*found, *public]]


def _with_missing(view: AgentView, secrets: set[str], given: set[str]) -> ListedAgent:
    missing = providers.missing(view.keys, secrets, given) if view.keys else None
    return ListedAgent.model_validate({**view.model_dump(), "missing_keys": missing})


def told(keys: Mapping[str, list[str]] | None) -> str:
    """Keys in one line."""
    return "; ".join(
        f"{provider}: {' or '.join(names) or 'none needed'}" for provider, names in (keys or {}).items()
    )
