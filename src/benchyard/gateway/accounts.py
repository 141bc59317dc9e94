"""Grants by their tokens, the usage of each, and the limits of their budgets."""

import asyncio
import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from benchyard.errors import Conflict, NotFound, UsageError
from benchyard.gateway.grants import Grant, GrantBudget, GrantUsage
from benchyard.gateway.protocol import check_name
from benchyard.gateway.records.reader import OTHERS, GrantHistory, is_unmetered, is_unpriced
from benchyard.gateway.records.writer import CallTally, Recorder


class Tally:
    """Running usage of one grant; continues from the grant's record on disk."""

    def __init__(self, recorded: GrantHistory | None = None) -> None:
        self._spent = recorded.spent if recorded else GrantUsage()
        self.unmetered = recorded.unmetered if recorded else 0
        """Calls whose usage is unknown although they may have used something."""
        self._last_number = recorded.last_number if recorded else 0
        self._held = 0
        self._held_since = 0.0
        self._settling: set[asyncio.Future[Any]] = set()

    @property
    def spent(self) -> GrantUsage:
        """Usage until now, including a wait that has not ended yet."""
        waiting = time.monotonic() - self._held_since if self._held else 0.0
        return replace(self._spent, rate_limited_ms=self._spent.rate_limited_ms + round(waiting * 1000))

    def begin(self) -> int:
        """Count a call, and number it."""
        self._last_number += 1
        self._spent = replace(self._spent, calls=self._spent.calls + 1)
        return self._last_number

    def pass_on(self) -> int:
        """Count a request that is not a call of a model, and return the number of such requests so far."""
        self._spent = replace(self._spent, others=self._spent.others + 1)
        return self._spent.others

    def end(self, metering: "asyncio.Future[CallTally]") -> None:
        """Add the usage of a call as soon as it is known."""
        self._settling.add(metering)
        metering.add_done_callback(self._settle)

    async def wait_until_settled(self) -> None:
        """Wait until the usage of every ended call is added."""
        while self._settling:
            await asyncio.wait(list(self._settling))

    def refuse(self, words: str) -> None:
        """Note the message of the budget that refused a request."""
        self._spent = replace(self._spent, over_budget=words)

    @contextmanager
    def count_wait(self) -> Iterator["RateLimitWait"]:
        """Count the time of this block as waiting for the provider; overlapping waits count once."""
        wait = RateLimitWait(time.monotonic())
        if not self._held:
            self._held_since = wait.since
        self._held += 1
        try:
            yield wait
        finally:
            now = time.monotonic()
            self._held -= 1
            wait.waited_ms = round((now - wait.since) * 1000)
            if not self._held:
                wait.limited_ms = round((now - self._held_since) * 1000)
                total = self._spent.rate_limited_ms + wait.limited_ms
                self._spent = replace(self._spent, rate_limited_ms=total)

    def _settle(self, metering: "asyncio.Future[CallTally]") -> None:
        self._settling.discard(metering)
        if metering.cancelled() or metering.exception() is not None:
            self.unmetered += 1
            return
        metered = metering.result()
        spent = replace(self._spent, last_error=metered.error, last_status=metered.status)
        self.unmetered += is_unmetered(metered.status, metered.error, is_reported=metered.usage is not None)
        if metered.usage is not None:
            cost = _sum(spent.cost_usd, metered.cost_usd)
            spent = replace(spent, usage=spent.usage + metered.usage, cost_usd=cost)
        elif is_unpriced(metered.status):
            spent = replace(spent, cost_usd=None)
        self._spent = spent


class RateLimitWait:
    """Time that one request was held because of the provider's rate limit."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.waited_ms = 0
        self.limited_ms = 0
        """Milliseconds added to the grant's total by the last of overlapping waits; 0 for the others."""


