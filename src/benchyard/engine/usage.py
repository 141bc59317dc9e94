"""What a devbox has used, told from its changes of status and its size."""

from benchyard.engine.sizes import resources
from benchyard.engine.states import ACTIVE
from benchyard.models.devboxes import Devbox, DevboxUsageView


def active_ms(devbox: Devbox, now_ms: int) -> int:
    """How long it held cpu and memory."""
    end = devbox.end_time_ms or now_ms
    total = 0
    for index, transition in enumerate(devbox.state_transitions):
        following = devbox.state_transitions[index + 1 : index + 2]
        until = following[0].transition_time_ms if following else end
        if transition.status in ACTIVE:
            total += max(0, until - transition.transition_time_ms)
    return total


def usage(devbox: Devbox, now_ms: int) -> DevboxUsageView:
    """The usage view: cpu and memory for active time, disk for all of it."""
    size = resources(devbox.launch_parameters)
    elapsed = max(0, (devbox.end_time_ms or now_ms) - devbox.create_time_ms) / 1000
    active = active_ms(devbox, now_ms) / 1000
    return DevboxUsageView(
        id=devbox.id,
        status=devbox.status,
        start_time_ms=devbox.create_time_ms,
        end_time_ms=devbox.end_time_ms,
        total_elapsed_seconds=int(elapsed),
        total_active_seconds=int(active),
        vcpu_seconds=int(active * size.cpus),
        memory_gb_seconds=int(active * size.memory_gb),
        disk_gb_seconds=int(elapsed * size.disk_gb),
    )
