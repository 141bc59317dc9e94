"""A devbox without a network does not reach the server that made it."""

from urllib.parse import urlsplit

import httpx

from benchyard.testing.server import RunningServer
from tests.api.devbox import create, good
from tests.api.scenarios import scenario, start

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


LOOKUP = "getent hosts packages.example.com > /tmp/told 2>&1; true"


def test_the_first_lookup_that_fails_is_told_in_the_log(server: RunningServer) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as api:
        devbox = create(api, metadata={"benchyard.network": "none"})
        try:
            assert devbox.run("echo quiet; getent hosts localhost")["hint"] is None
            asked = devbox.run(LOOKUP)
            assert (asked["exit_status"], asked["stdout"], asked["stderr"]) == (0, "", "")
            assert "has no network" in asked["hint"]
            assert "--devbox-network host" in asked["hint"]
            # Once is enough for what goes well otherwise.
            assert devbox.run(LOOKUP)["hint"] is None
            told = [line for line in good(devbox.get("logs"))["logs"] if line.get("message") == asked["hint"]]
            assert len(told) == 1
        finally:
            good(devbox.post("shutdown"))


def test_a_run_notes_that_its_work_wanted_a_network(server: RunningServer) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as api:
        run = start(api, scenario(api)["id"])
        run.devbox.run(LOOKUP)
        told = [note for note in run.scored()["tamper_report"]["notes"] if "no network" in note]
        assert len(told) == 1
        assert "network policy" in told[0]
        run.end()
