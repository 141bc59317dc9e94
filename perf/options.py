"""What a run of the measurements can be told."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How much is measured; the defaults are what the promises are about."""

    rounds: int = 30
    """Of `compare`, and a fifth of it of `restart`."""
    devboxes: int = 500
    """Alive at once in `many` and `restart`."""
    megabytes: int = 1024
    """Of output, in `output`."""
    executions: int = 200
    """At once, in `output`."""
    cycles: int = 24_000
    """Of `soak`, unless its minutes are over first."""
    trials: int = 10_000
    """Of the large job, in `jobs`; of ten times as many in `reports`."""
    minutes: float = 60.0
    """Of `soak`."""
    before: str = ""
    """Another checkout with an environment of its own in `.venv`, for `versions` and `regressions`."""
