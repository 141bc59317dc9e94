"""Asks every route of a server by its examples, by the edges of its schema, and by random requests.

A program of its own, `python -m tests.api.fuzzing URL KEY short|whole`: what checks large schemas takes up
hundreds of megabytes, which are given back with its end only. Prints how many routes it asked.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.core.result import Ok
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import response_schema_conformance

from benchyard.api.app import App, all_routes
from tests.api.devbox import DevboxOverHttp, create

DEVBOX = ("/v1/devboxes/{id}", "/v1/devboxes/{devbox_id}")
CREATES = ("/v1/devboxes", "/v1/devboxes/create_and_await_running")
ENDLESS = "/logs/tail"
NOT_IMPLEMENTED = 501
LARGE = ("/v1/benchmark_jobs", "/v1/benchmark_jobs/plan")
"""Routes whose edges are a quarter of all there are; in short they are asked by random requests only."""
Operation = APIOperation[Any, Any, Any, Any]


class Fuzzed:
    """A server, and a devbox on it that runs whenever it is asked for."""

    def __init__(self, api: httpx.Client) -> None:
        self.api = api
        self._devbox = create(api)
        self.execution_id = self._devbox.run("echo output")["execution_id"]

    def devbox(self) -> DevboxOverHttp:
        if self._devbox.view()["status"] != "running":
            self._devbox.post("shutdown")
            self._devbox = create(self.api)
            self.execution_id = self._devbox.run("echo output")["execution_id"]
        return self._devbox


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
    answer = case.call(base_url=str(fuzzed.api.base_url), headers=dict(fuzzed.api.headers))
    assert answer.status_code < 500 or answer.status_code == NOT_IMPLEMENTED, case.as_curl_command()
    if answer.status_code == 200:
        case.validate_response(answer, checks=[response_schema_conformance])
        if case.method == "POST" and case.path in CREATES:
            ended(fuzzed, answer)


def operations(schema: BaseSchema) -> Iterator[Operation]:
    """Everything that can be asked for."""
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), f"a route is not described well: {found}"
        yield found.ok()


def fuzz(operation: Operation, schema: BaseSchema, fuzzed: Fuzzed, modes: list[HypothesisTestMode]) -> None:
    @settings(max_examples=4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def ask(case: Case[Any]) -> None:
        no_request_makes_the_server_fail(case, fuzzed)

    config = HypothesisTestConfig(project=schema.config, modes=modes)
    create_test(operation=operation, test_func=ask, config=config)()


def asked(operation: Operation) -> str:
    """What a request of a route consists of; the same for routes that take the same."""
    definition = operation.definition.raw
    return json.dumps([definition.get("requestBody") or operation.path, definition.get("parameters")])


def main(url: str, key: str, extent: str) -> None:
    app = App(title="Benchyard", version="1")
    app.router.routes.extend(all_routes())
    schema = schemathesis.openapi.from_dict(app.openapi())
    edges_known: set[str] = set()
    count = 0
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60) as client:
        fuzzed = Fuzzed(client)
        for operation in operations(schema):
            modes = set(HypothesisTestMode)
            if asked(operation) in edges_known or (extent == "short" and operation.path in LARGE):
                modes.remove(HypothesisTestMode.COVERAGE)
            edges_known.add(asked(operation))
            fuzz(operation, schema, fuzzed, list(modes))
            count += 1
    sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
