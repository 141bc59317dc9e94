"""Datasets that a registry or a manifest names, as they are imported."""

import json
from pathlib import Path

import pytest

from benchyard.client import Client, Server
from benchyard.client.benchmark_files import benchmark_import
from benchyard.client.benchmark_files.benchmark_import import BenchmarkImport
from benchyard.errors import NotFound, UsageError
from benchyard.testing.server import RunningServer
from tests.benchmarks.tasks import Task, TaskWriter


def written(folder: Path) -> TaskWriter:
    writer = TaskWriter(folder, "example.test/base")
    for name in ("one", "two", "three"):
        writer.write(name, Task())
    return writer


def test_a_dataset_of_a_registry(fake_server: RunningServer, tmp_path: Path) -> None:
    written(tmp_path / "tasks")
    versions = {"1.0": ["one"], "2.0": ["two", "one"], "10.0": ["three"]}
    listed = [
        {
            "name": "sums",
            "version": version,
            "description": f"Sums, {version}",
            "tasks": [{"name": name, "path": f"tasks/{name}"} for name in names],
        }
        for version, names in versions.items()
    ]
    path = tmp_path / "registry.json"
    path.write_text(json.dumps(listed))
    with Client(Server(fake_server.url, fake_server.key)) as client:
        with pytest.raises(UsageError, match="--name"):
            benchmark_import.import_benchmark(client, BenchmarkImport(str(path)))
        with pytest.raises(NotFound, match="no version"):
            benchmark_import.import_benchmark(client, BenchmarkImport(str(path), name="sums@3.0"))
        done = benchmark_import.import_benchmark(
            client, BenchmarkImport(str(path), name="sums@2.0", dry_run=True)
        )
        newest = benchmark_import.import_benchmark(
            client, BenchmarkImport(str(path), name="sums", dry_run=True)
        )
    assert [each.name.rpartition("/")[2] for each in done.scenarios] == ["two", "one"]
    assert [each.name.rpartition("/")[2] for each in newest.scenarios] == ["three"]


def test_a_folder_with_a_manifest_has_its_name(fake_server: RunningServer, tmp_path: Path) -> None:
    written(tmp_path / "folder")
    (tmp_path / "folder/dataset.toml").write_text(
        '[dataset]\nname = "example/sums"\nversion = "1.2"\ndescription = "Sums"\n'
    )
    with Client(Server(fake_server.url, fake_server.key)) as client:
        done = benchmark_import.import_benchmark(
            client, BenchmarkImport(str(tmp_path / "folder"), dry_run=True)
        )
    assert done.benchmark.name == "example-sums"
    assert len(done.scenarios) == 3


def test_a_folder_may_be_called_as_a_public_benchmark(
    fake_server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "aime")
    monkeypatch.chdir(tmp_path)
    with Client(Server(fake_server.url, fake_server.key)) as client:
        done = benchmark_import.import_benchmark(client, BenchmarkImport("./aime", dry_run=True))
    assert len(done.scenarios) == 3
