"""The log of a devbox."""

from benchyard.client.core import Request, Steps, at, fetch
from benchyard.client.verbs import Group, S, call
from benchyard.models.executions import LogLine, LogsView


class Logs(Group[S]):
    """The logs of a server's devboxes."""

    @call
    def list(
        self, devbox_id: str, execution_id: str | None = None, shell_name: str | None = None
    ) -> Steps[list[LogLine]]:
        """All lines, oldest first, or those of one execution or shell."""
        return (yield from lines(devbox_id, execution_id, shell_name)).logs


def lines(devbox_id: str, execution_id: str | None, shell_name: str | None) -> Steps[LogsView]:
    """The log of a devbox, or of one execution or shell in it."""
    query = {"execution_id": execution_id, "shell_name": shell_name}
    return (yield from fetch(Request("GET", at("/v1/devboxes/{}/logs", devbox_id), query), LogsView))
