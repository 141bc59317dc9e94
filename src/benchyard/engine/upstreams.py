"""Where requests for models go: the providers' own addresses, or whatever the server was told instead."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchyard.errors import UsageError
from benchyard.gateway.grants import Upstream
from benchyard.settings import Settings

OAUTH_VARIABLE = "CLAUDE_CODE_OAUTH_TOKEN"
"""A token of a subscription goes where other keys do not; the agent says by itself what it is."""


_PLAIN = re.compile(r"[\x21-\x7e]+")
"""Of what an address is made: what else is in it, a reader leaves out, and who sends it may not."""


@dataclass(frozen=True)
class _Provider:
    url: str
    header: str
    prefix: str
    variables: tuple[str, ...] = ()
    """What its key is called before its usual name."""


_PROVIDERS: Mapping[str, _Provider] = {
    "anthropic": _Provider("https://api.anthropic.com", "x-api-key", ""),
    "openai": _Provider("https://api.openai.com", "authorization", "Bearer "),
    "google": _Provider(
        "https://generativelanguage.googleapis.com", "x-goog-api-key", "", ("GEMINI_API_KEY",)
    ),
}


class Upstreams:
    """Every upstream that this server knows."""

    def __init__(self, settings: Settings) -> None:
        self._own = {name: checked_url(url) for name, url in settings.upstreams.items()}
        self._keyless = settings.keyless_upstreams
        strays = self._keyless - {*self._own, *_PROVIDERS}
        if strays:
            raise UsageError(f"no upstream is called {', '.join(sorted(strays))}; name it with --upstream")

    @property
    def own(self) -> frozenset[str]:
        """Names that were given to this server, beside those of the providers."""
        return frozenset(self._own) - frozenset(_PROVIDERS)

    def needs_key(self, name: str) -> bool:
        """Whether an upstream wants to be told a key."""
        return name not in self._keyless

    def variables(self, name: str) -> tuple[str, ...]:
        """Where the key of an upstream is looked for, if no agent says so."""
        provider = _PROVIDERS.get(name)
        usual = f"{name.upper().replace('-', '_').replace('.', '_')}_API_KEY"
        return (*(provider.variables if provider else ()), usual)

    @property
    def names(self) -> list[str]:
        """The names of all of them."""
        return sorted({*_PROVIDERS, *self._own})

    @property
    def listed(self) -> str:
        """The names of all of them, for people."""
        return ", ".join(self.names)

    def make(self, name: str, key: str | None, variable: str | None, url: str | None = None) -> Upstream:
        """The upstream of that name with this key, which came as this variable; `url` is a job's own."""
        provider = _PROVIDERS.get(name)
        base = checked_url(url) if url else self._own.get(name) or (provider.url if provider else None)
        if base is None:
            raise UsageError(f"no upstream is called {name[:100]!r}; there are: {self.listed}")
        if provider is None:
            return Upstream(base, key=key)
        if variable == OAUTH_VARIABLE:
            return Upstream(base, key=key, prices=name)
        return Upstream(base, provider.header, provider.prefix, key, prices=name)


def checked_url(url: str) -> str:
    """A base URL without its last slash; raises UsageError for what is none."""
    try:
        parts = urlsplit(url)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        port_is_right = False
    is_plain = port_is_right and _PLAIN.fullmatch(url) is not None
    if not is_plain or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url[:200]!r} is no address of an upstream; give one as http://HOST:PORT")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise UsageError("the address of an upstream has no user, query or fragment; its key is a secret")
    return url.rstrip("/")
