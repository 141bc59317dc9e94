"""What a devbox reaches, through the official client."""

import socket
import threading
from collections.abc import Iterator

import pytest
from runloop_api_client import Runloop

from tests.sdk.boxes import create, output, run


@pytest.fixture
def listener() -> Iterator[int]:
    """The port of a service on this machine that greets whoever comes."""

    def greet() -> None:
        while True:
            try:
                connection, _ = service.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"hello from the host\n")

    with socket.create_server(("127.0.0.1", 0)) as service:
        thread = threading.Thread(target=greet)
        thread.start()
        yield service.getsockname()[1]
        service.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def test_a_devbox_reaches_nothing_by_default(client: Runloop, box: str, listener: int) -> None:
    refused = run(client, box, f"cat < /dev/tcp/127.0.0.1/{listener}")
    assert (refused.exit_status, refused.stdout) == (1, "")
    assert output(client, box, "tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]


@pytest.mark.parametrize("address", ["192.0.2.1", "example.invalid"])
def test_a_command_that_needed_the_network_names_the_flag(client: Runloop, box: str, address: str) -> None:
    view = run(client, box, f"cat < /dev/tcp/{address}/80")
    assert view.exit_status == 1
    hint = view.to_dict()["hint"]
    assert "--devbox-network host" in str(hint)
    assert "benchyard.network=host" in str(hint)
    assert run(client, box, "exit 1").to_dict()["hint"] is None


def test_its_own_loopback_works(client: Runloop, box: str) -> None:
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "c = socket.create_connection(s.getsockname()); "
        "s.accept()[0].sendall(b'mine'); print(c.recv(4).decode())"
    )
    assert output(client, box, f'/usr/bin/python3 -c "{script}"') == "mine\n"


def test_a_devbox_with_the_hosts_network_reaches_it(client: Runloop, listener: int) -> None:
    id = create(client, metadata={"benchyard.network": "host"})
    assert output(client, id, f"cat < /dev/tcp/127.0.0.1/{listener}") == "hello from the host\n"
    client.devboxes.shutdown(id)


def test_its_network_cannot_be_changed_while_it_lives(client: Runloop, box: str, listener: int) -> None:
    client.devboxes.update(box, metadata={"benchyard.network": "host"})
    assert run(client, box, f"cat < /dev/tcp/127.0.0.1/{listener}").exit_status == 1
    client.devboxes.update(box, metadata={})
