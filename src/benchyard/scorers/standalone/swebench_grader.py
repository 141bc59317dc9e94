"""Parses and grades a log with the `swebench` package: a separate program, for one log.

python -I swebench_grader.py SPEC LOG [rewards]

The specification is JSON; it prints a report as JSON, or only its rewards. The package's `harness` imports
clients of Docker, Modal and the hub when it is imported, which grading does not need: this program loads
the package without them, which affects no other process.
"""

import importlib
import importlib.util
import json
import os
import resource
import sys
import types
from pathlib import Path
from typing import Any, BinaryIO

_PACKAGE = "swebench"
_HEAVY = "swebench.harness"
_EXIT_CODE = ">>>>> Test Exit Code"
_MOST_FAILED = 100
_MOST_NAME = 300
_MEMORY_BYTES = 4 * 1024**3


def main(spec_file: str, log_file: str, what: str = "report") -> None:
    """Print the report of a log."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    spec = json.loads(Path(spec_file).read_text())
    rewards = report(spec, log_file)
    if what == "rewards":
        rewards = {
            name: float(rewards.get(name) or 0) for name in ("resolved", "fail_to_pass", "pass_to_pass")
        }
    print(json.dumps(rewards))  # noqa: T201  it is what this program is for


def graded(content: BinaryIO, spec: dict[str, Any], exit_status: int) -> dict[str, Any]:
    """Grade a log, with the exit status that the host saw replacing any that was printed."""
    text = content.read().decode(errors="replace").replace(_EXIT_CODE, ">>>>> Printed Exit Code")
    with os.fdopen(os.memfd_create("log"), "wb") as log:
        log.write(f"{text}\n{_EXIT_CODE}: {exit_status}\n".encode(errors="replace"))
        log.flush()
        del text
        results = report(spec, f"/proc/self/fd/{log.fileno()}")
    status = results.get("tests_status") or {}
    kinds = ("FAIL_TO_PASS", "PASS_TO_PASS")
    failed = [str(name) for kind in kinds for name in status.get(kind, {}).get("failure", [])]
    shown = [name[:_MOST_NAME] for name in failed[:_MOST_FAILED]]
    return {
        "is_resolved": results["resolved"] is True,
        "has_results": bool(status),
        "fail_to_pass": float(results.get("fail_to_pass", 0.0)),
        "pass_to_pass": float(results.get("pass_to_pass", 0.0)),
        "failed": shown,
        "more_failed": len(failed) - len(shown),
        "has_tests": results.get("tests_named", 1) > 0,
        "reason": str(results.get("infra_failure_reason", ""))[:_MOST_NAME],
    }


def report(spec: dict[str, Any], log_file: str) -> dict[str, Any]:
    """Return the package's report of a log: `resolved`, the tests passed and failed, and two fractions."""
    _enter()
    grading = importlib.import_module(f"{_HEAVY}.grading")
    test_spec = importlib.import_module(f"{_PACKAGE}.types").TestSpec(image="", eval_script_list=[], **spec)
    instance = spec["instance_id"]
    # Only the presence of a patch matters here, not its content.
    prediction = {"instance_id": instance, "model_patch": "applied", "model_name_or_path": "answer"}
    results: dict[str, Any] = grading.get_eval_report(test_spec, prediction, log_file, True)[instance]
    text = Path(log_file).read_text(encoding="utf-8", errors="replace")
    results["tests_named"] = len(grading.PARSER_REGISTRY[spec["log_parser"]](text, test_spec))
    if "tests_status" in results:
        results["fail_to_pass"] = grading.compute_fail_to_pass(results["tests_status"])
        results["pass_to_pass"] = grading.compute_pass_to_pass(results["tests_status"])
    return results


def _enter() -> None:
    """Register the package's `harness` without running its own `__init__` file."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise SystemExit(f"the package {_PACKAGE} is missing")
    bare = types.ModuleType(_HEAVY)
    bare.__path__ = [str(Path(package.submodule_search_locations[0]) / "harness")]
    sys.modules[_HEAVY] = bare


if __name__ == "__main__":
    main(*sys.argv[1:4])
