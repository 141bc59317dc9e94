"""Terminal-Bench 2.0: the adapter, and real tasks of it, unmodified, on stand-ins for their images."""

import ipaddress
import shutil
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pip._internal.models.index import PyPI

from benchyard.benchmarks import catalog
from benchyard.benchmarks.base import ImportOptions
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.client import Client, Server
from benchyard.client.benchmark_files.environments import OPEN_POLICY
from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests import parity
from tests.benchmarks.executing import both, brought
from tests.benchmarks.samples.finding import sample
from tests.benchmarks.tasks import Task, TaskWriter
from tests.stand_ins import provide

NAME = "terminal-bench-2"
BASE = "python:3.13-slim-bookworm"
OTHER_BASES = ("ubuntu:24.04",)
OWN_BASES = {"multi-source-data-merger": "python:3.11-slim"}
"""Task -> the base that no other one has."""
LISTED = 24
FEW = (
    "db-wal-recovery",
    "git-leak-recovery",
    "headless-terminal",
    "kv-store-grpc",
    "llm-inference-batching-scheduler",
    "path-tracing-reverse",
)
"""Quick ones whose Dockerfiles and solutions need nothing but package registries; one is graded live."""
MORE = (
    "circuit-fibsqrt",
    "dna-insert",
    "feal-differential-cryptanalysis",
    "modernize-scientific-stack",
    "multi-source-data-merger",
    "portfolio-optimization",
    "pypi-server",
    "regex-chess",
)
"""Those that take longer: for `make parity`."""
_GITHUB = "it clones a repository from GitHub, which package registries do not have"
_UBUNTU = "it pins a version of an Ubuntu package, and the stand-in for ubuntu:24.04 is made of Debian"
ELSEWHERE = {
    "adaptive-rejection-sampler": _UBUNTU,
    "build-cython-ext": _GITHUB,
    "caffe-cifar-10": _GITHUB,
    "compile-compcert": _GITHUB,
    "count-dataset-tokens": "it reads a data set of the Hugging Face hub",
    "fix-code-vulnerability": _GITHUB,
    "mcmc-sampling-stan": "it installs packages of CRAN",
    "overfull-hbox": _UBUNTU,
    "qemu-startup": "it downloads an image of Alpine Linux",
    "sanitize-git-repo": _GITHUB,
}
"""Task -> why it needs more than stand-ins and package registries."""
TIMED = {
    "portfolio-optimization": "its tests ask that its solution is 1.2 times as fast as plain Python; on the "
    "machine of this table it is 1.0 to 1.7 times as fast from one run to the next, also outside of devboxes"
}
_WHOLE_SECONDS = 7200.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One of its own: its policies and what it has imported are not for others."""
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as running:
        yield running
    assert leaks.find(running.data) == []


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """The real task folders."""
    with tarfile.open(sample(f"{NAME}/tasks-sample.tar.gz")) as archive:
        archive.extractall(tmp_path / "all", filter="data")
    return tmp_path / "all"


def registry_addresses() -> list[str]:
    """Where this machine finds its package index: inside of some networks that is no public address."""
    host = urlsplit(PyPI.url).hostname or ""
    try:
        return sorted({found[4][0] for found in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)})  # type: ignore[misc]
    except OSError as error:
        pytest.skip(f"the package index cannot be found from here, which solutions need: {error}")


def prepare(client: Client) -> None:
    """Give a server what stands in for the tasks' images, and a way to package registries."""
    known = {each.reference: each.image for each in client.images.aliases()}
    if not any(each.endswith(BASE) for each in known):
        provide(client, BASE)
        (alias,) = [each for each in client.images.aliases() if each.reference.endswith(BASE)]
        for other in OTHER_BASES:
            client.images.set_alias(other, alias.image)
    (policy,) = [
        network_policy
        for network_policy in client.network_policies.list(name=OPEN_POLICY)
        if network_policy.name == OPEN_POLICY
    ]
    blocks = [{"cidr": str(ipaddress.ip_network(address))} for address in registry_addresses()]
    client.network_policies.update(
        policy.id, allow_all=False, allowed_hostnames=["*.org", "*.com"], allowed_cidrs=blocks
    )


