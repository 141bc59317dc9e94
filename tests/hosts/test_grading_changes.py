"""What a devbox changed on its disk since it was marked."""

import asyncio
import os
from typing import Any

import pytest

from benchyard.devboxes.layers import changes
from benchyard.devboxes.layers.trees import tree_usage
from benchyard.devboxes.native.zygote import ZygoteProcess
from benchyard.errors import Conflict, UsageError
from benchyard.hosts import host
from benchyard.hosts.devbox import DiskBlocks
from benchyard.hosts.grading import DiskChange
from tests.hosts.conftest import OnHost
from tests.hosts.yard import PATIENCE_SECONDS, HostYard


def test_changes_are_told_while_it_runs_and_after(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(user="root")
        await yard.text(devbox, "mkdir -p /task /usr/local/tools; echo x > /task/before")
        assert await yard.host.rooms.mark(devbox)
        assert (await yard.host.rooms.changed(devbox)).changes == ()
        await yard.text(devbox, "echo 12345 > /usr/local/bin/pytest; chmod 4755 /usr/local/bin/pytest")
        await yard.text(devbox, "echo y > /task/during; echo '#' >> /etc/profile")
        found = await yard.host.rooms.changed(devbox, aside=["/task"])
        planted = DiskChange("/usr/local/bin/pytest", "added", "file", 0o4755, 6)
        assert planted in found.changes
        assert [each.path for each in found.changes] == ["/etc/profile", "/usr/local/bin/pytest"]
        assert (found.total, found.truncated, found.exact) == (2, False, True)
        assert found.changes[0].kind == "modified"
        await yard.restart()
        assert (await yard.host.rooms.changed(devbox)).total == 3
        await yard.host.stop(devbox, keep_disk=True)
        await yard.restart()
        assert (await yard.host.rooms.changed(devbox, aside=["/task"])) == found

    on_host(test, name="native")


def test_without_a_mark_there_is_nothing_to_compare(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        with pytest.raises(Conflict, match="mark"):
            await yard.host.rooms.changed(devbox)
        await yard.host.rooms.mark(devbox)
        with pytest.raises(UsageError):
            await yard.host.rooms.changed(devbox, aside=["/x"] * 17)
        await yard.host.stop(devbox, keep_disk=False)
        with pytest.raises(Conflict, match="mark"):
            await yard.host.rooms.changed(devbox)

    on_host(test)


def test_the_disk_of_a_stopped_devbox_becomes_an_image_without_a_copy(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        rooms = yard.host.rooms
        devbox = await yard.devbox(user="root")
        await yard.host.rooms.mark(devbox)
        await yard.text(devbox, "mkdir /task; echo left > /task/work; echo '#' >> /etc/profile")
        inode = await yard.text(devbox, "stat -c %i /task/work")
        with pytest.raises(Conflict, match="still runs"):
            await rooms.take(devbox, "taken", "scoring")
        await yard.host.stop(devbox, keep_disk=True, is_synced=False)
        with pytest.raises(Conflict, match="not taken"):
            await rooms.taken(devbox, "taken")
        await rooms.take(devbox, "taken", "scoring")
        found = await rooms.taken(devbox, "taken")
        assert [each.path for each in found.changes] == ["/etc/profile", "/task", "/task/work"]
        await yard.restart()
        # Once more, as after a kill: the same is told of what was moved.
        rooms = yard.host.rooms
        await rooms.take(devbox, "taken", "scoring")
        assert await rooms.taken(devbox, "taken") == found
        assert (await rooms.taken(devbox, "taken", aside=["/task"])).total == 1
        graded = await yard.devbox("dbx_2", image="taken", user="root")
        assert await yard.text(graded, "cat /task/work; stat -c %i /task/work") == f"left\n{inode}"

    on_host(test, name="native")


def test_a_disk_that_was_not_moved_before_a_kill_is_moved_after_it(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(user="root")
        await yard.host.rooms.mark(devbox)
        await yard.text(devbox, "mkdir /task; echo left > /task/work")
        await yard.host.stop(devbox, keep_disk=True, is_synced=False)
        await yard.host.rooms.take(devbox, "taken-late", "scoring")
        # As a server leaves it that is killed between the record and the move.
        top = yard.images.top(await yard.images.get("taken-late"))
        top.rename(yard.folder / "host" / "devboxes" / devbox / "changes")
        await yard.restart()
        await yard.host.rooms.take(devbox, "taken-late", "scoring")
        assert (await yard.host.rooms.taken(devbox, "taken-late")).total == 2
        graded = await yard.devbox("dbx_2", image="taken-late", user="root")
        assert await yard.text(graded, "cat /task/work") == "left\n"

    on_host(test, name="native")


def test_a_disk_that_was_not_synced_is_not_trusted_after_a_loss_of_power(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        for name, is_synced in (("dbx_1", False), ("dbx_2", True)):
            await yard.devbox(name, user="root")
            await yard.host.stop(name, keep_disk=True, is_synced=is_synced)
        await yard.restart()
        # Once more, as a server does that found a devbox on its way to rest.
        await yard.host.stop("dbx_1", keep_disk=True, is_synced=False)
        rooms = yard.host.rooms
        assert rooms.has_sound_disk("dbx_1")
        assert rooms.has_sound_disk("dbx_2")
        notes = {name: yard.folder / "host" / "devboxes" / name / "rests" for name in ("dbx_1", "dbx_2")}
        # As another boot of the machine finds them: what was not synced may be there, or be gone.
        notes["dbx_1"].write_text("another boot")
        assert not rooms.has_sound_disk("dbx_1")
        assert rooms.has_sound_disk("dbx_2")
        notes["dbx_1"].unlink()
        await yard.host.stop("dbx_1", keep_disk=True, is_synced=False)
        assert not rooms.has_sound_disk("dbx_1")

    on_host(test, name="native")


_MANY = "mkdir -p /task/many; cd /task/many; for i in $(seq 1000 1999); do echo $i > $i; done; ln 1000 again"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done in children of the zygote."""
    found: list[str] = []
    ask = ZygoteProcess.ask

    async def noted(zygote: ZygoteProcess, message: dict[str, Any], *rest: Any) -> Any:
        found.append(message.get("call", message["op"]))
        return await ask(zygote, message, *rest)

    monkeypatch.setattr(ZygoteProcess, "ask", noted)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="other modes handle every tree in a child")
def test_to_grade_a_thousand_files_one_process_is_forked_for_them(on_host: OnHost, calls: list[str]) -> None:
    async def test(yard: HostYard) -> None:
        rooms = yard.host.rooms
        devbox = await yard.devbox(user="root")
        await rooms.mark(devbox)
        await yard.text(devbox, _MANY)
        await yard.host.stop(devbox, keep_disk=True, is_synced=False)
        await rooms.take(devbox, "measured", "scoring")
        calls.clear()
        found = await rooms.taken(devbox, "measured", counted=["/task"])
        room = await yard.devbox("dbx_2", image="measured", user="root")
        paths = [each.path for each in found.changes if each.type != "folder"]
        assert len(paths) >= 490
        async with rooms.watch_opens(room, paths) as opened:
            await yard.text(room, "cat /task/many/1007")
        image = await yard.images.get("measured")
        assert await yard.images.size(image, 1024**3) == tree_usage(str(yard.images.top(image)))[0]
        assert opened.paths == ["/task/many/1007"]
        assert [each for each in calls if each in ("compare", "watch", "usage")] == ["compare"]

    on_host(test, name="native")


def test_a_disk_is_measured_by_the_walk_that_finds_its_changes(
    on_host: OnHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(yard: HostYard) -> None:
        rooms = yard.host.rooms
        devbox = await yard.devbox(user="root")
        await rooms.mark(devbox)
        make = "for i in $(seq 10 40); do head -c 50000 /dev/zero > /task/$i; done"
        await yard.text(devbox, f"mkdir /task; {make}")
        async with asyncio.timeout(PATIENCE_SECONDS):
            yard.host._devboxes[devbox].measured = None
            while (measured := yard.host._devboxes[devbox].measured) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await yard.host.stop(devbox, keep_disk=True, is_synced=False)
        await rooms.take(devbox, "large", "scoring")
        image, whole = await yard.images.get("large"), measured.bytes
        # As with a disk of which there is too much to look at each file.
        monkeypatch.setattr(changes, "MOST_LISTED", 10)
        found = await rooms.taken(devbox, "large", counted=["/task"])
        assert found.used is not None
        assert (found.used.is_exact, found.used.entries) == (False, measured.entries)
        monkeypatch.setattr(yard.images.trees, "usage", None)
        assert await yard.images.size(image, whole // 2) > whole // 2
        # Not too large for all that is known: it is measured, as it is for anything but this.
        for most in (whole + 1, None):
            with pytest.raises(TypeError):
                await yard.images._layers.size(image.layers[:1], most)
        monkeypatch.undo()
        assert await yard.images.size(image, 1024**3) == tree_usage(str(yard.images.top(image)))[0]

    monkeypatch.setattr(host, "_PAUSE_SECONDS", 0.02)
    on_host(test, name="native")


def test_an_earlier_measurement_counts_while_nothing_tells_against_it() -> None:
    seen = DiskBlocks(1000, entries=100, looked_at=10)
    assert seen.at_least(None) == 1000
    assert seen.at_least(DiskBlocks(9000, 100, 100)) == 9000
    # It grew since then, by as much as cannot be told.
    assert seen.at_least(DiskBlocks(50_000, 90, 90)) == 10_000
    # Something was removed, or replaced by something smaller.
    assert seen.at_least(DiskBlocks(9000, 101, 101)) == 1000
    assert DiskBlocks(0, entries=100, looked_at=0).at_least(DiskBlocks(9000, 10, 10)) == 0
