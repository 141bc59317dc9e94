"""Settings, read once at start and passed down.

Each is declared here and nowhere else: the option of `benchyard serve`, the environment variable and the row
of the page of settings are made of the declaration.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from benchyard.errors import UsageError

DEFAULT_PORT = 7411
_UPSTREAM = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Setting:
    """The option of a setting, as far as name, type and default do not say it."""

    help: str
    option: str | None = None
    """Name of the option; by default, that of the field with hyphens."""
    like: str | None = None
    """Word in place of the value in the help; with SIZE the option takes `20GiB`, with AGE `90d`."""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    there: Literal["file", "folder"] | None = None
    """Kind of file that a path must lead to."""
    parse: Callable[[str], object] | None = None
    """Makes the value of a text, raising UsageError; of a mapping, a name and its value."""


@dataclass(frozen=True)
class UpstreamAddress:
    """The address of an upstream of the gateway."""

    url: str
    needs_key: bool = True


def upstream_from_text(text: str) -> tuple[str, UpstreamAddress]:
    """Return the upstream that `NAME=URL[,no-key]` says, by its name."""
    name, equals, rest = text.partition("=")
    url, _, more = rest.partition(",")
    if not equals or not _UPSTREAM.fullmatch(name) or more not in ("", "no-key"):
        raise UsageError(f"{text!r} must look like NAME=URL or NAME=URL,no-key; names have a-z, 0-9, . _ -")
    return name, UpstreamAddress(url, needs_key=not more)


def driver_option_from_text(text: str) -> tuple[str, str]:
    """Return the name and the value that `KEY=VALUE` says."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"{text!r} must look like KEY=VALUE")
    return key, value