def opened(client: Client) -> None:
    """Let the policy be again what an import expects."""
    for network_policy in client.network_policies.list(name=OPEN_POLICY):
        client.network_policies.update(
            network_policy.id, allow_all=True, allowed_hostnames=[], allowed_cidrs=[]
        )


@pytest.mark.parametrize(
    "some", [FEW[:1], pytest.param(FEW[1:], marks=pytest.mark.slow)], ids=["first", "others"]
)
def test_real_tasks_are_solved_by_the_oracle_only(
    server: RunningServer, tasks: Path, tmp_path: Path, some: tuple[str, ...]
) -> None:
    for name in some:
        shutil.copytree(tasks / name, tmp_path / "some" / name)
    with Client(Server(server.url, server.key)) as client:
        opened(client)
        made = brought(client, NAME, tmp_path / "some")
        prepare(client)
        oracle, nop = both(client, made, _WHOLE_SECONDS) if parity.IS_WHOLE else both(client, made)
    names = [f"{NAME}/{each}" for each in some]
    assert nop == dict.fromkeys(names, 0.0)
    assert oracle == dict.fromkeys(names, 1.0)
    # Those that take longer are executed one by one after this, as far as a run gets.
    reasons = {**dict.fromkeys(MORE, "the run was ended before it"), **ELSEWHERE}
    left = {f"{NAME}/{name}": why for name, why in reasons.items()} if parity.IS_WHOLE else {}
    parity.note(NAME, names, LISTED, left=left)


@pytest.mark.skipif(not parity.IS_WHOLE, reason="takes long: `make parity`")
@pytest.mark.parametrize("name", MORE)
def test_a_longer_real_task_is_solved_by_the_oracle_only(
    server: RunningServer, tasks: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(tasks / name, tmp_path / "some" / name)
    with Client(Server(server.url, server.key)) as client:
        opened(client)
        made = brought(client, NAME, tmp_path / "some")
        prepare(client)
        if name in OWN_BASES:
            provide(client, OWN_BASES[name])
        oracle, nop = both(client, made, _WHOLE_SECONDS, 2)
    bad = parity.unexpected(oracle, nop)
    is_executed = None not in (*oracle.values(), *nop.values())
    if bad and name in TIMED:
        bad = {item: f"{scores}: {TIMED[name]}" for item, scores in bad.items()}
    parity.note(NAME, [f"{NAME}/{name}"] if is_executed else [], LISTED, bad)
    assert is_executed
    assert bad == {} or name in TIMED


def test_every_real_task_is_read(tasks: Path, tmp_path: Path) -> None:
    found = list(catalog.load(NAME).scenarios(tasks, ImportOptions(tmp_path / "work")))
    drafts = {each.request.name: each for each in found if isinstance(each, ScenarioDraft)}
    assert len(drafts) == len(found) == LISTED
    assert sorted(drafts) == sorted(f"{NAME}/{name}" for name in (*FEW, *MORE, *ELSEWHERE))
    live = {name for name, each in drafts.items() if each.request.scoring_isolation == "live"}
    assert live == {f"{NAME}/{name}" for name in ("kv-store-grpc", "pypi-server", "qemu-startup")}
    for each in drafts.values():
        request = each.request
        assert "canary" not in request.input_context.problem_statement.lower()
        assert request.reference_output
        assert request.agent_timeout_sec
        assert each.origin.prebuilt
        assert each.attachments["tests"]
        assert request.environment_parameters is not None
        assert request.environment_parameters.working_directory in ("/app", "/app/dclm")


def test_known_tasks_are_graded_live(tmp_path: Path) -> None:
    writer = TaskWriter(tmp_path / "tasks", "example.test/base")
    writer.write("pypi-server", Task())
    writer.write("plain", Task())
    found = catalog.load(NAME).scenarios(writer.folder, ImportOptions(tmp_path / "work"))
    isolation = {
        each.request.name: each.request.scoring_isolation for each in found if isinstance(each, ScenarioDraft)
    }
    assert isolation == {f"{NAME}/plain": "clean", f"{NAME}/pypi-server": "live"}
