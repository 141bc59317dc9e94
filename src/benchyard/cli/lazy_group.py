"""A click group that imports its commands only when they are used, so that `--help` answers at once."""

import difflib
import gc
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import click
from click.shell_completion import CompletionItem

from benchyard.cli import aliases

_WHOLE = 1000
"""A limit longer than any first sentence."""


@dataclass(frozen=True)
class CommandEntry:
    """Place of a command (`module:attribute`), and its line in the help."""

    place: str
    summary: str


class LazyGroup(click.Group):
    """Command group that lists its commands from a table, and imports one when it is called."""

    def __init__(self, entries: Mapping[str, CommandEntry], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the table's order."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name or alias."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return self._other_name(ctx, cmd_name)
        command = _load(entry.place)
        return Noun.of(cmd_name, command) if isinstance(command, click.Group) else command

    def _other_name(self, ctx: click.Context, given: str) -> click.Command | None:
        if given in aliases.ABSENT:
            raise click.UsageError(aliases.ABSENT[given], ctx)
        noun = aliases.noun_of(given, self.list_commands(ctx))
        found = self.get_command(ctx, noun) if noun is not None and noun in self._entries else None
        return found if isinstance(found, click.Group) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant; the error for an unknown one names the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # Click knows only the commands that are added to a group; these are imported on demand.
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) from error

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, without importing any."""
        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self._entries.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help's list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._entries[name].summary) for name in self.list_commands(ctx)])


class Noun(click.Group):
    """A group of verbs that also answers to their aliases; verbs that have places are imported on use."""

    def __init__(
        self,
        name: str | None = None,
        commands: Mapping[str, click.Command] | None = None,
        *,
        places: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        self._places = dict(places or {})
        known = {**(commands or {}), **{verb: click.Command(verb) for verb in self._places}}
        super().__init__(name, known, **settings)  # type: ignore[arg-type]

    @classmethod
    def of(cls, name: str, group: click.Group) -> click.Group:
        """Return the group under a name, with aliases of its verbs."""
        if type(group) is not click.Group:
            return group
        return cls(
            name,
            group.commands,
            callback=group.callback,
            params=group.params,
            help=group.help,
            no_args_is_help=group.no_args_is_help,
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help's list of verbs, each with the whole first sentence of its own help."""
        verbs = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, verb.get_short_help_str(limit=_WHOLE))
                    for name, verb in verbs.items()
                    if verb is not None and not verb.hidden
                ],
            )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb of that name or alias."""
        noun = self.name or ""
        verb = aliases.verb_of(noun, cmd_name) if cmd_name not in self.commands else cmd_name
        if (noun, cmd_name) in aliases.ELSEWHERE and verb not in self.commands:
            instead = aliases.ELSEWHERE[noun, cmd_name]
            raise click.UsageError(f"there is no `{noun} {cmd_name}`: {instead}", ctx)
        if verb in self._places:
            self.commands[verb] = _load(self._places.pop(verb))
        return self.commands.get(verb or cmd_name)


def _load(place: str) -> click.Command:
    name, _, attribute = place.partition(":")
    module = import_module(name) if name in sys.modules else _imported(name)
    command = getattr(module, attribute)
    if not isinstance(command, click.Command):
        raise TypeError(f"{place} is not a click command")
    return command


def _imported(name: str) -> ModuleType:
    """Import a module without garbage collection: imports leave no garbage, and looking for it takes a sixth
    of their time.
    """
    gc.disable()
    try:
        module = import_module(name)
        # Only now, not at every call: frozen garbage would stay for ever.
        gc.freeze()
        return module
    finally:
        gc.enable()
