"""Steps of a stored trajectory, one after the other, for what is found in them."""

from collections.abc import Iterator

from benchyard.errors import UsageError
from benchyard.gateway.trajectory.documents import document_of
from benchyard.gateway.trajectory.stored_steps import StoredStep, steps_of


def iterate_steps(content: bytes) -> Iterator[StoredStep]:
    """Yield the steps of a trajectory's file, of which only one at a time is in memory.

    Missing fields are left empty, and a file that breaks off gives the steps before that. Raises UsageError
    if it is too large, is no text, or has no step that can be read.
    """
    document = document_of(content)
    count = 0
    for step in steps_of(document):
        count += 1
        yield step
    if not count and document.problem is not None:
        raise UsageError(f"the trajectory cannot be read: {document.problem}", field="trajectory")
