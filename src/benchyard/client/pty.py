"""Terminals in a devbox: find or make a session, and control it."""

from benchyard.client.core import Query, Request, Steps, at, fetch
from benchyard.client.verbs import Group, S, call
from benchyard.models.pty import PtyConnectView, PtyControlRequest, PtyControlResultView


class Pty(Group[S]):
    """The terminal sessions of a server's devboxes; `benchyard.client.terminal` carries their bytes."""

    @call
    def connect(
        self, devbox_id: str, session: str, columns: int = 80, rows: int = 24
    ) -> Steps[PtyConnectView]:
        """Find or make a session of that name; its bytes flow over a websocket at `connect_url`."""
        query: Query = {"devbox_id": devbox_id, "cols": columns, "rows": rows}
        return (yield from fetch(Request("GET", at("/pty/{}", session), query), PtyConnectView))

    @call
    def control(
        self, devbox_id: str, session: str, request: PtyControlRequest
    ) -> Steps[PtyControlResultView]:
        """Resize it, send a signal to its foreground, or close it."""
        path = at("/pty/{}/control", session)
        return (
            yield from fetch(
                Request("POST", path, {"devbox_id": devbox_id}, json=request), PtyControlResultView
            )
        )
