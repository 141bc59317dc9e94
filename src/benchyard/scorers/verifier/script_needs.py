"""Downloads that the test script of a task asks for, read from its text; none of it is run here.

Scripts of this kind install packages by apt, fetch `uv`, and run pytest in an environment that `uv` makes, or
that the image's own `pip` adds to. Only commands that are written out are understood: names that a script
computes are not found, and it has to do without them.
"""

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import dropwhile
from typing import Any, BinaryIO

from benchyard.errors import ScorerFailed
from benchyard.scorers.kits import requirements

MOST_SCRIPT_BYTES = 1024**2
MOST_LINE = 32 * 1024
MOST_PACKAGES = 200

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)
_PACKAGE = re.compile(r"([a-z0-9][a-z0-9+.-]{1,99})(:[a-z0-9]+)?([=/].*)?")
_VERSION = re.compile(r"(?:cpython)?-?(3\.\d{1,2})(?:\.\d{1,3})?")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_PIP = re.compile(r"pip(3(\.\d+)?)?")
_PUNCTUATION = "();<>|&"
_WRAPPERS = frozenset(
    (
        *("if", "then", "else", "elif", "do", "while", "until", "{", "!"),
        *("time", "sudo", "exec", "command", "nohup", "env", "eval"),
    )
)
_SHELLS = frozenset(("bash", "sh", "dash"))
_DEEPEST = 3

_PYTHON_OPTIONS = ("-p", "--python")
_WITH = ("-w", "--with")
_FROM = "--from"
_TAKING_VALUES = frozenset(
    (
        *_PYTHON_OPTIONS,
        *_WITH,
        _FROM,
        *("-i", "--index", "--index-url", "--default-index", "--extra-index-url", "-f", "--find-links"),
        *(
            "-c",
            "--constraint",
            "--constraints",
            "-r",
            "--requirement",
            "--requirements",
            "--with-requirements",
        ),
        *("-t", "--target", "--prefix", "--root", "-e", "--editable", "--with-editable", "--trusted-host"),
        *("--cache-dir", "--directory", "--project", "--config-file", "--index-strategy", "--resolution"),
        *("--prerelease", "-P", "--upgrade-package", "--link-mode", "--exclude-newer", "--env-file"),
        *(
            "--extra",
            "--group",
            "-g",
            "--platform",
            "--python-version",
            "--abi",
            "--implementation",
            "--timeout",
        ),
        *(
            "--retries",
            "--proxy",
            "--cert",
            "--src",
            "--log",
            "--no-binary",
            "--only-binary",
            "--torch-backend",
        ),
        *("--name", "--prompt", "--optional", "--color", "--overrides", "--override", "--python-platform"),
    )
)
_APT_TAKING_VALUES = frozenset(("-o", "--option", "-c", "--config-file", "-t", "--target-release", "-a"))
_TIMEOUT_TAKING_VALUES = frozenset(("-s", "--signal", "-k", "--kill-after"))


@dataclass(frozen=True)
class ScriptNeeds:
    """Downloads that a test script asks for."""

    python: str | None = None
    """First version of Python that it names, such as 3.13."""
    requirements: tuple[str, ...] = ()
    """Requirements of all its environments together."""
    packages: tuple[str, ...] = ()
    """Names of packages that it installs by apt."""
    pip_requirements: tuple[str, ...] = ()
    """The requirements among them for environments whose Python the script does not name."""
    has_project: bool = False
    """True if it lets `uv` make a project, which is resolved for every system."""


@dataclass
class _Found:
    """Needs found so far."""

    pythons: list[str] = field(default_factory=list)
    for_uv: list[str] = field(default_factory=list)
    for_pip: list[str] = field(default_factory=list)
    packages: list[str] = field(default_factory=list)
    has_project: bool = False


def needs_of(script: str) -> ScriptNeeds:
    """Return the needs of a test script; raises ScorerFailed if it is too large."""
    if len(script.encode(errors="replace")) > MOST_SCRIPT_BYTES:
        raise ScorerFailed("the test script is larger than 1 MiB: move data out of tests/test.sh")
    needs = _Found()
    _read(script, needs, 0)
    own = [] if needs.pythons else needs.for_uv
    wanted = tuple(dict.fromkeys((*needs.for_uv, *needs.for_pip)))
    packages = tuple(dict.fromkeys(needs.packages))
    if len(wanted) > requirements.MOST_REQUIREMENTS or len(packages) > MOST_PACKAGES:
        raise ScorerFailed(
            f"the test script installs {len(wanted)} requirements and {len(packages)} packages; the verifier "
            f"kit brings {requirements.MOST_REQUIREMENTS} and {MOST_PACKAGES}: put the others into the image"
        )
    return ScriptNeeds(
        needs.pythons[0] if needs.pythons else None,
        wanted,
        packages,
        tuple(dict.fromkeys((*needs.for_pip, *own))),
        needs.has_project,
    )


READ = f"{__name__}:read"


def read(content: BinaryIO) -> dict[str, Any]:
    """Read a test script; run by a worker, whose result `of_worker` takes."""
    try:
        return {"needs": asdict(needs_of(content.read().decode(errors="replace")))}
    except ScorerFailed as error:
        return {"failed": error.message}


def of_worker(told: dict[str, Any]) -> ScriptNeeds:
    """Return the needs that a worker found; raises ScorerFailed as `needs_of` does."""
    if "failed" in told:
        raise ScorerFailed(told["failed"])
    lists: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in told["needs"].items()
    }
    return ScriptNeeds(**lists)


def _read(script: str, found: _Found, depth: int) -> None:
    for line in _lines(script):
        for words in _commands(line):
            _command(words, found, depth)


