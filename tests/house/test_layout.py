"""The tests mirror the source, so that a room's tests are found without searching."""

from tests.house.tree import PACKAGE, ROOT, modules

TESTS = ROOT / "tests"
NO_CODE = {"", "__main__"}


def has_tests(room: str) -> bool:
    return (TESTS / f"test_{room}.py").is_file() or any((TESTS / room).rglob("test_*.py"))


def test_every_room_has_its_tests() -> None:
    rooms = {module.room for module in modules()} - NO_CODE
    assert [room for room in sorted(rooms) if not has_tests(room)] == []


def test_every_folder_of_tests_is_a_room_or_about_the_whole() -> None:
    whole = {"house", "docs", "contracts", "e2e", "faults", "integrity", "sdk", "typescript"}
    rooms = {path.stem for path in PACKAGE.iterdir()}
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert folders <= rooms | whole
