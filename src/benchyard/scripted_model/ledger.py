"""What was asked of the scripted model, and what it said that cost: the other side's account."""

from dataclasses import asdict, dataclass, field
from typing import Any

from benchyard.gateway.calls import TokenUsage


@dataclass
class LedgerEntry:
    """One request."""

    number: int
    """From 1, in the order in which they came."""
    method: str
    path: str
    """With the query."""
    headers: dict[str, str]
    """Names in small letters."""
    dialect: str = ""
    """Empty where the request asks for no answer of a model."""
    model: str = ""
    body: Any = None
    streams: bool = False
    status: int = 0
    """Of the answer; 0 while there is none."""
    usage: TokenUsage | None = None
    """What the answer said it used, as far as it was sent; None if it said nothing."""
    is_title: bool = False
    """Whether it asked for a title or the like: it offered no tools."""
    fault: str | None = None
    """What went wrong on purpose: `status`, `drop`, `garbage` or `hang`."""
    script: str = ""
    """The name of the script that answered."""
    results: int = 0
    """How many results of tools it carried."""
    is_complete: bool = False
    """Whether the whole answer was sent."""

    @property
    def key(self) -> str | None:
        """The key it came with; None without one."""
        found = keys_of_request(self.headers)
        return found[0] if found else None


@dataclass
class Ledger:
    """All requests, in order."""

    entries: list[LedgerEntry] = field(default_factory=list)

    def calls(self, *, titles: bool = False) -> list[LedgerEntry]:
        """Requests for answers of a model; with those for titles only if asked to."""
        return [entry for entry in self.entries if entry.dialect and (titles or not entry.is_title)]

    def totals(self) -> dict[str, TokenUsage]:
        """What the answers said they used, model by model."""
        sums: dict[str, TokenUsage] = {}
        for entry in self.entries:
            if entry.usage is not None:
                sums[entry.model] = sums.get(entry.model, TokenUsage()) + entry.usage
        return sums

    def total(self) -> TokenUsage:
        """What all answers said they used."""
        return sum(self.totals().values(), TokenUsage())

    def keys(self) -> set[str]:
        """Every key that came with a request."""
        return {key for entry in self.entries for key in keys_of_request(entry.headers)}

    def as_json(self) -> dict[str, Any]:
        """All of it, as it is told over HTTP."""
        return {
            "requests": [asdict(entry) for entry in self.entries],
            "totals": {model: self._total(model, usage) for model, usage in self.totals().items()},
        }

    def _total(self, model: str, usage: TokenUsage) -> dict[str, int]:
        told = [entry for entry in self.entries if entry.model == model and entry.usage is not None]
        return {"requests": len(told), **asdict(usage)}


def keys_of_request(headers: dict[str, str]) -> list[str]:
    """The keys that a request came with, wherever its dialect puts them."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    found = [headers.get("x-api-key"), headers.get("x-goog-api-key")]
    if scheme.lower() == "bearer":
        found.append(bearer)
    return [key for key in found if key]
