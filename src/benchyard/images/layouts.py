"""Image archives as folders: OCI layouts and the format of `docker save`, checked against their digests."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchyard.errors import ImageError

_LARGEST_JSON = 8 * 1024**2
_MOST_OBJECTS = 100_000
_MOST_VALUES = 500_000
_MOST_LAYERS = 400
_DEEPEST_INDEX = 3
_MOST_HOPS = 4
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_HEX = re.compile(r"(?:^|[/:])([0-9a-f]{64})(?:\.json)?$")
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_ROOT_SIGNS = ("bin", "etc", "lib", "sbin", "usr")


@dataclass(frozen=True)
class LayerFile:
    """The tar of a layer, with the sha256 of its content."""

    path: Path
    digest: str


@dataclass(frozen=True)
class ImageConfig:
    """The settings for running a program in an image."""

    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    working_directory: str | None = None
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The end of `entrypoint` that arguments would replace."""


@dataclass(frozen=True)
class ImageLayout:
    """An image archive that was read and found complete; layers from the bottom up."""

    layers: tuple[LayerFile, ...]
    config: ImageConfig
    notes: Mapping[str, str] = field(default_factory=dict)
    """Notes that the archive's author added."""


def is_layout(folder: Path) -> bool:
    """Tell whether a folder holds an image archive rather than a root filesystem."""
    if any((folder / sign).is_dir() for sign in _ROOT_SIGNS):
        return False
    return any((folder / name).is_file() for name in ("oci-layout", "index.json", "manifest.json"))


def is_root_filesystem(folder: Path) -> bool:
    """Tell whether a folder looks like a root filesystem."""
    return any((folder / sign).is_symlink() or (folder / sign).is_dir() for sign in _ROOT_SIGNS)


def read_layout(folder: Path) -> ImageLayout:
    """Read an OCI layout or a docker archive; raises ImageError if a part is missing or does not match."""
    try:
        return _read_oci(folder) if (folder / "index.json").is_file() else _read_docker(folder)
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        message = (
            f"the image archive's manifest is not of the expected form ({type(error).__name__}: {error})"
        )
        raise ImageError(message) from error


def file_digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_oci(folder: Path) -> ImageLayout:
    index = _json(_member(folder, "index.json"))
    chosen = {candidate["digest"]: candidate for candidate in _candidates(folder, index, _DEEPEST_INDEX)}
    if len(chosen) > 1:
        raise ImageError(f"the archive holds {len(chosen)} images: export the one you want and import that")
    if not chosen:
        raise ImageError(f"the archive holds no image for linux/{architecture()}, which this machine needs")
    manifest = _json(_blob(folder, next(iter(chosen))))
    config = _json(_blob(folder, manifest["config"]["digest"]))
    layers = []
    for layer in manifest["layers"]:
        kind = str(layer.get("mediaType", ""))
        if ".tar" not in kind or "encrypted" in kind:
            raise ImageError(f"the archive has a layer of a kind that cannot be unpacked: {kind!r}")
        path = _blob(folder, layer["digest"])
        layers.append(LayerFile(path, layer["digest"].removeprefix("sha256:")))
    notes = {str(name): str(value) for name, value in (manifest.get("annotations") or {}).items()}
    return replace(_check_layers(layers, config), notes=notes)


def _candidates(folder: Path, index: Any, depth: int) -> list[dict[str, Any]]:
    """Return descriptors of the images for this machine."""
    images: list[dict[str, Any]] = []
    for descriptor in index["manifests"]:
        if not _is_for_us(descriptor):
            continue
        kind = str(descriptor.get("mediaType", ""))
        if kind.endswith((".index.v1+json", ".manifest.list.v2+json")):
            if depth == 0:
                raise ImageError("the archive's indexes are nested too deep")
            inner = _candidates(folder, _json(_blob(folder, descriptor["digest"])), depth - 1)
            images.extend(inner[:1])
        else:
            images.append(descriptor)
    return images


def _is_for_us(descriptor: dict[str, Any]) -> bool:
    platform = descriptor.get("platform") or {}
    return (
        platform.get("os", "linux") == "linux"
        and platform.get("architecture", architecture()) == architecture()
        and "vnd.docker.reference.type" not in (descriptor.get("annotations") or {})
    )


def architecture() -> str:
    """Return the name of this machine's architecture in images."""
    machine = os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


