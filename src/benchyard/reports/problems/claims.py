"""Claims of an agent's last message: that the work is done, or that it is not. Pure."""

import re

_EDGE = 1500
_DONE = re.compile(
    r"\b(?:successfully|(?:is|are|has been|have been|was|were|now) (?:fixed|implemented|completed?"
    r"|resolved|done|solved|working)"
    r"|all (?:the )?tests (?:now )?pass|task (?:is )?(?:complete|finished|done)|(?:I have|I've"
    r"|I\u2019ve) (?:fixed|implemented|completed"
    r"|solved|resolved|finished)|done[.!])",
    re.I,
)
_NOT_DONE = re.compile(
    r"\b(?:I (?:was|am) (?:not able|unable) to|I (?:could not|couldn't|couldn\u2019t|cannot|can't"
    r"|can\u2019t|failed to) "
    r"(?:fix|solve|complete|finish|implement|find|make|get|resolve|reproduce)|(?:did|does"
    r"|do) not (?:work|pass) yet"
    r"|still fail(?:s|ing)?\b|(?:is|remains) (?:unresolved|incomplete|unfinished|unsolved)"
    r"|not (?:yet )?(?:complete|finished|solved))",
    re.I,
)


def claims_success(message: str) -> bool:
    """Tell whether a message says that the work is done."""
    return bool(_DONE.search(message[:_EDGE]) or _DONE.search(message[-_EDGE:]))


def claims_failure(message: str) -> bool:
    """Tell whether a message says that the work could not be done."""
    return bool(_NOT_DONE.search(message[:_EDGE]) or _NOT_DONE.search(message[-_EDGE:]))
