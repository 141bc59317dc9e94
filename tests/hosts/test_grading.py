"""What a host can do for a clean room: end what the agent started, see what is left, tell what is opened."""

import pytest

from benchyard.devboxes.base import DevboxProcess
from benchyard.errors import DevboxGone
from benchyard.hosts.grading import DevboxGrading
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


async def _commands(rooms: DevboxGrading, devbox: str) -> set[str]:
    found: list[DevboxProcess] = await rooms.processes(devbox)
    return {process.command for process in found}


@pytest.mark.parametrize("name", ["fake", "native"])
def test_commands_are_killed_and_services_stay(on_host: OnHost, name: str) -> None:
    async def test(yard: HostYard) -> None:
        rooms = yard.host.rooms
        devbox = await yard.devbox()
        await yard.run(devbox, "setsid sleep 1111 >/dev/null 2>&1 &")
        begun = [
            await yard.host.exec(devbox, yard.request("(setsid sleep 2222 &) ; sleep 3333")),
            await yard.host.exec(devbox, yard.request("sleep 4444", shell_name="main")),
            await yard.host.exec(devbox, yard.request("touch ~/began", shell_name="main")),
        ]
        spared = await yard.host.exec(devbox, yard.request("sleep 5555", id="service_1"))
        while not {f"sleep {n}" for n in (1111, 2222, 3333, 4444, 5555)} <= await _commands(rooms, devbox):
            pass
        assert set(await rooms.kill_commands(devbox, spare=["service_"])) == {each.id for each in begun}
        assert {command for command in await _commands(rooms, devbox) if command.startswith("sleep")} == {
            "sleep 1111",
            "sleep 5555",
        }
        for each in begun:
            state = await yard.host.execution(devbox, each.id)
            assert (state.status, state.exit_status) == ("completed", 137)
        assert (await yard.host.execution(devbox, spared.id)).status == "running"
        assert await yard.text(devbox, "ls ~/began 2>/dev/null; true") == ""
        await rooms.kill_all(devbox)
        assert await rooms.processes(devbox) == []
        assert (await yard.host.wait(devbox, spared.id, 30)).signal == 9
        assert await rooms.kill_commands(devbox) == []

    on_host(test, name=name)


@pytest.mark.parametrize("name", ["fake", "native"])
def test_opened_files_are_reported_after_the_watch(on_host: OnHost, name: str) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "echo 1 > ~/one; echo 2 > ~/two")
        paths = ["/home/user/one", "/home/user/two"]
        async with yard.host.rooms.watch_opens(devbox, paths) as opened:
            await yard.text(devbox, "cat ~/two")
        assert opened.paths == ["/home/user/two"]
        async with yard.host.rooms.watch_opens(devbox, paths) as none:
            await yard.text(devbox, "ls ~")
        assert none.paths == []
        async with yard.host.rooms.watch_opens(devbox, paths * 6000) as many:
            pass
        assert many.paths is None
        async with yard.host.rooms.watch_opens(devbox, paths) as cut_short:
            await yard.host.stop(devbox, keep_disk=True)
        assert cut_short.paths == []
        with pytest.raises(DevboxGone):
            await yard.host.rooms.processes(devbox)

    on_host(test, name=name)


def test_a_watch_does_not_outlive_the_server(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "echo 1 > ~/one")
        async with yard.host.rooms.watch_opens(devbox, ["/home/user/one"]) as opened:
            await yard.restart()
            await yard.text(devbox, "cat ~/one")
        assert opened.paths is None

    on_host(test, name="native")


def test_a_long_list_of_files_is_watched_like_a_short_one(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.text(
            devbox,
            "mkdir -p ~/many/folder && cd ~/many && touch $(seq 2000) && ln -s /home/user/many/7 link"
            " && ln -s . circle && touch $(printf '\\377')",
        )
        names = [*map(str, range(1, 2001)), "folder", "link", "circle/8", "\\xff", "missing"]
        async with yard.host.rooms.watch_opens(
            devbox, [f"/home/user/many/{name}" for name in names]
        ) as opened:
            await yard.text(devbox, "cd ~/many; cat 7 8 2000 $(printf '\\377'); ls folder")
        told = {"/home/user/many/" + name for name in ("7", "link", "8", "circle/8", "2000", "\\xff")}
        assert opened.paths is not None
        assert set(opened.paths) == told
        assert list(opened.unwatched) == []

    on_host(test, name="native")
