"""What a scenario's author can write about a scorer, and what is said of mistakes."""

from pathlib import Path
from typing import Any

import pytest

from benchyard.errors import UsageError
from benchyard.scorers import catalog
from benchyard.scorers.base import ScoringContext

MIB = 1024**2


def refused(type: str, **fields: Any) -> str:
    with pytest.raises(UsageError) as caught:
        catalog.parse(type, fields, ScoringContext())
    assert len(caught.value.message) < 1000
    return caught.value.message


def test_the_types_of_the_protocol_are_there() -> None:
    assert {
        "ast_grep_scorer",
        "bash_script_scorer",
        "command_scorer",
        "custom_scorer",
        "python_script_scorer",
        "test_based_scorer",
    } <= set(catalog.types())


def test_an_unknown_type_is_answered_with_those_there_are() -> None:
    assert "command_scorer" in refused("magic_scorer")
    assert "command_scorer" in refused("command")


@pytest.mark.parametrize(
    ("type", "field"),
    [
        ("bash_script_scorer", "bash_script"),
        ("command_scorer", "command"),
        ("python_script_scorer", "python_script"),
        ("test_based_scorer", "test_command"),
    ],
)
def test_scripts_are_neither_missing_nor_empty_nor_huge(type: str, field: str) -> None:
    assert f"{field}: Field required" in refused(type)
    assert f"{field}: must not be empty" in refused(type, **{field: " \n"})
    assert f"{field}: must be at most 1 MiB" in refused(type, **{field: "é" * (MIB // 2 + 1)})
    assert field in refused(type, **{field: "\ud800"})
    catalog.parse(type, {field: "#" * MIB}, ScoringContext())


def files(*paths: str, content: str | None = None) -> dict[str, Any]:
    return {"test_command": "true", "test_files": [{"file_path": p, "file_contents": content} for p in paths]}


@pytest.mark.parametrize(
    "path", ["", "..", "../x", "a/../../x", "a\0b", "a/", "a/..", ".", "\ud800", "x" * 5000]
)
def test_paths_of_test_files_stay_where_they_belong(path: str) -> None:
    assert "test_files.0.file_path" in refused("test_based_scorer", **files(path))


def test_test_files_are_bounded() -> None:
    assert "test_files: must be at most 16 MiB" in refused(
        "test_based_scorer", **files("a", "b", content="x" * (8 * MIB + 1))
    )
    assert "test_files" in refused("test_based_scorer", **files(*map(str, range(1001))))
    assert "file_path" in refused("test_based_scorer", test_command="x", test_files=[{"file_contents": ""}])
    catalog.parse(
        "test_based_scorer", files("/test_index.py", "a/../b", "~/c", "...", "x..y"), ScoringContext()
    )
    catalog.parse("test_based_scorer", {"test_command": "true", "test_files": None}, ScoringContext())


def test_parameters_are_json_of_a_bounded_size() -> None:
    def custom(**params: Any) -> dict[str, Any]:
        return {"custom_scorer_type": "x", "scorer_params": params}

    assert "64 KiB" in refused("custom_scorer", **custom(a="x" * 65536))
    assert "JSON" in refused("custom_scorer", **custom(a=float("nan")))
    assert "benchyard" in refused("custom_scorer", **custom(benchyard={}))
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested" in refused("custom_scorer", **custom(a=deep))
    catalog.parse("custom_scorer", custom(a="x" * 65000, b={"c": [None, "\ud800"]}), ScoringContext())
    catalog.parse("custom_scorer", {"custom_scorer_type": "x", "scorer_params": None}, ScoringContext())


def test_patterns_are_arguments() -> None:
    assert "pattern" in refused("ast_grep_scorer", pattern="", search_directory=".")
    assert "pattern" in refused("ast_grep_scorer", pattern="a\0", search_directory=".")
    assert "pattern" in refused("ast_grep_scorer", pattern="a" * 70000, search_directory=".")
    assert "search_directory" in refused("ast_grep_scorer", pattern="a")
    assert "search_directory" in refused("ast_grep_scorer", pattern="a", search_directory="../..")


@pytest.mark.parametrize("version", ["three", "=3.12", ">=", "3.12; import os", "~", "x" * 2000])
def test_invalid_versions_of_python_are_refused(version: str) -> None:
    told = refused("python_script_scorer", python_script="print(1)", python_version_constraint=version)
    assert "python_version_constraint" in told


def test_scorers_of_others_are_found_by_their_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_own-1.0.dist-info").mkdir()
    (tmp_path / "their_own-1.0.dist-info/METADATA").write_text("Name: their-own\nVersion: 1.0\n")
    (tmp_path / "their_own-1.0.dist-info/entry_points.txt").write_text(
        "[benchyard.scorers]\ntheir_own = benchyard.scorers.command:CommandScorer\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "their_own_scorer" in catalog.types()
    assert catalog.parse("their_own_scorer", {"command": "true"}, ScoringContext()).config.command == "true"
