"""Counts of a network namespace that tell whether its programs tried to leave it."""

import os
from pathlib import Path

from benchyard.devboxes.shared.first_process_driver import count_network_refusals


def test_the_counts_are_those_of_the_kernel() -> None:
    lines = Path("/proc/self/net/snmp").read_text().splitlines()
    told = {
        (names.split()[0], name): int(value)
        for names, values in zip(lines[::2], lines[1::2], strict=True)
        for name, value in list(zip(names.split(), values.split(), strict=True))[1:]
    }
    sixth = Path("/proc/self/net/snmp6")
    words = sixth.read_text().split() if sixth.exists() else []
    no_routes = sum(int(words[at + 1]) for at, word in enumerate(words) if word == "Ip6OutNoRoutes")
    least = told["Ip:", "OutNoRoutes"] + told["Udp:", "NoPorts"] + no_routes
    found = count_network_refusals(os.getpid())
    assert found is not None
    # Other programs of this machine go on counting.
    assert least <= found <= least + 1000


def test_an_ended_process_has_no_count_of_refusals() -> None:
    more_than_any_pid = 2**22 + 1
    assert count_network_refusals(more_than_any_pid) is None
