"""Words and variables of Dockerfiles."""

import contextlib
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchyard.images.dockerfile.parser import expand_variables, split_words

VALUES = {"A": "one", "B": "", "LONG_1": "x y"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("$A", "one"),
        ("${A}b", "oneb"),
        ("$Ab", ""),
        ("$A$LONG_1", "onex y"),
        ("${N:-d}", "d"),
        ("${B:-d}", "d"),
        ("${B-d}", ""),
        ("${A:-d}", "one"),
        ("${A:+alt}", "alt"),
        ("${B:+alt}", ""),
        ("${B+alt}", "alt"),
        ("${N:-${A}}", "one"),
        ("'$A'", "$A"),
        ('"$A"', "one"),
        (r"\$A", "$A"),
        (r'"\$A \x"', r"$A \x"),
        ("a$", "a$"),
        ("$", "$"),
        ("$-", "$-"),
    ],
)
def test_variables_are_filled_in(text: str, filled: str) -> None:
    assert expand_variables(text, VALUES) == filled


def test_quotes_stay_where_they_are_wanted() -> None:
    assert expand_variables("say \"$A\" and '$A'", VALUES, keep_quotes=True) == "say \"one\" and '$A'"


@pytest.mark.parametrize("text", ["${", "${}", "${A", "${A!x}", "${N:?must be there}"])
def test_unknown_forms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"braces|form|must be there"):
        expand_variables(text, VALUES)


@given(st.text(alphabet="ab$A{}:-+'\"\\ _1", max_size=30))
def test_any_text_is_filled_in_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert len(expand_variables(text, VALUES)) <= len(text) * 3


@given(st.lists(st.text(alphabet="ab '\"\\$x", min_size=1, max_size=8), max_size=6))
def test_words_are_split_where_a_shell_splits_them(words: list[str]) -> None:
    quoted = " ".join(shlex.quote(word) for word in words)
    assert [shlex.split(word) for word in split_words(quoted)] == [[word] for word in words]


FORMS = [
    "$A",
    "$B",
    "$N",
    "${A}",
    "${N:-d e}",
    "${B:-d}",
    "${B-d}",
    "${A:+x}",
    "${B+$A}",
    "${N-${A}}",
    "a ",
    "}",
]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(FORMS), max_size=6).map("".join))
def test_variables_expand_as_in_a_shell(text: str) -> None:
    environment = {**VALUES, "PATH": "/bin:/usr/bin"}
    shown = subprocess.run(
        ["sh", "-c", f'printf %s "{text}"'], env=environment, capture_output=True, check=True
    )
    assert expand_variables(f'"{text}"', VALUES) == shown.stdout.decode()
