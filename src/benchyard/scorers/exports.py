"""Scorers of public benchmarks as scripts that other harnesses can run."""

import importlib
import json
import pkgutil
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from benchyard.models.scoring.attachments import PackedFile
from benchyard.models.scoring.exports import Attachments, PythonNeeds, ScorerExport
from benchyard.scorers import bigcodebench, graders, polyglot, swe_bench, swe_bench_pro
from benchyard.scorers.standalone import answer_file

_SUFFIX = "_scorer"
_EXPORTS: Mapping[str, Callable[[Mapping[str, Any], Attachments, float], ScorerExport]] = {
    "bigcodebench_scorer": bigcodebench.export,
    "polyglot_scorer": polyglot.export,
    "swe_bench_scorer": swe_bench.export,
    "swe_bench_pro_scorer": swe_bench_pro.export,
}
"""Type -> function that makes the script; types with a module of `graders` need none."""


def types() -> list[str]:
    """Return the types that can be exported."""
    return sorted([*_EXPORTS, *_graded_types()])


def export(scorer: Mapping[str, Any], attachments: Attachments, seconds: float) -> ScorerExport:
    """Make a script of a scorer that may run for `seconds`.

    Raises UsageError if the task lacks something the script needs.
    """
    type = str(scorer["type"])
    if type in _EXPORTS:
        return _EXPORTS[type](scorer, attachments, seconds)
    return _export_grader(type.removesuffix(_SUFFIX), scorer)


def grading_program(grader: ModuleType) -> bytes:
    """Return a program of one file that grades an answer's file by a module of `graders`."""
    sources = [Path(str(each.__file__)).read_text() for each in (grader, answer_file)]
    end = 'if __name__ == "__main__":\n    sys.exit(main(sys.argv[1:], grade, MOST_BYTES))\n'
    return "\n\n".join([*sources, end]).encode()


def _graded_types() -> list[str]:
    return [f"{module.name}{_SUFFIX}" for module in pkgutil.iter_modules(graders.__path__)]


def _export_grader(name: str, scorer: Mapping[str, Any]) -> ScorerExport:
    """Make a script that runs a module of `graders` to compare the answer's file with the expected values."""
    grader = importlib.import_module(f"{graders.__name__}.{name}")
    answer = shlex.quote(str(scorer["path"]))
    expected = json.dumps(scorer["expected"], ensure_ascii=False)
    files = {
        "grade.py": PackedFile(grading_program(grader)),
        "expected.json": PackedFile(expected.encode()),
    }
    script = (
        f'"$python" -I -X utf8 "$own/grade.py" "$own/expected.json" {answer} '
        '> "$logs/$name.out" 2> "$logs/$name.err"\n'
        f'told "$name"\nrewarded "$name" "$weight" {grader.MAIN}\n'
    )
    return ScorerExport(script, files, PythonNeeds())
