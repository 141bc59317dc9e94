"""Extensions by name."""

import sys
from pathlib import Path

import pytest

from benchyard import registry
from benchyard.devboxes.base import Driver
from benchyard.errors import NotFound, NotSupported


def test_the_folder_is_the_list_of_drivers() -> None:
    assert registry.names("devboxes") == ["container", "fake", "native", "pretend", "process"]


@pytest.mark.parametrize("name", ["container", "fake", "native", "pretend", "process"])
def test_a_driver_is_loaded_by_its_name(name: str) -> None:
    assert issubclass(registry.load("devboxes", name), Driver)


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(NotFound, match="fake, native, pretend, process"):
        registry.load("devboxes", "firecracker")


@pytest.mark.parametrize("name", ["base", "local_trees", "guest", "../native", "native.py", ""])
def test_module_without_a_driver_cannot_be_loaded(name: str) -> None:
    with pytest.raises(NotFound):
        registry.load("devboxes", name)


@pytest.fixture
def outsider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of somebody else's, installed beside ours."""
    info = tmp_path / "outsider-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outsider\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[benchyard.devboxes]\nmoon-base = outsider:MoonDriver\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "outsider", raising=False)
    return tmp_path / "outsider.py"


def test_outsiders_add_drivers_by_entry_point(outsider: Path) -> None:
    outsider.write_text("class MoonDriver: ...\n")
    assert "moon-base" in registry.names("devboxes")
    assert registry.load("devboxes", "moon-base").__name__ == "MoonDriver"


def test_failed_import_names_the_missing_module(outsider: Path) -> None:
    outsider.write_text("import a_package_nobody_has\n")
    with pytest.raises(NotSupported, match="a_package_nobody_has"):
        registry.load("devboxes", "moon-base")


def test_entry_point_that_is_not_a_class_is_refused(outsider: Path) -> None:
    outsider.write_text("MoonDriver = 1\n")
    with pytest.raises(NotSupported, match="not a class"):
        registry.load("devboxes", "moon-base")
