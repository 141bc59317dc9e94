"""A model for tests, demos and teaching: a server that speaks four dialects and plays scripts."""

from benchyard.testing.model.background import RunningModel
from benchyard.testing.model.ledger import Entry, Ledger
from benchyard.testing.model.scripts import Script, Step, StepUsage
from benchyard.testing.model.server import ScriptedModel
from benchyard.testing.model.solutions import failing, solving

__all__ = [
    "Entry",
    "Ledger",
    "RunningModel",
    "Script",
    "ScriptedModel",
    "Step",
    "StepUsage",
    "failing",
    "solving",
]
