"""Whatever fits the schema, and whatever does not, gets an answer below 500."""

from typing import Any

import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.schemas import BaseSchema

from benchyard.api.app import all_routes
from benchyard.testing.server import RunningServer

OWN = r"^/(healthz|v1/(apikeys|secrets|objects|accounts)|objects/)"


def own_schema() -> BaseSchema:
    app = FastAPI()
    app.router.routes.extend(all_routes())
    return schemathesis.openapi.from_dict(app.openapi()).include(path_regex=OWN)


schema = own_schema()


@schema.parametrize()
@settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case: Case[Any], fake_server: RunningServer) -> None:
    answer = case.call(base_url=fake_server.url, headers={"authorization": f"Bearer {fake_server.key}"})
    assert answer.status_code < 500, answer.text
