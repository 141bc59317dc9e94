"""What a devbox changed on its disk since it was marked."""

import pytest

from benchyard.errors import Conflict, UsageError
from benchyard.hosts.changes import Change
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


def test_changes_are_told_while_it_runs_and_after(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(user="root")
        await yard.text(devbox, "mkdir -p /task /usr/local/tools; echo x > /task/before")
        assert await yard.host.rooms.mark(devbox)
        assert (await yard.host.rooms.changed(devbox)).changes == ()
        await yard.text(devbox, "echo 12345 > /usr/local/bin/pytest; chmod 4755 /usr/local/bin/pytest")
        await yard.text(devbox, "echo y > /task/during; echo '#' >> /etc/profile")
        found = await yard.host.rooms.changed(devbox, aside=["/task"])
        planted = Change("/usr/local/bin/pytest", "added", "file", 0o4755, 6)
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
