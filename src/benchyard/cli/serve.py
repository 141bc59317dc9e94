"""`benchyard serve`: run the server."""

import os
from pathlib import Path
from typing import TypedDict, Unpack

import click
import uvloop

from benchyard.api.certificates import LOCAL_DOMAIN
from benchyard.api.server import run
from benchyard.settings import DEFAULT_PORT, Settings, default_data_folder

_EXAMPLES = """\b
Examples:
  benchyard serve
  benchyard serve --port 0 --data /srv/benchyard
  benchyard serve --port 443 --tls-self-signed --domain api.example.test
  benchyard serve --database-url postgresql://user@db/benchyard
  benchyard serve --driver fake --devbox-network host
"""


class Rare(TypedDict):
    """What is said more rarely."""

    tls_cert: Path | None
    tls_key: Path | None
    tls_self_signed: bool
    domain: str | None
    requests_per_second: float
    request_burst: int
    open_metrics: bool
    devbox_lease: float


@click.command(epilog=_EXAMPLES)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="0 takes a free one.",
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
    "--driver", default="native", show_default=True, help="How devboxes are held: native, process, fake."
)
@click.option(
    "--devbox-network",
    type=click.Choice(["none", "host"]),
    default="none",
    show_default=True,
    help="What devboxes can reach unless they say otherwise.",
)
@click.option(
    "--driver-option", "driver_options", multiple=True, metavar="KEY=VALUE", help="Passed to the driver."
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
@click.option("--tls-self-signed", is_flag=True, help="Speak TLS with a certificate made here.")
@click.option("--domain", help="The name in that certificate, such as api.example.test. Default: localhost.")
@click.option(
    "--requests-per-second",
    type=click.FloatRange(min=0),
    default=Settings.requests_per_second,
    show_default=True,
    help="How often one key may ask; 0 is as often as it likes.",
)
@click.option(
    "--request-burst",
    type=click.IntRange(min=1),
    default=Settings.request_burst,
    show_default=True,
    help="How many requests of one key may come at once.",
)
@click.option(
    "--devbox-lease",
    type=click.FloatRange(min=0, min_open=True),
    default=Settings.devbox_lease_seconds,
    show_default=True,
    metavar="SECONDS",
    help="How long new devboxes go on without a server.",
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
    **rare: Unpack[Rare],
) -> None:
    """Run the server in the foreground until it is told to stop (Ctrl-C or SIGTERM)."""
    options = _parsed(driver_options)
    domain = _tls_domain(rare)
    if not (_is_loopback(host) or domain or rare["tls_cert"]):
        click.echo(
            f"warning: {host} can be reached from other machines, and keys travel unencrypted; "
            "give --tls-cert or --tls-self-signed, or put a TLS proxy in front of it",
            err=True,
        )
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
        open_metrics=rare["open_metrics"],
        devbox_lease_seconds=rare["devbox_lease"],
        git_url=os.environ.get("BENCHYARD_GIT_URL") or Settings.git_url,
    )
    uvloop.run(run(settings))


def _parsed(options: tuple[str, ...]) -> dict[str, str]:
    pairs = [option.partition("=") for option in options]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise click.BadParameter(
                f"{key or options!r} must look like KEY=VALUE", param_hint="--driver-option"
            )
    return {key: value for key, _, value in pairs}


def _tls_domain(rare: Rare) -> str | None:
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
