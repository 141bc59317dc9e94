"""Names for completion: the kind that each parameter takes, and the names the server has."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import httpx
from click.shell_completion import CompletionItem

from benchyard.benchmarks import catalog
from benchyard.client.servers import configured_server, recorded_server
from benchyard.client.sessions import tls_context
from benchyard.settings import default_data_folder

TIMEOUT_SECONDS = 1.5
PAGE = 100
MOST = 200
LONGEST = 200
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class NameSource:
    """Route that lists the names of a kind."""

    path: str
    key: str
    field: str = "name"
    """Field of the name; the id is completed for items without one, and when an id is typed."""


SOURCES: Mapping[str, Sequence[NameSource]] = {
    "agent": (NameSource("/v1/agents", "agents"), NameSource("/v1/agents/list_public", "agents")),
    "benchmark": (
        NameSource("/v1/benchmarks", "benchmarks"),
        NameSource("/v1/benchmarks/list_public", "benchmarks"),
    ),
    "blueprint": (NameSource("/v1/blueprints", "blueprints"),),
    "devbox": (NameSource("/v1/devboxes?status=running", "devboxes"),),
    "gateway-config": (NameSource("/v1/gateway-configs", "gateway_configs"),),
    "image": (NameSource("/v1/images", "images"),),
    "job": (NameSource("/v1/benchmark_jobs", "jobs"),),
    "key": (NameSource("/v1/apikeys", "apikeys", "id"),),
    "network-policy": (NameSource("/v1/network-policies", "network_policies"),),
    "object": (NameSource("/v1/objects", "objects", "id"),),
    "run": (NameSource("/v1/scenarios/runs", "runs", "id"),),
    "scenario": (
        NameSource("/v1/scenarios", "scenarios"),
        NameSource("/v1/scenarios/list_public", "scenarios"),
    ),
    "secret": (NameSource("/v1/secrets", "secrets"),),
    "snapshot": (NameSource("/v1/devboxes/disk_snapshots", "snapshots"),),
}

_OF_NOUN = ("id", "ids", "given", "name", "names", "policy", "policies")
"""Arguments that name an item of the command's noun."""
_NEW = ("create", "new", "register", "set", "import", "pull")
"""Verbs with a new name as argument."""
_ANYWHERE = {
    "agents": "agent",
    "agent": "agent",
    "benchmark": "benchmark",
    "devbox": "devbox",
    "job": "job",
    "like": "job",
    "scenario": "scenario",
    "scenarios": "scenario",
    "network_policy": "network-policy",
    "secrets": "=secret",
    "secret": "=secret",
    "blueprint": "origin",
    "image": "origin",
    "snapshot": "snapshot",
    "context": "file",
    "folder": "file",
    "path": "file",
    "source": "file",
    "target": "file",
}
"""Kinds of name by parameter, the same in all commands."""
_OF_COMMAND = {
    ("agent", "register"): {"object_": "object"},
    ("benchmark", "import"): {"given": "public"},
    ("image", "alias"): {"image": "image"},
    ("secret", "set"): {"name": "secret"},
}
_NOUNS = {"trial": "job"}
"""Nouns with verbs that take an item of another noun first."""


def kinds(path: Sequence[str], params: Sequence[click.Parameter]) -> dict[str, str]:
    """Return the kind of name that each parameter of a command takes."""
    noun, verb = path[0], path[-1]
    found: dict[str, str] = {}
    for param in params:
        name = param.name or ""
        if not isinstance(param.type, click.types.StringParamType):
            continue
        special = _OF_COMMAND.get((noun, verb), {}).get(name)
        if special:
            found[name] = special
        elif isinstance(param, click.Argument) and name in _OF_NOUN and verb not in _NEW:
            found[name] = _NOUNS.get(noun, noun)
        elif name in _ANYWHERE:
            found[name] = _ANYWHERE[name]
    return {name: kind for name, kind in found.items() if kind.lstrip("=") in {*SOURCES, *_SPECIAL}}


def items(kind: str, incomplete: str, environ: Mapping[str, str]) -> list[CompletionItem]:
    """Return the completions of an incomplete word, of one kind."""
    if kind == "file":
        return [CompletionItem(incomplete, type="file")]
    before = ""
    if kind.startswith("="):
        before, equals, incomplete = incomplete.partition("=")
        if not equals:
            return []
        before, kind = f"{before}=", kind[1:]
    found = dict.fromkeys(_names(kind, incomplete, environ))
    matching = [name for name in found if name.startswith(incomplete)][:MOST]
    return [CompletionItem(before + name) for name in matching]


def _names(kind: str, incomplete: str, environ: Mapping[str, str]) -> Iterator[str]:
    if kind == "public":
        yield from catalog.names()
        return
    server = configured_server(environ) or recorded_server(default_data_folder(environ).absolute())
    if server is None:
        return
    with httpx.Client(
        base_url=server.url,
        headers={"authorization": f"Bearer {server.key}"},
        timeout=TIMEOUT_SECONDS,
        trust_env=False,
        verify=tls_context(server) or True,
    ) as http:
        for source in [each for name in _SPECIAL.get(kind, (kind,)) for each in SOURCES[name]]:
            yield from _listed(http, source, incomplete)
        if kind == "agent":
            yield from _labels(http)


def _listed(http: httpx.Client, source: NameSource, incomplete: str) -> Iterator[str]:
    for each in _page(http, source, incomplete):
        id, name = str(each.get("id", "")), str(each.get(source.field) or "")
        # Anybody with a key may have chosen the name: it must stay one word on one line.
        yield from (text for text in (name or id, id if incomplete else "") if _is_word(text))


def _labels(http: httpx.Client) -> Iterator[str]:
    """Yield the agents of the last jobs, with their models."""
    for each in _page(http, SOURCES["job"][0], ""):
        for config in each.get("job_spec", {}).get("agent_configs", []):
            if config.get("model_name") and _is_word(label := f"{config['name']}:{config['model_name']}"):
                yield label


def _page(http: httpx.Client, source: NameSource, incomplete: str) -> list[dict[str, Any]]:
    query: dict[str, str | int] = {"limit": PAGE, **({"search": incomplete} if incomplete else {})}
    try:
        answer = http.get(httpx.URL(source.path).copy_merge_params(query))
        listed = answer.json()[source.key] if answer.status_code == httpx.codes.OK else []
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return []
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _is_word(text: str) -> bool:
    return len(text) <= LONGEST and _PRINTABLE.fullmatch(text) is not None


_SPECIAL: Mapping[str, Sequence[str]] = {"file": (), "public": (), "origin": ("blueprint", "image")}
"""Nouns that make up each kind which is no noun itself."""
