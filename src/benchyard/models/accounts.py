"""The account that owns everything on a server; there is one."""

from typing import Literal

from benchyard.models.base import Model


class BillingView(Model):
    """Nobody is billed here."""

    account_billing_type: Literal["UNRECOGNIZED"] = "UNRECOGNIZED"


class AccountView(Model):
    """The account as the wire shows it."""

    id: str
    name: str
    created_at: str
    account_status: Literal["ACCOUNT_STATUS_ENABLED"] = "ACCOUNT_STATUS_ENABLED"
    tier: Literal["ACCOUNT_TIER_ENTERPRISE"] = "ACCOUNT_TIER_ENTERPRISE"
    billing: BillingView = BillingView()
