"""Addresses of repositories: which are taken, what is shown, and where the reference begins."""

from pathlib import Path

import pytest

from benchyard.benchmarks.sources.git import parse_url, split_ref
from benchyard.errors import UsageError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/owner/name", "https://host/owner/name"),
        ("http://127.0.0.1:8080/name.git", "http://127.0.0.1:8080/name.git"),
        ("ssh://git@host/owner/name", "ssh://git@host/owner/name"),
        ("file:///srv/name", "file:///srv/name"),
        ("https://me:word@host/owner/name", "https://host/owner/name"),
        ("https://word@host:8443/owner/name", "https://host:8443/owner/name"),
        ("ssh://git:word@host/owner/name", "ssh://host/owner/name"),
    ],
)
def test_accepted_urls_are_shown_without_secrets(url: str, shown: str) -> None:
    found = parse_url(url)
    assert found.shown == shown
    assert (found.secret == url) == ("word" in url)
    assert "word" not in repr(found)
    assert found.name == "name"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "-oProxyCommand=id",
        "--upload-pack=id",
        "ext::sh -c id",
        "ext::sh%20-c%20id",
        "ext://sh",
        "git://host/name",
        "ftp://host/name",
        "file://host/name",
        "file://../name",
        "ssh://-oProxyCommand=id/name",
        "ssh://me@-oProxyCommand=id/name",
        "https://host",
        "https:///name",
        "https://host/name?x=1",
        "https://host/name#x",
        "https://host:port/name",
        "https://ho st/name",
        "https://host/na\nme",
        "https:host/name",
        "/srv/name",
        "name",
    ],
)
def test_unsafe_urls_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        parse_url(url)


def test_the_short_form_of_ssh_says_how_to_write_it() -> None:
    with pytest.raises(UsageError, match="ssh://USER@HOST/PATH"):
        parse_url("git@host:owner/name.git")


@pytest.mark.parametrize(
    ("given", "url", "ref"),
    [
        ("https://host/owner/name", "https://host/owner/name", None),
        ("https://host/owner/name@v1.2", "https://host/owner/name", "v1.2"),
        ("https://host/owner/name.git@feature/x", "https://host/owner/name.git", "feature/x"),
        ("https://me:word@host/owner/name@main", "https://me:word@host/owner/name", "main"),
        ("https://me:word@host/owner/name", "https://me:word@host/owner/name", None),
        ("ssh://git@host/owner/name", "ssh://git@host/owner/name", None),
        ("https://host/@owner/name", "https://host/@owner/name", None),
        ("https://host/@owner/name@v1", "https://host/@owner/name", "v1"),
        ("ext::sh -c id", "ext::sh -c id", None),
    ],
)
def test_where_the_reference_begins(given: str, url: str, ref: str | None) -> None:
    assert split_ref(given) == (url, ref)


@pytest.mark.parametrize("ref", ["", "-x", "--upload-pack=id", "a..b", "a b", "*", "a:b", "^a"])
def test_a_reference_is_a_name(ref: str) -> None:
    with pytest.raises(UsageError, match="branch, tag or commit"):
        split_ref(f"https://host/owner/name@{ref}")


def test_a_folder_may_have_an_at_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "a@b" / "name"
    folder.mkdir(parents=True)
    assert split_ref(f"file://{folder}") == (f"file://{folder}", None)
