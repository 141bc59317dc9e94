"""Options that take several values after one flag, as in `--env-vars A=1 B=2`."""

from collections.abc import Collection, Iterator, Sequence

import click


class SeveralCommand(click.Command):
    """A command without arguments of its own: words after a repeatable flag are that flag's values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat each flag before every value it was given, which is what click understands."""
        repeatable = {
            name
            for param in self.params
            if isinstance(param, click.Option) and param.multiple
            for name in (*param.opts, *param.secondary_opts)
        }
        return super().parse_args(ctx, list(repeat_flags(args, repeatable)))


def repeat_flags(arguments: Sequence[str], flags: Collection[str]) -> Iterator[str]:
    """The arguments with such a flag before each of its values: `-a x y` as `-a x -a y`."""
    flag: str | None = None
    is_first = False
    for text in arguments:
        if text.startswith("-") and text != "-" and not is_first:
            name, equals, _ = text.partition("=")
            flag = name if name in flags else None
            # The first value of a flag is taken whatever it looks like, as click does.
            is_first = flag is not None and not equals
        elif flag is not None and not is_first:
            yield flag
        else:
            is_first = False
        yield text
