"""Packages that come as source only: found in the index, read for what they need, and built in the room.

Nothing of them is run on the server. What they need is what they say of themselves, beside their source.
"""

import asyncio
import html
import os
import re
import tarfile
import tomllib
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from urllib.parse import unquote

import httpx
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename

USUAL_INDEX = "https://pypi.org/simple"
MOST_PAGE_BYTES = 64 * 1024**2
MOST_FILE_BYTES = 4 * 1024**2
_INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
_BUILD = ("setuptools", "wheel")
"""What builds a source that does not say."""
_LINK = re.compile(r"<a\s[^<>]*?href=\"([^\"]{1,2000})\"")
_DIGEST = re.compile(r"sha256=([0-9a-f]{64})")
_MEMBER = re.compile(r"[^/]+/(PKG-INFO|pyproject\.toml)")


@dataclass(frozen=True)
class SourceFile:
    """The archive of a package's source."""

    name: str
    source: str
    digest: str | None


async def find(wanted: str, client: httpx.AsyncClient) -> SourceFile | None:
    """The source of a requirement such as `chess==1.11.2`; None if there is none, or no version is named."""
    requirement = Requirement(wanted)
    pinned = [each.version for each in requirement.specifier if each.operator == "=="]
    if not pinned:
        return None
    index = next((os.environ[name] for name in _INDEXES if os.environ.get(name)), USUAL_INDEX)
    address = f"{index.rstrip('/')}/{canonicalize_name(requirement.name)}/"
    answer = await client.get(address, headers={"Accept": "text/html"})
    if answer.status_code != httpx.codes.OK or len(answer.content) > MOST_PAGE_BYTES:
        return None
    for link in _LINK.findall(answer.text):
        url, _, fragment = html.unescape(link).partition("#")
        name = unquote(url.rpartition("/")[2])
        if _is_version(name, pinned[0]):
            digest = _DIGEST.fullmatch(fragment)
            return SourceFile(name, str(answer.url.join(url)), digest[1] if digest else None)
    return None


def _is_version(name: str, version: str) -> bool:
    try:
        return name.endswith(".tar.gz") and str(parse_sdist_filename(name)[1]) == version
    except InvalidSdistFilename:
        return False


async def needs_of(archive: Path) -> tuple[str, ...]:
    """What a source needs to be built, and to run, as far as it says so."""
    texts = await asyncio.to_thread(_texts, archive)
    told = HeaderParser().parsestr(texts.get("PKG-INFO", "")).get_all("Requires-Dist") or []
    try:
        build = tomllib.loads(texts.get("pyproject.toml", "")).get("build-system", {}).get("requires", _BUILD)
    except (tomllib.TOMLDecodeError, AttributeError):
        build = _BUILD
    return tuple(_plain(each) for each in (*told, *build) if _plain(each))


def _plain(text: object) -> str:
    """A requirement that holds without extras; nothing for others."""
    try:
        found = Requirement(str(text))
    except InvalidRequirement:
        return ""
    return "" if found.url or "extra" in str(found.marker or "") else str(found)


def _texts(archive: Path) -> dict[str, str]:
    """The files of a source that say what it needs (blocks)."""
    found: dict[str, str] = {}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                named = _MEMBER.fullmatch(member.name)
                if named and member.isfile() and member.size <= MOST_FILE_BYTES:
                    file = tar.extractfile(member)
                    found[named[1]] = file.read().decode(errors="replace") if file else ""
    except (tarfile.TarError, OSError, EOFError):
        return found
    return found
