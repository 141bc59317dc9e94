"""What both dialects of OpenAI share: how errors are told."""

from typing import Any

_ERRORS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "forbidden"),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def error(status: int, message: str) -> Any:
    """The body of an answer that something went wrong."""
    default = ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    kind, code = _ERRORS.get(status, default)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
