"""Keyword arguments to make, change, start and list agents, scenarios, benchmarks, runs and devboxes.

Values are models or plain dictionaries of the same shape; the server checks them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from benchyard.errors import UsageError
from benchyard.models.agents import AgentSource
from benchyard.models.gateway_configs import AuthMechanism, CustomHeader
from benchyard.models.jobs import Spec
from benchyard.models.launch import LaunchParameters
from benchyard.models.model_access import Budget
from benchyard.models.objects import ContentType
from benchyard.models.runs import RunProfile
from benchyard.models.scenarios import (
    CollectCommand,
    InputContext,
    IsolationChoice,
    RewardStrategy,
    ScenarioEnvironment,
    ScoringContract,
    Step,
    ValidatedIsolation,
    ValidationType,
)

M = TypeVar("M", bound=BaseModel)
Loose = Mapping[str, Any]
"""A dictionary in place of a model."""


class _ScenarioExtras(TypedDict, total=False):
    """Optional fields of a scenario."""

    environment_parameters: ScenarioEnvironment | Loose | None
    metadata: Mapping[str, str] | None
    reference_output: str | None
    required_environment_variables: Sequence[str] | None
    required_secret_names: Sequence[str] | None
    scorer_timeout_sec: int | None
    validation_type: ValidationType | None
    scoring_isolation: IsolationChoice | None
    validated_isolation: ValidatedIsolation | Loose | None
    answer_paths: Sequence[str] | None
    nop_score: float | None
    scoring_network: str | None
    scoring_secrets: Mapping[str, str] | None
    scoring_tracing: bool | None
    answer_excludes: Sequence[str] | None
    scoring_blueprint_id: str | None
    attachments: Mapping[str, str] | None
    """Ids of stored objects, by name."""
    collect_commands: Sequence[CollectCommand | Loose] | None
    agent_network_policy: str | None
    agent_timeout_sec: float | None
    tries: int | None
    retry_prompt: str | None
    steps: Sequence[Step | Loose] | None
    reward_strategy: RewardStrategy | None


class ScenarioFields(_ScenarioExtras, total=False):
    """Fields of a new scenario."""

    name: Required[str]
    input_context: Required[InputContext | Loose]
    scoring_contract: Required[ScoringContract | Loose]


class ScenarioChanges(_ScenarioExtras, total=False):
    """Changes of a scenario; None leaves a field as it is, an empty value clears it."""

    name: str | None
    input_context: InputContext | Loose | None
    scoring_contract: ScoringContract | Loose | None


class _BenchmarkExtras(TypedDict, total=False):
    """Optional fields of a benchmark."""

    attribution: str | None
    description: str | None
    metadata: Mapping[str, str] | None
    required_environment_variables: Sequence[str] | None
    required_secret_names: Sequence[str] | None
    scenario_ids: Sequence[str] | None


class BenchmarkFields(_BenchmarkExtras, total=False):
    """Fields of a new benchmark."""

    name: Required[str]


class BenchmarkChanges(_BenchmarkExtras, total=False):
    """Changes of a benchmark; None leaves a field as it is, an empty value clears it."""

    name: str | None


class NewAgentFields(TypedDict, total=False):
    """Fields of a new agent, except its source."""

    name: Required[str]
    version: str | None
    run_command: str | None
    """Command by which jobs run it."""
    metadata: Mapping[str, str] | None


class AgentFields(NewAgentFields, total=False):
    """Fields of a new agent."""

    source: AgentSource | Loose | None


class _GatewayExtras(TypedDict, total=False):
    """Optional fields of a gateway config."""

    custom_headers: Sequence[CustomHeader | Loose] | None
    description: str | None


class GatewayFields(_GatewayExtras, total=False):
    """Fields of a new gateway config."""

    name: Required[str]
    endpoint: Required[str]
    auth_mechanism: Required[AuthMechanism | Loose]


class GatewayChanges(_GatewayExtras, total=False):
    """Changes of a gateway config; None leaves a field as it is, an empty value clears it."""

    name: str | None
    endpoint: str | None
    auth_mechanism: AuthMechanism | Loose | None


class RunOptions(TypedDict, total=False):
    """Optional fields of any run; `run_profile`: `env_vars`, `secrets`, `launch_parameters`, `mounts`."""

    metadata: Mapping[str, str] | None
    run_name: str | None
    run_profile: RunProfile | Loose | None


class ScenarioRunOptions(RunOptions, total=False):
    """Optional fields of a scenario's run."""

    benchmark_run_id: str | None


class RunGatewayFields(TypedDict, total=False):
    """Model access for code of a run: one model, whose name may imply the provider, or a whole provider."""

    model: str | None
    provider: str | None
    secret: str | None
    budget: Budget | Loose | None
    logprobs: bool


class ScenarioRunFields(ScenarioRunOptions, total=False):
    """Fields of a scenario's run."""

    scenario_id: Required[str]


class BenchmarkRunFields(RunOptions, total=False):
    """Fields of a benchmark's run."""

    benchmark_id: Required[str]


class PageFields(TypedDict, total=False):
    """Choice of a page of a listing."""

    limit: int
    """Number of items on a page; 20 by default."""
    starting_after: str
    """Id of the last item of the page before."""
    include_total_count: bool
    search: str
    """A whole id, or a part of a name."""


