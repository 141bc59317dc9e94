"""Two imports of the same set at the same moment: what was made first stays, and both end with that.

Lists are in the order in which things were made. Whoever made something looks again afterwards: of two that
made the same, at least the later one sees both, and takes its own away.
"""

from dataclasses import replace

from benchyard.cli.pushing import Pushed
from benchyard.client.client import Client
from benchyard.models.scenarios import ScenarioView

_PAGE = 1000


def first_named(client: Client, prefix: str) -> dict[str, ScenarioView]:
    """The scenarios whose names begin so; of several of one name that which was made first."""
    return {each.name: each for each in client.scenarios.list(search=prefix, limit=_PAGE)}


def settled(client: Client, pushed: list[Pushed]) -> list[Pushed]:
    """What was pushed; where somebody made a scenario of that name before, theirs, and ours is archived."""
    mine = {each.name: each for each in pushed if each.action == "created" and each.id}
    theirs: dict[str, ScenarioView] = {}
    for prefix in sorted({name.partition("/")[0] + "/" for name in mine}):
        theirs |= first_named(client, prefix)
    for name, each in mine.items():
        winner = theirs.get(name)
        if winner is not None and each.id is not None and winner.id != each.id:
            client.scenarios.archive(each.id)
            mine[name] = replace(each, action="unchanged", id=winner.id, revision=winner.revision)
    return [mine.get(each.name, each) for each in pushed]
