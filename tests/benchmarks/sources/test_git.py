"""Trees of git repositories: by commit, branch or tag, all or some folders, and nothing of them is run."""

import base64
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks.sources import git
from benchyard.benchmarks.sources.base import FetchLimits, GitTree, HubDatasets, SilentProgress
from benchyard.benchmarks.sources.retrieval import commit_of, fetch
from benchyard.errors import DatasetError, UsageError


class Repository:
    """A repository with two commits on `main`, a tag on the first, and a branch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"file://{path}"
        path.mkdir()
        self.run("init", "--quiet", "--initial-branch=main")
        self.first = self.commit({"tasks/one/task.toml": "1", "tasks/two/task.toml": "2", "README": "r"})
        self.run("tag", "-a", "v1", "-m", "first")
        self.run("branch", "side/way")
        self.second = self.commit({"tasks/one/task.toml": "1b", "odd [x] #/a b": "odd"})

    def commit(self, files: dict[str, str]) -> str:
        for name, text in files.items():
            place = self.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        self.run("add", "--all")
        self.run("commit", "--quiet", "--message", "more")
        return self.run("rev-parse", "HEAD").strip()

    def run(self, *arguments: str) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            **{
                f"GIT_{who}_{what}": "somebody"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
        }
        command = ["git", "-C", str(self.path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("git") / "some repo".replace(" ", "-"))


def below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}


def test_a_commit_is_fetched_once(tmp_path: Path, repository: Repository) -> None:
    tree = GitTree(repository.url, repository.first)
    folder = fetch(tree, tmp_path, SilentProgress())
    assert below(folder) == {"README", "tasks/one/task.toml", "tasks/two/task.toml"}
    assert (folder / "tasks/one/task.toml").read_text() == "1"
    assert git.commit_of(folder) == repository.first
    (folder / "README").write_text("from the cache")
    assert (fetch(tree, tmp_path, SilentProgress()) / "README").read_text() == "from the cache"
    assert not list(tmp_path.rglob("*.partial"))


def test_only_the_named_folders_are_there(tmp_path: Path, repository: Repository) -> None:
    folder = fetch(GitTree(repository.url, repository.second, ("tasks/two",)), tmp_path, SilentProgress())
    assert below(folder) == {"tasks/two/task.toml"}
    odd = fetch(
        GitTree(repository.url, repository.second, ("odd [x] #", "README")), tmp_path, SilentProgress()
    )
    assert below(odd) == {"odd [x] #/a b", "README"}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, repository: Repository) -> None:
    with pytest.raises(DatasetError, match="has no tasks/lost at"):
        fetch(
            GitTree(repository.url, repository.second, ("tasks/one", "tasks/lost")),
            tmp_path,
            SilentProgress(),
        )
    assert not [path for path in tmp_path.rglob("*") if path.name == "task.toml"]


def test_a_branch_is_remembered_while_its_server_is_away(tmp_path: Path, repository: Repository) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(repository.path), str(copy)], check=True)
    tree = GitTree(f"file://{copy}", "main")
    folder = fetch(tree, tmp_path / "cache", SilentProgress())
    assert commit_of(tree, folder) == repository.second
    copy.rename(tmp_path / "gone")
    assert fetch(tree, tmp_path / "cache", SilentProgress()) == folder


@pytest.mark.parametrize(
    ("ref", "which"), [("", "second"), ("@main", "second"), ("@v1", "first"), ("@side/way", "first")]
)
def test_branch_or_tag_resolves_to_a_commit(repository: Repository, ref: str, which: str) -> None:
    found = git.resolve_tree(repository.url + ref)
    assert (found.url, found.revision) == (repository.url, getattr(repository, which))


def test_a_commit_is_taken_as_it_is(repository: Repository) -> None:
    assert git.resolve_tree(f"{repository.url}@{'a' * 40}").revision == "a" * 40


def test_missing_ref_commit_or_path_is_refused(tmp_path: Path, repository: Repository) -> None:
    with pytest.raises(UsageError, match="no branch or tag 'lost'"):
        git.resolve_tree(f"{repository.url}@lost")
    with pytest.raises(DatasetError, match=f"has no commit {'a' * 40}"):
        fetch(GitTree(repository.url, "a" * 40), tmp_path, SilentProgress())
    with pytest.raises(DatasetError, match="git cannot get file:///nowhere/at/all"):
        fetch(GitTree("file:///nowhere/at/all", "a" * 40), tmp_path, SilentProgress())
    assert not [path for path in tmp_path.rglob("*") if path.is_dir() and path.name in ("all", "all.partial")]


def test_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither hooks of templates nor filters of large files, whatever the user's git is set to."""
    home, trap = tmp_path / "home", tmp_path / "trap"
    (home / "template/hooks").mkdir(parents=True)
    script = home / "template/hooks/post-checkout"
    script.write_text(f"#!/bin/sh\ntouch {trap}\n")
    script.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[init]\ntemplateDir = {home}/template\n[core]\nhooksPath = {home}/template/hooks\n"
        f'[filter "lfs"]\nsmudge = touch {trap}\nprocess = touch {trap}\nrequired = true\n'
    )
    repository = Repository(tmp_path / "repo")
    commit = repository.commit({".gitattributes": "*.bin filter=lfs\n", "large.bin": "version pointer\n"})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    folder = fetch(GitTree(repository.url, commit), tmp_path / "cache", SilentProgress())
    assert (folder / "large.bin").read_text() == "version pointer\n"
    assert not trap.exists()


