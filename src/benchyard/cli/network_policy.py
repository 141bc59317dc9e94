"""`benchyard network-policy`: named rules on what devboxes may reach."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

import click

from benchyard.cli.connection import connect
from benchyard.cli.render import age, facts, output_option, show, show_many, when
from benchyard.client.lookup import find_policy
from benchyard.client.resources.network import PolicyFields
from benchyard.models.network_policies import AllowedCidr, Egress, NetworkPolicyView

C = TypeVar("C", bound=Callable[..., Any])

COLUMNS: Mapping[str, Callable[[NetworkPolicyView], object]] = {
    "NAME": lambda view: view.name,
    "ID": lambda view: view.id,
    "REACHES": lambda view: _reaches(view.egress),
    "AGE": lambda view: age(view.create_time_ms),
}
_CIDR = re.compile(r"(?P<cidr>[^/\s]+/\d+)(:(?P<ports>[\d,-]+))?")
_PORTS = re.compile(r"(\d+)(?:-(\d+))?")


class PolicyOptions(TypedDict):
    """Options of `create` and `update`."""

    description: str | None
    allow_host: Sequence[str]
    allow_cidr: Sequence[str]
    allow_all: bool | None
    allow_gateway: bool | None


def _options(command: C) -> C:
    for option in (
        click.option(
            "--allow-gateway/--no-allow-gateway",
            default=None,
            help="Whether devboxes may reach models through the gateway.",
        ),
        click.option(
            "--allow-all/--no-allow-all",
            default=None,
            help="Allow everything: devboxes get the host's own network.",
        ),
        click.option(
            "--allow-cidr",
            multiple=True,
            metavar="CIDR[:PORTS]",
            help="Addresses, and ports as in 443,8000-8010; repeatable.",
        ),
        click.option(
            "--allow-host",
            multiple=True,
            metavar="NAME",
            help="A host, or *.NAME for all below a name; repeatable.",
        ),
        click.option("--description", help="What it is for."),
    ):
        command = option(command)
    return command


@click.group("network-policy")
def network_policy() -> None:
    """Say what devboxes may reach.

    \b
      benchyard network-policy create git --allow-host github.com \\
          --allow-host '*.githubusercontent.com'
      benchyard devbox create --network-policy git
    """


@network_policy.command()
@click.argument("name")
@_options
@output_option
def create(name: str, output: str, **options: Unpack[PolicyOptions]) -> None:
    """Make a policy; one that allows nothing keeps devboxes from all networks.

    \b
      benchyard network-policy create closed
      benchyard network-policy create git --allow-host github.com \\
          --allow-host '*.githubusercontent.com'
      benchyard network-policy create database --allow-cidr 10.1.2.0/24:5432
    """
    fields = _fields(options)
    fields["name"] = name
    with connect() as client:
        view = client.network_policies.create(**fields)
    show(view, output, f"{view.name}  {view.id}")


@network_policy.command("list")
@click.option("--name", help="Only those with this in their names.")
@output_option
def list_(name: str | None, output: str) -> None:
    """List policies, newest first.

    \b
      benchyard network-policy list
    """
    with connect() as client:
        pages = client.network_policies
        found = list(pages.list(limit=100, name=name) if name else pages.list(limit=100))
    none = "no network policies; make one with `benchyard network-policy create`"
    show_many(found, output, COLUMNS, none=none)


@network_policy.command("show")
@click.argument("policy", metavar="ID|NAME")
@output_option
def show_(policy: str, output: str) -> None:
    """Show one policy.

    \b
      benchyard network-policy show git
    """
    with connect() as client:
        view = find_policy(client, policy)
    show(view, output, _description(view))


@network_policy.command()
@click.argument("policy", metavar="ID|NAME")
@click.option("--name", help="New name.")
@_options
@output_option
def update(policy: str, name: str | None, output: str, **options: Unpack[PolicyOptions]) -> None:
    """Change a policy: given options replace its present rules, all others stay.

    Devboxes that exist keep the rules they were made with.

    \b
      benchyard network-policy update git --allow-host github.com \\
          --no-allow-gateway
    """
    fields = _fields(options)
    if name is not None:
        fields["name"] = name
    with connect() as client:
        view = client.network_policies.update(find_policy(client, policy).id, **fields)
    show(view, output, f"{view.name}  {view.id}")


@network_policy.command()
@click.argument("policies", nargs=-1, required=True, metavar="ID|NAME...")
def delete(policies: Sequence[str]) -> None:
    """Remove policies; devboxes that exist keep the rules they have.

    \b
      benchyard network-policy delete git
    """
    with connect() as client:
        for view in [find_policy(client, policy) for policy in policies]:
            client.network_policies.delete(view.id)
            click.echo(f"{view.name}  {view.id}  deleted")


def _fields(options: PolicyOptions) -> PolicyFields:
    fields: PolicyFields = {}
    if options["description"] is not None:
        fields["description"] = options["description"]
    if options["allow_host"]:
        fields["allowed_hostnames"] = list(options["allow_host"])
    if options["allow_cidr"]:
        fields["allowed_cidrs"] = [allowed_cidr(text) for text in options["allow_cidr"]]
    if options["allow_all"] is not None:
        fields["allow_all"] = options["allow_all"]
    if options["allow_gateway"] is not None:
        fields["allow_agent_gateway"] = options["allow_gateway"]
    return fields


def allowed_cidr(text: str) -> dict[str, Any]:
    """Parse `10.0.0.0/8:443,8000-8010` into the form of the wire."""
    found = _CIDR.fullmatch(text)
    ports = [_PORTS.fullmatch(part) for part in found["ports"].split(",")] if found and found["ports"] else []
    if found is None or not all(ports):
        raise click.BadParameter(
            f"{text!r} must look like 10.0.0.0/8 or 10.0.0.0/8:443,8000-8010", param_hint="--allow-cidr"
        )
    rules = [
        {"port": int(port[1]), **({"end_port": int(port[2])} if port[2] else {})} for port in ports if port
    ]
    return {"cidr": found["cidr"], **({"ports": rules} if rules else {})}


def _reaches(egress: Egress) -> str:
    if egress.allow_all:
        return "everything"
    rules = [*egress.allowed_hostnames, *(_written(cidr) for cidr in egress.allowed_cidrs)]
    return ", ".join([*rules, *(["the gateway"] if egress.allow_agent_gateway else [])]) or "nothing"


def _written(allowed: AllowedCidr) -> str:
    ports = ",".join(
        f"{rule.port}-{rule.end_port}" if rule.end_port else str(rule.port) for rule in allowed.ports or []
    )
    return f"{allowed.cidr}:{ports}" if ports else allowed.cidr


def _description(view: NetworkPolicyView) -> str:
    egress = view.egress
    kept = ("allow_devbox_to_devbox", "allow_mcp_gateway", "allow_runloop_mirrors")
    return facts(
        {
            "id": view.id,
            "name": view.name,
            "description": view.description,
            "reaches": _reaches(egress),
            "also says": ", ".join(name for name in kept if getattr(egress, name)),
            "created": when(view.create_time_ms),
            "changed": when(view.update_time_ms),
        }
    )
