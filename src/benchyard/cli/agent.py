"""`benchyard agent`: register your own agents, list all, and show the requirements of each."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, Unpack

import click

from benchyard.agents import catalog, providers
from benchyard.cli.connection import connect
from benchyard.cli.options import name_values
from benchyard.cli.progress import metered, patience
from benchyard.cli.render import age, duration, facts, output_option, pairs, show, show_many, when
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.lookup import find_agent, split_version
from benchyard.client.request_fields import AgentPageFields
from benchyard.errors import NotFound
from benchyard.models.agents import AgentInstallView, AgentView, origin
from benchyard.registry import nearest

_PAGE = 100


class ListedAgent(AgentView):
    """An agent in a list."""

    missing_keys: dict[str, list[str]] | None = None
    """Variables by provider, any of which is a sufficient key, where neither server nor caller has one."""


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
"""Columns of the list; `agent show` lists the keys that an agent takes."""
NARROW = Narrow(shorten=["NAME", "SOURCE"], drop=["ID", "AGE", "SOURCE", "FROM"])


def _missing_key(view: ListedAgent) -> str:
    """Return the providers of which one key would do, if there is none yet."""
    missing = view.missing_keys or {}
    return " or ".join(missing) if len(missing) == len(view.keys or {}) else ""


def list_agents(
    client: Client, name: str | None, *, own: bool, environ: Mapping[str, str] = os.environ
) -> list[ListedAgent]:
    """List users' own agents, newest first, if wanted; then those that come with the server."""
    query: AgentPageFields = {"limit": _PAGE, "name": name} if name else {"limit": _PAGE}
    found = list(client.agents.list(**query)) if own else []
    public = sorted(client.agents.list_public(**query), key=lambda view: view.name)
    has_keys = any(view.keys for view in public)
    secrets = {secret.name for secret in client.secrets.list()} if has_keys else set()
    given = {variable for variable, value in environ.items() if value}
    return [_with_missing(view, secrets, given) for view in [*found, *public]]


def _with_missing(view: AgentView, secrets: set[str], given: set[str]) -> ListedAgent:
    missing = providers.missing_keys(view.keys, secrets, given) if view.keys else None
    return ListedAgent.model_validate({**view.model_dump(), "missing_keys": missing})


def keys_line(keys: Mapping[str, list[str]] | None) -> str:
    """Return keys in one line."""
    return "; ".join(
        f"{provider}: {' or '.join(names) or 'none needed'}" for provider, names in (keys or {}).items()
    )


class RegisterOptions(TypedDict):
    """Options of `register`."""

    npm: str | None
    pip: str | None
    git: str | None
    object: str | None
    ref: str | None
    registry: str | None
    version: str | None
    setup: Sequence[str]
    run: str
    metadata: Sequence[str]


@click.group()
def agent() -> None:
    """Register, list and install agents: the programs that are run on scenarios.

    \b
      benchyard agent register mine --object ./my-agent \\
          --run 'python3 {agent_dir}/agent.py {prompt_file}'
      benchyard agent list
    """


@agent.command()
@click.argument("name")
@click.option("--npm", metavar="PACKAGE", help="From a package of an npm registry.")
@click.option("--pip", metavar="PACKAGE", help="From a package of a Python index.")
@click.option("--git", metavar="URL|FOLDER", help="From a git repository, or a local one as it is committed.")
@click.option("--object", metavar="ID|PATH", help="From an object, or from a local folder or file.")
@click.option(
    "--run",
    required=True,
    metavar="CMD",
    help="Command that runs the agent; {prompt_file} and others are filled in.",
)
@click.option(
    "--version", help="Version of the package to install; for other sources, a name for this version."
)
@click.option("--ref", help="With --git: a branch, tag or commit.")
@click.option(
    "--registry",
    metavar="URL",
    help="With --npm or --pip: take the package from this registry, not from the server's.",
)
@click.option(
    "--setup",
    multiple=True,
    metavar="CMD",
    help="Command to run in the agent's folder when it is installed; repeatable.",
)
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@output_option
def register(name: str, output: str, **options: Unpack[RegisterOptions]) -> None:
    """Register an agent, or a new version of one; it is installed when it is first used.

    In --run these are filled in: {prompt_file}, {model}, {logs}, {workdir}, and {agent_dir}, its own folder.

    \b
      benchyard agent register mine --npm my-agent --version 1.2.0 \\
          --run 'my-agent --prompt {prompt_file}'
      benchyard agent register mine --git https://git.example/me/agent --ref v1 \\
          --run '{agent_dir}/run.sh'
      benchyard agent register mine --object ./folder --setup 'make' \\
          --run '{agent_dir}/agent --model {model}'
    """
    metadata = name_values(options["metadata"], "--metadata") or None
    with connect() as client:
        view = client.agents.register(
            name,
            options["run"],
            npm=options["npm"],
            pip=options["pip"],
            git=options["git"],
            object=options["object"],
            ref=options["ref"],
            registry=options["registry"],
            version=options["version"],
            setup=options["setup"],
            metadata=metadata,
            meter=metered,
        )
    show(view, output, f"{agent_label(view)}  {view.id}")


