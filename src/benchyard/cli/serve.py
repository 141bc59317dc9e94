"""`benchyard serve`: run the server."""

import os
import re
from pathlib import Path
from typing import TypedDict, Unpack

import click
import uvloop

from benchyard.api.server import run
from benchyard.api.tls import LOCAL_DOMAIN
from benchyard.cli.options import FloatRange, IntRange, age_in_days, size_in_bytes
from benchyard.settings import DEFAULT_PORT, Settings, default_data_folder

_EXAMPLES = """\b
Examples:
  benchyard serve
  benchyard serve --port 0 --data /srv/benchyard
  benchyard serve --port 443 --tls-self-signed --domain api.example.test
  benchyard serve --database-url postgresql://user@db/benchyard
  benchyard serve --driver fake --devbox-network host
  benchyard serve --upstream vllm=http://10.0.0.5:8000,no-key
"""

_UPSTREAM = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class RareOptions(TypedDict):
    """Options of `serve` that are rarely needed."""

    tls_cert: Path | None
    tls_key: Path | None
    tls_self_signed: bool
    domain: str | None
    requests_per_second: float
    request_burst: int
    max_connections: int
    client_timeout: float
    open_metrics: bool
    devbox_lease: float
    builder: str
    build_network: str
    builds_at_once: int
    build_timeout: float
    images_max_size: int | None
    scorings_at_once: int
    kits_max_size: int
    final_state_max_size: int
    final_state_days: float
    keep_results: float | None
    cpu_overcommit: float
    memory_overcommit: float
    ssh_port: int | None
    upstream: tuple[str, ...]
    import_from: tuple[Path, ...]
    trial_output_max_size: int
    outputs_max_size: int


