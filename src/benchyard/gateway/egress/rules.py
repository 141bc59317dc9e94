"""Rules for the names, addresses and ports that a devbox may reach; pure functions of texts.

A name is looked up only if it is allowed, so that asking for names carries nothing out. It must resolve to a
public address: private networks, this machine, and the metadata services of clouds stay closed unless a CIDR
rule covers nothing but closed addresses.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import idna

from benchyard.errors import UsageError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Host = str | Address
"""A name in lower case without a trailing dot, or an address."""
Ports = tuple[tuple[int, int], ...]
"""First and last port of each range."""

LARGEST_PORT = 65_535
_MOST_NAME = 253
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_PORT = re.compile(r"[0-9]{1,5}")
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_CLOSED = tuple(
    ipaddress.ip_network(text)
    for text in (
        # This machine, private networks, shared addresses, loopback, link-local with the metadata of clouds
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        # Reserved for protocols, documentation, relays and benchmarking
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24"),
        # Multicast, and addresses that are not in use
        *("224.0.0.0/4", "240.0.0.0/4"),
        # All of IPv6 except 2000::/3, and within that the ranges that embed IPv4 or are for documentation
        *("::/3", "4000::/2", "8000::/1", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)


def is_public(address: Address) -> bool:
    """Tell whether an address belongs to the public internet, judged by its range."""
    return not any(address in closed for closed in _CLOSED)


def plain_address(address: Address) -> Address:
    """Return the address, as IPv4 if it is an IPv4-mapped IPv6 address."""
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if isinstance(mapped, ipaddress.IPv4Address) else address


def host_of(text: str) -> Host:
    """Parse a host into its canonical form; raises ValueError if it is neither a name nor an address."""
    if ":" in text:
        if "%" in text:
            raise ValueError(f"{text[:80]!r} names one network of a machine")
        return plain_address(ipaddress.IPv6Address(text))
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _address_of(name, labels)
    if len(name) > _MOST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{text[:80]!r} is not the name of a host")
    return name


def _address_of(name: str, labels: list[str]) -> Address:
    """Parse an IPv4 address in any spelling: with parts left out, in octal or in hexadecimal."""
    if not all(_NUMBER.fullmatch(label) for label in labels):
        raise ValueError(f"{name[:80]!r} is neither a name nor an address")
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name))
    except OSError as error:
        raise ValueError(f"{name[:80]!r} is not an address") from error


def authority_of(text: str, default_port: int | None = None) -> tuple[Host, int]:
    """Return host and port of `host:port` or `[address]:port`; raises ValueError."""
    if text.startswith("["):
        inner, bracket, rest = text[1:].partition("]")
        if not bracket or ":" not in inner:
            raise ValueError(f"{text[:80]!r} is not a host and a port")
        host, colon, port = inner, rest[:1], rest[1:]
    else:
        host, colon, port = text.partition(":")
    if not colon and default_port is not None:
        return host_of(host), default_port
    if colon != ":" or not _PORT.fullmatch(port) or not 0 < int(port) <= LARGEST_PORT:
        raise ValueError(f"{text[:80]!r} is not a host and a port")
    return host_of(host), int(port)


def pattern_of(text: str) -> str:
    """Parse a rule for names into its canonical form: a name, or `*.` and a name; raises UsageError."""
    wildcard, name = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    try:
        ascii_name = name if name.isascii() else idna.encode(name, uts46=True).decode()
        host = host_of(ascii_name)
    except (ValueError, idna.IDNAError) as error:
        message = f"{text[:100]!r} is not a hostname; write a name such as example.com or *.example.com"
        raise UsageError(message, field="allowed_hostnames") from error
    if not isinstance(host, str):
        raise UsageError(
            f"{text[:100]!r} is an address; write it as {host}/{host.max_prefixlen} in allowed_cidrs",
            field="allowed_hostnames",
        )
    return wildcard + host


@dataclass(frozen=True)
class Block:
    """Addresses that may be reached, with their ports."""

    network: Network
    ports: Ports | None = None
    """None allows every port."""

    @classmethod
    def of(cls, cidr: str, ports: Iterable[tuple[int, int]] | None = None) -> "Block":
        """Parse a rule; raises UsageError."""
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError as error:
            message = f"{cidr[:100]!r} is not a CIDR; write one such as 203.0.113.0/24: {error}"
            raise UsageError(message, field="allowed_cidrs") from error
        if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
            inner = network.network_address.ipv4_mapped
            network = ipaddress.IPv4Network((int(inner or 0), network.prefixlen - _MAPPED.prefixlen))
        return cls(network, None if ports is None else tuple(ports))

    def covers(self, address: Address, port: int) -> bool:
        """Tell whether the rule allows this address and port."""
        return address in self.network and (
            self.ports is None or any(first <= port <= last for first, last in self.ports)
        )

    def names_closed(self) -> bool:
        """Tell whether the rule covers closed addresses only, so that its author must have meant them."""
        return any(
            closed.version == self.network.version and self.network.subnet_of(closed)  # type: ignore[arg-type]
            for closed in _CLOSED
        )

    def names_one(self) -> bool:
        """Tell whether the rule covers a single address."""
        return self.network.prefixlen == self.network.max_prefixlen


def is_own(address: Address) -> bool:
    """Tell whether the address is this machine's: packets to it would come from it. Sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return str(probe.getsockname()[0]) == str(address)
    except OSError:
        # Unroutable address: treat as not local.
        return False


