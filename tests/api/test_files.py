"""Files over HTTP: text and bytes in and out, and what goes wrong on the way."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, eventually, good, refusal

BYTES = bytes(range(256)) * 5


def upload(devbox: DevboxOverHttp, path: str, content: bytes) -> httpx.Response:
    return devbox.api.post(
        f"/v1/devboxes/{devbox.id}/upload_file", data={"path": path}, files={"file": ("name", content)}
    )


def download(devbox: DevboxOverHttp, path: str) -> bytes:
    answer = devbox.post("download_file", {"path": path})
    assert answer.status_code == 200, answer.text
    return answer.content


def read(devbox: DevboxOverHttp, path: str) -> str:
    answer = devbox.post("read_file_contents", {"file_path": path})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text


def test_text_goes_in_and_comes_out(devbox: DevboxOverHttp) -> None:
    text = "first\nzweite Zeile: €\n"
    body = {"file_path": "~/deep/er/text.txt", "contents": text}
    assert good(devbox.post("write_file_contents", body))["exit_status"] == 0
    assert read(devbox, "~/deep/er/text.txt") == text
    assert read(devbox, "deep/er/text.txt") == text
    assert devbox.run("cat ~/deep/er/text.txt")["stdout"] == text


def test_writing_replaces_what_was_there(devbox: DevboxOverHttp) -> None:
    for contents in ("a long first version", "short", ""):
        good(devbox.post("write_file_contents", {"file_path": "~/again", "contents": contents}))
        assert read(devbox, "~/again") == contents


def test_the_shorter_names_of_the_routes_do_the_same(devbox: DevboxOverHttp) -> None:
    assert good(devbox.post("write_file", {"file_path": "~/shorter", "contents": "text"}))["exit_status"] == 0
    answer = devbox.post("read_file", {"file_path": "~/shorter"})
    assert (answer.status_code, answer.text) == (200, "text")


def test_bytes_go_in_and_come_out(devbox: DevboxOverHttp) -> None:
    assert good(upload(devbox, "~/bin/data", BYTES)) == {}
    assert download(devbox, "~/bin/data") == BYTES
    assert good(upload(devbox, "~/bin/empty", b"")) == {}
    assert download(devbox, "~/bin/empty") == b""


def test_the_parts_of_an_upload_may_come_in_any_order(devbox: DevboxOverHttp) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nabc\r\n'
        b'--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n~/order\r\n--b--\r\n'
    )
    headers = {"content-type": "multipart/form-data; boundary=b"}
    good(devbox.api.post(f"/v1/devboxes/{devbox.id}/upload_file", content=body, headers=headers))
    assert read(devbox, "~/order") == "abc"


def test_bytes_that_are_no_text_are_not_read_as_text(devbox: DevboxOverHttp) -> None:
    upload(devbox, "~/binary", BYTES)
    assert "download_file" in refusal(devbox.post("read_file_contents", {"file_path": "~/binary"}), 400)


@pytest.mark.parametrize(("verb", "field"), [("read_file_contents", "file_path"), ("download_file", "path")])
def test_unreadable_path_is_refused(devbox: DevboxOverHttp, verb: str, field: str) -> None:
    assert refusal(devbox.post(verb, {field: "~/nothing/here"}), 404)
    devbox.run("mkdir -p ~/folder; mkfifo ~/pipe 2>/dev/null")
    assert refusal(devbox.post(verb, {field: "~/folder"}), 400)
    assert refusal(devbox.post(verb, {field: "~/pipe"}), 400)
    for wrong in ("", "a\0b", "x" * 5000):
        assert refusal(devbox.post(verb, {field: wrong}), 400)


def test_unwritable_path_is_refused(devbox: DevboxOverHttp) -> None:
    devbox.run("mkdir -p ~/folder; touch ~/plain")
    for path in ("~/folder", "~/plain/below"):
        answer = devbox.post("write_file_contents", {"file_path": path, "contents": "x"})
        assert answer.status_code in (400, 404), answer.text
    assert refusal(devbox.post("write_file_contents", {"file_path": "~/x"}), 400)
    assert refusal(devbox.post("write_file_contents", {"file_path": "~/x", "contents": 5}), 400)


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b"{}", "application/json", "multipart"),
        (b"", "multipart/form-data", "multipart"),
        (b"nonsense", "multipart/form-data; boundary=b", "multipart"),
        (b'--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n~/x\r\n--b--\r\n', None, "file"),
        (b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nabc\r\n--b--\r\n', None, "path"),
        (b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nabc', None, "cut short"),
        (
            b'--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n' + b"x" * 5000 + b"\r\n--b--\r\n",
            None,
            "4096",
        ),
        (b"--b\r\n" + b"A: b\r\n" * 50 + b"\r\nx\r\n--b--\r\n", None, "header"),
        (
            b"".join(
                b'--b\r\nContent-Disposition: form-data; name="%d"\r\n\r\n\r\n' % number
                for number in range(50)
            ),
            None,
            "more than 16 parts",
        ),
        (b"--b\r\nA: " + b"b" * 10000 + b"\r\n\r\nx\r\n--b--\r\n", None, "header"),
    ],
)
def test_an_upload_that_makes_no_sense_is_400(
    devbox: DevboxOverHttp, body: bytes, kind: str | None, says: str
) -> None:
    headers = {"content-type": kind or "multipart/form-data; boundary=b"}
    answer = devbox.api.post(f"/v1/devboxes/{devbox.id}/upload_file", content=body, headers=headers)
    assert says in refusal(answer, 400)


def test_an_upload_cut_in_half_changes_nothing(devbox: DevboxOverHttp, fake_server: RunningServer) -> None:
    upload(devbox, "~/target", b"as it was")
    half = (
        b'--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n~/target\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nhalf of'
    )
    head = (
        f"POST /v1/devboxes/{devbox.id}/upload_file HTTP/1.1\r\nhost: x\r\n"
        f"authorization: Bearer {fake_server.key}\r\n"
        "content-type: multipart/form-data; boundary=b\r\ncontent-length: 100000\r\n\r\n"
    )
    address = urlsplit(fake_server.url)
    with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
        connection.sendall(head.encode() + half)
    assert download(devbox, "~/target") == b"as it was"
    eventually(lambda: not any((fake_server.data / "uploads").iterdir()), "the half upload to be gone")


def test_a_big_file_streams_through_with_flat_memory(
    devbox: DevboxOverHttp, fake_server: RunningServer
) -> None:
    size = 256 * 1024**2
    piece = b"0123456789abcdef" * 65536
    head = (
        b'--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n~/big\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    )

    def body() -> Iterator[bytes]:
        yield head
        for _ in range(size // len(piece)):
            yield piece
        yield b"\r\n--b--\r\n"

    before = memory(fake_server.pid)
    peak = Peak(fake_server.pid)
    headers = {"content-type": "multipart/form-data; boundary=b"}
    with peak:
        url = f"/v1/devboxes/{devbox.id}/upload_file"
        good(devbox.api.post(url, content=body(), headers=headers, timeout=120))
        received = 0
        request = {"path": "~/big"}
        url = f"/v1/devboxes/{devbox.id}/download_file"
        with devbox.api.stream("POST", url, json=request, timeout=120) as answer:
            assert answer.headers["content-length"] == str(size)
            for part in answer.iter_bytes(1024**2):
                received += len(part)
    assert received == size
    assert peak.highest - before < 96 * 1024**2
    devbox.run("rm ~/big")


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    line = next(each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in each)
    return int(line.split()[1]) * 1024


class Peak:
    """The highest memory of a process while this is open."""

    def __init__(self, pid: int) -> None:
        self.highest = 0
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.is_set():
            self.highest = max(self.highest, memory(self._pid))
            time.sleep(0.02)
