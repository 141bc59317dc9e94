"""Routes are looked at when they are first asked for, and are then as any other."""

import subprocess
import sys
import warnings

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from benchyard.api.app import all_routes
from benchyard.api.lazy_route import LazyRoute
from benchyard.models.jobs import Job, JobEvent


def served() -> tuple[FastAPI, list[LazyRoute]]:
    async def doubled(number: int) -> dict[str, int]:
        return {"doubled": number * 2}

    async def other() -> str:
        raise AssertionError("nobody asks for it")

    routes = [LazyRoute("/twice/{number}", doubled), LazyRoute("/other", other, methods=["POST"])]
    app = FastAPI()
    app.router.routes.extend(routes)
    return app, routes


def is_looked_at(route: LazyRoute) -> bool:
    return "dependant" in vars(route)


def test_a_route_is_looked_at_when_it_is_first_asked_for() -> None:
    app, (twice, other) = served()
    client = TestClient(app)
    assert not is_looked_at(twice)
    assert client.get("/twice/4").json() == {"doubled": 8}
    assert client.get("/twice/x").status_code == 422
    assert client.get("/nothing").status_code == 404
    assert client.get("/other").status_code == 405
    assert is_looked_at(twice)
    assert not is_looked_at(other)


def test_the_schema_tells_of_all_of_them() -> None:
    app, _ = served()
    assert set(app.openapi()["paths"]) == {"/twice/{number}", "/other"}


def test_all_our_routes_are_such() -> None:
    assert all(isinstance(route, LazyRoute) for route in all_routes() if isinstance(route, APIRoute))


def test_their_models_are_whole_when_they_are_looked_at() -> None:
    async def known(body: Job) -> JobEvent:
        raise AssertionError("nobody asks for it")

    route = LazyRoute("/known", known, methods=["POST"])
    assert route.response_field is not None
    assert Job.__pydantic_complete__
    assert JobEvent.__pydantic_complete__
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found, _ = route.dependant.body_params[0].validate({})
    assert (found, told) == (None, [])


def test_a_server_that_starts_looks_at_none() -> None:
    lines = (
        "from benchyard.api.app import all_routes",
        "from benchyard.models.jobs import Job",
        "assert not [each for each in all_routes() if 'response_field' in vars(each)]",
        "assert not Job.__pydantic_complete__",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)
