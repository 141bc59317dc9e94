"""Scripts that solve benchmarks by their reference outputs, and scripts that solve nothing."""

import base64
import posixpath
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchyard.benchmarks import builtin_benchmarks
from benchyard.benchmarks.files import benchmark_file
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.errors import ScenarioError
from benchyard.models.scenarios import ScenarioEnvironment, ScenarioRequest, ScenarioView
from benchyard.models.scoring import references
from benchyard.scripted_model.scripts import Script, ScriptStep, squeeze

_FILE = "/tmp/solution-of-the-script"  # noqa: S108  (in a devbox that one agent has for itself)
_END = "END_OF_THE_SOLUTION"
_UNREADABLE = (_END, "$(", "`", "<(")
_APPLY = """\
(
{write}{apply}
status=$?
rm {file}
exit $status
)
"""
_LOOKING = "I look at what is there."
_SOLVING = "I know what to do."
_ABSENT = {"id": "", "status": "active", "create_time_ms": 0}


def solving(folder: Path | None = None, *, names: Sequence[str] = ()) -> tuple[Script, ...]:
    """Return scripts that solve the scenarios of a benchmark's folder, told apart by their statements.

    Without a folder: the benchmark that comes with us. `names` takes only some, by their scenarios' names.
    """
    scripts = [_script(draft, _solution(draft.request)) for draft in _drafts(folder, names)]
    _check_apart(scripts)
    return tuple(scripts)


def failing(folder: Path | None = None, *, names: Sequence[str] = ()) -> tuple[Script, ...]:
    """Return scripts for the same scenarios that look around, change nothing and say that they are done."""
    return tuple(_script(draft, "date && id -u") for draft in _drafts(folder, names))


def _drafts(folder: Path | None, names: Sequence[str]) -> Iterator[ScenarioDraft]:
    (quickstart,) = builtin_benchmarks.folders()
    for draft in benchmark_file.read_benchmark(folder or quickstart).scenarios:
        if isinstance(draft, ScenarioDraft) and (not names or draft.request.name in names):
            yield draft


def _script(draft: ScenarioDraft, command: str) -> Script:
    return Script(
        name=draft.request.name,
        match=draft.request.input_context.problem_statement,
        steps=(
            ScriptStep.model_validate({"text": _LOOKING, "shell": "ls -la"}),
            ScriptStep.model_validate({"text": _SOLVING, "shell": command}),
        ),
        final=f"I am done with {draft.request.name}.",
    )


def _solution(scenario: ScenarioRequest) -> str:
    """Return a command that applies the reference output: the devbox holds no other copy of it."""
    reference = scenario.reference_output
    if not reference:
        raise ScenarioError(f"scenario {scenario.name!r} has no reference output to make a script of")
    view = _view(scenario)
    if references.kind(scenario) == "expected":
        path = references.answer_path(view)
        if path is None:
            raise ScenarioError(f"nothing says where the reference output of {scenario.name!r} belongs")
        folder = shlex.quote(posixpath.dirname(path) or ".")
        return f"mkdir -p -- {folder} && {_written(path, reference)}"
    return _APPLY.format(write=_written(_FILE, reference), apply=references.command(view, _FILE), file=_FILE)


def _written(path: str, text: str) -> str:
    """Return a command that writes a file unchanged, with any content."""
    quoted = shlex.quote(path)
    if text.endswith("\n") and not any(piece in text for piece in _UNREADABLE):
        return f"cat > {quoted} <<'{_END}'\n{text}{_END}\n"
    # Some agents read commands before they run them, and refuse a command that seems to hold another.
    encoded = base64.b64encode(text.encode()).decode()
    return f"echo {encoded} | base64 -d > {quoted}\n"


def _view(scenario: ScenarioRequest) -> ScenarioView:
    """Return the scenario in the view given to references, which holds no data of a server."""
    environment = scenario.environment_parameters or ScenarioEnvironment()
    fields = scenario.model_dump(exclude={"environment_parameters"})
    fields["metadata"] = fields["metadata"] or {}
    return ScenarioView.model_validate({**fields, **_ABSENT, "environment": environment})


def _check_apart(drafts: Sequence[Script]) -> None:
    for one in drafts:
        for other in drafts:
            if one is not other and squeeze(one.match or "") in squeeze(other.match or ""):
                raise ScenarioError(
                    f"the problem statement of {one.name!r} is part of that of {other.name!r}: no script "
                    "could tell them apart"
                )
