"""Nouns of the original SDK that are not there: whatever is asked of them is answered by an error."""

from typing import NoReturn

from benchyard.errors import NotYet


class Absent:
    """Stands in the place of a noun that is not there."""

    def __init__(self, noun: str, instead: str) -> None:
        self._message = f"{noun} are not there: {instead}"

    def __repr__(self) -> str:
        return f"<Absent: {self._message}>"

    def __getattr__(self, name: str) -> NoReturn:
        # Names with an underscore are asked for by Python itself, and by notebooks that look for pictures.
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotYet(self._message)


MCP_CONFIG = Absent("MCP configs", "run the MCP server in the devbox, or reach it by a gateway config")
AXON = Absent("axons", "follow a job with `job.events()`, or read `devbox.logs()`")
