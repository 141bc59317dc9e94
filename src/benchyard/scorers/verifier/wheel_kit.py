"""Wheels that a test script installs, as a kit: resolved by `uv`, fetched once, checked by digest."""

import asyncio
import hashlib
import html
import os
import platform
import re
import shutil
import tarfile
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.scorers.kits import packages, programs
from benchyard.scorers.verifier.script_needs import ScriptNeeds

USUAL_INDEX = "https://pypi.org/simple"
MOST_PAGE_BYTES = 64 * 1024**2
MOST_FILE_BYTES = 4 * 1024**2
_INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
_BUILD = ("setuptools", "wheel")
"""Requirements for building a source that names none."""
_LINK = re.compile(r"<a\s[^<>]*?href=\"([^\"]{1,2000})\"")
_DIGEST = re.compile(r"sha256=([0-9a-f]{64})")
_MEMBER = re.compile(r"[^/]+/(PKG-INFO|pyproject\.toml)")


@dataclass(frozen=True)
class SourceArchive:
    """The archive of a package's source."""

    name: str
    source: str
    digest: str | None


async def find_source(wanted: str, client: httpx.AsyncClient) -> SourceArchive | None:
    """Find the source of a requirement such as `chess==1.11.2`; None without source or version."""
    requirement = Requirement(wanted)
    pinned = [specifier.version for specifier in requirement.specifier if specifier.operator == "=="]
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
            return SourceArchive(name, str(answer.url.join(url)), digest[1] if digest else None)
    return None


def _is_version(name: str, version: str) -> bool:
    try:
        return name.endswith(".tar.gz") and str(parse_sdist_filename(name)[1]) == version
    except InvalidSdistFilename:
        return False


async def needs_of_source(archive: Path) -> tuple[str, ...]:
    """Return the requirements that a source declares for building and running it."""
    return await asyncio.to_thread(_declared, archive)


def _declared(archive: Path) -> tuple[str, ...]:
    """Return what the files of a source declare (blocks, and anybody may have written them)."""
    texts = _texts(archive)
    requirements = HeaderParser().parsestr(texts.get("PKG-INFO", "")).get_all("Requires-Dist") or []
    try:
        build = tomllib.loads(texts.get("pyproject.toml", "")).get("build-system", {}).get("requires", _BUILD)
    except (tomllib.TOMLDecodeError, RecursionError, AttributeError):
        build = _BUILD
    return tuple(_plain(text) for text in (*requirements, *build) if _plain(text))


def _plain(text: object) -> str:
    """Return a requirement that applies without extras; empty for others."""
    try:
        requirement = Requirement(str(text))
    except (InvalidRequirement, RecursionError):
        return ""
    return "" if requirement.url or "extra" in str(requirement.marker or "") else str(requirement)


def _texts(archive: Path) -> dict[str, str]:
    """Return the files of a source that declare its requirements (blocks)."""
    texts: dict[str, str] = {}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                named = _MEMBER.fullmatch(member.name)
                if named and member.isfile() and member.size <= MOST_FILE_BYTES:
                    file = tar.extractfile(member)
                    texts[named[1]] = file.read().decode(errors="replace") if file else ""
    except (tarfile.TarError, OSError, EOFError):
        return texts
    return texts


FOLDER = "wheels"
INDEX = "simple"
MOST_BYTES = 8 * 1024**3
"""Most bytes of all wheels of one kit."""
FETCH_SECONDS = 1800.0
PIP_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
"""Python versions that an image may bring."""

_RESOLVED = "resolved"
_LAYOUT = 3
_AT_ONCE = 4
_PIECE = 1024**2
_ELSEWHERE = f"{platform.machine()}-manylinux_2_28"
"""Platform of the systems that an image's own Python runs on."""
_UV_OPTIONS = (
    *("--only-binary", ":all:", "--format", "pylock.toml", "--quiet", "--color", "never"),
    *("--no-python-downloads", "--no-sources", "--no-header"),
)
_UNREACHED = re.compile(r"(?i)failed to fetch|error sending request|dns error|timed out|connection")
_NAME = re.compile(r"[A-Za-z0-9._+!-]{1,200}\.(?:whl|tar\.gz)")
_SOURCE = ".tar.gz"


@dataclass(frozen=True)
class _Wheel:
    """A wheel, and the place to fetch it from."""

    name: str
    source: str
    """Address, or path on this machine, from the index that the server's settings name."""
    digest: str | None


@dataclass(frozen=True)
class _Question:
    """Python version and options of one resolution by `uv`."""

    python: str
    options: tuple[str, ...] = ()


