"""Stand-ins for images of registries, for tests that build real Dockerfiles: made once, then imported."""

import os
from pathlib import Path

import pytest

from benchyard.client import Client
from benchyard.errors import BenchyardError

FOLDER = "benchyard-tests"


def provide(client: Client, reference: str) -> None:
    """Let a server have a stand-in for a reference; skips the test where none can be made, with why."""
    kept = cache() / f"{reference.replace(':', '-').replace('/', '-')}.oci"
    if kept.exists():
        image = client.images.import_path(str(kept), f"stand-in-{reference}")
        client.images.set_alias(reference, image.id)
        return
    try:
        made = client.images.stand_in(reference)
    except BenchyardError as error:
        pytest.skip(f"no stand-in for {reference} can be made here: {error.message}")
    partial = kept.with_suffix(f".{os.getpid()}")
    client.images.export(made.id, partial)
    partial.rename(kept)


def cache() -> Path:
    """Where they are kept."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder
