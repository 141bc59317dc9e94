"""Judges of a job's trials: ask a model why they failed, wait for it, stop it, and read its judgements."""

import time
from collections.abc import Mapping
from typing import Any

from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Request, Steps, at, fetch, pause
from benchyard.client.request_fields import body_of
from benchyard.errors import StillWaiting
from benchyard.models.model_access import Budget
from benchyard.models.reports.judgements import (
    USUAL_LIMIT,
    JudgementsView,
    JudgeRequest,
    JudgeRunView,
    JudgeSelection,
)

_PATH = "/v1/benchmark_jobs"
_FIRST_LOOK_SECONDS = 0.1
_LATER_LOOKS_SECONDS = 2.0
_CHOOSING_SECONDS = 300.0
"""Time of the request that chooses trials, for which a large job's trajectories are read."""


class JudgeVerbs(VerbGroup[S]):
    """The verbs on the judges of jobs."""

    @call
    def judge(
        self,
        id: str,
        model: str,
        *,
        only: JudgeSelection = "unexplained",
        agent: str | None = None,
        scenario: str | None = None,
        limit: int = USUAL_LIMIT,
        budget: Budget | Mapping[str, Any] | None = None,
        secret: str | None = None,
        provider: str | None = None,
        base_url: str | None = None,
    ) -> Steps[JudgeRunView]:
        """Have a model judge why trials failed; the server carries it on whether or not a client waits.

        Unless told otherwise, it judges failed trials that no signal explains, for a dollar at most. `secret`
        names the secret with the key, where it has not its provider's usual name.
        """
        wanted = body_of(
            {
                "model": model,
                "only": only,
                "agent": agent,
                "scenario": scenario,
                "limit": limit,
                "budget": budget,
                "secret": secret,
                "provider": provider,
                "base_url": base_url,
            }
        )
        body = JudgeRequest.model_validate(wanted)
        request = Request("POST", at(_PATH + "/{}/judge", id), json=body, timeout=_CHOOSING_SECONDS)
        return (yield from fetch(request, JudgeRunView))

    @call
    def judgements(
        self, id: str, trial_id: str | None = None, *, label: str | None = None
    ) -> Steps[JudgementsView]:
        """Return the judgements of a job, or of one of its trials, and their agreement with people's labels.

        `label` is the name of the labels that judgements are compared with; None is `category`.
        """
        query = {"trial_id": trial_id, "label": label}
        return (yield from fetch(Request("GET", at(_PATH + "/{}/judgements", id), query), JudgementsView))

    @call
    def wait_for_judge(self, id: str, timeout: float | None = None) -> Steps[JudgementsView]:
        """Wait until no judge is at work on a job, and return its judgements; raises StillWaiting."""
        deadline = None if timeout is None else time.monotonic() + timeout
        delay = _FIRST_LOOK_SECONDS
        while True:
            view = yield from self.judgements.steps(id)
            if all(each.state != "running" for each in view.runs):
                return view
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise StillWaiting(f"a judge is still at work on job {id}")
            yield from pause(delay if deadline is None else min(delay, max(0.0, deadline - now)))
            delay = min(delay * 2, _LATER_LOOKS_SECONDS)

    @call
    def stop_judge(self, id: str) -> Steps[JudgementsView]:
        """End the judge that is at work on a job; its judgements stay."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/judge/stop", id)), JudgementsView))
