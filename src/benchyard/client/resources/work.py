"""Work of a run or a trial: changed files, the diff, contents, a devbox opened on it."""

from typing import ClassVar

from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, Steps, at, fetch, send
from benchyard.client.resources.devboxes import Devboxes
from benchyard.models.devboxes import DevboxView
from benchyard.models.results.work import OpenRequest, WorkFilesView, WorkScope, WorkSide


class WorkVerbs(VerbGroup[S]):
    """The verbs on the work of scenario runs; trials have the same, on the work of their runs."""

    _work_path: ClassVar[str] = "/v1/scenarios/runs"

    @call
    def files(
        self,
        id: str,
        *,
        path: str | None = None,
        scope: WorkScope | None = None,
        limit: int | None = None,
        starting_after: str | None = None,
    ) -> Steps[WorkFilesView]:
        """Return a page of the paths that the work changed; the cursor is the last path of the page before.

        With `scope="all"` also what lies beside the work; with a path only this and what is below it. Raises
        Conflict with the reason if what the run left is not kept any more.
        """
        query: dict[str, str | int | bool | None] = {"path": path, "scope": scope, "limit": limit}
        query["starting_after"] = starting_after
        request = Request("GET", at(self._work_path + "/{}/files", id), query, timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, WorkFilesView))

    @call
    def diff(self, id: str, *, path: str | None = None, scope: WorkScope | None = None) -> Steps[str]:
        """Return the work as a unified diff against the start; lines with # say what is left out."""
        query = {"path": path, "scope": scope}
        request = Request("GET", at(self._work_path + "/{}/diff", id), query, timeout=TRANSFER_TIMEOUT)
        return (yield from send(request)).content.decode(errors="replace")

    @call
    def read_file(
        self, id: str, path: str, *, side: WorkSide = "after", offset: int = 0, limit: int | None = None
    ) -> Steps[bytes]:
        """Return a file as the work left it, or as it was before; of a link, its target.

        At most 1 MiB from the offset on, unless `limit` says otherwise. Values of secrets are hidden.
        """
        query: dict[str, str | int | bool | None] = {"path": path, "side": side, "offset": offset}
        query["limit"] = limit
        request = Request("GET", at(self._work_path + "/{}/files/content", id), query)
        return (yield from send(request)).content

    @call
    def open(self, id: str, name: str | None = None) -> Steps[DevboxView]:
        """Start a devbox on what the work left, and return at once.

        It has no secrets and no tokens of the agent, and the network of any devbox.
        """
        request = Request("POST", at(self._work_path + "/{}/open", id), json=OpenRequest(name=name))
        return (yield from fetch(request, DevboxView))

    @call
    def open_and_await(
        self, id: str, name: str | None = None, timeout: float | None = None
    ) -> Steps[DevboxView]:
        """Start a devbox on what the work left and wait until it runs; raises StartFailed if it cannot."""
        devbox = yield from self.open.steps(id, name)
        return (yield from Devboxes(self.session).await_running.steps(devbox.id, timeout))
