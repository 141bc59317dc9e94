"""The error tree: drawn as it is, and every code means one thing."""

import inspect
import re

from benchyard import errors
from benchyard.errors import BenchyardError, NotFound


def classes() -> list[type[BenchyardError]]:
    every = [each for each in vars(errors).values() if inspect.isclass(each)]
    return [each for each in every if issubclass(each, BenchyardError)]


def test_the_drawn_tree_names_every_class_once() -> None:
    drawn = re.findall(r"^[ │├└─]+(\w+)", errors.__doc__ or "", re.M)
    assert sorted(drawn) == sorted(each.__name__ for each in classes())


def test_a_code_belongs_to_one_class() -> None:
    codes = [each.code for each in classes()]
    assert sorted(codes) == sorted(set(codes))


def test_only_http_errors_have_http_statuses() -> None:
    assert [each for each in classes() if not 400 <= each.http_status <= 599] == []


def test_no_error_ends_a_program_as_if_all_were_well() -> None:
    assert [each for each in classes() if each.exit_code == 0] == []


def test_the_body_carries_code_message_and_details() -> None:
    error = NotFound("no devbox dbx_1", id="dbx_1")
    assert error.body() == {"code": "not_found", "message": "no devbox dbx_1", "details": {"id": "dbx_1"}}
    assert str(error) == "no devbox dbx_1"
