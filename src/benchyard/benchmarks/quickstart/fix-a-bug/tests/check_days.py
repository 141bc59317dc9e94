"""Asks the code that is graded, in a process of its own, and compares its answers here."""

import calendar
import ctypes
import datetime
import json
import os
import subprocess
import sys

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # where all have one user, it cannot look into this process
GRADED = os.environ["BENCHYARD_GRADED"]  # runs the code as the user whose work it is, who cannot read this

ASK = """
import json, sys
sys.path.insert(0, ".")
questions = json.load(sys.stdin)
from days import day_of_year, is_leap
print()
print(json.dumps([[bool(is_leap(y)) for y in questions["years"]],
                  [day_of_year(*date) for date in questions["dates"]]]))
"""

years = [*range(1890, 1910), *range(1996, 2006), 2096, 2100, 2104, 2400]
dates = [[y, m, d] for y in (1900, 2000, 2023, 2024) for m in range(1, 13) for d in (1, 17, 28)]
asked = subprocess.run(
    [GRADED, "python3", "-I", "-c", ASK],
    input=json.dumps({"years": years, "dates": dates}),
    capture_output=True,
    text=True,
    timeout=30,
    env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
)
wanted = [
    [calendar.isleap(year) for year in years],
    [datetime.date(*date).timetuple().tm_yday for date in dates],
]
try:
    said = json.loads(asked.stdout.strip().splitlines()[-1])
except (IndexError, ValueError):
    sys.exit(f"no answer: {asked.stderr[-2000:]}")
if said != wanted:
    sys.exit("some dates are wrong")
print("all dates are right")
