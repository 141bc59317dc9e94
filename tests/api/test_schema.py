"""Whatever is sent, fitting the schema or not, gets an answer below 500, or 501 with a feature's name."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.core.result import Ok
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import response_schema_conformance

from benchyard.api.app import App, all_routes
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create

DEVBOX = ("/v1/devboxes/{id}", "/v1/devboxes/{devbox_id}")
CREATES = ("/v1/devboxes", "/v1/devboxes/create_and_await_running")
ENDLESS = "/logs/tail"
NOT_IMPLEMENTED = 501
NOUNS = {
    "jobs_and_benchmarks": "^/v1/benchmark",
    "scenarios": "^/v1/scenarios",
    "devboxes": "^/v1/devboxes",
    "agents_and_accounts": "^/v1/(a|restricted)",
    "images_and_blueprints": "^/v1/(blueprints|images)",
    "networks": "^/v1/(gateway-configs|mcp-configs|network-policies)",
    "objects_and_secrets": "^/(objects|v1/(objects|secrets))",
    "server": "^/(gateway|healthz|metrics|pty|v1/(doctor|server|trials))",
}
"""What the paths of each test begin with; the schema itself is made when the first of them runs."""


@pytest.fixture(scope="module")
def schema() -> BaseSchema:
    app = App(title="Benchyard", version="1")
    app.router.routes.extend(all_routes())
    return schemathesis.openapi.from_dict(app.openapi())


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


def no_request_makes_the_server_fail(case: Case[Any], fuzzed: Fuzzed) -> None:
    aimed(case, fuzzed)
    answer = case.call(base_url=fuzzed.server.url, headers={"authorization": f"Bearer {fuzzed.server.key}"})
    assert answer.status_code < 500 or answer.status_code == NOT_IMPLEMENTED, fuzzed.server.log[-5000:]
    if answer.status_code == 200:
        case.validate_response(answer, checks=[response_schema_conformance])
        if case.method == "POST" and case.path in CREATES:
            ended(fuzzed, answer)


def operations(schema: BaseSchema) -> Iterator[APIOperation[Any, Any, Any, Any]]:
    """Everything that can be asked for."""
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), f"a route is not described well: {found}"
        yield found.ok()


def test_every_route_is_asked(schema: BaseSchema) -> None:
    paths = {each.path for each in operations(schema)}
    assert {path for path in paths if not any(re.match(start, path) for start in NOUNS.values())} == set()


@pytest.mark.parametrize("noun", NOUNS)
def test_no_request_makes_the_server_fail(noun: str, schema: BaseSchema, fuzzed: Fuzzed) -> None:
    for operation in operations(schema):
        if re.match(NOUNS[noun], operation.path):
            fuzz(operation, schema, fuzzed)


def fuzz(operation: APIOperation[Any, Any, Any, Any], schema: BaseSchema, fuzzed: Fuzzed) -> None:
    """Ask one route by its examples, by the edges of its schema, and by random requests."""

    @settings(max_examples=4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def ask(case: Case[Any]) -> None:
        no_request_makes_the_server_fail(case, fuzzed)

    config = HypothesisTestConfig(project=schema.config, modes=list(HypothesisTestMode))
    create_test(operation=operation, test_func=ask, config=config)()
