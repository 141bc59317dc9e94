"""Comparisons of two agents, of one job or of two (extensions): the difference, and a gate on it."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from fastapi.responses import Response

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.job_reports import Report
from benchyard.api.lazy_route import LazyRoute
from benchyard.engine.baselines import Side
from benchyard.errors import UsageError
from benchyard.models.base import ShortText
from benchyard.models.comparisons import ComparisonView, GateView
from benchyard.models.jobs import Job
from benchyard.models.trials import SuspectRule

SideText = Annotated[
    str,
    Parameter(
        max_length=1200,
        description="JOB_ID, JOB_ID:AGENT by index or label, BENCHMARK_RUN_ID, or the name of a baseline",
    ),
]
Margin = Annotated[float, Parameter(ge=0, le=1)]
MaxUnscored = Annotated[str, Parameter(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})?%?$")]
ClusterKey = Annotated[ShortText | None, Parameter(description="metadata key that scenarios are grouped by")]

_IDS_AT_ONCE = 500

router = APIRouter(prefix="/v1", tags=["comparisons"], route_class=LazyRoute)


@router.get("/compare", response_model=ComparisonView)
async def compare_agents(
    request: Request,
    services: ServicesDep,
    a: SideText,
    b: SideText,
    cluster: ClusterKey = None,
    suspect: SuspectRule | None = None,
) -> Response:
    """Compare agent b with agent a on the scenarios that both have scored (an extension)."""
    sides = await services.engine.baselines.sides(a, b)
    report = await _comparison(services, sides, cluster, suspect)
    return await report.answer(request)


@router.get("/gate", response_model=GateView)
async def gate_agents(
    request: Request,
    services: ServicesDep,
    a: SideText,
    b: SideText,
    margin: Margin = 0.0,
    max_unscored: MaxUnscored = "0",
    cluster: ClusterKey = None,
    suspect: SuspectRule | None = None,
) -> Response:
    """Say whether agent b is worse than agent a by more than a margin (an extension).

    The verdict is `pass`, `fail` or `inconclusive`. Where more attempts are unscored than allowed, by a
    number or as a share such as 5%, they count by the bounds of what they could change. While a job runs,
    only evidence that holds at every look decides.
    """
    sides = await services.engine.baselines.sides(a, b)
    comparison = await _comparison(services, sides, cluster, suspect, margin)
    found = await _gate(services, sides[1], comparison, margin, max_unscored, suspect)
    return await found.answer(request)


@router.post("/gate", response_model=GateView)
async def gate_agents_and_tell(
    request: Request,
    services: ServicesDep,
    identity: RequestIdentity,
    a: SideText,
    b: SideText,
    margin: Margin = 0.0,
    max_unscored: MaxUnscored = "0",
    cluster: ClusterKey = None,
    suspect: SuspectRule | None = None,
) -> Response:
    """Say the same as GET does, and tell the webhooks of the verdict (an extension).

    A repeated request, with the same `x-request-id`, tells them nothing again.
    """
    sides = await services.engine.baselines.sides(a, b)
    comparison = await _comparison(services, sides, cluster, suspect, margin)
    short = await _gate(services, sides[1], comparison, margin, max_unscored, suspect, with_scenarios=False)
    told = GateView.model_validate_json(short.text)
    # The identity does not know the query, which is all of this request.
    await services.engine.webhooks.gate_verdict(told, f"{identity.new_id('gate')}?{request.url.query}")
    found = await _gate(services, sides[1], comparison, margin, max_unscored, suspect)
    return await found.answer(request)


async def _gate(
    services: Services,
    judged: Side,
    comparison: Report,
    margin: float,
    max_unscored: str,
    suspect: SuspectRule | None,
    *,
    with_scenarios: bool = True,
) -> Report:
    rule = suspect or judged[0].orchestrator.suspect_rule
    reports = services.job_reports
    return await reports.gate(comparison, margin, rule, max_unscored, with_scenarios=with_scenarios)


async def _comparison(
    services: Services,
    sides: tuple[Side, Side],
    cluster: str | None,
    suspect: SuspectRule | None,
    margin: float = 0.0,
) -> Report:
    (a, _), (b, _) = sides
    clusters = None if cluster is None else await _clusters(services, a, b, cluster)
    jobs = services.engine.reported_jobs
    return await services.job_reports.compare(jobs, sides, suspect, clusters, cluster, margin)


async def _clusters(services: Services, a: Job, b: Job, key: str) -> dict[str, str]:
    """Return the groups of shared scenarios by a metadata key; a scenario without it is its own group."""
    others = set(b.spec.scenario_ids)
    shared = [id for id in a.spec.scenario_ids if id in others]
    groups: dict[str, str] = {}
    for start in range(0, len(shared), _IDS_AT_ONCE):
        ids = shared[start : start + _IDS_AT_ONCE]
        scenarios = await services.engine.scenarios.records.all({"id": ids})
        groups |= {each.id: each.metadata[key] for each in scenarios if key in each.metadata}
    if shared and not groups:
        raise UsageError(f"none of the shared scenarios has {key!r} in its metadata", field="cluster")
    return groups
