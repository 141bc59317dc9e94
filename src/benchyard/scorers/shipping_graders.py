"""Graders that are programs of the standard library alone, as scripts that other harnesses can run."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from benchyard.models.attachments import PackedFile
from benchyard.models.shipped import Attachments, PythonNeeds, Shipped


def graded(
    grader: ModuleType, scorer: Mapping[str, Any], _attachments: Attachments, _seconds: float
) -> Shipped:
    """One that compares an answer's file with what is expected."""
    answer = shlex.quote(str(scorer["path"]))
    expected = json.dumps(scorer["expected"], ensure_ascii=False)
    files = {
        "grade.py": PackedFile(Path(str(grader.__file__)).read_bytes()),
        "expected.json": PackedFile(expected.encode()),
    }
    script = (
        f'"$python" -I -X utf8 "$own/grade.py" "$own/expected.json" {answer} '
        '> "$logs/$name.out" 2> "$logs/$name.err"\n'
        f'told "$name"\nrewarded "$name" "$weight" {grader.MAIN}\n'
    )
    return Shipped(script, files, PythonNeeds())
