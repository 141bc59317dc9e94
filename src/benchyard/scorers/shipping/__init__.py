"""Scorers of public benchmarks as scripts that other harnesses can run: one module for each type."""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from benchyard.models.shipped import Attachments, Shipped

_SUFFIX = "_scorer"


def types() -> list[str]:
    """The types that can be shipped."""
    return sorted(f"{module.name}{_SUFFIX}" for module in pkgutil.iter_modules(__path__))


def shipped(scorer: Mapping[str, Any], attachments: Attachments, seconds: float) -> Shipped:
    """One as a script, which may take so long; raises UsageError where what it needs is not in the task."""
    name = str(scorer["type"]).removesuffix(_SUFFIX)
    module = importlib.import_module(f"{__name__}.{name}")
    made: Shipped = module.shipped(scorer, attachments, seconds)
    return made
