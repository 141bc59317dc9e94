"""Scorers as the tests of a Harbor task: one `test.sh` that runs them, and writes their results."""

import json
import posixpath
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchyard.errors import UsageError
from benchyard.models.scenarios import ScenarioView, ScoringContract, ScoringFunction
from benchyard.models.scoring.attachments import PackedFile
from benchyard.models.scoring.exports import PythonNeeds, ScorerExport

TEST_SCRIPT = "test.sh"
HARBOR = "harbor_scorer"
AST_GREP = "ast_grep_scorer"
UV_INSTALLER = "https://astral.sh/uv/0.9.5/install.sh"
_GRADED = "scorers/graded"
_PROGRAM = 0o755
_MOST_VARIABLE_BYTES = 96 * 1024
_HEAD = """\
#!/bin/bash
# Made by Benchyard: runs the scorers of a scenario, and writes what they found to /logs/verifier/reward.json.
tests=$(cd -- "$(dirname -- "$0")" && pwd) || exit 1
logs=/logs/verifier
{directory}
mkdir -p "$logs" && rm -f "$logs/reward.json" "$logs/reward.txt" && : > "$logs/scores" || exit 1
work=$(mktemp -d) || exit 1
export BASH_ENV= ENV=

fail() {{ echo "$1" >&2; exit 1; }}
told() {{ cat "$logs/$1.err" "$logs/$1.out" 2>/dev/null; }}
context() {{
    export BENCHYARD_SCORER_CONTEXT_FILE="$tests/scorers/$1.json"
    RL_SCORER_CONTEXT=$(cat "$tests/scorers/$1.short.json" 2>/dev/null || cat "$tests/scorers/$1.json")
    RL_TEST_CONTEXT=$RL_SCORER_CONTEXT
    export RL_SCORER_CONTEXT RL_TEST_CONTEXT
}}
# NAME WEIGHT SCORE
scored() {{ echo "$1: $3"; echo "score $1 $2 $3" >> "$logs/scores"; }}
passed() {{ if [ "$3" -eq 0 ]; then scored "$1" "$2" 1; else scored "$1" "$2" 0; fi; }}
# The last line that is not empty must be a number from 0 to 1, such as `0.7` or `score=0.7`.
printed() {{
    score=$(awk 'NF {{ line = $0 }} END {{
        gsub(/^[ \\t\\r]+|[ \\t\\r]+$/, "", line); sub(/^score[ \\t]*=[ \\t]*/, "", line)
        if (line !~ /^[+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?$/) exit 1
        if (line + 0 < 0 || line + 0 > 1) exit 1
        printf "%.9g", line + 0 }}' "$logs/$1.out") || fail "$1: its last line is not a number from 0 to 1"
    scored "$1" "$2" "$score"
}}
# NAME WEIGHT MAIN: the rewards that were printed as JSON.
rewarded() {{
    "$python" -I -X utf8 "$tests/scorers/tell.py" "$logs/$1.out" "$3" "$1" "$2" >> "$logs/scores" ||
        fail "$1: it was not graded"
}}
"""
_TELL = """\
import json, sys
found = json.load(open(sys.argv[1]))
for name, value in found.items():
    if name != sys.argv[2]:
        print("also", name, repr(float(value)))
print("score", sys.argv[3], sys.argv[4], repr(float(found[sys.argv[2]])))
"""
_UV = f"""\
command -v uv > /dev/null 2>&1 || {{
    curl -LsSf {UV_INSTALLER} | sh
    . "$HOME/.local/bin/env"
}}
# Not in root's home, which others cannot read.
export UV_PYTHON_INSTALL_DIR="$work/pythons"
"""
NEEDS_NETWORK = b"\ncommand -v uv "
"""Text in scripts that fetch packages."""
_TAIL = """
awk '$1 == "score" { total += $3 * $4 }
    $1 == "score" && several && $2 != "reward" { all = all sprintf(", \\"%s\\": %s", $2, $4) }
    $1 == "also" { all = all sprintf(", \\"%s\\": %s", $2, $3) }
    END { if (total > 1) total = 1; printf "{\\"reward\\": %.9g%s}\\n", total, all }' \\
    several=SEVERAL "$logs/scores" > "$logs/reward.json"
rm -f "$logs/scores"
"""


@dataclass(frozen=True)
class ScorerPrograms:
    """Parts of scorers that are not in their fields."""

    custom: Mapping[str, str] = field(default_factory=dict)
    """Type of a registered scorer -> its script."""
    shipped: Mapping[str, ScorerExport] = field(default_factory=dict)
    """Key of a scorer of a public benchmark -> how it is run elsewhere."""
    pythons: Mapping[str, PythonNeeds] = field(default_factory=dict)
    """Text of a Python script -> requirements of that script."""
    ast_grep: str = "ast-grep-cli"
    """Requirement that installs ast-grep."""
    graded: Callable[[str, Iterable[str]], bytes] | None = None
    """Makes the program by which root runs graded commands, for a user, without the given variables."""


