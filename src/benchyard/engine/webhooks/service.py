"""All webhooks of a server: kept, told of events, and told again until they answer."""

import asyncio
import base64
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection

from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.webhooks.recent_ends import RecentEnds
from benchyard.engine.webhooks.sender import NameLookups, WebhookTarget, send, signature
from benchyard.errors import BenchyardError, Conflict, NotFound, UsageError
from benchyard.gateway.egress.rules import Block, Rules
from benchyard.hosts.cancellation import wait_at_most
from benchyard.models.comparisons import ComparedAgent, GateView
from benchyard.models.jobs import ENDED_JOBS, Job
from benchyard.models.pages import Page, Query
from benchyard.models.webhooks.delivery import WebhookDelivery, WebhookEvent
from benchyard.models.webhooks.webhook import (
    EVENT_TYPES,
    MOST_WEBHOOKS,
    Webhook,
    WebhookEventType,
    WebhookRequest,
)
from benchyard.store.database import Store

WEBHOOK_PREFIX = "whk_"
DELIVERY_PREFIX = "whd_"
DELAYS_SECONDS = (5, 30, 120, 600, 3600, 3 * 3600, 6 * 3600, 12 * 3600)
"""Pauses between the attempts; after the last attempt a delivery has failed."""
MOST_PENDING = 1000
"""Deliveries that may wait for one webhook; further ones fail at once."""
_GONE = 410
_IDLE_SECONDS = 3600.0
_PRUNE_SECONDS = 3600.0
_KEPT_MS = 7 * 24 * 3600 * 1000
_FRESH_MS = 60_000
_MOST_AGENTS = 20
_MOST_NAMES = 50
_LONGEST = 300

Change = Callable[[Connection], None]

_log = logging.getLogger(__name__)


