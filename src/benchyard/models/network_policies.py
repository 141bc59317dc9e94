"""Network policies: named rules for the addresses that devboxes may reach."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from benchyard.models.base import Columns, Model, Record, ShortText, WireBool, WireInt

PolicyName = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"\S")]
Port = Annotated[WireInt, Field(ge=1, le=65_535)]
RuleText = Annotated[str, StringConstraints(max_length=256)]

MOST_RULES = 500
MOST_PORTS = 100


class PortRule(Model):
    """A port or a range of ports."""

    port: Port
    end_port: Port | None = None
    protocol: Literal["TCP", "UDP"] | None = None
    """None allows both."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.end_port is not None and self.end_port < self.port:
            raise ValueError("end_port is below port")
        return self


class AllowedCidr(Model):
    """A range of reachable addresses, limited to the ports if any are named."""

    cidr: RuleText
    ports: Annotated[list[PortRule], Field(max_length=MOST_PORTS)] | None = None


Cidrs = Annotated[list[AllowedCidr], Field(max_length=MOST_RULES)]
Hostnames = Annotated[list[RuleText], Field(max_length=MOST_RULES)]


class NetworkPolicyChange(Model):
    """The body of an update; a missing field leaves the present value."""

    name: PolicyName | None = None
    description: ShortText | None = None
    allow_all: WireBool | None = None
    allow_agent_gateway: WireBool | None = None
    allow_devbox_to_devbox: WireBool | None = None
    allow_mcp_gateway: WireBool | None = None
    allow_runloop_mirrors: WireBool | None = None
    allowed_cidrs: Cidrs | None = None
    allowed_hostnames: Hostnames | None = None


class NetworkPolicyRequest(NetworkPolicyChange):
    """The body of a create call."""

    name: PolicyName


class Egress(Model):
    """The destinations that may be reached."""

    allow_all: bool = False
    allow_agent_gateway: bool = False
    allow_devbox_to_devbox: bool = False
    allow_mcp_gateway: bool = False
    allow_runloop_mirrors: bool = False
    allowed_cidrs: list[AllowedCidr] = Field(default_factory=list)
    allowed_hostnames: list[str] = Field(default_factory=list)

    def with_change(self, change: NetworkPolicyChange) -> "Egress":
        """Return a copy with the fields of a change; allowing all destinations allows devboxes too."""
        fields = {name: getattr(change, name) for name in Egress.model_fields}
        new = self.model_copy(update={name: value for name, value in fields.items() if value is not None})
        return new.model_copy(update={"allow_devbox_to_devbox": True}) if new.allow_all else new


class NetworkPolicy(Record):
    """A policy as it is stored."""

    name: str
    description: str | None = None
    egress: Egress = Field(default_factory=Egress)
    update_time_ms: int

    def columns(self) -> Columns:
        return Columns(name=self.name)

    def view(self) -> "NetworkPolicyView":
        """Return the policy as the wire shows it."""
        return NetworkPolicyView.model_validate(self, from_attributes=True)


class NetworkPolicyView(Model):
    """A policy as the wire shows it."""

    id: str
    name: str
    description: str | None = None
    egress: Egress
    create_time_ms: int
    update_time_ms: int


class NetworkPolicyListView(Model):
    """A page of policies."""

    network_policies: list[NetworkPolicyView]
    has_more: bool
    total_count: int | None = None
