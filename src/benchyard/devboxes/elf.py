"""Copies of this machine's programs and libraries, changed to use nothing of the system they run in.

A loader looks for libraries in places that belong to the maker of the surrounding system. Those places are
written in the programs, the libraries and the loader itself, and are changed here, in their bytes.
"""

import itertools
import mmap
import os
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

MAGIC = b"\x7fELF\x02\x01"
"""First bytes of the files that can be changed here: 64 bits, little-endian."""
CACHE = b"/etc/ld.so.cache\0"
MOST_CACHE_PATH = len(CACHE) - 1
"""Most characters in the path of our own cache: it replaces the path in the loader."""

_PRELOAD = b"/etc/ld.so.preload\0"
_NOWHERE = {_PRELOAD: b"/dev/.benchyard/no\0", CACHE: b"/dev/.benchyardx\0"}
_SYSTEM_FOLDERS = re.compile(rb"(?:/(?:usr/)?lib(?:x?[0-9]+)?(?:/[a-z0-9_]+-linux-[a-z0-9]+)?/\0){2,}")
"""Folders that a loader searches last, in order."""
_MODULE_FOLDERS = re.compile(
    rb"/usr/lib[^\0 ]{0,200}/(?:gconv(?:/gconv-modules\.cache)?|locale(?:/locale-archive)?|"
    rb"engines-[0-9.]+|ossl-modules)\0"
)
"""Paths from which the C library and OpenSSL load modules or settings by themselves."""
_PROGRAM_TABLE = ((32, 8), (54, 2), (56, 2))
"""Position and size of the header fields for the program table's offset, entry size and entry count."""
_SMALLEST_PART = 56
_LOADED, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS, _RPATH, _RUNPATH, _NOTHING = 1, 5, 15, 29, 0x6000_0FFF
_MOST_ENTRIES = 1000
_LONGEST_NAME = 255
_MOST_DYNAMIC_BYTES = 1024**2
_MOST_PATHS_BYTES = 64 * 1024
_CACHE_FLAGS = {62: 0x0303, 183: 0x0A03}
"""Machine -> flags of a library for it in a cache: x86-64 and aarch64."""


Content = bytes | bytearray | mmap.mmap


class _Part(NamedTuple):
    """An entry of a program's table."""

    at: int
    type: int
    offset: int
    address: int
    size: int


class _Entry(NamedTuple):
    """An entry of the dynamic section, which instructs the loader."""

    at: int
    tag: int
    value: int


def is_elf(content: Content) -> bool:
    """Tell whether these bytes are a program or library that can be changed here."""
    return content[: len(MAGIC)] == MAGIC and len(content) > 64


def loader(content: Content) -> str | None:
    """Return the loader that a program names; None for libraries and for programs that need none."""
    for part in _parts(content):
        if part.type == _INTERPRETER:
            return os.fsdecode(bytes(content[part.offset : part.offset + part.size]).rstrip(b"\0"))
    return None


def loader_place(content: Content) -> tuple[int, int] | None:
    """Return the position and space in bytes of the loader's path in a program; None if it names none."""
    for part in _parts(content):
        if part.type == _INTERPRETER:
            return part.offset, part.size
    return None


def needed_libraries(content: Content) -> list[str]:
    """Return the libraries that a program or library needs; raise ValueError for content no linker writes."""
    entries = list(itertools.islice(_entries(content), _MOST_ENTRIES))
    if len(entries) == _MOST_ENTRIES or sum(entry.tag in (_RPATH, _RUNPATH) for entry in entries) > 2:
        raise ValueError("this program has too many instructions for its loader")
    names = []
    for _entry, _offset, text in _texts(content, (_NEEDED,)):
        name = text.decode("ascii")
        if "/" in name or len(name) > _LONGEST_NAME:
            raise ValueError("this program names a library by a path, or by too long a name")
        names.append(name)
    return names


def with_loader(content: bytes, path: str) -> bytes:
    """Return a program that names this loader."""
    changed = bytearray(content)
    written = _name_loader(changed, path)
    return bytes(changed) + written


def with_own_paths(content: bytes) -> bytes:
    """Return a program or library without search paths for libraries but those relative to itself."""
    changed = bytearray(content)
    _keep_own_paths(changed)
    return bytes(changed)