async def make(needs: ScriptNeeds, python: str, kits: Kits) -> Kit:
    """Make the kit of these needs, for this version of the kit's own Python; raises ScorerFailed."""
    own, pip = sorted({*needs.requirements}), sorted({*needs.pip_requirements})
    key = f"wheels {_LAYOUT} {platform.machine()} {python} {own!r} {pip!r} {needs.has_project}"

    async def fill(folder: Path) -> None:
        wheels = await _resolve(needs, python, kits)
        (folder / FOLDER).mkdir()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                await _fetch(wheels, kits.downloads("wheels"), folder / FOLDER)
        except TimeoutError as error:
            raise _fetch_failure(f"it took longer than {FETCH_SECONDS:.0f} s") from error
        _write_index(folder / INDEX, wheels)
        (folder / _RESOLVED).write_text(" ".join(sorted(_version(wheel) for wheel in wheels)))

    return Kit(await kits.folder(key, fill), programs.target(key))


def _write_index(folder: Path, wheels: Iterable[_Wheel]) -> None:
    """Write the index pages that pip reads."""
    folder.mkdir()
    for wheel in wheels:
        page = folder / canonicalize_name(_version(wheel).partition("==")[0]) / "index.html"
        page.parent.mkdir(exist_ok=True)
        with page.open("a") as file:
            file.write(f'<a href="../../{FOLDER}/{quote(wheel.name)}">{wheel.name}</a><br>\n')


def resolved_versions(kit: Kit) -> str:
    """Return the packages of a kit: `name==version`, by name."""
    return " ".join(dict.fromkeys((kit.source / _RESOLVED).read_text().split()))


def _version(wheel: _Wheel) -> str:
    if wheel.name.endswith(_SOURCE):
        name, _, version = wheel.name.removesuffix(_SOURCE).rpartition("-")
    else:
        name, version, *_ = wheel.name.split("-")
    return f"{name}=={version}"


async def _resolve(needs: ScriptNeeds, python: str, kits: Kits) -> list[_Wheel]:
    """Return the wheels that are needed, without repetition."""
    own = tuple(
        requirement for requirement in needs.requirements if requirement not in needs.pip_requirements
    )
    wheels: dict[str, _Wheel] = {}
    if own:
        wheels |= await _resolve_together(own, _Question(python), kits)
    if needs.has_project and needs.requirements:
        wheels |= await _resolve_together(needs.requirements, _Question(python, ("--universal",)), kits)
    if needs.pip_requirements:
        wheels |= await _of_any(needs.pip_requirements, python, kits)
    return list(wheels.values())


async def _of_any(wanted: tuple[str, ...], python: str, kits: Kits) -> dict[str, _Wheel]:
    """Resolve for the kit's own Python and every version an image may have; skip versions that fail."""
    questions = [_Question(pip_python, ("--python-platform", _ELSEWHERE)) for pip_python in PIP_PYTHONS]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(question: _Question) -> dict[str, _Wheel] | ScorerFailed:
        async with turns:
            try:
                return await _compile(wanted, question, kits)
            except ScorerFailed as error:
                return error

    answers = await asyncio.gather(*(one(each) for each in (_Question(python), *questions)))
    good = [answer for answer in answers if not isinstance(answer, ScorerFailed)]
    if not good:
        return await _resolve_together(wanted, _Question(python), kits)
    return {name: wheel for answer in good for name, wheel in answer.items()}


async def _resolve_together(wanted: tuple[str, ...], question: _Question, kits: Kits) -> dict[str, _Wheel]:
    """Resolve requirements together; one by one if they contradict each other or one has only a source."""
    try:
        return await _compile(wanted, question, kits)
    except ScorerFailed as error:
        if len(wanted) < 2:
            return await _as_source(wanted[0], question, kits, error)
    wheels: dict[str, _Wheel] = {}
    for requirement in wanted:
        wheels |= await _resolve_together((requirement,), question, kits)
    return wheels


async def _as_source(wanted: str, question: _Question, kits: Kits, reason: ScorerFailed) -> dict[str, _Wheel]:
    """Return the source of a requirement that has no wheel, and the wheels that it needs."""
    async with httpx.AsyncClient(follow_redirects=True, timeout=60.0) as client:
        try:
            found = await find_source(wanted, client)
        except (httpx.HTTPError, httpx.InvalidURL):
            found = None
        if found is None:
            raise reason
        source = _Wheel(_file_name(found.name), found.source, found.digest)
        needs = await needs_of_source(await _stored_wheel(source, client, kits.downloads("wheels")))
    return {source.name: source, **(await _compile(needs, question, kits) if needs else {})}


