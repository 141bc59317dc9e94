"""Builds in control groups: what uses up its memory ends, and no group stays."""

import os
from pathlib import Path

import pytest

from benchyard.devboxes.local_trees import LocalTrees
from benchyard.devboxes.shared import cgroups
from benchyard.errors import BuildFailed
from benchyard.hosts.build_cgroups import BuildCgroups
from benchyard.images.builders.base import BuildLimits, BuildRecipe
from benchyard.images.builders.choice import open_builder
from benchyard.images.store import ImageIdentity, ImageStore
from tests.images.builders.conftest import BASE, busybox, run
from tests.images.conftest import make_machine

__all__ = ["busybox"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for control groups")


def test_a_build_that_uses_up_its_memory_ends_with_that_reason(tmp_path: Path, busybox: Path) -> None:
    folder = tmp_path / "images"
    groups = BuildCgroups(folder)
    lines: list[str] = []

    async def scene() -> None:
        store = ImageStore(folder, LocalTrees(), root=make_machine(tmp_path / "machine"))
        await store.open()
        await store.import_archive(busybox, BASE)
        builder = await open_builder(store, folder, LocalTrees(), groups)
        limits = BuildLimits(memory_bytes=256 * 1024**2)
        recipe = BuildRecipe(f"FROM {BASE}\nRUN echo small\nRUN tail /dev/zero\n", limits=limits)
        with pytest.raises(BuildFailed, match="used up its memory") as caught:
            await builder.build(recipe, ImageIdentity("never"), lines.append)
        assert caught.value.reason == "out_of_memory"
        await builder.build(
            BuildRecipe(f"FROM {BASE}\nRUN echo small\n", limits=limits), ImageIdentity("x"), lines.append
        )

    run(scene())
    assert "small" in lines
    assert cgroups.find_groups(cgroups.owner(folder)) == []


def test_groups_a_server_left_are_removed(tmp_path: Path) -> None:
    groups = BuildCgroups(tmp_path)
    owner = cgroups.owner(tmp_path)
    with groups.opened("build-1", 2**30) as group:
        assert group.folders
        (group.folders[0] / "left").mkdir()
        assert not group.ran_out_of_memory()
    assert cgroups.find_groups(owner) == []
    made = cgroups.detect(owner)
    assert made.leftovers() == []
    assert cgroups.find_groups(owner)
    groups.clear()
    assert cgroups.find_groups(owner) == []
