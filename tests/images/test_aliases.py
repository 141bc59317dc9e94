"""The alias table."""

from pathlib import Path

import pytest

from benchyard.errors import NotFound, UsageError
from benchyard.images.aliases import Aliases


def test_an_alias_is_found_however_it_is_spelled_and_outlives_the_server(tmp_path: Path) -> None:
    table = Aliases(tmp_path)
    assert table.all() == {}
    assert table.set("ubuntu", "mine") == "docker.io/library/ubuntu:latest"
    table.set("ubuntu:22.04", "older")
    again = Aliases(tmp_path)
    assert again.find("docker.io/library/ubuntu:latest") == "mine"
    assert again.find("ubuntu:22.04") == "older"
    assert again.find("ubuntu:20.04") is None
    again.remove("docker.io/ubuntu")
    assert table.find("ubuntu") is None
    with pytest.raises(NotFound, match=r"no alias for docker\.io/library/ubuntu:latest"):
        table.remove("ubuntu")


def test_invalid_reference_or_name_changes_nothing(tmp_path: Path) -> None:
    table = Aliases(tmp_path)
    for reference, image in (("Not A Reference", "mine"), ("ubuntu", "../mine")):
        with pytest.raises(UsageError):
            table.set(reference, image)
    assert list(tmp_path.iterdir()) == []
