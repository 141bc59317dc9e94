"""Files in and out through the official client, of any kind and size."""

import hashlib
import io
from pathlib import Path

import pytest
from runloop_api_client import (
    APIStatusError,
    BadRequestError,
    NotFoundError,
    PermissionDeniedError,
    Runloop,
    RunloopSDK,
)
from runloop_api_client.sdk import Devbox

from benchyard.testing.server import RunningServer
from tests.sdk.boxes import create, output, run

MIB = 1024**2
BINARY = bytes(range(256)) * 9 + b"\r\n--boundary\r\n"


def peak(pid: int) -> int:
    """The most memory a process ever had, in bytes, since it was last reset."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def reset_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@pytest.mark.parametrize("path", ["~/text", "/home/user/text", "text", "~/new/folders/on the way/text"])
def test_text_is_written_and_read(client: Runloop, box: str, path: str) -> None:
    text = "line €\n\ttab 'quote' $HOME\r\n"
    written = client.devboxes.write_file_contents(box, file_path=path, contents=text)
    assert (written.devbox_id, written.exit_status) == (box, 0)
    assert client.devboxes.read_file_contents(box, file_path=path) == text
    assert client.devboxes.download_file(box, path=path).read() == text.encode()


def test_files_belong_to_the_user_and_can_be_replaced(client: Runloop, box: str) -> None:
    for contents in ("first and long", "second", ""):
        client.devboxes.write_file_contents(box, file_path="~/a/b/replaced", contents=contents)
        assert client.devboxes.read_file_contents(box, file_path="~/a/b/replaced") == contents
    assert output(client, box, "stat -c %U ~/a ~/a/b ~/a/b/replaced") == "user\n" * 3


@pytest.mark.parametrize("content", [b"", b"\0", BINARY], ids=["empty", "nul", "all bytes"])
def test_bytes_come_back_as_they_went(client: Runloop, box: str, content: bytes) -> None:
    client.devboxes.upload_file(box, path="~/up/bytes", file=content)
    assert client.devboxes.download_file(box, path="~/up/bytes").read() == content
    assert output(client, box, "wc -c < ~/up/bytes").strip() == str(len(content))


def test_uploads_take_paths_files_and_names(client: Runloop, box: str, tmp_path: Path) -> None:
    local = tmp_path / "local name.bin"
    local.write_bytes(BINARY)
    client.devboxes.upload_file(box, path="~/by-path", file=local)
    client.devboxes.upload_file(box, path="~/by-file", file=io.BytesIO(BINARY))
    client.devboxes.upload_file(box, path="~/by-tuple", file=("other.bin", BINARY, "image/png"))
    for name in ("by-path", "by-file", "by-tuple"):
        assert client.devboxes.download_file(box, path=f"~/{name}").read() == BINARY


def test_missing_file_or_folder_is_refused(client: Runloop, box: str) -> None:
    with pytest.raises(NotFoundError):
        client.devboxes.read_file_contents(box, file_path="~/nothing")
    with pytest.raises(NotFoundError):
        client.devboxes.download_file(box, path="/nothing/at/all")
    with pytest.raises(BadRequestError):
        client.devboxes.read_file_contents(box, file_path="/home/user")
    with pytest.raises(BadRequestError):
        client.devboxes.write_file_contents(box, file_path="/home/user", contents="x")
    with pytest.raises(BadRequestError):
        client.devboxes.download_file(box, path="/dev/zero")


def test_binary_file_is_refused_as_text(client: Runloop, box: str) -> None:
    client.devboxes.upload_file(box, path="~/binary", file=BINARY)
    with pytest.raises(BadRequestError, match="download_file"):
        client.devboxes.read_file_contents(box, file_path="~/binary")


def test_links_lead_nowhere_but_inside(client: Runloop, box: str, server: RunningServer) -> None:
    key = server.data / "api-key"
    output(client, box, f"ln -sf {key} ~/key; ln -sf ../../../../../../../../etc/shadow ~/shadow")
    with pytest.raises(APIStatusError):
        client.devboxes.read_file_contents(box, file_path="~/key")
    with pytest.raises(APIStatusError):
        client.devboxes.read_file_contents(box, file_path="~/shadow")
    with pytest.raises(APIStatusError):
        client.devboxes.read_file_contents(box, file_path=str(key))
    output(client, box, "echo inside > ~/target; ln -sf target ~/link")
    assert client.devboxes.read_file_contents(box, file_path="~/link") == "inside\n"


def test_a_user_reaches_no_files_of_roots(client: Runloop, box: str) -> None:
    assert run(client, box, "echo x > /etc/not-mine").exit_status == 1
    with pytest.raises(PermissionDeniedError):
        client.devboxes.write_file_contents(box, file_path="/etc/not-mine", contents="x")
    with pytest.raises(PermissionDeniedError):
        client.devboxes.upload_file(box, path="/etc/not-mine", file=b"x")


def test_a_big_file_streams_through_with_flat_memory(
    client: Runloop, server: RunningServer, tmp_path: Path
) -> None:
    id = create(client)
    big = tmp_path / "big"
    with big.open("wb") as file:
        for number in range(64):
            file.write(hashlib.sha256(bytes([number])).digest() * (MIB // 32))
    reset_peak(server.pid)
    before = peak(server.pid)
    client.devboxes.upload_file(id, path="~/big", file=big)
    digest = output(client, id, "sha256sum < ~/big").split()[0]
    with big.open("rb") as file:
        assert digest == hashlib.file_digest(file, "sha256").hexdigest()
    assert hashlib.sha256(client.devboxes.download_file(id, path="~/big").read()).hexdigest() == digest
    assert peak(server.pid) - before < 48 * MIB
    client.devboxes.shutdown(id)


@pytest.mark.slow
def test_a_gigabyte_streams_through_with_flat_memory(server: RunningServer, tmp_path: Path) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(1024 * MIB)
    with Runloop(base_url=server.url, bearer_token=server.key) as client:
        id = create(client, launch_parameters={"resource_size_request": "MEDIUM"})
        reset_peak(server.pid)
        before = peak(server.pid)
        with big.open("rb") as file:
            client.devboxes.upload_file(id, path="~/big", file=file)
        received = 0
        with client.devboxes.with_streaming_response.download_file(id, path="~/big") as answer:
            for piece in answer.iter_bytes(MIB):
                received += len(piece)
        assert received == 1024 * MIB
        assert peak(server.pid) - before < 64 * MIB
        client.devboxes.shutdown(id)


def test_the_object_reads_writes_uploads_and_downloads(devbox: Devbox, tmp_path: Path) -> None:
    devbox.file.write(file_path="~/note", contents="written €")
    assert devbox.file.read(file_path="~/note") == "written €"
    local = tmp_path / "local"
    local.write_bytes(BINARY)
    devbox.file.upload(path="~/up", file=local)
    assert devbox.file.download(path="~/up") == BINARY


def test_files_of_a_devbox_that_has_ended_are_refused(sdk: RunloopSDK) -> None:
    with sdk.devbox.create() as devbox:
        pass
    with pytest.raises(APIStatusError, match="has ended"):
        devbox.file.read(file_path="~/note")
    with pytest.raises(APIStatusError, match="has ended"):
        devbox.file.upload(path="~/up", file=b"x")
