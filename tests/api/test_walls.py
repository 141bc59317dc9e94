"""A devbox without a network does not reach the server that made it."""

from urllib.parse import urlsplit

import httpx

from benchyard.testing.server import RunningServer
from tests.api.devbox import create, good

REACH = """python3 - <<'END'
import socket
for address in ("127.0.0.1", "::1", "169.254.169.254"):
    try:
        socket.create_connection((address, {port}), timeout=2)
        print("reached", address)
    except OSError:
        pass
END"""


def test_the_servers_own_port_is_out_of_reach(server: RunningServer) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as api:
        devbox = create(api, metadata={"benchyard.network": "none"})
        try:
            ended = devbox.run(REACH.format(port=urlsplit(server.url).port))
            assert (ended["exit_status"], ended["stdout"]) == (0, "")
            opened = create(api, metadata={"benchyard.network": "host"})
            reached = opened.run(
                REACH.format(port=urlsplit(server.url).port).replace(', "169.254.169.254"', "")
            )
            assert "reached" in reached["stdout"]
            good(opened.post("shutdown"))
        finally:
            good(devbox.post("shutdown"))
