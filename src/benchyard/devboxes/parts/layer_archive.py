"""Layers as an image archive that container engines load: what `docker save` writes."""

import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from benchyard.devboxes.box.pack import pack_into

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_BLOCK = 512


def write_image(target: Path, layers: Sequence[Path], tag: str, labels: dict[str, str]) -> None:
    """Write layers (topmost first) as the image of that tag; a command must be named to run it (blocks)."""
    with target.open("wb", buffering=0) as file:
        digests, names = [], []
        for number, layer in enumerate(reversed(layers)):
            names.append(f"{number}.tar")
            digests.append(_add_layer(file, names[-1], layer))
        config = {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
            "history": [{"created_by": "benchyard"} for _ in digests],
        }
        text = json.dumps(config).encode()
        config_name = f"{hashlib.sha256(text).hexdigest()}.json"
        manifest = [{"Config": config_name, "RepoTags": [tag], "Layers": names}]
        with tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT) as tar:
            for name, content in ((config_name, text), ("manifest.json", json.dumps(manifest).encode())):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def _add_layer(file: IO[bytes], name: str, layer: Path) -> str:
    """Add one layer's tar to the archive; its header follows once its size is known. Returns its digest."""
    start = file.tell()
    file.write(bytes(_BLOCK))
    digest, size = pack_into(file.fileno(), str(layer), plain=True)
    info = tarfile.TarInfo(name)
    info.size = size
    file.write(bytes(-size % _BLOCK))
    os.pwrite(file.fileno(), info.tobuf(tarfile.GNU_FORMAT), start)
    return digest
