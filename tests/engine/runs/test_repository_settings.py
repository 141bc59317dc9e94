"""What git obeys in a repository that an agent worked in, by names and by what files say."""

import pytest

from benchyard.engine.runs.repository_settings import changes_git, is_obeyed, is_replaced, is_to_be_read

GIT = "/home/user/work/.git"
CONFIG = f"{GIT}/config"
HONEST = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[remote "origin"]
\turl = https://example.com/some/filter [alias].git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
[user]
\tname = A. Driver
\temail = command@example.com ; worktree = x
[a]
\tb = c
"""


def test_honest_settings_change_nothing() -> None:
    assert not changes_git(CONFIG, HONEST.encode())
    assert not changes_git(CONFIG, b"")


@pytest.mark.parametrize(
    "line",
    [
        "[core]\n\thooksPath = /tmp/x",
        "[CORE] HooksPath=/tmp/x",
        "[core]fsmonitor",
        "[core]\n worktree = /home/user/other",
        "[core]\nbare",
        "[core] bare = TRUE",
        "[core]\nbare = 1",
        "[include]\npath = ../x",
        '[includeIf "gitdir:/"] path=x',
        '[filter "x"]\n smudge = cat /tmp/x',
        "[ filter.x ]\n clean = true",
        '[diff "x"]\n\ttextconv = true',
        "[diff]external=true",
        '[merge "x"]\n driver = true',
        '[hook "x"]\n event = post-checkout',
        "[extensions]\n worktreeConfig = true",
        '[remote "o"]\n promisor = true',
        '[submodule "x"]\n ignore = all',
        "[status]\r\n\tx = 1\r\n[core]\r\n\texcludesFile = /tmp/x\r\n",
        '[user] name = x \\\n[core]\nattributesFile = "/tmp/x"',
    ],
)
def test_settings_that_have_git_do_something_else_are_found(line: str) -> None:
    assert changes_git(CONFIG, f"{HONEST}{line}\n".encode())


def test_what_is_too_large_to_be_honest_counts() -> None:
    assert changes_git(CONFIG, b"#" * 70_000)
    assert not changes_git(f"{GIT}/packed-refs", b"0123 refs/tags/x\n" * 10_000)
    assert changes_git(f"{GIT}/packed-refs", b"0123 refs/replace/0123456789\n")


def test_files_that_git_obeys_are_known_by_their_names() -> None:
    for name in ("hooks/post-checkout", "info/attributes", "commondir", "refs/replace/0123"):
        assert is_obeyed(f"{GIT}/{name}"), name
        assert is_obeyed(f"{GIT}/modules/a/b/{name}"), name
    for name in ("hooks/pre-commit.sample", "info/exclude", "HEAD", "refs/heads/main", "config", "index"):
        assert not is_obeyed(f"{GIT}/{name}"), name
    assert is_to_be_read(CONFIG)
    assert is_to_be_read(f"{GIT}/modules/a/b/config")
    assert not is_to_be_read("/home/user/work/config")


def test_what_git_never_changes_was_replaced() -> None:
    assert is_replaced(GIT, "modified", "file")
    assert is_replaced(GIT, "modified", "link")
    assert not is_replaced(GIT, "modified", "folder")
    assert not is_replaced("/home/user/work/sub/.git", "added", "file")
    for name in ("objects/ab/0123", "objects/pack/pack-1.pack", "modules/x/objects/ab/01"):
        assert is_replaced(f"{GIT}/{name}", "modified", "file"), name
        assert not is_replaced(f"{GIT}/{name}", "added", "file"), name
        assert not is_replaced(f"{GIT}/{name}", "deleted", "file"), name
    assert not is_replaced(f"{GIT}/objects/info/commit-graph", "modified", "file")
