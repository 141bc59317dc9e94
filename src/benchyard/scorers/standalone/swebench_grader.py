"""Parses and grades a log with the `swebench` package: a program of its own, for one log.

    python -I swebench_child.py SPEC LOG [rewards]

The specification is JSON; a report is printed as JSON, or only the rewards of it. The package's `harness`
imports clients of Docker, Modal and the hub as soon as it is touched, which grading needs nothing of: it is
entered without that, in this process only, where nobody else can mind.
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
    found = report(spec, log_file)
    if what == "rewards":
        found = {name: float(found.get(name) or 0) for name in ("resolved", "fail_to_pass", "pass_to_pass")}
    print(json.dumps(found))  # noqa: T201  it is what this program is for


def graded(content: BinaryIO, spec: dict[str, Any], exit_status: int) -> dict[str, Any]:
    """What a log comes to, with the status that the host saw in the place of any that was printed."""
    text = content.read().decode(errors="replace").replace(_EXIT_CODE, ">>>>> Printed Exit Code")
    with os.fdopen(os.memfd_create("log"), "wb") as log:
        log.write(f"{text}\n{_EXIT_CODE}: {exit_status}\n".encode(errors="replace"))
        log.flush()
        del text
        found = report(spec, f"/proc/self/fd/{log.fileno()}")
    status = found.get("tests_status") or {}
    kinds = ("FAIL_TO_PASS", "PASS_TO_PASS")
    failed = [str(name) for kind in kinds for name in status.get(kind, {}).get("failure", [])]
    shown = [name[:_MOST_NAME] for name in failed[:_MOST_FAILED]]
    return {
        "is_resolved": found["resolved"] is True,
        "has_results": bool(status),
        "fail_to_pass": float(found.get("fail_to_pass", 0.0)),
        "pass_to_pass": float(found.get("pass_to_pass", 0.0)),
        "failed": shown,
        "more_failed": len(failed) - len(shown),
        "has_tests": found.get("tests_named", 1) > 0,
        "reason": str(found.get("infra_failure_reason", ""))[:_MOST_NAME],
    }


def report(spec: dict[str, Any], log_file: str) -> dict[str, Any]:
    """What the package says of a log: `resolved`, the tests that passed and failed, and the two fractions."""
    _enter()
    grading = importlib.import_module(f"{_HEAVY}.grading")
    test_spec = importlib.import_module(f"{_PACKAGE}.types").TestSpec(image="", eval_script_list=[], **spec)
    instance = spec["instance_id"]
    # What the patch is does not matter here, only that there is one.
    prediction = {"instance_id": instance, "model_patch": "applied", "model_name_or_path": "answer"}
    found: dict[str, Any] = grading.get_eval_report(test_spec, prediction, log_file, True)[instance]
    text = Path(log_file).read_text(encoding="utf-8", errors="replace")
    found["tests_named"] = len(grading.PARSER_REGISTRY[spec["log_parser"]](text, test_spec))
    if "tests_status" in found:
        found["fail_to_pass"] = grading.compute_fail_to_pass(found["tests_status"])
        found["pass_to_pass"] = grading.compute_pass_to_pass(found["tests_status"])
    return found


def _enter() -> None:
    """Have the package's `harness` without running what is in its own file."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise SystemExit(f"the package {_PACKAGE} is missing")
    bare = types.ModuleType(_HEAVY)
    bare.__path__ = [str(Path(package.submodule_search_locations[0]) / "harness")]
    sys.modules[_HEAVY] = bare


if __name__ == "__main__":
    main(*sys.argv[1:4])