@agent.command("list")
@click.option("--public", "is_public", is_flag=True, help="Only those that come with the server.")
@click.option("--name", help="Only those with this in their names.")
@output_option
def list_(is_public: bool, name: str | None, output: str) -> None:
    """List agents: your own, newest first, and those that come with the server.

    For the latter, VERSION runs by default, and INSTALLED lists the versions that the server has already. A
    key is missing if neither the server has it as a secret nor you have it as a variable. SERVER LACKS names
    programs that the agent needs to be installed; `benchyard doctor` says how to get them.

    \b
      benchyard agent list
      benchyard agent list --public -o json
    """
    with connect() as client:
        found = list_agents(client, name, own=not is_public)
    none = "no agents; register one with `benchyard agent register`, or see `benchyard agent list --public`"
    show_many(found, output, COLUMNS, none=none, narrow=NARROW)


@agent.command("show")
@click.argument("id", metavar="ID|NAME[@VERSION]")
@output_option
def show_(id: str, output: str) -> None:
    """Show one agent, by id, or the newest of a name.

    \b
      benchyard agent show mine
      benchyard agent show mine@1.2.0
    """
    with connect() as client:
        view = find_agent(client, id)
    show(view, output, _description(view))


@agent.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME[@VERSION]...")
@output_option
def install(names: Sequence[str], output: str) -> None:
    """Install agents ahead of the first job that uses them; those that are there are left as they are.

    An install goes on when this command is interrupted.

    \b
      benchyard agent install opencode codex
      benchyard agent install claude-code@2.1.325 -o json
    """
    installed = []
    with connect() as client:
        wanted = [_agent_to_install(client, given) for given in names]
        for name, version, source in wanted:
            title = f"{name}@{version}" if version else name
            with patience(f"installing {title} from {origin(source)}" if source else title):
                view = client.agents.install(name, version)
            installed.append(view)
            if output == "text":
                known = f"{view.name}@{view.version}" if view.version else view.name
                click.echo(f"{known}  {_install(view)}")
    if output != "text":
        show_many(installed, output, {})


@agent.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID|NAME[@VERSION]...")
def delete(ids: Sequence[str]) -> None:
    """Remove agents; devboxes and results that used them stay.

    \b
      benchyard agent delete mine@1.2.0
    """
    with connect() as client:
        for found in [find_agent(client, given) for given in ids]:
            client.agents.delete(found.id)
            click.echo(f"{agent_label(found)}  {found.id}  deleted")


def agent_label(view: AgentView) -> str:
    """Return an agent in the form in which jobs name it."""
    return f"{view.name}@{view.version}" if view.version else view.name


def _agent_to_install(client: Client, given: str) -> tuple[str, str | None, str | None]:
    """Return name, version and source of an agent to install; raises NotFound with the nearest name."""
    name, version = split_version(given)
    known: list[str] = []
    for ask in (client.agents.list, client.agents.list_public):
        for view in ask(limit=100):
            if view.name == name:
                # The publisher determines the source of an agent that comes with the server, in any version.
                source = view.source.type if view.source else catalog.source_type(name)
                return name, version or view.version, source
            known.append(view.name)
    known = list(dict.fromkeys(known))
    raise NotFound(f"no agent is called {name!r}{nearest(name, known)}; `benchyard agent list` shows all")


def _install(view: AgentInstallView) -> str:
    if view.source is None:
        return "comes with the server"
    if view.was_installed:
        return "was installed already"
    return f"installed from {origin(view.source)} in {duration(view.duration_ms)}"


def _description(view: AgentView) -> str:
    source = view.source
    return facts(
        {
            "id": view.id,
            "name": view.name,
            "version": view.version,
            "installed": ", ".join(view.installed_versions or []),
            "keys": keys_line(view.keys),
            "kwargs": _kwargs(view.kwargs),
            "server lacks": ", ".join(view.server_lacks or []),
            "from": f"{source.type} {source.described()}" if source else None,
            "setup": "\n".join(source.setup) if source else None,
            "run": view.run_command,
            "public": "yes" if view.is_public else None,
            "created": when(view.create_time_ms),
            "metadata": pairs(view.metadata),
        }
    )


def _kwargs(kwargs: Mapping[str, str] | None) -> str:
    """Return kwargs in one line, each with its purpose if it is known."""
    if kwargs is None:
        return "none"
    return "; ".join(f"{name}: {text}" if text else name for name, text in kwargs.items())
