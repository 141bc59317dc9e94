"""Files of a git repository at one commit, and parsing of repository addresses."""

import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from benchyard.benchmarks.sources import cache
from benchyard.benchmarks.sources.base import FetchLimits, FetchProgress, GitTree, check_revision, is_commit
from benchyard.errors import DatasetError, UsageError

_SCHEMES = ("https", "http", "ssh", "file")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_PLAIN = re.compile(r"[!-~]{1,2000}")
_SCP = re.compile(r"(?:[\w.-]+@)?[\w.-]+:[^/].*")


@dataclass(frozen=True)
class GitUrl:
    """An address in two parts: one that may be shown, and one with credentials."""

    shown: str
    """Address without a name and a password."""
    scheme: str
    secret: str | None = field(default=None, repr=False)
    """Whole address, if it has a name and a password, which must not be shown."""

    @property
    def name(self) -> str:
        """Name of the repository, for a folder."""
        last = self.shown.rstrip("/").rpartition("/")[2].removesuffix(".git")
        return re.sub(r"[^\w.-]", "_", last).lstrip(".-")[:60] or "repository"


def parse_url(url: str) -> GitUrl:
    """Return an address that is safe for git; raises UsageError for any other."""
    if not _PLAIN.fullmatch(url):
        raise UsageError(
            "the address of a git repository must not be empty, and must not have spaces or quotes"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UsageError("this is not the address of a git repository") from error
    if parts.scheme not in _SCHEMES or not url[len(parts.scheme) :].startswith("://"):
        raise UsageError(_other_form(url))
    _check_host(parts.scheme, host)
    if parts.query or parts.fragment or not parts.path.strip("/"):
        raise UsageError(
            "the address of a git repository ends with its path, such as https://host/owner/name"
        )
    user = parts.username or ""
    # With ssh, the name is part of the address and no secret: keys give access.
    keeps_user = parts.scheme == "ssh" and parts.password is None and re.fullmatch(r"\w[\w.-]*", user)
    netloc = (f"{user}@" if keeps_user else "") + host + (f":{port}" if port else "")
    shown = urlunsplit((parts.scheme, netloc, parts.path, "", ""))
    secret = url if "@" in parts.netloc and not keeps_user else None
    return GitUrl(shown, parts.scheme, secret)


def split_ref(given: str) -> tuple[str, str | None]:
    """Split `GIT-URL[@REF]`; raises UsageError if it is invalid."""
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
        raise UsageError(f"`@` must be followed by a branch, tag or commit, not {ref[:100]!r}") from error
    return f"{scheme}://{host}{slash}{path[:at]}", ref


def _check_host(scheme: str, host: str) -> None:
    if scheme == "file" and host:
        raise UsageError("a repository on this machine is given as file:///path/to/it")
    if scheme != "file" and not _HOST.fullmatch(host if ":" not in host else f"[{host}]"):
        raise UsageError("the address of a git repository has no valid host")


def _other_form(url: str) -> str:
    allowed = "; give an address that begins with https://, http://, ssh:// or file://"
    if _SCP.fullmatch(url) and "::" not in url:
        return f"write ssh://USER@HOST/PATH instead of USER@HOST:PATH{allowed}"
    return f"this is not the address of a git repository{allowed}"


_LIMITS = FetchLimits()
_SHOWN = 600
_LOOKUP_SECONDS = 120.0
_NO_RUNNING = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.autocrlf": "false",
    "filter.lfs.smudge": "",
    "filter.lfs.process": "",
    "filter.lfs.required": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
    "protocol.version": "2",
}
"""Settings that keep git from running programs, fetching other things, or changing what it writes."""
_BRANCHES_ONLY = ("unadvertised object", "dumb http transport")
"""Parts of git's errors for servers that give branches and tags, but no commit by its hash."""
_FROM_OUTSIDE = (
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
)
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


def resolve_tree(given: str) -> GitTree:
    """Return `GIT-URL[@REF]` with the commit that REF is now; raises UsageError, DatasetError."""
    url, ref = split_ref(given)
    parsed = parse_url(url)
    commit = ref if ref and is_commit(ref) else _looked_up(parsed, ref or "HEAD")
    return GitTree(url, commit)


