"""The system call filter, run by a small interpreter of its program."""

import errno
import socket
import struct
from collections.abc import Callable

import pytest

from benchyard.devboxes.guest import seccomp, syscalls

ALLOW = 0x7FFF0000
ASKED = 0x7FC00000
REFUSED = 0x00050000 | errno.EPERM
ABSENT = 0x00050000 | errno.ENOSYS
NO_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CALLS = {
    "x86_64": {
        "read": 0,
        "mount": 165,
        "unshare": 272,
        "clone": 56,
        "clone3": 435,
        "ioctl": 16,
        "bpf": 321,
        "socket": 41,
    },
    "aarch64": {
        "read": 63,
        "mount": 40,
        "unshare": 97,
        "clone": 220,
        "clone3": 435,
        "ioctl": 29,
        "bpf": 280,
        "socket": 198,
    },
}


def decide(
    machine: str,
    call: int,
    arguments: tuple[int, ...] = (),
    architecture: int | None = None,
    program: Callable[[str], bytes] = seccomp.program,
) -> int:
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("IIQ6Q", call, architecture or ARCHITECTURE[machine], 0, *padded)
    code = list(struct.iter_unpack("HBBI", program(machine)))
    at, value = 0, 0
    while True:
        operation, if_true, if_false, constant = code[at]
        at += 1
        if operation == 0x06:
            return int(constant)
        if operation == 0x20:
            value = struct.unpack_from("I", data, constant)[0]
            continue
        holds = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[operation]
        at += if_true if holds else if_false


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
class TestFilter:
    def test_ordinary_calls_pass(self, machine: str) -> None:
        assert decide(machine, CALLS[machine]["read"]) == ALLOW

    @pytest.mark.parametrize("name", ["mount", "bpf"])
    def test_dangerous_calls_are_refused(self, machine: str, name: str) -> None:
        assert decide(machine, CALLS[machine][name]) == REFUSED

    def test_calls_with_a_second_way_are_absent(self, machine: str) -> None:
        assert decide(machine, CALLS[machine]["clone3"]) == ABSENT

    @pytest.mark.parametrize("call", ["clone", "unshare"])
    def test_new_namespaces_are_refused_and_threads_are_not(self, machine: str, call: str) -> None:
        thread = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000
        assert decide(machine, CALLS[machine][call], (thread,)) == ALLOW
        for flag in (
            syscalls.CLONE_NEWUSER,
            syscalls.CLONE_NEWNS,
            syscalls.CLONE_NEWPID,
            syscalls.CLONE_NEWNET,
        ):
            assert decide(machine, CALLS[machine][call], (thread | flag,)) == REFUSED

    def test_a_time_namespace_is_refused(self, machine: str) -> None:
        assert decide(machine, CALLS[machine]["unshare"], (0x80,)) == REFUSED

    def test_sockets_are_of_the_common_families(self, machine: str) -> None:
        for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            assert decide(machine, CALLS[machine]["socket"], (family,)) == ALLOW
        for other in (socket.AF_PACKET, socket.AF_VSOCK, socket.AF_ALG, 44, 0):
            assert decide(machine, CALLS[machine]["socket"], (other,)) == NO_FAMILY

    def test_calls_newer_than_the_filter_are_absent(self, machine: str) -> None:
        assert decide(machine, 466) == ALLOW
        assert decide(machine, 467) == ABSENT

    def test_typing_into_a_terminal_is_refused(self, machine: str) -> None:
        assert decide(machine, CALLS[machine]["ioctl"], (0, 0x5412)) == REFUSED
        assert decide(machine, CALLS[machine]["ioctl"], (0, 0x5413)) == ALLOW

    @pytest.mark.parametrize("family", [40, 38], ids=["vsock", "alg"])
    def test_sockets_that_no_network_namespace_holds_are_refused(self, machine: str, family: int) -> None:
        assert decide(machine, CALLS[machine]["socket"], (family, 1, 0)) == NO_FAMILY
        for ordinary in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            assert decide(machine, CALLS[machine]["socket"], (ordinary, 1, 0)) == ALLOW

    @pytest.mark.parametrize("name", sorted(seccomp.TRACING))
    def test_calls_that_reach_into_other_processes_are_refused_where_they_are_not_to_be(
        self, machine: str, name: str
    ) -> None:
        call = seccomp.TRACING[name][0 if machine == "x86_64" else 1]
        assert decide(machine, call) == ALLOW
        assert decide(machine, call, program=seccomp.untraced) == REFUSED
        # The x32 architecture of the same processor has them too.
        if machine == "x86_64":
            assert decide(machine, 0x40000000 | call, program=seccomp.untraced) == ABSENT
        assert decide(machine, CALLS[machine]["read"], program=seccomp.untraced) == ALLOW
        assert decide(machine, call, architecture=0x40000003, program=seccomp.untraced) == REFUSED

    def test_the_filter_that_asks_does_so_about_tracing_and_nothing_else(self, machine: str) -> None:
        column = 0 if machine == "x86_64" else 1
        tracing = {pair[column] for pair in seccomp.TRACING.values()}
        for call in range(467):
            expected = ASKED if call in tracing else ALLOW
            assert decide(machine, call, program=seccomp.asking) == expected
        assert decide(machine, min(tracing), architecture=0x40000003, program=seccomp.asking) == REFUSED

    def test_the_calls_of_other_architectures_are_refused(self, machine: str) -> None:
        assert decide(machine, CALLS[machine]["read"], architecture=0x40000003) == REFUSED
        assert decide(machine, 0x40000000) == ABSENT
