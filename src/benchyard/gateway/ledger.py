"""Who may come in: grants by their tokens, and what those of a group have used together."""

import asyncio
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchyard.errors import Conflict, NotFound, UsageError
from benchyard.gateway import budgets
from benchyard.gateway.grants import Budget, Grant, Spent
from benchyard.gateway.protocol import checked
from benchyard.gateway.reading import OTHERS
from benchyard.gateway.recording import Recorder
from benchyard.gateway.tally import Tally

_SHORTEST_TOKEN = 16


@dataclass
class Account:
    """A grant, its count, and what it has open."""

    grant: Grant
    tally: Tally
    open: "set[asyncio.Task[Any]]" = field(default_factory=set)
    ended: str | None = None
    """Why it was ended, for those that were open."""

    @property
    def is_live(self) -> bool:
        """Whether its token opens anything."""
        return self.ended is None and time.time() * 1000 < self.grant.expires_ms


class Ledger:
    """All grants of this process."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._accounts: dict[str, Account] = {}
        self._by_token: dict[bytes, Account] = {}
        self._groups: dict[str, dict[str, Tally]] = {}
        self._earlier: asyncio.Future[Any] | None = None

    async def grant(self, grant: Grant) -> Spent:
        """Let a token in; the same id again keeps its count and replaces everything else."""
        checked(grant.id)
        if len(grant.token) < _SHORTEST_TOKEN:
            raise UsageError(f"a token has at least {_SHORTEST_TOKEN} characters")
        other = self._by_token.get(_hash(grant.token))
        if other is not None and other.grant.id != grant.id:
            raise Conflict("another grant has this token")
        if grant.group is not None:
            await self._take_up_groups()
        if grant.id not in self._accounts:
            kept = await self._recorder.kept(grant.id)
            # Asked for twice at once, it is made once.
            self._accounts.setdefault(grant.id, Account(grant, self._known(grant) or Tally(kept)))
        account = self._accounts[grant.id]
        self._by_token.pop(_hash(account.grant.token), None)
        account.grant, account.ended = grant, None
        self._by_token[_hash(grant.token)] = account
        if grant.group is not None:
            self._groups.setdefault(grant.group, {})[grant.id] = account.tally
        return account.tally.spent

    def find(self, token: str, devbox_id: str) -> Account | None:
        """The grant of a token that comes from its own devbox."""
        account = self._by_token.get(_hash(token))
        if account is None or not account.is_live or account.grant.devbox_id != devbox_id:
            return None
        return account

    async def admit(self, account: Account) -> int | str:
        """The number of one more call, which is counted; or why a budget refuses it."""
        return await self._refusal(account) or account.tally.begin()

    async def admit_other(self, account: Account) -> str | None:
        """Count a request that is no call of a model; or why a budget refuses it."""
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
            await tally.settled()
        # Nothing is awaited from here on: between a look at the budgets and the count nobody else comes in.
        words = budgets.refusal(grant.budget, [account.tally], "trial")
        words = words or budgets.refusal(grant.group_budget, members, "job")
        if words is not None and account.tally.spent.over_budget is None:
            account.tally.refuse(words)
            self._recorder.note(grant.id, "over_budget", words)
        return words

    async def spent(self, grant_id: str) -> Spent:
        """What was used, as it is on disk; raises NotFound."""
        account = self._accounts.get(checked(grant_id))
        if account is not None:
            await account.tally.settled()
            await self._recorder.kept(grant_id)
            return account.tally.spent
        kept = await self._recorder.kept(grant_id)
        if kept is None:
            raise NotFound(f"the gateway knows no grant {grant_id}")
        return kept.spent

    async def revoke(self, grant_id: str) -> Spent:
        """End a token and what it has open; one that has ended already is fine. Raises NotFound."""
        account = self._accounts.pop(checked(grant_id), None)
        if account is None:
            return await self.spent(grant_id)
        self._by_token.pop(_hash(account.grant.token), None)
        await self.end(account, "the token was revoked")
        await account.tally.settled()
        await self._recorder.finish(grant_id)
        return account.tally.spent

    async def end(self, account: Account, why: str) -> None:
        """Break off what a grant has open."""
        account.ended = account.ended or why
        tasks = list(account.open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def forget(self, grant_id: str) -> None:
        """Remove what is kept of a grant that has ended."""
        if checked(grant_id) in self._accounts:
            raise Conflict(f"grant {grant_id} is in use; revoke it first")
        for members in self._groups.values():
            members.pop(grant_id, None)
        await self._recorder.forget(grant_id)

    def accounts(self) -> Iterator[Account]:
        """Every grant that was not revoked."""
        yield from list(self._accounts.values())

    def secrets(self) -> Iterator[str]:
        """Every token and key there is, for those who must not tell them."""
        for account in self.accounts():
            yield account.grant.token
            yield from (each.key for each in account.grant.upstreams.values() if each.key)

    def _known(self, grant: Grant) -> Tally | None:
        return self._groups.get(grant.group or "", {}).get(grant.id)

    async def _take_up_groups(self) -> None:
        """Once: what groups had used before this process was started."""
        if self._earlier is None:
            self._earlier = asyncio.ensure_future(self._recorder.of_groups())
            for group, members in (await self._earlier).items():
                known = self._groups.setdefault(group, {})
                for grant_id, kept in members.items():
                    account = self._accounts.get(grant_id)
                    known.setdefault(grant_id, account.tally if account else Tally(kept))
        await self._earlier


def _counts_usage(budget: Budget) -> bool:
    """Whether what a call used must be known before the next."""
    return budget.tokens is not None or budget.usd is not None


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