class NamedPageFields(PageFields, total=False):
    """Choice of a page of a listing whose items have names."""

    name: str


class GatewayPageFields(NamedPageFields, total=False):
    """Choice of a page of gateway configs; a part of a name suffices."""

    id: str


class AgentPageFields(NamedPageFields, total=False):
    """Choice of a page of agents."""

    version: str
    """A version; `latest` is the newest of those that match."""


class ScenarioPageFields(NamedPageFields, total=False):
    """Choice of a page of scenarios."""

    benchmark_id: str
    validation_type: ValidationType


class RunPageFields(NamedPageFields, total=False):
    """Choice of a page of scenario runs."""

    benchmark_run_id: str
    scenario_id: str
    state: str
    tag: str
    own: bool
    """True for runs that belong to no job and no benchmark run."""


class StatePageFields(PageFields, total=False):
    """Choice of a page of the scenario runs of a benchmark run."""

    state: str


class BenchmarkRunPageFields(NamedPageFields, total=False):
    """Choice of a page of benchmark runs."""

    benchmark_id: str
    state: str
    tag: str
    own: bool
    """True for runs that belong to no job."""


class JobFields(TypedDict, total=False):
    """Fields of a new job."""

    spec: Required[Spec | Loose]
    name: str | None
    metadata: Mapping[str, str] | None


class JobPageFields(NamedPageFields, total=False):
    """Choice of a page of jobs."""

    status: str
    """A state, or several with commas between them."""
    tag: str


class TrialFields(TypedDict, total=False):
    """Choice of trials of a job."""

    limit: int
    status: str
    agent: int
    """Number of the agent in the job, from 0."""
    scenario_id: str
    scenario_name: str


class TrialPageFields(TypedDict, total=False):
    """Choice of a page of the trials of all jobs."""

    limit: int
    starting_after: str
    include_total_count: bool
    job_id: str
    scenario_id: str
    benchmark_id: str
    agent: str
    """A name, or `agent@version:model`."""
    state: str
    outcome: str
    """`passed`, `not_passed`, `crashed` or `unscored`."""
    kind: str
    """The party at fault of a failure, such as `agent` or `infrastructure`."""
    tag: str


def body_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as the JSON body of a request; raises UsageError for a value that JSON cannot hold."""
    try:
        made: dict[str, Any] = to_jsonable_python(dict(fields), exclude_none=True)
    except PydanticSerializationError as error:
        raise UsageError(f"a value cannot be sent: {error}") from error
    return made


class DevboxExtras(TypedDict, total=False):
    """Optional fields of a new devbox, whatever it starts from."""

    name: str | None
    metadata: Mapping[str, str] | None
    launch_parameters: LaunchParameters | Loose | None
    environment_variables: Mapping[str, str] | None
    secrets: Mapping[str, str] | None
    entrypoint: str | None
    mounts: list[Any] | None
    file_mounts: Mapping[str, str] | None
    code_mounts: list[Any] | None
    gateways: Mapping[str, Any] | None
    """A gateway config and the secret it is used with, by variable prefix."""
    mcp: Mapping[str, Any] | None
    """Refused by the server: MCP configs are not supported."""
    tunnel: Loose | None


class DevboxFields(DevboxExtras, total=False):
    """Fields of a new devbox."""

    blueprint_id: str | None
    blueprint_name: str | None
    snapshot_id: str | None


class DevboxPageFields(PageFields, total=False):
    """Choice of a page of devboxes."""

    status: str


class BlueprintFields(TypedDict, total=False):
    """Fields of a new blueprint."""

    name: Required[str]
    base_blueprint_id: str | None
    base_blueprint_name: str | None
    build_args: Mapping[str, str] | None
    build_context: Loose | None
    """Archive that the Dockerfile copies from, as `storage_object.as_build_context()` returns it."""
    code_mounts: Sequence[Any] | None
    dockerfile: str | None
    file_mounts: Mapping[str, str] | None
    launch_parameters: LaunchParameters | Loose | None
    metadata: Mapping[str, str] | None
    network_policy_id: str | None
    secrets: Mapping[str, str] | None
    services: Sequence[Any] | None
    system_setup_commands: Sequence[str] | None


class BlueprintPageFields(PageFields, total=False):
    """Choice of a page of blueprints."""

    name: str
    status: str


class SnapshotFields(TypedDict, total=False):
    """Name, message and metadata of a snapshot."""

    name: str | None
    commit_message: str | None
    metadata: Mapping[str, str] | None


class SnapshotPageFields(PageFields, total=False):
    """Choice of a page of snapshots."""

    devbox_id: str
    source_blueprint_id: str
    metadata_key: str
    metadata_key_in: str


class ObjectFields(TypedDict, total=False):
    """Fields of a new object."""

    name: Required[str]
    content_type: Required[ContentType]
    metadata: Mapping[str, str] | None
    ttl_ms: int | None


class ObjectPageFields(PageFields, total=False):
    """Choice of a page of objects."""

    name: str
    content_type: str
    search: str
    state: str


def request_of(kind: type[M], fields: Mapping[str, Any]) -> M:
    """Return a request made of fields; raises UsageError with the name of the field that does not fit."""
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{place}: {first['msg']}", field=place) from error
