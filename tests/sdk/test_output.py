"""Output of any length and kind, through the official client."""

import httpx
import pytest
from runloop_api_client import BadRequestError, Runloop, RunloopSDK
from runloop_api_client.sdk import Devbox

from benchyard.testing.server import RunningServer
from tests.sdk.boxes import run

EURO = "€".encode()


def stdout(client: Runloop, box: str, id: str, offset: int = 0) -> str:
    stream = client.devboxes.executions.stream_stdout_updates(id, devbox_id=box, offset=str(offset))
    return "".join(chunk.output for chunk in stream)


def stderr(client: Runloop, box: str, id: str, offset: int = 0) -> str:
    stream = client.devboxes.executions.stream_stderr_updates(id, devbox_id=box, offset=str(offset))
    return "".join(chunk.output for chunk in stream)


def test_views_hold_the_last_hundred_lines_and_streams_all(client: Runloop, box: str) -> None:
    view = run(client, box, "seq 1 2000; seq 1 150 >&2")
    assert view.stdout == "".join(f"{number}\n" for number in range(1901, 2001))
    assert view.stderr == "".join(f"{number}\n" for number in range(51, 151))
    assert (view.stdout_truncated, view.stderr_truncated) == (True, True)
    assert stdout(client, box, view.execution_id) == "".join(f"{number}\n" for number in range(1, 2001))
    assert stderr(client, box, view.execution_id) == "".join(f"{number}\n" for number in range(1, 151))


def test_the_number_of_lines_can_be_chosen(client: Runloop, box: str) -> None:
    view = run(client, box, "seq 1 300", last_n="3")
    assert (view.stdout, view.stdout_truncated) == ("298\n299\n300\n", True)
    retrieve = client.devboxes.executions.retrieve
    whole = retrieve(view.execution_id, devbox_id=box, last_n="300")
    assert whole.stdout is not None
    assert (len(whole.stdout.splitlines()), whole.stdout_truncated) == (300, False)
    with pytest.raises(BadRequestError, match="last_n"):
        retrieve(view.execution_id, devbox_id=box, last_n="some")


def test_exactly_a_hundred_lines_are_not_cut(client: Runloop, box: str) -> None:
    view = run(client, box, "seq 1 100")
    assert view.stdout is not None
    assert (len(view.stdout.splitlines()), view.stdout_truncated) == (100, False)
    assert run(client, box, "seq 1 101").stdout_truncated is True


def test_a_stream_replays_from_any_offset(client: Runloop, box: str) -> None:
    id = run(client, box, "printf 0123456789; printf abc >&2").execution_id
    assert [stdout(client, box, id, offset) for offset in (0, 4, 9, 10, 99)] == [
        "0123456789",
        "456789",
        "9",
        "",
        "",
    ]
    assert stderr(client, box, id, 1) == "bc"
    with pytest.raises(BadRequestError, match="offset"):
        client.devboxes.executions.stream_stdout_updates(id, devbox_id=box, offset="-5")


def test_a_stream_follows_a_running_command(client: Runloop, box: str) -> None:
    begun = client.devboxes.execute_async(box, command="for i in 1 2 3; do echo $i; sleep 0.2; done")
    chunks = list(client.devboxes.executions.stream_stdout_updates(begun.execution_id, devbox_id=box))
    assert "".join(chunk.output for chunk in chunks) == "1\n2\n3\n"
    assert len(chunks) > 1
    offsets = [chunk.offset or 0 for chunk in chunks]
    assert offsets == sorted(set(offsets))
    assert chunks[-1].offset == 6


