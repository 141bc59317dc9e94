"""Requirements and Python version of a Python script, checked before anything is fetched.

Requirements may only name packages of the index that the server is configured with. Forms that could make
the server read its own files, or fetch from elsewhere, are refused with an error that quotes them.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from benchyard.scorers.kits import pythons

MOST_REQUIREMENTS = 200
MOST_BYTES = 64 * 1024

MOST_TEXT = 16 * 1024
"""Size of a script's head, and of all requirements without their hashes."""
_MOST_OPENINGS = 1000
_MOST_DOTS = 1000
_MOST_COMMAS = 1000
_MOST_VERSION = 256
_OPENING = re.compile(r"(?m)^# /// ([a-zA-Z0-9-]+)\n")
_BLOCK = re.compile(r"(?:#(?: [^\n]*+)?\n)*+")
"""Pattern of the lines that follow an opening line, all comments; it never backtracks."""
_CLOSING = "\n# ///\n"
_COMMENT = re.compile(r"(^|(?<!\s)\s+)#.*$")
_HASH = re.compile(r"\s--hash[= ](\S+)")
_HASH_VALUE = re.compile(r"[a-z0-9]+:[0-9a-f]+")
_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_SHOWN = 80


@dataclass(frozen=True)
class ScriptHeader:
    """Requirements and Python version in the head of a script."""

    requirements: tuple[str, ...] = ()
    python: SpecifierSet | None = None


def lines(text: str) -> tuple[str, ...]:
    """Return the checked requirements of a requirements file; raises ValueError with the invalid line."""
    if len(text.encode()) > MOST_BYTES:
        raise ValueError("must be at most 64 KiB")
    found = _few(_joined(text))
    if sum(len(_HASH.sub("", line)) for _, line in found) > MOST_TEXT:
        raise ValueError(f"must be at most {MOST_TEXT >> 10} KiB without their hashes")
    return tuple(_checked(line, f"line {number}") for number, line in found)


def header(script: str) -> ScriptHeader:
    """Parse a script's `# /// script` head; raises ValueError if it is invalid."""
    heads = list(_heads(script))
    if not heads:
        return ScriptHeader()
    if len(heads) > 1:
        raise ValueError("has more than one `# /// script` head")
    if len(heads[0]) > MOST_TEXT:
        raise ValueError(f"has a `# /// script` head of more than {MOST_TEXT} characters")
    if heads[0].count(".") > _MOST_DOTS:
        # The parser takes time by the square of a key's parts.
        raise ValueError(f"has a `# /// script` head with more than {_MOST_DOTS} dots")
    rows = heads[0].split("\n")
    try:
        head = tomllib.loads("\n".join(row[2:] if row.startswith("# ") else row[1:] for row in rows))
    except RecursionError as error:
        raise ValueError("has a `# /// script` head that is nested too deep") from error
    except ValueError as error:
        raise ValueError(f"has a `# /// script` head that is not TOML: {error}") from error
    return _read(head)


def _heads(script: str) -> Iterator[str]:
    """Yield the lines between `# /// script` and the last `# ///` of the same comment, as PEP 723 has it.

    In one pass, whatever the script is.
    """
    text, at = f"{script}\n", 0
    for _ in range(_MOST_OPENINGS):
        opening = _OPENING.search(text, at)
        if opening is None:
            return
        # It always fits, if only nothing.
        end = at = _BLOCK.match(text, opening.end()).end()  # type: ignore[union-attr]
        closing = text.rfind(_CLOSING, opening.end(), end)
        if opening[1] == "script" and closing > opening.end():
            yield text[opening.end() : closing]
    raise ValueError(f"has more than {_MOST_OPENINGS} lines that open a head (`# /// name`)")


def _read(head: dict[str, object]) -> ScriptHeader:
    version, python, tool = head.get("dependencies", []), head.get("requires-python"), head.get("tool", {})
    if not isinstance(version, list) or not all(isinstance(one, str) for one in version):
        raise ValueError("`dependencies` in its head must be a list of texts")
    if not isinstance(python, str | None):
        raise ValueError("`requires-python` in its head must be a text")
    if python is not None and len(python) > _MOST_VERSION:
        raise ValueError(f"`requires-python` in its head must be at most {_MOST_VERSION} characters")
    if isinstance(tool, dict) and tool.get("uv"):
        raise ValueError("`[tool.uv]` in its head is not supported: name packages in `dependencies`")
    checked = tuple(_checked(str(one), f"dependency {number}") for number, one in _few(enumerate(version, 1)))
    return ScriptHeader(checked, pythons.constraint(python) if python is not None else None)


def _few(numbered: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the requirements, still unread; raises ValueError if there are too many."""
    found = list(islice(numbered, MOST_REQUIREMENTS + 1))
    if len(found) > MOST_REQUIREMENTS:
        raise ValueError(f"must be at most {MOST_REQUIREMENTS} requirements")
    if sum(line.count(",") for _, line in found) > _MOST_COMMAS:
        raise ValueError(f"must have at most {_MOST_COMMAS} commas in all requirements")
    return found


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with content, numbered; a line that ends in a backslash continues in the next."""
    start, kept = 1, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not kept:
            start = number
        if line.endswith("\\"):
            kept += line[:-1] + " "
            continue
        if stripped := _COMMENT.sub("", kept + line).strip():
            yield start, stripped
        kept = ""
    if stripped := _COMMENT.sub("", kept).strip():
        yield start, stripped


def _checked(line: str, where: str) -> str:
    """Return a requirement rebuilt from its parsed parts; raises ValueError if it is not allowed."""
    shown = repr(line[:_SHOWN])
    if line.startswith("-"):
        option = re.split(r"[\s=]", line)[0]
        raise ValueError(
            f"{where}: the option {option[:_SHOWN]!r} is not allowed; packages come from the server's index"
        )
    if "$" in line or not line.isprintable():
        raise ValueError(f"{where}: {shown} has characters that are not allowed")
    hashes = _HASH.findall(line)
    try:
        requirement = Requirement(_HASH.sub("", line).strip())
    except (InvalidRequirement, RecursionError) as error:
        raise ValueError(
            f"{where}: {shown} is not a requirement such as `numpy>=2`; files and folders are not allowed"
        ) from error
    if requirement.url is not None:
        raise ValueError(f"{where}: {shown} is an address; packages come from the server's index only")
    if requirement.name.lower().endswith(_ARCHIVES):
        raise ValueError(f"{where}: {shown} is a file; packages come from the server's index only")
    if not all(_HASH_VALUE.fullmatch(value) for value in hashes):
        raise ValueError(f"{where}: {shown} has an invalid hash")
    return " ".join([str(requirement), *(f"--hash={value}" for value in sorted(hashes))])
