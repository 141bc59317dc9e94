"""Nothing gets out of a devbox of the native driver, in every mode this user has."""

from pathlib import Path

import pytest

from benchyard.devboxes.base import Driver
from benchyard.devboxes.native.driver import NativeDriver
from benchyard.testing.escapes.suite import EscapeContract


@pytest.mark.parametrize("mode", NativeDriver.modes(), ids=lambda mode: f"native-{mode}")
class TestEscapes(EscapeContract):
    mode: str

    @pytest.fixture(autouse=True)
    def _chosen(self, mode: str) -> None:
        self.mode = mode

    def make_driver(self, folder: Path) -> Driver:
        return NativeDriver(folder, {"mode": self.mode})
