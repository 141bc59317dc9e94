"""What Python scripts may ask for, and how what reaches further is refused."""

import contextlib
import time

import pytest
from packaging.specifiers import SpecifierSet

from benchyard.scorers.kits import pythons, requirements
from benchyard.testing.loop_probe import MOST_SECONDS

HEAD = """#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "numpy>=2",
#   "rich",
# ]
# ///
print(1.0)
"""


def test_requirements_are_read_as_their_files_are_written() -> None:
    text = """
    # a comment
    numpy >= 2 , < 3   # another
    requests[socks]==2.32.3 ; python_version < "4"
    rich \\
        == 13.9.4 \\
        --hash=sha256:6049d5e6ec054bf2779ab3358186963bac2ea89175919d699e378b99738c2a90
    """
    assert requirements.lines(text) == (
        "numpy<3,>=2",
        'requests[socks]==2.32.3; python_version < "4"',
        "rich==13.9.4 --hash=sha256:6049d5e6ec054bf2779ab3358186963bac2ea89175919d699e378b99738c2a90",
    )
    assert requirements.lines("") == requirements.lines("\n# nothing\n") == ()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-r other.txt", "'-r'"),
        ("--requirement=other.txt", "'--requirement'"),
        ("-c limits.txt", "'-c'"),
        ("-e .", "'-e'"),
        ("--find-links /etc", "'--find-links'"),
        ("-f /etc", "'-f'"),
        ("--index-url https://example.org/simple", "'--index-url'"),
        ("--extra-index-url=https://example.org/simple", "'--extra-index-url'"),
        ("--no-binary :all:", "'--no-binary'"),
        (". ", "'.'"),
        ("./folder", "files and folders"),
        ("/etc/passwd", "files and folders"),
        ("thing-1.0-py3-none-any.whl", "is a file"),
        ("THING.TAR.GZ", "is a file"),
        ("thing @ file:///etc/passwd", "is an address"),
        ("thing @ https://example.org/thing.whl", "is an address"),
        ("thing @ git+https://example.org/thing", "is an address"),
        ("git+https://example.org/thing", "files and folders"),
        ("file:///etc/passwd", "files and folders"),
        ("thing==${HOME}", "not allowed"),
        ('thing; os_name == "${HOME}"', "not allowed"),
        ("thing\x00", "not allowed"),
        ("thing --hash=sha256:zz", "hash"),
        ("thing --config-settings=x", "not a requirement"),
    ],
)
def test_requirements_outside_of_the_index_are_refused_by_name(line: str, told: str) -> None:
    with pytest.raises(ValueError, match="line 2: ") as caught:
        requirements.lines(f"numpy\n{line}")
    assert told in str(caught.value)


def test_requirements_are_few() -> None:
    with pytest.raises(ValueError, match="200"):
        requirements.lines("numpy\n" * 201)
    with pytest.raises(ValueError, match="64 KiB"):
        requirements.lines("#" * 70_000)


def test_the_head_of_a_script_asks_too() -> None:
    assert requirements.header(HEAD) == requirements.ScriptHeader(
        ("numpy>=2", "rich"), SpecifierSet(">=3.11")
    )
    assert requirements.header("print(1)\n# dependencies = ['x']\n") == requirements.ScriptHeader()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('"rich"', '"rich @ file:///etc"', "dependency 2: "),
        ('"rich"', '"-r x"', "'-r'"),
        ('"rich"', "7", "list of texts"),
        ('">=3.11"', '"soon"', "version of Python"),
        ('">=3.11"', "3.11", "must be a text"),
        ("# ]", "# ", "TOML"),
        ("# ]\n", "# ]\n# [tool.uv]\n# find-links = ['/etc']\n", "tool.uv"),
        ("print(1.0)\n", HEAD, "more than one"),
    ],
)
def test_heads_that_make_no_sense_are_refused(before: str, after: str, told: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        requirements.header(HEAD.replace(before, after, 1))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fits", "misses"),
    [
        ("==3.12.10", "3.12.10", "3.12.9"),
        ("3.12.10", "3.12.10", "3.12.9"),
        ("3.12", "3.12.9", "3.13.0"),
        ("3", "3.13.0", "4.0.0"),
        (" >=3.11, <3.13 ", "3.12.1", "3.13.0"),
        ("~=3.11", "3.99.0", "3.10.2"),
    ],
)
def test_versions_are_asked_for_in_the_ways_people_write_them(text: str, fits: str, misses: str) -> None:
    assert pythons.constraint(text).contains(fits)
    assert not pythons.constraint(text).contains(misses)


HEAD_OF = "# /// script\n# {}\n# ///\n"


@pytest.mark.parametrize(
    "script",
    [
        "# /// a\n" * 131_072,
        "# /// script\n" * 80_000,
        "# /// a\n\n" * 100_000,
        "# /// script\n#\n# ///\n" * 50_000,
        HEAD_OF.format("a" + ".a" * 7_000 + "=1"),
        HEAD_OF.format("x=" + "[" * 8_000),
        HEAD_OF.format("dependencies=[" + '"a",' * 3_900 + "]"),
        HEAD_OF.format("dependencies=['a" + ",".join([">=3"] * 3_900) + "']"),
        HEAD_OF.format("dependencies=['a; " + "(" * 8_000 + "']"),
        HEAD_OF.format("requires-python='" + ">=3," * 4_000 + "'"),
        "a\n" * 32_000,
        "a" + ",".join([">=1"] * 16_000),
        "a" + ",".join([">=1"] * 4_000),
        "a; " + "(" * 8_000,
        "\\\n" * 32_000,
    ],
    ids=range(15),
)
def test_no_script_and_no_requirements_take_longer_to_read_than_a_callback_may(script: str) -> None:
    begin = time.thread_time()
    for read in (requirements.header, requirements.lines):
        with contextlib.suppress(ValueError):
            read(script)
    assert time.thread_time() - begin < MOST_SECONDS


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("# /// script\n# dependencies = ['a']\n# ///", ("a",)),
        ("# /// script\n# dependencies = ['a']\n# ///\n# more = 1\n", ("a",)),
        ("# /// other\n# /// script\n# dependencies = ['a']\n# ///\n", ()),
        ("# /// other\n#\n\n# /// script\n# dependencies = ['a']\n# ///\n", ("a",)),
        ("# /// script\n# ///\n", ()),
        ("# /// script\n# dependencies = ['a']\n", ()),
        ("# /// script\n# dependencies = ['a']\n#x\n# ///\n", ()),
    ],
)
def test_a_head_is_found_where_pep_723_has_it(script: str, expected: tuple[str, ...]) -> None:
    assert requirements.header(script).requirements == expected