def _lines(script: str) -> Iterator[str]:
    """Yield lines as a shell reads them, without here-documents."""
    end = None
    for line in script.replace("\r\n", "\n").replace("\\\n", " ").split("\n"):
        if end is not None:
            end = None if line.strip() == end else end
            continue
        if len(line) > MOST_LINE:
            continue
        if opened := _HEREDOC.search(line):
            end = opened[2]
        yield line


def _commands(line: str) -> Iterator[list[str]]:
    """Yield the commands of a line, each as its words; none of a line that cannot be parsed alone."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=_PUNCTUATION)
    reader.whitespace_split = True
    words: list[str] = []
    is_target = False
    try:
        for word in reader:
            if word and not set(word) - set(_PUNCTUATION):
                is_target = "<" in word or ">" in word
                if not is_target:
                    yield words
                    words = []
                elif words and words[-1].isdigit():
                    words.pop()
            elif is_target:
                is_target = False
            else:
                words.append(word)
    except ValueError:
        return
    yield words


def _command(words: list[str], found: _Found, depth: int) -> None:
    words = _bare(words)
    if not words:
        return
    name, rest = posixpath.basename(words[0]), words[1:]
    if name in _SHELLS and "-c" in rest[:-1] and depth < _DEEPEST:
        _read(rest[rest.index("-c") + 1], found, depth + 1)
    elif _PYTHON.fullmatch(name) and rest[:1] == ["-m"]:
        _command(rest[1:], found, depth)
    elif _PIP.fullmatch(name):
        _install(rest, found.for_pip)
    elif name in _READERS:
        _READERS[name](rest, found)


def _bare(words: list[str]) -> list[str]:
    """Strip the words of a command that only say how it is run, such as `sudo` and `timeout`."""
    words = list(dropwhile(lambda word: word in _WRAPPERS or bool(_ASSIGNMENT.fullmatch(word)), words))
    if words and words[0] == "timeout":
        words = _options(words[1:], _TIMEOUT_TAKING_VALUES, stops=True)[1][1:]
    return words


def _options(
    words: Sequence[str], taking: frozenset[str], *, stops: bool = False
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options with their values, and the other words; `stops` at the first of these."""
    options: list[tuple[str, str]] = []
    others: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--" or not word.startswith("-") or word == "-":
            others += [] if word == "--" else [word]
            if stops or word == "--":
                return options, [*others, *left]
        elif word in taking:
            options.append((word, next(left, "")))
        elif word.startswith("--"):
            name, _, value = word.partition("=")
            options.append((name, value))
        else:
            options.append((word[:2], word[2:]))
    return options, others


def _uv(words: list[str], found: _Found) -> None:
    options, others = _options(words, _TAKING_VALUES, stops=True)
    verb, rest = (others[0], others[1:]) if others else ("", [])
    if verb == "tool" and rest[:1] in (["run"], ["install"]):
        _tool(rest[1:], found)
    elif verb == "pip" and rest[:1] == ["install"]:
        options += _install(rest, found.for_uv)
    elif verb == "add":
        found.has_project = True
        options += _install(["install", *rest], found.for_uv)
    elif verb == "run":
        found.has_project = True
        options += _with(_options(rest, _TAKING_VALUES, stops=True)[0], found)
    elif verb in ("venv", "init"):
        options += _options(rest, _TAKING_VALUES)[0]
    elif verb == "python" and rest[:1] == ["install"]:
        options += [("-p", word) for word in rest[1:]]
    _pythons(options, found)


def _tool(words: list[str], found: _Found) -> None:
    """Read the words of `uvx`: the requirements beside the tool, and the tool itself."""
    options, others = _options(words, _TAKING_VALUES, stops=True)
    _with(options, found)
    _pythons(options, found)
    beside = [
        requirement for name, value in options if name == _FROM for requirement in _rebuilt_requirement(value)
    ]
    if others and not beside:
        name, _, version = others[0].partition("@")
        beside = _rebuilt_requirement(f"{name}=={version}" if version and version != "latest" else name)
    known = {_name(requirement) for requirement in found.for_uv}
    found.for_uv += [
        requirement for requirement in beside if requirement != _name(requirement) or requirement not in known
    ]


def _with(options: list[tuple[str, str]], found: _Found) -> list[tuple[str, str]]:
    for name, value in options:
        if name in _WITH:
            for part in value.split(","):
                found.for_uv += _rebuilt_requirement(part)
    return options


def _pythons(options: list[tuple[str, str]], found: _Found) -> None:
    for name, value in options:
        if name in _PYTHON_OPTIONS and (version := _VERSION.fullmatch(value)):
            found.pythons.append(version[1])


def _install(words: list[str], into: list[str]) -> list[tuple[str, str]]:
    options, others = _options(words, _TAKING_VALUES)
    if others[:1] == ["install"]:
        for other in others[1:]:
            into += _rebuilt_requirement(other)
    return options


def _rebuilt_requirement(text: str) -> list[str]:
    """Return the requirement in a text, rebuilt; empty for a path, an address or a variable."""
    try:
        return list(requirements.lines(text)) if not text.startswith((".", "/")) else []
    except ValueError:
        return []


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0]


def _apt(words: list[str], found: _Found) -> None:
    _, others = _options(words, _APT_TAKING_VALUES)
    if others[:1] == ["install"]:
        named = [_PACKAGE.fullmatch(other) for other in others[1:]]
        found.packages += [match[1] for match in named if match is not None]


_READERS: dict[str, Callable[[list[str], _Found], None]] = {
    **dict.fromkeys(("apt-get", "apt", "aptitude"), _apt),
    "uvx": _tool,
    "uv": _uv,
}