class Webhooks:
    """The webhooks of this server.

    An event is stored for each webhook before anything is sent, and its id is derived from the event: a
    killed server goes on with what is stored, and a receiver knows a repetition by its id.
    """

    def __init__(self, tools: EngineContext, store: Store) -> None:
        self.records = store.collection("webhooks", Webhook)
        self.deliveries = store.collection("webhook_deliveries", WebhookDelivery)
        self._tools = tools
        self._store = store
        self._known: dict[str, Webhook] = {}
        self._pending: Counter[str] = Counter()
        self._wakes: dict[str, asyncio.Event] = {}
        blocks = [Block.of(each) for each in tools.settings.webhook_networks]
        self._rules = Rules.of(blocks=blocks, allow_all=True)
        self._look_up = NameLookups()
        self.recent_ends = RecentEnds(store)

    async def open(self) -> None:
        """Go on with what an earlier server had not delivered."""
        for webhook in await self.records.all({}):
            waiting = await self.deliveries.ids({"parent": webhook.id, "status": "pending"})
            self._pending[webhook.id] = len(waiting)
            self._begin(webhook)
        self._tools.work.repeat("webhooks/prune", self._prune, _PRUNE_SECONDS, "removing old deliveries")

    async def create(self, asked: Caller, request: WebhookRequest) -> Webhook:
        """Store a webhook; raises UsageError for an address that it may not have."""
        WebhookTarget.of(request.url).require_allowed(self._rules)
        if len(self._known) >= MOST_WEBHOOKS and asked.id not in self._known:
            raise Conflict(f"there are {MOST_WEBHOOKS} webhooks, the most there can be; delete one first")
        record = Webhook(
            id=asked.id,
            create_time_ms=now_ms(),
            request_hash=asked.request_hash,
            url=request.url,
            events=list(dict.fromkeys(request.events or EVENT_TYPES)),
            description=request.description,
        )
        stored, is_new = await self.records.insert_once(record)
        if is_new:
            self._begin(stored)
        return stored

    def secret(self, webhook: Webhook) -> str:
        """Return the key of its signatures."""
        derived = self._tools.vault.derive("webhooks", webhook.id)
        return "whsec_" + base64.b64encode(derived).decode()

    async def get(self, id: str) -> Webhook:
        """Return the webhook with this id; raises NotFound."""
        found = await self.records.find(id)
        if found is None:
            raise NotFound(f"no webhook {id[:200]!r}; `benchyard webhook list` shows those there are")
        return found

    async def delete(self, id: str) -> Webhook:
        """Delete a webhook with what it was not told yet."""
        webhook = await self.get(id)
        self._known.pop(id, None)
        await self._tools.work.cancel(_key(id))
        await self.records.delete(id)
        for each in await self.deliveries.ids({"parent": id}):
            await self.deliveries.delete(each)
        self._pending.pop(id, None)
        self._wakes.pop(id, None)
        return webhook

    async def page(self, query: Query) -> Page[WebhookDelivery]:
        """Return a page of deliveries, newest first."""
        return await self.deliveries.page(query)

    async def test(self, id: str) -> WebhookDelivery:
        """Send a test to a webhook at once, and only once; returns what came of it."""
        webhook = await self.get(id)
        event = WebhookEvent(type="test", time_ms=now_ms(), data={"webhook_id": id})
        delivery = self._delivery(webhook, event, f"test/{event.time_ms}")
        done = await self._attempted(webhook, delivery)
        if done.state == "pending":
            done = done.model_copy(update={"state": "failed", "end_time_ms": now_ms()})
        return await self.deliveries.insert(done)

    def job_ended(self, job: Job) -> list[Change]:
        """Return the changes that tell of the end of a job, for the transaction that stores it."""
        self.recent_ends.note(job)
        if job.state not in ENDED_JOBS or job.end_time_ms is None:
            return []
        if now_ms() - job.end_time_ms > _FRESH_MS:
            # Something else of it was changed, such as its name.
            return []
        data = {
            **_job_data(job),
            "state": job.state.value,
            "agents": [each.label[:_LONGEST] for each in job.spec.agent_configs[:_MOST_AGENTS]],
            "n_agents": len(job.spec.agent_configs),
            "n_scenarios": len(job.spec.scenario_ids),
            "n_trials": job.n_trials,
            "start_time_ms": job.start_time_ms,
            "end_time_ms": job.end_time_ms,
        }
        return self._changes("job.ended", data, f"{job.id}/{job.end_time_ms}")

    async def gate_verdict(self, gate: GateView, asked: str) -> None:
        """Tell of the verdict of a gate, once for all repetitions of a request, which `asked` names."""
        view = gate.comparison
        difference = view.difference
        data = {
            "verdict": gate.verdict,
            "reason": gate.reason[:_LONGEST],
            "margin": gate.margin,
            "against": _side_data(view.a),
            "job": _side_data(view.b),
            "difference": difference and {key: getattr(difference, key) for key in ("mean", "low", "high")},
        }
        sides = "/".join(f"{side.job_id}/{side.agent}" for side in (view.a, view.b))
        await self._tell("gate.verdict", data, f"{sides}/{asked}")

    def is_awaited(self, type: WebhookEventType) -> bool:
        """Tell whether any webhook wants events of this type."""
        return any(type in webhook.events for webhook in self._known.values())

    async def new_problems(self, job: Job, names: Collection[str]) -> None:
        """Tell of problems that the last job of the same benchmark had not; of each once for each job."""
        wanted = [each for each in self._known.values() if "problem.new" in each.events]
        if not names or not wanted:
            return
        told = await self._told_problems(job.id)
        for webhook in wanted:
            left = sorted({each[:_LONGEST] for each in names} - told[webhook.id])
            for start in range(0, len(left), _MOST_NAMES):
                shown = left[start : start + _MOST_NAMES]
                data = {**_job_data(job), "problems": shown, "n_problems": len(left)}
                await self._tell("problem.new", data, f"{job.id}/{'/'.join(shown)}", [webhook])

    async def _told_problems(self, job_id: str) -> Mapping[str, set[str]]:
        """Return the problems of a job that each webhook was told of, also by an earlier server."""
        told: dict[str, set[str]] = defaultdict(set)
        for each in await self.deliveries.containing(job_id):
            if each.type == "problem.new":
                data = WebhookEvent.model_validate_json(each.body).data
                if data.get("job_id") == job_id:
                    told[each.webhook_id].update(data.get("problems", ()))
        return told

    async def _tell(
        self,
        type: WebhookEventType,
        data: Mapping[str, Any],
        key: str,
        webhooks: Sequence[Webhook] | None = None,
    ) -> None:
        changes = self._changes(type, data, key, webhooks)

        def work(connection: Connection) -> None:
            for change in changes:
                change(connection)

        if changes:
            await self._store.write(work)
            self.wake()

    def _changes(
        self,
        type: WebhookEventType,
        data: Mapping[str, Any],
        key: str,
        webhooks: Sequence[Webhook] | None = None,
    ) -> list[Change]:
        """Return what stores an event, which the key names, for all webhooks that want it or for some."""
        event = WebhookEvent(type=type, time_ms=now_ms(), data=dict(data))
        changes = []
        for webhook in self._known.values() if webhooks is None else webhooks:
            if type in webhook.events:
                changes.append(self.deliveries.rows.adding([self._delivery(webhook, event, key)]))
                # Counted anew before each round of requests.
                self._pending[webhook.id] += 1
        return changes

    def _delivery(self, webhook: Webhook, event: WebhookEvent, key: str) -> WebhookDelivery:
        derived = self._tools.vault.derive("webhook-deliveries", f"{webhook.id}/{event.type}/{key}")
        is_full = self._pending[webhook.id] >= MOST_PENDING
        return WebhookDelivery(
            id=id_from_bytes(DELIVERY_PREFIX, derived),
            create_time_ms=event.time_ms,
            webhook_id=webhook.id,
            type=event.type,
            body=event.model_dump_json(),
            state="failed" if is_full else "pending",
            next_time_ms=event.time_ms,
            end_time_ms=event.time_ms if is_full else None,
            failure=f"{MOST_PENDING} earlier ones wait for an answer" if is_full else None,
        )

    def wake(self) -> None:
        """Look for new deliveries of all webhooks."""
        for each in self._wakes.values():
            each.set()

    def _begin(self, webhook: Webhook) -> None:
        self._known[webhook.id] = webhook
        self._wakes[webhook.id] = asyncio.Event()
        self._tools.work.start(_key(webhook.id), partial(self._deliver, webhook))

    async def _deliver(self, webhook: Webhook) -> None:
        """Deliver what is due, oldest first; webhooks have a task each, so none waits for another."""
        wake = self._wakes[webhook.id]
        while True:
            wake.clear()
            waiting = await retry_store(self.deliveries.all, {"parent": webhook.id, "status": "pending"})
            self._pending[webhook.id] = len(waiting)
            now = now_ms()
            for each in sorted(waiting, key=lambda each: (each.next_time_ms, each.create_time_ms)):
                if each.next_time_ms <= now:
                    done = await self._attempted(webhook, each)
                    await retry_store(self._replace, done)
            later = [each.next_time_ms for each in waiting if each.next_time_ms > now]
            if len(later) == len(waiting):
                pause = (min(later) - now) / 1000 if later else _IDLE_SECONDS
                await wait_at_most(max(0.05, pause), wake.wait())

    async def _replace(self, delivery: WebhookDelivery) -> None:
        try:
            await self.deliveries.change(delivery.id, lambda _: delivery)
        except NotFound:
            _log.info("delivery %s was removed meanwhile", delivery.id)

    async def _attempted(self, webhook: Webhook, delivery: WebhookDelivery) -> WebhookDelivery:
        """Send a delivery once; returns it with what came of that."""
        body, seconds = delivery.body.encode(), now_ms() // 1000
        headers = {
            "user-agent": "benchyard",
            "webhook-id": delivery.id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signature(self.secret(webhook), delivery.id, seconds, body),
        }
        status, failure = None, None
        try:
            status = await send(WebhookTarget.of(webhook.url), headers, body, self._rules, self._look_up)
        except TimeoutError:
            failure = "no answer in time"
        except UsageError as error:
            failure = error.message
        except (OSError, ValueError, BenchyardError) as error:
            failure = str(error)[:_LONGEST] or type(error).__name__
        if status is not None and not 200 <= status < 300:
            failure = f"the answer had status {status}"
        return _after_attempt(delivery, status, failure)

    async def _prune(self) -> None:
        old = now_ms() - _KEPT_MS
        for each in await self.deliveries.before(old, {"status": ["delivered", "failed"]}):
            await self.deliveries.delete(each.id)


