"""Which requests are for a tunnel, and what of their heads passes: rules over any input."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.api.tunnels.addresses import TunnelAddress, address_of
from benchyard.api.tunnels.exchange import InboundRequest, answer_headers, request_head, switch_head

KEY = "0123456789abcdef" * 2
BY_PATH = TunnelAddress(KEY, 80, b"/a", b"/tunnel/k/80")
BY_NAME = TunnelAddress(KEY, 80, b"/a")


def asked(
    headers: list[tuple[bytes, bytes]], address: TunnelAddress = BY_NAME, method: str = "GET"
) -> InboundRequest:
    scope = {"headers": headers, "method": method, "query_string": b"", "scheme": "http", "client": None}
    return InboundRequest(scope, address)


def never(secret: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("host", "path", "found"),
    [
        (b"api.x", b"/v1/devboxes", None),
        (b"api.x", b"/tunnels", None),
        (b"api.x", b"/v1/tunnel/k/80/", None),
        (b"api.tunnel.x", b"/v1", None),
        (b"80-k.tunnels.x", b"/v1", None),
        (b"x80-k.tunnel.x", b"/v1", None),
        (b"80-K.Tunnel.x:443", b"/v1", TunnelAddress("k", 80, b"/v1")),
        (b"80-k.tunnel.x", b"/tunnel/o/81/b", TunnelAddress("k", 80, b"/tunnel/o/81/b")),
        (b"99999-k.tunnel.x", b"", TunnelAddress("k", 0, b"/")),
        (b"x", b"/tunnel/k/80/a//b", TunnelAddress("k", 80, b"/a//b", b"/tunnel/k/80")),
        (b"x", b"/tunnel/k/80", TunnelAddress("k", 80, b"/", b"/tunnel/k/80")),
        (b"x", b"/tunnel/k/080/", TunnelAddress("k", 0, b"/", b"/tunnel/k/080")),
    ],
)
def test_addresses(host: bytes, path: bytes, found: TunnelAddress | None) -> None:
    assert address_of(path, [(b"host", host)]) == found


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_address_is_told_or_is_none(path: bytes, host: bytes) -> None:
    found = address_of(path, [(b"host", host)])
    assert found is None or (0 <= found.port <= 65_535 and found.path)


NAMES = st.sampled_from(
    b"connection upgrade te trailer transfer-encoding content-length cookie host x-own keep-alive expect "
    b"x-forwarded-for x-runloop-tunnel-authorization".split()
)
VALUES = st.sampled_from(
    [b"close", b"x-own", b"upgrade, x-own", b"chunked", b"3", b"a", b"", b"a\r\nb: c", b"\x00"]
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), st.booleans())
def test_a_request_is_written_so_that_it_means_one_thing_or_not_at_all(
    headers: list[tuple[bytes, bytes]], by_path: bool
) -> None:
    connection = h11.Connection(h11.CLIENT)
    try:
        written = connection.send(request_head(asked(headers, BY_PATH if by_path else BY_NAME), never))
    except h11.LocalProtocolError:
        return
    assert written is not None
    server = h11.Connection(h11.SERVER)
    server.receive_data(written)
    read = server.next_event()
    assert isinstance(read, h11.Request)
    names = [name for name, _ in read.headers]
    assert names.count(b"host") == names.count(b"connection") == 1
    assert not (b"content-length" in names and b"transfer-encoding" in names)
    assert not {b"te", b"trailer", b"keep-alive", b"expect", b"x-runloop-tunnel-authorization"} & set(names)
    assert not (by_path and b"cookie" in names)


@given(
    st.integers(min_value=200, max_value=700),
    st.lists(st.tuples(NAMES, st.sampled_from([b"a", b"x-own", b"b\x01", b"close"])), max_size=6),
)
def test_an_answer_passes_without_what_concerns_one_hop(
    status: int, headers: list[tuple[bytes, bytes]]
) -> None:
    try:
        answer = h11.Response(status_code=status, headers=headers)
        passed = answer_headers(asked([], BY_PATH), answer)
    except (h11.LocalProtocolError, h11.RemoteProtocolError):
        return
    assert 200 <= status <= 599
    names = [name for name, _ in passed]
    assert not {b"connection", b"transfer-encoding", b"keep-alive", b"upgrade", b"trailer"} & set(names)
    assert not any(b"\x01" in value for _, value in passed)
    assert names.count(b"content-security-policy") == 1


def test_our_own_key_stays_here() -> None:
    headers = [(b"authorization", b"Bearer ours"), (b"authorization", b"bearer theirs")]
    passed = request_head(asked(headers), lambda secret: secret == "ours").headers
    assert [value for name, value in passed if name == b"authorization"] == [b"bearer theirs"]


OF_THE_ORIGIN = (
    b"accept-ch activate-storage-access alt-svc attribution-reporting-register-source clear-site-data "
    b"critical-ch expect-ct link nel observe-browsing-topics origin-agent-cluster public-key-pins "
    b"public-key-pins-report-only report-to reporting-endpoints sec-session-registration "
    b"service-worker-allowed set-cookie set-cookie2 set-login speculation-rules strict-transport-security "
    b"supports-loading-mode use-as-dictionary www-authenticate x-dns-prefetch-control "
    b"x-permitted-cross-domain-policies something-of-the-future"
).split()
ABOUT_ITSELF = [
    (b"content-type", b"text/html"),
    (b"etag", b"1"),
    (b"location", b"/a"),
    (b"x-own", b"1"),
    (b"mcp-session-id", b"1"),
    (b"access-control-allow-origin", b"*"),
]


def test_by_path_an_answer_says_nothing_about_the_apis_own_address() -> None:
    given = [*((name, b"1") for name in OF_THE_ORIGIN), *ABOUT_ITSELF]
    answer = h11.Response(status_code=200, headers=given)
    passed = [pair for pair in answer_headers(asked([], BY_PATH), answer) if pair in given]
    assert passed == ABOUT_ITSELF
    by_name = [name for name, _ in answer_headers(asked([], BY_NAME), answer)]
    assert set(OF_THE_ORIGIN) <= set(by_name)


def test_by_path_a_switch_of_protocols_says_no_more_either() -> None:
    handshake = [(b"connection", b"upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-accept", b"x")]
    given = [*handshake, *((name, b"1") for name in OF_THE_ORIGIN)]
    answer = h11.InformationalResponse(status_code=101, headers=given)
    lines = switch_head(asked([], BY_PATH), answer).split(b"\r\n")
    assert lines[1:-2] == [b"%b: %b" % pair for pair in handshake]
    assert b"set-cookie: 1" in switch_head(asked([], BY_NAME), answer)


ORDERS = (
    b"x-accel-redirect x-accel-expires x-accel-charset x-accel-limit-rate x-sendfile x-sendfile2 "
    b"x-sendfile-temporary x-lighttpd-send-file x-lighttpd-send-tempfile x-litespeed-location x-reproxy-url"
).split()


@pytest.mark.parametrize("where", [BY_PATH, BY_NAME])
def test_a_proxy_before_the_server_gets_no_orders_from_a_devbox(where: TunnelAddress) -> None:
    """nginx and others answer with a file or an internal address of their own when told so by a header."""
    given = [*((name, b"/internal") for name in ORDERS), *ABOUT_ITSELF]
    answer = h11.Response(status_code=200, headers=given)
    assert [pair for pair in answer_headers(asked([], where), answer) if pair in given] == ABOUT_ITSELF
    switch = h11.InformationalResponse(status_code=101, headers=[(b"upgrade", b"websocket"), *given])
    assert b"internal" not in switch_head(asked([], where), switch)


def test_only_by_name_a_program_says_that_its_answer_is_a_stream() -> None:
    answer = h11.Response(status_code=200, headers=[(b"x-accel-buffering", b"no")])
    pair = (b"x-accel-buffering", b"no")
    assert pair in answer_headers(asked([], BY_NAME), answer)
    assert pair not in answer_headers(asked([], BY_PATH), answer)
