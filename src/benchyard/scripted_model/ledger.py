"""The scripted model's record of requests and of the usage it reported: the other side's account."""

from dataclasses import asdict, dataclass, field
from typing import Any

from benchyard.gateway.calls import TokenUsage


@dataclass
class LedgerEntry:
    """A request to the scripted model."""

    number: int
    """Counted from 1, in the order of arrival."""
    method: str
    path: str
    """The path, with the query."""
    headers: dict[str, str]
    """Header names, in lower case."""
    dialect: str = ""
    """Empty if the request does not ask for a model's reply."""
    model: str = ""
    body: Any = None
    streams: bool = False
    status: int = 0
    """HTTP status of the reply; 0 while there is none."""
    usage: TokenUsage | None = None
    """Usage reported by the part of the reply that was sent; None if it reported none."""
    is_title: bool = False
    """The request was for a title or the like: it offered no tools."""
    fault: str | None = None
    """The deliberate fault: `status`, `drop`, `garbage` or `hang`."""
    script: str = ""
    """The name of the script that answered."""
    results: int = 0
    """Number of tool results the request carried."""
    is_complete: bool = False
    """The whole reply was sent."""

    @property
    def key(self) -> str | None:
        """Return the key the request came with; None without one."""
        keys = keys_of_request(self.headers)
        return keys[0] if keys else None


@dataclass
class Ledger:
    """All requests, in order."""

    entries: list[LedgerEntry] = field(default_factory=list)

    def calls(self, *, titles: bool = False) -> list[LedgerEntry]:
        """Return the requests for replies of a model; those for titles only on demand."""
        return [entry for entry in self.entries if entry.dialect and (titles or not entry.is_title)]

    def totals(self) -> dict[str, TokenUsage]:
        """Return the usage that the replies reported, model by model."""
        sums: dict[str, TokenUsage] = {}
        for entry in self.entries:
            if entry.usage is not None:
                sums[entry.model] = sums.get(entry.model, TokenUsage()) + entry.usage
        return sums

    def total(self) -> TokenUsage:
        """Return the usage that all replies reported."""
        return sum(self.totals().values(), TokenUsage())

    def keys(self) -> set[str]:
        """Return every key that came with a request."""
        return {key for entry in self.entries for key in keys_of_request(entry.headers)}

    def as_json(self) -> dict[str, Any]:
        """Return all of it, as reported over HTTP."""
        return {
            "requests": [asdict(entry) for entry in self.entries],
            "totals": {model: self._total(model, usage) for model, usage in self.totals().items()},
        }

    def _total(self, model: str, usage: TokenUsage) -> dict[str, int]:
        entries = [entry for entry in self.entries if entry.model == model and entry.usage is not None]
        return {"requests": len(entries), **asdict(usage)}


def keys_of_request(headers: dict[str, str]) -> list[str]:
    """Return the keys that a request came with, in the places of any dialect."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    keys = [headers.get("x-api-key"), headers.get("x-goog-api-key")]
    if scheme.lower() == "bearer":
        keys.append(bearer)
    return [key for key in keys if key]
