"""Duties of every driver in watching a devbox: its processes, and the files that are opened."""

import os

import pytest

from benchyard.devboxes.base import Capability, DevboxProcess, NewFolder, OpenFile
from benchyard.errors import DevboxError
from benchyard.testing.contracts.driver_fixture import (
    DriverFixture,
    DriverSuite,
    contract,
    eventually,
    processes_with,
)

_DAEMON = "(setsid sh -c \"trap '' TERM INT HUP; sleep {0}; true\" >/dev/null 2>&1 </dev/null &) ; "
_FILES = r"""
echo x > read; echo x > untouched; mkdir d; echo x > d/by-link; ln -s d l; cp read hard; ln hard hard2
printf '#!/bin/sh\necho ran\n' > program; chmod 755 program; echo x > "$(printf 'b\377d')"
"""
_OPENS = """
cat read l/by-link hard2 > /dev/null; ls -l . d > /dev/null; stat untouched > /dev/null; ./program; cat b*d
echo > missing
"""


def _with(found: list[DevboxProcess], text: str) -> list[DevboxProcess]:
    return [process for process in found if text in process.command]


class InsideContract(DriverSuite):
    """Inside a devbox: its processes, and the files they open."""

    @contract()
    async def test_processes_are_listed_without_our_own(self, yard: DriverFixture) -> None:
        devbox, other = await yard.devbox(), await yard.devbox()
        assert await yard.driver.inside.processes(devbox) == []
        ours, theirs, daemon = yard.marker(), yard.marker(), yard.marker()
        await yard.begin(other, f"sleep {theirs}")
        await yard.run(devbox, _DAEMON.format(daemon))
        command = await yard.begin(devbox, f"echo up; sleep {ours}; true")
        await yard.shows(command, b"up")
        await eventually(lambda: bool(processes_with(f"sleep\0{ours}")), "its start")
        processes = await yard.driver.inside.processes(devbox)
        assert len(_with(processes, f"sleep {ours}")) == 2
        (sleeping,) = [process for process in processes if process.command == f"sleep {ours}"]
        (parent,) = [process for process in processes if process.pid == sleeping.ppid]
        assert parent.command.startswith("/bin/sh -c echo up")
        assert 0 <= sleeping.start_seconds_ago < 60
        assert len([process for process in processes if process.command == f"sleep {daemon}"]) == 1
        assert not _with(processes, theirs)
        assert not [
            process for process in processes if "python" in process.command or "benchyard" in process.command
        ]

    @contract(Capability.USERS)
    async def test_processes_have_their_users(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "echo 'planted:x:4321:4321::/:/bin/sh' >> /etc/passwd")
        for user, expected in (("root", (0, "root")), ("4321", (4321, "planted")), ("1234", (1234, "1234"))):
            marker = yard.marker()
            await yard.begin(devbox, argv=("/bin/sleep", marker), user=user)
            await eventually(lambda marker=marker: bool(processes_with(marker)), "its start")  # type: ignore[misc]
            (process,) = _with(await yard.driver.inside.processes(devbox), marker)
            assert (process.uid, process.user) == expected

    @contract()
    async def test_hostile_names_of_processes_are_bounded(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        long = f"sleep {marker}; true '{'x' * 100_000}' '\x01\ud83d'".encode("utf-8", "surrogatepass")
        argv = ("/bin/sh", "-c", long.decode("utf-8", "replace") + "\n:) ")
        await yard.begin(devbox, argv=argv)
        await eventually(lambda: bool(processes_with(f"sleep\0{marker}")), "its start")
        (process,) = _with(await yard.driver.inside.processes(devbox), f"-c sleep {marker}")
        assert len(process.command) == 200

    @contract(Capability.USERS)
    async def test_folders_are_made_without_a_program_of_the_devbox(self, yard: DriverFixture) -> None:
        devbox, inside = await yard.devbox(), yard.driver.inside
        await yard.text(devbox, "mkdir -p /t/old; chmod 700 /t/old; chown 1234 /t/old; echo x > /t/file")
        kept = NewFolder("/t/old", "4321", only_new=True)
        for _ in range(2):
            assert await inside.make_folders(devbox, [NewFolder("/t/a/b", "1234"), NewFolder("/t/c"), kept])
        lines = await yard.text(devbox, "stat -c '%n %a %u' /t/a /t/a/b /t/c /t/old")
        assert lines.splitlines() == ["/t/a 755 0", "/t/a/b 755 1234", "/t/c 755 0", "/t/old 700 1234"]
        with pytest.raises(DevboxError):
            await inside.make_folders(devbox, [NewFolder("/t/file/below")])

    @contract(Capability.USERS)
    async def test_folders_and_files_in_them_are_made_at_once_or_none_is_open(
        self, yard: DriverFixture
    ) -> None:
        devbox, inside = await yard.devbox(), yard.driver.inside
        folders = [NewFolder("/t/mine", "1234"), NewFolder("/t/roots")]
        paths = ["/t/mine/one", "/t/mine/deep/two"]
        requests = [OpenFile(path, "1234", write=True, mode=0o700) for path in paths]
        opened = await inside.open_in_folders(devbox, folders, requests)
        assert opened is not None
        for path, descriptor in zip(paths, opened, strict=True):
            os.write(descriptor, path.encode())
            os.close(descriptor)
        lines = await yard.text(devbox, f"stat -c '%n %a %u' /t/mine /t/roots {' '.join(paths)}")
        assert lines.splitlines() == [
            "/t/mine 755 1234",
            "/t/roots 755 0",
            "/t/mine/one 700 1234",
            "/t/mine/deep/two 700 1234",
        ]
        assert await yard.text(devbox, "cat /t/mine/deep/two") == "/t/mine/deep/two"
        # The folders are root's work, the files are not.
        for path in ("/t/roots/one", "/t/mine"):
            request = OpenFile(path, "1234", write=True)
            assert await inside.open_in_folders(devbox, folders, [requests[0], request]) is None
        assert await inside.open_in_folders(devbox, [NewFolder("/t/mine/one/below")], requests) is None

    @contract(Capability.USERS)
    async def test_files_are_listed_as_a_user_sees_them(self, yard: DriverFixture) -> None:
        devbox, inside = await yard.devbox(), yard.driver.inside
        make = "mkdir -p /t/a/d/e; cd /t/a; echo 1 > one; echo 2 > d/e/two; ln -s one link; mkfifo f"
        await yard.text(devbox, f"{make}; touch -d '1 hour ago' one /t/mark && echo > $(printf 'b\\377d')")
        assert sorted(await inside.files(devbox, "/t/a", "1234", None, 200) or []) == ["d/e/two", "one"]
        assert await inside.files(devbox, "/t/a", "1234", "/t/mark", 200) == ["d/e/two"]
        assert len(await inside.files(devbox, "/t/a", "1234", None, 1) or []) == 1
        await yard.text(devbox, "chmod 700 /t/a")
        with pytest.raises(DevboxError):
            await inside.files(devbox, "/t/a", "1234", None, 200)

    @contract()
    async def test_a_crowd_of_processes_is_listed_whole(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        await yard.run(devbox, f"i=0; while [ $i -lt 1050 ]; do sleep {marker} & i=$((i+1)); done")
        processes = await yard.driver.inside.processes(devbox)
        assert (len(processes), processes.total) == (1050, 1050)
        await yard.driver.inside.kill_all(devbox)
        assert await yard.driver.inside.processes(devbox) == []

    @contract()
    async def test_everything_but_our_own_can_be_killed(self, yard: DriverFixture) -> None:
        devbox, other = await yard.devbox(), await yard.devbox()
        running, daemon, theirs = yard.marker(), yard.marker(), yard.marker()
        await yard.begin(other, f"sleep {theirs}")
        await yard.run(devbox, _DAEMON.format(daemon))
        command = await yard.begin(devbox, f"trap '' TERM; sleep {running}")
        await eventually(lambda: all(map(processes_with, (running, daemon, theirs))), "their start")
        await yard.driver.inside.kill_all(devbox)
        assert not processes_with(running) + processes_with(daemon)
        assert processes_with(theirs)
        result = await yard.finish(command)
        assert (result.status.exit_status, result.status.signal) == (137, 9)
        assert await yard.text(devbox, "echo alive") == "alive"

    @contract()
    async def test_opened_files_are_told(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        home = await yard.text(devbox, "pwd")
        await yard.text(devbox, _FILES)
        root = "" if Capability.ISOLATION in yard.driver.capabilities else str(yard.specs[devbox].changes)
        base = home[len(root) :]
        names = ("read", "untouched", "program", "missing", "d", "l", "d/by-link", "hard", "b\\xffd")
        watch = await yard.driver.inside.watch(devbox, [f"{base}/{name}" for name in names])
        assert watch is not None
        await yard.text(devbox, _OPENS)
        # A link is reported when its target is opened.
        opened = ("b\\xffd", "d/by-link", "hard", "l", "program", "read")
        assert watch.close() == [f"{base}/{name}" for name in opened]
        again = await yard.driver.inside.watch(devbox, [f"{base}/read", f"{base}/untouched"])
        assert again is not None
        await yard.text(devbox, "cat untouched")
        assert again.close() == [f"{base}/untouched"]

    @contract(Capability.ISOLATION)
    async def test_programs_of_the_image_are_told_too(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        true = await yard.text(devbox, "readlink -f /bin/true")
        closed = await yard.text(devbox, "echo x > /srv/closed; chmod 0 /srv/closed; echo /srv/closed")
        watch = await yard.driver.inside.watch(devbox, [true, "/etc/passwd", "/proc/version", closed])
        assert watch is not None
        await yard.run(devbox, argv=("/bin/true",))
        assert true in (watch.close() or [])

    @contract()
    async def test_too_many_files_are_not_watched(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        assert await yard.driver.inside.watch(devbox, [f"/{number}" for number in range(10_001)]) is None
        watch = await yard.driver.inside.watch(devbox, [f"/etc/{number}" for number in range(10_000)])
        assert watch is not None
        assert watch.close() == []
