"""Comparisons of two agents, of one job or of two (extensions): the difference, and a gate on it."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from fastapi.responses import Response

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.job_reports import Report
from benchyard.api.lazy_route import LazyRoute
from benchyard.errors import UsageError
from benchyard.models.base import ShortText
from benchyard.models.comparisons import ComparisonView, GateView
from benchyard.models.jobs import Job
from benchyard.models.trials import SuspectRule
from benchyard.reports.paired_comparison import gate, n_tried

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
    return (await _comparison(services, a, b, cluster, suspect)).respond(request)


@router.get("/gate", response_model_exclude_none=True)
async def gate_agents(
    services: ServicesDep,
    a: SideText,
    b: SideText,
    margin: Margin = 0.0,
    max_unscored: MaxUnscored = "0",
    cluster: ClusterKey = None,
    suspect: SuspectRule | None = None,
) -> GateView:
    """Say whether agent b is worse than agent a by more than a margin (an extension).

    The verdict is `pass`, `fail` or `inconclusive`. Where more attempts are unscored than allowed, by a
    number or as a share such as 5%, they count by the bounds of what they could change. While a job runs,
    only evidence that holds at every look decides.
    """
    return await _gate(services, a, b, margin, max_unscored, cluster, suspect)


@router.post("/gate", response_model_exclude_none=True)
async def gate_agents_and_tell(
    services: ServicesDep,
    a: SideText,
    b: SideText,
    margin: Margin = 0.0,
    max_unscored: MaxUnscored = "0",
    cluster: ClusterKey = None,
    suspect: SuspectRule | None = None,
) -> GateView:
    """Say the same as GET does, and tell the webhooks of the verdict (an extension)."""
    found = await _gate(services, a, b, margin, max_unscored, cluster, suspect)
    await services.engine.webhooks.gate_verdict(found)
    return found


async def _gate(
    services: Services,
    a: str,
    b: str,
    margin: float,
    max_unscored: str,
    cluster: str | None,
    suspect: SuspectRule | None,
) -> GateView:
    report = await _comparison(services, a, b, cluster, suspect, margin)
    comparison = ComparisonView.model_validate_json(report.text)
    job = await services.engine.reported_jobs.get(comparison.b.job_id)
    number = float(max_unscored.removesuffix("%"))
    allowed = number * n_tried(comparison) / 100 if max_unscored.endswith("%") else number
    return gate(comparison, margin, suspect or job.orchestrator.suspect_rule, allowed)


async def _comparison(
    services: Services,
    a: str,
    b: str,
    cluster: str | None,
    suspect: SuspectRule | None,
    margin: float = 0.0,
) -> Report:
    left, right = await services.engine.baselines.sides(a, b)
    clusters = None if cluster is None else await _clusters(services, left[0], right[0], cluster)
    jobs = services.engine.reported_jobs
    return await services.job_reports.compare(jobs, (left, right), suspect, clusters, cluster, margin)


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
