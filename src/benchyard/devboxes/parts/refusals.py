"""How often programs of a network namespace without a way out tried one, as the kernel counts it."""

from pathlib import Path

_COUNTED = {"Ip:": "OutNoRoutes", "Udp:": "NoPorts"}
"""By protocol: addresses that no route leads to, and questions to a resolver that is not there."""
_COUNTED_V6 = "Ip6OutNoRoutes"


def refusals(pid: int) -> int | None:
    """The count of the namespace that a process is in; None if it is gone, or the kernel does not tell."""
    folder = Path(f"/proc/{pid}/net")
    try:
        lines = (folder / "snmp").read_text().splitlines()
    except OSError:
        return None
    total = 0
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        told = dict(zip(names.split(), values.split(), strict=False))
        total += int(told.get(_COUNTED.get(names.split()[0], ""), 0))
    return total + _sixth(folder)


def _sixth(folder: Path) -> int:
    try:
        lines = (folder / "snmp6").read_text().splitlines()
    except OSError:
        # A kernel without IPv6.
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED_V6))
