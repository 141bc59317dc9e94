"""Settings: each is declared once; and where a server keeps its data by default."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import click
import pytest

from benchyard.cli.serve import serve, setting_option, settings_of
from benchyard.settings import (
    Setting,
    Settings,
    UpstreamAddress,
    default_data_folder,
    default_datasets_folder,
    setting_fields,
)
from tests.docs.reference import settings_table


@dataclass(frozen=True)
class MoreSettings(Settings):
    """Settings with one more, which is declared nowhere else."""

    wheel_count: Annotated[int, Setting("How many wheels it has.", least=2)] = 4


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in setting_fields():
        monkeypatch.delenv(each.variable, raising=False)


def settings_from(arguments: Sequence[str]) -> Settings:
    with serve.make_context("serve", [*arguments]) as context:
        return settings_of(context.params)


def test_a_declaration_is_all_that_a_setting_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    options = [setting_option(each) for each in setting_fields(MoreSettings)]
    command = click.Command("serve", params=list(options), callback=lambda **given: given["wheel_count"])

    def wheels(*arguments: str) -> int:
        return int(command.main([*arguments], standalone_mode=False))

    assert (wheels(), wheels("--wheel-count", "3")) == (4, 3)
    monkeypatch.setenv("BENCHYARD_WHEEL_COUNT", "6")
    assert (wheels(), wheels("--wheel-count", "3")) == (6, 3)
    with pytest.raises(click.BadParameter, match="'1' is not a whole number from 2 on"):
        wheels("--wheel-count", "1")
    help = " ".join(command.get_help(click.Context(command)).split())
    assert "--wheel-count INTEGER RANGE How many wheels it has. [default: 4; x>=2]" in help
    row = "| `--wheel-count` | `BENCHYARD_WHEEL_COUNT` | `4` | How many wheels it has. |"
    assert [*settings_table(MoreSettings)][-1] == row


def test_without_options_settings_are_the_declared_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHYARD_DATA", "/srv/yard")
    assert settings_from([]) == Settings(Path("/srv/yard"))


GIVEN: dict[str, tuple[str, object]] = {
    "data": ("here", Path.cwd() / "here"),
    "host": ("0.0.0.0", "0.0.0.0"),
    "port": ("0", 0),
    "database_url": ("sqlite:///x", "sqlite:///x"),
    "driver": ("fake", "fake"),
    "devbox_network": ("host", "host"),
    "driver_options": ("mode=root", {"mode": "root"}),
    "public_url": ("https://x.test", "https://x.test"),
    "tls_cert": ("/dev/null", Path("/dev/null")),
    "tls_key": ("/dev/null", Path("/dev/null")),
    "tls_self_signed": ("1", True),
    "tls_domain": ("x.test", "x.test"),
    "max_body_bytes": ("2M", 2 * 1024**2),
    "builder": ("docker", "docker"),
    "build_network": ("none", "none"),
    "git_url": ("https://x.test", "https://x.test"),
    "images_max_bytes": ("1.5GiB", 3 * 1024**3 // 2),
    "keep_results_days": ("2w", 14.0),
    "upstreams": ("vllm=http://h:1,no-key", {"vllm": UpstreamAddress("http://h:1", needs_key=False)}),
    "import_folders": ("/usr", (Path("/usr"),)),
    "webhook_networks": ("10.1.2.3/32", ("10.1.2.3/32",)),
    "open_metrics": ("1", True),
}
"""Setting -> a value as it is written, and its meaning; each other one is a number and given as 7."""


def test_each_setting_has_an_option_and_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = replace(settings_from([]), data=Path("/unused"))
    for field in setting_fields():
        text, meant = GIVEN.get(field.name, ("7", 7))
        change: dict[str, Any] = {field.name: meant}
        wanted = replace(usual, **change)
        assert wanted != usual, field.name
        option = [f"--{field.option}"] if field.kind is bool else [f"--{field.option}", text]
        own = [] if field.name == "data" else ["--data", "/unused"]
        assert settings_from([*own, *option]) == wanted, field.option
        monkeypatch.setenv(field.variable, text)
        assert settings_from(own) == wanted, field.variable
        monkeypatch.delenv(field.variable)


def test_repeatable_settings_take_several_values(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"vllm": UpstreamAddress("http://a"), "other": UpstreamAddress("http://b", needs_key=False)}
    texts = ["vllm=http://a", "other=http://b,no-key"]
    assert settings_from([word for text in texts for word in ("--upstream", text)]).upstreams == both
    monkeypatch.setenv("BENCHYARD_UPSTREAM", " ".join(texts))
    monkeypatch.setenv("BENCHYARD_IMPORT_FROM", f"/usr{os.pathsep}/etc")
    found = settings_from([])
    assert (found.upstreams, found.import_folders) == (both, (Path("/usr"), Path("/etc")))
    assert found.keyless_upstreams == {"other"}
    monkeypatch.setenv("BENCHYARD_IMPORT_FROM", "")
    assert settings_from([]).import_folders == ()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--upstream", "UP=x"], "'UP=x' must look like NAME=URL or NAME=URL,no-key"),
        (["--upstream", "vllm=http://x,free"], "must look like NAME=URL or NAME=URL,no-key"),
        (["--driver-option", "=root"], "'=root' must look like KEY=VALUE"),
        (["--devbox-lease", "0"], "'0' is not a number above 0"),
        (["--client-timeout", "nan"], "'nan' is not a number from 0.1 on"),
        (["--port", "65536"], "'65536' is not a whole number from 0 to 65535"),
        (["--outputs-max-size", "much"], "'much' is not a size"),
        (["--tls-cert", "/nowhere"], "'/nowhere' does not exist"),
        (["--import-from", "/etc/passwd"], "'/etc/passwd' is a file"),
    ],
)
def test_values_that_do_not_fit_are_refused(arguments: list[str], told: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        settings_from(arguments)
    assert told in refused.value.format_message()
    assert arguments[0] in refused.value.format_message()


def test_a_variable_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHYARD_PORT", "tcp://10.0.0.1:7411")
    with pytest.raises(click.BadParameter) as refused:
        settings_from([])
    told = "Invalid value for $BENCHYARD_PORT: 'tcp://10.0.0.1:7411' is not a whole number from 0 to 65535."
    assert refused.value.format_message() == told


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"BENCHYARD_DATA": "/srv/yard", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/srv/yard"),
        ({"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/benchyard"),
        ({"XDG_DATA_HOME": "", "HOME": "/h"}, "/h/.local/share/benchyard"),
        ({"HOME": "/h"}, "/h/.local/share/benchyard"),
    ],
)
def test_the_data_folder_follows_the_environment(environment: dict[str, str], expected: str) -> None:
    assert default_data_folder(environment) == Path(expected)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"BENCHYARD_DATASETS": "/srv/sets", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/srv/sets"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/benchyard/datasets"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/benchyard/datasets"),
    ],
)
def test_fetched_datasets_lie_in_the_cache(environment: dict[str, str], expected: str) -> None:
    assert default_datasets_folder(environment) == Path(expected)
