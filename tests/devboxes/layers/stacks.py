"""Layers made the way devboxes make them: through real overlays, by changes of every kind."""

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

Step = tuple[str, str, str]
"""A verb and two paths, the second of which some verbs do not look at."""

_NAMES = st.sampled_from(["a", "b", "new"])
PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)


def _write(root: Path, path: str, other: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    # A fifo that nobody reads must refuse, not wait.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK
    with open(os.open(root / path, flags, 0o644), "w") as file:  # noqa: PTH123
        file.write(f"{path} {other}")


def _tree(root: Path, path: str, other: str) -> None:
    for inside in ("a", "b/a"):
        _write(root / path, inside, other)


def _remove(root: Path, path: str, _other: str) -> None:
    target = root / path
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink()


def _replace(root: Path, path: str, other: str) -> None:
    """A directory in the place of a file, and the other way round."""
    was_directory = (root / path).is_dir()
    _remove(root, path, other)
    (_write if was_directory else _tree)(root, path, other)


def _attribute(root: Path, path: str, other: str) -> None:
    os.setxattr(root / path, "user.note", other.encode())


VERBS: dict[str, Callable[[Path, str, str], Any]] = {
    "write": _write,
    "make": lambda root, path, _: (root / path).mkdir(parents=True),
    "tree": _tree,
    "remove": _remove,
    "replace": _replace,
    "rename": lambda root, path, other: (root / path).rename(root / other),
    "link": lambda root, path, other: os.link(root / path, root / other),
    "symlink": lambda root, path, other: (root / other).symlink_to(path),
    "fifo": lambda root, path, _: os.mkfifo(root / path),
    "chmod": lambda root, path, _: (root / path).chmod(0o751),
    "chown": lambda root, path, _: os.chown(root / path, 33, 34, follow_symlinks=False),
    "date": lambda root, path, _: os.utime(root / path, ns=(7, 1_234_567_890_123_456_789)),
    "attribute": _attribute,
}
_CHOICES = st.sampled_from([*sorted(VERBS), "write", "tree", "remove", "replace"])
STEPS = st.lists(st.tuples(_CHOICES, PATHS, PATHS), min_size=1, max_size=12)
STACKS = st.lists(STEPS, min_size=2, max_size=5)
"""What is done in each devbox of a chain; the first makes the base."""


def change(root: Path, steps: Sequence[Step]) -> None:
    """Do these things below a folder; what cannot be done is left."""
    for verb, path, other in steps:
        with contextlib.suppress(OSError, shutil.Error):
            VERBS[verb](root, path, other)


@contextlib.contextmanager
def overlay(place: Path, lower: Sequence[Path], upper: Path | None = None) -> Iterator[Path]:
    """An overlay as devboxes have it, mounted at `place`; needs root."""
    place.mkdir(exist_ok=True)
    options = f"lowerdir={':'.join(map(str, lower))},userxattr"
    if upper is not None:
        work = place.with_name(f"{place.name}.work")
        work.mkdir(exist_ok=True)
        options += f",upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        if upper is not None:
            shutil.rmtree(work)


def build(folder: Path, stack: Sequence[Sequence[Step]]) -> list[Path]:
    """The layers that such a chain leaves, topmost first; the last one is the base."""
    base = folder / "base"
    base.mkdir()
    for path in ("a/a/a", "a/b", "b/a/b", "b/b"):
        _write(base, path, "base")
    change(base, stack[0])
    layers = [base]
    for number, steps in enumerate(stack[1:]):
        layer = folder / f"layer{number}"
        layer.mkdir()
        with overlay(folder / "mounted", layers, layer) as root:
            change(root, steps)
        layers.insert(0, layer)
    return layers


def shown(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything a tree shows, by path, with names of one file told from copies of it."""
    seen: dict[str, tuple[object, ...]] = {}
    first: dict[int, str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        content: object = None
        if kind == stat.S_IFREG:
            content = (path.read_bytes(), first.setdefault(status.st_ino, name))
        elif kind == stat.S_IFLNK:
            content = str(path.readlink())
        noted = {} if kind == stat.S_IFLNK else {each: os.getxattr(path, each) for each in os.listxattr(path)}
        plain = tuple(sorted((key, value) for key, value in noted.items() if ".overlay." not in key))
        owner = (status.st_uid, status.st_gid)
        seen[name] = (status.st_mode, owner, status.st_mtime_ns, content, plain)
    return seen
