"""Completion as shells ask for it, and as somebody sees it who presses the tab key."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.cli.completion import SHELLS
from benchyard.client import Client
from benchyard.models.devboxes import DevboxRequest
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine
from tests.cli.screen import Screen

BREAKS = " \t\n\"'><=;|&(:"
SCRIPTS = Path(sys.executable).parent


def asked(line: str, environment: dict[str, str]) -> list[str]:
    """What bash is answered for a line."""
    answer = subprocess.run(
        [SCRIPTS / "benchyard"],
        env={
            **os.environ,
            **environment,
            "COMP_LINE": line,
            "COMP_WORDBREAKS": BREAKS,
            "_BENCHYARD_COMPLETE": "bash_complete",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""
    return [each.partition("\t")[2] for each in answer.stdout.splitlines()]


@pytest.fixture
def reached(fake_server: RunningServer) -> dict[str, str]:
    """The environment that names the server."""
    return {"BENCHYARD_URL": fake_server.url, "BENCHYARD_API_KEY": fake_server.key}


@pytest.fixture
def named_things(client: Client) -> Iterator[None]:
    """A devbox, a secret and a policy with names that begin alike."""
    client.secrets.set("COMPLETED_TOKEN", "a value that is long enough")
    view = client.devboxes.create(DevboxRequest(name="completed box"))
    yield
    client.devboxes.shutdown(view.id)
    client.secrets.delete("COMPLETED_TOKEN")


def test_commands_flags_choices_and_names_are_completed(named_things: None, reached: dict[str, str]) -> None:
    assert asked("benchyard comp", reached) == ["completion"]
    assert asked("benchyard bmj retry --on", reached) == ["--only"]
    assert asked("benchyard job retry --only not", reached) == ["not-passed"]
    assert asked("benchyard d get compl", reached) == ["completed\\ box"]
    assert asked("benchyard secret delete COMPL", reached) == ["COMPLETED_TOKEN"]
    assert asked("benchyard devbox create --secret HERE=COMPL", reached) == ["COMPLETED_TOKEN"]
    assert "oracle" in asked("benchyard job run --agent nop ora", reached)
    assert "aime" in asked("benchyard benchmark import ai", reached)


def test_without_a_server_nothing_is_started_and_nothing_is_said(tmp_path: Path) -> None:
    nowhere = {"BENCHYARD_DATA": str(tmp_path), "BENCHYARD_URL": ""}
    assert asked("benchyard job watch x", nowhere) == []
    assert asked("benchyard no-such-command x", nowhere) == []
    assert asked("benchyard axon list ", nowhere) == []
    gone = {"BENCHYARD_URL": "http://127.0.0.1:9", "BENCHYARD_API_KEY": "key_of_nobody"}
    assert asked("benchyard job watch x", gone) == []
    assert list(tmp_path.iterdir()) == []


def test_the_help_says_where_the_script_goes(benchyard: CommandLine) -> None:
    told = benchyard.ok("completion", "--help")
    assert "~/.bashrc" in told
    assert "~/.zshrc" in told
    assert "~/.config/fish/completions" in told
    assert benchyard("completion", "tcsh").status == 2


ARGUMENTS = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
    "fish": ["--no-config", "-i"],
}
LOADED = {
    "bash": 'eval "$(benchyard completion bash)"',
    "zsh": 'eval "$(benchyard completion zsh)"',
    "fish": "benchyard completion fish | source",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes_in_a_real_shell(
    shell: str, named_things: None, reached: dict[str, str], tmp_path: Path
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    environment = {
        **reached,
        "HOME": str(tmp_path),
        "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
        "PS1": "$ ",
        "TERM": "dumb",
    }
    with Screen(ARGUMENTS[shell], environment, [program]) as screen:
        screen.resize(120, 40)
        screen.type(f"{LOADED[shell]}; echo loa''ded\r")
        screen.expect("loaded")
        screen.type("benchyard secret show COMPL\t")
        screen.expect("COMPLETED_TOKEN")
        screen.type("\r")
        screen.expect("changed")
        screen.type("benchyard job run --agent nop ora\t")
        screen.expect("oracle")
        screen.type("\x03exit\r")
