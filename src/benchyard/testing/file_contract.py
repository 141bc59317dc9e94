"""What every driver owes to files: bytes in are bytes out, and no path leads out of the devbox."""

import os

import pytest

from benchyard.devboxes.base import Capability, OpenFile
from benchyard.errors import NotFound, UsageError
from benchyard.testing.yard import Makes, Yard, contract

_EVERY_BYTE = bytes(range(256))


class FileContract(Makes):
    """Files of a devbox, opened from outside."""

    @contract()
    async def test_every_byte_written_is_read(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        data = _EVERY_BYTE * (5 * 1024 * 1024 // 256)
        await yard.write(devbox, "~/deep/er/file", data)
        assert await yard.read(devbox, "~/deep/er/file") == data
        assert await yard.text(devbox, "wc -c < deep/er/file") == str(len(data))

    @contract()
    async def test_paths_start_at_home(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "relative", b"1")
        assert await yard.read(devbox, "~/relative") == b"1"
        home = await yard.text(devbox, "pwd")
        assert await yard.read(devbox, f"{home}/relative") == b"1"

    @contract()
    async def test_writing_again_replaces(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/file", b"something long")
        await yard.write(devbox, "~/file", b"short")
        assert await yard.text(devbox, "cat file") == "short"

    @contract()
    async def test_a_new_file_has_the_mode_asked_for(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/program", b"#!/bin/sh\necho ran\n", mode=0o755)
        assert await yard.text(devbox, "./program") == "ran"

    @contract()
    async def test_a_missing_file_is_not_found(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/file", b"")
        for path in ("~/nothing", "/no/such/place", "~/file/below"):
            with pytest.raises(NotFound):
                await yard.read(devbox, path)

    @contract()
    async def test_only_regular_files_are_opened(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "mkdir folder; mkfifo fifo; ln -s loop loop; ln -s /dev/zero zero")
        for path in ("~/folder", "~", "/", "~/fifo", "~/loop"):
            for write in (False, True):
                with pytest.raises(UsageError):
                    os.close(await yard.driver.open_file(devbox, OpenFile(path, write=write)))
        for path in ("~/zero", "/dev/zero"):
            with pytest.raises(UsageError):
                os.close(await yard.driver.open_file(devbox, OpenFile(path)))
        for path in ("~/a\0b", "~/" + "x" * 5000):
            with pytest.raises(UsageError):
                os.close(await yard.driver.open_file(devbox, OpenFile(path)))

    @contract()
    async def test_no_link_leads_out_of_the_devbox(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        outside = yard.folder / "outside"
        outside.write_bytes(b"secret")
        await yard.text(devbox, f"ln -s {outside} link; ln -s {yard.folder} folder; ln -s / root")
        dots = "../" * 40
        for path in ("~/link", "~/folder/outside", f"~/root{outside}", f"~/{dots}{outside}", str(outside)):
            try:
                assert await yard.read(devbox, path) != b"secret"
            except UsageError:
                continue
        for path in ("~/link", "~/folder/outside", f"~/root{outside}", f"~/{dots}{outside}", str(outside)):
            try:
                await yard.write(devbox, path, b"changed")
            except UsageError:
                continue
        assert outside.read_bytes() == b"secret"

    @contract()
    async def test_a_file_can_be_changed_in_place(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/file", b"0123456789")
        await yard.write(devbox, "~/file", b"abc", truncate=False)
        assert await yard.read(devbox, "~/file") == b"abc3456789"
        await yard.write(devbox, "~/new", b"abc", truncate=False)
        assert await yard.read(devbox, "~/new") == b"abc"

    @contract()
    async def test_what_a_command_wrote_is_read(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "printf 'by a command' > 'a file'")
        assert await yard.read(devbox, "~/a file") == b"by a command"

    @contract(Capability.USERS)
    async def test_files_belong_to_who_opened_them(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.text(
            devbox, "mkdir -m 777 /shared; echo mine > /shared/of-root; chmod 600 /shared/of-root"
        )
        await yard.write(devbox, "/shared/file", b"x", user="1234")
        assert await yard.text(devbox, "stat -c %u /shared/file") == "1234"
        for request in (
            OpenFile("/shared/of-root", user="1234"),
            OpenFile("/etc/new", user="1234", write=True),
        ):
            with pytest.raises(UsageError):
                os.close(await yard.driver.open_file(devbox, request))
