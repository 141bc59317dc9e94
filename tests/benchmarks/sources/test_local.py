"""Files of a source in a copy on this machine."""

import hashlib
from pathlib import Path

import pytest

from benchyard.benchmarks.sources import local_copies
from benchyard.benchmarks.sources.base import HubDataset, SourceFile
from benchyard.errors import DatasetError

ONE = HubDataset("owner/set", "a" * 40, (SourceFile("data/test-00000-of-00001.parquet"),))
TWO = HubDataset("owner/set", "a" * 40, (SourceFile("papers.jsonl"), SourceFile("data/tasks.jsonl")))


def copy(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize(
    "names",
    [
        ["papers.jsonl", "data/tasks.jsonl", "data/tasks-old.jsonl"],
        ["papers.jsonl", "tasks.jsonl", "LICENSE"],
        ["a/papers.jsonl", "b/tasks.jsonl", ".git/papers.jsonl"],
        ["papers-sample.jsonl", "tasks-sample.jsonl", "scores-sample.jsonl"],
        ["papers.json", "tasks.csv"],
    ],
)
def test_files_are_found_by_path_name_or_beginning(tmp_path: Path, names: list[str]) -> None:
    found = local_copies.files_in_copy(TWO, copy(tmp_path, *names))
    assert {path: place.relative_to(tmp_path).as_posix() for path, place in found.items()} == {
        "papers.jsonl": names[0],
        "data/tasks.jsonl": names[1],
    }


def test_the_only_data_file_is_it(tmp_path: Path) -> None:
    copy(tmp_path, "sample.jsonl", "LICENSE", "README.md")
    assert local_copies.files_in_copy(ONE, tmp_path) == {ONE.files[0].path: tmp_path / "sample.jsonl"}


def test_a_file_may_be_given(tmp_path: Path) -> None:
    copy(tmp_path, "anything.jsonl", "other.jsonl")
    given = tmp_path / "anything.jsonl"
    assert local_copies.files_in_copy(ONE, given) == {ONE.files[0].path: given}


def test_of_several_candidates_none_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"several files could be .*a\.jsonl.*b\.jsonl.*give the file itself"
    ):
        local_copies.files_in_copy(ONE, copy(tmp_path, "a.jsonl", "b.jsonl"))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"lacks tasks\.jsonl; of data there is: papers\.jsonl"):
        local_copies.files_in_copy(TWO, copy(tmp_path, "papers.jsonl"))
    with pytest.raises(DatasetError, match="no data file in it"):
        local_copies.files_in_copy(ONE, copy(tmp_path / "other", "README.md"))
    with pytest.raises(DatasetError, match="is not there"):
        local_copies.files_in_copy(ONE, tmp_path / "lost")


def test_a_copy_is_official_by_its_checksum(tmp_path: Path) -> None:
    copy(tmp_path, "rows.jsonl")
    for digest, official in (
        (hashlib.sha256(b"rows.jsonl").hexdigest(), True),
        ("0" * 64, False),
        (None, False),
    ):
        source = HubDataset("owner/set", "a" * 40, (SourceFile("rows.jsonl", digest),))
        assert local_copies.is_official(source, local_copies.files_in_copy(source, tmp_path)) is official
