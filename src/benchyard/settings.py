"""Settings, read once at start and passed down."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_PORT = 7411


@dataclass(frozen=True)
class Settings:
    """Everything a server can be told; the defaults make the embedded one."""

    data: Path
    """Everything the server keeps lies in this folder."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = DEFAULT_PORT
    """0 takes a free one."""
    database_url: str | None = None
    """None is SQLite inside the data folder."""
    driver: str = "native"
    """How devboxes are held: `native`, `container`, `process`, `fake` or `pretend`."""
    devbox_network: str = "none"
    """What a devbox can reach unless it says otherwise: `none` or `host`."""
    devbox_lease_seconds: float = 3600.0
    """How long a devbox goes on after it last heard of a server; then it ends by itself."""
    public_url: str | None = None
    """Where clients reach this server; None is wherever a request came to. Signed links are made with it."""
    tls_cert: Path | None = None
    """A certificate and its chain, to speak TLS with; read again when it changes."""
    tls_key: Path | None = None
    """The key of `tls_cert`."""
    tls_domain: str | None = None
    """Makes a certificate for this domain, and an authority that signs it; both lie in the data folder."""
    ssh_port: int | None = None
    """Where ssh is spoken on a port of its own; 0 takes a free one. Behind TLS it needs none."""
    max_body_bytes: int = 128 * 1024**2
    """Largest JSON body."""
    max_upload_bytes: int = 16 * 1024**3
    """Largest file or object."""
    requests_per_second: float = 1000.0
    """How often one key may ask, in the long run; 0 is as often as it likes. A long-poll counts once."""
    request_burst: int = 5000
    """How many requests of one key may come at once, before the rate counts."""
    max_connections: int = 10_000
    """How many clients may be connected; fewer where the machine allows the server fewer descriptors."""
    client_seconds: float = 60.0
    """How long a client may send nothing of a request it began, or take nothing of its answer."""
    open_metrics: bool = False
    """Whether `/metrics` is shown without a key."""
    git_url: str = "https://github.com"
    """Where code mounts are cloned from."""
    builder: str = "auto"
    """What builds Dockerfiles: `buildah`, `docker` (its BuildKit), or whichever is there, in this order."""
    build_network: str = "host"
    """What the commands of a blueprint's build can reach: `none` or `host`."""
    builds_at_once: int = 2
    """How many blueprints are built at the same time; the others are queued."""
    build_seconds: float = 3600.0
    """How long one build may take."""
    build_memory_bytes: int = 8 * 1024**3
    """What the commands of one build may use."""
    build_disk_bytes: int = 32 * 1024**3
    """What one build may add to the disk."""
    images_max_bytes: int | None = None
    """What images and the builder's cache may take on disk before the longest unused are removed."""
    upstreams: Mapping[str, str] = field(default_factory=dict)
    """Where the gateway passes requests on to, by provider or by a name of one's own: `vllm` -> its URL."""
    keyless_upstreams: frozenset[str] = frozenset()
    """Those that need no key."""
    scorings_at_once: int = 32
    """How many runs are scored at the same time; the others wait."""
    cpu_overcommit: float = 32.0
    """How many times the machine's processors the devboxes of jobs may declare: most of them wait."""
    memory_overcommit: float = 8.0
    """How many times the machine's memory the devboxes of jobs may declare."""
    kits_max_bytes: int = 20 * 1024**3
    """What environments of scorers, and agents, may take on disk before the longest unused are removed."""
    final_state_max_bytes: int = 256 * 1024**2
    """What the disk of a scored run may have changed to be kept for scoring it again; 0 keeps none."""
    final_state_days: float = 30.0
    """How long it is kept."""
    keep_results_days: float | None = None
    """How long jobs and runs that have ended are kept with all their files; None is for ever."""
    import_folders: tuple[Path, ...] = ()
    """Folders of this machine from which clients may import images and snapshots by path; none if empty."""
    trial_output_max_bytes: int = 64 * 1024**2
    """What commands in the devbox of a trial or a run may print, all together; scorers are not counted."""
    outputs_max_bytes: int = 20 * 1024**3
    """What outputs of commands may take before those of the devboxes that ended first are removed."""
    driver_options: dict[str, str] = field(default_factory=dict)
    """Passed to the driver, such as the native one's `mode`."""


def default_data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`$BENCHYARD_DATA`, else `benchyard` in the user's data folder."""
    if given := environment.get("BENCHYARD_DATA"):
        return Path(given)
    shared = environment.get("XDG_DATA_HOME") or Path(environment.get("HOME", "/")) / ".local" / "share"
    return Path(shared) / "benchyard"


def default_datasets_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where fetched data of public benchmarks is kept: `$BENCHYARD_DATASETS`, else in the user's cache."""
    if given := environment.get("BENCHYARD_DATASETS"):
        return Path(given)
    shared = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache"
    return Path(shared) / "benchyard" / "datasets"
