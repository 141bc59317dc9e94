"""Dockerfiles as lists of instructions with their lines."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.errors import BuildFailed
from benchyard.images.dockerfile.bases import Bases
from benchyard.images.dockerfile.parser import parse_dockerfile

WHOLE = r"""# syntax=docker/dockerfile:1
# a comment
ARG TAG=1
from  base:$TAG  as One

RUN --mount=type=bind,from=tools:2,target=/t \
    # inside
    echo a \

    && echo b
COPY --from=one /a /a
COPY --from=0 /a /a
COPY --from=busybox:1 /a /a
RUN <<EOF
FROM not-an-instruction
EOF
FROM one
"""


def test_instructions_have_their_lines() -> None:
    found = parse_dockerfile(WHOLE).instructions
    assert [(each.first, each.last, each.name) for each in found] == [
        (3, 3, "ARG"),
        (4, 4, "FROM"),
        (6, 10, "RUN"),
        (11, 11, "COPY"),
        (12, 12, "COPY"),
        (13, 13, "COPY"),
        (14, 16, "RUN"),
        (17, 17, "FROM"),
    ]
    assert found[2].rest == "echo a     && echo b"
    assert found[2].flags == ("--mount=type=bind,from=tools:2,target=/t",)
    assert found[6].heredocs[0].content == "FROM not-an-instruction\n"


def test_images_are_distinguished_from_stages() -> None:
    bases = Bases(parse_dockerfile(WHOLE), {})
    assert {name: each.first for name, each in bases.references().items()} == {
        "base:1": 4,
        "tools:2": 6,
        "busybox:1": 13,
    }
    assert "base:7" in Bases(parse_dockerfile(WHOLE), {"TAG": "7"}).references()


def test_images_get_other_names_and_lines_stay() -> None:
    renamed = Bases(parse_dockerfile(WHOLE), {}).renamed(
        {"base:1": "x/b", "tools:2": "x/t", "busybox:1": "x/y"}
    )
    text = renamed.replaced(
        {instruction: [instruction.text] for instruction in renamed.instructions if not instruction.heredocs}
    )
    lines = text.split("\n")
    assert lines[3] == "FROM x/b as One"
    assert lines[5].startswith("RUN --mount=type=bind,from=x/t,target=/t echo a")
    assert lines[12] == "COPY --from=x/y /a /a"
    assert lines[16] == "FROM one"


def test_the_escape_character_can_be_another() -> None:
    found = parse_dockerfile("# escape=`\nFROM a\nRUN a `\n b\\\nRUN c\n").instructions
    assert [each.rest for each in found] == ["a", "a  b\\", "c"]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("FROM a\nFRUB x\n", 2, "unknown instruction FRUB"),
        ("FROM a\n\nRUN\n", 3, "RUN needs an argument"),
        ("RUN x\nFROM a\n", 1, "RUN before FROM"),
        ("FROM a b\n", 1, "FROM is written"),
        ("FROM a\nRUN <<EOF\nx\n", 2, "the here-document 'EOF' has no end"),
        ("FROM $NOTHING\n", 1, "FROM names no image"),
        ("FROM ${X\n", 1, "not of a form"),
    ],
)
def test_mistake_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(BuildFailed, match=rf"^Dockerfile line {line}: .*{problem}") as caught:
        Bases(parse_dockerfile(text), {})
    assert caught.value.details["line"] == line


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "no FROM"), ("# x\nARG A\n", "no FROM"), ("FROM a\0", "null byte"), ("#" * 2**21, "larger")],
)
def test_invalid_dockerfile_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BuildFailed, match=problem):
        parse_dockerfile(text)


PIECES = st.sampled_from(
    [
        "FROM a",
        "RUN x",
        "\\",
        "\n",
        "<<EOF",
        "EOF",
        "COPY",
        "--from=b",
        " ",
        "\t",
        "#",
        "ARG A=1",
        "$A",
        "[",
        '"',
        "'",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_dockerfile(text)
        Bases(found, {})
    except BuildFailed:
        return
    spans = [(instruction.first, instruction.last) for instruction in found.instructions]
    assert all(first <= last < after for (first, last), (after, _) in pairwise(spans))
    assert spans[-1][1] <= len(text.split("\n"))
