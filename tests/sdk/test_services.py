"""Services of a blueprint: programs of other images beside a devbox, on its loopback."""

import io
import shutil
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from runloop_api_client import BadRequestError, Runloop, RunloopError
from runloop_api_client.lib.polling import PollingConfig
from runloop_api_client.types.blueprint_create_params import Service

from benchyard.testing.server import RunningServer
from tests.images.archives import docker_folder
from tests.sdk.boxes import create, output, reaches

QUICK = PollingConfig(interval_seconds=0.1, max_attempts=1200)
FETCH = (
    "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://localhost:{port}/\").read().decode())'"
)


@pytest.fixture(scope="module")
def web(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of an image whose program serves what is in its variable GREETING."""
    folder = tmp_path_factory.mktemp("web")
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    for name in ("etc", "tmp", "www"):
        (root / name).mkdir()
    found = shutil.which("busybox")
    assert found, "busybox is not installed: `make setup` does it"
    shutil.copy(found, root / "bin/busybox")
    for name in ("sh", "cat", "sleep", "httpd", "id"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    archive = _archive(folder, root)
    name = f"web-{uuid.uuid4().hex[:8]}"
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
        made = http.post("/v1/images/import", json={"path": str(archive), "name": name})
        assert made.status_code == 200, made.text
        yield name
        http.post(f"/v1/images/{made.json()['id']}/delete")


def _archive(folder: Path, root: Path) -> Path:
    """An archive as `docker save` writes it, of a root filesystem and its program."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(root, ".")
    program = 'echo "$GREETING" > /www/index.html; exec httpd -f -p "${PORT:-80}" -h /www'
    settings = {"Env": ["PATH=/bin", "GREETING=nothing"], "WorkingDir": "/www", "Cmd": ["sh", "-c", program]}
    return docker_folder(folder / "archive", [buffer.getvalue()], config=settings)


def blueprint(client: Runloop, web: str, **service: Any) -> str:
    """The id of a blueprint with a service `web`, which its devboxes have."""
    made = client.blueprints.create_and_await_build_complete(
        name=f"served-{uuid.uuid4().hex[:8]}",
        services=cast(list[Service], [{"name": "web", "image": web, "port_mappings": ["80:80"], **service}]),
        launch_parameters={"required_services": ["web"]},
        polling_config=QUICK,
    )
    return made.id


def fetch(client: Runloop, devbox: str, port: int = 80) -> str:
    return output(client, devbox, FETCH.format(port=port)).strip()


def test_a_service_is_ready_when_its_devbox_runs_and_comes_back_with_it(client: Runloop, web: str) -> None:
    made = blueprint(client, web, env={"GREETING": "good day"})
    shown = client.blueprints.retrieve(made).containerized_services
    assert shown is not None
    assert [service.name for service in shown] == ["web"]
    devbox = create(client, blueprint_id=made)
    assert fetch(client, devbox) == "good day"
    assert [each.id for each in client.devboxes.list(status="running") if devbox in each.id] == [devbox]
    client.devboxes.suspend(devbox)
    reaches(client, devbox, "suspended")
    client.devboxes.resume(devbox)
    reaches(client, devbox, "running")
    assert fetch(client, devbox) == "good day"
    client.devboxes.shutdown(devbox)


def test_two_devboxes_have_a_service_each(client: Runloop, web: str) -> None:
    made = blueprint(client, web, options="--health-cmd 'cat /www/index.html' --health-interval 100ms")
    first, second = create(client, blueprint_id=made), create(client, blueprint_id=made)
    assert fetch(client, first) == fetch(client, second) == "nothing"
    client.devboxes.shutdown(first)
    assert fetch(client, second) == "nothing"
    client.devboxes.shutdown(second)


def test_a_devbox_has_no_services_by_default(client: Runloop, web: str) -> None:
    made = blueprint(client, web)
    devbox = create(client, blueprint_id=made, launch_parameters={"required_services": []})
    view = client.devboxes.execute_and_await_completion(devbox, command=FETCH.format(port=80))
    assert view.exit_status == 1
    client.devboxes.shutdown(devbox)


@pytest.mark.parametrize(
    ("service", "told"),
    [
        ({"image": "nowhere/to:be-found"}, "nowhere/to:be-found"),
        ({"options": "--entrypoint /bin/false"}, "ended with"),
        ({"options": "--health-cmd false --health-interval 50ms --health-retries 3"}, "not ready"),
    ],
    ids=["no image", "ends at once", "never ready"],
)
def test_a_service_that_does_not_come_up_fails_the_devbox_and_says_why(
    client: Runloop, web: str, service: dict[str, str], told: str
) -> None:
    made = blueprint(client, web, **service)
    with pytest.raises(RunloopError):
        client.devboxes.create_and_await_running(blueprint_id=made, name=f"fails-{made}")
    (failed,) = [
        devbox for devbox in client.devboxes.list(status="failure", limit=100) if devbox.blueprint_id == made
    ]
    assert failed.failure_reason == "execution_failed"
    details = [getattr(step, "detail", None) or "" for step in failed.state_transitions]
    assert "service web" in details[-1]
    assert told in details[-1]


@pytest.mark.parametrize(
    ("service", "told"),
    [({"port_mappings": ["8080:80"]}, "same on both sides"), ({"options": "--privileged=1"}, "--privileged")],
)
def test_invalid_service_is_refused(client: Runloop, web: str, service: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequestError, match=told):
        blueprint(client, web, **service)


def test_services_are_found_again_after_the_server_was_killed(
    server: RunningServer, client: Runloop, web: str
) -> None:
    devbox = create(client, blueprint_id=blueprint(client, web, env={"GREETING": "still"}))
    server.kill()
    server.start()
    assert fetch(client, devbox) == "still"
    client.devboxes.shutdown(devbox)
