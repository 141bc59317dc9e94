"""`benchyard devbox shell` on a real terminal."""

import os
import signal
import termios
from collections.abc import Iterator

import pytest

from benchyard.cli.main import run
from benchyard.client import Client, Server
from benchyard.models.devboxes import DevboxRequest
from benchyard.testing.server import RunningServer
from tests.cli.screen import Screen

COOKED = termios.ECHO | termios.ICANON | termios.ISIG


@pytest.fixture
def environment(fake_server: RunningServer) -> dict[str, str]:
    return {"BENCHYARD_URL": fake_server.url, "BENCHYARD_API_KEY": fake_server.key}


@pytest.fixture
def devbox_id(fake_server: RunningServer) -> Iterator[str]:
    server = Server(fake_server.url, fake_server.key)
    with Client(server) as client, client.devboxes.open(DevboxRequest(name="shell")) as box:
        yield box.id


@pytest.fixture
def screen(devbox_id: str, environment: dict[str, str]) -> Iterator[Screen]:
    """A shell that has shown its prompt, with the terminal raw around it."""
    with Screen(["devbox", "shell", devbox_id], environment) as shell:
        shell.type("PS1='ready> '; unset PROMPT_COMMAND; echo begin-$((20 + 22))\r")
        shell.expect("begin-42")
        shell.expect("ready> ")
        yield shell


def test_the_shell_ends_with_its_own_exit_status(screen: Screen) -> None:
    screen.type("exit 7\r")
    assert screen.expect_end() == 7


def test_the_terminal_is_raw_inside_and_as_before_afterwards(screen: Screen) -> None:
    assert not screen.modes & COOKED
    screen.type("exit\r")
    screen.expect_end()
    assert screen.modes & COOKED == COOKED


def test_ctrl_c_goes_inside(screen: Screen) -> None:
    screen.type("sleep 1000\r")
    screen.expect("sleep 1000")
    screen.type("\x03")
    screen.expect("ready> ")
    screen.type("echo status-$?\r")
    screen.expect("status-130")


def test_the_shell_follows_the_size_of_the_window(screen: Screen) -> None:
    screen.resize(111, 37)
    screen.type("until stty size | grep '37 111'; do sleep 0.05; done\r")
    screen.expect("37 111\r\n")


def test_bytes_pass_as_they_are(screen: Screen) -> None:
    screen.type("printf '\\033[1mbold\\303\\274\\377.end\\n'\r")
    screen.expect("\x1b[1mbold")
    assert screen.expect(".end") == "ü".encode() + b"\xff"


def test_a_signal_leaves_the_terminal_as_it_was(screen: Screen) -> None:
    os.kill(screen.pid, signal.SIGTERM)
    assert screen.expect_end() == 13
    assert screen.modes & COOKED == COOKED
    assert b"--session" in screen.shown


def test_a_named_session_can_be_taken_up_again(devbox_id: str, environment: dict[str, str]) -> None:
    command = ["devbox", "shell", devbox_id, "--session", "work"]
    with Screen(command, environment) as first:
        first.type("KEPT=treasure; echo typed-$((1 + 1))\r")
        first.expect("typed-2")
        os.kill(first.pid, signal.SIGHUP)
        first.expect_end()
    with Screen(command, environment) as second:
        second.type("echo found-$KEPT\r")
        second.expect("found-treasure")
        second.type("exit\r")
        assert second.expect_end() == 0


def test_a_full_screen_program_works(screen: Screen) -> None:
    program = "import curses; curses.wrapper(lambda w: (w.addstr(3, 5, 'whole' + 'screen'), w.getch()))"
    screen.type(f'TERM=xterm python3 -c "{program}"; echo back-$?\r')
    screen.expect("\x1b[?1049h")
    screen.expect("wholescreen")
    screen.type("q")
    screen.expect("\x1b[?1049l")
    screen.expect("back-0")


def test_no_terminal_no_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["devbox", "shell", "box"]) == 2
    assert "benchyard devbox exec" in capsys.readouterr().err
