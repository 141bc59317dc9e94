"""Messages with descriptors between processes."""

import os
import socket
from collections.abc import Iterator

import pytest

from benchyard.devboxes.guest import wire


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        yield one, other


def test_messages_arrive_whole_and_one_by_one(ends: tuple[socket.socket, socket.socket]) -> None:
    long = {"text": "\u00fc" * 10_000}
    for message in (long, {"short": 1}):
        wire.send(ends[0], message)
    assert wire.receive(ends[1]) == (long, [])
    assert wire.receive(ends[1]) == ({"short": 1}, [])


def test_descriptors_arrive_beside_their_message(ends: tuple[socket.socket, socket.socket]) -> None:
    reader, writer = os.pipe()
    wire.send(ends[0], {"with": "pipe"}, [reader])
    message, descriptors = wire.receive(ends[1])
    os.close(reader)
    os.write(writer, b"through")
    os.close(writer)
    assert message == {"with": "pipe"}
    assert len(descriptors) == 1
    assert os.read(descriptors[0], 10) == b"through"
    os.close(descriptors[0])


def test_the_end_of_a_connection_is_not_a_message(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].close()
    assert wire.receive(ends[1]) == (None, [])


def test_nothing_of_a_message_stays_in_memory_that_is_used_again(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    wire.send(ends[0], {"secret": "of one devbox"})
    wire.receive(ends[1])
    assert not any(any(buffer) for buffer in wire._buffers)
