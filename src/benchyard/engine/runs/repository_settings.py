"""Settings of git repositories that git obeys whenever it is called, as scorers may do in the work. Pure."""

import re

_MOST_SETTINGS = 64 * 1024
_MOST_REFERENCES = 16 * 1024**2
REPOSITORY = ".git"
_HOOKS = "hooks/"
_OBEYED = frozenset({"info/attributes", "objects/info/alternates", "info/grafts", "commondir"})
_REPLACEMENTS = "refs/replace/"
_OBJECT = re.compile(r"objects/(?:[0-9a-f]{2}/|pack/)")
_READ = frozenset({"config", "config.worktree", "packed-refs"})
_BLANK = r"[ \t\r\f\v\ufeff]*+"
_BEGIN = rf"(?:^|\]){_BLANK}"
"""Place at which a name can stand in a file of settings: at the beginning of a line, or after a heading."""
_HEADING = re.compile(
    rf"{_BEGIN}\[{_BLANK}(?:alias|credential|filter|gpg|hook|include|includeif|pager|protocol|url)\b", re.M
)
_NAME = re.compile(
    rf"{_BEGIN}(?:alternaterefscommand|askpass|attributesfile|checkstat|command|driver|editor|excludesfile"
    r"|external|fsmonitor|gitproxy|hookspath|ignore|ignorestat|ignoresubmodules|pager|partialclone|program"
    r"|promisor|receivepack|sparsecheckout|sparsecheckoutcone|sshcommand|textconv|trustctime|uploadpack"
    rf"|usereplacerefs|worktree|worktreeconfig){_BLANK}(?:[=#;]|$)",
    re.M,
)
_BARE = re.compile(rf'{_BEGIN}bare{_BLANK}(?:={_BLANK}"?(?:true|yes|on|[1-9])|[#;]|$)', re.M)


def is_obeyed(path: str) -> bool:
    """Tell whether git runs or obeys a file by itself, whatever is in it; no work needs such a file."""
    inner = _inner(path)
    is_hook = inner.startswith(_HOOKS) and not inner.endswith(".sample")
    return is_hook or inner in _OBEYED or inner.startswith(_REPLACEMENTS)


def is_replaced(path: str, kind: str, type: str) -> bool:
    """Tell whether a change is none that git makes: another repository in the place, or another object."""
    if path.endswith(f"/{REPOSITORY}"):
        return kind == "modified" and type != "folder"
    return kind == "modified" and _OBJECT.match(_inner(path)) is not None


def is_to_be_read(path: str) -> bool:
    """Tell whether it depends on a file's content how git behaves; honest work changes such files too."""
    return _inner(path) in _READ


def most_bytes(path: str) -> int:
    """Return the size up to which a file is read; an honest one is not larger."""
    return _MOST_REFERENCES if path.endswith("/packed-refs") else _MOST_SETTINGS


def changes_git(path: str, content: bytes) -> bool:
    """Tell whether settings may have git run programs, or hide or exchange what it is asked for.

    Whatever looks like such a setting counts, in whichever section: git's own reading need not be repeated.
    """
    if len(content) > most_bytes(path):
        return True
    if path.endswith("/packed-refs"):
        return _REPLACEMENTS.encode() in content
    text = content.decode(errors="replace").lower()
    return any(pattern.search(text) for pattern in (_HEADING, _NAME, _BARE))


def _inner(path: str) -> str:
    """Return a path's part inside of its repository, or of a submodule's; empty if it is in none."""
    _, _, inner = path.partition(f"/{REPOSITORY}/")
    if not inner.startswith("modules/"):
        return inner
    starts = [inner.rfind(f"/{each}") for each in (_HOOKS, "info/", _REPLACEMENTS, "objects/")]
    starts += [len(inner) - len(each) - 1 for each in (*_READ, "commondir") if inner.endswith(f"/{each}")]
    return inner[max(*starts, 0) + 1 :]
