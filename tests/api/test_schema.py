"""Whatever is sent, fitting the schema or not, gets an answer below 500, or 501 with a feature's name."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.core.result import Ok
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import response_schema_conformance

from benchyard.api.app import App, all_routes
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create

DEVBOX = ("/v1/devboxes/{id}", "/v1/devboxes/{devbox_id}")
CREATES = ("/v1/devboxes", "/v1/devboxes/create_and_await_running")
ENDLESS = "/logs/tail"
NOT_IMPLEMENTED = 501


def whole_schema() -> BaseSchema:
    app = App(title="Benchyard", version="1")
    app.router.routes.extend(all_routes())
    return schemathesis.openapi.from_dict(app.openapi())


schema = whole_schema()


class Fuzzed:
    """A server of its own, and a devbox on it that runs whenever it is asked for."""

    def __init__(self, server: RunningServer, api: httpx.Client) -> None:
        self.server = server
        self.api = api
        self._devbox = create(api)
        self.execution_id = self._devbox.run("echo output")["execution_id"]

    def devbox(self) -> DevboxOverHttp:
        if self._devbox.view()["status"] != "running":
            self._devbox.post("shutdown")
            self._devbox = create(self.api)
            self.execution_id = self._devbox.run("echo output")["execution_id"]
        return self._devbox


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    with RunningServer(tmp_path_factory.mktemp("fuzzed") / "data") as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
            yield Fuzzed(server, client)


def aimed(case: Case[Any], fuzzed: Fuzzed) -> None:
    """Point a request at a devbox that is there; keep it from this machine's files and from waiting."""
    if case.path.startswith(DEVBOX) and not case.path.endswith(ENDLESS):
        devbox = fuzzed.devbox()
        known = {"id": devbox.id, "devbox_id": devbox.id, "execution_id": fuzzed.execution_id}
        case.path_parameters.update({name: known[name] for name in known.keys() & case.path_parameters})
    if case.path.startswith("/pty/"):
        case.query = {**(case.query or {}), "devbox_id": fuzzed.devbox().id}
    if isinstance(case.body, dict):
        case.body.update(_harmless(case.path, case.body))


def _harmless(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path == "/v1/images/import":
        return {"path": f"/no-such-folder/{body.get('path')}"}
    if path == "/v1/images/debian":
        return {"suite": "No Such Suite"}
    return {"timeout_seconds": 0} if "statuses" in body else {}


def ended(fuzzed: Fuzzed, answer: Any) -> None:
    """End what a create call made, whatever it was told to run."""
    fuzzed.api.post(f"/v1/devboxes/{answer.json()['id']}/shutdown", params={"force": "true"})


def fuzzing(method: str, path: str) -> Any:
    """The test of one route. One test of all would give each the same id, and workers run an id once."""

    @schema.include(method=method, path=path).parametrize()
    @settings(max_examples=4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def test(case: Case[Any], fuzzed: Fuzzed) -> None:
        no_request_makes_the_server_fail(case, fuzzed)

    return test


def no_request_makes_the_server_fail(case: Case[Any], fuzzed: Fuzzed) -> None:
    aimed(case, fuzzed)
    answer = case.call(base_url=fuzzed.server.url, headers={"authorization": f"Bearer {fuzzed.server.key}"})
    assert answer.status_code < 500 or answer.status_code == NOT_IMPLEMENTED, fuzzed.server.log[-5000:]
    if answer.status_code == 200:
        case.validate_response(answer, checks=[response_schema_conformance])
        if case.method == "POST" and case.path in CREATES:
            ended(fuzzed, answer)


def routes() -> Iterator[tuple[str, str]]:
    """The method and the path of everything that can be asked for."""
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), f"a route is not described well: {found}"
        yield found.ok().method, found.ok().path


globals().update({f"test_{method}_{path}": fuzzing(method, path) for method, path in routes()})
