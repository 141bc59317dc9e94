"""`.dockerignore` as docker reads it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.client.build_context import IgnoreRules

NAMES = st.text(alphabet="ab.*", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(st.text(alphabet="abc.", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("lines", "path", "is_left_out"),
    [
        (["a"], "a", True),
        (["a"], "a/b", True),
        (["a"], "b/a", False),
        (["/a"], "a", True),
        (["./a/"], "a", True),
        (["x/../a"], "a", True),
        (["*"], "a", True),
        (["*"], "a/b", True),
        (["*.md"], "README.md", True),
        (["*.md"], "docs/README.md", False),
        (["**/*.md"], "README.md", True),
        (["**/*.md"], "docs/deep/README.md", True),
        (["**/README.md"], "docs/README.md", True),
        (["**README.md"], "docs/README.md", True),
        (["a/**"], "a", False),
        (["a/**"], "a/b/c", True),
        (["a/**/z"], "a/z", True),
        (["a/**/z"], "a/b/c/z", True),
        (["**"], "anything/at/all", True),
        (["temp?"], "tempa", True),
        (["temp?"], "temp", False),
        (["*/temp*"], "a/temporary.txt", True),
        (["*/temp*"], "a/b/temporary.txt", False),
        (["[ab].txt"], "a.txt", True),
        (["[^ab].txt"], "a.txt", False),
        (["[a-c]x"], "bx", True),
        (["a?b"], "a/b", False),
        ([r"\*"], "*", True),
        ([r"\*"], "a", False),
        (["# a"], "# a", False),
        ([" #a"], "#a", True),
        (["", "  ", "."], "a", False),
        (["  a  "], "a", True),
        (["*.md", "!README.md"], "README.md", False),
        (["*.md", "!README.md"], "other.md", True),
        (["*.md", "!README*.md", "README-secret.md"], "README-secret.md", True),
        (["*.md", "README-secret.md", "!README*.md"], "README-secret.md", False),
        (["a", "!a/keep"], "a/keep", False),
        (["a", "!a/keep"], "a/other", True),
        (["*", "!src"], "src/deep/file", False),
        (["! a"], "a", False),
        (["a.b"], "axb", False),
        (["a+(b)"], "a+(b)", True),
    ],
)
def test_rules(lines: list[str], path: str, is_left_out: bool) -> None:
    assert IgnoreRules(lines).leaves_out(path) is is_left_out


@given(PATHS)
def test_a_plain_path_leaves_out_itself_and_what_is_below(path: str) -> None:
    escaped = re.sub(r"([*?\[\\])", r"\\\1", path)
    if any(part in (".", "..") for part in path.split("/")):
        return
    assert IgnoreRules([escaped]).leaves_out(path)
    assert IgnoreRules([escaped]).leaves_out(f"{path}/below")
    assert not IgnoreRules([escaped, f"!{escaped}"]).leaves_out(path)


@given(st.lists(st.text(max_size=12), max_size=6), PATHS)
def test_any_dockerignore_is_read(lines: list[str], path: str) -> None:
    assert IgnoreRules(lines).leaves_out(path) in (True, False)
