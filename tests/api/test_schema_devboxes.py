"""Whatever is sent about devboxes gets an answer below 500, or 501 with the feature's name."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.schemas import BaseSchema

from benchyard.api.app import all_routes
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create

OWN = r"^/(v1/(devboxes|images|doctor)|pty/)"
NOT_HERE = r"/(images/import|images/debian|logs/tail|shutdown|suspend|evictions/watch)$"
"""What would read this machine's files, go on for long, or end the devbox that the others use."""
TOO_MUCH = (
    "/execute",
    "/execute_async",
    "/execute_sync",
    "/control",
    "/snapshot_disk",
    "/snapshot_disk_async",
)
CREATES = ("/v1/devboxes", "/v1/devboxes/create_and_await_running")


def own_schema() -> BaseSchema:
    app = FastAPI()
    app.router.routes.extend(all_routes())
    return schemathesis.openapi.from_dict(app.openapi()).include(path_regex=OWN).exclude(path_regex=NOT_HERE)


schema = own_schema()


@pytest.fixture(scope="module")
def fuzzed(fake_server: RunningServer) -> Iterator[DevboxOverHttp]:
    headers = {"authorization": f"Bearer {fake_server.key}"}
    with httpx.Client(base_url=fake_server.url, headers=headers, timeout=60) as client:
        made = create(client)
        yield made
        made.post("shutdown")


def tame(case: Case[Any], devbox_id: str) -> None:
    """Point a request at a devbox that is there, unless it would run or make whatever was made up."""
    if case.path in CREATES:
        body = case.body if isinstance(case.body, dict) else {}
        case.body = {**body, "snapshot_id": "snp_unknown"}
    elif not case.path.endswith(TOO_MUCH) and case.path.startswith("/v1/devboxes/{"):
        names = {"devbox_id", "id"} & case.path_parameters.keys()
        case.path_parameters.update(dict.fromkeys(names, devbox_id))
    if isinstance(case.body, dict) and "statuses" in case.body:
        case.body["timeout_seconds"] = 0


@schema.parametrize()
@settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(
    case: Case[Any], fake_server: RunningServer, fuzzed: DevboxOverHttp
) -> None:
    tame(case, fuzzed.id)
    answer = case.call(base_url=fake_server.url, headers={"authorization": f"Bearer {fake_server.key}"})
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
