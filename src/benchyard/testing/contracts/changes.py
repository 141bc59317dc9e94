"""Disks as drivers show them: their changes, and the paths that are carried as the answer."""

import json
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import Capability, Rootfs
from benchyard.testing.contracts.driver_fixture import DriverFixture, DriverSuite, contract

_SETUP = """
mkdir -p /made/full /made/empty /made/closed; cd /made
for name in kept changed gone moved linked chmodded same-size; do echo $name > full/$name; done
echo x > full/to-folder; ln -s kept full/link; mkdir full/inner; echo x > full/inner/file; rm -f /etc/restored
"""
_CHANGES = """
cd /made; echo more >> full/changed; rm full/gone; mv full/moved full/renamed; chmod 700 full/chmodded
printf 'same-sizE\\n' > full/same-size; touch -d @0 full/same-size; rm full/to-folder; mkdir full/to-folder
ln -sf gone full/link; rm -r full/inner; mkdir new; echo x > new/file; mkfifo new/pipe; chmod 700 empty
echo again > /etc/restored; echo x >> /etc/edited; rm /etc/removed; mkdir /etc/added; ln -s / /etc/added/link
"""
_EXPECTED = {
    ("/etc/added", "added", "folder"),
    ("/etc/added/link", "added", "link"),
    ("/etc/removed", "deleted", "file"),
    ("/etc/restored", "added", "file"),
    ("/etc/edited", "modified", "file"),
    ("/made/empty", "modified", "folder"),
    ("/made/full/changed", "modified", "file"),
    ("/made/full/chmodded", "modified", "file"),
    ("/made/full/gone", "deleted", "file"),
    ("/made/full/inner", "deleted", "folder"),
    ("/made/full/link", "modified", "link"),
    ("/made/full/moved", "deleted", "file"),
    ("/made/full/renamed", "added", "file"),
    ("/made/full/same-size", "modified", "file"),
    ("/made/full/to-folder", "modified", "folder"),
    ("/made/new", "added", "folder"),
    ("/made/new/file", "added", "file"),
    ("/made/new/pipe", "added", "other"),
}
_HOSTILE_CHANGES = r"""
mkdir /made; cd /made; touch "$(printf 'not\377utf')" "$(printf 'new\nline')" '"quoted"' '\x41'
"""


async def _note(yard: DriverFixture, devbox: str) -> bool:
    await yard.driver.freeze(devbox)
    try:
        async with yard.driver.storage.changes(yard.specs[devbox]) as changes:
            return await yard.driver.trees.note(changes, yard.specs[devbox].folder / "mark")
    finally:
        await yard.driver.thaw(devbox)


async def _compare(yard: DriverFixture, devbox: str, *aside: str) -> dict[str, Any]:
    spec = yard.specs[devbox]
    report = spec.folder / "report"
    report.unlink(missing_ok=True)
    await yard.driver.freeze(devbox)
    try:
        async with yard.driver.storage.changes(spec) as changes:
            await yard.driver.trees.compare((changes, spec.folder / "mark"), spec.rootfs, report, aside)
    finally:
        await yard.driver.thaw(devbox)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def _kinds(found: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(path, kind, type_) for path, kind, type_, *_rest in found["changes"]}


