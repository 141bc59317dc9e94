"""Where a server keeps its data when nobody says."""

from pathlib import Path

import pytest

from benchyard.settings import default_data_folder, default_datasets_folder


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"BENCHYARD_DATA": "/srv/yard", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/srv/yard"),
        ({"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/benchyard"),
        ({"XDG_DATA_HOME": "", "HOME": "/h"}, "/h/.local/share/benchyard"),
        ({"HOME": "/h"}, "/h/.local/share/benchyard"),
    ],
)
def test_the_data_folder_follows_the_environment(environment: dict[str, str], expected: str) -> None:
    assert default_data_folder(environment) == Path(expected)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"BENCHYARD_DATASETS": "/srv/sets", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/srv/sets"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/benchyard/datasets"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/benchyard/datasets"),
    ],
)
def test_fetched_datasets_lie_in_the_cache(environment: dict[str, str], expected: str) -> None:
    assert default_datasets_folder(environment) == Path(expected)
