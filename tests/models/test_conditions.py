"""Conditions that choose scenarios."""

import io
from dataclasses import dataclass, field

import pytest

from benchyard.errors import UsageError
from benchyard.models.conditions import (
    answer,
    choose,
    condition_groups,
    near_misses,
    parse_condition,
    question,
)


@dataclass(frozen=True)
class Item:
    id: str
    name: str
    metadata: dict[str, str] = field(default_factory=dict)


ITEMS = [
    Item("scn_1", "set/fix-a-bug", {"level": "easy", "tags": "git, short"}),
    Item("scn_2", "set/fix-the-roof", {"level": "hard", "tags": '["git", "long"]'}),
    Item("scn_3", "set/undo", {"level": "medium or so"}),
    Item("scn_4", "other"),
]


def found(*texts: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> str:
    return "".join(each.id[-1] for each in choose(ITEMS, condition_groups(texts), include, exclude))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("name=set/fix-*",), "12"),
        (("name=fix-*",), "12"),
        (("name=fix-*", "name=undo"), "123"),
        (("name=fix-*", "level=easy"), "1"),
        (("name!=fix-*",), "34"),
        (("level!=easy",), "234"),
        (("name!=fix-a-bug", "name!=undo"), "24"),
        (("name~=^set/.*(bug|undo)$",), "13"),
        (("name!~^set/",), "4"),
        (("level=easy or name=other",), "14"),
        (("level=easy or level=hard", "name!=*roof"), "1"),
        (("level=medium or so",), "3"),
        (("tag=git",), "12"),
        (("tags=short",), "1"),
        (("tag!=git",), "34"),
        (("keywords~=^lo",), "2"),
        (("id=scn_[34]",), "34"),
        ((), "1234"),
    ],
)
def test_texts_choose(texts: tuple[str, ...], expected: str) -> None:
    assert found(*texts) == expected


def test_globs_choose_by_the_name_or_its_last_part() -> None:
    assert found(include=("fix-*", "other")) == "124"
    assert found(include=("set/*",), exclude=("*bug", "undo")) == "2"
    assert found("level=*", exclude=("fix*",)) == "3"


def test_invalid_condition_is_refused_with_the_valid_forms() -> None:
    for text in ("name", "=x", " or name=x"):
        with pytest.raises(UsageError, match="key!=value"):
            parse_condition(text)
    (only,) = parse_condition("a!b=c=d")
    assert (only.key, only.operator, only.value) == ("a!b", "=", "c=d")


@pytest.mark.parametrize(
    ("texts", "include", "told"),
    [
        (("name=fix-a-bgu",), (), "did you mean 'set/fix-a-bug'?"),
        (("level=eazy",), (), "level is easy, hard, medium or so"),
        (("levle=easy",), (), "did you mean 'level'?"),
        (("zzz=1",), (), "no such label, but level, tags"),
        (("level=easy", "name=other"), (), "each of them alone leaves some"),
        ((), ("udno",), "did you mean 'set/undo'?"),
        ((), ("qqqqqqqqqqqqqqqq",), "there are 4, such as set/fix-a-bug"),
    ],
)
def test_nothing_chosen_is_answered_with_near_misses(
    texts: tuple[str, ...], include: tuple[str, ...], told: str
) -> None:
    assert told in near_misses(ITEMS, condition_groups(texts), include, (), lambda pattern, text: False)


def test_a_worker_chooses_as_it_is_done_here() -> None:
    def told(*texts: str, exclude: tuple[str, ...] = ()) -> dict[str, object]:
        return answer(io.BytesIO(question(ITEMS, condition_groups(texts), (), exclude)))

    assert told("name~=bug$") == {"chosen": [0]}
    assert told("tag=git", exclude=("*bug",)) == {"chosen": [1]}
    assert "unterminated" in str(told("name~=(")["problem"])
    assert "did you mean 'level'?" in str(told("levle=easy")["problem"])
    assert "level is easy" in str(told("level=eazy")["problem"])
