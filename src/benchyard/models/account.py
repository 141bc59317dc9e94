"""The account that owns all resources of a server, and its API keys; only the hash of a key is stored."""

from typing import Literal

from pydantic import Field

from benchyard.models.base import MAX_INT, Columns, Model, Record, ShortText, WireInt


class BillingView(Model):
    """The billing status of the account; this server sends no bills."""

    account_billing_type: Literal["UNRECOGNIZED"] = "UNRECOGNIZED"


class AccountView(Model):
    """The account as the wire shows it."""

    id: str
    name: str
    created_at: str
    account_status: Literal["ACCOUNT_STATUS_ENABLED"] = "ACCOUNT_STATUS_ENABLED"
    tier: Literal["ACCOUNT_TIER_ENTERPRISE"] = "ACCOUNT_TIER_ENTERPRISE"
    billing: BillingView = BillingView()


class ApiKeyRequest(Model):
    """The body of a create call."""

    name: ShortText | None = None
    expires_at_ms: WireInt | None = Field(default=None, ge=0, le=MAX_INT)


class ApiKey(Record):
    """An API key as it is stored."""

    name: str = ""
    key_hash: str
    """SHA-256 of the secret, in hex."""
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None

    def columns(self) -> Columns:
        return Columns(name=self.name, status="active" if self.revoked_at_ms is None else "revoked")

    def opens_at(self, now_ms: int) -> bool:
        """Tell whether it is neither revoked nor expired."""
        return self.revoked_at_ms is None and (self.expires_at_ms is None or now_ms < self.expires_at_ms)


class ApiKeyCreatedView(Model):
    """A new API key; no other answer contains its secret."""

    id: str
    name: str
    key_secret: str
    expires_at_ms: int | None = None


class ApiKeyView(Model):
    """A key as listings show it."""

    id: str
    name: str
    create_time_ms: int
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None


class ApiKeyListView(Model):
    """A page of keys."""

    apikeys: list[ApiKeyView]
    has_more: bool
    total_count: int | None = None