@click.command(epilog=_EXAMPLES)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data folder. Default: $BENCHYARD_DATA, else benchyard in your user data folder.",
)
@click.option(
    "--database-url", help="postgresql://... or sqlite:///FILE. Default: SQLite in the data folder."
)
@click.option(
    "--driver",
    default="native",
    show_default=True,
    help="How devboxes are held: native, container, process, fake.",
)
@click.option(
    "--devbox-network",
    type=click.Choice(["none", "host"]),
    default="none",
    show_default=True,
    help="What devboxes can reach unless they say otherwise.",
)
@click.option(
    "--driver-option",
    "driver_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option for the driver; repeatable.",
)
@click.option("--public-url", help="Where clients reach this server, for signed links behind a proxy.")
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Speak TLS with this certificate (PEM, with its chain).",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The certificate's key (PEM).",
)
@click.option(
    "--tls-self-signed", is_flag=True, help="Speak TLS with a certificate that the server makes itself."
)
@click.option(
    "--domain",
    help="With --tls-self-signed: the name in the certificate, such as api.example.test. Default: localhost.",
)
@click.option(
    "--requests-per-second",
    type=FloatRange(min=0),
    default=Settings.requests_per_second,
    show_default=True,
    help="Requests per second that one key may send; 0 means no limit.",
)
@click.option(
    "--request-burst",
    type=IntRange(min=1),
    default=Settings.request_burst,
    show_default=True,
    help="How many requests of one key may come at once.",
)
@click.option(
    "--max-connections",
    type=IntRange(min=1),
    default=Settings.max_connections,
    show_default=True,
    help="How many clients may be connected at once.",
)
@click.option(
    "--client-timeout",
    type=FloatRange(min=0.1),
    default=Settings.client_seconds,
    show_default=True,
    metavar="SECONDS",
    help="How long a client may pause in a request, or take nothing of its answer.",
)
@click.option(
    "--devbox-lease",
    type=FloatRange(min=0, min_open=True),
    default=Settings.devbox_lease_seconds,
    show_default=True,
    metavar="SECONDS",
    help="How long new devboxes go on without a server.",
)
@click.option(
    "--builder",
    type=click.Choice(["auto", "buildah", "docker"]),
    default=Settings.builder,
    show_default=True,
    help="What builds Dockerfiles. auto: buildah if it is installed, else a Docker engine that answers.",
)
@click.option(
    "--build-network",
    type=click.Choice(["none", "host"]),
    default=Settings.build_network,
    show_default=True,
    help="What the commands of a blueprint's build can reach.",
)
@click.option(
    "--builds-at-once",
    type=IntRange(min=1),
    default=Settings.builds_at_once,
    show_default=True,
    help="How many blueprints are built at the same time.",
)
@click.option(
    "--build-timeout",
    type=FloatRange(min=1),
    default=Settings.build_seconds,
    show_default=True,
    metavar="SECONDS",
    help="How long one build may take.",
)
@click.option(
    "--images-max-size",
    type=size_in_bytes,
    metavar="SIZE",
    help="How much disk images and the builder's cache may take, such as 200GiB. Default: no limit.",
)
@click.option(
    "--scorings-at-once",
    type=IntRange(min=1),
    default=Settings.scorings_at_once,
    show_default=True,
    help="How many runs are scored at the same time.",
)
@click.option(
    "--kits-max-size",
    type=size_in_bytes,
    metavar="SIZE",
    default="20GiB",
    show_default=True,
    help="How much disk the environments of scorers may take.",
)
@click.option(
    "--final-state-max-size",
    type=size_in_bytes,
    metavar="SIZE",
    default="256MiB",
    show_default=True,
    help="Keep what a scored run changed, to score it again, up to this size; 0 keeps none.",
)
@click.option(
    "--final-state-days",
    type=FloatRange(min=0, min_open=True),
    default=Settings.final_state_days,
    show_default=True,
    metavar="DAYS",
    help="How long the final state of a scored run is kept.",
)
@click.option(
    "--keep-results",
    type=age_in_days,
    metavar="AGE",
    help="Remove jobs and runs that ended longer ago, such as 90d, with all their files. Default: never.",
)
@click.option(
    "--trial-output-max-size",
    type=size_in_bytes,
    metavar="SIZE",
    default="64MiB",
    show_default=True,
    help="How much of what commands print in the devbox of a trial is kept, all together.",
)
@click.option(
    "--outputs-max-size",
    type=size_in_bytes,
    metavar="SIZE",
    default="20GiB",
    show_default=True,
    help="How much disk the output of commands may take; that of devboxes that ended first goes first.",
)
@click.option(
    "--cpu-overcommit",
    type=FloatRange(min=0, min_open=True),
    default=Settings.cpu_overcommit,
    show_default=True,
    metavar="TIMES",
    help="How many times this machine's processors the devboxes of jobs may declare together.",
)
@click.option(
    "--memory-overcommit",
    type=FloatRange(min=0, min_open=True),
    default=Settings.memory_overcommit,
    show_default=True,
    metavar="TIMES",
    help="How many times this machine's memory the devboxes of jobs may declare together.",
)
@click.option(
    "--ssh-port",
    type=IntRange(0, 65535),
    help="Speak ssh on this port too; 0 takes a free one. Behind TLS, and for `devbox ssh`, none is needed.",
)
@click.option(
    "--upstream",
    multiple=True,
    metavar="NAME=URL[,no-key]",
    help="Where the gateway passes requests for models on to: for anthropic, openai or google instead of "
    "their own address, or a name of your own as in `--agent opencode:NAME/MODEL`. Repeatable.",
)
@click.option(
    "--import-from",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    envvar="BENCHYARD_IMPORT_FROM",
    metavar="DIR",
    help="Let clients import images and snapshots by path from below this folder, which the server reads "
    "with its own rights: name none that others may write to. Repeatable. Default: none, clients upload. "
    "Also $BENCHYARD_IMPORT_FROM, with colons in between.",
)
@click.option("--open-metrics", is_flag=True, help="Show /metrics without a key.")
def serve(
    host: str,
    port: int,
    data: Path | None,
    database_url: str | None,
    driver: str,
    devbox_network: str,
    driver_options: tuple[str, ...],
    public_url: str | None,
    **rare: Unpack[RareOptions],
) -> None:
    """Run the server in the foreground until it is told to stop (Ctrl-C or SIGTERM)."""
    options = _parsed(driver_options)
    domain = _tls_domain(rare)
    if not (_is_loopback(host) or domain or rare["tls_cert"]):
        _warn_of_plain_text(host)
    settings = Settings(
        data=(data or default_data_folder()).absolute(),
        host=host,
        port=port,
        database_url=database_url,
        driver=driver,
        devbox_network=devbox_network,
        public_url=public_url,
        driver_options=options,
        tls_cert=_absolute(rare["tls_cert"]),
        tls_key=_absolute(rare["tls_key"]),
        tls_domain=domain,
        requests_per_second=rare["requests_per_second"],
        request_burst=rare["request_burst"],
        max_connections=rare["max_connections"],
        client_seconds=rare["client_timeout"],
        open_metrics=rare["open_metrics"],
        devbox_lease_seconds=rare["devbox_lease"],
        builder=rare["builder"],
        build_network=rare["build_network"],
        builds_at_once=rare["builds_at_once"],
        build_seconds=rare["build_timeout"],
        images_max_bytes=rare["images_max_size"],
        scorings_at_once=rare["scorings_at_once"],
        kits_max_bytes=rare["kits_max_size"],
        final_state_max_bytes=rare["final_state_max_size"],
        final_state_days=rare["final_state_days"],
        keep_results_days=rare["keep_results"],
        cpu_overcommit=rare["cpu_overcommit"],
        memory_overcommit=rare["memory_overcommit"],
        ssh_port=rare["ssh_port"],
        trial_output_max_bytes=rare["trial_output_max_size"],
        outputs_max_bytes=rare["outputs_max_size"],
        import_folders=tuple(folder.absolute() for folder in rare["import_from"]),
        **upstreams_from_text(rare["upstream"]),
        git_url=os.environ.get("BENCHYARD_GIT_URL") or Settings.git_url,
    )
    uvloop.run(run(settings))


