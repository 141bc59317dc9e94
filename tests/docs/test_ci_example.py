"""The example workflow is whole, and the guide shows it as it is."""

import re
import subprocess
from typing import Any

import click
import yaml

from benchyard.cli.main import cli
from tests.house.tree import ROOT

FLOW = ROOT / "examples/ci/github-actions.yml"
LATER: set[str] = set()
"""Commands of the example that come with jobs."""


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(FLOW.read_text())["jobs"]["benchmark"]["steps"]
    return found


def scripts() -> str:
    return "\n".join(step["run"] for step in steps() if "run" in step)


def test_the_guide_shows_it_as_it_is() -> None:
    assert f"```text\n{FLOW.read_text()}```" in (ROOT / "docs/guides/continuous-integration.md").read_text()


def test_its_scripts_are_shell() -> None:
    for step in steps():
        if "run" in step:
            subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def test_results_are_kept_when_the_benchmark_failed_too() -> None:
    (kept,) = [step for step in steps() if step.get("uses", "").startswith("actions/upload-artifact")]
    assert kept["if"] == "always()"
    written = re.findall(r"--junit (\S+) .*> (\S+)", scripts().replace("\\\n", " "))
    assert written == [("results.xml", "results.json")]
    assert set(written[0]) <= set(kept["with"]["path"].split())


def test_every_command_is_one() -> None:
    named = set(re.findall(r"(?<![./\w])benchyard ([a-z]+)", scripts()))
    assert {"serve", "job", "doctor"} <= named
    assert named - LATER <= set(cli.list_commands(click.Context(cli)))
