"""What the verbs of each noun ask for and make of the answers."""

import asyncio
import hashlib
import io
from pathlib import Path

import pytest

from benchyard.client import AsyncClient, Client, operations
from benchyard.errors import DevboxError, NotFound, ServerUnreachable, StartFailed
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.executions import ExecuteRequest
from benchyard.models.objects import ObjectRequest
from tests.client.stub import Answer, Asked, devbox, error, execution, in_turn, stub, talking


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "FIRST_DELAY", 0.001)


def page_of_three(asked: Asked) -> Answer:
    after = asked.query.get("starting_after")
    if after is None:
        return Answer({"devboxes": [devbox(id="dbx_3"), devbox(id="dbx_2")], "has_more": True})
    assert after == "dbx_2"
    return Answer({"devboxes": [devbox(id="dbx_1")], "has_more": False})


def test_a_listing_walks_all_pages() -> None:
    with stub(page_of_three) as server, Client(server.server) as client:
        assert [view.id for view in client.devboxes.list()] == ["dbx_3", "dbx_2", "dbx_1"]


def test_a_listing_asks_for_a_page_only_when_it_is_needed() -> None:
    with stub(page_of_three) as server, Client(server.server) as client:
        assert next(iter(client.devboxes.list())).id == "dbx_3"
    assert len(server.asked) == 1


def test_a_listing_ends_at_its_limit() -> None:
    with stub(page_of_three) as server, Client(server.server) as client:
        assert [view.id for view in client.devboxes.list(limit=2)] == ["dbx_3", "dbx_2"]
    assert server.asked[0].query["limit"] == "2"


def test_an_async_listing_walks_all_pages() -> None:
    async def ids() -> list[str]:
        async with AsyncClient(server.server) as client:
            return [view.id async for view in client.devboxes.list()]

    with stub(page_of_three) as server:
        assert asyncio.run(ids()) == ["dbx_3", "dbx_2", "dbx_1"]


def test_a_devbox_that_fails_to_start_is_an_error_with_its_reason() -> None:
    transitions = [{"status": "failure", "transition_time_ms": 1, "detail": "launch command 1 ended with 3"}]
    failed = devbox("failure", failure_reason="execution_failed", state_transitions=transitions)
    with (
        talking(lambda asked: Answer(failed)) as (client, _server),
        pytest.raises(StartFailed, match=r"execution_failed.*launch command 1"),
    ):
        client.devboxes.create_and_await_running(DevboxRequest(name="box"))


def test_an_open_devbox_is_shut_down_at_the_end_of_its_block() -> None:
    def script(asked: Asked) -> Answer:
        return Answer(
            execution(exit_status=0, stdout="hi\n") if asked.path.endswith("/execute") else devbox()
        )

    async def run() -> str:
        async with AsyncClient(server.server) as client, client.devboxes.open() as box:
            return (await box.run("echo hi")).stdout

    with stub(script) as server:
        assert asyncio.run(run()) == "hi\n"
    assert [asked.path for asked in server.asked][-1] == "/v1/devboxes/dbx_1/shutdown"


def test_a_devbox_that_does_not_come_up_is_shut_down() -> None:
    script = in_turn(Answer(devbox("provisioning")), Answer(devbox("failure")))
    with talking(script) as (client, server), pytest.raises(StartFailed), client.devboxes.open():
        raise AssertionError("it never runs")
    assert [asked.path.rpartition("/")[2] for asked in server.asked] == [
        "devboxes",
        "wait_for_status",
        "shutdown",
    ]


def test_a_run_fetches_the_whole_output_when_the_answer_holds_its_end_only() -> None:
    def script(asked: Asked) -> Answer:
        if asked.path.endswith("/output/stdout"):
            return Answer(b"one\ntwo\n\xff\n")
        return Answer(
            execution(exit_status=3, stdout="two\n", stdout_truncated=True, stderr="", hint="try more")
        )

    with stub(script) as server, Client(server.server) as client:
        result = client.executions.run("dbx_1", "seq 2")
    assert (result.exit_status, result.stdout, result.stderr) == (3, "one\ntwo\n\ufffd\n", "")
    assert result.hint == "try more"


def test_a_run_waits_for_a_command_that_takes_long() -> None:
    script = in_turn(
        Answer(execution("running")),
        error(408, "still_waiting"),
        Answer(execution(exit_status=0, stdout="x")),
    )
    with stub(script) as server, Client(server.server) as client:
        assert client.executions.run("dbx_1", "sleep 60").stdout == "x"
    assert server.asked[0].json["command_id"][14] == "7"


def test_a_stream_goes_on_where_it_was_cut() -> None:
    whole = b"abcdefghij"

    def script(asked: Asked) -> Answer:
        offset = int(asked.query["offset"])
        return Answer(whole[offset : offset + 4], cut=offset < 8)

    with stub(script) as server, Client(server.server) as client:
        assert b"".join(client.executions.stream("dbx_1", "exec_1", "stderr")) == whole
    assert [asked.query["offset"] for asked in server.asked] == ["0", "4", "8", "10"]


def test_a_stream_that_is_cut_for_ever_is_an_error() -> None:
    with talking(lambda asked: Answer(b"", cut=True)) as (client, _server), pytest.raises(ServerUnreachable):
        list(client.executions.stream("dbx_1", "exec_1"))


def test_a_command_is_started_with_its_shell_and_input() -> None:
    with stub(lambda asked: Answer(execution("running"))) as server, Client(server.server) as client:
        client.executions.start("dbx_1", ExecuteRequest(command="cat", attach_stdin=True, shell_name="work"))
    assert server.asked[0].json == {"command": "cat", "attach_stdin": True, "shell_name": "work"}