async def _compile(wanted: tuple[str, ...], question: _Question, kits: Kits) -> dict[str, _Wheel]:
    """Resolve requirements by `uv`; return the wheels by name. Without a network, uv's own cache is used."""
    uv = await asyncio.to_thread(programs.find, "uv")
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "requirements.in").write_text("".join(f"{requirement}\n" for requirement in wanted))
        command: list[str | Path] = [uv, "pip", "compile", *_UV_OPTIONS, "--cache-dir", kits.downloads("uv")]
        command += ["--python-version", question.python, *question.options]
        command += ["--output-file", place / "pylock.toml", place / "requirements.in"]
        status, said = await packages.run(command, place)
        if status != 0 and _UNREACHED.search(said):
            status, _ = await packages.run((*command, "--offline"), place)
        if status != 0:
            raise _fetch_failure(
                f"{', '.join(wanted)[:500]} for Python {question.python}: uv says: {said.strip()}"
            )
        listed = await asyncio.to_thread(_parsed, place / "pylock.toml")
        return {
            wheel.name: wheel for package in listed.get("packages", []) for wheel in _wheels(package, place)
        }


def _parsed(lock: Path) -> dict[str, Any]:
    """Return the content of a lock file, of which each package may have hundreds of lines (blocks)."""
    return tomllib.loads(lock.read_text())


def _wheels(package: Mapping[str, Any], folder: Path) -> list[_Wheel]:
    """Return the usable wheels of a package; else the first one, whose metadata names requirements."""
    wheels = []
    for wheel in package.get("wheels", []):
        source = wheel.get("url") or str((folder / wheel.get("path", "")).resolve())
        name = wheel.get("name") or unquote(PurePosixPath(urlsplit(source).path).name)
        wheels.append(_Wheel(_file_name(name), source, wheel.get("hashes", {}).get("sha256")))
    if not wheels:
        raise _fetch_failure(f"{package.get('name')} has no wheel")
    return [wheel for wheel in wheels if _is_of_use(wheel.name)] or wheels[:1]


def _file_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise _fetch_failure(f"the index names a wheel {name[:100]!r}")
    return name


def _is_of_use(name: str) -> bool:
    systems = name.removesuffix(".whl").rpartition("-")[2]
    return systems == "any" or ("linux" in systems and platform.machine() in systems)


async def _fetch(wheels: Iterable[_Wheel], kept: Path, into: Path) -> None:
    """Copy wheels into a folder, from the store or else from their sources."""
    left = MOST_BYTES
    async with httpx.AsyncClient(follow_redirects=True, timeout=60.0) as client:
        for wheel in wheels:
            source = await _stored_wheel(wheel, client, kept)
            left -= source.stat().st_size
            if left < 0:
                raise _fetch_failure(f"the wheels take more than {MOST_BYTES} bytes")
            await asyncio.to_thread(shutil.copyfile, source, into / wheel.name)


async def _stored_wheel(wheel: _Wheel, client: httpx.AsyncClient, folder: Path) -> Path:
    """Return the path of a wheel in the store; fetch it if it is missing."""
    place = folder / f"{wheel.digest}-{wheel.name}"
    if wheel.digest is None or not place.exists():
        partial = folder / f"{wheel.name}.{os.getpid()}.partial"
        try:
            await _get(wheel, client, partial)
            partial.rename(place)
        finally:
            partial.unlink(missing_ok=True)
    return place


async def _get(wheel: _Wheel, client: httpx.AsyncClient, place: Path) -> None:
    """Fetch one wheel, complete and with the digest that the index promised."""
    try:
        if wheel.source.startswith(("http://", "https://")):
            await _download(wheel, client, place)
        else:
            path = wheel.source.removeprefix("file://")
            await asyncio.to_thread(shutil.copyfile, unquote(path) if path != wheel.source else path, place)
        digest = await asyncio.to_thread(_digest, place)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise _fetch_failure(f"{wheel.name}: {str(error) or type(error).__name__}") from error
    if wheel.digest is not None and digest != wheel.digest:
        raise _fetch_failure(f"{wheel.name} is not what the index promised: its digest is another")


async def _download(wheel: _Wheel, client: httpx.AsyncClient, place: Path) -> None:
    size = 0
    place.write_bytes(b"")
    async with client.stream("GET", wheel.source) as answer:
        answer.raise_for_status()
        async for piece in answer.aiter_bytes(_PIECE):
            size += len(piece)
            if size > MOST_BYTES:
                raise _fetch_failure(f"{wheel.name} takes more than {MOST_BYTES} bytes")
            await asyncio.to_thread(_append, place, piece)


def _append(place: Path, piece: bytes) -> None:
    with place.open("ab") as file:
        file.write(piece)


def _digest(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch_failure(reason: str) -> ScorerFailed:
    return ScorerFailed(
        f"the packages that the test script installs are not available: {reason}. The server fetches them "
        "once from the index that uv is set up with: give it a network, or name an index (UV_DEFAULT_INDEX) "
        "or a folder of wheels (UV_FIND_LINKS) before the server starts"
    )
