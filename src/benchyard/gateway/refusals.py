"""How the gateway says no: in the words of the dialect that was spoken."""

import json

from aiohttp import web

from benchyard.gateway.dialects.base import STATUS, Dialect, Refusal


class Refused(Exception):
    """A request that the gateway answers by itself."""

    def __init__(self, kind: Refusal, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status or STATUS[kind]

    def body(self, dialect: Dialect | None) -> bytes:
        """What is answered."""
        if dialect is None:
            return json.dumps({"error": {"type": self.kind, "message": self.message}}).encode()
        return json.dumps(dialect.refusal(self.kind, self.message)).encode()

    def answer(self, dialect: Dialect | None) -> web.Response:
        """The answer."""
        response = web.Response(
            status=self.status, body=self.body(dialect), headers={"content-type": "application/json"}
        )
        if self.kind != "unavailable":
            # Some clients would try a 401 again for minutes.
            response.headers["x-should-retry"] = "false"
        return response
