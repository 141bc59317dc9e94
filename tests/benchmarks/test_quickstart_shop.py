"""The graders of quickstart/extract-a-function, over answers that only look as if they had extracted it."""

import subprocess
import sys
from pathlib import Path

import pytest

import benchyard.benchmarks

TASK = Path(benchyard.benchmarks.__path__[0]) / "quickstart/extract-a-function"
REFERENCE = '''
def with_tax(net):
    """A net price with its tax."""
    return round(net + net * 0.19, 2)


def price_of(item):
    return with_tax(PRICES[item])


def total_of(items):
    return with_tax(sum(PRICES[item] for item in items))


def receipt(items):
    lines = []
    for item in items:
        lines.append(f"{item}: {with_tax(PRICES[item]):.2f}")
    return "\\n".join(lines)
'''
DEAD = """
def with_tax(net):
    return round(net + net * 0.19, 2)


def price_of(item):
    return round(PRICES[item] * 1.19 + 0, 2)
    return with_tax(PRICES[item])


def total_of(items):
    if False:
        with_tax(1)
    net = sum(PRICES[item] for item in items)
    return round(net + net * .19, 2)


def receipt(items):
    def never():
        return with_tax(1)
    lines = []
    for item in items:
        net = PRICES[item]
        lines.append(f"{item}: {round(net + net * .19, 2):.2f}")
        continue
        with_tax(net)
    return "\\n".join(lines)
"""
IGNORED = REFERENCE.replace(
    "return with_tax(PRICES[item])", "with_tax(1)\n    return round(PRICES[item] * 1.19, 2)"
)
WRITTEN_ELSEWISE = REFERENCE.replace("PRICES[item])\n", "PRICES[item]) + 0 * .19\n", 1)


def graded(answer: str, folder: Path) -> tuple[str, int]:
    """What the shape gives, and how the tests end."""
    prices = next(
        line for line in (TASK / "project/shop.py").read_text().split("\n") if line.startswith("PRICES")
    )
    (folder / "shop.py").write_text(f"{prices}\n{answer}")
    shape = subprocess.run(
        [sys.executable, TASK / "scorers/shape.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    tests = subprocess.run(
        [sys.executable, "-I", "-S", TASK / "tests/check_shop.py"],
        cwd=folder,
        env={"BENCHYARD_GRADED": "/usr/bin/env", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )
    return shape.stdout.split()[-1], tests.returncode


@pytest.mark.parametrize(
    ("answer", "shape", "status"),
    [(REFERENCE, "1.0", 0), (DEAD, "0.4", 1), (IGNORED, "1.0", 1), (WRITTEN_ELSEWISE, "1.0", 1)],
    ids=["reference", "dead", "ignored", "written twice"],
)
def test_only_an_extracted_function_counts(answer: str, shape: str, status: int, tmp_path: Path) -> None:
    assert graded(answer, tmp_path) == (shape, status)
