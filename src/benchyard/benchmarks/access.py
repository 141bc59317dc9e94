"""What the devboxes of a scenario may reach in each phase, before the server's policies are known."""

from dataclasses import dataclass
from typing import Literal

Mode = Literal["none", "open", "allow-list"]


@dataclass(frozen=True)
class Access:
    """What may be reached."""

    mode: Mode
    hosts: tuple[str, ...] = ()
    """Names, `*.` before them for all below, and blocks of addresses; of an allow-list only."""


@dataclass(frozen=True)
class Phases:
    """What may be reached while the devbox is prepared, worked in, and graded."""

    setup: Access
    agent: Access
    scoring: Access