@dataclass(frozen=True)
class Rules:
    """Allowed hosts; all others are refused."""

    hostnames: tuple[str, ...] = ()
    """Names, and `*.name` for all names below a name, but not the name itself."""
    blocks: tuple[Block, ...] = ()
    allow_all: bool = False
    """True allows every public address, by any name."""

    @classmethod
    def of(
        cls, hostnames: Iterable[str] = (), blocks: Iterable[Block] = (), *, allow_all: bool = False
    ) -> "Rules":
        """Parse rules; raises UsageError for an invalid one."""
        return cls(tuple(dict.fromkeys(map(pattern_of, hostnames))), tuple(blocks), allow_all)

    def allows_name(self, name: str) -> bool:
        """Tell whether a name, as `host_of` returns it, may be looked up and its public addresses reached."""
        return self.allow_all or any(
            name.endswith(rule[1:]) if rule.startswith("*.") else name == rule for rule in self.hostnames
        )

    def allows_address(
        self, address: Address, port: int, *, by_name: bool, own: Callable[[Address], bool] = is_own
    ) -> bool:
        """Tell whether an address may be reached; `by_name` if an allowed name led to it."""
        address = plain_address(address)
        rules = [block for block in self.blocks if block.covers(address, port)]
        is_open = is_public(address)
        if not is_open:
            rules = [block for block in rules if block.names_closed()]
        if not address.is_loopback and own(address):
            return any(block.names_one() for block in rules)
        return bool(rules) or (is_open and (by_name or self.allow_all))

    def to_json(self) -> dict[str, Any]:
        """Return the rules as JSON, for another process."""
        blocks = [[str(block.network), block.ports] for block in self.blocks]
        return {"hostnames": list(self.hostnames), "blocks": blocks, "allow_all": self.allow_all}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Rules":
        """Return the rules that `to_json` wrote."""
        blocks = [
            Block.of(cidr, None if ports is None else [(int(first), int(last)) for first, last in ports])
            for cidr, ports in found["blocks"]
        ]
        return cls.of(found["hostnames"], blocks, allow_all=bool(found["allow_all"]))


def missing_rule(host: Host, port: int, *, is_name_allowed: bool) -> str:
    """Say which rule is missing for a host and port."""
    if not isinstance(host, str):
        return (
            f"no rule allows {host} port {port}; allowed_cidrs would have to hold {host}/{host.max_prefixlen}"
        )
    if is_name_allowed:
        return (
            f"{host} is allowed, but leads to a private network or to this machine; "
            f"allowed_cidrs would have to name that address with port {port}"
        )
    return f"no rule allows {host}; allowed_hostnames would have to hold it"