def fit_file(path: Path, program_loader: str) -> None:
    """Change a library in place as `with_own_paths` does; a program also as `with_loader` does.

    Libraries may be larger than memory: only the changed parts are read. Any other file is left as it is, and
    so is a broken one, for which it raises ValueError or struct.error.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        if not is_elf(content):
            return
        is_program = loader_place(content) is not None
        _keep_own_paths(content)
        if is_program:
            written = _name_loader(content, program_loader)
            file.seek(0, os.SEEK_END)
            file.write(written)


def _name_loader(content: bytearray | mmap.mmap, path: str) -> bytes:
    """Point a program to the name of its loader at the end of the file; return the bytes to append there.

    The end of the file has space; only the kernel reads the name there.
    """
    for part in _parts(content):
        if part.type == _INTERPRETER:
            written = path.encode() + b"\0"
            struct.pack_into("<Q", content, part.at + 8, len(content))
            struct.pack_into("<Q", content, part.at + 32, len(written))
            return written
    raise ValueError("this program names no loader")


def _keep_own_paths(content: bytearray | mmap.mmap) -> None:
    for entry, offset, text in list(_search_paths(content)):
        paths = b":".join(one for one in text.split(b":") if one.startswith((b"$ORIGIN", b"${ORIGIN}")))
        if not paths:
            struct.pack_into("<Q", content, entry.at, _NOTHING)
        elif paths != text:
            content[offset : offset + len(text)] = paths.ljust(len(text), b"\0")


def closed_library(content: bytes) -> bytes:
    """Return a library that loads only libraries found by its loader, or beside itself."""
    nowhere = b"/dev/-"
    return _MODULE_FOLDERS.sub(
        lambda found: nowhere.ljust(len(found[0]) - 1, b"-") + b"\0", with_own_paths(content)
    )


def closed_loader(content: bytes, cache: str) -> bytes:
    """Return a loader that finds libraries only in its own cache, at that path."""
    path = cache.encode()
    if CACHE not in content or len(path) > MOST_CACHE_PATH:
        raise ValueError(f"this loader cannot have its cache at {cache}")
    # Nothing can be put at an empty path. Where the path must not be empty, /dev is short, and new in each
    # devbox.
    content = content.replace(_PRELOAD, bytes(len(_PRELOAD))).replace(CACHE, path.ljust(len(CACHE), b"\0"))
    return _SYSTEM_FOLDERS.sub(lambda found: re.sub(rb"/[^\0]+", _in_dev, found[0]), content)


def cache(libraries: Mapping[str, str], machine: int) -> bytes:
    """Return the content of a loader's cache: name of a library -> its path."""
    if machine not in _CACHE_FLAGS:
        raise ValueError(f"caches for machines of kind {machine} are not known")
    ordered = sorted(libraries, key=_cache_order, reverse=True)
    at = 48 + 24 * len(ordered)
    entries, strings = b"", b""
    for name in ordered:
        key, value = os.fsencode(name) + b"\0", os.fsencode(libraries[name]) + b"\0"
        places = at + len(strings), at + len(strings) + len(key)
        entries += struct.pack("<iIIIQ", _CACHE_FLAGS[machine], *places, 0, 0)
        strings += key + value
    little = 2
    head = struct.pack("<IIB3xI12x", len(ordered), len(strings), little, 0)
    return b"glibc-ld.so.cache1.1" + head + entries + strings


def machine(content: bytes) -> int:
    """Return the kind of machine a program is for."""
    return int.from_bytes(content[18:20], "little")


def self_contained(content: bytes) -> bytes:
    """Return a program, library or loader that uses nothing of the surrounding system; other files unchanged.

    Meant for programs started by naming the loader and the folder of libraries. The loader would load the
    libraries named in the system's /etc/ld.so.preload into our process. And a library's own search paths come
    before the folder we name, unless they are in the newer form.
    """
    if not is_elf(content):
        return content
    for path, instead in _NOWHERE.items():
        content = content.replace(path, instead)
    changed = bytearray(content)
    for entry in _entries(content):
        if entry.tag == _RPATH:
            changed[entry.at] = _RUNPATH
    return bytes(changed)


def names(library: Path) -> set[str]:
    """Return the names a library has in its folder: programs ask for the shorter ones."""
    short = library.name.partition(".so")[0]
    return {path.name for path in library.parent.glob(f"{short}.so*") if path.resolve() == library}


def _in_dev(folder: re.Match[bytes]) -> bytes:
    return b"/dev".ljust(len(folder[0]), b"/")


def _parts(content: Content) -> Iterator[_Part]:
    start, size, count = (int.from_bytes(content[at : at + width], "little") for at, width in _PROGRAM_TABLE)
    for at in range(start, start + size * count, max(size, _SMALLEST_PART)):
        kind, _flags, offset, address, _physical, length = struct.unpack_from("<IIQQQQ", content, at)
        yield _Part(at, kind, offset, address, length)


def _entries(content: Content) -> Iterator[_Entry]:
    for part in _parts(content):
        if part.type == _DYNAMIC:
            for at in range(part.offset, part.offset + min(part.size, _MOST_DYNAMIC_BYTES), 16):
                tag, value = struct.unpack_from("<QQ", content, at)
                if tag == 0:
                    return
                yield _Entry(at, tag, value)


def _search_paths(content: Content) -> Iterator[tuple[_Entry, int, bytes]]:
    """Yield the library search paths: the entry, the position of its text in the file, and the text."""
    return _texts(content, (_RPATH, _RUNPATH))


def _texts(content: Content, tags: tuple[int, ...]) -> Iterator[tuple[_Entry, int, bytes]]:
    entries = list(_entries(content))
    tables = [entry.value for entry in entries if entry.tag == _STRINGS]
    loaded = [part for part in _parts(content) if part.type == _LOADED]
    for entry in entries:
        if entry.tag not in tags or not tables:
            continue
        address = tables[0] + entry.value
        for part in loaded:
            if part.address <= address < part.address + part.size:
                offset = address - part.address + part.offset
                end = content.find(b"\0", offset, offset + _MOST_PATHS_BYTES)
                if end < 0:
                    raise ValueError("the list of library folders is too long")
                yield entry, offset, bytes(content[offset:end])


def _cache_order(name: str) -> list[tuple[int, int]]:
    """Return a sort key in the order of loaders: numbers by their value, and after all else."""
    parts = re.findall(rb"[0-9]+|[^0-9]", os.fsencode(name), re.DOTALL)
    return [(1, int(part)) if part.isdigit() else (0, part[0]) for part in parts]
