"""When a devbox's time is over: keep-alive and idle policies as pure functions."""

from benchyard.engine.states import BOOTING
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.launch import KEEP_ALIVE_DEFAULT_SECONDS

_CLOCK_STARTS = frozenset({DevboxStatus.PROVISIONING, DevboxStatus.RESUMING, DevboxStatus.RUNNING})


def alive_since_ms(devbox: Devbox) -> int:
    """When the clock of its lifetime was last started: made, resumed, or running."""
    times = [each.transition_time_ms for each in devbox.state_transitions if each.status in _CLOCK_STARTS]
    return max(times, default=devbox.create_time_ms)


def seconds_left(devbox: Devbox, now_ms: int) -> float | None:
    """What is left of its keep-alive time; None where an idle policy takes the place of it, once it runs."""
    launch = devbox.launch_parameters
    counts = devbox.status in BOOTING or (devbox.status is DevboxStatus.RUNNING and not launch.idle_policy)
    seconds = launch.keep_alive_time_seconds or KEEP_ALIVE_DEFAULT_SECONDS
    # Never more than all of it, though the clock may have been set back since it began.
    return seconds - max(0, now_ms - alive_since_ms(devbox)) / 1000 if counts else None


def is_idle(devbox: Devbox, last_use_ms: int, now_ms: int) -> bool:
    """Whether it has an idle policy whose time has passed since it was last used."""
    policy = devbox.launch_parameters.idle_policy
    if policy is None or devbox.status is not DevboxStatus.RUNNING:
        return False
    since = max(alive_since_ms(devbox), last_use_ms)
    return now_ms >= since + policy.idle_time_seconds * 1000
