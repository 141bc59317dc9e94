"""Here-documents for engines that do not support them, and secrets in the environment of RUN.

RUN takes the form of a list: its strings may contain line ends; COPY copies files from a folder beside the
context. An instruction never takes more lines than before, so that errors name the user's own lines.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchyard.images.dockerfile.parser import (
    Dockerfile,
    Heredoc,
    Instruction,
    arg_values,
    expand_variables,
    instruction_error,
    is_heredoc,
    split_words,
)

FILES = "benchyard-heredocs"
"""The name of that folder in COPY --from, unless the engine needs another one."""

_MOST_LETTERS = 64 * 1024**2
"""Letters of all texts to copy."""
_DEFAULT_SHELL = ("/bin/sh", "-c")
_SCRIPT = (
    'f="${TMPDIR:-/tmp}/.heredoc.$$"; (umask 077; printf %s "$1" > "$f") && chmod 755 "$f" && "$f"; '
    's=$?; rm -f "$f"; exit $s'
)


@dataclass
class DockerfileEnvironment:
    """The environment at one place of a Dockerfile, as far as it is known."""

    env: dict[str, str] = field(default_factory=dict)
    args: dict[str, str] = field(default_factory=dict)
    shell: tuple[str, ...] = _DEFAULT_SHELL

    @property
    def values(self) -> Mapping[str, str]:
        """Return the values of variables: ENV comes before ARG."""
        return {**self.args, **self.env}


@dataclass(frozen=True)
class RewriteRequest:
    """The parameters of rewriting: files, arguments and secrets of a build."""

    files: Path
    """An empty folder, which receives the texts to copy."""
    args: Mapping[str, str]
    secrets: tuple[str, ...] = ()
    name: str = FILES
    """The engine's name for that folder."""


class HeredocRewriter:
    """Goes through a Dockerfile and rewrites the instructions that its engine would not understand."""

    def __init__(self, dockerfile: Dockerfile, rewriting: RewriteRequest) -> None:
        self._dockerfile = dockerfile
        self._rewriting = rewriting
        self._global = dockerfile.global_values(rewriting.args)
        self._stages: list[tuple[str, DockerfileEnvironment]] = []
        self._files = 0
        self._left = _MOST_LETTERS

    def run(self, bases: Mapping[str, Mapping[str, str]]) -> dict[Instruction, list[str]]:
        """Return the new lines of each changed instruction; `bases` has the environment of each base."""
        changes: dict[Instruction, list[str]] = {}
        for instruction in self._dockerfile.instructions:
            try:
                new = self._visit(instruction, bases)
            except ValueError as error:
                raise instruction_error(instruction, str(error)) from error
            if new is not None:
                changes[instruction] = new
        return changes

    def _visit(self, instruction: Instruction, bases: Mapping[str, Mapping[str, str]]) -> list[str] | None:
        if instruction.name == "FROM":
            self._begin(instruction, bases)
        elif self._stages:
            return self._inside(instruction, self._stages[-1][1])
        return None

    def _begin(self, instruction: Instruction, bases: Mapping[str, Mapping[str, str]]) -> None:
        words = split_words(instruction.rest, self._dockerfile.escape)
        base = expand_variables(words[0], self._global, escape=self._dockerfile.escape)
        name = words[2].lower() if len(words) == 3 else str(len(self._stages))
        before = next((stage for each, stage in self._stages if each == base.lower()), None)
        env = dict(before.env) if before else dict(bases.get(base, {}))
        self._stages.append(
            (name, DockerfileEnvironment(env, {}, before.shell if before else _DEFAULT_SHELL))
        )

    def _inside(self, instruction: Instruction, stage: DockerfileEnvironment) -> list[str] | None:
        match instruction.name:
            case "ARG":
                given = {**self._global, **self._rewriting.args}
                stage.args |= arg_values(instruction, given, stage.values, self._dockerfile.escape)
            case "ENV":
                stage.env |= self._env(instruction.rest, stage)
            case "SHELL":
                stage.shell = tuple(_list(instruction.rest) or _DEFAULT_SHELL)
            case "RUN" if instruction.heredocs or self._rewriting.secrets:
                return [self._run(instruction, stage)]
            case "COPY" | "ADD" if instruction.heredocs:
                return self._copy(instruction, stage)
        return None

    def _env(self, rest: str, stage: DockerfileEnvironment) -> dict[str, str]:
        escape = self._dockerfile.escape
        words = split_words(rest, escape)
        if "=" not in words[0]:
            name, _, value = rest.partition(" ")
            return {name: expand_variables(value.strip(), stage.values, escape=escape)}
        pairs = (word.partition("=") for word in words)
        return {name: expand_variables(value, stage.values, escape=escape) for name, _, value in pairs}

    def _run(self, instruction: Instruction, stage: DockerfileEnvironment) -> str:
        command = _command(instruction, stage.shell)
        flags = list(instruction.flags)
        if secrets := self._rewriting.secrets:
            flags = [flag for flag in flags if not _is_plain_mount(flag, secrets)]
            flags += [f"--mount=type=secret,id={name},mode=0444" for name in secrets]
            command = ["/bin/sh", "-c", _with_secrets(secrets), "sh", *command]
        return " ".join(("RUN", *flags, json.dumps(command)))

    def _copy(self, instruction: Instruction, stage: DockerfileEnvironment) -> list[str]:
        """Return a COPY of the texts and, if files of the context are named too, a COPY of those."""
        *sources, target = split_words(instruction.rest, self._dockerfile.escape)
        if instruction.flag("from") is not None:
            raise ValueError("a here-document cannot be copied --from somewhere")
        plain = [source for source in sources if not is_heredoc(source)]
        if len(sources) > 1 and not target.endswith("/"):
            raise ValueError("with more than one source the target must be a folder: end it with /")
        laid = [self._lay(heredoc, stage) for heredoc in instruction.heredocs]
        flags = [flag for flag in instruction.flags if flag != "--link"]
        lines = [" ".join(("COPY", *flags, f"--from={self._rewriting.name}", *laid, target))]
        if plain:
            lines.insert(0, " ".join((instruction.name, *flags, *plain, target)))
        return lines

    def _lay(self, heredoc: Heredoc, stage: DockerfileEnvironment) -> str:
        """Write a text to a file; return its path below the folder."""
        if (
            "/" in heredoc.name
            or heredoc.name in (".", "..")
            or any(letter.isspace() for letter in heredoc.name)
        ):
            raise ValueError(f"{heredoc.name!r} cannot be the name of a file")
        text = heredoc.text
        if heredoc.is_expanded:
            text = expand_variables(text, stage.values, escape=self._dockerfile.escape, keep_quotes=True)
        self._left -= len(text)
        if self._left < 0:
            raise ValueError(f"the here-documents are larger than {_MOST_LETTERS} letters together")
        self._files += 1
        folder = self._rewriting.files / str(self._files)
        folder.mkdir()
        (folder / heredoc.name).write_text(text, newline="")
        (folder / heredoc.name).chmod(0o644)
        return f"{self._files}/{heredoc.name}"


