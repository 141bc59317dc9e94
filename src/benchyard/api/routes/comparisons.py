"""Comparisons of two agents, of one job or of two (extensions): the difference, and a gate on it."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from fastapi.responses import Response

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.job_reports import Report
from benchyard.api.lazy_route import LazyRoute
from benchyard.errors import NotFound, UsageError
from benchyard.models.base import ShortText
from benchyard.models.comparisons import ComparisonView, GateView
from benchyard.models.jobs import Job
from benchyard.models.trials import SuspectRule
from benchyard.reports.paired_comparison import gate, n_tried

SideText = Annotated[str, Parameter(max_length=1200, description="JOB_ID, or JOB_ID:AGENT by index or label")]
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
    margin: Annotated[float, Parameter(ge=0, le=1)] = 0.0,
    max_unscored: Annotated[str, Parameter(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})?%?$")] = "0",
    cluster: ClusterKey = None,
    suspect: SuspectRule | None = None,
) -> GateView:
    """Say whether agent b is worse than agent a by more than a margin (an extension).

    The verdict is `pass`, `fail` or `inconclusive`. Where more attempts are unscored than allowed, by a
    number or as a share such as 5%, they count by the bounds of what they could change.
    """
    report = await _comparison(services, a, b, cluster, suspect)
    comparison = ComparisonView.model_validate_json(report.text)
    job = await services.engine.jobs.get(comparison.b.job_id)
    number = float(max_unscored.removesuffix("%"))
    allowed = number * n_tried(comparison) / 100 if max_unscored.endswith("%") else number
    return gate(comparison, margin, suspect or job.orchestrator.suspect_rule, allowed)


async def _comparison(
    services: Services, a: str, b: str, cluster: str | None, suspect: SuspectRule | None
) -> Report:
    left, right = await _side(services, a), await _side(services, b)
    clusters = None if cluster is None else await _clusters(services, left[0], right[0], cluster)
    jobs = services.engine.jobs
    return await services.job_reports.compare(jobs, (left, right), suspect, clusters, cluster)


async def _side(services: Services, text: str) -> tuple[Job, int]:
    """Return a job and the index of its agent that a text names; raises UsageError if it can mean several."""
    id, _, name = text.partition(":")
    job = await services.engine.jobs.get(id)
    return job, _agent(job, name)


def _agent(job: Job, name: str) -> int:
    labels = [each.label for each in job.spec.agent_configs]
    if not name:
        if len(labels) == 1:
            return 0
        raise UsageError(f"job {job.id} has several agents; name one: {_named(job.id, labels)}")
    if name.isdigit() and int(name) < len(labels):
        return int(name)
    matching = [
        index
        for index, config in enumerate(job.spec.agent_configs)
        if name in (config.label, config.name, f"{config.name}:{config.model_name}")
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(
            f"{name[:200]!r} can mean several agents of job {job.id}; use an index: {_named(job.id, labels)}"
        )
    raise NotFound(f"job {job.id} has no agent {name[:200]!r}; there are {_named(job.id, labels)}")


def _named(id: str, labels: list[str]) -> str:
    return ", ".join(f"{id}:{index} ({label})" for index, label in enumerate(labels[:20]))


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
