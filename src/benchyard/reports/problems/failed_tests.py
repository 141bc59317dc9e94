"""Names of failed tests in the output of test runners. Pure."""

import re

MOST_TESTS = 20
_MOST_OUTPUT = 20_000
_NAMES = (
    re.compile(r"^(?:FAILED|ERROR) ([^\s:]{1,200}(?:::[^\s]{1,200})?)", re.M),
    re.compile(r"^[ \t]{0,8}--- FAIL: (\S{1,200})", re.M),
    re.compile(r"^test (\S{1,200}) \.\.\. FAILED", re.M),
    re.compile(r"^not ok \d{1,6} -? ?([^\n#]{1,200})", re.M),
    re.compile(r"^(?:FAIL|ERROR): (\w{1,200})", re.M),
    re.compile(r"^[ \t]{0,12}[\u2715\u2717\u00d7] ([^\n(]{1,200})", re.M),
)


def failed_tests(output: str) -> list[str]:
    """Return the names of failed tests, sorted, in the forms of pytest, Go, Rust, TAP, unittest and Jest."""
    part = (
        output if len(output) <= _MOST_OUTPUT else output[: _MOST_OUTPUT // 2] + output[-_MOST_OUTPUT // 2 :]
    )
    found = {name.strip() for pattern in _NAMES for name in pattern.findall(part)}
    return sorted(name for name in found if name)[:MOST_TESTS]
