"""What a driver owes that can refuse tracing in a running devbox: what was left there reaches no scorer."""

from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability
from benchyard.errors import DevboxError
from benchyard.testing.reach_tricks import WAYS
from benchyard.testing.room_contract import REACHING_CALLS, reaches
from benchyard.testing.yard import Makes, Yard, contract

_SOURCE = Path(__file__).with_name("reach_tricks.py")
_REFUSED = {"Operation not permitted", "Permission denied"}
_TRICK = "/shared/reach_tricks.py"
_ROOT = "root"
_OTHER = "1234"


class TracingContract(Makes):
    """Tracing that is refused from one moment on."""

    @contract(Capability.REFUSE_TRACING)
    async def test_tracing_is_refused_from_one_moment_on_and_allowed_again(self, yard: Yard) -> None:
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
    async def test_tracing_stays_refused_without_the_server(self, yard: Yard) -> None:
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
    async def test_tracing_can_be_refused_after_a_resume(self, yard: Yard) -> None:
        devbox = await yard.devbox(tracing_switch=True)
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        await yard.driver.stop(devbox)
        await yard.driver.start(yard.specs[devbox])
        assert (await reaches(yard, devbox))["ptrace"] == "done"
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        assert (await reaches(yard, devbox))["ptrace"] == "Operation not permitted"

    @contract(Capability.REFUSE_TRACING)
    async def test_who_traced_before_can_do_no_more_with_it(self, yard: Yard) -> None:
        devbox = await yard.devbox(tracing_switch=True)
        tracer = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", _TRACER), attach_stdin=True)
        await yard.shows(tracer, b"attached")
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        await yard.close_input(devbox, tracer)
        assert (await yard.finish(tracer)).stdout.split(b"\n")[1:] == [b"Operation not permitted", b""]

    @contract(Capability.REFUSE_TRACING)
    async def test_who_is_killed_or_woken_while_it_asks_disturbs_nobody(self, yard: Yard) -> None:
        devbox = await yard.devbox(tracing_switch=True)
        for allowed in (True, False):
            await yard.driver.inside.set_tracing(devbox, allowed=allowed)
            result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _STORM))
            assert (result.stdout, result.status.exit_status) == (b"over\n", 0), result
            assert await yard.text(devbox, "echo goes on") == "goes on"

    @contract(Capability.OUT_OF_REACH)
    async def test_what_was_left_behind_reaches_everything_while_tracing_is_allowed(self, yard: Yard) -> None:
        devbox = await _devbox(yard)
        assert await _reached(yard, devbox, _ROOT) == dict.fromkeys(WAYS, "done")

    @contract(Capability.OUT_OF_REACH)
    async def test_what_was_left_behind_reaches_no_scorer(self, yard: Yard) -> None:
        devbox = await _devbox(yard)
        is_many = Capability.USERS in yard.driver.capabilities
        for user in (_ROOT, _OTHER) if is_many else (_ROOT,):
            said = await _reached(yard, devbox, user, refused=True)
            assert set(said) == set(WAYS)
            assert set(said.values()) <= _REFUSED, said

    @contract(Capability.OUT_OF_REACH)
    async def test_a_scorer_that_is_long_to_tell_is_out_of_reach_too(self, yard: Yard) -> None:
        devbox = await _devbox(yard)
        said = await _reached(yard, devbox, _ROOT, refused=True, words="x" * 100_000)
        assert set(said.values()) <= _REFUSED, said

    @contract(Capability.OUT_OF_REACH)
    async def test_nobody_gets_what_keeps_scorers_out_of_reach(self, yard: Yard) -> None:
        devbox = await _devbox(yard)
        held = "grep -E 'Cap(Bnd|Prm|Amb)' /proc/self/status | cut -f 2 | while read -r each; do"
        held += " echo $(( (0x$each >> 35) & 1 )); done"
        assert (await yard.text(devbox, held)).split() == ["0", "0", "0"]
        await yard.driver.inside.set_tracing(devbox, allowed=False)
        assert (await yard.text(devbox, held)).split() == ["1", "1", "1"]
        await yard.driver.inside.set_tracing(devbox, allowed=True)
        assert (await yard.text(devbox, held)).split() == ["0", "0", "0"]

    @contract(Capability.OUT_OF_REACH)
    async def test_who_starts_commands_is_out_of_reach_from_the_beginning(self, yard: Yard) -> None:
        # Else its next children, scorers among them, would be traced from their first moment.
        devbox = await _devbox(yard)
        script = f"import sys; sys.path.insert(0, '/shared'); import os, {_SOURCE.stem} as tricks\n"
        script += "for pid in (1, os.getppid()): print(*tricks.attempts(pid).values(), sep='\\n')"
        result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", script))
        said = set(result.stdout.decode().splitlines())
        assert said, result
        assert said <= _REFUSED, said

    @contract(Capability.REFUSE_TRACING)
    async def test_a_devbox_without_the_switch_says_so(self, yard: Yard) -> None:
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


async def _devbox(yard: Yard) -> str:
    devbox = await yard.devbox(tracing_switch=True)
    await yard.text(devbox, "mkdir -m 1777 /shared")
    await yard.write(devbox, _TRICK, _SOURCE.read_bytes())
    return devbox


async def _reached(
    yard: Yard, devbox: str, user: str, *, refused: bool = False, words: str = ""
) -> dict[str, str]:
    """What a process of this user that was left behind gets of a scorer of the same user."""
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
