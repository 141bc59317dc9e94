"""What every driver with snapshots owes to whoever asks what was changed on a disk."""

import json
from typing import Any

from benchyard.devboxes.base import Capability
from benchyard.testing.yard import Makes, Yard, contract

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
_HOSTILE = r"""
mkdir /made; cd /made; touch "$(printf 'not\377utf')" "$(printf 'new\nline')" '"quoted"' '\x41'
"""


async def _note(yard: Yard, devbox: str) -> bool:
    await yard.driver.freeze(devbox)
    try:
        async with yard.driver.storage.changes(yard.specs[devbox]) as changes:
            return await yard.driver.trees.note(changes, yard.specs[devbox].folder / "mark")
    finally:
        await yard.driver.thaw(devbox)


async def _compare(yard: Yard, devbox: str, *aside: str) -> dict[str, Any]:
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
    return {(path, kind, type_) for path, kind, type_, _mode, _size in found["changes"]}


class ChangeContract(Makes):
    """Marks of disks, and what is different since."""

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_every_change_is_told_and_nothing_else(self, yard: Yard) -> None:
        first = await yard.devbox()
        await yard.text(first, "touch /etc/restored /etc/edited /etc/removed")
        layers = yard.on_top(await yard.layer(first))
        devbox = await yard.devbox(rootfs=layers)
        await yard.text(devbox, _SETUP)
        assert await _note(yard, devbox)
        assert await _compare(yard, devbox) == {"changes": [], "total": 0, "truncated": False, "exact": True}
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
    async def test_a_folder_that_was_replaced_is_told(self, yard: Yard) -> None:
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
            ("/base/other", "modified", "folder"),
        }

    @contract(Capability.SNAPSHOTS)
    async def test_hostile_names_and_numbers_are_bounded(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await _note(yard, devbox)
        root = "" if Capability.ISOLATION in yard.driver.capabilities else "cd ..; "
        made = "/made" if not root else "made"
        await yard.text(devbox, root + _HOSTILE.replace("/made", made))
        found = await _compare(yard, devbox)
        names = {path.rpartition("made/")[2] for path, *_rest in found["changes"]}
        assert {"not\\xffutf", "new\nline", '"quoted"', "\\x41"} <= names
        await yard.text(devbox, f"{root}cd {made}; seq 1 10500 | xargs touch")
        found = await _compare(yard, devbox)
        assert (len(found["changes"]), found["truncated"]) == (10_000, True)
        assert found["total"] >= 10_500

    @contract(Capability.SNAPSHOTS)
    async def test_a_tree_too_deep_to_name_is_survived(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        await _note(yard, devbox)
        deep = "i=0; while [ $i -lt 300 ]; do mkdir {0} && cd -P {0} || exit 9; i=$((i+1)); done"
        await yard.run(devbox, deep.format("d" * 100))
        found = await _compare(yard, devbox)
        assert found["truncated"]
        assert await _note(yard, devbox) is False
