"""The server is killed and started again in the middle of an upload: nothing half-sent is ever seen."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, several_callers
from tests.faults.seeds import seeds

PIECE = 256 * 1024
PIECES = 16
BOUNDARY = "between-the-parts"


class Upload(threading.Thread):
    """Sends some pieces, says so, and goes on only when it is told to."""

    def __init__(self, verb: str, url: str, pieces: list[bytes], headers: dict[str, str]) -> None:
        super().__init__(name=f"upload-{verb}")
        self._request = (verb, url, pieces, headers)
        self.is_under_way = threading.Event()
        self.go_on = threading.Event()
        self.status: int | None = None

    def run(self) -> None:
        verb, url, pieces, headers = self._request
        try:
            answer = httpx.request(verb, url, content=self._slowly(pieces), headers=headers, timeout=60)
        except httpx.TransportError:
            return
        self.status = answer.status_code

    def _slowly(self, pieces: list[bytes]) -> Iterator[bytes]:
        half = len(pieces) // 2
        yield from pieces[:half]
        self.is_under_way.set()
        assert self.go_on.wait(60)
        yield from pieces[half:]


@pytest.mark.parametrize("seed", seeds())
def test_an_upload_cut_by_a_restart_leaves_what_was_there_and_can_be_sent_again(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    old, pieces = chance.randbytes(1000), [chance.randbytes(PIECE) for _ in range(PIECES)]
    with (
        RunningServer(tmp_path / "data", ["--driver", "native"]) as server,
        several_callers(server, 1) as (caller,),
    ):
        devbox = caller.post("/v1/devboxes/create_and_await_running").json()["id"]
        assert _upload(caller, devbox, old) == 200
        made = caller.post("/v1/objects", {"name": "cut", "content_type": "binary"}).json()
        headers = {"Authorization": f"Bearer {server.key}"}
        form = f"multipart/form-data; boundary={BOUNDARY}"
        uploads = [
            Upload("PUT", made["upload_url"], pieces, {}),
            Upload(
                "POST",
                f"{server.url}/v1/devboxes/{devbox}/upload_file",
                _form(pieces),
                {**headers, "content-type": form},
            ),
        ]
        _cut(server, uploads)

        assert _download(caller, devbox) == old
        assert caller.get(f"/v1/objects/{made['id']}")["state"] == "UPLOADING"
        assert caller.post(f"/v1/objects/{made['id']}/complete").status_code == 400
        _nothing_half_sent(server.data)

        whole = b"".join(pieces)
        assert _upload(caller, devbox, whole) == 200
        assert _download(caller, devbox) == whole
        assert caller.put(made["upload_url"], whole).status_code == 200
        assert caller.post(f"/v1/objects/{made['id']}/complete").status_code == 200
        link = caller.get(f"/v1/objects/{made['id']}/download")["download_url"]
        assert caller.download(link) == whole


def _cut(server: RunningServer, uploads: list[Upload]) -> None:
    for upload in uploads:
        upload.start()
    for upload in uploads:
        assert upload.is_under_way.wait(60)
    server.kill()
    for upload in uploads:
        upload.go_on.set()
        upload.join()
        assert upload.status is None, "it was answered though its server was gone"
    server.start()


def _form(pieces: list[bytes]) -> list[bytes]:
    head = (
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="path"\r\n\r\n~/file\r\n'
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="file"\r\n\r\n'
    )
    return [head.encode(), *pieces, f"\r\n--{BOUNDARY}--\r\n".encode()]


def _upload(caller: Caller, devbox: str, data: bytes) -> int:
    path = f"/v1/devboxes/{devbox}/upload_file"
    return caller.post(path, files={"file": ("file", data)}, data={"path": "~/file"}).status_code


def _download(caller: Caller, devbox: str) -> bytes:
    return caller.post(f"/v1/devboxes/{devbox}/download_file", {"path": "~/file"}).content


def _nothing_half_sent(data: Path) -> None:
    left = [path for name in ("uploads", "objects") for path in (data / name).rglob("*") if path.is_file()]
    assert left == []
