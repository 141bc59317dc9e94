"""Services of a blueprint where an engine holds the devboxes: the same tests, over the container driver."""

from collections.abc import Iterator

import httpx
import pytest
from runloop_api_client import Runloop

from benchyard.hosts import leaks
from benchyard.testing.container_engine import RunningEngine
from benchyard.testing.contracts.driver_fixture import write_system
from benchyard.testing.server import RunningServer
from tests.sdk.boxes import create, eventually
from tests.sdk.test_services import (
    blueprint,
    test_a_devbox_has_no_services_by_default,
    test_a_service_is_ready_when_its_devbox_runs_and_comes_back_with_it,
    test_a_service_that_does_not_come_up_fails_the_devbox_and_says_why,
    test_services_are_found_again_after_the_server_was_killed,
    test_two_devboxes_have_a_service_each,
    web,
)

__all__ = [
    "test_a_devbox_has_no_services_by_default",
    "test_a_service_is_ready_when_its_devbox_runs_and_comes_back_with_it",
    "test_a_service_that_does_not_come_up_fails_the_devbox_and_says_why",
    "test_services_are_found_again_after_the_server_was_killed",
    "test_two_devboxes_have_a_service_each",
    "web",
]


@pytest.fixture(scope="module")
def server(podman: RunningEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server over Podman, with a small system as its default image; nothing may be left in the engine."""
    folder = tmp_path_factory.mktemp("contained")
    write_system(folder / "root")
    options = ["--driver", "container", "--driver-option", f"socket={podman.socket}"]
    with RunningServer(folder / "data", [*options, "--driver-option", "image=small"]) as running:
        headers = {"authorization": f"Bearer {running.key}"}
        made = httpx.post(
            f"{running.url}/v1/images/import",
            json={"path": str(folder / "root"), "name": "small"},
            headers=headers,
            timeout=90,
        )
        assert made.status_code == 200, made.text
        yield running
    assert leaks.find(running.data) == []
    assert containers(podman) == []


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Runloop]:
    """The generated client."""
    with Runloop(base_url=server.url, bearer_token=server.key) as made:
        yield made


def containers(podman: RunningEngine, of: str = "") -> list[str]:
    """The names of what the engine holds."""
    with podman.client() as client:
        found = client.get("/containers/json", params={"all": "true"}).json()
    return sorted(each["Names"][0].partition("dbx_")[2] for each in found if of in each["Names"][0])


def test_a_service_is_a_container_of_its_own_that_goes_with_its_devbox(
    podman: RunningEngine, client: Runloop, web: str
) -> None:
    devbox = create(client, blueprint_id=blueprint(client, web))
    name = devbox.removeprefix("dbx_")
    assert containers(podman, devbox) == [name, f"{name}-service-0"]
    client.devboxes.shutdown(devbox)
    eventually(lambda: containers(podman, devbox) == [], "the end of both containers")
