"""How the command starts and how it ends."""

import os
import signal
import subprocess
import sys
import threading

import click
import pytest

from benchyard.cli.lazy_group import CommandEntry, LazyGroup
from benchyard.cli.main import COMMANDS, cli, run
from tests.client.stub import Answer, Asked, error, stub

HEAVY = ("httpx", "pydantic", "sqlalchemy", "fastapi", "rich", "yaml", "websockets")


def benchyard(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchyard.cli.main", *arguments]
    environ = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60, check=False)


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from benchyard.cli.main import run\n"
        "assert run(['--help']) == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == "[]\n"
    assert all(f"  {name}" in ended.stdout for name in COMMANDS)


def test_a_server_imports_nothing_that_only_others_need() -> None:
    program = (
        "import sys\n"
        "import benchyard.cli.serve\n"
        "from benchyard.api.app import all_routes\n"
        "assert all_routes()\n"
        "print([name for name in ('httpx', 'aiohttp', 'rich', 'asyncssh', 'asyncpg') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def commands(group: click.Group, path: str = "benchyard") -> list[tuple[str, click.Command]]:
    context = click.Context(group)
    found: list[tuple[str, click.Command]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += commands(command, f"{path} {name}")
        else:
            found.append((f"{path} {name}", command))
    return found


def test_every_command_has_help_with_an_example() -> None:
    silent = [
        path
        for path, command in commands(cli)
        if path != "benchyard version"
        and f"  {path}" not in (command.help or "") + (str(command.epilog) or "")
    ]
    assert silent == []


def test_no_line_of_any_help_is_broken_by_an_ordinary_terminal() -> None:
    wide = []
    for path, command in commands(cli):
        context = click.Context(command, info_name=path, terminal_width=80)
        wide += [f"{path}: {line}" for line in command.get_help(context).splitlines() if len(line) > 80]
    assert wide == []


def test_the_list_of_verbs_of_a_noun_has_whole_sentences() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        noun = cli.get_command(context, name)
        if isinstance(noun, click.Group):
            text = noun.get_help(click.Context(noun, info_name=name, terminal_width=80))
            listed = text.partition("\nCommands:\n")[2]
            assert listed, name
            assert "..." not in listed, listed
            assert max(map(len, listed.splitlines())) <= 80


def test_every_command_that_shows_something_takes_an_output_format() -> None:
    for path, command in commands(cli):
        if path.rpartition(" ")[2] in ("show", "list", "create", "status", "doctor"):
            assert "output" in [each.name for each in command.params], path


def test_a_command_that_is_not_there_is_a_usage_error() -> None:
    ended = benchyard("fly")
    assert ended.returncode == 2
    assert "fly" in ended.stderr
    assert "Did you mean 'job'?" in benchyard("jbo", "list").stderr
    assert "Did you mean 'list'?" in benchyard("job", "lst").stderr


def test_version_is_the_installed_one() -> None:
    ended = benchyard("version")
    assert ended.returncode == 0
    assert ended.stdout.strip()[0].isdigit()


def test_a_table_that_names_no_command_is_a_mistake() -> None:
    group = LazyGroup({"odd": CommandEntry("benchyard.cli.main:COMMANDS", "Not a command.")}, name="odd")
    with pytest.raises(TypeError):
        group.get_command(click.Context(group), "odd")


@pytest.mark.parametrize(
    ("status", "code", "exit_status"),
    [(401, "unauthorized", 3), (404, "not_found", 4), (409, "conflict", 5), (400, "image_error", 11)],
)
def test_the_exit_status_names_the_error(status: int, code: str, exit_status: int) -> None:
    with stub(lambda asked: error(status, code, "this is why")) as server:
        ended = benchyard("image", "list", BENCHYARD_URL=server.url, BENCHYARD_API_KEY="k")
    assert ended.returncode == exit_status
    assert ended.stderr == "benchyard: this is why\n"


def test_debug_shows_where_an_error_comes_from() -> None:
    with stub(lambda asked: error(404, "not_found")) as server:
        environ = {"BENCHYARD_URL": server.url, "BENCHYARD_API_KEY": "k", "BENCHYARD_DEBUG": "1"}
        assert "Traceback" in benchyard("image", "list", **environ).stderr


def test_a_surprise_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def burst() -> None:
        raise RuntimeError("burst")

    monkeypatch.setattr(cli, "get_command", lambda context, name: click.Command("x", callback=burst))
    assert run(["x"]) == 1
    assert capsys.readouterr().err.startswith("benchyard: unexpected RuntimeError: burst")


def test_a_reader_that_goes_away_is_not_an_error_of_ours() -> None:
    rows = [
        {
            "id": f"img_{number}",
            "name": "n" * 200,
            "kind": "image",
            "size_bytes": 1,
            "create_time_ms": 1,
            "layers": 1,
        }
        for number in range(5000)
    ]
    with stub(lambda asked: Answer({"images": rows})) as server:
        environ = {
            **os.environ,
            "BENCHYARD_URL": server.url,
            "BENCHYARD_API_KEY": "k",
            "PYTHONUNBUFFERED": "",
        }
        command = [sys.executable, "-m", "benchyard.cli.main", "image", "list", "-o", "json"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.wait(30) == 128 + signal.SIGPIPE
            assert process.stderr.read() == b""


def test_ctrl_c_ends_quietly() -> None:
    reached = threading.Event()
    over = threading.Event()

    def hold(asked: Asked) -> Answer:
        reached.set()
        over.wait(30)
        return Answer({"images": []})

    with stub(hold) as server:
        environ = {**os.environ, "BENCHYARD_URL": server.url, "BENCHYARD_API_KEY": "k"}
        command = [sys.executable, "-m", "benchyard.cli.main", "image", "list"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
        ) as process:
            assert reached.wait(30)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=30) == (b"", b"")
            over.set()
    assert process.returncode == 128 + signal.SIGINT


def test_the_version_is_an_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == run(["version"]) == 0
    option, command = capsys.readouterr().out.split()
    assert option == command


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bmj list", "job list"),
        ("jobs ls", "job list"),
        ("benchmark-jobs get", "job summary"),
        ("d get", "devbox show"),
        ("devboxes delete", "devbox shutdown"),
        ("bp rm", "blueprint delete"),
        ("scn info", "scenario show"),
        ("agt rm", "agent delete"),
        ("obj get", "object show"),
        ("np get", "network-policy show"),
        ("network-policies", "network-policy"),
        ("s create", "secret set"),
        ("gwc get", "gateway-config show"),
        ("snap status", "snapshot show"),
    ],
)
def test_names_that_rli_users_type_mean_the_same(
    typed: str, meant: str, capfd: pytest.CaptureFixture[str]
) -> None:
    told = []
    for words in (typed, meant):
        assert run([*words.split(), "--help"]) == 0
        told.append(capfd.readouterr().out.partition("\n\n")[2])
    assert told[0] == told[1]
    assert run(["--help"]) == 0
    assert "bmj" not in capfd.readouterr().out


def test_missing_rli_commands_name_a_replacement(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["devbox", "upload", "box", "file"]) == 2
    assert "benchyard devbox cp FILE DEVBOX:PATH" in capfd.readouterr().err
    assert run(["axon", "list"]) == 2
    assert "axons are not supported" in capfd.readouterr().err
