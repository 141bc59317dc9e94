"""What can be a secret's value."""

import pytest
from pydantic import ValidationError

from benchyard.models.secrets import MAX_SECRET_BYTES, SecretRequest


@pytest.mark.parametrize("value", ["", "plain", "ä" * (MAX_SECRET_BYTES // 2)])
def test_values_that_fit_a_variable_are_accepted(value: str) -> None:
    request = SecretRequest.model_validate({"name": "KEY", "value": value})
    assert request.value.get_secret_value() == value


@pytest.mark.parametrize("value", ["a\0b", "x" * (MAX_SECRET_BYTES + 1), "ä" * (MAX_SECRET_BYTES // 2 + 1)])
def test_values_that_no_variable_can_hold_are_refused(value: str) -> None:
    with pytest.raises(ValidationError):
        SecretRequest.model_validate({"name": "KEY", "value": value})


@pytest.mark.parametrize("name", ["with-hyphen", "with.dot", "_x", "A1"])
def test_names_are_those_that_the_original_takes(name: str) -> None:
    assert SecretRequest.model_validate({"name": name, "value": "x"}).name == name


@pytest.mark.parametrize("name", ["", "1x", "-x", "a b", "a/b", "a\n", "é"])
def test_names_that_no_path_or_log_could_hold_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        SecretRequest.model_validate({"name": name, "value": "x"})
