"""Scenarios and custom scorers as objects: built step by step, found by id, run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, Unpack

from benchyard.client.methods import NounObject, S, VerbGroup, bound, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import (
    Loose,
    PageFields,
    ScenarioChanges,
    ScenarioFields,
    ScenarioPageFields,
    ScenarioRunFields,
    ScenarioRunOptions,
)
from benchyard.client.resources.scenarios import Scenarios, Scorers
from benchyard.client.sdk.runs import ScenarioRun
from benchyard.errors import UsageError
from benchyard.models.scenarios import (
    IsolationChoice,
    ValidationType,
)


class Identified(Protocol):
    """An object with an id: a view, or an object of the SDK."""

    @property
    def id(self) -> str:
        """Id of the object."""
        ...


class ScoringSteps:
    """Scorers of a scenario; weights count in proportion and need not add up to 1."""

    def __init__(self) -> None:
        self._scorers: list[dict[str, Any]] = []

    def add_test_command_scorer(
        self,
        name: str,
        *,
        test_command: str,
        weight: float = 1.0,
        test_files: Iterable[Loose] | None = None,
    ) -> Self:
        """Put test files in place, run a command, and pass if it ends with 0."""
        files = list(test_files) if test_files else None
        scorer = {"type": "test_based_scorer", "test_command": test_command, "test_files": files}
        return self._add(name, weight, scorer)

    def add_shell_command_scorer(self, name: str, *, command: str, weight: float = 1.0) -> Self:
        """Run a command, and pass if it ends with 0."""
        return self._add(name, weight, {"type": "command_scorer", "command": command})

    def add_bash_script_scorer(self, name: str, *, bash_script: str, weight: float = 1.0) -> Self:
        """Run a script whose last line is the score: `score=0.7`, or `0.7`."""
        return self._add(name, weight, {"type": "bash_script_scorer", "bash_script": bash_script})

    def add_python_script_scorer(
        self,
        name: str,
        *,
        python_script: str,
        weight: float = 1.0,
        python_version_constraint: str | None = None,
        requirements_contents: str | None = None,
    ) -> Self:
        """Run a Python script, in an environment of its own, whose last line is the score."""
        scorer = {
            "type": "python_script_scorer",
            "python_script": python_script,
            "python_version_constraint": python_version_constraint,
            "requirements_contents": requirements_contents,
        }
        return self._add(name, weight, scorer)

    def add_ast_grep_scorer(
        self,
        name: str,
        *,
        pattern: str,
        weight: float = 1.0,
        search_directory: str = ".",
        lang: str | None = None,
    ) -> Self:
        """Look for a pattern of code, and pass if it is found."""
        scorer = {"type": "ast_grep_scorer", "pattern": pattern, "lang": lang}
        return self._add(name, weight, {**scorer, "search_directory": search_directory})

    def add_custom_scorer(
        self, name: str, *, custom_scorer_type: str, weight: float = 1.0, scorer_params: Any = None
    ) -> Self:
        """Run the script that is registered under this type, with these parameters as its context."""
        scorer = {"type": "custom_scorer", "custom_scorer_type": custom_scorer_type}
        return self._add(name, weight, {**scorer, "scorer_params": scorer_params})

    def _add(self, name: str, weight: float, scorer: dict[str, Any]) -> Self:
        if not weight > 0:
            raise UsageError(f"scorer {name!r}: a weight must be more than 0, not {weight}", field="weight")
        given = {field: value for field, value in scorer.items() if value is not None}
        self._scorers.append({"name": name, "weight": weight, "scorer": given})
        return self

    def _contract(self) -> dict[str, Any]:
        if not self._scorers:
            raise UsageError("a scenario needs a scorer: call add_bash_script_scorer, or another add_...")
        total = sum(scorer["weight"] for scorer in self._scorers)
        functions = [{**scorer, "weight": scorer["weight"] / total} for scorer in self._scorers]
        return {"scoring_function_parameters": functions}


class EnvironmentSteps:
    """The devbox that a scenario is worked on in."""

    def __init__(self) -> None:
        self._environment: dict[str, Any] = {}

    def from_blueprint(self, blueprint: Identified | str) -> Self:
        """Start its devboxes from a blueprint, given as an object or by its id."""
        return self._from(blueprint_id=blueprint if isinstance(blueprint, str) else blueprint.id)

    def from_snapshot(self, snapshot: Identified | str) -> Self:
        """Start its devboxes from a snapshot, given as an object or by its id."""
        return self._from(snapshot_id=snapshot if isinstance(snapshot, str) else snapshot.id)

    def with_working_directory(self, directory: str) -> Self:
        """Set the directory in which the work is done and graded."""
        self._environment["working_directory"] = directory
        return self

    def with_launch_parameters(self, parameters: Loose) -> Self:
        """Set the size, user, launch commands and lifetime of its devboxes."""
        self._environment["launch_parameters"] = dict(parameters)
        return self

    def _from(self, **origin: str) -> Self:
        for field in ("blueprint_id", "snapshot_id"):
            self._environment.pop(field, None)
        self._environment |= origin
        return self


class ScenarioRecipe(ScoringSteps, EnvironmentSteps):
    """All fields of a scenario before it is made."""

    def __init__(self, name: str) -> None:
        ScoringSteps.__init__(self)
        EnvironmentSteps.__init__(self)
        self.name = name
        self._input: dict[str, Any] = {}
        self._others: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def with_problem_statement(self, statement: str) -> Self:
        """Set the text of the task."""
        self._input["problem_statement"] = statement
        return self

    def with_additional_context(self, context: Any) -> Self:
        """Add further input for the work, as JSON."""
        self._input["additional_context"] = context
        return self

    def with_metadata(self, metadata: Mapping[str, str]) -> Self:
        """Set its labels."""
        return self._with(metadata=dict(metadata))

    def with_reference_output(self, output: str) -> Self:
        """Set a known solution: once it is applied, all scorers must give 1."""
        return self._with(reference_output=output)

    def with_required_env_vars(self, env_vars: Sequence[str]) -> Self:
        """Name the environment variables that a run must provide."""
        return self._with(required_environment_variables=list(env_vars))

    def with_required_secrets(self, secrets: Sequence[str]) -> Self:
        """Name the secrets that a run must provide."""
        return self._with(required_secret_names=list(secrets))

    def with_validation_type(self, validation_type: ValidationType) -> Self:
        """Set the way in which the reference output is applied."""
        return self._with(validation_type=validation_type)

    def with_scorer_timeout(self, seconds: int) -> Self:
        """Limit the seconds of each scorer."""
        return self._with(scorer_timeout_sec=seconds)

    def with_isolation(self, mode: IsolationChoice, answer_paths: Sequence[str] | None = None) -> Self:
        """Set how grading is kept apart from the graded work; `answer` takes over only these paths."""
        return self._with(scoring_isolation=mode, answer_paths=list(answer_paths) if answer_paths else None)

    def preview(self) -> ScenarioFields:
        """Return the fields of the scenario, as `build` does; raises UsageError while it is incomplete."""
        return self.build()

    def build(self) -> ScenarioFields:
        """Return the fields of the scenario; raises UsageError while a required one is missing."""
        if not self._input.get("problem_statement"):
            raise UsageError("a scenario needs a problem statement: call with_problem_statement")
        made: ScenarioFields = {
            "name": self.name,
            "input_context": dict(self._input),
            "scoring_contract": self._contract(),
            **self._others,  # type: ignore[typeddict-item]
        }
        if self._environment:
            made["environment_parameters"] = dict(self._environment)
        return made

    def _with(self, **fields: Any) -> Self:
        self._others |= fields
        return self


class Scenario(NounObject[S]):
    """A scenario: a problem, the devbox to work on it, and the rules for grading the result."""

    get_info = bound(Scenarios.retrieve)
    update = bound(Scenarios.update)

    @call
    def run(
        self, *, timeout: float | None = None, **options: Unpack[ScenarioRunOptions]
    ) -> Steps[ScenarioRun[S]]:
        """Start a run and wait until its devbox runs; raises StartFailed if it never will."""
        group = Scenarios(self.session)
        fields: ScenarioRunFields = {**options, "scenario_id": self.id}
        view = yield from group.start_run_and_await_env_ready.steps(timeout=timeout, **fields)
        return ScenarioRun(self.session, view.id, view.devbox_id)

    @call
    def run_async(self, **options: Unpack[ScenarioRunOptions]) -> Steps[ScenarioRun[S]]:
        """Start a run and return at once; its devbox comes up meanwhile."""
        view = yield from Scenarios(self.session).start_run.steps(**options, scenario_id=self.id)
        return ScenarioRun(self.session, view.id, view.devbox_id)


class ScenarioBuilder(VerbGroup[S], ScenarioRecipe):
    """A scenario that is built step by step, and made by `push`."""

    def __init__(self, session: S, name: str) -> None:
        VerbGroup.__init__(self, session)
        ScenarioRecipe.__init__(self, name)

    @call
    def push(self, *, update: bool = False) -> Steps[Scenario[S]]:
        """Make the scenario; raises UsageError while a required field is missing.

        Each call makes a further scenario, as in the original SDK; with `update`, the newest scenario of this
        name is changed instead, if there is one.
        """
        group = Scenarios(self.session)
        fields = self.build()
        if update:
            named = yield from group.list.steps(name=self.name)
            known = next((each for each in named if each.name == self.name), None)
            if known is not None:
                changed = yield from group.update.steps(known.id, **ScenarioChanges(**fields))
                return Scenario(self.session, changed.id)
        return Scenario(self.session, (yield from group.create.steps(**fields)).id)


class ScenarioOps(VerbGroup[S]):
    """Makes and finds scenarios."""

    def builder(self, name: str) -> ScenarioBuilder[S]:
        """Return a builder of a new scenario."""
        return ScenarioBuilder(self.session, name)

    def from_id(self, scenario_id: str) -> Scenario[S]:
        """Return the scenario of that id, without a request to the server."""
        return Scenario(self.session, scenario_id)

    @call
    def create(self, **fields: Unpack[ScenarioFields]) -> Steps[Scenario[S]]:
        """Make a scenario of these fields."""
        return Scenario(self.session, (yield from Scenarios(self.session).create.steps(**fields)).id)

    @call
    def list(self, **query: Unpack[ScenarioPageFields]) -> Steps[list[Scenario[S]]]:
        """List the server's own scenarios, newest first; all, or at most `limit`."""
        views = yield from Scenarios(self.session).list.steps(**query)
        return [Scenario(self.session, view.id) for view in views]


class Scorer(NounObject[S]):
    """A custom scorer: a bash script that scenarios name by its type."""

    get_info = bound(Scorers.retrieve)
    update = bound(Scorers.update)
    validate = bound(Scorers.validate)


class ScorerOps(VerbGroup[S]):
    """Registers and finds custom scorers."""

    @call
    def create(self, type: str, bash_script: str) -> Steps[Scorer[S]]:
        """Register a bash script as a type of scorer; raises UsageError if the type is taken."""
        view = yield from Scorers(self.session).create.steps(type, bash_script)
        return Scorer(self.session, view.id)

    def from_id(self, scorer_id: str) -> Scorer[S]:
        """Return the custom scorer of that id, without a request to the server."""
        return Scorer(self.session, scorer_id)

    @call
    def list(self, **query: Unpack[PageFields]) -> Steps[list[Scorer[S]]]:
        """List custom scorers, newest first; all, or at most `limit`."""
        views = yield from Scorers(self.session).list.steps(**query)
        return [Scorer(self.session, view.id) for view in views]
