"""Files that are there from the start are written by the host, as their commands would write them."""

import httpx

from benchyard.benchmarks.files.scenario_draft import StartingFile, writing_command
from benchyard.testing.server import RunningServer
from tests.api.devbox import create, good

FOLDER = "/home/user/work"


def client_of(server: RunningServer) -> httpx.Client:
    """A client with the first key."""
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60)


def test_files_are_as_their_commands_would_leave_them(server: RunningServer) -> None:
    files = [
        StartingFile("plain", b"a\0b\n"),
        StartingFile("deep/program", b"#!/bin/sh\necho ran\n", 0o755),
        StartingFile("open", b"x", 0o666),
        StartingFile("link", b"through\n"),
    ]
    commands = [f"mkdir -p {FOLDER} && cd {FOLDER} && echo long before > target && ln -s target link"]
    commands += [writing_command(file, FOLDER) for file in files]
    with client_of(server) as client:
        devbox = create(client, launch_parameters={"launch_commands": commands})
        shown = f"cd {FOLDER} && stat -c '%n %a %U' plain deep/program open target && od -An -c plain"
        printed = devbox.run(f"{shown} && deep/program && cat link")["stdout"]
        logs = good(devbox.get("logs"))["logs"]
        devbox.post("shutdown")
    modes = ["plain 644 user", "deep/program 755 user", "open 666 user", "target 644 user"]
    assert printed.splitlines()[:4] == modes
    assert printed.endswith("\nran\nthrough\n")
    # What the host's way to a file does not give is left to the command.
    assert [log["cmd"] for log in logs if "base64" in (log.get("cmd") or "")] == [commands[3]]
    assert f"wrote {FOLDER}/plain" in [log.get("message") for log in logs]


def test_a_file_that_cannot_be_written_fails_as_its_command_does(server: RunningServer) -> None:
    commands = [writing_command(StartingFile("/etc/passwd/file", b"x"), None)]
    body = {"launch_parameters": {"launch_commands": commands}}
    with client_of(server) as client:
        made = good(client.post("/v1/devboxes/create_and_await_running", json=body))
    assert (made["status"], made["failure_reason"]) == ("failure", "execution_failed")
    assert "File exists" in made["state_transitions"][-1]["detail"]
