"""Imports by path, while somebody changes what lies there."""

import asyncio
import os
from pathlib import Path

import pytest

from benchyard.engine.images.transfers import _of_path
from benchyard.errors import UsageError
from benchyard.settings import Settings


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads what others may not")
def test_a_link_that_takes_the_place_of_a_folder_and_goes_again_is_not_followed(tmp_path: Path) -> None:
    allowed, secret = tmp_path / "allowed", tmp_path / "secret"
    (allowed / "root").mkdir(parents=True)
    (allowed / "root/bin").mkdir()
    secret.mkdir()
    (secret / "key").write_text("of somebody else")
    settings = Settings(data=tmp_path / "data", import_folders=(allowed,))

    async def imported() -> set[str]:
        async with _of_path(settings, str(allowed / "root")) as source:
            (allowed / "root").rename(allowed / "aside")
            (allowed / "root").symlink_to(secret)
            found = {each.name for each in source.iterdir()}
            (allowed / "root").unlink()
            (allowed / "aside").rename(allowed / "root")
        return found

    assert asyncio.run(imported()) == {"bin"}


def test_a_folder_that_was_moved_meanwhile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "allowed/root").mkdir(parents=True)
    settings = Settings(data=tmp_path / "data", import_folders=(tmp_path / "allowed",))

    async def moved() -> None:
        async with _of_path(settings, str(tmp_path / "allowed/root")):
            (tmp_path / "allowed/root").rename(tmp_path / "elsewhere")

    with pytest.raises(UsageError, match="was changed while it was imported"):
        asyncio.run(moved())
