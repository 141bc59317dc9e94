"""Escape attempts by socket, run inside a devbox without a network: nothing they send leaves the machine."""

import os
import socket
import struct
from typing import Any

from benchyard.testing.escapes.runner import main

Facts = dict[str, Any]

_SECONDS = 2.0
_METADATA = ("169.254.169.254", 80)
_VSOCK, _ALG, _PACKET, _XDP = 40, 38, 17, 44
_CONNECTOR = 11


def connect_to_an_abstract_socket(facts: Facts) -> str | None:
    with socket.socket(socket.AF_UNIX) as reach:
        reach.connect("\0" + facts["abstract"])
        return "connected"


def connect_to_a_socket_file(facts: Facts) -> str | None:
    for path in facts["socket_files"]:
        with socket.socket(socket.AF_UNIX) as reach:
            try:
                reach.connect(path)
            except OSError:
                continue
            return f"connected to {path}"
    return None


def connect_to_the_hosts_loopback(facts: Facts) -> str | None:
    return _connect_any([(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")], facts["ports"])


def connect_to_the_hosts_addresses(facts: Facts) -> str | None:
    return _connect_any([(socket.AF_INET, address) for address in facts["addresses"]], facts["ports"])


def _connect_any(addresses: list[tuple[int, str]], ports: list[int]) -> str | None:
    for family, address in addresses:
        for port in ports:
            with socket.socket(family) as reach:
                reach.settimeout(_SECONDS)
                try:
                    reach.connect((address, port))
                except OSError:
                    continue
                return f"connected to {address} {port}"
    return None


def connect_to_the_metadata_service(_facts: Facts) -> str | None:
    with socket.socket(socket.AF_INET) as reach:
        reach.settimeout(_SECONDS)
        reach.connect(_METADATA)
        return "connected"


def have_a_network_card(_facts: Facts) -> str | None:
    cards = {name for _number, name in socket.if_nameindex()} - {"lo"}
    return f"has {sorted(cards)}" if cards else None


def open_a_raw_socket(_facts: Facts) -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "opened"


def open_a_packet_socket(_facts: Facts) -> str | None:
    socket.socket(_PACKET, socket.SOCK_RAW, 0).close()
    return "opened"


def open_a_socket_to_the_hypervisor(_facts: Facts) -> str | None:
    socket.socket(_VSOCK, socket.SOCK_STREAM).close()
    return "opened"


def open_a_socket_of_the_kernels_ciphers(_facts: Facts) -> str | None:
    socket.socket(_ALG, socket.SOCK_SEQPACKET).close()
    return "opened"


def open_an_express_socket(_facts: Facts) -> str | None:
    socket.socket(_XDP, socket.SOCK_RAW).close()
    return "opened"


def open_a_socket_of_a_rare_protocol(_facts: Facts) -> str | None:
    opened = []
    for kind, protocol in ((1, 132), (5, 132), (6, 33), (2, 136), (2, 115)):
        try:
            socket.socket(socket.AF_INET, kind, protocol).close()
            opened.append(protocol)
        except PermissionError:
            continue
    return f"opened {opened}" if opened else None


def hear_of_the_hosts_processes(_facts: Facts) -> str | None:
    """Listen on the protocol by which the kernel reports forks and programs to processes of the host."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _CONNECTOR) as hear:
        hear.bind((0, 1))
        message = struct.pack("=IHHIIIIIIHHI", 40, 3, 0, 0, 0, 1, 1, 0, 0, 4, 0, 1)
        hear.send(message)
        hear.settimeout(_SECONDS)
        os.posix_spawn("/bin/true", ["true"], {})
        try:
            return f"heard {hear.recv(4096)[:40]!r}"
        except TimeoutError:
            return None


ATTEMPTS = [
    open_a_socket_of_a_rare_protocol,
    hear_of_the_hosts_processes,
    connect_to_an_abstract_socket,
    connect_to_a_socket_file,
    connect_to_the_hosts_loopback,
    connect_to_the_hosts_addresses,
    connect_to_the_metadata_service,
    have_a_network_card,
    open_a_raw_socket,
    open_a_packet_socket,
    open_a_socket_to_the_hypervisor,
    open_a_socket_of_the_kernels_ciphers,
    open_an_express_socket,
]

if __name__ == "__main__":
    main(ATTEMPTS)
