"""Secrets: values that devboxes get by name, and that no request returns."""

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, StringConstraints
from pydantic_core import PydanticCustomError

from benchyard.models.base import Columns, Model, Record

SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=256)]
"""Letters, digits, `_`, `-` and `.`; the variable that holds the secret has its own name."""


MAX_SECRET_BYTES = 65536


def _fit_for_a_variable(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if "\0" in text:
        raise PydanticCustomError("nul", "must not hold a NUL character")
    if len(text.encode(errors="surrogatepass")) > MAX_SECRET_BYTES:
        raise PydanticCustomError("too_long", "must not be over 65536 bytes; mount a file instead")
    return value


SecretValue = Annotated[SecretStr, Field(max_length=MAX_SECRET_BYTES), AfterValidator(_fit_for_a_variable)]
"""A valid value of an environment variable."""


class SecretRequest(Model):
    """The body of a create call."""

    name: SecretName
    value: SecretValue


class SecretChange(Model):
    """The body of an update."""

    value: SecretValue


class Secret(Record):
    """A secret as it is stored."""

    name: str
    sealed: str
    """The value, encrypted with the server's key."""
    update_time_ms: int

    def columns(self) -> Columns:
        return Columns(name=self.name)


class SecretView(Model):
    """A secret as the wire shows it: never its value."""

    id: str
    name: str
    create_time_ms: int
    update_time_ms: int


class SecretListView(Model):
    """A page of secrets."""

    secrets: list[SecretView]
    has_more: bool
    total_count: int | None = None
