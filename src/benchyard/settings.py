"""Settings, read once at start and passed down."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_PORT = 7411


@dataclass(frozen=True)
class Settings:
    """Settings of a server; the defaults are those of the embedded one."""

    data: Path
    """Folder of everything that the server keeps."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = DEFAULT_PORT
    """Port to listen on; 0 takes a free one."""
    database_url: str | None = None
    """URL of the database; None is SQLite inside the data folder."""
    driver: str = "native"
    """Driver that holds devboxes: `native`, `container`, `process`, `fake` or `pretend`."""
    devbox_network: str = "none"
    """Network of a devbox that asks for none in particular: `none` or `host`."""
    devbox_lease_seconds: float = 3600.0
    """Seconds that a devbox goes on without a server before it ends by itself."""
    public_url: str | None = None
    """URL at which clients reach this server, used in signed links; None is the address of each request."""
    tls_cert: Path | None = None
    """A certificate and its chain, to speak TLS with; read again when it changes."""
    tls_key: Path | None = None
    """The key of `tls_cert`."""
    tls_domain: str | None = None
    """Domain for which the server makes a certificate, and an authority that signs it, in the data folder."""
    ssh_port: int | None = None
    """Port of its own for ssh; 0 takes a free one. Behind TLS ssh needs none."""
    max_body_bytes: int = 128 * 1024**2
    """Largest JSON body."""
    max_upload_bytes: int = 16 * 1024**3
    """Largest file or object."""
    requests_per_second: float = 1000.0
    """Requests per second of one key in the long run; 0 sets no limit. A long-poll counts once."""
    request_burst: int = 5000
    """Requests of one key that may come at once before the rate counts."""
    max_connections: int = 10_000
    """Most connections at once; fewer where the machine allows the server fewer descriptors."""
    client_seconds: float = 60.0
    """Seconds that a client may send nothing of a request it began, or take nothing of its answer."""
    open_metrics: bool = False
    """`/metrics` is shown without a key."""
    git_url: str = "https://github.com"
    """URL from which code mounts are cloned."""
    builder: str = "auto"
    """Builder of Dockerfiles: `buildah`, `docker` (its BuildKit), or the first of them that is there."""
    build_network: str = "host"
    """Network of the commands of a blueprint's build: `none` or `host`."""
    builds_at_once: int = 2
    """Blueprints built at the same time; the others are queued."""
    build_seconds: float = 3600.0
    """Time limit of one build."""
    build_memory_bytes: int = 8 * 1024**3
    """Memory limit of the commands of one build."""
    build_disk_bytes: int = 32 * 1024**3
    """Most that one build may add to the disk."""
    images_max_bytes: int | None = None
    """Disk space for images and the builder's cache; beyond it the longest unused are removed."""
    upstreams: Mapping[str, str] = field(default_factory=dict)
    """URLs to which the gateway passes requests on, by provider or a name of your own: `vllm` -> its URL."""
    keyless_upstreams: frozenset[str] = frozenset()
    """Names of upstreams that need no key."""
    scorings_at_once: int = 32
    """Runs scored at the same time; the others wait."""
    cpu_overcommit: float = 32.0
    """Factor over the machine's processors that the devboxes of jobs may declare: most of them wait."""
    memory_overcommit: float = 8.0
    """Factor over the machine's memory that the devboxes of jobs may declare."""
    kits_max_bytes: int = 20 * 1024**3
    """Disk space for agents and the environments of scorers; beyond it the longest unused are removed."""
    final_state_max_bytes: int = 256 * 1024**2
    """Most that a run may have changed on its disk to be kept for scoring it again; 0 keeps none."""
    final_state_days: float = 30.0
    """Time for which the disk of a scored run is kept."""
    keep_results_days: float | None = None
    """Time for which ended jobs and runs are kept with all their files; None is for ever."""
    import_folders: tuple[Path, ...] = ()
    """Folders of this machine from which clients may import images and snapshots by path; none if empty."""
    trial_output_max_bytes: int = 64 * 1024**2
    """Most output of all commands in the devbox of a trial or a run; scorers are not counted."""
    outputs_max_bytes: int = 20 * 1024**3
    """Disk space for outputs of commands; beyond it those of the devboxes that ended first are removed."""
    driver_options: dict[str, str] = field(default_factory=dict)
    """Options of the driver, such as the native one's `mode`."""


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
