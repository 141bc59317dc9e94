"""Objects through the official client: signed links, archives, mounts."""

import gzip
import io
import tarfile
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from runloop_api_client import APIStatusError, ConflictError, NotFoundError, Runloop, RunloopSDK

from tests.sdk.boxes import create, output

BINARY = bytes(range(256)) * 300


def stored(client: Runloop, content: bytes, content_type: Any = "binary", **fields: Any) -> str:
    """The id of an object with that content."""
    made = client.objects.create(name=uuid.uuid4().hex, content_type=content_type, **fields)
    assert made.upload_url is not None
    assert httpx.put(made.upload_url, content=content).status_code == 200
    assert client.objects.complete(made.id).state == "READ_ONLY"
    return made.id


def test_an_object_goes_up_and_down_by_signed_links(client: Runloop) -> None:
    made = client.objects.create(name="thing", content_type="binary", metadata={"a": "1"})
    assert made.id.startswith("obj_")
    assert (made.name, made.state, made.content_type, made.metadata) == (
        "thing",
        "UPLOADING",
        "binary",
        {"a": "1"},
    )
    assert made.upload_url is not None
    assert httpx.put(made.upload_url, content=BINARY).status_code == 200
    done = client.objects.complete(made.id)
    assert (done.state, done.size_bytes, done.upload_url) == ("READ_ONLY", len(BINARY), None)
    link = client.objects.download(made.id, duration_seconds=60).download_url
    assert httpx.get(link).content == BINARY
    assert httpx.put(made.upload_url, content=b"again").status_code == 409
    assert httpx.get(link[:-1] + ("0" if link[-1] != "0" else "1")).status_code == 403
    assert client.objects.retrieve(made.id).size_bytes == len(BINARY)
    assert client.objects.delete(made.id).state == "DELETED"
    assert client.objects.retrieve(made.id).state == "DELETED"
    assert httpx.get(link).status_code == 404


def test_an_object_without_content_is_not_complete(client: Runloop) -> None:
    made = client.objects.create(name="empty", content_type="text")
    with pytest.raises(APIStatusError, match="upload"):
        client.objects.complete(made.id)
    with pytest.raises(ConflictError):
        client.objects.download(made.id)
    client.objects.delete(made.id)
    with pytest.raises(NotFoundError):
        client.objects.download(made.id)


def test_objects_are_listed_page_by_page_and_filtered(client: Runloop) -> None:
    mark = uuid.uuid4().hex
    kinds: list[Any] = ["text", "binary", "tgz"]
    made = [client.objects.create(name=f"{mark}-{kind}", content_type=kind).id for kind in kinds]
    found = client.objects.list
    assert [each.id for each in found(search=mark, limit=2)] == made[::-1]
    assert [each.id for each in found(name=f"{mark}-text")] == made[:1]
    assert [each.id for each in found(search=mark, content_type="tgz")] == made[2:]
    assert [each.id for each in found(search=mark, state="READ_ONLY")] == []
    client.objects.delete(made[0])
    assert [each.id for each in found(search=mark)] == made[:0:-1]
    assert [each.id for each in found(search=mark, state="DELETED")] == made[:1]
    assert list(client.objects.list_public()) == []


def test_objects_are_mounted_and_archives_unpacked(client: Runloop) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo("folder/file.txt")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"hello"))
    kinds: list[tuple[str, bytes, str]] = [
        ("binary", BINARY, "~/plain"),
        ("gzip", gzip.compress(b"unzipped"), "~/deep/unzipped"),
        ("tgz", buffer.getvalue(), "/home/user/unpacked"),
        ("tar", gzip.decompress(buffer.getvalue()), "~/untarred"),
    ]
    mounts = [
        {"type": "object_mount", "object_id": stored(client, content, kind), "object_path": path}
        for kind, content, path in kinds
    ]
    id = create(client, mounts=mounts)
    assert client.devboxes.download_file(id, path="~/plain").read() == BINARY
    assert output(client, id, "cat ~/deep/unzipped") == "unzipped"
    assert output(client, id, "cat ~/unpacked/folder/file.txt ~/untarred/folder/file.txt") == "hellohello"
    assert output(client, id, "stat -c %U ~/unpacked/folder/file.txt") == "user\n"
    client.devboxes.shutdown(id)


def test_an_object_that_is_not_there_is_not_mounted(client: Runloop) -> None:
    mount: Any = {"type": "object_mount", "object_id": "obj_unknown", "object_path": "~/x"}
    with pytest.raises(NotFoundError, match="obj_unknown"):
        client.devboxes.create(mounts=[mount])


def test_the_object_layer_uploads_text_bytes_files_and_folders(sdk: RunloopSDK, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file.txt").write_text("in the folder")
    store = sdk.storage_object
    text = store.upload_from_text("text €", name="text", metadata={"a": "1"}, ttl=timedelta(hours=1))
    data = store.upload_from_bytes(BINARY, name="bytes", content_type="binary")
    file = store.upload_from_file(folder / "sub" / "file.txt", name="file")
    tree = store.upload_from_dir(folder, name="tree")
    assert text.download_as_text() == "text €"
    assert data.download_as_bytes() == BINARY
    assert file.download_as_bytes() == b"in the folder"
    with tarfile.open(fileobj=io.BytesIO(tree.download_as_bytes())) as tar:
        assert "sub/file.txt" in [name.removeprefix("./") for name in tar.getnames()]
    view = text.refresh()
    assert (view.state, view.content_type, view.metadata) == ("READ_ONLY", "text", {"a": "1"})
    assert view.delete_after_time_ms is not None
    assert {text.id, data.id, file.id, tree.id} <= {each.id for each in sdk.storage_object.list(limit=50)}
    mounts: Any = [{"type": "object_mount", "object_id": tree.id, "object_path": "~/tree"}]
    with sdk.devbox.create(mounts=mounts) as devbox:
        assert devbox.file.read(file_path="~/tree/sub/file.txt") == "in the folder"
    for each in (text, data, file, tree):
        assert each.delete().state == "DELETED"


def test_an_object_is_gone_when_its_time_is_over(sdk: RunloopSDK) -> None:
    kept = sdk.storage_object.upload_from_text("short", name="short", ttl=timedelta(hours=1))
    view = kept.refresh()
    assert view.delete_after_time_ms == view.create_time_ms + 3_600_000
    made = sdk.storage_object.create(name="shorter", content_type="text", ttl_ms=1)
    assert made.refresh().state == "DELETED"
    kept.delete()
