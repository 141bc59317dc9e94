"""Public benchmarks over HTTP, by the names that people know them by."""

import uuid

import httpx
import pytest

from benchyard.benchmarks import catalog
from benchyard.benchmarks.base import PUBLIC_KEY
from tests.api.devbox import good, refusal

KNOWN = [
    (name, each)
    for name in catalog.names()
    for each in (name, catalog.load(name).about.title, *catalog.load(name).about.aliases)
]
AS_WRITTEN_ELSEWHERE = [
    ("terminal-bench-2", "Laude Institute/Terminal-Bench-2.0"),
    ("swe-bench-verified", "SWE-bench Verified"),
    ("aider-polyglot", "Aider/Polyglot"),
    ("aime", "AIME"),
]


def listed(api: httpx.Client, path: str, **query: str) -> dict[str, dict[str, str]]:
    """Metadata by name of what a list shows."""
    page = good(api.get(path, params={"limit": "100", "include_total_count": "false", **query}))
    return {each["name"]: {**each["metadata"], "id": each["id"]} for each in page["benchmarks"]}


@pytest.mark.parametrize(("name", "known_as"), [*KNOWN, *AS_WRITTEN_ELSEWHERE])
def test_a_search_lists_it_under_the_name_that_was_asked_for(
    api: httpx.Client, name: str, known_as: str
) -> None:
    for query in ({"search": known_as}, {"name": known_as}):
        found = listed(api, "/v1/benchmarks/list_public", **query)
        assert known_as in found
        view = good(api.get(f"/v1/benchmarks/{found[known_as]['id']}"))
        assert view["name"] == name
        if known_as != name:
            assert found[known_as]["benchyard.name"] == name
            assert name not in found


def test_part_of_a_name_finds_it_under_its_own(api: httpx.Client) -> None:
    assert {"swe-bench-verified", "swe-bench-pro"} <= set(
        listed(api, "/v1/benchmarks/list_public", search="SWE-bench")
    )
    assert listed(api, "/v1/benchmarks/list_public", search="no such benchmark") == {}


def test_imported_public_benchmark_is_listed_with_own_ones(api: httpx.Client) -> None:
    path = "/v1/benchmarks"
    assert listed(api, path, search="Aider/Polyglot") == {}
    body = {"name": "aider-polyglot", "metadata": {PUBLIC_KEY: "aider-polyglot"}}
    made = good(api.post(path, json=body))
    try:
        for where in (path, f"{path}/list_public"):
            found = listed(api, where, search="Aider/Polyglot")
            assert found["Aider/Polyglot"]["id"] == made["id"]
        # What has exactly this name is meant by it, and nothing else: somebody's folder may be called so.
        assert listed(api, path, name="Aider/Polyglot") == {}
        own = good(api.post(path, json={"name": f"my polyglot {uuid.uuid4().hex}"}))
        assert set(listed(api, path, search="polyglot")) == {own["name"], "polyglot"}
    finally:
        good(api.post(f"{path}/{made['id']}/archive"))
    refusal(api.get(f"{path}/Aider"), 404)
