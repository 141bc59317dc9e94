"""`benchyard devbox exec` as a process among others: pipes, signals, raw bytes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from benchyard.client import Client
from benchyard.testing.server import RunningServer

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(fake_server: RunningServer, box: str) -> Start:
    """Starts `benchyard devbox exec` of a devbox with pipes on all sides."""
    environ = {**os.environ, "BENCHYARD_URL": fake_server.url, "BENCHYARD_API_KEY": fake_server.key}

    def started(*arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "benchyard.cli.main", "devbox", "exec", box, *arguments]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
        )

    return started


def test_input_is_passed_on_to_its_end(start: Start) -> None:
    text = "žluťoučký kůň\n".encode() * 20_000
    with start("-i", "--", "cat; echo end >&2") as process:
        assert process.communicate(text, timeout=60) == (text, b"end\n")
    assert process.returncode == 0


def test_a_command_that_ends_early_does_not_wait_for_our_input(start: Start) -> None:
    with start("-i", "--", "head -c 3; exit 5") as process:
        assert process.stdin is not None
        process.stdin.write(b"abcdef")
        process.stdin.flush()
        assert process.wait(60) == 5


def test_input_that_is_not_text_is_refused_with_another_way(start: Start, client: Client, box: str) -> None:
    with start("-i", "--", "cat > got; sleep 600") as process:
        _, said = process.communicate(b"\xff\xfe", timeout=60)
    assert process.returncode == 2
    assert b"benchyard devbox cp -" in said
    assert client.executions.run(box, "pgrep -f '[s]leep 600'").exit_status != 0


def test_without_the_option_the_command_has_no_input(start: Start) -> None:
    with start("--", "cat") as process:
        assert process.wait(60) == 0


def test_bytes_come_as_they_are(start: Start) -> None:
    with start("--", "printf '\\000\\377\\r\\n\\033[1m'; printf '\\376' >&2") as process:
        assert process.communicate(timeout=60) == (b"\x00\xff\r\n\x1b[1m", b"\xfe")


def test_output_comes_while_the_command_runs(start: Start) -> None:
    with start("-i", "--", "echo first; read word; echo $word") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"first\n"
        process.stdin.write(b"second\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"second\n"
        assert process.wait(60) == 0


def test_ctrl_c_kills_the_command_inside(start: Start, client: Client, box: str) -> None:
    with start("--", "echo $$; exec sleep 600") as process:
        assert process.stdout is not None
        inside = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT
    assert client.executions.run(box, f"kill -0 {inside}").exit_status != 0


def test_a_reader_that_goes_away_kills_the_command_inside(start: Start, client: Client, box: str) -> None:
    with start("--", "echo $$; exec yes") as process:
        assert process.stdout is not None
        inside = int(process.stdout.readline())
        process.stdout.close()
        assert process.wait(60) == 128 + signal.SIGPIPE
    assert client.executions.run(box, f"kill -0 {inside}").exit_status != 0
