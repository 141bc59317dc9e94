"""Network policies by our own client, both kinds of it."""

import asyncio

import pytest

from benchyard import Benchyard
from benchyard.client import AsyncClient
from benchyard.errors import NotFound, UsageError
from tests.client.scenes import unique


def test_a_policy_is_made_found_changed_and_deleted(yard: Benchyard) -> None:
    policies, name = yard.api.network_policies, unique("policy")
    made = policies.create(name=name, allowed_hostnames=["a.test"], description="x")
    assert policies.retrieve(made.id) == policies.get(made.id) == made
    assert [policy.id for policy in policies.list(name=name)] == [made.id]
    with pytest.raises(UsageError, match=name):
        policies.create(name=name)
    changed = policies.update(made.id, allowed_cidrs=[{"cidr": "10.0.0.0/8"}])
    assert changed.egress.allowed_hostnames == ["a.test"]
    assert changed.egress.allowed_cidrs[0].cidr == "10.0.0.0/8"
    assert policies.delete(made.id) == changed
    with pytest.raises(NotFound):
        policies.get(made.id)


def test_policies_are_awaited_too(yard: Benchyard) -> None:
    async def ask() -> None:
        async with AsyncClient(yard.api.server) as client:
            made = await client.network_policies.create(name=unique("async"), allow_all=True)
            assert made.egress.allow_devbox_to_devbox
            assert [
                network_policy.id async for network_policy in client.network_policies.list(id=made.id)
            ] == [made.id]
            await client.network_policies.delete(made.id)

    asyncio.run(ask())
