"""Agents in images without what they need: no C library, no Python and no Node there, or an older one."""

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from benchyard.scripted_model import RunningModel, Script, ScriptStep
from tests.api import scenarios
from tests.api.devbox import good
from tests.api.jobs import scenarios_spec
from tests.e2e.agents import ALL, CLAUDE, FULL, KEY, AgentJob, AgentYard, Named

USERS = {"root": 0, "user": 1000}
OLDER = "bullseye"
OLDER_LIBRARY = "glibc 2.31"
"""What that release has; programs made on newer ones do not start with it."""
PROBLEM = "Write into the file /tmp/found who you are."
_APPLETS = ("python3", "python", "node", "ldconfig", "bash")
_MAKE_SECONDS = 900.0


@pytest.fixture(scope="module")
def model() -> Iterator[RunningModel]:
    """Has the agent write its user's number into a file."""
    steps = [{"shell": "id -u > /tmp/found"}, {"text": "Done."}]
    with RunningModel(
        [Script(steps=tuple(ScriptStep.model_validate(step) for step in steps))], key=KEY
    ) as made:
        yield made


@pytest.fixture(scope="module")
def bare(yard: AgentYard, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image of two static programs, a busybox and a bash, and of nothing that could be linked with."""
    root = tmp_path_factory.mktemp("bare") / "rootfs"
    for name in ("bin", "etc", "root", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    busybox, bash = shutil.which("busybox"), shutil.which("bash-static")
    assert busybox, "the tests need busybox: make setup installs busybox-static"
    assert bash, "the tests need bash-static: make setup installs it"
    shutil.copy(busybox, root / "bin/busybox")
    shutil.copy(bash, root / "bin/bash")
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in {*listed} - {"busybox", *_APPLETS}:
        (root / "bin" / name).symlink_to("busybox")
    good(yard.api.post("/v1/images/import", json={"name": "bare", "path": str(root)}))
    return "bare"


@pytest.fixture(scope="module")
def older(yard: AgentYard) -> str:
    """An image of an older Debian; skips where there is none to be had."""
    body = {"suite": OLDER, "name": "older"}
    made = yard.api.post("/v1/images/debian", json=body, timeout=_MAKE_SECONDS)
    if made.status_code != 200:
        pytest.skip(f"Debian {OLDER} cannot be made here: {made.json()['message']}")
    return "older"


def scored(yard: AgentYard, image: str, condition: str, **agent: Any) -> dict[str, Any]:
    """A job of the agent in the image, as root and as an ordinary user; each must find itself to be that."""
    ids = []
    for name, uid in USERS.items():
        script = f"""\
if [ "$(cat /tmp/found)" = {uid} ] && {condition}; then echo 1.0; else cat /tmp/found >&2; echo 0.0; fi"""
        made = scenarios.scenario(
            yard.api,
            scenarios.function(scenarios.bash(script), 0.5, "bash"),
            scenarios.function(scenarios.command(f'test "$(cat /tmp/found)" = {uid}'), 0.5, "command"),
            input_context={"problem_statement": PROBLEM},
            environment_parameters={
                "blueprint_id": image,
                "working_directory": "/tmp",
                "launch_parameters": {"user_parameters": {"username": name, "uid": uid}},
            },
        )
        ids.append(made["id"])
    (outcome,) = AgentJob(yard.api, scenarios_spec(ids, agent)).completed()["benchmark_outcomes"]
    return dict(outcome)


def calls(model: RunningModel) -> int:
    return len(model.ledger.calls(titles=True))


@pytest.mark.parametrize("named", ALL if FULL else (CLAUDE,), ids=str)
def test_an_agent_works_where_there_is_no_library_at_all(
    yard: AgentYard, bare: str, model: RunningModel, named: Named
) -> None:
    model.reset()
    lacks = "! ls /lib /lib64 /usr/lib && ! command -v python3 && ! command -v node"
    found = scored(yard, bare, lacks, **named.config(base_url=model.url))
    assert (found["mean_score"], found["unscored"]) == (1.0, 0), found
    assert found["usage"]["model_calls"] == calls(model) >= 2 * len(USERS)


@pytest.mark.slow
@pytest.mark.parametrize("named", ALL, ids=str)
def test_an_agent_works_where_the_library_is_older(
    yard: AgentYard, older: str, model: RunningModel, named: Named
) -> None:
    model.reset()
    is_older = f'[ "$(getconf GNU_LIBC_VERSION)" = "{OLDER_LIBRARY}" ]'
    found = scored(yard, older, is_older, **named.config(base_url=model.url))
    assert (found["mean_score"], found["unscored"]) == (1.0, 0), found
    assert found["usage"]["model_calls"] == calls(model) >= 2 * len(USERS)
