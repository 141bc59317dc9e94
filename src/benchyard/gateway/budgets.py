"""Whether a budget lets one more request through. Pure."""

from collections.abc import Iterable

from benchyard.gateway.grants import Budget
from benchyard.gateway.tally import Tally

MOST_UNMETERED = 20
"""Of calls that do not say what they used, under a budget that counts it: so many connections may break."""


def refusal(budget: Budget, tallies: Iterable[Tally], whose: str) -> str | None:
    """Why one more request goes beyond a budget that these share; None if it does not."""
    if budget == Budget():
        # Nothing is added up: there may be thousands of them.
        return None
    counted = list(tallies)
    spent = [tally.spent for tally in counted]
    asked = sum(each.requests for each in spent)
    if budget.requests is not None and asked >= budget.requests:
        return f"the budget of the {whose} is used up: {asked} of {budget.requests} requests"
    tokens = sum(each.usage.total_tokens for each in spent)
    if budget.tokens is not None and tokens >= budget.tokens:
        return f"the budget of the {whose} is used up: {tokens} of {budget.tokens} tokens"
    if budget.usd is not None:
        costs = [each.cost_usd for each in spent]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return (
                f"the {whose} has a budget in US dollars, but its model has no known price, or does not tell "
                "what it uses; set a budget of tokens or requests instead"
            )
        if sum(known) >= budget.usd:
            return f"the budget of the {whose} is used up: {sum(known):.4f} of {budget.usd:g} US dollars"
    if (budget.tokens, budget.usd) != (None, None):
        return _untold(sum(tally.unmetered for tally in counted), whose)
    return None


def _untold(unmetered: int, whose: str) -> str | None:
    if unmetered < MOST_UNMETERED:
        return None
    return f"the budget of the {whose} cannot be kept: {unmetered} answers did not say what they used"
