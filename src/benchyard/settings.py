"""Settings, read once at start and passed down."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Everything a server can be told; the defaults make the embedded one."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 0
    database_url: str | None = None
    """None is SQLite inside the data folder."""
    driver: str = "native"
    devbox_network: str = "none"
    public_url: str | None = None
    """Where clients reach this server; None is http://host:port. Signed links are made with it."""
    max_body_bytes: int = 128 * 1024**2
    """Largest JSON body."""
    max_upload_bytes: int = 16 * 1024**3
    """Largest file or object."""
    driver_options: dict[str, str] = field(default_factory=dict)


def default_data_folder(environ: Mapping[str, str]) -> Path:
    """Where this user's server keeps its data unless it is told otherwise."""
    if environ.get("BENCHYARD_DATA"):
        return Path(environ["BENCHYARD_DATA"]).absolute()
    shared = environ.get("XDG_DATA_HOME") or ""
    base = Path(shared) if shared.startswith("/") else Path.home() / ".local" / "share"
    return base / "benchyard"
