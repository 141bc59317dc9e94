"""What every driver owes to a clean room: output that counts, files of its own, folders that are shown."""

import os
import signal

import pytest

from benchyard.devboxes.base import Capability, OpenFile
from benchyard.errors import UsageError
from benchyard.testing.yard import Makes, Yard, contract, processes_with

_LATE = "(trap '' TERM HUP; sleep 0.05; echo late; echo late >&2; sleep {0}) & echo early; echo early >&2"

_REACH = """\
import ctypes, os, platform, signal
libc = ctypes.CDLL(None, use_errno=True)
column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
child = os.fork()
if child == 0:
    signal.pause()
own = os.pidfd_open(child)
word = ctypes.create_string_buffer(8)
part = (ctypes.c_void_p * 2)(ctypes.addressof(word), 8)
calls = {
    "ptrace": ((101, 117), 0x4206, child, 0, 0),
    "process_vm_readv": ((310, 270), child, part, 1, part, 1, 0),
    "process_vm_writev": ((311, 271), child, part, 1, part, 1, 0),
    "kcmp": ((312, 272), os.getpid(), child, 0, 0, 1),
    "pidfd_getfd": ((438, 438), own, 0, 0),
}
for name, (numbers, *given) in calls.items():
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in given]
    done = libc.syscall(ctypes.c_long(numbers[column]), *given) >= 0
    print(name, "done" if done else os.strerror(ctypes.get_errno()))
os.kill(child, 9)
"""
REACHING_CALLS = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd")


