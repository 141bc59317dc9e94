"""Gateway configs: HTTP APIs that devboxes reach through the gateway, with a key that they never see."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from benchyard.models.base import Columns, Model, Record

MOST_HEADERS = 8
"""Largest number of custom headers, as in the original."""
_NOT_OURS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that belong to a single connection, and so cannot be set from outside."""
_ENDPOINT = re.compile(r"https?://[!-~]+", re.I)


def _endpoint(text: str) -> str:
    """Refuse local paths, visible passwords, and endpoints to which no path can be appended."""
    problem = PydanticCustomError(
        "endpoint", "must be an address such as https://api.example.com, without credentials, `?` and `#`"
    )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise problem from error
    if not _ENDPOINT.fullmatch(text) or not parts.hostname or port == 0:
        raise problem
    if "@" in parts.netloc or "?" in text or "#" in text or "\\" in text:
        raise problem
    return text


def _header_name(name: str) -> str:
    if name.lower() in _NOT_OURS:
        raise PydanticCustomError("header", "is a header of the connection, which cannot be set")
    return name


GatewayName = Annotated[
    str,
    StringConstraints(
        max_length=256,
        pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$",
    ),
]
"""The name of a config: not blank, one line."""
Endpoint = Annotated[str, Field(min_length=1, max_length=2048), AfterValidator(_endpoint)]
HeaderName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$"), AfterValidator(_header_name)
]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]*$", max_length=8192)]
Description = Annotated[str, StringConstraints(max_length=4096)]


class AuthMechanism(Model):
    """The place of the key in a request."""

    type: Literal["header", "bearer", "basic"]
    """`basic` takes a secret of the form `user:password`."""
    key: HeaderName | None = None
    """The name of the header, for type `header` only."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.type == "header") != (self.key is not None):
            raise PydanticCustomError("key", "`key` is the name of a header, for type `header` and no other")
        return self

    @property
    def header(self) -> str:
        """Return the name of the header that the key goes into."""
        return self.key or "authorization"


class CustomHeader(Model):
    """A header set on every request, with the value of a secret or a literal value."""

    name: HeaderName
    secret: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The secret, by name or id; stored and shown as id."""
    value: HeaderValue | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.secret is None) == (self.value is None):
            raise PydanticCustomError("header", "a header needs either `secret` or `value`")
        return self


Headers = Annotated[list[CustomHeader], Field(max_length=MOST_HEADERS)]


class GatewayConfigRequest(Model):
    """The body of a create call."""

    name: GatewayName
    endpoint: Endpoint
    auth_mechanism: AuthMechanism
    custom_headers: Headers | None = None
    description: Description | None = None


class GatewayConfigChange(Model):
    """The body of an update; None leaves a field as it is, empty clears it."""

    name: GatewayName | None = None
    endpoint: Endpoint | None = None
    auth_mechanism: AuthMechanism | None = None
    custom_headers: Headers | None = None
    description: Description | None = None


class GatewayConfig(Record):
    """A gateway config as it is stored."""

    name: str
    endpoint: str
    auth_mechanism: AuthMechanism
    custom_headers: list[CustomHeader] = Field(default_factory=list)
    description: str | None = None
    is_public: bool = False
    """True if it comes with the server."""

    def columns(self) -> Columns:
        """Index by name and owner."""
        return Columns(name=self.name, status="public" if self.is_public else "own")

    def view(self, account_id: str) -> "GatewayConfigView":
        """Return the config as the wire shows it; configs that come with the server have no owner."""
        view = GatewayConfigView.model_validate(self, from_attributes=True)
        return view if self.is_public else view.model_copy(update={"account_id": account_id})


class GatewayConfigView(Model):
    """A gateway config as the wire shows it, never with a secret's value."""

    id: str
    name: str
    endpoint: str
    auth_mechanism: AuthMechanism
    create_time_ms: int
    account_id: str | None = None
    custom_headers: list[CustomHeader] | None = None
    description: str | None = None


class GatewayConfigListView(Model):
    """A page of gateway configs."""

    gateway_configs: list[GatewayConfigView]
    has_more: bool
    total_count: int | None = None


Reference = Annotated[str, Field(min_length=1, max_length=256)]
"""A name or an id."""


class GatewayRequest(Model):
    """An API and the secret for it, each by name or id."""

    gateway: Reference
    secret: Reference


class GatewaySpec(Model):
    """The gateway config and secret of a devbox's gateway, as the wire shows them."""

    gateway_config_id: str
    secret_id: str


class GatewayDoor(GatewaySpec):
    """A gateway as its devbox stores it; its address is the config's at creation."""

    id: str
    prefix: str | None = None
    """`PREFIX` and `PREFIX_URL` are set in the devbox; None for a gateway that was added later."""
    endpoint: str
    auth_mechanism: AuthMechanism
    custom_headers: list[CustomHeader] = Field(default_factory=list)
    prices: str | None = None
    """The provider whose prices apply to the requests."""
    url: str | None = None
    """The URL inside the devbox; None until the door is open."""
    token: str | None = Field(default=None, repr=False)
    """The sealed token."""
    request_hash: str | None = None


class GatewayTokenView(Model):
    """A door that was just opened, with the token that opens it for this devbox."""

    token: str = Field(repr=False)
    url: str
    devbox_id: str
    endpoint: str
    gateway_config_id: str
    auth_mechanism: AuthMechanism
