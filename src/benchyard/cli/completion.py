"""`benchyard completion`: scripts and answers by which a shell completes commands, flags and names."""

import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import ClassVar

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

from benchyard.cli.multi_value_options import SeveralCommand, repeat_flags
from benchyard.errors import BenchyardError

VARIABLE = "_BENCHYARD_COMPLETE"
"""Variable in which the shell's script names the shell that asks."""

PATIENCE_SECONDS = 2.0
"""Longest wait for the server: the user has not run a command yet."""

BASH = """\
_benchyard_completion() {
    local kind value
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value; do
        case "$kind" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null </dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -F _benchyard_completion %(prog_name)s
"""

ZSH = """\
#compdef %(prog_name)s
_benchyard_completion() {
    local -a plain described response
    local kind value help
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(COMP_WORDS="${(j: :)words[1,CURRENT]}" COMP_CWORD=$((CURRENT-1)) \\
        %(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null </dev/null)}")
    for kind value help in ${response}; do
        case "$kind" in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain) if [[ "$help" == "_" ]]; then plain+=("$value"); else described+=("$value:$help"); fi ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described
    (( $#plain )) && compadd -V unsorted -a plain
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _benchyard_completion "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _benchyard_completion %(prog_name)s
fi
"""

FISH = """\
function _benchyard_completion
    set -l words (commandline -cp)
    set -l word (commandline -ct)
    for answer in (env COMP_WORDS="$words" COMP_CWORD="$word" %(complete_var)s=fish_complete \\
            %(prog_name)s 2>/dev/null </dev/null)
        set -l part (string split --max 1 "," -- $answer)
        switch $part[1]
            case dir
                __fish_complete_directories "$word"
            case file
                __fish_complete_path "$word"
            case plain
                echo $part[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(_benchyard_completion)"
"""


class Names(click.types.StringParamType):
    """Type of a parameter that names an object of the server."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin with the incomplete word."""
        names = import_module("benchyard.cli.completion_names")
        signal.signal(signal.SIGALRM, _give_up)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
        try:
            known: list[CompletionItem] = names.items(self.kind, incomplete, os.environ)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return known


class _Named(ShellComplete):
    """Sets the types of parameters that take names before click completes them."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return the completions of the incomplete word."""
        path, command = self._command(args)
        kinds: Mapping[str, str] = (
            import_module("benchyard.cli.completion_names").kinds(path, command.params) if path else {}
        )
        for param in command.params:
            if param.name in kinds:
                param.type = Names(kinds[param.name])
        if isinstance(command, SeveralCommand):
            args = _with_flag(command, args)
        return super().get_completions(args, incomplete)

    def _command(self, args: list[str]) -> tuple[list[str], click.Command]:
        command: click.Command = self.cli
        context = click.Context(command, resilient_parsing=True)
        path: list[str] = []
        for word in args:
            if not isinstance(command, click.Group):
                break
            found = None if word.startswith("-") else command.get_command(context, word)
            if found is not None:
                path.append(found.name or word)
                command = found
        return path, command


class Bash(_Named, BashComplete):
    """Completion in bash, from the line as it was typed: bash itself cuts words at colons."""

    source_template: ClassVar[str] = BASH

    def source(self) -> str:
        """Return the script for the shell."""
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the complete words, and the incomplete one."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        self.word = "" if not words or line[-1:].isspace() else words.pop()
        return words[1:], self.word

    def format_completion(self, item: CompletionItem) -> str:
        """Return a line of the answer; bash replaces only the part after the last colon or `=`."""
        breaks = set(os.environ.get("COMP_WORDBREAKS", "")) & set(":=")
        typed = self.word.partition("=")[2] if self.word.startswith("-") else self.word
        kept = max((typed.rfind(each) + 1 for each in breaks), default=0)
        value = item.value[kept:] if item.value.startswith(typed[:kept]) else item.value
        quoted = re.sub(r"([^-\w@%+=:,./])", r"\\\1", value)
        return f"{item.type}\t{quoted}"


class Zsh(_Named, ZshComplete):
    """Completion in zsh, as click does it, without messages."""

    source_template: ClassVar[str] = ZSH


class Fish(_Named, FishComplete):
    """Completion in fish, as click does it, without messages."""

    source_template: ClassVar[str] = FISH


SHELLS: Mapping[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print a script that completes commands, flags and names in a shell.

    Names (of jobs, benchmarks, scenarios, agents, devboxes and so on) are asked of the server that commands
    would use; none is started for it.

    \b
    For every new shell:
      echo 'eval "$(benchyard completion bash)"' >> ~/.bashrc
      echo 'eval "$(benchyard completion zsh)"' >> ~/.zshrc
      benchyard completion fish > ~/.config/fish/completions/benchyard.fish

    \b
    For this one:
      eval "$(benchyard completion bash)"
      benchyard completion fish | source
    """
    click.echo(SHELLS[shell](click.Command("benchyard"), {}, "benchyard", VARIABLE).source(), nl=False)


def answer(cli: click.Command, instruction: str) -> int:
    """Answer a shell that completes a line; errors are not shown to it."""
    shell, _, verb = instruction.partition("_")
    if shell not in SHELLS or verb not in ("complete", "source"):
        return 1
    found = SHELLS[shell](cli, {}, "benchyard", VARIABLE)
    if verb == "source":
        click.echo(found.source(), nl=False)
        return 0
    with suppress(click.ClickException, BenchyardError, OSError, ValueError, KeyError):
        if said := found.complete():
            click.echo(said)
    return 0


def _give_up(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("completion took too long")


def _with_flag(command: click.Command, args: list[str]) -> list[str]:
    """Return the words, with the flag repeated if the next word is a further value of it."""
    flags = {
        name
        for param in command.params
        if isinstance(param, click.Option) and param.multiple
        for name in param.opts
    }
    *words, _ = repeat_flags([*args, ""], flags)
    return words
