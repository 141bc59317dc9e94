"""Every driver of this house keeps the driver contract, the native one in every mode it has.

The container driver is tested with an engine started for it: Podman, and Docker in `make contracts`.
"""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard import registry
from benchyard.devboxes.base import Driver
from benchyard.devboxes.shared import connections
from benchyard.testing import container_engine
from benchyard.testing.contracts.driver import DriverContract

Variant = tuple[str, dict[str, str]]
CONNECT_SECONDS = 3.0
ENGINES = {"podman": [], "docker": [pytest.mark.slow]}


def _variants() -> list[object]:
    found: list[object] = []
    # One that runs nothing keeps no promise.
    for name in sorted({*registry.names("devboxes")} - {"pretend"}):
        modes: list[str] = getattr(registry.load("devboxes", name), "modes", list)()
        if name == "container":
            found += [
                pytest.param((name, {"engine": kind}), id=f"{name}-{kind}", marks=marks)
                for kind, marks in ENGINES.items()
            ]
        elif modes:
            found += [pytest.param((name, {"mode": mode}), id=f"{name}-{mode}") for mode in modes]
        else:
            found.append(pytest.param((name, {}), id=name))
    return found


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[str, container_engine.RunningEngine]]:
    """Container engines of our own that run, by kind; tests add those they need."""
    running: dict[str, container_engine.RunningEngine] = {}
    yield running
    for engine in running.values():
        engine.__exit__(None, None, None)


@pytest.mark.parametrize("variant", _variants())
class TestDrivers(DriverContract):
    variant: Variant

    @pytest.fixture(autouse=True)
    def _in_a_hurry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Long enough to tell from a refusal, which comes at once.
        monkeypatch.setattr(connections, "PATIENCE_SECONDS", CONNECT_SECONDS)

    @pytest.fixture(autouse=True)
    def _chosen(self, variant: Variant, engines: dict[str, container_engine.RunningEngine]) -> None:
        kind = variant[1].get("engine")
        if kind is None:
            self.variant = variant
            return
        if reason := container_engine.missing(kind):
            pytest.skip(reason)
        if kind not in engines:
            # A short path, because addresses of sockets are.
            folder = Path(f"/var/tmp/engine-{secrets.token_hex(4)}")
            engines[kind] = container_engine.RunningEngine(folder, kind).__enter__()
        self.variant = (variant[0], {"socket": str(engines[kind].socket)})

    def make_driver(self, folder: Path) -> Driver:
        name, options = self.variant
        driver: Driver = registry.load("devboxes", name)(folder, options)
        return driver
