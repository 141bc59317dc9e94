"""Packs a folder as a build context, without the files its `.dockerignore` excludes, by docker's rules."""

import os
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchyard.client.bodies import Meter, no_meter
from benchyard.client.nouns import SyncNouns
from benchyard.errors import BenchyardError, UsageError
from benchyard.models.blueprints import UNFINISHED, BlueprintView, BuildContext
from benchyard.models.objects import ObjectRequest

DOCKERIGNORE = ".dockerignore"


@dataclass(frozen=True)
class _Rule:
    pattern: re.Pattern[str]
    leaves_out: bool


class IgnoreRules:
    """The rules of one file: the last one that matches a path, or a folder above it, decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := _rule(line))]

    def leaves_out(self, path: str) -> bool:
        """Tell whether the rules exclude a path, written relative to the context with `/`."""
        above = [str(parent) for parent in PurePosixPath(path).parents if str(parent) != "."]
        left_out = False
        for rule in self._rules:
            if rule.leaves_out != left_out and any(rule.pattern.fullmatch(each) for each in (path, *above)):
                left_out = rule.leaves_out
        return left_out

    @property
    def may_bring_back(self) -> bool:
        """Tell whether the context may contain a file below an excluded folder."""
        return any(not rule.leaves_out for rule in self._rules)


def _rule(line: str) -> _Rule | None:
    # A `#` begins a comment only as the first character of its line.
    if line.startswith("#"):
        return None
    text = line.strip()
    brings_back = text.startswith("!")
    text = _clean(text.removeprefix("!").strip())
    if not text:
        return None
    return _Rule(_pattern(text), not brings_back)


def _clean(text: str) -> str:
    """Return the pattern without leading slashes and `.`, and with each `..` resolved."""
    kept: list[str] = []
    for part in text.split("/"):
        if part == ".." and kept:
            kept.pop()
        elif part not in ("", ".", ".."):
            kept.append(part)
    return "/".join(kept)


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern: `*`, `?` and `[...]` stay inside one name; `**` is any number of folders, even 0."""
    found, index = "", 0
    while index < len(text):
        piece, index = _piece(text, index)
        found += piece
    try:
        return re.compile(found, re.DOTALL)
    except re.error as error:
        raise UsageError(f"{DOCKERIGNORE}: {text!r} is not a pattern: {error}") from error


def _piece(text: str, index: int) -> tuple[str, int]:
    """Return the expression for the piece of the pattern at an index, and the index after it."""
    letter = text[index]
    if text.startswith("**", index):
        index += 3 if text.startswith("/", index + 2) else 2
        return (".*" if index >= len(text) else "(?:.*/)?"), index
    if letter == "*":
        return "[^/]*", index + 1
    if letter == "?":
        return "[^/]", index + 1
    if letter == "\\" and index + 1 < len(text):
        return re.escape(text[index + 1]), index + 2
    if letter == "[" and (end := _class_end(text, index)) is not None:
        return _class(text[index + 1 : end]), end + 1
    return re.escape(letter), index + 1


def _class_end(text: str, index: int) -> int | None:
    start = index + 2 if text[index + 1 : index + 2] == "^" else index + 1
    # A bracket directly after the opening one is one of the letters.
    end = text.find("]", start + 1)
    return end if end > 0 else None


def _class(inner: str) -> str:
    negated = inner.startswith("^")
    letters = re.sub(r"([\[\]&~|^])", r"\\\1", inner.removeprefix("^"))
    return f"[^/{letters}]" if negated else f"(?!/)[{letters}]"


_PACKED = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)


@contextmanager
def context_archive(folder: Path, dockerfile: Path | None = None) -> Iterator[Path]:
    """Pack the folder's content as a tgz that is removed afterwards; links are packed as links."""
    ignored = ignore_rules(folder, dockerfile)
    with tempfile.NamedTemporaryFile(prefix="benchyard-context-", suffix=".tgz") as file:
        try:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
                for path in included_paths(folder, ignored):
                    _add(tar, folder / path, path)
            file.flush()
        except OSError as error:
            raise UsageError(f"the context {folder} could not be packed: {error}") from error
        yield Path(file.name)


def upload_context(
    client: SyncNouns, folder: Path, dockerfile: Path | None = None, meter: Meter = no_meter
) -> BuildContext:
    """Store the content of a folder on the server, as the context of a build."""
    with context_archive(folder, dockerfile) as archive:
        request = ObjectRequest(name="context.tgz", content_type="tgz", ttl_ms=CONTEXT_TTL_MS)
        with meter(f"context {folder}", archive.stat().st_size) as progress:
            return BuildContext(object_id=client.objects.upload(archive, request, progress).id)


def remove_context(client: SyncNouns, view: BlueprintView) -> None:
    """Delete the context of a build that has ended; an unfinished build needs it, and it expires later."""
    with suppress(BenchyardError):
        if client.blueprints.get(view.id).status not in UNFINISHED and view.parameters.build_context:
            client.objects.delete(view.parameters.build_context.object_id)


def ignore_rules(folder: Path, dockerfile: Path | None = None) -> IgnoreRules:
    """Return the rules for a folder; `<Dockerfile>.dockerignore` beside the Dockerfile takes precedence."""
    beside = dockerfile.with_name(dockerfile.name + DOCKERIGNORE) if dockerfile else None
    for place in (beside, folder / DOCKERIGNORE):
        if place and place.is_file():
            try:
                return IgnoreRules(place.read_text(encoding="utf-8-sig").splitlines())
            except UnicodeDecodeError as error:
                raise UsageError(f"{place} is not UTF-8 text") from error
    return IgnoreRules([])


def included_paths(folder: Path, ignored: IgnoreRules) -> Iterator[str]:
    """Yield the paths of a context in a stable order, each folder before its content."""
    for here, folders, files in os.walk(folder, onerror=_complain):
        above = Path(here).relative_to(folder).as_posix()
        prefix = "" if above == "." else f"{above}/"
        links = [name for name in folders if Path(here, name).is_symlink()]
        folders.sort()
        for name in sorted([*folders, *files]):
            if not ignored.leaves_out(prefix + name):
                yield prefix + name
            elif name in folders and not ignored.may_bring_back:
                folders.remove(name)
        folders[:] = [name for name in folders if name not in links]


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    if not any(kind(path.lstat().st_mode) for kind in _PACKED):
        return
    member = tar.gettarinfo(path, arcname=name)
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    if not member.isreg():
        tar.addfile(member)
        return
    with path.open("rb") as content:
        tar.addfile(member, content)


def _complain(error: OSError) -> None:
    raise error


CONTEXT_TTL_MS = 24 * 3600 * 1000
"""Lifetime of a context whose build is not waited for; a restarted server may need it again."""
