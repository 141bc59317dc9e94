"""References to images of registries, in a normal form for their many spellings."""

import re

from benchyard.errors import UsageError

_DIGEST = r"@sha256:[0-9a-f]{64}"
_TAG = r":[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_REFERENCE = re.compile(
    rf"(?P<name>[A-Za-z0-9][A-Za-z0-9._:/-]{{0,254}}?)(?P<tag>{_TAG})?(?P<digest>{_DIGEST})?"
)
_PATH = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_HOME = "docker.io"
_OLD_HOMES = ("index.docker.io", "registry-1.docker.io")


def normal_reference(text: str) -> str:
    """Return the full form, as `docker.io/library/ubuntu:latest` for `ubuntu`; raises UsageError."""
    match = _REFERENCE.fullmatch(text)
    registry, path = _split(match["name"]) if match else ("", "")
    if not match or not _PATH.fullmatch(path):
        message = (
            f"{text[:200]!r} is not a reference to an image: it looks like ubuntu:22.04 or "
            "registry.example/team/image:tag, in small letters"
        )
        raise UsageError(message)
    end = match["digest"] or match["tag"] or ":latest"
    return f"{registry}/{path}{end}"


def is_loopback(full: str) -> bool:
    """Tell whether the registry of a full reference is on this machine, where nobody can listen in."""
    host = full.partition("/")[0].partition(":")[0]
    return host == "localhost" or host.startswith("127.")


def _split(name: str) -> tuple[str, str]:
    """Return registry and path; a registry is a text before the first slash that looks like a host."""
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        registry, path = _HOME, name
    else:
        registry, path = (_HOME if first in _OLD_HOMES else first), rest
    if registry == _HOME and "/" not in path:
        path = f"library/{path}"
    return registry, path
