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
    """An ordered list of layers (topmost first) and how to run what is in it."""

    id: str
    name: str
    layers: tuple[str, ...]
    """Names of folders in the store."""
    host_dirs: tuple[str, ...] = ()
    fingerprint: str | None = None
    """Of the machine whose own system it shows; None when it holds everything itself."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    working_directory: str | None = None
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The end of `entrypoint` that arguments would take the place of."""
    size_bytes: int = 0
    create_time_ms: int = 0
    kind: str = "image"
    """`host`, `image`, `snapshot`, `blueprint`, or what scorings need: `scoring` and `final`."""
    parent: str | None = None
    own_layers: int = 0
    """How many of the topmost layers are snapshots', over the image that their first devbox started from."""
    request_hash: str | None = None
    """Of the request that asked for it, which may come again."""
    stands_for: str | None = None
    """The image of a registry that it was made to stand in for, and what it is instead."""


def _new_id() -> str:
    """An id for an image that did not come with one."""
    return "img_" + "".join(secrets.choice(_LETTERS) for _ in range(21))


@dataclass(frozen=True)
class Label:
    """What an image that is about to be made will be known by."""

    name: str
    id: str = field(default_factory=_new_id)
    request_hash: str | None = None
    stands_for: str | None = None
    """What it stands in for, and what it is instead."""


def check_name(name: str) -> None:
    """Refuse a name that cannot be typed, stored or told from a path."""
    if not _NAME.fullmatch(name):
        message = (
            f"{name[:200]!r} cannot be an image's name: use letters, digits and . _ : / -, "
            "a letter or digit first, at most 128 in all"
        )
        raise UsageError(message)


def check_id(image_id: str) -> None:
    """Refuse an id that cannot be a file's name."""
    if not _ID.fullmatch(image_id):
        raise UsageError(f"{image_id[:200]!r} cannot be an image's id: use letters, digits, _ and -")


def write_record(folder: Path, image: Image) -> None:
    """Write the image's record so that it is there whole or not at all, also after a power cut."""
    path = folder / f"{image.id}.json"
    partial = folder / f".{image.id}.partial"
    with partial.open("w") as file:
        json.dump(asdict(image), file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_records(folder: Path, pattern: str = "*.json") -> tuple[list[Image], bool]:
    """All records of a folder, and whether every one of them could be read."""
    images, whole = [], True
    for path in sorted(folder.glob(pattern)):
        try:
            images.append(_image(json.loads(path.read_bytes())))
        except FileNotFoundError:
            # Removed since the folder was listed: it says nothing any more.
            continue
        except (OSError, ValueError, TypeError, KeyError) as error:
            _log.warning("the image record %s cannot be read and is left alone: %s", path, error)
            whole = False
    return images, whole


def clear_partial_records(folder: Path) -> None:
    """Remove records a crash left half-written."""
    for partial in folder.glob(".*.partial"):
        partial.unlink()


def _image(record: dict[str, Any]) -> Image:
    known = {each.name for each in fields(Image)}
    values = {name: value for name, value in record.items() if name in known}
    for name in ("layers", "host_dirs", "entrypoint", "command"):
        values[name] = tuple(values.get(name, ()))
    return Image(**values)


def newest_first(images: list[Image]) -> list[Image]:
    """In the order lists are shown; of two made at once the later id comes first, so that it is stable."""
    return sorted(images, key=lambda image: (image.create_time_ms, image.id), reverse=True)


MOST_LAYERS = 400
"""The kernel mounts 500, and a devbox adds its own."""


def check_depth(layers: tuple[str, ...]) -> None:
    """Refuse what the kernel could not mount."""
    if len(layers) > MOST_LAYERS:
        message = (
            "this image has more than 400 layers, too many to mount: export its files and import them as one"
        )
        raise ImageError(message, layers=len(layers))
