"""Trials of all jobs: look up, list, tag, note, label; their work."""

from collections.abc import Sequence
from typing import ClassVar, Unpack

from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, call
from benchyard.client.operations import Request, Steps, at, fetch
from benchyard.client.request_fields import TrialPageFields
from benchyard.client.resources.work import WorkVerbs
from benchyard.models.results.annotations import AnnotationRequest, LabelRequest
from benchyard.models.trials import TrialView

_PATH = "/v1/trials"


class Trials(WorkVerbs[S]):
    """The trials of a server, over all jobs."""

    _work_path: ClassVar[str] = _PATH

    @call
    def retrieve(self, id: str) -> Steps[TrialView]:
        """Look a trial up, with its tags, note and labels; raises NotFound."""
        return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), TrialView))

    get = retrieve

    @listing
    def list(self, **query: Unpack[TrialPageFields]) -> ListingSpec[TrialView]:
        """List the trials of all jobs, newest first; all, or those of one scenario, agent, tag or outcome."""
        return ListingSpec(_PATH, "trials", TrialView, query)

    @call
    def annotate(
        self,
        id: str,
        *,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
        note: str | None = None,
    ) -> Steps[TrialView]:
        """Add or remove tags, or write a note; an empty note removes it."""
        body = AnnotationRequest(add_tags=[*add_tags], remove_tags=[*remove_tags], note=note)
        return (yield from fetch(Request("POST", at(_PATH + "/{}/annotate", id), json=body), TrialView))

    @call
    def label(self, id: str, name: str, value: str | None, comment: str | None = None) -> Steps[TrialView]:
        """Give your verdict on a trial, in place of an earlier one of that name; None takes it back."""
        body = LabelRequest(name=name, value=value, comment=comment)
        return (yield from fetch(Request("POST", at(_PATH + "/{}/label", id), json=body), TrialView))
