"""Commands and tools of agents: which of them run tests, change files or install programs. Pure."""

import re
from collections.abc import Mapping
from typing import Any

MOST_COMMAND = 4000
_COMMAND_KEYS = ("command", "cmd", "script", "commands")
_PATH_KEYS = (
    "path",
    "file_path",
    "filename",
    "file",
    "absolute_path",
    "target_file",
    "filePath",
    "notebook_path",
)
_EDIT_TOOLS = re.compile(
    r"edit|write|create_file|create-file|patch|replace|insert_line|multi_?edit|save_file", re.I
)
_READ_TOOLS = re.compile(r"read|view|todo|plan|list|search|grep|glob|memory", re.I)
_EDIT_COMMANDS = frozenset({"create", "str_replace", "insert", "write", "edit", "undo_edit"})
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,300})$", re.M)
_WRITTEN = re.compile(r"(?:>>?|\btee(?: -a)?) ?([\w./~+@-]{1,300})")
_IN_PLACE = re.compile(r"\b(?:sed|perl|ruby) -[a-zA-Z.]{0,9}i")
_MOVED = re.compile(r"(?:^|[\n;&|(] ?)(?:mv|cp|rm|touch|git apply|git checkout|patch|mkdir) ", re.M)
_TESTS = re.compile(
    r"\b(?:pytest|py\.test|unittest|nosetests|tox|nox|manage\.py test|runtests\.py|bin/test"
    r"|npm (?:run )?test|npm t|yarn (?:run )?test|pnpm (?:run )?test|bun test|deno test|npx (?:jest"
    r"|vitest|mocha|ava)"
    r"|jest|vitest|mocha|go test|gotestsum|cargo (?:nextest|test)|mvn [\w -]{0,80}(?:test|verify)"
    r"|gradlew? [\w: -]{0,80}test"
    r"|make (?:check|test)|ctest|meson test|bazel test|dotnet test|rspec|rake (?:spec|test)|rails test"
    r"|minitest"
    r"|phpunit|pest|composer test|mix test|swift test|sbt test|lein test|stack test|cabal test"
    r"|dune (?:test|runtest)"
    r"|prove|busted|bats|julia [\w./= -]{0,80}runtests|R CMD check|flutter test|dart test|zig build test)\b"
)
_TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec|specs|testing|testdata)/|(?:^|/)(?:test_[^/]{1,200}|conftest)\.py$"
    r"|[._-](?:test|tests|spec)\.[a-z]{1,5}$|(?:^|/)[A-Z]\w{0,200}Tests?\.(?:java|kt|cs|php|swift|scala)$"
)
_PROTECTED = re.compile(
    r"(?:^|/)(?:\.git/|\.github/workflows/|\.gitlab-ci\.yml$|tox\.ini$|pytest\.ini$"
    r"|jest\.config\.[a-z]{2,3}$|noxfile\.py$)"
)
_INSTALLS = re.compile(
    r"\b(?:pip3? install|pip3? download|uv (?:add|sync|pip install)|poetry (?:add|install)"
    r"|conda install|npm (?:i|ci|install)"
    r"|yarn add|yarn install|pnpm (?:add|i|install)|apt(?:-get)? (?:-[\w=]{1,20} )?(?:install|update)"
    r"|apk add|dnf install|yum install"
    r"|cargo (?:add|install|fetch)|go (?:get|install|mod download)|gem install|bundle install"
    r"|composer (?:require|install)"
    r"|brew install)\b"
)
_EXIT_STATUS = re.compile(
    r"(?:exit(?:ed)?(?: with)?[ _-]?(?:code|status)|returncode|return code|exited with)\W{1,4}(\d{1,3})\b",
    re.I,
)
_BRACKETED = re.compile(r"\[exit (\d{1,3})\]|\(exit (\d{1,3})\)")
_EDGE = 400


def command_of(arguments: Mapping[str, Any]) -> str | None:
    """Return the command line in a call's arguments; None if it has none."""
    if "path" in arguments and arguments.get("command") in _EDIT_COMMANDS | {"view"}:
        return None
    for key in _COMMAND_KEYS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value[:MOST_COMMAND]
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value[:50]):
            words = [str(each) for each in value[:50]]
            is_shell = len(words) > 2 and words[1] in ("-c", "-lc", "-ic")
            return (words[2] if is_shell else " ".join(words))[:MOST_COMMAND]
    return None


def is_edit(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Tell whether a call edits files by a tool made for it."""
    if arguments.get("command") in _EDIT_COMMANDS and "path" in arguments:
        return True
    return bool(_EDIT_TOOLS.search(tool[:100])) and not _READ_TOOLS.search(tool[:100])


def changed_paths(tool: str, arguments: Mapping[str, Any], command: str | None) -> tuple[str, ...]:
    """Return the files that a call writes, as far as its arguments tell."""
    found: list[str] = []
    if is_edit(tool, arguments):
        found += [value[:300] for key in _PATH_KEYS if isinstance(value := arguments.get(key), str)]
        for value in arguments.values():
            if isinstance(value, str) and "*** " in value:
                found += _PATCHED.findall(value[:MOST_COMMAND])
    if command is not None:
        found += _PATCHED.findall(command)
        found += [path for path in _WRITTEN.findall(command) if not path.startswith(("/dev/", "/tmp/"))]  # noqa: S108
    return tuple(dict.fromkeys(found))[:20]


def changes_unknown_files(command: str) -> bool:
    """Tell whether a command changes files whose names are not read from it."""
    return bool(_IN_PLACE.search(command) or _MOVED.search(command))


def runs_tests(command: str) -> bool:
    """Tell whether a command runs tests, in the ways of the usual ecosystems."""
    return bool(_TESTS.search(command)) and not _INSTALLS.search(command)


def installs(command: str) -> bool:
    """Tell whether a command installs packages."""
    return bool(_INSTALLS.search(command))


def is_test_file(path: str) -> bool:
    """Tell whether a path is that of a test."""
    return bool(_TEST_FILE.search(path))


def is_protected_file(path: str) -> bool:
    """Tell whether a path decides how tests are run, or holds the history."""
    return bool(_PROTECTED.search(path))


def exit_status_in(output: str) -> int | None:
    """Return the exit status that a tool's result tells; None if it tells none."""
    for part in (output[:_EDGE], output[-_EDGE:]):
        found = _EXIT_STATUS.search(part) or _BRACKETED.search(part)
        if found:
            return int(next(group for group in found.groups() if group is not None))
    return None
