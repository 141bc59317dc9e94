"""What a devbox changed on its disk since it was marked."""

import pytest

from benchyard.errors import Conflict, UsageError
from benchyard.hosts.grading import DiskChange
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


def test_changes_are_reported_while_it_runs_and_after(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(user="root")
        await yard.text(devbox, "mkdir -p /task /usr/local/tools; echo x > /task/before")
        assert await yard.host.rooms.mark(devbox)
        assert (await yard.host.rooms.changes_since_mark(devbox)).changes == ()
        await yard.text(devbox, "echo 12345 > /usr/local/bin/pytest; chmod 4755 /usr/local/bin/pytest")
        await yard.text(devbox, "echo y > /task/during; echo '#' >> /etc/profile")
        found = await yard.host.rooms.changes_since_mark(devbox, aside=["/task"])
        planted = DiskChange("/usr/local/bin/pytest", "added", "file", 0o4755, 6)
        assert planted in found.changes
        assert [change.path for change in found.changes] == ["/etc/profile", "/usr/local/bin/pytest"]
        assert (found.total, found.truncated, found.exact) == (2, False, True)
        assert found.changes[0].kind == "modified"
        await yard.restart()
        assert (await yard.host.rooms.changes_since_mark(devbox)).total == 3
        await yard.host.stop(devbox, keep_disk=True)
        await yard.restart()
        assert (await yard.host.rooms.changes_since_mark(devbox, aside=["/task"])) == found

    on_host(test, name="native")


def test_without_a_mark_there_is_nothing_to_compare(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        with pytest.raises(Conflict, match="mark"):
            await yard.host.rooms.changes_since_mark(devbox)
        await yard.host.rooms.mark(devbox)
        with pytest.raises(UsageError):
            await yard.host.rooms.changes_since_mark(devbox, aside=["/x"] * 17)
        await yard.host.stop(devbox, keep_disk=False)
        with pytest.raises(Conflict, match="mark"):
            await yard.host.rooms.changes_since_mark(devbox)

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
            await rooms.changes_of_taken_disk(devbox, "taken")
        await rooms.take(devbox, "taken", "scoring")
        found = await rooms.changes_of_taken_disk(devbox, "taken")
        assert [change.path for change in found.changes] == ["/etc/profile", "/task", "/task/work"]
        await yard.restart()
        # Once more, as after a kill: the same is told of what was moved.
        rooms = yard.host.rooms
        await rooms.take(devbox, "taken", "scoring")
        assert await rooms.changes_of_taken_disk(devbox, "taken") == found
        assert (await rooms.changes_of_taken_disk(devbox, "taken", aside=["/task"])).total == 1
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
        assert (await yard.host.rooms.changes_of_taken_disk(devbox, "taken-late")).total == 2
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
