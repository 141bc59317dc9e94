"""`benchyard snapshot export` and `import`, `image export`, and snapshots as a tree."""

import json
import tarfile
from pathlib import Path

import pytest

from benchyard.cli.image.snapshot import branches
from benchyard.client import Client
from benchyard.models.snapshots import SnapshotView
from tests.cli.conftest import CommandLine
from tests.images.archives import PASSWD, layer


@pytest.fixture
def image(benchyard: CommandLine, tmp_path: Path) -> str:
    """The name of a small image."""
    (tmp_path / "small.tar").write_bytes(layer({"etc/passwd": PASSWD, "etc/mark": "mine"}))
    benchyard.ok("image", "import", str(tmp_path / "small.tar"), "--name", "small")
    return "small"


def test_an_image_goes_into_a_file_and_becomes_a_snapshot(
    benchyard: CommandLine, image: str, tmp_path: Path
) -> None:
    path = tmp_path / "small.oci"
    ended = benchyard("image", "export", image, str(path))
    assert ended.status == 0, ended.err
    assert ended.out == ""
    assert "packing" in ended.err
    with tarfile.open(path) as tar:
        assert tar.getnames()[:2] == ["oci-layout", "index.json"]
    made = json.loads(benchyard.ok("snapshot", "import", str(path), "--name", "moved", "-o", "json"))
    assert made["name"] == "moved"
    assert made["id"] in benchyard.ok("snapshot", "list")
    assert "name:    moved" in benchyard.ok("snapshot", "show", "moved")
    benchyard.ok("snapshot", "export", "moved", str(tmp_path / "again.oci"))
    assert (tmp_path / "again.oci").stat().st_size > 10_000
    benchyard.ok("snapshot", "delete", "moved")
    benchyard.ok("image", "delete", image)


def test_without_a_name_the_archives_own_is_kept(benchyard: CommandLine, image: str, tmp_path: Path) -> None:
    benchyard.ok("image", "export", image, str(tmp_path / "small.oci"))
    made = json.loads(benchyard.ok("snapshot", "import", str(tmp_path / "small.oci"), "-o", "json"))
    assert made["name"] == image
    benchyard.ok("snapshot", "delete", made["id"])
    benchyard.ok("image", "delete", image)


def test_invalid_export_or_import_is_refused(benchyard: CommandLine, tmp_path: Path) -> None:
    assert benchyard("snapshot", "export", "unknown", str(tmp_path / "x")).status == 4
    assert benchyard("image", "export", "host", str(tmp_path)).status == 2
    (tmp_path / "nonsense").write_text("nonsense")
    assert benchyard("snapshot", "import", str(tmp_path / "nonsense")).status == 11
    assert benchyard("snapshot", "import", str(tmp_path / "missing")).status == 2
    assert [path.name for path in tmp_path.iterdir()] == ["nonsense"]


def test_snapshots_are_shown_below_what_they_were_branched_from(
    benchyard: CommandLine, client: Client, box: str
) -> None:
    root = client.snapshots.create(box)
    made = json.loads(benchyard.ok("devbox", "create", "--snapshot", root.id, "-o", "json"))
    child = client.snapshots.create(made["id"])
    lines = benchyard.ok("snapshot", "list", "--tree").splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith(root.id))
    assert lines[place + 1].startswith(f"  {child.id}")
    assert f"branched from: {root.id}" in benchyard.ok("snapshot", "show", child.id)
    listed = json.loads(benchyard.ok("snapshot", "list", "--tree", "-o", "json"))
    assert [each["source_snapshot_id"] for each in listed if each["id"] == child.id] == [root.id]
    client.devboxes.shutdown(made["id"])
    for id in (child.id, root.id):
        client.snapshots.delete(id)


def test_a_branch_whose_parent_is_gone_is_a_tree_of_its_own() -> None:
    def view(id: str, source: str | None, time: int) -> SnapshotView:
        return SnapshotView(
            id=id, create_time_ms=time, metadata={}, source_devbox_id="", source_snapshot_id=source
        )

    views = [view("c", "b", 3), view("orphan", "deleted", 4), view("b", "a", 2), view("a", None, 1)]
    views.append(view("b2", "a", 5))
    shown = [(depth, each.id) for depth, each in branches(views)]
    assert shown == [(0, "a"), (1, "b"), (2, "c"), (1, "b2"), (0, "orphan")]
