"""What we write is read by Harbor's own models, where a Python that has Harbor is named.

uv venv --python 3.12 /tmp/harbor && uv pip install --python /tmp/harbor/bin/python harbor==0.25.0
BENCHYARD_HARBOR_PYTHON=/tmp/harbor/bin/python pytest tests/benchmarks/test_harbor_models.py
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks.files.scenario_draft import NetworkAccess, PhaseAccess
from benchyard.benchmarks.harbor import export
from benchyard.benchmarks.harbor.export import ExportParts
from benchyard.reports import harbor_results
from tests.benchmarks.exports import scenario, written
from tests.reports.test_harbor_results import one, view

PYTHON = os.environ.get("BENCHYARD_HARBOR_PYTHON")
_PROGRAM = """\
import json, sys
from pathlib import Path
from harbor.models.dataset.manifest import DatasetManifest
from harbor.models.job.config import JobConfig
from harbor.models.job.lock import JobLock, TrialLock
from harbor.models.job.result import JobResult
from harbor.models.task.task import Task
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.result import TrialResult
from harbor.publisher.packager import Packager
folder = Path(sys.argv[1])
told = {}
for path in sorted((folder / "tasks").iterdir()):
    if path.is_dir():
        task = Task(path)
        told[path.name] = [task.config.task.name, f"sha256:{Packager.compute_content_hash(path)[0]}"]
DatasetManifest.from_toml((folder / "tasks/dataset.toml").read_text())
models = {"job-config": JobConfig, "job-lock": JobLock, "job-result": JobResult,
          "config": TrialConfig, "lock": TrialLock, "result": TrialResult}
for name, model in models.items():
    model.model_validate_json((folder / f"{name}.json").read_text())
print(json.dumps(told))
"""


@pytest.mark.skipif(not PYTHON, reason="name a Python that has harbor==0.25.0 in BENCHYARD_HARBOR_PYTHON")
def test_harbor_reads_what_we_write(tmp_path: Path) -> None:
    assert PYTHON
    easy: dict[str, Any] = {"type": "command_scorer", "command": "true"}
    phases = PhaseAccess(
        NetworkAccess("none"),
        NetworkAccess("allow-list", ("*.example.com", "10.0.0.0/8")),
        NetworkAccess("open"),
    )
    python = {"type": "python_script_scorer", "python_script": "print(1)"}
    steps = [
        {"name": "first", "problem_statement": "One.", "min_reward": 1.0},
        {"name": "second", "problem_statement": "Two.", "setup": "true"},
    ]
    answer = {"scoring_isolation": "answer", "answer_paths": ["a", "b"], "answer_excludes": ["a/x"]}
    trees = {
        "plain": export.make_task(scenario([easy, python], reference_output="true\n"), ExportParts()),
        "phases": export.make_task(scenario([easy], agent_timeout_sec=5), ExportParts(phases=phases)),
        "answer": export.make_task(scenario([easy], **answer), ExportParts()),
        "steps": export.make_task(scenario([easy], steps=steps), ExportParts()),
    }
    for name, tree in trees.items():
        written(tree, tmp_path / "tasks" / name)
    digests = {name: export.tree_digest(tree) for name, tree in trees.items()}
    listed = [("own/one", digest) for digest in digests.values()]
    (tmp_path / "tasks/dataset.toml").write_text(export.dataset_toml("all", {"description": "d"}, listed))
    trials = [one(score=1.0, rounds=[{"number": 1, "score": 1.0}])]
    names = harbor_results.trial_names(trials)
    files = {
        "job-config": harbor_results.job_config(view()),
        "job-lock": harbor_results.job_lock(view(), trials),
        "job-result": harbor_results.job_result(view(), trials, names),
        "config": harbor_results.trial_config(view(), trials[0], names["trl_1"]),
        "lock": harbor_results.trial_lock(view(), trials[0]),
        "result": harbor_results.trial_result(view(), trials[0], names["trl_1"]),
    }
    for name, data in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    ran = subprocess.run(
        [PYTHON, "-c", _PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        name: ["own/one", digest] for name, digest in digests.items()
    }
