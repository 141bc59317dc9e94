"""The reference of this API, as a page; asks for no key."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from benchyard.api.reference_page import POLICY, reference_page
from benchyard.api.routing import LateRoute

router = APIRouter(route_class=LateRoute, include_in_schema=False)

_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


@router.get("/docs", response_class=HTMLResponse)
async def reference(request: Request) -> HTMLResponse:
    """Show every route and model."""
    app = request.app
    if not hasattr(app.state, "reference_page"):
        # Not in the thread: routes are built when the schema first asks for them, as requests do.
        schema = app.openapi()
        app.state.reference_page = await asyncio.to_thread(reference_page, schema)
    return HTMLResponse(app.state.reference_page, headers=_HEADERS)
