"""The scripted model as a program: it prints its URL, answers, and ends when it is told to."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from benchyard.benchmarks import builtin_benchmarks
from benchyard.scripted_model import __main__ as program
from benchyard.scripted_model import scripts
from tests.scripted_model.asking import ask, body, path, said

COMMAND = [sys.executable, "-m", "benchyard.scripted_model"]


@contextmanager
def running(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_the_scripts_of_its_files_until_it_is_stopped(number: int, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("scripts: [{match: one, final: first}]")
    (tmp_path / "two.json").write_text('{"scripts": [{"match": "two", "final": "second"}]}')
    files = ["--script", str(tmp_path / "one.yaml"), "--script", str(tmp_path / "two.json")]
    with running(*files, "--key", "k") as (url, process):
        headers = {"authorization": "Bearer k"}
        for prompt, expected in (("one", "first"), ("two", "second")):
            answer = httpx.post(url + path("chat"), json=body("chat", prompt), headers=headers, timeout=60)
            assert said("chat", answer.json()).text == expected
        assert ask(url, "chat", "one").status_code == 401
        assert len(httpx.get(f"{url}/__ledger").json()["requests"]) == 3
        os.kill(process.pid, number)
        assert process.wait(60) == 0


def test_it_knows_how_to_solve_what_comes_with_us() -> None:
    (folder,) = builtin_benchmarks.folders()
    statement = (folder / "fix-a-bug" / "problem.md").read_text()
    with running("--quickstart", "solved") as (url, _):
        ((_, arguments),) = said("chat", ask(url, "chat", statement, results=1).json()).calls
        assert "LENGTHS[: month - 1]" in arguments["command"]


def test_a_mistake_in_a_script_is_reported_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("scripts: [{steps: [{}]}]")
    ended = CliRunner().invoke(program.main, ["--script", str(tmp_path / "bad.yaml")])
    assert ended.exit_code == 1
    assert "bad.yaml:1" in ended.output


def test_a_port_that_is_taken_is_reported_in_a_line() -> None:
    with running() as (url, _):
        ended = subprocess.run(
            [*COMMAND, "--port", url.rpartition(":")[2]], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 1
        assert re.search(r"cannot listen on 127.0.0.1:[0-9]+: Address already in use$", ended.stderr.strip())


def test_the_example_of_its_help_is_a_script(tmp_path: Path) -> None:
    shown = CliRunner().invoke(program.main, ["--help"]).output
    begin, end = shown.index("    scripts:"), shown.index("  Also:")
    (tmp_path / "example.yaml").write_text(shown[begin:end])
    (script,) = scripts.read(tmp_path / "example.yaml")
    assert (script.match, len(script.steps)) == ("Fix the bug", 5)
