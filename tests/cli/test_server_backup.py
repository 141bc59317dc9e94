"""`benchyard server backup` and `restore`, beside a server that runs."""

import json
from pathlib import Path

from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine


def test_a_backup_of_a_running_server_comes_back(
    benchyard: CommandLine, fake_server: RunningServer, tmp_path: Path
) -> None:
    (tmp_path / "kept.txt").write_text("kept\n")
    kept = json.loads(benchyard.ok("object", "upload", str(tmp_path / "kept.txt"), "-o", "json"))["id"]
    archive, folder = tmp_path / "backup.tgz", tmp_path / "restored"
    made = json.loads(
        benchyard.ok("server", "backup", str(archive), "--data", str(fake_server.data), "-o", "json")
    )
    assert made["objects"] >= 1
    assert archive.stat().st_mode & 0o077 == 0
    benchyard.ok("server", "restore", str(archive), "--data", str(folder))
    for name in ("secret-key", "api-key"):
        assert (folder / name).read_bytes() == (fake_server.data / name).read_bytes()
    assert kept.encode() in (folder / "benchyard.db").read_bytes()
    assert b"kept\n" in [each.read_bytes() for each in (folder / "objects").rglob("*") if each.is_file()]
    again = benchyard("server", "restore", str(archive), "--data", str(folder))
    assert again.status == 5
    assert "not empty" in again.err
