"""Contents come in whole or not at all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchyard.errors import NotFound
from benchyard.store.contents import ObjectContents


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


async def cut() -> AsyncIterator[bytes]:
    yield b"x" * 10_000_000
    raise RuntimeError("cut")


def test_bytes_in_are_bytes_out(tmp_path: Path) -> None:
    async def main() -> bytes:
        contents = ObjectContents(tmp_path / "objects")
        assert await contents.put("a/b", pieces(b"one ", b"two ", b"three")) == 13
        return b"".join([piece async for piece in contents.read("a/b", 4)])

    assert asyncio.run(main()) == b"two three"


@pytest.mark.parametrize(
    ("start", "end", "expected"), [(0, 3, b"012"), (3, 3, b""), (8, 20, b"89"), (0, None, b"0123456789")]
)
def test_a_part_can_be_read(start: int, end: int | None, expected: bytes, tmp_path: Path) -> None:
    async def main() -> bytes:
        contents = ObjectContents(tmp_path / "objects")
        await contents.put("a", pieces(b"0123456789"))
        return b"".join([piece async for piece in contents.read("a", start, end)])

    assert asyncio.run(main()) == expected


def test_interrupted_content_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> list[str]:
        contents = ObjectContents(tmp_path / "objects")
        with pytest.raises(RuntimeError, match="cut"):
            await contents.put("a/b", cut())
        return await contents.paths()

    assert asyncio.run(main()) == []
    assert [path for path in (tmp_path / "objects").rglob("*") if path.is_file()] == []


def test_deleted_content_is_gone_and_may_be_deleted_again(tmp_path: Path) -> None:
    async def main() -> None:
        contents = ObjectContents(tmp_path / "objects")
        await contents.put("a", pieces(b"x"))
        assert await contents.paths() == ["a"]
        await contents.delete("a")
        await contents.delete("a")
        with pytest.raises(NotFound):
            async for _ in contents.read("a"):
                pass

    asyncio.run(main())