def _sum(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right


MOST_UNMETERED = 20
"""Calls of unknown usage a token or dollar budget tolerates, since connections may break."""


def budget_refusal(budget: GrantBudget, tallies: Iterable[Tally], whose: str) -> str | None:
    """Return the reason why one more request exceeds a budget that these tallies share; None if none is."""
    if budget == GrantBudget():
        # Skip the sums: there may be thousands of tallies.
        return None
    counted = list(tallies)
    spent = [tally.spent for tally in counted]
    calls = sum(account.requests for account in spent)
    if budget.requests is not None and calls >= budget.requests:
        return f"the budget of the {whose} is used up: {calls} of {budget.requests} requests"
    tokens = sum(account.usage.total_tokens for account in spent)
    if budget.tokens is not None and tokens >= budget.tokens:
        return f"the budget of the {whose} is used up: {tokens} of {budget.tokens} tokens"
    if budget.usd is not None:
        costs = [account.cost_usd for account in spent]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return (
                f"the {whose} has a budget in US dollars, but its model has no known price, or does not tell "
                "what it uses; set a budget of tokens or requests instead"
            )
        if sum(known) >= budget.usd:
            return f"the budget of the {whose} is used up: {sum(known):.4f} of {budget.usd:g} US dollars"
    if (budget.tokens, budget.usd) != (None, None):
        return _untold(sum(tally.unmetered for tally in counted), whose)
    return None


def _untold(unmetered: int, whose: str) -> str | None:
    if unmetered < MOST_UNMETERED:
        return None
    return f"the budget of the {whose} cannot be kept: {unmetered} answers did not say what they used"


_SHORTEST_TOKEN = 16


@dataclass
class Account:
    """A grant, its usage, and its open requests."""

    grant: Grant
    tally: Tally
    open: "set[asyncio.Task[Any]]" = field(default_factory=set)
    ended: str | None = None
    """Reason for the end of the grant, reported to requests that were open; None while it is in force."""

    @property
    def is_live(self) -> bool:
        """True while the token of the grant is accepted."""
        return self.ended is None and time.time() * 1000 < self.grant.expires_ms


class TokenAccounts:
    """All grants of this process."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._accounts: dict[str, Account] = {}
        self._by_token: dict[bytes, Account] = {}
        self._groups: dict[str, dict[str, Tally]] = {}
        self._earlier: asyncio.Future[Any] | None = None

    async def grant(self, grant: Grant) -> GrantUsage:
        """Accept a token; granting the same id again keeps its usage and replaces everything else."""
        check_name(grant.id)
        if len(grant.token) < _SHORTEST_TOKEN:
            raise UsageError(f"a token has at least {_SHORTEST_TOKEN} characters")
        other = self._by_token.get(_hash(grant.token))
        if other is not None and other.grant.id != grant.id:
            raise Conflict("another grant has this token")
        if grant.group is not None:
            await self._take_up_groups()
        if grant.id not in self._accounts:
            recorded = await self._recorder.recorded_history(grant.id)
            # Two concurrent requests for the same grant must share one account.
            self._accounts.setdefault(grant.id, Account(grant, self._known_history(grant) or Tally(recorded)))
        account = self._accounts[grant.id]
        self._by_token.pop(_hash(account.grant.token), None)
        account.grant, account.ended = grant, None
        self._by_token[_hash(grant.token)] = account
        if grant.group is not None:
            self._groups.setdefault(grant.group, {})[grant.id] = account.tally
        return account.tally.spent

    def find(self, token: str, devbox_id: str) -> Account | None:
        """Return the grant of a token that comes from the devbox it was granted to; else None."""
        account = self._by_token.get(_hash(token))
        if account is None or not account.is_live or account.grant.devbox_id != devbox_id:
            return None
        return account

    async def admit(self, account: Account) -> int | str:
        """Count one more call and return its number, or the message of the budget that refuses it."""
        return await self._refusal(account) or account.tally.begin()

    async def admit_other(self, account: Account) -> str | None:
        """Count a request that is not a model call; return the refusing budget's message, or None."""
        words = await self._refusal(account)
        if words is None:
            grant = account.grant
            self._recorder.note(grant.id, OTHERS, str(account.tally.pass_on()))
            if grant.group is not None:
                self._recorder.note(grant.id, "group", grant.group)
        return words

    async def _refusal(self, account: Account) -> str | None:
        grant = account.grant
        members = list(self._groups[grant.group].values()) if grant.group is not None else []
        counted = [account.tally] if _counts_usage(grant.budget) else []
        for tally in counted + (members if _counts_usage(grant.group_budget) else []):
            await tally.wait_until_settled()
        # No await from here on: no other request may come between the check of the budgets and the count.
        words = budget_refusal(grant.budget, [account.tally], "trial")
        words = words or budget_refusal(grant.group_budget, members, "job")
        if words is not None and account.tally.spent.over_budget is None:
            account.tally.refuse(words)
            self._recorder.note(grant.id, "over_budget", words)
        return words

    async def spent(self, grant_id: str) -> GrantUsage:
        """Return the usage of a grant, once it is on disk; raises NotFound."""
        account = self._accounts.get(check_name(grant_id))
        if account is not None:
            await account.tally.wait_until_settled()
            await self._recorder.recorded_history(grant_id)
            return account.tally.spent
        recorded = await self._recorder.recorded_history(grant_id)
        if recorded is None:
            raise NotFound(f"the gateway knows no grant {grant_id}")
        return recorded.spent

    async def revoke(self, grant_id: str) -> GrantUsage:
        """End a token and its open requests; a token that has ended already is fine. Raises NotFound."""
        account = self._accounts.pop(check_name(grant_id), None)
        if account is None:
            return await self.spent(grant_id)
        self._by_token.pop(_hash(account.grant.token), None)
        await self.end(account, "the token was revoked")
        await account.tally.wait_until_settled()
        await self._recorder.finish(grant_id)
        return account.tally.spent

    async def end(self, account: Account, why: str) -> None:
        """Cancel the open requests of a grant."""
        account.ended = account.ended or why
        tasks = list(account.open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def forget(self, grant_id: str) -> None:
        """Remove the record of a grant that has ended."""
        if check_name(grant_id) in self._accounts:
            raise Conflict(f"grant {grant_id} is in use; revoke it first")
        for members in self._groups.values():
            members.pop(grant_id, None)
        await self._recorder.forget(grant_id)

    def accounts(self) -> Iterator[Account]:
        """Yield every grant that was not revoked."""
        yield from list(self._accounts.values())

    def secrets(self) -> Iterator[str]:
        """Yield every token and key, so that they can be kept out of logs."""
        for account in self.accounts():
            yield account.grant.token
            yield from (upstream.key for upstream in account.grant.upstreams.values() if upstream.key)

    def _known_history(self, grant: Grant) -> Tally | None:
        return self._groups.get(grant.group or "", {}).get(grant.id)

    async def _take_up_groups(self) -> None:
        """Load the usage of all groups from disk, once per process."""
        if self._earlier is None:
            self._earlier = asyncio.ensure_future(self._recorder.of_groups())
            for group, members in (await self._earlier).items():
                known = self._groups.setdefault(group, {})
                for grant_id, members_kept in members.items():
                    account = self._accounts.get(grant_id)
                    known.setdefault(grant_id, account.tally if account else Tally(members_kept))
        await self._earlier


def _counts_usage(budget: GrantBudget) -> bool:
    """Tell whether a budget needs the usage of each call before the next one is admitted."""
    return budget.tokens is not None or budget.usd is not None


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