@dataclass
class _Tests:
    """The tests of one contract, under construction."""

    view: ScenarioView
    programs: ScorerPrograms
    files: dict[str, PackedFile] = field(default_factory=dict)
    needs_uv: bool = False
    user: str = "user"
    """User who did the work."""
    grader: str | None = None
    """User who runs the tests; None if it is the same one."""

    def shell(self, function: ScoringFunction, path: str) -> str:
        """Return the command that runs a scorer's script, as the user that the scorer names."""
        command = f"bash --noprofile --norc {path}"
        return command if self.grader == function.scorer.get("user") else f'"$BENCHYARD_GRADED" {command}'

    def add(self, name: str, content: str | bytes, mode: int = 0o644) -> str:
        """Add a file; return its path in the room, quoted."""
        self.files[name] = PackedFile(content.encode() if isinstance(content, str) else content, mode)
        return f'"$tests/{name}"'

    def context(self, function: ScoringFunction, params: Mapping[str, Any] | None = None) -> str:
        """Give a scorer its parameters and the facts; return the line that does it."""
        facts: dict[str, Any] = {
            "problem_statement": self.view.input_context.problem_statement,
            "scenario_id": self.view.id,
        }
        if self.view.validation_type == "EVALUATION":
            facts["reference_output"] = self.view.reference_output
        text = json.dumps({**(params or {}), "benchyard": facts}, ensure_ascii=False)
        self.add(f"scorers/{function.name}.json", text)
        if len(text.encode()) > _MOST_VARIABLE_BYTES:
            short = json.dumps({**(params or {}), "benchyard": {"truncated": True}}, ensure_ascii=False)
            self.add(f"scorers/{function.name}.short.json", short)
        return f"context {function.name}\n"


def grader_of(contract: ScoringContract) -> str | None:
    """Return the user who must run a contract's tests, if not the one who did the work."""
    users = [parameter.scorer.get("user") for parameter in contract.scoring_function_parameters]
    return next((str(user) for user in users if user), None)


def tests_of(
    view: ScenarioView, contract: ScoringContract, programs: ScorerPrograms, user: str
) -> dict[str, PackedFile]:
    """Return the files of `tests/` for a contract; raises UsageError for scorers only the server can run."""
    functions = contract.scoring_function_parameters
    tests = _Tests(view, programs, user=user, grader=grader_of(contract))
    parts = [_part(tests, function) for function in functions]
    directory = view.environment.working_directory if view.environment else None
    where = f"cd -- {shlex.quote(directory)} || exit 1" if directory else 'cd -- "$HOME" || exit 1'
    head = (
        _HEAD.format(directory=where)
        + _lines_that_offer_the_command(tests, functions)
        + (_UV if tests.needs_uv else "")
    )
    tail = _TAIL.replace("SEVERAL", "1" if len(functions) > 1 else "0")
    script = "\n".join([head, *parts]) + tail
    return {TEST_SCRIPT: PackedFile(script.encode(), _PROGRAM), **tests.files}


def _lines_that_offer_the_command(tests: _Tests, functions: Sequence[ScoringFunction]) -> str:
    """Return the lines that lock out the graded user, and offer the command that runs graded programs."""
    if tests.grader is None:
        return ""
    if tests.programs.graded is None:
        raise UsageError("the program that runs answers for graders is not here; export it with the CLI")
    tests.add(_GRADED, tests.programs.graded(tests.user, tests.view.scoring_secrets or {}), _PROGRAM)
    is_closed = all(
        function.scorer.get("user") or function.scorer.get("type") == AST_GREP for function in functions
    )
    closed = 'chmod -R go= "$tests" "$logs" "$work" || exit 1\n' if is_closed else 'chmod 755 "$work"\n'
    return f'{closed}export BENCHYARD_GRADED="$tests/{_GRADED}"\n'


def scorer_key(scorer: Mapping[str, Any]) -> str:
    """Return the key of a scorer in `ScorerPrograms.shipped`."""
    return json.dumps(scorer, sort_keys=True)


def _part(tests: _Tests, function: ScoringFunction) -> str:
    type = str(function.scorer.get("type", ""))
    if type == HARBOR:
        raise UsageError(f"scorer {function.name}: a {HARBOR} together with other scorers cannot be exported")
    if scorer_key(function.scorer) in tests.programs.shipped:
        return f"# {function.name}\n{_lines_for_shipped_program(tests, function)}"
    if type not in _PARTS:
        raise UsageError(
            f"scorer {function.name} is of type {type}, which grades on the server only: what it needs is "
            "there and not in the task; import the benchmark where it is to be run"
        )
    return f"# {function.name}\n{_PARTS[type](tests, function)}"


def _run(name: str, command: str) -> str:
    return f'{command} > "$logs/{name}.out" 2> "$logs/{name}.err"\n'


def _command(tests: _Tests, function: ScoringFunction) -> str:
    path = tests.add(f"scorers/{function.name}.sh", str(function.scorer["command"]))
    return _lines_for_exit_status(tests, function, path)


def _lines_for_exit_status(tests: _Tests, function: ScoringFunction, path: str) -> str:
    name = function.name
    ran = _run(name, tests.shell(function, path))
    return (
        f"{tests.context(function)}{ran}status=$?; told {name}\npassed {name} {function.weight!r} $status\n"
    )


