"""A tiny repository in the form of SWE-bench: its history, its issue, its tests, and a runner of tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.client.client import Client
from benchyard.models.runs import ScorerResult
from benchyard.testing.contracts.driver_fixture import write_system

REPO = "tiny/words"
VERSION = "1.0"
IMAGE = "example/sweb.eval.x86_64.tiny_1776_words-1:latest"
ISSUE = "`initials` leaves out words that begin with a small letter. It should give the first letter of each."
_PATIENCE_SECONDS = 300.0

WORDS = '''"""Words."""


def initials(text):
    """The first letter of each word."""
    return "".join(word[0] for word in text.split() if word[0].isupper())


def count(text):
    """How many words there are."""
    return len(text.split())
'''
TESTS = """from words import count, initials


def test_count():
    assert count("a b c") == 3


def test_initials_of_names():
    assert initials("Ada Lovelace") == "AL"
"""
NEW_TESTS = """

def test_initials_of_all():
    assert initials("Ada of Kent") == "AoK"
"""
FIXED = WORDS.replace(" if word[0].isupper()", "")
RUNNER = '''"""Runs the functions test_* of files, and says how each went as pytest does."""
import importlib.util, os, sys, traceback

sys.path.insert(0, os.getcwd())
if os.path.exists("conftest.py"):
    exec(open("conftest.py").read(), {})
ended = []
for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location(path.replace("/", ".")[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in [each for each in vars(module) if each.startswith("test_")]:
        try:
            getattr(module, name)()
            ended.append(("PASSED", f"{path}::{name}", ""))
        except Exception as error:
            traceback.print_exc()
            ended.append(("FAILED", f"{path}::{name}", f" - {error!r}"))
for status, name, why in ended:
    print(f"{status} {name}{why}")
sys.exit(any(status == "FAILED" for status, _, _ in ended))
'''
_MAKE = """\
set -eu
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada \\
    GIT_COMMITTER_EMAIL=ada@example.com GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null \\
    GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
mkdir -p {place}/tests
cd {place}
git init -q -b main .
cat > words.py <<'END_OF_FILE'
{words}END_OF_FILE
cat > tests/test_words.py <<'END_OF_FILE'
{tests}END_OF_FILE
printf '__pycache__/\\n*.log\\n' > .gitignore
git add -A
git commit -q -m 'words'
"""
_LEFT = "printf 'built\\n' > built.txt\n"
"""What builds leave beside a commit: nobody's answer."""
_LATER = """\
cat >> tests/test_words.py <<'END_OF_FILE'
{new_tests}END_OF_FILE
cat > words.py <<'END_OF_FILE'
{fixed}END_OF_FILE
git commit -q -a -m 'initials of all words'
"""


@dataclass(frozen=True)
class Repository:
    """Its two commits, and what lies between."""

    base: str
    solution: str
    patch: str
    test_patch: str


def made(folder: Path) -> Repository:
    """The repository, made here, which is the same wherever it is made."""
    script = (
        _script(str(folder)) + 'git rev-parse HEAD > "$OLDPWD/base"\n' + _later() + "git rev-parse HEAD\n"
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    told = subprocess.run(
        ["bash", "-c", script], cwd=folder.parent, capture_output=True, text=True, check=True
    )
    base, solution = (folder.parent / "base").read_text().strip(), told.stdout.strip()

    def diff(path: str) -> str:
        command = ["git", "-C", str(folder), "diff", base, solution, "--", path]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    return Repository(base, solution, diff("words.py"), diff("tests"))


def image(client: Client, root: Path, place: str, *, with_solution: bool = False) -> str:
    """An image of the server with the repository and the runner, as builds leave them; its name."""
    write_system(root, ("git", "patch", "awk", "base64", "gzip"))
    (root / "opt/tiny").mkdir()
    (root / "opt/tiny/run.py").write_text(RUNNER)
    script = _script(f"{root}{place}")
    if with_solution:
        script += f"{_later()}git checkout -q HEAD~1\n"
    subprocess.run(["bash", "-c", script + _LEFT], capture_output=True, check=True)
    name = f"swe-tiny-{place.strip('/')}"
    client.images.import_path(str(root), name)
    return name


def _script(place: str) -> str:
    return _MAKE.format(place=place, words=WORDS, tests=TESTS)


def _later() -> str:
    return _LATER.format(new_tests=NEW_TESTS, fixed=FIXED)


@contextmanager
def working(client: Client, scenario_id: str) -> Iterator[tuple[str, str]]:
    """A run of a scenario and its devbox, while somebody works in it."""
    run = client.scenarios.start_run_and_await_env_ready(scenario_id=scenario_id, timeout=_PATIENCE_SECONDS)
    try:
        yield run.id, run.devbox_id
    finally:
        client.scenarios.runs.cancel(run.id)


def graded(
    client: Client, scenario_id: str, command: str, place: str = "/testbed", *, state: str = "complete"
) -> ScorerResult:
    """What the scorer says after a command was run in the devbox of a scenario."""
    with working(client, scenario_id) as (run_id, devbox_id):
        ended = client.executions.run(devbox_id, f"cd {place}\n{command}")
        assert ended.exit_status == 0, (command, ended)
        scored = client.scenarios.runs.score_and_await(run_id, timeout=_PATIENCE_SECONDS)
    assert scored.scoring_contract_result is not None, scored
    (result,) = scored.scoring_contract_result.scoring_function_results
    assert result.state == state, result
    return result


def row(repository: Repository, **changes: Any) -> dict[str, Any]:
    """The row of the issue, in the newer form of SWE-bench."""
    restore = f"git checkout {repository.base} tests/test_words.py"
    script = f"""#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git status
{restore}
git apply -v - <<'EOF_114329324912'
{repository.test_patch}
EOF_114329324912
: '>>>>> Start Test Output'
python3 /opt/tiny/run.py tests/test_words.py
: '>>>>> End Test Output'
{restore}
"""
    return {
        "repo": REPO,
        "instance_id": "tiny__words-1",
        "base_commit": repository.base,
        "patch": repository.patch,
        "test_patch": repository.test_patch,
        "problem_statement": ISSUE,
        "hints_text": "it is the condition at the end",
        "created_at": "2020-01-01T00:00:00Z",
        "version": VERSION,
        "FAIL_TO_PASS": ["tests/test_words.py::test_initials_of_all"],
        "PASS_TO_PASS": ["tests/test_words.py::test_count", "tests/test_words.py::test_initials_of_names"],
        "environment_setup_commit": repository.base,
        "difficulty": "<15 min fix",
        "eval_script": script,
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "image": IMAGE,
        **changes,
    }
