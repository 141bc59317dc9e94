"""A folder packed as a build context."""

import os
import tarfile
from pathlib import Path

import pytest

from benchyard.client.build_context import context_archive
from benchyard.errors import UsageError


def names(folder: Path, dockerfile: Path | None = None) -> list[str]:
    with context_archive(folder, dockerfile) as archive, tarfile.open(archive) as tar:
        return tar.getnames()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("src/a.py", "src/b.md", "node_modules/big/x", "README.md", "Dockerfile"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_everything_is_packed_with_links_as_links_and_without_owners(folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder-link").symlink_to("src")
    (folder / "run.sh").write_text("x")
    (folder / "run.sh").chmod(0o755)
    os.mkfifo(folder / "pipe")
    with context_archive(folder) as archive, tarfile.open(archive) as tar:
        members = {member.name: member for member in tar}
        assert tar.extractfile("src/a.py").read() == b"src/a.py"  # type: ignore[union-attr]
    assert not archive.exists()
    assert (members["link"].issym(), members["link"].linkname) == (True, "/etc/passwd")
    assert members["folder-link"].issym()
    assert "folder-link/a.py" not in members
    assert "pipe" not in members
    assert members["run.sh"].mode & 0o777 == 0o755
    assert {(member.uid, member.uname) for member in members.values()} == {(0, "")}


def test_ignored_files_stay_out_unless_included_again(folder: Path) -> None:
    (folder / ".dockerignore").write_text("node_modules\n**/*.md\n!README.md\n")
    assert sorted(names(folder)) == [".dockerignore", "Dockerfile", "README.md", "src", "src/a.py"]
    (folder / ".dockerignore").write_text("*\n!node_modules/big\n")
    assert sorted(names(folder)) == ["node_modules/big", "node_modules/big/x"]


def test_a_file_beside_the_dockerfile_comes_first(folder: Path) -> None:
    (folder / ".dockerignore").write_text("src\n")
    (folder / "Dockerfile.dockerignore").write_text("node_modules\n")
    packed = names(folder, folder / "Dockerfile")
    assert "src/a.py" in packed
    assert "node_modules" not in packed


def test_rules_that_are_not_text_are_refused(folder: Path) -> None:
    (folder / ".dockerignore").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        names(folder)
