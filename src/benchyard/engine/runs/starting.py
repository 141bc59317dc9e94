"""The start of a scenario run: what it brings along, and the devbox it is worked on in."""

from dataclasses import dataclass, field

from benchyard.devboxes.base import Capability, Shown
from benchyard.engine.devboxes import Asked, Devboxes
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.runs.profiles import check_gates, devbox_request, joined, opened
from benchyard.engine.runs.scoring import Scoring
from benchyard.engine.tools import Tools
from benchyard.errors import NotFound, NotSupported, ScorerFailed, UsageError
from benchyard.models.devboxes import Devbox, DevboxPurpose
from benchyard.models.rounds import StepSetup
from benchyard.models.runs import BenchmarkRun, RunProfile, ScenarioRunRequest
from benchyard.models.scenarios import Scenario
from benchyard.store.collection import Collection

RUN_PREFIX = "scr_"


@dataclass(frozen=True)
class Start:
    """A run that is to begin, when all about it is known."""

    scenario: Scenario
    """As it is, or as it was when a job began."""
    profile: RunProfile = field(default_factory=RunProfile)
    benchmark_run_id: str | None = None
    run_name: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    shown: tuple[Shown, ...] = ()
    """Folders of the host that its devbox sees."""
    scorer_multiplier: float = 1.0
    is_reference: bool = False
    """Whether it shows how scorers end with the reference; see ScenarioRun."""


class Starting:
    """Finds out what a run needs, and makes its devbox."""

    def __init__(
        self, tools: Tools, benchmark_runs: Collection[BenchmarkRun], devboxes: Devboxes, scoring: Scoring
    ) -> None:
        self._tools = tools
        self._benchmark_runs = benchmark_runs
        self._devboxes = devboxes
        self._scoring = scoring

    async def profile(self, scenario: Scenario, request: ScenarioRunRequest) -> RunProfile:
        """What the run brings along, with that of its benchmark run; UsageError where it cannot begin."""
        if scenario.status == "archived":
            raise UsageError(f"scenario {scenario.id} is archived; unarchive it to run it")
        profile = await self._joined(scenario, request)
        check_gates(
            scenario.required_environment_variables,
            scenario.required_secret_names,
            profile,
            f"scenario {scenario.name!r}",
        )
        return profile

    async def devbox(self, asked: Asked, start: Start) -> Devbox:
        """The devbox of the run; made before the run is noted, so that what is refused leaves nothing."""
        scenario = start.scenario
        seed = self._tools.vault.derive("run-devboxes", asked.id)
        isolation = scenario.isolation
        shown = start.shown
        if isolation == "live":
            try:
                shown = (*shown, *await self._scoring.mounts(scenario))
            except ScorerFailed as error:
                raise UsageError(f"a scorer of the scenario cannot run: {error.message}") from error
        purpose = DevboxPurpose(
            working_directory=scenario.working_directory,
            isolation=isolation,
            keeps_start=scenario.keeps_start,
            shown={each.target: str(each.source) for each in shown},
            agent_network_policy=scenario.agent_network_policy or None,
            scoring_network=scenario.scoring_network or None,
            first_step=_first_step(scenario),
            refuses_tracing=isolation == "live" and not scenario.scoring_tracing,
        )
        wanted = devbox_request(scenario, start.profile, start.metadata)
        made_for = Asked(id_from_bytes("dbx_", seed), asked.request_hash, run_id=asked.id, purpose=purpose)
        try:
            return await self._devboxes.create(made_for, wanted)
        except NotFound as error:
            # The scenario is there; 404 would say that it is not.
            raise UsageError(f"scenario {scenario.id} cannot be run: {error.message}") from error

    async def _joined(self, scenario: Scenario, request: ScenarioRunRequest) -> RunProfile:
        if request.benchmark_run_id is None:
            return request.run_profile or RunProfile()
        try:
            parent = await self._benchmark_runs.get(request.benchmark_run_id)
        except NotFound as error:
            raise UsageError(
                f"no benchmark run {request.benchmark_run_id[:200]!r}", field="benchmark_run_id"
            ) from error
        if parent.state != "running":
            raise UsageError(f"benchmark run {parent.id} is {parent.state}; start another")
        if scenario.id not in parent.scenario_ids:
            raise UsageError(f"scenario {scenario.id} is not part of the benchmark of run {parent.id}")
        return joined(opened(parent.profile, self._tools.vault), request.run_profile)


def _first_step(scenario: Scenario) -> StepSetup | None:
    return scenario.steps[0].preparation(scenario.attachments) if scenario.steps else None


def require_walls(tools: Tools) -> None:
    """Raise NotSupported where nothing could be scored apart from who made it."""
    capabilities, _ = tools.host.report()
    needed = {Capability.ISOLATION, Capability.SNAPSHOTS, Capability.IMAGES}
    if not needed <= capabilities and not tools.host.pretends:
        raise NotSupported(
            "scenarios cannot be scored with this server's driver, whose devboxes have no walls; start the "
            "server with --driver native or --driver container"
        )
