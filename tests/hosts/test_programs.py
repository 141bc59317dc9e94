"""Programs that are run as they are: no shell comes before them, and nothing after them counts."""

import asyncio
import signal

import pytest

from benchyard.errors import UsageError
from benchyard.hosts.host import ExecRequest
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard

_PLANTED = "echo planted"


async def _said(yard: HostYard, devbox: str, request: ExecRequest) -> str:
    state = await yard.host.exec(devbox, request)
    await yard.host.wait(devbox, state.id, 30)
    pieces = [piece async for piece in yard.host.output(devbox, state.id, "stdout")]
    return b"".join(pieces).decode()


@pytest.mark.parametrize("name", ["fake", "native"])
def test_a_program_runs_without_a_login_shell(on_host: OnHost, name: str) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(
            user="root", env={"BASH_ENV": "/tmp/planted", "ENV": "/tmp/planted", "A": "1"}
        )
        for path in ("~/.bash_profile", "~/.profile", "~/.bashrc", "/tmp/planted"):
            await asyncio.to_thread(_write, await yard.host.open_write(devbox, path), _PLANTED)
        assert "planted" in await yard.text(devbox, "true")
        shell = ("bash", "-c", "echo $A $B $0 $BASH_ENV")
        request = yard.request("", argv=shell, env={"B": "2"})
        assert await _said(yard, devbox, request) == "1 2 bash\n"
        asked_for = yard.request("", argv=("/bin/sh", "-c", "echo $ENV"), env={"ENV": "given"})
        assert await _said(yard, devbox, asked_for) == "given\n"

    on_host(test, name=name)


def test_a_program_gets_its_arguments_as_they_are(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        argv = ("printf", "%s|", "a b", "$HOME", "", "'\n")
        request = yard.request("", argv=argv)
        assert await _said(yard, devbox, request) == "a b|$HOME||'\n|"
        state = await yard.host.execution(devbox, request.id)
        assert (state.command, state.exit_status) == ("printf '%s|' 'a b' '$HOME' '' ''\"'\"'\n'", 0)
        await yard.restart()
        assert await yard.host.execution(devbox, request.id) == state
        assert await _said(yard, devbox, yard.request("", argv=("pwd",), cwd="/usr")) == "/usr\n"
        missing = await yard.host.exec(devbox, yard.request("", argv=("no-such-program",), strict=True))
        assert (await yard.host.wait(devbox, missing.id, 30)).exit_status == 127

    on_host(test)


def test_how_a_program_ended_is_reported(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        killed = await yard.host.exec(devbox, yard.request("", argv=("sh", "-c", "kill -11 $$"), strict=True))
        state = await yard.host.wait(devbox, killed.id, 30)
        assert (state.exit_status, state.signal, state.timed_out) == (139, signal.SIGSEGV, False)
        slow = yard.request("", argv=("sleep", "100"), strict=True, timeout_seconds=0.2)
        await yard.host.exec(devbox, slow)
        state = await yard.host.wait(devbox, slow.id, 30)
        assert (state.exit_status, state.signal, state.timed_out) == (137, signal.SIGKILL, True)
        plain = await yard.run(devbox, "exit 139")
        assert (plain.exit_status, plain.signal) == (139, None)

    on_host(test)


def test_invalid_command_is_refused(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        refused: list[dict[str, object]] = [
            {"argv": ()},
            {"argv": ("",)},
            {"argv": ("a\0b",)},
            {"argv": ("true",), "cwd": "/a\0b"},
            {"argv": ("true",), "shell_name": "main"},
            {"argv": ("true",), "command": "true"},
            {"argv": ("true",), "strict": True, "pty": (80, 24)},
        ]
        for changes in refused:
            with pytest.raises(UsageError):
                await yard.host.exec(devbox, ExecRequest("refused", **changes))  # type: ignore[arg-type]
        assert await yard.host.executions(devbox) == []

    on_host(test)


@pytest.mark.parametrize("name", ["fake", "native"])
def test_a_fresh_file_is_the_users_own(on_host: OnHost, name: str) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "ln -s /etc/passwd ~/tests.py")
        await asyncio.to_thread(_write, await yard.host.open_fresh(devbox, "~/tests.py", mode=0o755), "fresh")
        assert (
            await yard.text(devbox, "cat tests.py; test -L tests.py || stat -c ' %a' tests.py")
            == "fresh 755\n"
        )

    on_host(test, name=name)


def _write(descriptor: int, text: str) -> None:
    with open(descriptor, "w") as file:
        file.write(text)
