"""Which conversation is the main one, which are sub-agents', and which were only at the side."""

from dataclasses import dataclass, field

from benchyard.gateway.trajectory.threads import Conversation, Threads

MOST_NESTED = 8
"""How many sub-agents may be inside each other; what is deeper is told beside the others."""


@dataclass
class Roles:
    """Every conversation, once."""

    main: Conversation | None
    side: list[Conversation] = field(default_factory=list)
    """Those that gave something a name or chose a model: the agent's work is not in them."""
    inside: dict[int, list[Conversation]] = field(default_factory=dict)
    """Number of a conversation -> those that it began."""


def roles_of(threads: Threads, prompt: str | None) -> Roles:
    """What each conversation was for."""
    main = max(threads.conversations, key=lambda each: _weight(each, prompt), default=None)
    if main is None:
        return Roles(None)
    roles = Roles(main)
    others = [each for each in threads.conversations if each is not main]
    roles.side = [each for each in others if _is_side(each, main)]
    apart = {each.number for each in roles.side}
    depths = {main.number: 0}
    for each in others:
        if each.number not in apart:
            parent = _parent(each, main, depths)
            depths[each.number] = depths[parent] + 1
            roles.inside.setdefault(parent, []).append(each)
    return roles


def _weight(each: Conversation, prompt: str | None) -> tuple[bool | int, ...]:
    """The heaviest is the main one: it has the prompt and uses tools; of several, the first."""
    has_tools = bool(each.first.names)
    uses_them = has_tools and any(turn.answer.uses for turn in each.turns)
    wanted = (prompt or "").strip()
    has_prompt = bool(wanted) and any(wanted in entry.text for entry in each.opening)
    turns = 0 if has_tools else len(each.turns)
    return (
        each.origin is None,
        has_tools and has_prompt,
        uses_them,
        has_tools,
        has_prompt,
        turns,
        -each.number,
    )


def _is_side(each: Conversation, main: Conversation) -> bool:
    if each.origin is not None or not main.first.names:
        return False
    said_once = len(each.turns) == 1 and not each.turns[0].answer.uses
    return not each.first.names or (said_once and each.first.system != main.first.system)


def _parent(each: Conversation, main: Conversation, depths: dict[int, int]) -> int:
    origin = each.origin.conversation if each.origin is not None else main.number
    return origin if depths.get(origin, MOST_NESTED) < MOST_NESTED else main.number