def test_submodules_are_left_out(tmp_path: Path, repository: Repository) -> None:
    outer = Repository(tmp_path / "outer")
    outer.run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", repository.url, "inner")
    commit = outer.commit({"more": "more"})
    folder = fetch(GitTree(outer.url, commit), tmp_path / "cache", SilentProgress())
    assert list((folder / "inner").iterdir()) == []


def test_fetch_over_its_limits_is_ended(tmp_path: Path, repository: Repository) -> None:
    with pytest.raises(DatasetError, match="did not end in 0 seconds"):
        git.fetch(
            GitTree(repository.url, repository.first), tmp_path, SilentProgress(), FetchLimits(seconds=0.0)
        )
    large = Repository(tmp_path / "large")
    commit = large.commit({"large": os.urandom(300_000).hex()})
    with pytest.raises(DatasetError, match="git cannot get"):
        git.fetch(GitTree(large.url, commit), tmp_path, SilentProgress(), FetchLimits(file_bytes=100_000))


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    tree = GitTree("http://me:very-secret@127.0.0.1:1/owner/name.git", "a" * 40)
    with pytest.raises(DatasetError) as told:
        fetch(tree, tmp_path, SilentProgress())
    assert "git cannot get http://127.0.0.1:1/owner/name.git" in told.value.message
    assert "very-secret" not in told.value.message + repr(tree)
    assert not [path for path in tmp_path.rglob("*") if "secret" in path.name]


def test_credentials_reach_who_asks_for_them(tmp_path: Path) -> None:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_response(404 if seen[-1] else 401)
            self.send_header("WWW-Authenticate", 'Basic realm="here"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *_arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with pytest.raises(DatasetError, match="not found") as told:
                git.resolve_tree(f"http://me:very-secret@127.0.0.1:{server.server_port}/owner/name@main")
        finally:
            server.shutdown()
            thread.join()
    assert "Basic " + base64.b64encode(b"me:very-secret").decode() in seen
    assert "very-secret" not in told.value.message


def test_without_git_it_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DatasetError, match="no git on this machine"):
        git.resolve_tree("https://host.example/owner/name@v1")


def test_trees_are_parts_of_several(repository: Repository, tmp_path: Path) -> None:
    """Each in a folder of its own, with the commit that its branch had."""
    several = HubDatasets((GitTree(repository.url, "main", ("tasks",)),))
    folder = fetch(several, tmp_path, SilentProgress())
    (part,) = folder.iterdir()
    assert part.name.endswith("--some-repo")
    assert (part / "tasks/one/task.toml").read_text() == "1b"
    assert commit_of(several, folder).endswith(f"/some-repo@{repository.second}")
