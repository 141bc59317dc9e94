"""What a devbox may reach is told by rules, however a host is spelled."""

import ipaddress
import json
import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.errors import UsageError
from benchyard.gateway.egress.rules import (
    Address,
    Block,
    Rules,
    authority_of,
    host_of,
    is_own,
    is_public,
    missing_rule,
    pattern_of,
    plain_address,
)

V4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
V6 = st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address)
PORTS = st.integers(1, 65_535)
SPELLINGS: st.SearchStrategy[Callable[[int], str]] = st.sampled_from([str, hex, lambda n: f"0{n:o}"])
LABELS = st.text(string.ascii_letters + string.digits, min_size=1, max_size=12).map(lambda text: f"a{text}")
NAMES = st.lists(LABELS, min_size=2, max_size=4).map(".".join)
LOOPBACK = ipaddress.ip_address("127.0.0.1")
METADATA = ipaddress.ip_address("169.254.169.254")
PUBLIC = ipaddress.ip_address("93.184.215.14")


def nobody(_address: Address) -> bool:
    return False


def somebody(_address: Address) -> bool:
    return True


@given(V4, st.data())
def test_every_spelling_of_an_address_is_that_address(
    address: ipaddress.IPv4Address, data: st.DataObject
) -> None:
    number = int(address)
    parts = [number >> 24, number >> 16 & 255, number >> 8 & 255, number & 255]
    kept = data.draw(st.integers(0, 3))
    last = number & (2 ** (8 * (4 - kept)) - 1)
    spelled = [data.draw(SPELLINGS)(n) for n in (*parts[:kept], last)]
    dot = data.draw(st.sampled_from(["", "."]))
    text = ".".join(spelled) + dot
    assert host_of(data.draw(st.sampled_from([text, text.upper()]))) == address


@given(V4)
def test_an_address_in_the_clothes_of_ipv6_is_the_same(address: ipaddress.IPv4Address) -> None:
    mapped = ipaddress.IPv6Address(int(address) | 0xFFFF << 32)
    for text in (str(mapped), f"::ffff:{address}", f"::FFFF:{address}", mapped.exploded):
        assert host_of(text) == address
    assert plain_address(mapped) == address
    assert Rules.of(blocks=[Block.of(f"{mapped}/128")]).allows_address(address, 1, by_name=False, own=nobody)


@given(V6, PORTS)
def test_an_ipv6_address_is_read_in_brackets(address: ipaddress.IPv6Address, port: int) -> None:
    for text in (str(address), address.exploded.upper()):
        assert authority_of(f"[{text}]:{port}") == (plain_address(address), port)
        assert authority_of(f"[{text}]", 80) == (plain_address(address), 80)
        with pytest.raises(ValueError, match="host"):
            authority_of(f"{address.exploded}:{port}")


@given(NAMES, PORTS)
def test_a_name_has_one_spelling(name: str, port: int) -> None:
    for text in (name, name.upper(), f"{name}."):
        assert host_of(text) == name.lower()
        assert authority_of(f"{text}:{port}") == (name.lower(), port)
        assert authority_of(text, 443) == (name.lower(), 443)


NO_HOSTS = (
    *(
        "",
        ".",
        "a..b",
        "-a.b",
        "a-.b",
        "a b",
        "a/b",
        "a@b",
        "a%2eb",
        "*.a",
        "ä.de",
        "a\x00b",
        "1.2.3.999",
        "0x",
    ),
    *("1.2.3.4.5", "256.256.256.256", "a.1", "fe80::1%eth0", "[::1]", "::g", "x" * 64, "a." * 130 + "b"),
)
NO_AUTHORITIES = (
    *("a", "a:", "a:0", "a:65536", "a:999999", "a:-1", "a:+1", "a: 1", "a:1:2", "a:\u0663", ":1", "::1:80"),
    *("[::1]", "[::1]80", "[::1", "[a]:1", "[127.0.0.1]:1", "u@a:1", "a:1/x"),
)


@pytest.mark.parametrize("text", NO_HOSTS)
def test_invalid_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (several say so in their own words)
        host_of(text)


@pytest.mark.parametrize("text", NO_AUTHORITIES)
def test_invalid_host_and_port_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (several say so in their own words)
        authority_of(text)


@given(st.text(max_size=40))
def test_any_text_is_a_host_or_refused(text: str) -> None:
    for read in (host_of, authority_of):
        try:
            read(text)
        except ValueError:
            continue


def test_rules_for_names() -> None:
    rules = Rules.of(["Example.COM.", "*.Wild.example", "münchen.de", "*.straße.de"])
    for name in (
        "example.com",
        "a.wild.example",
        "a.b.wild.example",
        "xn--mnchen-3ya.de",
        "www.xn--strae-oqa.de",
    ):
        assert rules.allows_name(name), name
    for name in (
        *("wild.example", "notwild.example", "a.example.com", "example.com.evil.test", "xn--strae-oqa.de"),
        *("exampleXcom", "com", "evil-example.com"),
    ):
        assert not rules.allows_name(name), name


@given(NAMES, NAMES)
def test_a_wildcard_means_what_is_below_and_nothing_else(name: str, other: str) -> None:
    rules = Rules.of([f"*.{name}"])
    name, other = name.lower(), other.lower()
    assert rules.allows_name(f"{other}.{name}")
    assert not rules.allows_name(name)
    assert not rules.allows_name(f"x{name}")
    assert rules.allows_name(other) == other.endswith(f".{name}")


