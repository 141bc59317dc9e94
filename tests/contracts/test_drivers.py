"""Every driver of this house keeps the driver contract, the native one in every mode it has."""

from pathlib import Path

import pytest

from benchyard import registry
from benchyard.devboxes.base import Driver
from benchyard.testing.driver_contract import DriverContract


def _variants() -> list[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = []
    for name in registry.names("devboxes"):
        modes: list[str] = getattr(registry.load("devboxes", name), "modes", list)()
        found += [(name, {"mode": mode}) for mode in modes] or [(name, {})]
    return found


@pytest.mark.parametrize(
    "variant", _variants(), ids=lambda variant: "-".join([variant[0], *variant[1].values()])
)
class TestDrivers(DriverContract):
    variant: tuple[str, dict[str, str]]

    @pytest.fixture(autouse=True)
    def _chosen(self, variant: tuple[str, dict[str, str]]) -> None:
        self.variant = variant

    def make_driver(self, folder: Path) -> Driver:
        name, options = self.variant
        driver: Driver = registry.load("devboxes", name)(folder, options)
        return driver
