"""`benchyard serve`: run the server."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
import uvloop
from click.core import ParameterSource

from benchyard.api.server import run
from benchyard.cli.options import FloatRange, IntRange, age_in_days, exact_size, size_in_bytes
from benchyard.errors import UsageError
from benchyard.settings import SettingField, Settings, default_data_folder, setting_fields

_EPILOG = """Each option may also be given as a variable: $BENCHYARD_PORT for --port. One that is repeatable
takes several, with blanks in between; folders, with colons.

\b
Examples:
  benchyard serve
  benchyard serve --port 0 --data /srv/benchyard
  benchyard serve --port 443 --tls-self-signed --domain api.example.test
  benchyard serve --database-url postgresql://user@db/benchyard
  benchyard serve --driver fake --devbox-network host
  benchyard serve --upstream vllm=http://10.0.0.5:8000,no-key
"""
_PARSERS: Mapping[str, Callable[[str], float]] = {"SIZE": size_in_bytes, "AGE": age_in_days}


class _Parsed(click.ParamType[object]):
    """A value that the declaration of a setting parses."""

    name = "text"

    def __init__(self, parse: Callable[[str], object]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Return the value."""
        try:
            return self._parse(value)
        except UsageError as error:
            self.fail(error.message, param, ctx)


class _AbsolutePath(click.Path):
    """A path that stays the same when the working directory changes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        return Path(str(super().convert(value, param, ctx))).absolute()


class _SettingOption(click.Option):
    """An option with errors that name the variable that the value came from."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the name of the option, or of the variable."""
        source = ctx.get_parameter_source(self.name) if ctx and self.name else None
        return f"${self.envvar}" if source is ParameterSource.ENVIRONMENT else super().get_error_hint(ctx)


def setting_option(field: SettingField) -> click.Option:
    """Return the option of a setting."""
    default = field.default
    if isinstance(default, int) and field.setting.like == "SIZE":
        default = exact_size(default)
    is_shown = default is not None and not field.is_repeatable and field.kind is not bool
    return _SettingOption(
        (f"--{field.option}", field.name),
        type=_value_type(field),
        is_flag=field.kind is bool,
        multiple=field.is_repeatable,
        default=() if field.is_repeatable else default,
        show_default=is_shown,
        metavar=field.setting.like,
        envvar=field.variable,
        help=field.setting.help,
    )


def _value_type(field: SettingField) -> Any:
    """Return how one value is read, as click wants it."""
    setting, kind = field.setting, field.kind
    if setting.parse is not None:
        return _Parsed(setting.parse)
    if setting.like and setting.like in _PARSERS:
        return _PARSERS[setting.like]
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is Path:
        is_file = setting.there != "folder" and setting.there is not None
        return _AbsolutePath(exists=setting.there is not None, file_okay=is_file, dir_okay=not is_file)
    least = setting.least if setting.above is None else setting.above
    if kind is float:
        return FloatRange(least, setting.most, min_open=setting.above is not None)
    if kind is int:
        return IntRange(_whole(least), _whole(setting.most), min_open=setting.above is not None)
    return kind


def _whole(limit: float | None) -> int | None:
    return None if limit is None else int(limit)


@click.command(params=[setting_option(field) for field in setting_fields()], epilog=_EPILOG)
def serve(**given: Any) -> None:
    """Run the server in the foreground until it is told to stop (Ctrl-C or SIGTERM)."""
    settings = settings_of(given)
    _check_tls(settings)
    if not (_is_loopback(settings.host) or settings.tls_self_signed or settings.tls_cert):
        _warn_of_plain_text(settings.host)
    uvloop.run(run(settings))


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Return the settings that the values of the options say."""
    values = {field.name: field.collected(given[field.name]) for field in setting_fields()}
    return Settings(**{**values, "data": values["data"] or default_data_folder().absolute()})


def _check_tls(settings: Settings) -> None:
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise click.UsageError("--tls-cert and --tls-key go together; give both")
    if settings.tls_domain and not settings.tls_self_signed:
        raise click.UsageError("--domain names a certificate made here; give --tls-self-signed with it")
    if settings.tls_cert and settings.tls_self_signed:
        raise click.UsageError("give either --tls-cert or --tls-self-signed, not both")


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _warn_of_plain_text(host: str) -> None:
    click.echo(
        f"warning: {host} can be reached from other machines, and keys travel unencrypted; "
        "give --tls-cert or --tls-self-signed, or put a TLS proxy in front of it",
        err=True,
    )
