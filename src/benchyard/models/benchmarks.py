"""A benchmark: a named set of scenarios that together give one score."""

from pydantic import Field

from benchyard.models.base import Columns, Metadata, Model, Record
from benchyard.models.scenarios import DefinitionStatus, EnvName, LongText, Name

MAX_SCENARIOS = 20_000


class BenchmarkRequest(Model):
    """The body of a create call."""

    name: Name
    attribution: LongText | None = None
    description: LongText | None = None
    metadata: Metadata | None = None
    required_environment_variables: list[EnvName] | None = None
    required_secret_names: list[EnvName] | None = None
    scenario_ids: list[str] | None = Field(default=None, max_length=MAX_SCENARIOS)


class BenchmarkChange(Model):
    """The body of an update: None leaves a field as it is, an empty value clears it."""

    name: Name | None = None
    attribution: LongText | None = None
    description: LongText | None = None
    metadata: Metadata | None = None
    required_environment_variables: list[EnvName] | None = None
    required_secret_names: list[EnvName] | None = None
    scenario_ids: list[str] | None = Field(default=None, max_length=MAX_SCENARIOS)


class BenchmarkScenariosChange(Model):
    """Scenarios to add to a benchmark, and to take out of it."""

    scenarios_to_add: list[str] | None = Field(default=None, max_length=MAX_SCENARIOS)
    scenarios_to_remove: list[str] | None = Field(default=None, max_length=MAX_SCENARIOS)


class Benchmark(Record):
    """A benchmark as it is stored."""

    name: str
    status: DefinitionStatus = "active"
    attribution: str | None = None
    description: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    required_environment_variables: list[str] | None = None
    required_secret_names: list[str] | None = None
    scenario_ids: list[str] = Field(default_factory=list)
    is_public: bool = False
    revision: int = 1
    """Increases with every change of the definition."""

    def columns(self) -> Columns:
        """Index by name, status, and whether it is public."""
        return Columns(name=self.name, status=self.status, parent="public" if self.is_public else "own")

    def view(self) -> "BenchmarkView":
        """Return the benchmark as the wire shows it."""
        return BenchmarkView(
            **self.model_dump(exclude={"scenario_ids", "request_hash"}),
            scenarioIds=self.scenario_ids,
            scenario_ids=self.scenario_ids,
        )


class BenchmarkView(Model):
    """A benchmark as the wire shows it; `scenarioIds` has the original's spelling."""

    id: str
    name: str
    status: DefinitionStatus
    metadata: dict[str, str]
    scenarioIds: list[str]
    scenario_ids: list[str]
    attribution: str | None = None
    description: str | None = None
    is_public: bool = False
    required_environment_variables: list[str] | None = None
    required_secret_names: list[str] | None = None
    revision: int = 1
    create_time_ms: int


class BenchmarkListView(Model):
    """A page of benchmarks."""

    benchmarks: list[BenchmarkView]
    has_more: bool
    total_count: int | None = None