@pytest.mark.parametrize(
    "text", ["*", "*.", "**.a", "a*.b", "*.*.b", "a.*", "", "http://a", "a:80", "a/b", "-.a"]
)
def test_invalid_host_pattern_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="hostname"):
        pattern_of(text)


@pytest.mark.parametrize("text", ["1.2.3.4", "0x7f.1", "::1", "*.1.2.3.4"])
def test_an_address_is_not_a_rule_for_names(text: str) -> None:
    with pytest.raises(UsageError, match="allowed_cidrs"):
        pattern_of(text)


@pytest.mark.parametrize(
    "text", ["", "a", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/-1", "10/8", "::/129", "1.2.3.4/0x8"]
)
def test_invalid_cidr_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="CIDR"):
        Block.of(text)


CLOSED = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1"),
    *("169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "224.0.0.1", "255.255.255.255"),
    *(
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ),
    *("2001:0:7f00:1::", "::127.0.0.1", "2001:db8::1", "5f00::1"),
]


@pytest.mark.parametrize("text", CLOSED)
def test_closed_addresses_are_reached_by_no_rule_that_does_not_name_them(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not is_public(address)
    wide = Rules.of(
        ["*.test"], [Block.of("0.0.0.0/0"), Block.of("::/0"), Block.of("8.0.0.0/5")], allow_all=True
    )
    for by_name in (True, False):
        assert not wide.allows_address(address, 80, by_name=by_name, own=nobody)
    named = Rules.of(blocks=[Block.of(f"{text}/{address.max_prefixlen}")])
    for by_name in (True, False):
        assert named.allows_address(address, 80, by_name=by_name, own=nobody)


@given(V4 | V6, PORTS)
def test_no_rules_reach_nothing(address: Address, port: int) -> None:
    assert not Rules().allows_address(address, port, by_name=False, own=nobody)
    assert not Rules().allows_name("example.com")


@given(V4 | V6, PORTS)
def test_names_and_allow_all_reach_what_is_public_only(address: Address, port: int) -> None:
    everything = Rules(allow_all=True)
    assert everything.allows_address(address, port, by_name=False, own=nobody) == is_public(
        plain_address(address)
    )
    assert Rules().allows_address(address, port, by_name=True, own=nobody) == is_public(
        plain_address(address)
    )
    assert everything.allows_name("example.com")


@given(V4 | V6, st.integers(0, 128), PORTS)
def test_a_block_reaches_its_own_addresses_only(address: Address, length: int, port: int) -> None:
    length = min(length, address.max_prefixlen)
    network = ipaddress.ip_network((address, length), strict=False)
    block = Block.of(str(network), [(port, port)])
    after = int(network.broadcast_address) + 1
    assert block.covers(plain_address(address), port) or address != plain_address(address)
    assert not block.covers(address, port + 1)
    if after < 2**address.max_prefixlen:
        assert not block.covers(type(address)(after), port)


def test_ports_of_a_block() -> None:
    rules = Rules.of(blocks=[Block.of("93.184.215.0/24", [(443, 443), (8000, 8010)])])
    for port in (443, 8000, 8005, 8010):
        assert rules.allows_address(PUBLIC, port, by_name=False, own=nobody)
    for port in (80, 442, 444, 7999, 8011):
        assert not rules.allows_address(PUBLIC, port, by_name=False, own=nobody)
    assert not Rules.of(blocks=[Block.of("93.184.215.0/24", [])]).allows_address(
        PUBLIC, 443, by_name=False, own=nobody
    )


def test_this_machines_own_addresses_need_a_rule_of_their_own() -> None:
    lan, one = Block.of("192.168.7.0/24"), Block.of("192.168.7.9/32")
    own = ipaddress.ip_address("192.168.7.9")
    assert Rules.of(blocks=[lan]).allows_address(own, 80, by_name=False, own=nobody)
    assert not Rules.of(blocks=[lan]).allows_address(own, 80, by_name=False, own=somebody)
    assert Rules.of(blocks=[lan, one]).allows_address(own, 80, by_name=False, own=somebody)
    assert not Rules(allow_all=True).allows_address(PUBLIC, 80, by_name=True, own=somebody)
    loopback = Rules.of(blocks=[Block.of("127.0.0.0/8")])
    assert loopback.allows_address(LOOPBACK, 80, by_name=False, own=somebody)
    assert not loopback.allows_address(METADATA, 80, by_name=False, own=nobody)


def test_this_machine_knows_its_own_addresses() -> None:
    assert is_own(LOOPBACK)
    assert not is_own(ipaddress.ip_address("198.51.100.77"))
    assert not is_own(ipaddress.ip_address("2001:db8::77"))


@given(
    st.lists(NAMES, max_size=4),
    st.lists(st.tuples(V4 | V6, st.none() | st.lists(PORTS, max_size=2)), max_size=4),
)
def test_rules_travel(names: list[str], blocks: list[tuple[Address, list[int] | None]]) -> None:
    made = [
        Block.of(str(address), None if ports is None else [(port, port) for port in ports])
        for address, ports in blocks
    ]
    rules = Rules.of([*names, *(f"*.{name}" for name in names)], made, allow_all=bool(names))
    assert Rules.from_json(json.loads(json.dumps(rules.to_json()))) == rules


def test_it_is_said_which_rule_is_missing() -> None:
    assert "allowed_hostnames" in missing_rule("a.test", 443, is_name_allowed=False)
    assert "allowed_cidrs" in missing_rule("a.test", 443, is_name_allowed=True)
    assert "93.184.215.14/32" in missing_rule(PUBLIC, 443, is_name_allowed=False)