def _warn_of_plain_text(host: str) -> None:
    click.echo(
        f"warning: {host} can be reached from other machines, and keys travel unencrypted; "
        "give --tls-cert or --tls-self-signed, or put a TLS proxy in front of it",
        err=True,
    )


class _Upstreams(TypedDict):
    upstreams: dict[str, str]
    keyless_upstreams: frozenset[str]


def upstreams_from_text(given: tuple[str, ...]) -> _Upstreams:
    """Parse `NAME=URL[,no-key]` into the form of the settings."""
    found: dict[str, str] = {}
    keyless = set()
    for each in given:
        name, equals, rest = each.partition("=")
        url, _, more = rest.partition(",")
        if not equals or not _UPSTREAM.fullmatch(name) or more not in ("", "no-key"):
            raise click.BadParameter(
                f"{each!r} must look like NAME=URL or NAME=URL,no-key; names have a-z, 0-9, . _ -",
                param_hint="--upstream",
            )
        found[name] = url
        keyless |= {name} if more else set()
    return {"upstreams": found, "keyless_upstreams": frozenset(keyless)}


def _parsed(options: tuple[str, ...]) -> dict[str, str]:
    pairs = [option.partition("=") for option in options]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise click.BadParameter(
                f"{key or options!r} must look like KEY=VALUE", param_hint="--driver-option"
            )
    return {key: value for key, _, value in pairs}


def _tls_domain(rare: RareOptions) -> str | None:
    if bool(rare["tls_cert"]) != bool(rare["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key go together; give both")
    if not rare["tls_self_signed"]:
        if rare["domain"]:
            raise click.UsageError("--domain names a certificate made here; give --tls-self-signed with it")
        return None
    if rare["tls_cert"]:
        raise click.UsageError("give either --tls-cert or --tls-self-signed, not both")
    return (rare["domain"] or LOCAL_DOMAIN).lower()


def _absolute(file: Path | None) -> Path | None:
    return file.absolute() if file else None


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
