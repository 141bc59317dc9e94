"""A public agent as a program of the host: the installed package and its own invocation, without a devbox.

Packages are made for the place where devboxes show them, so it has a view of the mounts in which they lie
there, and it is in control groups with the limits of the devbox, so that a busy machine treats both alike.
Everything else is the host's: its files, its network, its user.
"""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchyard.agents import catalog
from benchyard.agents.base import Launch, ModelAccess, Task, contract_env
from benchyard.agents.own_agent import InstalledAgent
from benchyard.agents.public_agent import PublicAgent
from benchyard.devboxes.shared import cgroups
from benchyard.engine.agents import public
from benchyard.engine.agents.installer import AGENTS_FOLDER
from benchyard.engine.agents.runtimes import runtime_of
from benchyard.engine.devboxes.sizes import SIZES
from benchyard.hosts.kits import Kit, KitFolders
from benchyard.models.base import Model
from benchyard.models.launch import Size
from benchyard.models.scenarios import ScenarioView

SIZE = Size.MEDIUM
"""Of the devboxes that it is compared with."""

_END_SECONDS = 120.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def installed(name: str, kits: Path) -> PublicAgent[Model]:
    """The agent in the version that was installed into these kits by a job."""
    choice = public.choose(name, None, {})
    record = public.record(choice)
    if record is None or record.source is None:
        raise RuntimeError(f"agent {name} is none that is installed")
    noted = json.dumps([name, choice.version])
    folder = next(each.parent for each in kits.glob(f"*/{public.NOTE}") if each.read_text() == noted)
    runtime = asyncio.run(runtime_of(record.source.type, KitFolders(kits)))
    agent = catalog.make(name, {})
    assert isinstance(agent, PublicAgent)
    agent.installed = InstalledAgent((Kit(folder, f"{AGENTS_FOLDER}/{record.id}"), *runtime.kits))
    return agent


@contextmanager
def started(
    agent: PublicAgent[Model], access: ModelAccess, scenario: ScenarioView, place: Path
) -> Iterator[float]:
    """Start it with everything in a new folder; the moment at which its command began."""
    for name in ("work", "logs", "home", "files", "state"):
        (place / name).mkdir(parents=True)
    prompt = scenario.input_context.problem_statement
    task = Task(
        prompt=prompt,
        working_directory=str(place / "work"),
        scenario=scenario,
        model=access.model,
        access=access,
        prompt_file=str(place / "prompt.md"),
        logs_folder=str(place / "logs"),
    )
    (place / "prompt.md").write_text(prompt)
    launch = agent.launch(task)
    assert launch is not None
    # The line tells that all mounts are there: they are no part of what is measured.
    script = f"echo; exec < {task.prompt_file} > {place}/output 2>&1\n{launch.command}"
    command = [*_view(agent, launch, place), "/bin/bash", "-c", script]
    env = {"PATH": _PATH, "HOME": str(place / "home"), **contract_env(task), **launch.env}
    with (
        _grouped() as join,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env, preexec_fn=join
        ) as process,
    ):
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield time.time()
            process.wait(_END_SECONDS)
        finally:
            process.kill()


@contextmanager
def _grouped() -> Iterator[Callable[[], None]]:
    """What a process calls to be in control groups with the limits of a devbox."""
    own = cgroups.detect("benchyard-baseline")
    groups = own.create("bare", SIZES[SIZE].limits())

    def join() -> None:
        for group in groups:
            (group / "cgroup.procs").write_text("0")

    try:
        yield join
    finally:
        own.remove("bare")


def _view(agent: PublicAgent[Model], launch: Launch, place: Path) -> list[str]:
    """A view of the host's files in which the agent and its own files lie where a devbox has them."""
    command = ["bwrap", "--die-with-parent", "--bind", "/", "/", "--dev", "/dev"]
    command += ["--tmpfs", "/opt", "--tmpfs", "/run"]
    # What it keeps for itself goes with everything else of it.
    command += ["--bind", str(place / "state"), "/var/tmp", "--bind", str(place), str(place)]
    assert agent.installed is not None
    for kit in agent.installed.kits:
        command += ["--ro-bind", str(kit.source), kit.target]
    for number, (path, content) in enumerate(launch.files.items()):
        source = place / "files" / str(number)
        source.write_bytes(content)
        command += ["--ro-bind", str(source), path]
    return [*command, "--chdir", str(place / "work")]
