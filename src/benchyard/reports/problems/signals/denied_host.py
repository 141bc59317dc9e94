"""The agent wanted a host that it may not reach."""

import re
from collections.abc import Iterable

from benchyard.reports.problems.base import ProblemSignal, SignalFinding, brief
from benchyard.reports.problems.facts import TrialFacts

_REFUSED = re.compile(r"the egress proxy refused (\S{1,255}) (.{1,60})")
_UNREACHED = re.compile(
    r"(?:Could not resolve host|Temporary failure in name resolution"
    r"|getaddrinfo ENOTFOUND)[: ]{0,3}([\w.-]{0,100})"
)


class DeniedHostSignal(ProblemSignal):
    """Finds hosts that the network policy refused, or that did not resolve."""

    summary = "the agent asked for a host that it may not reach"
    helps = "allow it in the network policy, or put its files in the image; docs/guides/network-policies.md"

    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return each host, with the steps that name it."""
        found = {}
        for line in facts.conditions:
            if refused := _REFUSED.match(line):
                host = refused[1].partition(":")[0]
                steps = [
                    each.step
                    for each in facts.actions or ()
                    if host in each.arguments or host in (each.output or "")
                ]
                found[host] = SignalFinding(brief(f"{refused[1]}, {refused[2]}"), steps)
        for action, output in facts.outputs():
            if unreached := _UNREACHED.search(output):
                host = unreached[1] or "a host"
                if host not in found:
                    found[host] = SignalFinding(brief(f"{host} was not found"), [action.step])
        return list(found.values())