class ChangeContract(DriverSuite):
    """Marks of disks, and the differences since."""

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_every_change_is_told_and_nothing_else(self, yard: DriverFixture) -> None:
        first = await yard.devbox()
        await yard.text(first, "touch /etc/restored /etc/edited /etc/removed")
        layers = yard.on_top(await yard.layer(first))
        devbox = await yard.devbox(rootfs=layers)
        await yard.text(devbox, _SETUP)
        assert await _note(yard, devbox)
        unchanged = await _compare(yard, devbox)
        size, entries, looked_at = unchanged.pop("used")
        assert size > 0
        assert entries == looked_at > 0
        assert unchanged == {"changes": [], "total": 0, "truncated": False, "exact": True}
        await yard.text(
            devbox, "cat /made/full/* /etc/edited 2>/dev/null >/dev/null; ls -R /etc /made >/dev/null"
        )
        assert _kinds(await _compare(yard, devbox)) == set()
        await yard.text(devbox, _CHANGES)
        found = await _compare(yard, devbox)
        assert _kinds(found) == _EXPECTED
        assert (found["total"], found["exact"]) == (len(_EXPECTED), True)
        aside = await _compare(yard, devbox, "/made")
        assert _kinds(aside) == {each for each in _EXPECTED if not each[0].startswith("/made")}
        assert aside["total"] == len(aside["changes"])

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_a_folder_that_was_replaced_is_told(self, yard: DriverFixture) -> None:
        first = await yard.devbox()
        await yard.text(first, "mkdir -p /base/old /base/other; touch /base/old/a /base/old/b /base/other/c")
        devbox = await yard.devbox(rootfs=yard.on_top(await yard.layer(first)))
        assert await _note(yard, devbox)
        await yard.text(
            devbox, "rm -r /base/old; mkdir /base/old; echo new > /base/old/a; chmod 750 /base/other"
        )
        assert _kinds(await _compare(yard, devbox)) == {
            ("/base/old", "modified", "folder"),
            ("/base/old/a", "modified", "file"),
            ("/base/old/b", "deleted", "file"),
            ("/base/other", "modified", "folder"),
        }

    @contract(Capability.SNAPSHOTS)
    async def test_hostile_names_and_numbers_are_bounded(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await _note(yard, devbox)
        root = "" if Capability.ISOLATION in yard.driver.capabilities else "cd ..; "
        made = "/made" if not root else "made"
        await yard.text(devbox, root + _HOSTILE_CHANGES.replace("/made", made))
        found = await _compare(yard, devbox)
        names = {path.rpartition("made/")[2] for path, *_rest in found["changes"]}
        assert {"not\\xffutf", "new\nline", '"quoted"', "\\x41"} <= names
        await yard.text(devbox, f"{root}cd {made}; seq 1 10500 | xargs touch")
        found = await _compare(yard, devbox)
        assert (len(found["changes"]), found["truncated"]) == (10_000, True)
        assert found["total"] >= 10_500

    @contract(Capability.SNAPSHOTS)
    async def test_a_tree_too_deep_to_name_is_survived(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await _note(yard, devbox)
        deep = "i=0; while [ $i -lt 300 ]; do mkdir {0} && cd -P {0} || exit 9; i=$((i+1)); done"
        await yard.run(devbox, deep.format("d" * 100))
        found = await _compare(yard, devbox)
        assert found["truncated"]
        assert await _note(yard, devbox) is False


_PRISTINE = """
mkdir -p /task/src /task/old /task/tests /data; cd /task; echo base > src/main; echo base > src/stays
echo base > old/file; echo base > tests/check; echo base > removed; echo base > /data/untouched
chmod 750 /task; echo base > becomes-folder; mkdir becomes-file; echo x > becomes-file/inner
"""
_WORK = """
cd /task; echo work > src/main; rm src/stays; mkdir -p src/new/deep; echo work > src/new/deep/file
chmod 700 src/new; ln -s deep/file src/new/link; ln src/main src/hard; echo work > tests/check; rm removed
rm becomes-folder; mkdir becomes-folder; echo work > becomes-folder/f; rm -r becomes-file
echo w > becomes-file; echo work > /data/untouched; echo work > added
touch -d @1000000000 added; mkdir -p /fresh/made; echo work > /fresh/made/file; ln -s ../../src src/new/up
ln -s /task/src/main src/new/absolute; chmod 777 /task
"""
_PATHS = ("/fresh/made", "/task/added", "/task/becomes-file", "/task/becomes-folder", "/task/gone-too")
_MORE = ("/task/removed", "/task/src")
_LOOK = """
cd /task; stat -c '%n %a' . src/new; cat src/main src/new/link tests/check becomes-folder/f becomes-file
cat /data/untouched added src/hard src/new/absolute src/new/up/main /fresh/made/file
stat -c %Y added; ls -A . src
"""
_SEEN = """
. 750
src/new 700
work
work
base
work
w
base
work
work
work
work
work
1000000000
.:
added
becomes-file
becomes-folder
old
src
tests

src:
hard
main
new
"""
_WHOLE_WORK = """
cd /home/own/task; echo work > file; ln file hard; ln -s /srv/tool out; mkdir dir; chmod 2750 dir
echo x > dir/.hidden
cd ..; echo work > seen; echo work > .rc; echo work > .new; echo work > /srv/tool; echo work > /srv/more
"""
_WHOLE_LOOK = """
cd /home/own; cat task/file task/out seen .rc; stat -c %a task/dir; [ task/file -ef task/hard ] && echo same
ls -A . task task/dir /srv
"""
_WHOLE_SEEN = """
work
base
work
base
2750
same
.:
.rc
seen
task

/srv:
tool

task:
dir
file
hard
out

task/dir:
.hidden
"""
_HOSTILE_ANSWER = """
mkdir -p /task/in; cd /task/in; ln -s /etc/passwd out; ln -s ../../etc/passwd up; ln -s a/../../../etc tricky
ln -s /task/in/file stays; echo x > file; cp file setuid; chmod 4755 setuid; cp file setgid; chmod 2755 setgid
mkfifo fifo; ln -s . self; ln -s /task2 near; mkdir a; ln -s / root; ln -s /task/in/root/etc through
touch "$(printf 'ba\\377d\\nname')"; ln -s /etc "$(printf 'li\\377nk')"; ln -s /etc /task/way
"""
_LEFT = ("file", "stays", "self", "through", "a")
_OUT = ("out", "up", "tricky", "setuid", "setgid", "fifo", "near", "root", "li\\xffnk")


async def _carried(
    yard: DriverFixture, stacks: tuple[Rootfs, Rootfs], *paths: str
) -> tuple[Path, dict[str, Any]]:
    layer = yard.folder / "answer"
    report = await yard.driver.trees.carry(*stacks, paths, layer)
    told: dict[str, Any] = json.loads(report.read_text())
    return layer, told


async def _worked_on(
    yard: DriverFixture, before: str, work: str, **options: Any
) -> tuple[Path, tuple[Rootfs, Rootfs]]:
    """Return the layer that `before` made, and two stacks: with what `work` made over it, and without."""
    first = await yard.devbox()
    await yard.text(first, before)
    below = await yard.layer(first)
    second = await yard.devbox(rootfs=yard.on_top(below))
    await yard.text(second, work, **options)
    return below, (yard.on_top(await yard.layer(second), below), yard.on_top(below))


class AnswerContract(DriverSuite):
    """Paths of one disk, carried over another one."""

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_an_answer_is_its_paths_and_nothing_else(self, yard: DriverFixture) -> None:
        below, stacks = await _worked_on(yard, _PRISTINE, _WORK)
        layer, told = await _carried(yard, stacks, *_PATHS, *_MORE)
        assert (told["refused"], told["exceeded"]) == ([], None)
        assert told["entries"] == 15
        third = await yard.devbox(rootfs=yard.on_top(layer, below))
        assert await yard.text(third, _LOOK) == _SEEN.strip()

    @contract(Capability.SNAPSHOTS, Capability.IMAGES, Capability.USERS)
    async def test_an_answer_keeps_its_owners(self, yard: DriverFixture) -> None:
        below, stacks = await _worked_on(
            yard, "mkdir -m 777 /task", "mkdir /task/d; echo x > /task/d/f; ln -s f /task/d/l", user="1234"
        )
        layer, _told = await _carried(yard, stacks, "/task/d")
        third = await yard.devbox(rootfs=yard.on_top(layer, below))
        assert await yard.text(third, "stat -c %u /task /task/d /task/d/f /task/d/l") == "0\n1234\n1234\n1234"

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_what_could_cheat_is_left_out_by_name(self, yard: DriverFixture) -> None:
        below, stacks = await _worked_on(
            yard,
            "mkdir -p /task/way /task/in; echo base > /task/way/file; echo base > /task/in/out",
            f"rm -r /task/way /task/in; {_HOSTILE_ANSWER}",
        )
        layer, told = await _carried(yard, stacks, "/task/in", "/task/way/file")
        refused = {line.partition(": ")[0] for line in told["refused"]}
        assert refused == {*(f"/task/in/{name}" for name in _OUT), "/task/way/file"}
        third = await yard.devbox(rootfs=yard.on_top(layer, below))
        kept = (await yard.text(third, "ls -b /task/in")).split()
        assert kept == sorted([*_LEFT, "ba\\377d\\nname"])
        assert await yard.text(
            third, "cat /task/in/stays /task/way/file; cat /task/in/through 2>&1 || true"
        ) == ("x\nbase\ncat: /task/in/through: No such file or directory")

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_work_is_carried_as_it_is_and_nothing_beside_it(self, yard: DriverFixture) -> None:
        below, stacks = await _worked_on(
            yard,
            "mkdir -p /home/own/task /srv; echo base > /srv/tool; echo base > /home/own/.rc",
            _WHOLE_WORK,
        )
        layer = yard.folder / "work"
        report = await yard.driver.trees.carry_work(*stacks, ("/home/own/task",), "/home/own", layer)
        assert json.loads(report.read_text())["exceeded"] is None
        third = await yard.devbox(rootfs=yard.on_top(layer, below))
        assert await yard.text(third, _WHOLE_LOOK) == _WHOLE_SEEN.strip()

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_the_work_is_told_from_its_start(self, yard: DriverFixture) -> None:
        _below, stacks = await _worked_on(
            yard,
            "mkdir -p /task; cd /task; echo base > kept; echo base > gone; echo base > same",
            "cd /task; echo work > kept; rm gone; touch same; echo > /etc/beside; umask 77; echo mine > new",
        )
        wanted = {"folders": ["/task"], "home": None, "paths": [], "all": False, "contents": True}
        report = yard.folder / "report"
        await yard.driver.trees.examine(*stacks, wanted, report)
        facts, *lines = report.read_text().splitlines()
        found = {path: change for path, change, *_ in map(json.loads, lines[:3])}
        assert found == {"/task/gone": "deleted", "/task/kept": "modified", "/task/new": "added"}
        assert lines[3:] == ["base", "base", "work", "mine"]
        assert json.loads(facts)["beside"] >= 1
        part = yard.folder / "part"
        read = {"read": "/task/new", "side": "after", "offset": 1, "limit": 2}
        await yard.driver.trees.examine(*stacks, read, part)
        assert part.read_text().endswith("\nin")

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_an_answer_too_large_is_refused(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "mkdir -p /task/sparse; truncate -s 2G /task/sparse/file")
        stacks = (yard.on_top(await yard.layer(devbox)), yard.rootfs)
        _layer, told = await _carried(yard, stacks, "/task/sparse")
        assert "1073741824 bytes" in told["exceeded"]
