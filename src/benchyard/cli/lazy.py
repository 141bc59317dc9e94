"""A click group whose commands are imported only when they are used, so that `--help` answers at once."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

import click


@dataclass(frozen=True)
class Entry:
    """Where a command lives (`module:attribute`), and its line in the help."""

    place: str
    summary: str
    is_hidden: bool = False
    """Another name of a command that is in the help."""


class LazyGroup(click.Group):
    """Lists its commands from a table and imports one when it is called."""

    def __init__(self, entries: Mapping[str, Entry], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the table's order."""
        return [name for name, entry in self._entries.items() if not entry.is_hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        with _nothing_to_collect():
            command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.place} is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help's list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._entries[name].summary) for name in self.list_commands(ctx)])


@contextmanager
def _nothing_to_collect() -> Iterator[None]:
    """Imports make no garbage: to look for it again and again takes a sixth of their time."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
