"""Clean rooms, as required of every driver, and the refusal of tracing where a driver claims it."""

import os
import signal
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, OpenFile
from benchyard.errors import DevboxError, UsageError
from benchyard.testing.contracts.driver_fixture import DriverFixture, DriverSuite, contract, processes_with
from benchyard.testing.contracts.reach_tricks import WAYS

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


class RoomContract(DriverSuite):
    """Room guarantees that grading relies on."""

    @contract()
    async def test_a_strict_command_says_nothing_after_its_end(self, yard: DriverFixture) -> None:
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
    async def test_a_strict_command_ends_what_it_left_wherever_that_is(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        hidden = f"(setsid sh -c \"trap '' TERM; while :; do echo x; sleep {marker}; done\" &) ; sleep 0.1"
        result = await yard.run(devbox, f"{hidden}; exit 3", strict=True)
        assert (result.stdout, result.status.exit_status) == (b"x\n", 3)
        assert not processes_with(marker)

    @contract()
    async def test_all_that_a_strict_command_said_arrives(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        spoken = "head -c 3000000 /dev/zero; yes | head -c 60000 >&2"
        result = await yard.run(devbox, spoken, strict=True)
        assert (len(result.stdout), len(result.stderr)) == (3_000_000, 60_000)
        # In the devbox's pipe at once, with its writer gone.
        quick = ("/bin/sh", "-c", "printf %060000d 7; kill -9 $$")
        for _ in range(10):
            ended = await yard.run(devbox, argv=quick, strict=True)
            assert (len(ended.stdout), ended.status.signal) == (60_000, signal.SIGKILL)

    @contract()
    async def test_a_strict_command_that_cannot_start_says_why(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        result = await yard.run(devbox, argv=("/no/such/program",), strict=True)
        assert result.status.exit_status == 127
        assert b"/no/such/program" in result.stderr

    @contract(Capability.NO_TRACING)
    async def test_no_process_reaches_into_another_where_tracing_is_refused(
        self, yard: DriverFixture
    ) -> None:
        said = await reaches(yard, await yard.devbox(tracing=False))
        assert said == dict.fromkeys(REACHING_CALLS, "Operation not permitted")

    @contract(Capability.NO_TRACING)
    async def test_debuggers_work_in_any_other_devbox(self, yard: DriverFixture) -> None:
        said = await reaches(yard, await yard.devbox())
        # Kernels are built without the last one, which only compares.
        said.pop("kcmp")
        assert set(said.values()) == {"done"}, said

    @contract()
    async def test_the_status_tells_a_signal_from_a_number(self, yard: DriverFixture) -> None:
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
    async def test_a_fresh_file_takes_the_place_of_whatever_was_there(self, yard: DriverFixture) -> None:
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
    async def test_a_fresh_file_never_takes_a_folders_place(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "mkdir folder; touch folder/inside")
        for path in ("~/folder", "~", "/", "~/folder/.."):
            with pytest.raises(UsageError):
                os.close(await yard.driver.open_file(devbox, OpenFile(path, write=True, fresh=True)))
        assert await yard.text(devbox, "ls folder") == "inside"

    @contract(Capability.USERS)
    async def test_a_fresh_file_needs_the_right_to_remove_the_old_one(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(
            devbox, "mkdir -m 1777 /shared; echo mine > /shared/of-root; chmod 666 /shared/of-root"
        )
        with pytest.raises(UsageError):
            await yard.write(devbox, "/shared/of-root", b"x", user="1234", fresh=True)
        await yard.write(devbox, "/shared/of-root", b"x", fresh=True)
        assert await yard.text(devbox, "stat -c '%u %a' /shared/of-root") == "0 644"

    @contract(Capability.USERS)
    async def test_root_is_root_whatever_the_list_of_users_says(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        renamed = r"sed -i -E 's/^root:([^:]*):[0-9]+:[0-9]+:/root:\1:1234:1234:/' /etc/passwd"
        await yard.text(devbox, f"{renamed}; grep -q '^root:[^:]*:1234:1234:' /etc/passwd")
        assert await yard.text(devbox, "id -u; id -g", user="root") == "0\n0"
        await yard.write(devbox, "/kept/script", b"for root\n", fresh=True, mode=0o640, group_of="root")
        assert await yard.text(devbox, "stat -c '%u %g %a' /kept/script", user="root") == "0 0 640"

    @contract(Capability.USERS)
    async def test_a_fresh_file_may_be_for_one_users_group(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "echo 'one:x:1234:1235::/tmp:/bin/sh' >> /etc/passwd")
        await yard.write(devbox, "/kept/script", b"for one\n", fresh=True, mode=0o640, group_of="one")
        assert await yard.text(devbox, "stat -c '%u %g %a' /kept/script") == "0 1235 640"
        assert await yard.text(devbox, "cat /kept/script", user="one") == "for one"
        assert (await yard.run(devbox, "cat /kept/script", user="4321")).status.exit_status == 1
        with pytest.raises(UsageError):
            await yard.write(devbox, "/kept/other", b"x", fresh=True, group_of="no-such-user")


async def reaches(yard: DriverFixture, devbox: str) -> dict[str, str]:
    """Return the outcome of a process's attempts to reach its own child, call by call."""
    result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _REACH))
    lines = result.stdout.decode().splitlines()
    assert lines, result.stderr
    return {name: said for name, _, said in (line.partition(" ") for line in lines)}


_SOURCE = Path(__file__).with_name("reach_tricks.py")
_REFUSED = {"Operation not permitted", "Permission denied"}
_TRICK = "/shared/reach_tricks.py"
_ROOT = "root"
_OTHER = "1234"


class TracingContract(DriverSuite):
    """Tracing that is refused from one moment on."""

    @contract(Capability.REFUSE_TRACING)
    async def test_tracing_is_refused_from_one_moment_on_and_allowed_again(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(tracing_switch=True)
        before = await reaches(yard, devbox)
        # Kernels are built without this one, which only compares.
        before.pop("kcmp")
        assert set(before.values()) == {"done"}, before
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        refused = dict.fromkeys(REACHING_CALLS, "Operation not permitted")
        assert await reaches(yard, devbox) == refused
        await yard.driver.inside.set_tracing(devbox, allowed=True)
        again = await reaches(yard, devbox)
        again.pop("kcmp")
        assert again == before

    @contract(Capability.REFUSE_TRACING)
    async def test_tracing_stays_refused_without_the_server(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(tracing_switch=True)
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        await yard.renew()
        assert await yard.driver.find(yard.specs[devbox])
        refused = dict.fromkeys(REACHING_CALLS, "Operation not permitted")
        assert await reaches(yard, devbox) == refused
        await yard.driver.freeze(devbox)
        await yard.driver.thaw(devbox)
        assert await reaches(yard, devbox) == refused

    @contract(Capability.REFUSE_TRACING)
    async def test_tracing_can_be_refused_after_a_resume(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(tracing_switch=True)
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        await yard.driver.stop(devbox)
        await yard.driver.start(yard.specs[devbox])
        assert (await reaches(yard, devbox))["ptrace"] == "done"
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        assert (await reaches(yard, devbox))["ptrace"] == "Operation not permitted"

    @contract(Capability.REFUSE_TRACING)
    async def test_who_traced_before_can_do_no_more_with_it(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(tracing_switch=True)
        tracer = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", _TRACER), attach_stdin=True)
        await yard.shows(tracer, b"attached")
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        await yard.close_input(devbox, tracer)
        assert (await yard.finish(tracer)).stdout.split(b"\n")[1:] == [b"Operation not permitted", b""]

    @contract(Capability.REFUSE_TRACING)
    async def test_who_is_killed_or_woken_while_it_asks_disturbs_nobody(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(tracing_switch=True)
        for allowed in (True, False):
            await yard.driver.inside.set_tracing(devbox, allowed=allowed)
            result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _STORM))
            assert (result.stdout, result.status.exit_status) == (b"over\n", 0), result
            assert await yard.text(devbox, "echo goes on") == "goes on"

    @contract(Capability.OUT_OF_REACH)
    async def test_processes_left_behind_reach_everything_while_tracing_is_allowed(
        self, yard: DriverFixture
    ) -> None:
        devbox = await _devbox(yard)
        assert await _reached(yard, devbox, _ROOT) == dict.fromkeys(WAYS, "done")

    @contract(Capability.OUT_OF_REACH)
    async def test_what_was_left_behind_reaches_no_scorer(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        is_many = Capability.USERS in yard.driver.capabilities
        for user in (_ROOT, _OTHER) if is_many else (_ROOT,):
            said = await _reached(yard, devbox, user, refused=True)
            assert set(said) == set(WAYS)
            assert set(said.values()) <= _REFUSED, said

    @contract(Capability.OUT_OF_REACH)
    async def test_a_scorer_that_is_long_to_tell_is_out_of_reach_too(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        said = await _reached(yard, devbox, _ROOT, refused=True, words="x" * 100_000)
        assert set(said.values()) <= _REFUSED, said

    @contract(Capability.OUT_OF_REACH)
    async def test_nobody_gets_what_keeps_scorers_out_of_reach(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        held = "grep -E 'Cap(Bnd|Prm|Amb)' /proc/self/status | cut -f 2 | while read -r each; do"
        held += " echo $(( (0x$each >> 35) & 1 )); done"
        assert (await yard.text(devbox, held)).split() == ["0", "0", "0"]
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        assert (await yard.text(devbox, held)).split() == ["1", "1", "1"]
        await yard.driver.inside.set_tracing(devbox, allowed=True)
        assert (await yard.text(devbox, held)).split() == ["0", "0", "0"]

    @contract(Capability.OUT_OF_REACH)
    async def test_who_starts_commands_is_out_of_reach_from_the_beginning(self, yard: DriverFixture) -> None:
        # Else its next children, scorers among them, would be traced from their first moment.
        devbox = await _devbox(yard)
        script = f"import sys; sys.path.insert(0, '/shared'); import os, {_SOURCE.stem} as tricks\n"
        script += "for pid in (1, os.getppid()): print(*tricks.attempts(pid).values(), sep='\\n')"
        result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", script))
        said = set(result.stdout.decode().splitlines())
        assert said, result
        assert said <= _REFUSED, said

    @contract(Capability.REFUSE_TRACING)
    async def test_a_devbox_without_the_switch_says_so(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        with pytest.raises(DevboxError, match="started without the means"):
            await yard.driver.inside.set_tracing(devbox, allowed=False)


_STORM = """\
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
for _ in range(40):
    children = []
    for at in range(4):
        child = os.fork()
        if child == 0:
            if at % 2:
                signal.signal(signal.SIGALRM, lambda *_: None)
                signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
            while True:
                libc.ptrace(0x4207, os.getppid(), None, None)
        children.append(child)
    time.sleep(0.005)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
print("over")
"""
_TRACER = """\
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
child = os.fork()
if child == 0:
    signal.pause()
# With PTRACE_O_EXITKILL and PTRACE_O_TRACEFORK.
assert libc.ptrace(0x4206, child, None, 0x100002) == 0
print("attached", flush=True)
sys.stdin.read()
done = libc.ptrace(0x4207, child, None, None) == 0
print("done" if done else os.strerror(ctypes.get_errno()))
"""


async def _devbox(yard: DriverFixture) -> str:
    devbox = await yard.devbox(tracing_switch=True)
    await yard.text(devbox, "mkdir -m 1777 /shared")
    await yard.write(devbox, _TRICK, _SOURCE.read_bytes())
    return devbox


async def _reached(
    yard: DriverFixture, devbox: str, user: str, *, refused: bool = False, words: str = ""
) -> dict[str, str]:
    """Return the outcome of a left-behind process's attempts to reach a scorer of the same user."""
    word, file = f"scorer-{yard.marker()}", f"/shared/found-{yard.marker()}"
    waiter = f"python3 {_TRICK} {word} {file} > /dev/null 2>&1 &"
    await yard.run(devbox, waiter, user=user)
    await yard.driver.inside.set_tracing(devbox, allowed=not refused)
    script = f"until [ -e {file} ]; do sleep 0.02; done; cat {file}"
    argv = ("/bin/sh", "-c", script, "sh", word, words)
    scorer = await yard.begin(devbox, argv=argv, user=user, strict=True)
    result = await yard.finish(scorer)
    await yard.driver.inside.set_tracing(devbox, allowed=True)
    lines = [line.partition(": ") for line in result.stdout.decode().splitlines()]
    return {name: said for name, _, said in lines}