def _command(instruction: Instruction, shell: Iterable[str]) -> list[str]:
    """Return the command of RUN as a list."""
    listed = _list(instruction.rest)
    if listed is not None:
        return listed
    if not instruction.heredocs:
        return [*shell, instruction.rest]
    first = instruction.heredocs[0]
    if not _is_alone(instruction.rest):
        documents = "".join(f"\n{heredoc.content}{heredoc.name}" for heredoc in instruction.heredocs)
        return [*shell, instruction.rest + documents]
    if first.text.startswith("#!"):
        return ["/bin/sh", "-c", _SCRIPT, "sh", first.text]
    return [*shell, first.text]


def _is_alone(rest: str) -> bool:
    """Tell whether the command of RUN is a single here-document."""
    words = split_words(rest)
    return len(words) == 1 and words[0].startswith("<<")


def _list(text: str) -> list[str] | None:
    """Return the list of an instruction in the form of a list of strings; None for another form."""
    try:
        words = json.loads(text)
    except ValueError:
        return None
    is_list = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return words if is_list else None


def _is_plain_mount(flag: str, secrets: Sequence[str]) -> bool:
    """Tell whether a flag mounts one of these secrets at its default path, where it is mounted anyway."""
    options = dict(part.partition("=")[::2] for part in flag.removeprefix("--mount=").split(","))
    elsewhere = options.keys() & {"target", "dst", "destination"}
    return flag.startswith("--mount=") and not elsewhere and options.get("id") in secrets


def _with_secrets(names: Iterable[str]) -> str:
    """Return a script that puts secrets, line ends included, into the environment and becomes the command."""
    reads = [
        f'{name}="$(cat /run/secrets/{name}; echo .)"; export {name}="${{{name}%.}}"; ' for name in names
    ]
    return "".join(reads) + 'exec "$@"'