class RoomContract(Makes):
    """What whoever grades must be able to rely on."""

    @contract()
    async def test_a_strict_command_says_nothing_after_its_end(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        loose = await yard.run(devbox, _LATE.format(marker))
        assert (loose.stdout, loose.stderr) == (b"early\nlate\n", b"early\nlate\n")
        assert processes_with(marker)
        marker = yard.marker()
        strict = await yard.run(devbox, _LATE.format(marker), strict=True)
        assert (strict.stdout, strict.stderr) == (b"early\n", b"early\n")
        assert strict.status.exit_status == 0
        assert not processes_with(marker)

    @contract()
    async def test_a_strict_command_ends_what_it_left_wherever_that_is(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        hidden = f"(setsid sh -c \"trap '' TERM; while :; do echo x; sleep {marker}; done\" &) ; sleep 0.1"
        result = await yard.run(devbox, f"{hidden}; exit 3", strict=True)
        assert (result.stdout, result.status.exit_status) == (b"x\n", 3)
        assert not processes_with(marker)

    @contract()
    async def test_all_that_a_strict_command_said_arrives(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        spoken = "head -c 3000000 /dev/zero; yes | head -c 60000 >&2"
        result = await yard.run(devbox, spoken, strict=True)
        assert (len(result.stdout), len(result.stderr)) == (3_000_000, 60_000)
        # In the devbox's pipe at once, with nobody there any more who wrote it.
        quick = ("/bin/sh", "-c", "printf %060000d 7; kill -9 $$")
        for _ in range(10):
            ended = await yard.run(devbox, argv=quick, strict=True)
            assert (len(ended.stdout), ended.status.signal) == (60_000, signal.SIGKILL)

    @contract()
    async def test_a_strict_command_that_cannot_start_says_why(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        result = await yard.run(devbox, argv=("/no/such/program",), strict=True)
        assert result.status.exit_status == 127
        assert b"/no/such/program" in result.stderr

    @contract(Capability.NO_TRACING)
    async def test_no_process_reaches_into_another_where_tracing_is_refused(self, yard: Yard) -> None:
        said = await reaches(yard, await yard.devbox(tracing=False))
        assert said == dict.fromkeys(REACHING_CALLS, "Operation not permitted")

    @contract(Capability.NO_TRACING)
    async def test_debuggers_work_in_any_other_devbox(self, yard: Yard) -> None:
        said = await reaches(yard, await yard.devbox())
        # Kernels are built without the last one, which only compares.
        said.pop("kcmp")
        assert set(said.values()) == {"done"}, said

    @contract()
    async def test_the_status_tells_a_signal_from_a_number(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        for script, expected in (
            ("kill -15 $$", 15),
            ("exit 143", None),
            ("sh -c 'kill -9 $$'; exit 0", None),
        ):
            for strict in (False, True):
                assert (await yard.run(devbox, script, strict=strict)).status.signal == expected
        late = await yard.run(devbox, f"sleep {yard.marker()}", timeout_seconds=0.2, strict=True)
        assert (late.status.signal, late.status.timed_out) == (signal.SIGKILL, True)

    @contract()
    async def test_a_fresh_file_takes_the_place_of_whatever_was_there(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.text(
            devbox,
            "echo old > target; ln -s target link; ln target hard; mkfifo fifo; ln -s nowhere broken;"
            " printf '#!/bin/sh\\n' > closed; chmod 0 closed",
        )
        for name in ("link", "hard", "fifo", "broken", "closed", "new/deep/er"):
            await yard.write(devbox, f"~/{name}", b"fresh", fresh=True)
            assert await yard.text(devbox, f"cat {name}; stat -c ' %F %h %a' {name}") == (
                "fresh regular file 1 644"
            )
        assert await yard.text(devbox, "cat target; ls -d nowhere 2>/dev/null || echo none") == "old\nnone"
        await yard.write(devbox, "~/program", b"#!/bin/sh\necho ran\n", fresh=True, mode=0o755)
        assert await yard.text(devbox, "./program") == "ran"

    @contract()
    async def test_a_fresh_file_never_takes_a_folders_place(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "mkdir folder; touch folder/inside")
        for path in ("~/folder", "~", "/", "~/folder/.."):
            with pytest.raises(UsageError):
                os.close(await yard.driver.open_file(devbox, OpenFile(path, write=True, fresh=True)))
        assert await yard.text(devbox, "ls folder") == "inside"

    @contract(Capability.USERS)
    async def test_a_fresh_file_needs_the_right_to_remove_the_old_one(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.text(
            devbox, "mkdir -m 1777 /shared; echo mine > /shared/of-root; chmod 666 /shared/of-root"
        )
        with pytest.raises(UsageError):
            await yard.write(devbox, "/shared/of-root", b"x", user="1234", fresh=True)
        await yard.write(devbox, "/shared/of-root", b"x", fresh=True)
        assert await yard.text(devbox, "stat -c '%u %a' /shared/of-root") == "0 644"

    @contract(Capability.USERS)
    async def test_root_is_root_whatever_the_list_of_users_says(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        renamed = r"sed -i -E 's/^root:([^:]*):[0-9]+:[0-9]+:/root:\1:1234:1234:/' /etc/passwd"
        await yard.text(devbox, f"{renamed}; grep -q '^root:[^:]*:1234:1234:' /etc/passwd")
        assert await yard.text(devbox, "id -u; id -g", user="root") == "0\n0"
        await yard.write(devbox, "/kept/script", b"for root\n", fresh=True, mode=0o640, group_of="root")
        assert await yard.text(devbox, "stat -c '%u %g %a' /kept/script", user="root") == "0 0 640"

    @contract(Capability.USERS)
    async def test_a_fresh_file_may_be_for_one_users_group(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "echo 'one:x:1234:1235::/tmp:/bin/sh' >> /etc/passwd")
        await yard.write(devbox, "/kept/script", b"for one\n", fresh=True, mode=0o640, group_of="one")
        assert await yard.text(devbox, "stat -c '%u %g %a' /kept/script") == "0 1235 640"
        assert await yard.text(devbox, "cat /kept/script", user="one") == "for one"
        assert (await yard.run(devbox, "cat /kept/script", user="4321")).status.exit_status == 1
        with pytest.raises(UsageError):
            await yard.write(devbox, "/kept/other", b"x", fresh=True, group_of="no-such-user")


async def reaches(yard: Yard, devbox: str) -> dict[str, str]:
    """What a process gets of its own child, call by call."""
    result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _REACH))
    lines = result.stdout.decode().splitlines()
    assert lines, result.stderr
    return {name: said for name, _, said in (line.partition(" ") for line in lines)}
