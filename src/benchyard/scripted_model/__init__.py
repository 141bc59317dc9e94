"""A model for tests, demos and teaching: a server that speaks four dialects and plays scripts."""

from benchyard.scripted_model.background import RunningModel
from benchyard.scripted_model.ledger import Ledger, LedgerEntry
from benchyard.scripted_model.scripts import Script, ScriptStep, StepUsage
from benchyard.scripted_model.server import ScriptedModel
from benchyard.scripted_model.solutions import failing, solving

__all__ = [
    "Ledger",
    "LedgerEntry",
    "RunningModel",
    "Script",
    "ScriptStep",
    "ScriptedModel",
    "StepUsage",
    "failing",
    "solving",
]