def _after_attempt(delivery: WebhookDelivery, status: int | None, failure: str | None) -> WebhookDelivery:
    now = now_ms()
    attempts = delivery.attempts + 1
    changes: dict[str, object] = {"attempts": attempts, "status": status, "failure": failure}
    if failure is None:
        changes |= {"state": "delivered", "end_time_ms": now}
    elif status == _GONE or attempts > len(DELAYS_SECONDS):
        changes |= {"state": "failed", "end_time_ms": now}
    else:
        changes["next_time_ms"] = now + DELAYS_SECONDS[attempts - 1] * 1000
    return delivery.model_copy(update=changes)


def _job_data(job: Job) -> dict[str, Any]:
    """Return what is told of any job: no variables, options, secrets or labels of users."""
    return {
        "job_id": job.id,
        "job_name": job.name[:_LONGEST],
        "benchmark_id": job.source.benchmark_id,
        "benchmark_name": job.source.benchmark_name,
    }


def _side_data(side: ComparedAgent) -> dict[str, Any]:
    return {
        "job_id": side.job_id,
        "job_name": side.job_name[:_LONGEST],
        "agent": side.label[:_LONGEST],
        "mean": side.score and side.score.mean,
    }


def _key(webhook_id: str) -> str:
    return f"webhook/{webhook_id}"
