"""How the gateway says no: in the words of the dialect that was spoken."""

import json

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

    def headers(self) -> dict[str, str]:
        """What is answered before that."""
        told = {"content-type": "application/json"}
        # Some clients would try a 401 again for minutes.
        return told if self.kind == "unavailable" else {**told, "x-should-retry": "false"}
