"""What every driver with images owes to answers: the paths that were asked for, and nothing else."""

import json
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import Capability, Rootfs
from benchyard.testing.yard import Makes, Yard, contract

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
_HOSTILE = """
mkdir -p /task/in; cd /task/in; ln -s /etc/passwd out; ln -s ../../etc/passwd up; ln -s a/../../../etc tricky
ln -s /task/in/file stays; echo x > file; cp file setuid; chmod 4755 setuid; cp file setgid; chmod 2755 setgid
mkfifo fifo; ln -s . self; ln -s /task2 near; mkdir a; ln -s / root; ln -s /task/in/root/etc through
touch "$(printf 'ba\\377d\\nname')"; ln -s /etc "$(printf 'li\\377nk')"; ln -s /etc /task/way
"""
_LEFT = ("file", "stays", "self", "through", "a")
_OUT = ("out", "up", "tricky", "setuid", "setgid", "fifo", "near", "root", "li\\xffnk")


async def _carried(yard: Yard, stacks: tuple[Rootfs, Rootfs], *paths: str) -> tuple[Path, dict[str, Any]]:
    layer = yard.folder / "answer"
    report = await yard.driver.trees.carry(*stacks, paths, layer)
    told: dict[str, Any] = json.loads(report.read_text())
    return layer, told


class AnswerContract(Makes):
    """Some paths of one disk, over another one."""

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_an_answer_is_its_paths_and_nothing_else(self, yard: Yard) -> None:
        first = await yard.devbox()
        await yard.text(first, _PRISTINE)
        below = await yard.layer(first)
        second = await yard.devbox(rootfs=yard.on_top(below))
        await yard.text(second, _WORK)
        stacks = (yard.on_top(await yard.layer(second), below), yard.on_top(below))
        layer, told = await _carried(yard, stacks, *_PATHS, *_MORE)
        assert (told["refused"], told["exceeded"]) == ([], None)
        assert told["entries"] == 15
        third = await yard.devbox(rootfs=yard.on_top(layer, below))
        assert await yard.text(third, _LOOK) == _SEEN.strip()

    @contract(Capability.SNAPSHOTS, Capability.IMAGES, Capability.USERS)
    async def test_an_answer_keeps_its_owners(self, yard: Yard) -> None:
        first = await yard.devbox()
        await yard.text(first, "mkdir -m 777 /task")
        below = await yard.layer(first)
        second = await yard.devbox(rootfs=yard.on_top(below))
        await yard.text(second, "mkdir /task/d; echo x > /task/d/f; ln -s f /task/d/l", user="1234")
        stacks = (yard.on_top(await yard.layer(second), below), yard.on_top(below))
        layer, _told = await _carried(yard, stacks, "/task/d")
        third = await yard.devbox(rootfs=yard.on_top(layer, below))
        assert await yard.text(third, "stat -c %u /task /task/d /task/d/f /task/d/l") == "0\n1234\n1234\n1234"

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_what_could_cheat_is_left_out_by_name(self, yard: Yard) -> None:
        first = await yard.devbox()
        await yard.text(
            first, "mkdir -p /task/way /task/in; echo base > /task/way/file; echo base > /task/in/out"
        )
        below = await yard.layer(first)
        second = await yard.devbox(rootfs=yard.on_top(below))
        await yard.text(second, f"rm -r /task/way /task/in; {_HOSTILE}")
        stacks = (yard.on_top(await yard.layer(second), below), yard.on_top(below))
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
    async def test_work_is_carried_as_it_is_and_nothing_beside_it(self, yard: Yard) -> None:
        first = await yard.devbox()
        await yard.text(
            first, "mkdir -p /home/own/task /srv; echo base > /srv/tool; echo base > /home/own/.rc"
        )
        below = await yard.layer(first)
        second = await yard.devbox(rootfs=yard.on_top(below))
        await yard.text(second, _WHOLE_WORK)
        stacks = (yard.on_top(await yard.layer(second), below), yard.on_top(below))
        layer = yard.folder / "work"
        report = await yard.driver.trees.carry_work(*stacks, ("/home/own/task",), "/home/own", layer)
        assert json.loads(report.read_text())["exceeded"] is None
        third = await yard.devbox(rootfs=yard.on_top(layer, below))
        assert await yard.text(third, _WHOLE_LOOK) == _WHOLE_SEEN.strip()

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_an_answer_too_large_is_refused(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "mkdir -p /task/sparse; truncate -s 2G /task/sparse/file")
        stacks = (yard.on_top(await yard.layer(devbox)), yard.rootfs)
        _layer, told = await _carried(yard, stacks, "/task/sparse")
        assert "1073741824 bytes" in told["exceeded"]
