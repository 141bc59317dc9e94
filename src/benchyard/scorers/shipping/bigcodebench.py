"""Items of BigCodeBench: the official packages, and the program that runs an answer with its tests."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchyard.models.attachments import PackedFile
from benchyard.models.shipped import Attachments, PythonNeeds, Shipped
from benchyard.scorers import bigcodebench_job, bigcodebench_packages, bigcodebench_runner
from benchyard.scorers.bigcodebench import BigcodebenchConfig, packages_of

_PYTHON = "3.10"
_STORAGE_MB = 16 * 1024
"""All packages take 5 GB, and more while they are installed."""
_SCRIPT = """\
if [ -f {answer} ] && [ ! -L {answer} ]; then
    chmod 755 "$work"
    "$python" -I -X utf8 "$own/job.py" "$own/item.json" {answer} "$work/job.json" ||
        fail "$name: the answer cannot be taken"
    MPLBACKEND=agg "$python" -I -X utf8 "$own/run.py" "$work/job.json" \\
        > "$logs/$name.out" 2> "$logs/$name.err" || fail "$name: the answer could not be run"
    told "$name"
    tail -n 1 "$logs/$name.out" | grep -q '^{{"passed": true'
    status=$?
else
    echo "there is no "{answer}
    status=1
fi
passed "$name" "$weight" "$status"
"""


def shipped(scorer: Mapping[str, Any], _attachments: Attachments, _seconds: float) -> Shipped:
    """The tests of one item; they bound their own time."""
    config = BigcodebenchConfig.model_validate(dict(scorer))
    wanted = bigcodebench_packages.requirements(packages_of(config), official_python=True)
    item = config.model_dump(include={"code_prompt", "test", "entry_point", "time_limit_sec"})
    files = {
        "item.json": PackedFile(json.dumps(item, ensure_ascii=False).encode()),
        "job.py": PackedFile(Path(bigcodebench_job.__file__).read_bytes()),
        "run.py": PackedFile(Path(bigcodebench_runner.__file__).read_bytes()),
    }
    script = _SCRIPT.format(answer=shlex.quote(config.answer))
    disk = _STORAGE_MB if config.modules is None else None
    return Shipped(script, files, PythonNeeds(_PYTHON, wanted), user="root", storage_mb=disk)