def test_characters_are_never_cut_in_two(client: Runloop, box: str) -> None:
    command = r"printf '\342'; sleep 0.3; printf '\202'; sleep 0.3; printf '\254x'"
    begun = client.devboxes.execute_async(box, command=command)
    chunks = list(client.devboxes.executions.stream_stdout_updates(begun.execution_id, devbox_id=box))
    assert "".join(chunk.output for chunk in chunks) == "€x"
    text = "€" * 50_000
    id = run(client, box, "yes € | head -n 50000 | tr -d '\\n'").execution_id
    pieces = list(client.devboxes.executions.stream_stdout_updates(id, devbox_id=box))
    assert "".join(piece.output for piece in pieces) == text
    assert len(pieces) > 1
    for piece in pieces:
        assert stdout(client, box, id, piece.offset or 0) == text[(piece.offset or 0) // len(EURO) :]


def test_undecodable_bytes_become_replacement_characters(
    client: Runloop, box: str, server: RunningServer
) -> None:
    data = b"a\xff\x00\xe2\x82b\xf0\x9f\x98\x80\xc3"
    octal = "".join(f"\\{byte:03o}" for byte in data)
    view = run(client, box, f"printf '{octal}'")
    assert view.stdout == data.decode(errors="replace")
    assert stdout(client, box, view.execution_id) == data.decode(errors="replace")
    raw = httpx.get(
        f"{server.url}/v1/devboxes/{box}/executions/{view.execution_id}/output/stdout",
        headers={"authorization": f"Bearer {server.key}"},
    )
    assert raw.content == data


def test_very_long_line_comes_through(client: Runloop, box: str) -> None:
    id = run(client, box, "head -c 3000000 /dev/zero | tr '\\0' x").execution_id
    assert stdout(client, box, id) == "x" * 3_000_000


def test_a_result_fetches_what_the_view_left_out(devbox: Devbox) -> None:
    result = devbox.cmd.exec("seq 1 2000; seq 1 200 >&2")
    assert result.stdout() == "".join(f"{number}\n" for number in range(1, 2001))
    assert result.stderr() == "".join(f"{number}\n" for number in range(1, 201))
    assert result.stdout(num_lines=2) == "1999\n2000"
    assert len(result.stdout(num_lines=500).splitlines()) == 500


def test_callbacks_get_everything_as_it_comes(devbox: Devbox) -> None:
    out: list[str] = []
    error: list[str] = []
    both: list[str] = []
    result = devbox.cmd.exec(
        "for i in 1 2 3; do echo out $i; echo err $i >&2; sleep 0.5; done",
        stdout=out.append,
        stderr=error.append,
        output=both.append,
    )
    assert result.exit_code == 0
    assert "".join(out) == "out 1\nout 2\nout 3\n" == result.stdout()
    assert "".join(error) == "err 1\nerr 2\nerr 3\n" == result.stderr()
    assert sorted("".join(both).split()) == sorted("".join(out + error).split())
    assert len(out) > 1


def test_an_execution_in_the_background_streams_and_ends(devbox: Devbox) -> None:
    seen: list[str] = []
    execution = devbox.cmd.exec_async("seq 1 1500; exit 7", stdout=seen.append)
    result = execution.result()
    assert (result.exit_code, result.failed, result.success) == (7, True, False)
    assert "".join(seen) == result.stdout() == "".join(f"{number}\n" for number in range(1, 1501))
    assert result.execution_id == execution.execution_id


def test_an_execution_in_the_background_can_be_killed(devbox: Devbox) -> None:
    execution = devbox.cmd.exec_async("sleep 1000")
    assert execution.get_state().status == "running"
    execution.kill()
    assert execution.result().exit_code == 137


def test_a_shell_object_keeps_its_state(devbox: Devbox) -> None:
    shell = devbox.shell("work")
    shell.exec("mkdir -p ~/sub && cd ~/sub && export COLOUR=green")
    assert shell.exec("pwd; echo $COLOUR").stdout() == "/home/user/sub\ngreen\n"
    assert devbox.shell("work").exec_async("basename $PWD").result().stdout() == "sub\n"
    assert devbox.shell().exec("echo ${COLOUR:-none}").stdout() == "none\n"


def test_leaving_a_devbox_shuts_it_down(sdk: RunloopSDK) -> None:
    with sdk.devbox.create(name="left") as devbox:
        assert devbox.cmd.exec("echo in").stdout() == "in\n"
        assert devbox.get_info().name == "left"
        assert devbox.await_running().status == "running"
    assert devbox.get_info().status == "shutdown"
    assert devbox.id in [each.id for each in sdk.devbox.list(limit=50)]
