"""Asks the code that is graded, in a process of its own, and compares its answers here."""

import ctypes
import json
import os
import re
import subprocess
import sys

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # where all have one user, it cannot look into this process
GRADED = os.environ["BENCHYARD_GRADED"]  # runs the code as the user whose work it is, who cannot read this

PRICES = {"apple": 0.4, "bread": 2.35, "cheese": 7.99, "milk": 1.19}
ASK = """
import json, sys
sys.path.insert(0, ".")
asked = json.load(sys.stdin)
import shop
def told():
    return [[shop.price_of(item) for item in asked["items"]],
            [shop.total_of(items) for items in asked["lists"]],
            [shop.receipt(items) for items in asked["lists"]],
            [shop.with_tax(net) for net in asked["nets"]]]
both = [told()]
shop.with_tax = lambda net: round(net + 1000, 2)
both.append(told())
print()
print(json.dumps(both))
"""


def gross(net):
    return round(net + net * 0.19, 2)


def other(net):
    return round(net + 1000, 2)


def expected(tax):
    return [
        [tax(PRICES[item]) for item in items],
        [tax(sum(PRICES[item] for item in each)) for each in lists],
        ["\n".join(f"{item}: {tax(PRICES[item]):.2f}" for item in each) for each in lists],
        [tax(net) for net in nets],
    ]


items = sorted(PRICES)
lists = [[], ["milk"], items, ["apple"] * 7, ["cheese", "bread", "cheese"]]
nets = [0, 1, 9.99, 1234.5]
asked = subprocess.run(
    [GRADED, "python3", "-I", "-c", ASK],
    input=json.dumps({"items": items, "lists": lists, "nets": nets}),
    capture_output=True,
    text=True,
    timeout=30,
    env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
)
try:
    said = json.loads(asked.stdout.strip().splitlines()[-1])
except (IndexError, ValueError):
    sys.exit(f"no answer: {asked.stderr[-2000:]}")
if not isinstance(said, list) or said[:1] != [expected(gross)]:
    sys.exit("some prices are wrong")
if said[1:] != [expected(other)]:
    sys.exit("with another with_tax the prices stay as they are: they do not come from it")
text = open("shop.py").read()
if text.count("0.19") != 1 or len(re.findall(r"(?<![0-9.])0?\.19(?![1-9])", text)) != 1:
    sys.exit("0.19 is not there once only")
print("all prices are right")
