"""Named shells: what one command leaves, the next one finds."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from benchyard.devboxes.base import Kill, Stdin
from benchyard.errors import StoreError
from benchyard.hosts import shells
from benchyard.hosts.host import ExecutionState
from benchyard.store.vault import Vault
from benchyard.testing.contracts.driver_fixture import eventually
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


def test_directory_and_variables_are_kept(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        strange = "a\n 'b' \"c\" $d \\\\e ü"
        await yard.text(
            devbox,
            "mkdir 'a dir'; cd 'a dir'; X=plain; export Y=$GIVEN",
            shell_name="s",
            env={"GIVEN": strange},
        )
        said = await yard.text(devbox, 'echo "${PWD##*/}|$X"; printenv Y; printenv X', shell_name="s")
        assert said == f"a dir|plain\n{strange}\n"
        assert await yard.text(devbox, 'echo "$X$Y"') == "\n"
        assert await yard.text(devbox, 'echo "$X$Y"', shell_name="other") == "\n"

    on_host(test)


def test_functions_aliases_and_options_are_kept(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        define = (
            "f() { echo f $1; }; export -f f; shopt -s expand_aliases extglob; alias hi='echo alias';"
            "set -uo pipefail; list=(1 '2 3'); declare -A map=([k]='v w'); readonly fixed=9; umask 027"
        )
        await yard.text(devbox, define, shell_name="s")
        use = (
            'f 1; bash -c "f 2"; hi; echo "${list[1]} ${map[k]} $fixed"; umask; '
            "shopt -q extglob && echo extglob; set -o | grep -c 'nounset.*on\\|pipefail.*on'"
        )
        expected = "f 1\nf 2\nalias\n2 3 v w 9\n0027\nextglob\n2\n"
        assert await yard.text(devbox, use, shell_name="s") == expected
        assert (
            await yard.text(devbox, "fixed=1; echo $fixed; declare -F | grep -c benchyard", shell_name="s")
            == ""
        )
        assert await yard.text(devbox, "compgen -v | grep benchyard", shell_name="s") == ""

    on_host(test)


def test_exit_keeps_the_state_and_its_status(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        for number, leave in enumerate(
            ("exit 3", "set -e; (exit 3)", "f() { exit 3; }; f", "trap 'true' EXIT; exit 3")
        ):
            state = await yard.run(devbox, f"set +e; N={number}; {leave}", shell_name="s")
            assert state.exit_status == 3, leave
            if "trap" not in leave:
                assert await yard.text(devbox, "echo $N", shell_name="s") == f"{number}\n"
        await yard.run(devbox, "set +e; trap 'echo bye' EXIT; N=trapped", shell_name="s")
        assert await yard.text(devbox, "echo $N", shell_name="s") == "trapped\n"

    on_host(test)


def test_a_command_that_is_not_a_shell_keeps_the_state_and_says_only_so(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.run(devbox, "cd /tmp; X=1", shell_name="s")
        state = await yard.run(devbox, 'echo "unclosed', shell_name="s")
        said = (await yard.output(devbox, state.id, "stderr")).decode()
        assert state.exit_status != 0
        assert len(said.splitlines()) == 1
        assert "unexpected EOF" in said
        assert await yard.text(devbox, 'echo "$PWD $X"', shell_name="s") == "/tmp 1\n"

    on_host(test)


def test_a_killed_command_leaves_the_state_as_it_was(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.run(devbox, "N=1", shell_name="s")
        state = await yard.host.exec(devbox, yard.request("N=2; cat", shell_name="s", attach_stdin=True))
        await yard.host.control(devbox, state.id, Kill())
        assert (await yard.host.wait(devbox, state.id, 30)).exit_status == 137
        await yard.run(devbox, "N=3; kill -9 $$", shell_name="s")
        assert await yard.text(devbox, "echo $N", shell_name="s") == "1\n"

    on_host(test)


def test_commands_of_one_shell_wait_for_each_other(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        states = []
        for number in range(4):
            request = yard.request(f"echo {number} >> order; read line", shell_name="s", attach_stdin=True)
            states.append(await yard.host.exec(devbox, request))
        assert [state.status for state in states] == ["running", "queued", "queued", "queued"]
        assert await yard.output_so_far(devbox, states[1].id) == b""
        beside = await yard.run(devbox, "true", shell_name="t")
        assert beside.exit_status == 0
        assert not await yard.host.control(devbox, states[2].id, Stdin(b"early"))
        assert await yard.host.control(devbox, states[2].id, Kill())
        assert (await yard.host.execution(devbox, states[2].id)).exit_status == 137
        for number in (0, 1, 3):
            await _runs(yard, devbox, states[number])
            await yard.host.control(devbox, states[number].id, Stdin(b"\n"))
            assert (await yard.host.wait(devbox, states[number].id, 30)).exit_status == 0
        assert await yard.text(devbox, "cat order") == "0\n1\n3\n"

    on_host(test)


async def _runs(yard: HostYard, devbox: str, state: ExecutionState) -> None:
    stdout = yard.folder / "host/devboxes" / devbox / "executions" / state.id / "stdout"
    await eventually(stdout.exists, "its turn")


def test_background_processes_do_not_hold_up_a_shell(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "sleep 60 & PID=$!", shell_name="s")
        assert await yard.text(devbox, "kill -0 $PID && echo alive; kill $PID", shell_name="s") == "alive\n"

    on_host(test)


def test_a_state_that_is_too_large_is_not_kept(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.run(devbox, "N=1", shell_name="s")
        size = shells.MAX_STATE_BYTES + 1
        state = await yard.run(devbox, f"N=2; B=$(head -c {size} /dev/zero | tr '\\0' x)", shell_name="s")
        assert state.exit_status == 0
        assert await yard.text(devbox, "echo $N ${#B}", shell_name="s") == "1 0\n"

    on_host(test)


def test_posix_shells_keep_directory_and_exported_variables(
    on_host: OnHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shells, "BASH", "/bin/no-such-bash")

    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.run(devbox, "export X='a b'; Y=lost; cd /usr/lib; exit 3", shell_name="s")
        assert state.exit_status == 3
        assert await yard.text(devbox, 'echo "$X|$Y"; pwd', shell_name="s") == "a b|\n/usr/lib\n"
        assert await yard.text(devbox, "x='" + "y" * 200_000 + "'; echo ${#x}") == "200000\n"

    on_host(test)


def test_restored_state_of_a_shell_is_in_sealed_memory(tmp_path: Path) -> None:
    shell = shells.Shell.named(tmp_path / "shells", "user", "s", Vault(tmp_path / "key"))
    shell.keep(b"export X=1 \xff")
    with ExitStack() as opened:
        invocation = shell.invocation(shells.BASH, "true", {}, tmp_path, opened)
        (read,) = [path for path, direction in invocation.extra_files if direction == "r"]
        assert read.read_bytes() == b"export X=1 \xff"
        with pytest.raises(PermissionError), read.open("r+b", buffering=0) as file:
            file.write(b"more")
    assert not read.exists()
    assert b"X=1" not in shell.state.read_bytes()
    assert shell.state.stat().st_mode & 0o077 == 0


def test_a_shell_whose_state_was_sealed_with_a_lost_key_says_so(tmp_path: Path) -> None:
    shells.Shell.named(tmp_path / "shells", "user", "s", Vault(tmp_path / "key")).keep(b"export X=1")
    other = shells.Shell.named(tmp_path / "shells", "user", "s", Vault(tmp_path / "other"))
    with pytest.raises(StoreError, match="another name"):
        other.stored_state()