def _read_docker(folder: Path) -> ImageLayout:
    manifests = _json(_member(folder, "manifest.json"))
    if len(manifests) != 1:
        raise ImageError(f"the archive holds {len(manifests)} images: save the one you want and import that")
    name = str(manifests[0]["Config"])
    config_file = _member(folder, name)
    promised = _HEX.search(name)
    if promised and file_digest(config_file) != promised[1]:
        raise ImageError(f"{name} in the archive is not what its digest says: make the archive again")
    paths = [_member(folder, str(layer)) for layer in manifests[0]["Layers"]]
    return _check_layers([LayerFile(path, file_digest(path)) for path in paths], _json(config_file))


def _check_layers(layers: list[LayerFile], config: Any) -> ImageLayout:
    """Compare layers with their description in the configuration."""
    if not layers:
        raise ImageError("the archive's image has no layers: there is nothing to start a devbox from")
    if len(layers) > _MOST_LAYERS:
        raise ImageError(
            f"the archive's image has {len(layers)} layers, more than {_MOST_LAYERS}: squash it first"
        )
    promised = [str(each) for each in config["rootfs"]["diff_ids"]]
    if len(promised) != len(layers):
        raise ImageError(
            f"the archive has {len(layers)} layers where its configuration names {len(promised)}"
        )
    for layer, digest in zip(layers, promised, strict=True):
        if f"sha256:{layer.digest}" != digest and not _is_compressed(layer.path):
            raise ImageError(
                f"layer {digest} of the archive is not what its digest says: make the archive again"
            )
    made_for = config.get("architecture") or architecture()
    if made_for != architecture():
        raise ImageError(f"the image is made for {made_for}, this machine is {architecture()}")
    return ImageLayout(tuple(layers), image_config(config.get("config") or {}))


def _is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(6).startswith(_COMPRESSED)


def image_config(config: dict[str, Any]) -> ImageConfig:
    """Return the settings for running a program, from the `config` of an image's configuration."""
    pairs = (str(line).partition("=") for line in config.get("Env") or ())
    command = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    return ImageConfig(
        env={name: value for name, _, value in pairs if name},
        user=str(config["User"]) if config.get("User") else None,
        working_directory=str(config["WorkingDir"]) if config.get("WorkingDir") else None,
        entrypoint=tuple(str(word) for word in command),
        command=tuple(str(word) for word in config.get("Cmd") or ()),
    )


def _blob(folder: Path, digest: Any) -> Path:
    """Return a blob after a check of its content against its digest."""
    match = _DIGEST.fullmatch(str(digest))
    if not match:
        raise ImageError(f"the archive uses the digest {str(digest)[:100]!r}; only sha256 is understood")
    path = _member(folder, f"blobs/sha256/{match[1]}")
    if file_digest(path) != match[1]:
        raise ImageError(f"{path.name} in the archive is not what its digest says: make the archive again")
    return path


def _member(folder: Path, name: str) -> Path:
    """Return a regular file of the archive; links of older docker archives are followed only inside it."""
    for _ in range(_MOST_HOPS):
        path = _inside(folder, name)
        if path is None or not path.is_symlink():
            break
        name = os.path.normpath(os.path.join(os.path.dirname(name), path.readlink()))  # noqa: PTH118, PTH120
    if path is None or not path.exists() or not stat.S_ISREG(path.lstat().st_mode):
        raise ImageError(
            f"the archive lacks {name[:200]!r}, which its manifest names: make the archive again"
        )
    return path


def _inside(folder: Path, name: str) -> Path | None:
    """Return the path of a name below the folder; None if it leaves the folder or goes through a link."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\0" in name:
        return None
    for depth in range(1, len(parts)):
        if folder.joinpath(*parts[:depth]).is_symlink():
            return None
    return folder.joinpath(*parts)


def _json(path: Path) -> Any:
    if path.stat().st_size > _LARGEST_JSON:
        raise ImageError(f"{path.name} in the archive is larger than {_LARGEST_JSON} bytes")
    content = path.read_bytes()
    if content.count(b"{") + content.count(b"[") > _MOST_OBJECTS or content.count(b",") > _MOST_VALUES:
        # Nothing else gets its turn while it is parsed, and values take longer than the texts of labels.
        raise ImageError(f"{path.name} in the archive has more objects and values than an image needs")
    try:
        return json.loads(content)
    except ValueError as error:
        raise ImageError(f"{path.name} in the archive is not JSON: {error}") from error
