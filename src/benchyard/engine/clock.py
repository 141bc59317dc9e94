"""The time as it stands on the wire."""

import time


def now_ms() -> int:
    """The time on the wire."""
    return time.time_ns() // 1_000_000
