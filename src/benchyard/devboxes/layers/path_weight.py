"""Weights of changed paths by their effect on other programs: the lightest are cut from a list first."""

import re

PLAIN = 2
"""Files that are only read or run on request of a program's caller."""
LIGHTEST = 3
_SYSTEM = re.compile(r"/(bin|sbin|lib\w*|usr|etc)(/|$)")
_READ_AT_START = re.compile(
    r"\.so(\.[\d.]+)?$|\.(pth|egg-link|ini|cfg|conf|toml)$"
    r"|/(\.[^/]*rc|\.[^/]*profile|\.gitconfig|\.npmrc|\.env|conftest\.py|sitecustomize\.py|usercustomize\.py)$"
    r"|/\.git/(hooks/|info/attributes$)"
)
_PROGRAM = re.compile(r"/(usr/(local/)?)?s?bin/[^/]+")
_PROGRAM_FOLDER = re.compile(r"/(usr/(local/)?)?(s?bin|lib\w*(/[^/]+)?)")
_NEEDED = re.compile(
    r"/(bin|sbin|lib\w*|usr|opt)(/|$)"
    r"|/etc(/[^/]*)?$|/etc/(alternatives|ld\.so\.conf\.d|perl|ssl|(python|java)[^/]*)(/|$)"
)
_NEEDLESS = re.compile(
    r"/(__pycache__|share/(apache2|bug|doc|info|lintian|locale|man|nginx)|[^/]+\.(dist|egg)-info)(/|$)"
    r"|/EXTERNALLY-MANAGED$"
    r"|\.(a|la|md|pyc|rst|txt)$|[~-]$|/etc/\.[^/]*$"
)
_EXECUTABLE_OR_SET_ID = 0o6111


def is_of_system(path: str) -> bool:
    """Tell whether a path is in a folder of a system's programs, libraries or settings."""
    return _SYSTEM.match(path) is not None


def is_program(path: str) -> bool:
    """Tell whether a path is in a folder where a system looks for programs."""
    return _PROGRAM.fullmatch(path) is not None


def is_needed(path: str) -> bool:
    """Tell whether programs may not run, or fail, without this file or folder of a system."""
    return _NEEDED.match(path) is not None and _NEEDLESS.search(path) is None


def holds_programs(path: str) -> bool:
    """Tell whether a path is a folder of a system's programs, or of files that they need to run."""
    return _PROGRAM_FOLDER.fullmatch(path) is not None


def weight(path: str, kind: str, type: str, mode: int) -> int:
    """Return 0 for files of the system, 1 for programs, libraries and settings elsewhere, then the rest.

    Folders and deletions come last, but for files that programs need, which some program may have relied on:
    a missing file cannot be opened, and the content of a folder is listed itself.
    """
    if kind == "deleted" and is_needed(path):
        return 0
    if (kind == "deleted" or type == "folder") and not (is_program(path) or holds_programs(path)):
        return LIGHTEST
    if is_of_system(path):
        return 0
    is_plain = type == "file" and not mode & _EXECUTABLE_OR_SET_ID
    return PLAIN if is_plain and not _READ_AT_START.search(path) else 1