def cidr_from_text(text: str) -> str:
    """Return a range of addresses as it was given; raises UsageError for any other text."""
    try:
        ipaddress.ip_network(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a CIDR such as 10.1.2.3/32: {error}") from error
    return text


@dataclass(frozen=True)
class Settings:
    """Settings of a server; the defaults are those of the embedded one."""

    data: Annotated[
        Path, Setting("Data folder. Default: $BENCHYARD_DATA, else benchyard in your user data folder.")
    ]
    host: Annotated[str, Setting("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Setting("Port to listen on; 0 takes a free one.", least=0, most=65535)] = (
        DEFAULT_PORT
    )
    database_url: Annotated[
        str | None, Setting("postgresql://... or sqlite:///FILE. Default: SQLite in the data folder.")
    ] = None
    driver: Annotated[str, Setting("How devboxes are held: native, container, process, fake.")] = "native"
    devbox_network: Annotated[
        Literal["none", "host"], Setting("What devboxes can reach unless they say otherwise.")
    ] = "none"
    driver_options: Annotated[
        Mapping[str, str],
        Setting(
            "Option for the driver; repeatable.",
            option="driver-option",
            like="KEY=VALUE",
            parse=driver_option_from_text,
        ),
    ] = field(default_factory=dict)
    public_url: Annotated[
        str | None, Setting("Where clients reach this server, for signed links behind a proxy.")
    ] = None
    tls_cert: Annotated[
        Path | None,
        Setting(
            "Speak TLS with this certificate (PEM, with its chain); read again when it changes.", there="file"
        ),
    ] = None
    tls_key: Annotated[Path | None, Setting("The certificate's key (PEM).", there="file")] = None
    tls_self_signed: Annotated[
        bool, Setting("Speak TLS with a certificate that the server makes itself.")
    ] = False
    tls_domain: Annotated[
        str | None,
        Setting(
            "With --tls-self-signed: the name in the certificate, such as api.example.test. "
            "Default: localhost.",
            option="domain",
        ),
    ] = None
    requests_per_second: Annotated[
        float,
        Setting(
            "Requests per second that one key may send; 0 means no limit. A long-poll counts once.", least=0
        ),
    ] = 1000.0
    request_burst: Annotated[int, Setting("How many requests of one key may come at once.", least=1)] = 5000
    max_connections: Annotated[
        int,
        Setting(
            "How many clients may be connected at once; fewer where the machine allows the server fewer "
            "descriptors.",
            least=1,
        ),
    ] = 10_000
    client_seconds: Annotated[
        float,
        Setting(
            "How long a client may pause in a request, or take nothing of its answer.",
            option="client-timeout",
            like="SECONDS",
            least=0.1,
        ),
    ] = 60.0
    max_body_bytes: Annotated[
        int, Setting("Largest JSON body of a request.", option="max-body-size", like="SIZE")
    ] = 128 * 1024**2
    max_upload_bytes: Annotated[
        int, Setting("Largest file or object.", option="max-upload-size", like="SIZE")
    ] = 16 * 1024**3
    devbox_lease_seconds: Annotated[
        float,
        Setting(
            "How long new devboxes go on without a server.", option="devbox-lease", like="SECONDS", above=0
        ),
    ] = 3600.0
    builder: Annotated[
        Literal["auto", "buildah", "docker"],
        Setting(
            "What builds Dockerfiles. auto: buildah if it is installed, else a Docker engine that answers."
        ),
    ] = "auto"
    build_network: Annotated[
        Literal["none", "host"], Setting("What the commands of a blueprint's build can reach.")
    ] = "host"
    builds_at_once: Annotated[
        int, Setting("How many blueprints are built at the same time; the others are queued.", least=1)
    ] = 2
    build_seconds: Annotated[
        float, Setting("How long one build may take.", option="build-timeout", like="SECONDS", least=1)
    ] = 3600.0
    build_memory_bytes: Annotated[
        int,
        Setting(
            "How much memory the commands of one build may take.",
            option="build-memory",
            like="SIZE",
        ),
    ] = 8 * 1024**3
    build_disk_bytes: Annotated[
        int, Setting("How much one build may add to the disk.", option="build-disk", like="SIZE")
    ] = 32 * 1024**3
    git_url: Annotated[str, Setting("Where code mounts are cloned from.")] = "https://github.com"
    images_max_bytes: Annotated[
        int | None,
        Setting(
            "How much disk images and the builder's cache may take, such as 200GiB; beyond it those unused "
            "for longest are removed. Default: no limit.",
            option="images-max-size",
            like="SIZE",
        ),
    ] = None
    scorings_at_once: Annotated[
        int, Setting("How many runs are scored at the same time; the others wait.", least=1)
    ] = 32
    kits_max_bytes: Annotated[
        int,
        Setting(
            "How much disk agents and the environments of scorers may take; beyond it those unused for "
            "longest are removed.",
            option="kits-max-size",
            like="SIZE",
        ),
    ] = 20 * 1024**3
    final_state_max_bytes: Annotated[
        int,
        Setting(
            "Keep what a scored run changed, to score it again, up to this size; 0 keeps none.",
            option="final-state-max-size",
            like="SIZE",
        ),
    ] = 256 * 1024**2
    final_state_days: Annotated[
        float, Setting("How long the final state of a scored run is kept.", like="DAYS", above=0)
    ] = 30.0
    keep_results_days: Annotated[
        float | None,
        Setting(
            "Remove jobs and runs that ended longer ago, such as 90d, with all their files. Default: never.",
            option="keep-results",
            like="AGE",
        ),
    ] = None
    trial_output_max_bytes: Annotated[
        int,
        Setting(
            "How much of what commands print in the devbox of a trial or a run is kept, all together; "
            "scorers are not counted.",
            option="trial-output-max-size",
            like="SIZE",
        ),
    ] = 64 * 1024**2
    outputs_max_bytes: Annotated[
        int,
        Setting(
            "How much disk the output of commands may take; that of devboxes that ended first goes first.",
            option="outputs-max-size",
            like="SIZE",
        ),
    ] = 20 * 1024**3
    cpu_overcommit: Annotated[
        float,
        Setting(
            "How many times this machine's processors the devboxes of jobs may declare together.",
            like="TIMES",
            above=0,
        ),
    ] = 32.0
    memory_overcommit: Annotated[
        float,
        Setting(
            "How many times this machine's memory the devboxes of jobs may declare together.",
            like="TIMES",
            above=0,
        ),
    ] = 8.0
    ssh_port: Annotated[
        int | None,
        Setting(
            "Speak ssh on this port too; 0 takes a free one. Behind TLS, and for `devbox ssh`, none is "
            "needed.",
            least=0,
            most=65535,
        ),
    ] = None
    upstreams: Annotated[
        Mapping[str, UpstreamAddress],
        Setting(
            "Where the gateway passes requests for models on to: for anthropic, openai or google instead of "
            "their own address, or a name of your own as in `--agent opencode:NAME/MODEL`. Repeatable.",
            option="upstream",
            like="NAME=URL[,no-key]",
            parse=upstream_from_text,
        ),
    ] = field(default_factory=dict)
    import_folders: Annotated[
        tuple[Path, ...],
        Setting(
            "Let clients import images and snapshots by path from below this folder, which the server reads "
            "with its own rights: name none that others may write to. Repeatable. Default: none, clients "
            "upload.",
            option="import-from",
            like="DIR",
            there="folder",
        ),
    ] = ()
    webhook_networks: Annotated[
        tuple[str, ...],
        Setting(
            "Let webhooks reach these addresses too, such as 10.1.2.3/32; others of private networks and of "
            "this machine stay closed to them. Repeatable.",
            option="webhook-allow",
            like="CIDR",
            parse=cidr_from_text,
        ),
    ] = ()
    open_metrics: Annotated[bool, Setting("Show /metrics without a key.")] = False

    @property
    def keyless_upstreams(self) -> frozenset[str]:
        """Return the names of upstreams that need no key."""
        return frozenset(name for name, each in self.upstreams.items() if not each.needs_key)


@dataclass(frozen=True)
class SettingField:
    """A setting with the facts of its declaration."""

    name: str
    kind: Any
    """Type of its value, or of one of several values."""
    default: object
    """None also if it has none."""
    setting: Setting
    collection: Callable[[Any], Any] | None = None
    """Type that several values are put into; None if there is one value."""

    @property
    def option(self) -> str:
        """Return the option of `benchyard serve`, without the hyphens before it."""
        return self.setting.option or self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Return the environment variable of the same meaning."""
        return f"BENCHYARD_{self.option.replace('-', '_').upper()}"

    @property
    def is_repeatable(self) -> bool:
        """Tell whether it takes several values."""
        return self.collection is not None

    def collected(self, value: Any) -> Any:
        """Return a value of the option as the settings hold it."""
        return self.collection(value) if self.collection else value


def setting_fields(owner: type[Settings] = Settings) -> Iterator[SettingField]:
    """Yield every setting, in order."""
    hints = get_type_hints(owner, include_extras=True)
    for each in fields(owner):
        type, setting = get_args(hints[each.name])
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        kind, collection = _kind(type)
        yield SettingField(each.name, kind, None if default is MISSING else default, setting, collection)


def _kind(type: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    origin, arguments = get_origin(type), get_args(type)
    if origin is Mapping:
        return arguments[1], dict
    if origin is tuple:
        return arguments[0], tuple
    return (type if origin in (None, Literal) else arguments[0]), None


def default_data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`$BENCHYARD_DATA`, else `benchyard` in the user's data folder."""
    if given := environment.get("BENCHYARD_DATA"):
        return Path(given)
    shared = environment.get("XDG_DATA_HOME") or Path(environment.get("HOME", "/")) / ".local" / "share"
    return Path(shared) / "benchyard"


def default_datasets_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Folder of fetched data of public benchmarks: `$BENCHYARD_DATASETS`, else in the user's cache."""
    if given := environment.get("BENCHYARD_DATASETS"):
        return Path(given)
    shared = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache"
    return Path(shared) / "benchyard" / "datasets"
