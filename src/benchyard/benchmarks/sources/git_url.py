"""Addresses of git repositories, as people give them: what is allowed, what is shown, what is secret."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from benchyard.benchmarks.sources.base import check_revision
from benchyard.errors import DatasetError, UsageError

_SCHEMES = ("https", "http", "ssh", "file")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_PLAIN = re.compile(r"[!-~]{1,2000}")
_SCP = re.compile(r"(?:[\w.-]+@)?[\w.-]+:[^/].*")


@dataclass(frozen=True)
class GitUrl:
    """An address in two parts: one for everybody to see, and how to enter."""

    shown: str
    """Without a name and a password."""
    scheme: str
    secret: str | None = field(default=None, repr=False)
    """The whole address, where it has a name and a password that are not for showing."""

    @property
    def name(self) -> str:
        """The repository's own name, for a folder."""
        last = self.shown.rstrip("/").rpartition("/")[2].removesuffix(".git")
        return re.sub(r"[^\w.-]", "_", last).lstrip(".-")[:60] or "repository"


def parse(url: str) -> GitUrl:
    """An address that git may be given; raises UsageError for one that it may not."""
    if not _PLAIN.fullmatch(url):
        raise UsageError("the address of a git repository has no spaces and no odd letters, and is not empty")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError("this is no address of a git repository") from error
    if parts.scheme not in _SCHEMES or not url[len(parts.scheme) :].startswith("://"):
        raise UsageError(_other_form(url))
    _check_host(parts.scheme, host)
    if parts.query or parts.fragment or not parts.path.strip("/"):
        raise UsageError(
            "the address of a git repository ends with its path, such as https://host/owner/name"
        )
    user = parts.username or ""
    # Of ssh the name belongs to the address; keys are what enters.
    keeps_user = parts.scheme == "ssh" and parts.password is None and re.fullmatch(r"\w[\w.-]*", user)
    netloc = (f"{user}@" if keeps_user else "") + host + (f":{port}" if port else "")
    shown = urlunsplit((parts.scheme, netloc, parts.path, "", ""))
    secret = url if "@" in parts.netloc and not keeps_user else None
    return GitUrl(shown, parts.scheme, secret)


def split_ref(given: str) -> tuple[str, str | None]:
    """`GIT-URL[@REF]` in its two parts; raises UsageError for what is no reference."""
    scheme, colons, rest = given.partition("://")
    host, slash, path = rest.partition("/")
    if not colons or (scheme == "file" and Path(f"/{path}").exists()):
        return given, None
    at = max(
        (index for index, letter in enumerate(path) if letter == "@" and path[:index][-1:] not in ("", "/")),
        default=-1,
    )
    if at < 0:
        return given, None
    ref = path[at + 1 :]
    try:
        check_revision(ref)
    except DatasetError as error:
        raise UsageError(f"after the `@` stands a branch, tag or commit, not {ref[:100]!r}") from error
    return f"{scheme}://{host}{slash}{path[:at]}", ref


def _check_host(scheme: str, host: str) -> None:
    if scheme == "file" and host:
        raise UsageError("a repository on this machine is given as file:///path/to/it")
    if scheme != "file" and not _HOST.fullmatch(host if ":" not in host else f"[{host}]"):
        raise UsageError("the address of a git repository has no host that could be asked")


def _other_form(url: str) -> str:
    allowed = "; give an address that begins with https://, http://, ssh:// or file://"
    if _SCP.fullmatch(url) and "::" not in url:
        return f"write ssh://USER@HOST/PATH instead of USER@HOST:PATH{allowed}"
    return f"this is no address of a git repository{allowed}"
