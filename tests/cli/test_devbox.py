"""`benchyard devbox` from its creation to its end."""

import json
import secrets
import sys
from pathlib import Path

import pytest
import yaml

from benchyard.cli.devbox.commands import print_lines
from benchyard.cli.devbox.copy import Remote, remote_from_text
from benchyard.client import Client
from benchyard.client.folder_copy import quote_path
from benchyard.errors import UsageError
from benchyard.models.executions import LogLine
from tests.cli.conftest import CommandLine


@pytest.fixture
def name() -> str:
    return f"box-{secrets.token_hex(4)}"


def test_a_devbox_from_its_creation_to_its_end(benchyard: CommandLine, name: str) -> None:
    made = json.loads(
        benchyard.ok("devbox", "create", "--name", name, "--metadata", "for=test", "-o", "json")
    )
    assert made["status"] == "running"
    assert made["id"] in benchyard.ok("devbox", "list")
    assert yaml.safe_load(benchyard.ok("devbox", "show", name, "-o", "yaml"))["metadata"] == {"for": "test"}
    assert f"name:     {name}" in benchyard.ok("devbox", "show", made["id"][:14])
    assert "suspended" in benchyard.ok("devbox", "suspend", name)
    assert "running" in benchyard.ok("devbox", "resume", name)
    assert "shutdown" in benchyard.ok("devbox", "shutdown", name)
    assert made["id"] not in benchyard.ok("devbox", "list")
    assert made["id"] in benchyard.ok("devbox", "list", "--all")
    assert made["id"] in benchyard.ok("devbox", "list", "--status", "shutdown", "--limit", "500")


def test_a_devbox_is_made_as_the_options_say(benchyard: CommandLine, name: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "binary").write_bytes(b"\xff\x00\xfe")
    benchyard.ok("secret", "set", "CREATE_TOKEN", "--value", "hunter2")
    options = (
        *("--name", name, "--env", "MODE=test=1", "--secret", "TOKEN=CREATE_TOKEN", "--keep-alive", "600"),
        *("--file", f"{tmp_path / 'text'}:in/text", "--file", f"{tmp_path / 'binary'}:in/binary"),
        *("--launch", "cp in/text launched", "--size", "SMALL"),
    )
    benchyard.ok("devbox", "create", *options)
    command = 'echo "$MODE $TOKEN $(cat launched)"; wc -c < in/binary'
    assert benchyard.ok("devbox", "exec", name, "--", command) == "test=1 hunter2 hello\n3\n"
    benchyard.ok("devbox", "shutdown", name)


