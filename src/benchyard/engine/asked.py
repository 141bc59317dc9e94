"""Who asks for something new."""

from dataclasses import dataclass

from benchyard.models.devboxes import DevboxPurpose, InitiatorType


@dataclass(frozen=True)
class Asked:
    """Who asks: the id the new thing gets, the hash of the request, and the key it came with."""

    id: str
    request_hash: str | None = None
    key_id: str | None = None
    run_id: str | None = None
    """The scenario run it is for."""
    scorer_id: str | None = None
    """The custom scorer it tries."""
    purpose: DevboxPurpose | None = None

    @property
    def initiator(self) -> InitiatorType:
        """What kind of thing asks."""
        if self.run_id:
            return "scenario"
        return "scoring_validation" if self.scorer_id else "api"
