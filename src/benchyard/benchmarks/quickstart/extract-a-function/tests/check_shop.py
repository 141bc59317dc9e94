"""Asks the code that is graded, in a process of its own, and compares its answers here."""

import ctypes
import json
import os
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
print()
print(json.dumps([[shop.price_of(item) for item in asked["items"]],
                  [shop.total_of(items) for items in asked["lists"]],
                  [shop.receipt(items) for items in asked["lists"]],
                  [shop.with_tax(net) for net in asked["nets"]]]))
"""


def gross(net):
    return round(net + net * 0.19, 2)


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
wanted = [
    [gross(PRICES[item]) for item in items],
    [gross(sum(PRICES[item] for item in each)) for each in lists],
    ["\n".join(f"{item}: {gross(PRICES[item]):.2f}" for item in each) for each in lists],
    [gross(net) for net in nets],
]
try:
    said = json.loads(asked.stdout.strip().splitlines()[-1])
except (IndexError, ValueError):
    sys.exit(f"no answer: {asked.stderr[-2000:]}")
if said != wanted:
    sys.exit("some prices are wrong")
if open("shop.py").read().count("0.19") != 1:
    sys.exit("0.19 is not there once only")
print("all prices are right")