def _lines_for_printed_score(
    tests: _Tests, function: ScoringFunction, command: str, params: Any = None
) -> str:
    name = function.name
    ran = _run(name, command)
    return f"{tests.context(function, params)}{ran}told {name}\nprinted {name} {function.weight!r}\n"


def _bash_script(tests: _Tests, function: ScoringFunction) -> str:
    path = tests.add(f"scorers/{function.name}.sh", str(function.scorer["bash_script"]))
    return _lines_for_printed_score(tests, function, tests.shell(function, path))


def _custom(tests: _Tests, function: ScoringFunction) -> str:
    type = str(function.scorer.get("custom_scorer_type"))
    script = tests.programs.custom.get(type)
    if script is None:
        raise UsageError(f"scorer {function.name}: there is no registered custom scorer {type!r}")
    path = tests.add(f"scorers/{function.name}.sh", script)
    params = function.scorer.get("scorer_params")
    return _lines_for_printed_score(tests, function, tests.shell(function, path), params)


def _test_based(tests: _Tests, function: ScoringFunction) -> str:
    lines = []
    for number, each in enumerate(function.scorer.get("test_files") or []):
        to = str(each["file_path"])
        path = tests.add(f"files/{function.name}/{number}", each.get("file_contents") or "")
        folder = posixpath.dirname(to)
        make = f"mkdir -p -- {shlex.quote(folder)} && " if folder else ""
        place = shlex.quote(to)
        lines.append(f"{{ {make}rm -f -- {place} && cp -- {path} {place}; }} || fail {shlex.quote(to)}\n")
    path = tests.add(f"scorers/{function.name}.sh", str(function.scorer["test_command"]))
    return "".join(lines) + _lines_for_exit_status(tests, function, path)


def _python(tests: _Tests, name: str, needs: PythonNeeds) -> str:
    """Return the lines that make a Python environment for a scorer."""
    tests.needs_uv = True
    version = f" --python {shlex.quote(needs.version)}" if needs.version else ""
    lines = (
        f'uv venv --quiet --no-project{version} "$work/{name}" || fail "{name}: there is no Python for it"\n'
    )
    if needs.requirements:
        words = " ".join(shlex.quote(requirement) for requirement in needs.requirements)
        lines += f'uv pip install --quiet --python "$work/{name}/bin/python" {words} || '
        lines += f'fail "{name}: its packages cannot be installed"\n'
    return lines


def _python_script(tests: _Tests, function: ScoringFunction) -> str:
    text, name = str(function.scorer["python_script"]), function.name
    path = tests.add(f"scorers/{name}.py", text)
    needs = tests.programs.pythons.get(text, PythonNeeds())
    command = f'"$work/{name}/bin/python" -I -X utf8 {path}'
    if tests.grader != function.scorer.get("user"):
        command = f'"$BENCHYARD_GRADED" {command}'
    return _python(tests, name, needs) + _lines_for_printed_score(tests, function, command)


def _ast_grep(tests: _Tests, function: ScoringFunction) -> str:
    tests.needs_uv = True
    scorer, name = function.scorer, function.name
    config = tests.add("scorers/sgconfig.yml", "ruleDirs: []\n")
    words = [f"--pattern={scorer['pattern']}", "--color=never"]
    words += [f"--lang={scorer['lang']}"] if scorer.get("lang") else []
    options = " ".join(shlex.quote(word) for word in words)
    place = shlex.quote(str(scorer["search_directory"]))
    run = _run(
        name,
        f"uvx --from {shlex.quote(tests.programs.ast_grep)} ast-grep run --config={config} {options} "
        f"--files-with-matches -- {place}",
    )
    missing = f'[ ! -e {place} ] && fail "{name}: there is nothing to search in"\n'
    return (
        f'{missing}{run}status=$?; told {name}\n[ "$status" -le 1 ] || fail "{name}: ast-grep failed"\n'
        f'[ "$status" -ne 0 ] || [ -s "$logs/{name}.out" ] || status=1\n'
        f"passed {name} {function.weight!r} $status\n"
    )


def _lines_for_shipped_program(tests: _Tests, function: ScoringFunction) -> str:
    name = function.name
    shipped = tests.programs.shipped[scorer_key(function.scorer)]
    for path, file in shipped.files.items():
        tests.add(f"scorers/{name}/{path}", file.content, file.mode)
    tests.add("scorers/tell.py", _TELL)
    head = f'name={shlex.quote(name)} weight={function.weight!r} own="$tests/scorers/{name}"\n'
    if shipped.python is not None:
        head += f'{_python(tests, name, shipped.python)}python="$work/{name}/bin/python"\n'
    return head + shipped.script


_PARTS: Mapping[str, Callable[[_Tests, ScoringFunction], str]] = {
    "command_scorer": _command,
    "bash_script_scorer": _bash_script,
    "python_script_scorer": _python_script,
    "test_based_scorer": _test_based,
    "custom_scorer": _custom,
    AST_GREP: _ast_grep,
}