def fetch(source: GitTree, root: Path, progress: FetchProgress, limits: FetchLimits = _LIMITS) -> Path:
    """Return the folder with the files of a tree, under `root`, without its `.git`; raises DatasetError.

    Links in it are as the repository has them: readers must not follow one that leads out.
    """
    url = parse_url(source.url)
    base = root / f"{url.name}-{_digest(url.shown)}"
    commit = source.revision if is_commit(source.revision) else _commit(url, source.revision, base)
    chosen = _digest("\n".join(sorted(source.paths))) if source.paths else "all"
    folder = base / commit / chosen
    if folder.is_dir():
        return folder
    with cache.lock(folder, url.shown, progress):
        if not folder.is_dir():
            partial = cache.path_beside(folder, ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            progress.started(url.shown, None)
            try:
                _Clone(url, partial, limits).at(replace(source, revision=commit))
                partial.replace(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
                progress.done()
    return folder


def commit_of(folder: Path) -> str:
    """Return the commit of a folder that `fetch` gave."""
    return folder.parent.name


class _Clone:
    """A repository that is being written to one folder."""

    def __init__(self, url: GitUrl, folder: Path, limits: FetchLimits) -> None:
        self._url = url
        self._folder = folder
        self._limits = limits

    def at(self, source: GitTree) -> None:
        """Write the files of a commit, and remove git's own files."""
        self._folder.mkdir()
        self._git("init", "--quiet", "--template=", "--initial-branch=benchyard", ".")
        # Name the remote: git fetches single files from it later, if the server allows that.
        self._git("config", "remote.origin.url", self._url.shown)
        self._fetch(source)
        if source.paths:
            patterns = "".join(f"/{_escaped(path)}\n" for path in source.paths)
            (self._folder / ".git" / "info").mkdir(exist_ok=True)
            (self._folder / ".git" / "info" / "sparse-checkout").write_text(patterns)
            self._git("config", "core.sparseCheckout", "true")
        self._git("checkout", "--quiet", "--detach", source.revision, "--")
        missing = [path for path in source.paths if not os.path.lexists(self._folder / path)]
        if missing:
            raise DatasetError(f"{self._url.shown} has no {', '.join(missing)[:300]} at {source.revision}")
        shutil.rmtree(self._folder / ".git")

    def _fetch(self, source: GitTree) -> None:
        sparse = ["--filter=blob:none"] if source.paths else []
        options = ["--quiet", "--no-tags", "--no-recurse-submodules", *sparse]
        try:
            self._git("fetch", *options, "--depth=1", "origin", source.revision)
        except DatasetError as error:
            if "not our ref" in error.message:
                raise DatasetError(f"{self._url.shown} has no commit {source.revision}") from error
            if not any(said in error.message for said in _BRANCHES_ONLY):
                raise
            # Fetch all branches and tags instead, and look for the commit in them.
            self._git("fetch", *options, "origin", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
            self._require(source.revision)

    def _require(self, commit: str) -> None:
        try:
            self._git("cat-file", "-e", f"{commit}^{{commit}}")
        except DatasetError as error:
            raise DatasetError(f"{self._url.shown} has no commit {commit}") from error

    def _git(self, *arguments: str) -> None:
        _run(self._url, ["-C", str(self._folder), *arguments], self._limits)


def _commit(url: GitUrl, revision: str, base: Path) -> str:
    """Return the present commit of a branch or tag, or the last known if the repository cannot be reached."""
    try:
        commit = _looked_up(url, revision)
    except DatasetError:
        noted = cache.last_commit(base, revision)
        if noted is None:
            raise
        return noted
    cache.note_commit(base, revision, commit)
    return commit


def _looked_up(url: GitUrl, ref: str) -> str:
    """Return the present commit of a branch or tag; tags take precedence, as in git."""
    names = ["HEAD"] if ref == "HEAD" else [f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}"]
    said = _run(url, ["ls-remote", "--quiet", "--", url.shown, *names], FetchLimits(seconds=_LOOKUP_SECONDS))
    lines = (line.split("\t", 1) for line in said.splitlines() if "\t" in line)
    commits = {name: commit for commit, name in lines if is_commit(commit)}
    for name in names:
        if name in commits:
            return commits[name]
    raise UsageError(f"{url.shown} has no branch or tag {ref!r}; a commit is given with all its 40 digits")


def _run(url: GitUrl, arguments: list[str], limits: FetchLimits) -> str:
    command = [
        "git",
        *(part for key, value in _NO_RUNNING.items() for part in ("-c", f"{key}={value}")),
        *arguments,
    ]
    try:
        process = subprocess.Popen(
            command,
            env=_environment(url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise DatasetError(
            "there is no git on this machine; install it, or give a copy with --from"
        ) from error
    _bound(process.pid, limits.file_bytes)
    try:
        said, complained = process.communicate(timeout=limits.seconds)
    except subprocess.TimeoutExpired as error:
        raise DatasetError(f"git did not end in {limits.seconds:.0f} seconds with {url.shown}") from error
    finally:
        _end(process)
    if process.returncode:
        complaint = _scrubbed(url, complained.decode(errors="replace")).strip()[-_SHOWN:]
        raise DatasetError(
            f"git cannot get {url.shown}: {complaint or f'it ended with {process.returncode}'}"
        )
    return said.decode(errors="replace")


def _bound(pid: int, most: int) -> None:
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
    except ProcessLookupError:
        return  # It has ended already.


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill git and the processes it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _environment(url: GitUrl) -> dict[str, str]:
    names = (*_FROM_OUTSIDE, *_PROXIES, *(name.upper() for name in _PROXIES))
    variables = {name: os.environ[name] for name in names if name in os.environ}
    variables |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_ALLOW_PROTOCOL": url.scheme,
        "LC_ALL": "C",
    }
    variables.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    if url.secret is not None:
        # Not on the command line, which every user of the machine can read.
        variables |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{url.secret}.insteadOf",
            "GIT_CONFIG_VALUE_0": url.shown,
        }
    return variables


def _scrubbed(url: GitUrl, text: str) -> str:
    return (
        text if url.secret is None else text.replace(url.secret, url.shown).replace(_userinfo(url.secret), "")
    )


def _userinfo(address: str) -> str:
    return address.partition("://")[2].rpartition("@")[0] + "@"


def _escaped(path: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[]!#\\ " else letter for letter in path.strip("/"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
