"""Options that take several values after one flag, as in `--env-vars A=1 B=2`."""

from collections.abc import Collection, Iterator, Sequence

import click


class SeveralCommand(click.Command):
    """A command without own arguments: words after a repeatable flag are further values of that flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat each flag before each of its values, as click requires."""
        repeatable = {
            name
            for param in self.params
            if isinstance(param, click.Option) and param.multiple
            for name in (*param.opts, *param.secondary_opts)
        }
        return super().parse_args(ctx, list(repeat_flags(args, repeatable)))


def repeat_flags(arguments: Sequence[str], flags: Collection[str]) -> Iterator[str]:
    """Yield the arguments with the flag before each of its values: `-a x -a y` for `-a x y`."""
    flag: str | None = None
    is_first = False
    for text in arguments:
        if text.startswith("-") and text != "-" and not is_first:
            name, equals, _ = text.partition("=")
            flag = name if name in flags else None
            # The first value of a flag is taken even if it looks like a flag, as click does.
            is_first = flag is not None and not equals
        elif flag is not None and not is_first:
            yield flag
        else:
            is_first = False
        yield text
