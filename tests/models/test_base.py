"""The rules that all models share."""

import pytest
from pydantic import TypeAdapter, ValidationError

from benchyard.models.base import MAX_INT, Model, WireBool, WireFloat, WireInt
from benchyard.models.gateway_configs import AuthMechanism, GatewayTokenView


@pytest.mark.parametrize(("value", "expected"), [(30, 30), (30.0, 30), (-1, -1), (MAX_INT, MAX_INT)])
def test_an_integer_may_come_as_a_whole_float(value: object, expected: int) -> None:
    assert TypeAdapter(WireInt).validate_python(value) == expected


@pytest.mark.parametrize("value", [True, "30", 30.5, None, [], float("inf"), float("nan"), MAX_INT + 1])
def test_nothing_else_is_an_integer(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(WireInt).validate_python(value)


@pytest.mark.parametrize("value", [True, "1.5", None])
def test_only_numbers_are_numbers(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(WireFloat).validate_python(value)
    assert TypeAdapter(WireFloat).validate_python(2) == 2.0


@pytest.mark.parametrize("value", [1, 0, "true", "yes"])
def test_only_booleans_are_booleans(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(WireBool).validate_python(value)


def test_models_ignore_unknown_fields_and_never_change() -> None:
    class Point(Model):
        x: WireFloat

    point = Point.model_validate({"x": 1, "of_a_newer_client": True})
    assert point.model_dump() == {"x": 1.0}
    with pytest.raises(ValidationError):
        point.x = 2.0
    with pytest.raises(ValidationError):
        Point(x=float("nan"))


def test_secrets_are_in_no_repr() -> None:
    door = GatewayTokenView(
        token="t-1",
        url="http://127.0.0.1:4100/",
        devbox_id="dbx_1",
        endpoint="https://a.example",
        gateway_config_id="gwc_1",
        auth_mechanism=AuthMechanism(type="bearer"),
    )
    assert "dbx_1" in repr(door)
    assert "t-1" not in repr(door)
    assert "t-1" not in repr([door])
