"""An image: an ordered list of layers, and its record on disk."""

import json
import logging
import os
import re
import secrets
import string
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from benchyard.errors import ImageError, UsageError

_log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Image:
    """An ordered list of layers (topmost first), and how to run a program in them."""

    id: str
    name: str
    layers: tuple[str, ...]
    """Names of layers in the store."""
    host_dirs: tuple[str, ...] = ()
    fingerprint: str | None = None
    """Fingerprint of the machine whose own system it shows; None if the image is complete by itself."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    working_directory: str | None = None
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The end of `entrypoint` that arguments would replace."""
    size_bytes: int = 0
    create_time_ms: int = 0
    kind: str = "image"
    """`host`, `image`, `snapshot`, `blueprint`, or for scoring: `scoring` and `final`."""
    parent: str | None = None
    own_layers: int = 0
    """Number of topmost layers made by snapshots, above the image that their first devbox started from."""
    request_hash: str | None = None
    """Hash of the request that created it, which may be repeated."""
    stands_for: str | None = None
    """The registry image that it stands in for, and a description of the real content."""


def _new_id() -> str:
    """Return an id for an image that came without one."""
    return "img_" + "".join(secrets.choice(_LETTERS) for _ in range(21))


@dataclass(frozen=True)
class ImageIdentity:
    """The name and origin that an image will be recorded with once it is made."""

    name: str
    id: str = field(default_factory=_new_id)
    request_hash: str | None = None
    stands_for: str | None = None
    """The image it stands in for, and a description of the real content."""


def check_name(name: str) -> None:
    """Raise an error for a name that cannot be typed or stored, or that could be a path."""
    if not _NAME.fullmatch(name):
        message = (
            f"{name[:200]!r} cannot be an image's name: use letters, digits and . _ : / -, "
            "a letter or digit first, at most 128 in all"
        )
        raise UsageError(message)


def check_id(image_id: str) -> None:
    """Raise an error for an id that cannot be the name of a file."""
    if not _ID.fullmatch(image_id):
        raise UsageError(f"{image_id[:200]!r} cannot be an image's id: use letters, digits, _ and -")


def write_record(folder: Path, image: Image, *, lasts: bool = True) -> None:
    """Write the image's record atomically, also in case of a power cut, which it survives if it `lasts`."""
    path = folder / f"{image.id}.json"
    partial = folder / f".{image.id}.partial"
    with partial.open("w") as file:
        json.dump(asdict(image), file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    if not lasts:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_records(folder: Path, pattern: str = "*.json") -> tuple[list[Image], bool]:
    """Return all records of a folder, and whether every one of them could be read."""
    images, whole = [], True
    for path in sorted(folder.glob(pattern)):
        try:
            images.append(_image(json.loads(path.read_bytes())))
        except FileNotFoundError:
            # Removed since the folder was listed.
            continue
        except (OSError, ValueError, TypeError, KeyError) as error:
            _log.warning("the image record %s cannot be read and is left alone: %s", path, error)
            whole = False
    return images, whole


def clear_partial_records(folder: Path) -> None:
    """Remove the half-written records of a crash."""
    for partial in folder.glob(".*.partial"):
        partial.unlink()


def _image(record: dict[str, Any]) -> Image:
    known = {field.name for field in fields(Image)}
    values = {name: value for name, value in record.items() if name in known}
    for name in ("layers", "host_dirs", "entrypoint", "command"):
        values[name] = tuple(values.get(name, ()))
    return Image(**values)


def newest_first(images: list[Image]) -> list[Image]:
    """Sort for lists; of two images made at the same time the later id comes first, for a stable order."""
    return sorted(images, key=lambda image: (image.create_time_ms, image.id), reverse=True)


MOST_LAYERS = 400
"""Largest number of layers: the kernel mounts 500, and a devbox adds its own."""


def check_depth(layers: tuple[str, ...]) -> None:
    """Raise an error for more layers than the kernel can mount."""
    if len(layers) > MOST_LAYERS:
        message = (
            "this image has more than 400 layers, too many to mount: export its files and import them as one"
        )
        raise ImageError(message, layers=len(layers))
