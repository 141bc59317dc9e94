"""Harbor's lists of datasets: read, resolved, and refused with key and line."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks.harbor.registry_files import (
    ManifestFile,
    ManifestTask,
    RegistryTask,
    newest,
    read_manifest,
    read_registry,
)
from benchyard.benchmarks.sources.base import GitTree
from benchyard.errors import NotFound, UsageError

URL = "https://host.example/owner/tasks.git"
COMMIT = "a" * 40


def task(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "git_url": URL, "git_commit_id": COMMIT, "path": f"tasks/{name}", **more}


def registry(tmp_path: Path, *datasets: Any) -> Path:
    path = tmp_path / "registry.json"
    path.write_text(json.dumps(datasets, indent=1))
    return path


def dataset(version: str, *tasks: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "some-set",
        "version": version,
        "description": "Some.",
        "tasks": tasks,
        "metrics": [{"type": "mean"}],
    }


def test_a_registry_is_read_and_says_what_to_fetch(tmp_path: Path) -> None:
    tasks = (
        task("one"),
        task("two"),
        task("three", git_commit_id="head"),
        task("four", git_commit_id=None, added_later=1),
        {"name": "five", "path": "here/five"},
    )
    found = read_registry(registry(tmp_path, dataset("1.0", *tasks))).find("some-set")
    assert found.tasks[0] == RegistryTask("one", "tasks/one", URL, COMMIT)
    assert found.tasks[4] == RegistryTask("five", "here/five")
    assert found.trees() == (
        GitTree(URL, COMMIT, ("tasks/one", "tasks/two")),
        GitTree(URL, "HEAD", ("tasks/three", "tasks/four")),
    )


def test_versions_are_found_or_listed_in_the_error(tmp_path: Path) -> None:
    found = read_registry(registry(tmp_path, *(dataset(version) for version in ("1.9", "1.10", "old"))))
    assert found.find("some-set").version == "1.10"
    assert found.find("some-set@old").version == "old"
    with pytest.raises(NotFound, match=r"no version '2'; there are: 1\.10, 1\.9, old"):
        found.find("some-set@2")
    with pytest.raises(NotFound, match="did you mean 'some-set'"):
        found.find("some-sett")


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["1.0", "head", "9"], "head"),
        (["1.9", "1.10", "z"], "1.10"),
        (["2.0rc1", "1.0"], "2.0rc1"),
        (["b", "c", "a"], "c"),
    ],
)
def test_the_newest_version(versions: list[str], expected: str) -> None:
    assert newest(versions) == expected


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (dataset("1", task("one"), {"name": "two"}), ":13: tasks.1.path: this is missing"),
        (dataset("1", task("one", path="../x")), "tasks.0.path: must be a path inside the folder"),
        (dataset("1", task("one", git_url="ext::sh -c id")), "tasks.0.git_url: the address"),
        (dataset("1", task("one", git_url="--upload-pack=id")), "tasks.0.git_url: this is not the address"),
        (dataset("1", task("one", git_commit_id="--x")), "tasks.0.git_commit_id"),
        ({"name": "x", "tasks": []}, "version: this is missing"),
        (
            {"name": "x", "version": 1.0, "tasks": []},
            ":4: version: Input should be a valid string (put it in quotes)",
        ),
        ("text", "a list of `key: value` is expected here"),
    ],
)
def test_a_mistake_in_a_registry_has_key_and_line(tmp_path: Path, broken: Any, said: str) -> None:
    path = registry(tmp_path, broken)
    with pytest.raises(UsageError) as told:
        read_registry(path)
    assert said in told.value.message
    assert told.value.message.startswith(f"{path}:")


def test_a_registry_is_a_list(tmp_path: Path) -> None:
    path = tmp_path / "registry.json"
    path.write_text("{}")
    with pytest.raises(UsageError, match=r"json:1: a list of datasets is expected"):
        read_registry(path)
    path.write_text("[\n{]")
    with pytest.raises(UsageError, match=r"json:2: this is not valid JSON"):
        read_registry(path)


DIGESTS = [f"sha256:{letter * 64}" for letter in "abc"]
MANIFEST = f"""
[dataset]
name = "owner/some-set"
version = "1.0"
description = "Some."
keywords = ["a"]
[[dataset.authors]]
name = "Somebody"

[[tasks]]
name = "owner/two"
digest = "{DIGESTS[1]}"

[[tasks]]
name = "owner/one"
digest = "{DIGESTS[0]}"

[[files]]
path = "metric.py"
digest = "{DIGESTS[2]}"

[[files]]
path = "notes.md"

[metadata]
anything = {{ at = "all" }}
"""


def manifest(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "dataset.toml"
    path.write_text(text)
    return path


def test_a_manifest_is_read(tmp_path: Path) -> None:
    found = read_manifest(manifest(tmp_path, MANIFEST))
    assert (found.name, found.version, found.description) == ("owner/some-set", "1.0", "Some.")
    assert found.tasks == (ManifestTask("owner/two", DIGESTS[1]), ManifestTask("owner/one", DIGESTS[0]))
    assert found.files == (ManifestFile("metric.py", DIGESTS[2]), ManifestFile("notes.md", None))
    assert found.metadata == {"anything": {"at": "all"}}


def test_the_digest_of_a_manifest_does_not_depend_on_order(tmp_path: Path) -> None:
    tasks = "\n".join(f'[[tasks]]\nname = "o/{letter}"\ndigest = "sha256:{letter * 64}"' for letter in "ba")
    found = read_manifest(manifest(tmp_path, f'[dataset]\nname = "o/s"\n{tasks}'))
    assert found.digest() == hashlib.sha256(f"{'a' * 64},{'b' * 64}".encode()).hexdigest()
    told = f"{'a' * 64},{'b' * 64};metric.py:{'c' * 64},notes.md:"
    assert read_manifest(manifest(tmp_path, MANIFEST)).digest() == hashlib.sha256(told.encode()).hexdigest()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("keywords", "keyword", "toml:6: dataset: unknown key `keyword`; did you mean `keywords`?"),
        ('name = "owner/one"', 'name = "one"', "toml:15: tasks.1.name: String should match"),
        (DIGESTS[0], "sha256:0", "toml:16: tasks.1.digest"),
        ('path = "metric.py"', 'path = "../metric.py"', "toml:19: files.0.path"),
        ('name = "owner/two"\n', "", "toml:10: tasks.0.name: this is missing"),
        ("[dataset]", 'schema_version = "2.0"\n[dataset]', "toml:2: schema_version '2.0' is not known"),
        ('version = "1.0"', "version = 1.0", "toml:4: dataset.version: Input should be a valid string"),
        ("[metadata]", "[metadata", "toml:25: this is not valid TOML"),
    ],
)
def test_a_mistake_in_a_manifest_has_key_and_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(UsageError) as told:
        read_manifest(manifest(tmp_path, MANIFEST.replace(old, new, 1)))
    assert said in told.value.message
