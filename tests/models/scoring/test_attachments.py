"""Archives beside scenarios: the same bytes for the same files, and bounded whatever they hold."""

import gzip
import io
import tarfile

import pytest

from benchyard.errors import UsageError
from benchyard.models.scoring import attachments
from benchyard.models.scoring.attachments import PackedFile, pack_files, unpack_files


def header(kind: bytes, size: int, name: str = "x") -> bytes:
    about = tarfile.TarInfo(name)
    about.type, about.size = kind, size
    return about.tobuf(tarfile.GNU_FORMAT)


def test_packed_files_unpack_unchanged() -> None:
    files = {f"{'d' * 120}/ü{at}": PackedFile(b"x" * at, 0o755) for at in (0, 1, 511, 512, 513, 70_000)}
    assert dict(unpack_files(pack_files(files))) == files
    assert pack_files(files) == pack_files(dict(reversed(files.items())))


def test_headers_that_follow_each_other_for_ever_are_refused() -> None:
    chain = (header(tarfile.GNUTYPE_LONGNAME, 2) + b"a".ljust(512, b"\0")) * 3000
    with pytest.raises(UsageError, match="not an archive"):
        dict(unpack_files(gzip.compress(chain + header(tarfile.REGTYPE, 0) + bytes(1024))))


def test_a_header_of_any_size_is_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "_MOST_PLAIN_BYTES", 100_000)
    huge = header(tarfile.XHDTYPE, 200_000) + bytes(200_192) + header(tarfile.REGTYPE, 0) + bytes(1024)
    with pytest.raises(UsageError, match="holds more than"):
        dict(unpack_files(gzip.compress(huge)))


def test_files_without_content_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MOST_PACKED_FILES", 3)
    four = pack_files({str(at): PackedFile(b"") for at in range(4)})
    with pytest.raises(UsageError, match="3 files"):
        dict(unpack_files(four))


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"x" * 600), pack_files({"a": PackedFile(b"x" * 9000)})[:60]],
    # By name: what gzip writes has the second in it, and every worker must find the same tests.
    ids=["empty", "no gzip", "no tar in it", "cut short"],
)
def test_invalid_archive_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match="not an archive"):
        dict(unpack_files(content))


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x"])
def test_names_stay_inside(name: str) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(UsageError, match="outside of itself"):
        dict(unpack_files(plain.getvalue()))