def parts(asked: Asked) -> tuple[str, bytes]:
    boundary = asked.headers["content-type"].partition("boundary=")[2].encode()
    first, second = asked.body.split(b"--" + boundary)[1:3]
    return first.partition(b"\r\n\r\n")[2].strip().decode(), second.partition(b"\r\n\r\n")[2][:-2]


def test_an_upload_is_a_form_of_path_and_file(tmp_path: Path) -> None:
    content = bytes(range(256)) * 9000
    (tmp_path / "data.bin").write_bytes(content)
    with stub(lambda asked: Answer({})) as server, Client(server.server) as client:
        client.files.upload("dbx_1", "/tmp/ünïcode name", tmp_path / "data.bin")
        client.files.upload("dbx_1", "~/from-memory", b"small")
        client.files.upload("dbx_1", "stream", io.BytesIO(content))
    assert parts(server.asked[0]) == ("/tmp/ünïcode name", content)
    assert parts(server.asked[1]) == ("~/from-memory", b"small")
    assert parts(server.asked[2]) == ("stream", content)
    assert "content-length" in server.asked[0].headers
    assert server.asked[2].headers["transfer-encoding"] == "chunked"


def test_an_async_upload_sends_the_same(tmp_path: Path) -> None:
    async def upload() -> None:
        async with AsyncClient(server.server) as client:
            await client.files.upload("dbx_1", "a", tmp_path / "data.bin")

    (tmp_path / "data.bin").write_bytes(b"x" * 3_000_000)
    with stub(lambda asked: Answer({})) as server:
        asyncio.run(upload())
    assert parts(server.asked[0]) == ("a", b"x" * 3_000_000)


def test_an_upload_from_a_path_is_tried_again_and_one_from_a_stream_is_not(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"again")
    script = in_turn(Answer(status=503), Answer({}))
    with stub(script) as server, Client(server.server) as client:
        client.files.upload("dbx_1", "a", tmp_path / "data")
    assert [parts(asked)[1] for asked in server.asked] == [b"again", b"again"]
    with talking(lambda asked: Answer(status=503)) as (client, server), pytest.raises(Exception, match="503"):
        client.files.upload("dbx_1", "a", io.BytesIO(b"once"))
    assert len(server.asked) == 1


def test_a_download_is_written_as_it_came(tmp_path: Path) -> None:
    content = hashlib.sha256(b"seed").digest() * 40_000
    seen: list[int] = []
    with stub(lambda asked: Answer(content)) as server, Client(server.server) as client:
        assert client.files.download("dbx_1", "/a", tmp_path / "a", seen.append) == len(content)
    assert (tmp_path / "a").read_bytes() == content
    assert sum(seen) == len(content)


def test_a_download_that_is_cut_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with (
        talking(lambda asked: Answer(b"half", cut=True)) as (client, _server),
        pytest.raises(ServerUnreachable, match="4 bytes"),
    ):
        client.files.download("dbx_1", "/a", tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"


def test_a_missing_file_makes_no_local_file(tmp_path: Path) -> None:
    with talking(lambda asked: error(404, "not_found")) as (client, _server), pytest.raises(NotFound):
        client.files.download("dbx_1", "/a", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_an_object_goes_up_by_its_link_without_the_key() -> None:
    view = {"id": "obj_1", "name": "n", "content_type": "text", "state": "UPLOADING", "create_time_ms": 1}

    def script(asked: Asked) -> Answer:
        return Answer({**view, "upload_url": f"{server.url}/objects/upload/signed"})

    with stub(script) as server, Client(server.server) as client:
        client.objects.upload(b"hello", ObjectRequest(name="n", content_type="text"))
    assert [asked.path for asked in server.asked] == [
        "/v1/objects",
        "/objects/upload/signed",
        "/v1/objects/obj_1/complete",
    ]
    assert server.asked[1].body == b"hello"
    assert "authorization" not in server.asked[1].headers


def test_a_secret_that_is_not_there_is_made() -> None:
    view = {"id": "sec_1", "name": "TOKEN", "create_time_ms": 1, "update_time_ms": 1}
    with stub(in_turn(error(404, "not_found"), Answer(view))) as server, Client(server.server) as client:
        client.secrets.set("TOKEN", "hunter2")
    assert [(asked.path, asked.json) for asked in server.asked] == [
        ("/v1/secrets/TOKEN", {"value": "hunter2"}),
        ("/v1/secrets", {"name": "TOKEN", "value": "hunter2"}),
    ]


def test_a_snapshot_is_awaited() -> None:
    kept = {"id": "snp_1", "create_time_ms": 1, "metadata": {}, "source_devbox_id": "dbx_1"}
    script = in_turn(
        Answer(kept), Answer({"status": "in_progress"}), Answer({"status": "complete", "snapshot": kept})
    )
    with stub(script) as server, Client(server.server) as client:
        assert client.snapshots.create("dbx_1").id == "snp_1"
    assert len(server.asked) == 3


def test_a_snapshot_that_fails_is_an_error() -> None:
    kept = {"id": "snp_1", "create_time_ms": 1, "metadata": {}, "source_devbox_id": "dbx_1"}
    script = in_turn(Answer(kept), Answer({"status": "error", "error_message": "disk full"}))
    with (
        stub(script) as server,
        Client(server.server) as client,
        pytest.raises(DevboxError, match="disk full"),
    ):
        client.snapshots.create("dbx_1")
