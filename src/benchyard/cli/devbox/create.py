"""`benchyard devbox create`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import click

from benchyard.cli.connection import connect
from benchyard.cli.options import IntRange, checked_input, local_remote, name_values
from benchyard.cli.progress import patience
from benchyard.cli.render import output_option, show
from benchyard.client.client import Client
from benchyard.client.lookup import find_policy, find_snapshot_id
from benchyard.errors import StartFailed, UsageError
from benchyard.models.devboxes import DevboxRequest, DevboxStatus, DevboxView
from benchyard.models.gateway_configs import GatewayRequest
from benchyard.models.launch import FileMount, LaunchParameters, Size, UserParameters

NETWORK_KEY = "benchyard.network"
DEFAULT_UID = 1000
LARGEST_TEXT = 64 * 1024


class CreateOptions(TypedDict):
    """Options of `create`."""

    name: str | None
    image: str | None
    snapshot: str | None
    size: str | None
    env: Sequence[str]
    secret: Sequence[str]
    gateway: Sequence[str]
    metadata: Sequence[str]
    file: Sequence[str]
    launch: Sequence[str]
    user: str | None
    network: str | None
    network_policy: str | None
    keep_alive: int | None
    wait: bool
    output: str


@click.command()
@click.option("--name", help="A name to find it by.")
@click.option(
    "--image",
    "--blueprint",
    "image",
    help="Start from this blueprint or image (id or name), not the host's own system.",
)
@click.option("--snapshot", help="Start from this snapshot (id or name).")
@click.option(
    "--size", type=click.Choice([size.value for size in Size]), help="How much CPU, memory and disk it gets."
)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="An environment variable; repeatable.")
@click.option(
    "--secret", multiple=True, metavar="NAME=SECRET", help="A variable with a secret's value; repeatable."
)
@click.option(
    "--gateway",
    multiple=True,
    metavar="PREFIX=CONFIG:SECRET",
    help="An HTTP API, reached by $PREFIX_URL and $PREFIX without the key; repeatable.",
)
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option(
    "--file",
    multiple=True,
    metavar="LOCAL:REMOTE",
    help="Copy a local file into it; text files are there before --launch runs. Repeatable.",
)
@click.option(
    "--launch",
    multiple=True,
    metavar="COMMAND",
    help="Command to run before the devbox counts as running; repeatable.",
)
@click.option("--user", metavar="NAME[:UID]", help="User that commands run as. Default: `user`.")
@click.option(
    "--network",
    type=click.Choice(["none", "host"]),
    help="What it can reach. Default: what the server was started with.",
)
@click.option("--network-policy", metavar="ID|NAME", help="Network policy that says what it can reach.")
@click.option(
    "--keep-alive",
    type=IntRange(min=1),
    metavar="SECONDS",
    help="Shut it down this many seconds after its start. Default: 3600.",
)
@click.option("--wait/--no-wait", default=True, help="Wait until it runs (the default).")
@output_option
def create(**options: Unpack[CreateOptions]) -> None:
    """Make a devbox and wait until it runs.

    \b
      benchyard devbox create --name box
      benchyard devbox create --image bookworm --size MEDIUM --user root
      benchyard devbox create --snapshot snp_... --env MODE=test \\
          --file notes.txt:/tmp/notes.txt
      benchyard devbox create --secret TOKEN=MY_TOKEN --network host \\
          --launch 'pip install pytest'
    """
    texts, others = _split_files(local_remote(options["file"], "--file"))
    with checked_input():
        request = request_from(options, texts)
    with connect() as client:
        if request.snapshot_id:
            request = request.model_copy(
                update={"snapshot_id": find_snapshot_id(client, request.snapshot_id)}
            )
        if options["network_policy"]:
            request = _with_policy(request, find_policy(client, options["network_policy"]).id)
        made = client.devboxes.create(request)
        if options["wait"] or others:
            made = _fill_devbox(client, made, others)
    show(made, options["output"], f"{made.id}  {made.status.value}")


def request_from(options: CreateOptions, texts: Sequence[FileMount] = ()) -> DevboxRequest:
    """Return the request that the options describe."""
    if options["image"] and options["snapshot"]:
        raise UsageError("a devbox starts from --image or from --snapshot, not from both")
    metadata = name_values(options["metadata"], "--metadata")
    if options["network"]:
        metadata[NETWORK_KEY] = options["network"]
    return DevboxRequest(
        name=options["name"],
        blueprint_name=options["image"],
        snapshot_id=options["snapshot"],
        environment_variables=name_values(options["env"], "--env") or None,
        secrets=name_values(options["secret"], "--secret") or None,
        gateways=_gateways(options["gateway"]),
        metadata=metadata or None,
        mounts=list(texts) or None,
        launch_parameters=LaunchParameters(
            resource_size_request=Size(options["size"]) if options["size"] else None,
            launch_commands=list(options["launch"]) or None,
            keep_alive_time_seconds=options["keep_alive"],
            user_parameters=_user(options["user"]),
        ),
    )


def _with_policy(request: DevboxRequest, policy_id: str) -> DevboxRequest:
    launch = (request.launch_parameters or LaunchParameters()).model_copy(
        update={"network_policy_id": policy_id}
    )
    return request.model_copy(update={"launch_parameters": launch})


def _split_files(files: Sequence[tuple[Path, str]]) -> tuple[list[FileMount], list[tuple[Path, str]]]:
    """Separate small texts, which are part of the request, from files to upload once the devbox runs."""
    texts, others = [], []
    for local, remote in files:
        content = local.read_bytes() if local.stat().st_size <= LARGEST_TEXT else b"\xff"
        try:
            texts.append(FileMount(target=remote, content=content.decode()))
        except UnicodeDecodeError:
            others.append((local, remote))
    return texts, others


def _gateways(given: Sequence[str]) -> dict[str, GatewayRequest] | None:
    found = {}
    for prefix, pair in name_values(given, "--gateway").items():
        config, colon, secret = pair.rpartition(":")
        if not colon or not config or not secret:
            raise click.BadParameter(f"{pair!r} is not CONFIG:SECRET", param_hint="--gateway")
        found[prefix] = GatewayRequest(gateway=config, secret=secret)
    return found or None


def _user(given: str | None) -> UserParameters | None:
    if given is None:
        return None
    name, _, number = given.partition(":")
    if number and not number.isdigit():
        raise click.BadParameter(f"{number!r} is not a user id", param_hint="--user")
    uid = int(number) if number else 0 if name == "root" else DEFAULT_UID
    return UserParameters(username=name, uid=uid)


def _fill_devbox(client: Client, made: DevboxView, files: Sequence[tuple[Path, str]]) -> DevboxView:
    """Wait until a devbox runs and copy the files in; shuts it down if copying fails or is interrupted."""
    try:
        with patience(f"starting {made.id}: its image or agents may have to be made first"):
            is_up = made.status is DevboxStatus.RUNNING
            running = made if is_up else client.devboxes.await_running(made.id)
        for local, remote in files:
            client.files.upload(made.id, remote, local)
    except StartFailed as error:
        error.details["remedy"] = f"`benchyard devbox logs {made.id}` may tell more"
        raise
    except BaseException:
        client.devboxes.shutdown(made.id, force=True)
        raise
    return running
