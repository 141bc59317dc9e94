"""A build's output on its way to whoever reads it: bounded, without secrets, and remembered for errors."""

import re
from collections import deque
from collections.abc import Iterable, Mapping

from benchyard.images.build import Log

_MOST_BYTES = 64 * 1024**2
_MASK = "***"
_SHORTEST_LINE = 4
_STEP = re.compile(r"(?:\[(\d{1,6})/\d{1,6}\] )?STEP (\d{1,6})/\d{1,6}: ")


class Output:
    """Takes lines; passes on what fits."""

    def __init__(self, log: Log, secrets: Iterable[str] = (), names: Mapping[str, str] | None = None) -> None:
        self._log = log
        self._left = _MOST_BYTES
        self._secrets = masked_texts(secrets)
        self._names = dict(names or {})
        self.step: tuple[int, int] | None = None
        """Number of the stage and of the instruction in it that the engine is at."""
        self.last: deque[str] = deque(maxlen=40)
        """Lines since then."""

    def line(self, text: str) -> None:
        """Take one line."""
        text = self.clean(text)
        if found := _STEP.match(text):
            self.step = (int(found[1] or 1), int(found[2]))
            self.last.clear()
        else:
            self.last.append(text)
        size = len(text) + 1
        if self._left <= 0:
            return
        self._left -= size
        self._log(text if self._left > 0 else f"[the log ends here: more than {_MOST_BYTES} bytes]")

    def clean(self, text: str) -> str:
        """A text without the secrets, and with the names that the Dockerfile has."""
        text = self.masked(text)
        for name, spelled in self._names.items():
            text = text.replace(name, spelled)
        return text

    def masked(self, text: str) -> str:
        """A text without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text


def masked_texts(secrets: Iterable[str]) -> list[str]:
    """What has to be hidden in single lines, longest first; of a secret with several lines, each."""
    texts = set()
    for secret in secrets:
        lines = [line for line in secret.splitlines() if len(line.strip()) >= _SHORTEST_LINE]
        texts |= {secret.strip(), *lines} if len(secret.splitlines()) > 1 else {secret.strip("\n")}
    return sorted((text for text in texts if text), key=len, reverse=True)
