"""Start of a scenario run: its profile, and the devbox that it works in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchyard.devboxes.base import Capability, HostFolder
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.request_checks import NETWORK_KEY
from benchyard.engine.devboxes.service import Devboxes
from benchyard.engine.devboxes.start_image import merge_launch
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.runs.scoring import Scoring
from benchyard.errors import NotFound, NotSupported, ScorerFailed, UsageError
from benchyard.models.devboxes import Devbox, DevboxPurpose, DevboxRequest
from benchyard.models.jobs import TRIAL_KEY
from benchyard.models.launch import AgentMount, CodeMount, LaunchParameters, Mount
from benchyard.models.runs import BenchmarkRun, RunProfile, ScenarioRunRequest
from benchyard.models.scenarios import Scenario, ScenarioEnvironment
from benchyard.store.collection import Collection
from benchyard.store.vault import Vault


def join_profiles(outer: RunProfile, own: RunProfile | None) -> RunProfile:
    """Return a scenario run's profile, completed from that of its benchmark run."""
    if own is None:
        return outer
    launch = own.launch_parameters
    if outer.launch_parameters is not None:
        launch = merge_launch(outer.launch_parameters, own.launch_parameters)
    return RunProfile(
        env_vars={**(outer.env_vars or {}), **(own.env_vars or {})},
        secrets={**(outer.secrets or {}), **(own.secrets or {})},
        launch_parameters=launch,
        mounts=[*(outer.mounts or []), *(own.mounts or [])],
        purpose=own.purpose or outer.purpose,
    )


def check_required_values(
    variables: Sequence[str] | None, secrets: Sequence[str] | None, profile: RunProfile, what: str
) -> None:
    """Raise UsageError if a required variable or secret is missing."""
    given = {*(profile.env_vars or {}), *(profile.secrets or {})}
    missing = [name for name in variables or [] if name not in given]
    if missing:
        raise UsageError(
            f"{what} needs the environment variables {', '.join(missing)}; give them in run_profile.env_vars",
            field="run_profile.env_vars",
        )
    named = {*(profile.secrets or {}), *(profile.secrets or {}).values()}
    missing = [name for name in secrets or [] if name not in named]
    if missing:
        raise UsageError(
            f"{what} needs the secrets {', '.join(missing)}; give them in run_profile.secrets as "
            "{variable: secret name}",
            field="run_profile.secrets",
        )


def devbox_request(scenario: Scenario, profile: RunProfile, metadata: dict[str, str]) -> DevboxRequest:
    """Return the request for the devbox of a run."""
    environment = scenario.environment or ScenarioEnvironment()
    network = {**scenario.metadata, **metadata}.get(NETWORK_KEY)
    return DevboxRequest(
        name=scenario.name[:200],
        metadata={NETWORK_KEY: network} if network else None,
        blueprint_id=environment.blueprint_id,
        snapshot_id=environment.snapshot_id,
        launch_parameters=merge_launch(
            environment.launch_parameters or LaunchParameters(), profile.launch_parameters
        ),
        environment_variables={**(environment.environment_variables or {}), **(profile.env_vars or {})}
        or None,
        secrets=profile.secrets,
        mounts=profile.mounts,
    )


def seal_profile(profile: RunProfile, vault: Vault) -> RunProfile:
    """Return a profile for the store: the tokens of its repositories are sealed."""
    return profile.model_copy(update={"mounts": [_token(each, vault.seal) for each in profile.mounts or []]})


def open_profile(profile: RunProfile, vault: Vault) -> RunProfile:
    """Return a profile from the store, with its tokens in clear."""
    return profile.model_copy(update={"mounts": [_token(each, vault.open) for each in profile.mounts or []]})


def _token(mount: Mount, change: Callable[[str], str]) -> Mount:
    if isinstance(mount, CodeMount) and mount.token:
        return mount.model_copy(update={"token": change(mount.token)})
    if isinstance(mount, AgentMount) and mount.auth_token:
        return mount.model_copy(update={"auth_token": change(mount.auth_token)})
    return mount


RUN_PREFIX = "scr_"


@dataclass(frozen=True)
class RunPlan:
    """Complete plan of a run that is to begin."""

    scenario: Scenario
    """The present revision, or the one with which a job began."""
    profile: RunProfile = field(default_factory=RunProfile)
    benchmark_run_id: str | None = None
    run_name: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    shown: tuple[HostFolder, ...] = ()
    """Folders of the host that its devbox shows."""
    scorer_multiplier: float = 1.0
    is_reference: bool = False
    """True for a run that tries scorers with the reference; see ScenarioRun."""


class RunStarter:
    """Finds the needs of a run, and creates its devbox."""

    def __init__(
        self,
        tools: EngineContext,
        benchmark_runs: Collection[BenchmarkRun],
        devboxes: Devboxes,
        scoring: Scoring,
    ) -> None:
        self._tools = tools
        self._benchmark_runs = benchmark_runs
        self._devboxes = devboxes
        self._scoring = scoring

    async def profile(self, scenario: Scenario, request: ScenarioRunRequest) -> RunProfile:
        """Return a run's profile, joined with its benchmark run's; raises UsageError if it cannot begin."""
        if scenario.status == "archived":
            raise UsageError(f"scenario {scenario.id} is archived; unarchive it to run it")
        profile = await self._join_profiles(scenario, request)
        check_required_values(
            scenario.required_environment_variables,
            scenario.required_secret_names,
            profile,
            f"scenario {scenario.name!r}",
        )
        return profile

    async def devbox(self, caller: Caller, start: RunPlan) -> Devbox:
        """Create the devbox of a run; done before the run is stored, so that a refusal leaves no record."""
        scenario = start.scenario
        seed = self._tools.vault.derive("run-devboxes", caller.id)
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
            first_step=scenario.steps[0].preparation(scenario.attachments) if scenario.steps else None,
            refuses_tracing=isolation == "live" and not scenario.scoring_tracing,
            is_marked_later=TRIAL_KEY in start.metadata,
        )
        wanted = devbox_request(scenario, start.profile, start.metadata)
        made_for = Caller(id_from_bytes("dbx_", seed), caller.request_hash, run_id=caller.id, purpose=purpose)
        try:
            return await self._devboxes.create(made_for, wanted)
        except NotFound as error:
            # The scenario itself exists; a 404 would deny that.
            raise UsageError(f"scenario {scenario.id} cannot be run: {error.message}") from error

    async def _join_profiles(self, scenario: Scenario, request: ScenarioRunRequest) -> RunProfile:
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
        return join_profiles(open_profile(parent.profile, self._tools.vault), request.run_profile)


def require_isolation(tools: EngineContext) -> None:
    """Raise NotSupported if this driver cannot score apart from the agent that made the answer."""
    needed = {Capability.ISOLATION, Capability.SNAPSHOTS, Capability.IMAGES}
    if not needed <= tools.host.capabilities and not tools.host.pretends:
        raise NotSupported(
            "scenarios cannot be scored with this server's driver, whose devboxes are not isolated; start "
            "the server with --driver native or --driver container"
        )