@pytest.mark.parametrize(
    "options",
    [
        ("--image", "a", "--snapshot", "b"),
        ("--env", "NOVALUE"),
        ("--file", "no-such-file:there"),
        ("--user", "me:many"),
        ("--user", "Not A Name"),
        ("--size", "GIANT"),
        ("--keep-alive", "999999999"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_made(
    benchyard: CommandLine, client: Client, options: tuple[str, ...]
) -> None:
    before = next(iter(client.devboxes.list()), None)
    ended = benchyard("devbox", "create", *options)
    assert ended.status == 2
    assert ended.err
    assert "Traceback" not in ended.err
    assert next(iter(client.devboxes.list()), None) == before


def test_a_devbox_that_does_not_start_says_where_to_look(benchyard: CommandLine) -> None:
    ended = benchyard("devbox", "create", "--launch", "exit 9")
    assert ended.status == 10
    assert "benchyard devbox logs dbx_" in ended.err


def test_an_unknown_devbox_is_not_found(benchyard: CommandLine) -> None:
    ended = benchyard("devbox", "show", "no-such-box")
    assert ended.status == 4
    assert "benchyard devbox list" in ended.err


def test_a_name_that_two_devboxes_have_is_not_enough(benchyard: CommandLine, name: str) -> None:
    for _ in range(2):
        benchyard.ok("devbox", "create", "--name", name)
    ended = benchyard("devbox", "show", name)
    assert ended.status == 2
    assert ended.err.count("dbx_") == 2
    for line in benchyard.ok("devbox", "list").splitlines():
        if name in line:
            benchyard.ok("devbox", "shutdown", line.split()[0])


def test_shutdown_wants_to_know_which(benchyard: CommandLine, box: str) -> None:
    assert benchyard("devbox", "shutdown").status == 2
    assert benchyard("devbox", "shutdown", box, "--all").status == 2


def test_a_command_gives_us_its_output_and_its_exit_status(benchyard: CommandLine, box: str) -> None:
    ended = benchyard("devbox", "exec", box, "--", "echo out; echo err >&2; exit 3")
    assert (ended.status, ended.out, ended.err) == (3, "out\n", "err\n")


def test_several_arguments_are_passed_as_they_are(benchyard: CommandLine, box: str) -> None:
    printed = benchyard.ok("devbox", "exec", box, "--", "printf", "<%s>", "a  b", "$HOME", "--flag", "'")
    assert printed == "<a  b><$HOME><--flag><'>"


def test_output_of_any_size_comes_whole(benchyard: CommandLine, box: str) -> None:
    assert (
        len(benchyard.ok("devbox", "exec", box, "--", "head -c 3000000 /dev/zero | tr '\\0' x")) == 3_000_000
    )


def test_a_named_shell_keeps_its_directory(benchyard: CommandLine, box: str) -> None:
    benchyard.ok(
        "devbox", "exec", box, "--shell", "work", "--", "mkdir -p deep && cd deep && export KEPT=yes"
    )
    assert (
        benchyard.ok("devbox", "exec", box, "--shell", "work", "--", "basename $PWD; echo $KEPT")
        == "deep\nyes\n"
    )


def test_a_command_that_takes_too_long_is_killed(benchyard: CommandLine, box: str) -> None:
    ended = benchyard("devbox", "exec", box, "--timeout", "0.5", "--", "sleep 600")
    assert ended.status == 124
    assert "killed after 0.5 s" in ended.err


def test_the_log_has_each_command(benchyard: CommandLine, box: str) -> None:
    benchyard("devbox", "exec", box, "--", "echo marked-line; exit 4")
    text = benchyard.ok("devbox", "logs", box)
    assert "exec: marked-line" in text
    assert "exit 4" in text
    assert "marked-line" in [
        line.get("message") for line in json.loads(benchyard.ok("devbox", "logs", box, "-o", "json"))
    ]
    assert benchyard("devbox", "logs", box, "-f", "-o", "json").status == 2


def test_a_hint_in_a_log_follows_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hint = "A program in this devbox looked a name up, and this devbox has no network."
    lines = [
        LogLine(source="exec", timestamp_ms=0, cmd="true"),
        LogLine(source="exec", timestamp_ms=0, message=hint, exit_code=0),
        LogLine(source="exec", timestamp_ms=0, exit_code=4),
    ]
    print_lines(lines)
    at = "1970-01-01 00:00:00 UTC exec:"
    assert capsys.readouterr().out.splitlines() == [f"{at} $ true", f"{at} exit 0: {hint}", f"{at} exit 4"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    print_lines(lines)
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 60
    assert hint in " ".join(narrow.split())


def test_a_snapshot_carries_the_disk_to_a_new_devbox(benchyard: CommandLine, box: str, name: str) -> None:
    benchyard.ok("devbox", "exec", box, "--", "echo kept > file")
    kept = json.loads(benchyard.ok("devbox", "snapshot", box, "--name", "ready", "-o", "json"))
    benchyard.ok("devbox", "create", "--name", name, "--snapshot", kept["id"])
    assert benchyard.ok("devbox", "exec", name, "--", "cat file") == "kept\n"
    assert kept["id"] in benchyard.ok("snapshot", "list", "--devbox", box)
    assert "status:  complete" in benchyard.ok("snapshot", "show", kept["id"])
    benchyard.ok("devbox", "shutdown", name)
    assert benchyard.ok("snapshot", "delete", kept["id"]) == f"{kept['id']}  deleted\n"


def test_a_snapshot_is_found_by_its_name(benchyard: CommandLine, box: str, name: str) -> None:
    first, second = (
        json.loads(benchyard.ok("devbox", "snapshot", box, "--name", name, "-o", "json"))["id"]
        for _ in range(2)
    )
    ambiguous = benchyard("devbox", "create", "--snapshot", name)
    assert ambiguous.status == 2
    assert first in ambiguous.err
    benchyard.ok("snapshot", "delete", second)
    made = json.loads(benchyard.ok("devbox", "create", "--name", name, "--snapshot", name, "-o", "json"))
    assert made["snapshot_id"] == first
    benchyard.ok("devbox", "shutdown", name)
    assert f"id:      {first}" in benchyard.ok("snapshot", "show", name)
    assert benchyard.ok("snapshot", "delete", name) == f"{first}  deleted\n"
    assert benchyard("snapshot", "show", name).status == 4


def test_a_file_goes_in_and_out(benchyard: CommandLine, box: str, tmp_path: Path) -> None:
    content = secrets.token_bytes(2_000_000)
    (tmp_path / "data").write_bytes(content)
    benchyard.ok("devbox", "cp", str(tmp_path / "data"), f"{box}:folder/")
    benchyard.ok("devbox", "cp", f"{box}:folder/data", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content


def test_a_program_stays_one(benchyard: CommandLine, box: str, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho works\n")
    (tmp_path / "tool").chmod(0o755)
    benchyard.ok("devbox", "cp", str(tmp_path / "tool"), f"{box}:~/tool")
    assert benchyard.ok("devbox", "exec", box, "--", "./tool") == "works\n"


def test_a_folder_goes_in_and_out(benchyard: CommandLine, box: str, tmp_path: Path) -> None:
    (tmp_path / "project" / "deep").mkdir(parents=True)
    (tmp_path / "project" / "deep" / "file").write_text("content")
    (tmp_path / "project" / "link").symlink_to("deep/file")
    benchyard.ok("devbox", "cp", str(tmp_path / "project"), f"{box}:a project")
    command = "cat 'a project/link'; ls -A | grep benchyard"
    assert benchyard("devbox", "exec", box, "--", command).out == "content"
    benchyard.ok("devbox", "cp", f"{box}:a project", str(tmp_path / "copy"))
    assert (tmp_path / "copy" / "link").readlink() == Path("deep/file")
    assert (tmp_path / "copy" / "deep" / "file").read_text() == "content"


def test_standard_input_and_output_can_be_copied(benchyard: CommandLine, box: str) -> None:
    benchyard.ok("devbox", "cp", "-", f"{box}:piped", typed=b"from a pipe\n")
    assert benchyard.ok("devbox", "cp", f"{box}:piped", "-") == "from a pipe\n"


@pytest.mark.parametrize(
    ("source", "target"), [("a", "b"), ("{box}:a", "{box}:b"), ("no-such-file", "{box}:a")]
)
def test_copies_that_cannot_be_are_refused(
    benchyard: CommandLine, box: str, source: str, target: str
) -> None:
    ended = benchyard("devbox", "cp", source.format(box=box), target.format(box=box))
    assert ended.status in (2, 4)
    assert ended.err.startswith("benchyard: ")


def test_a_missing_file_leaves_no_local_file(benchyard: CommandLine, box: str, tmp_path: Path) -> None:
    assert benchyard("devbox", "cp", f"{box}:nothing", str(tmp_path / "here")).status == 4
    assert list(tmp_path.iterdir()) == []


def test_places_are_distinguished() -> None:
    assert remote_from_text("box:/a:b") == Remote("box", "/a:b")
    assert remote_from_text("./a:b") == "./a:b"
    assert remote_from_text("-") == "-"
    assert remote_from_text("plain") == "plain"
    with pytest.raises(UsageError):
        remote_from_text("box:")
    assert quote_path("~/a b") == "'./a b'"
    assert quote_path("$x") == "'$x'"
