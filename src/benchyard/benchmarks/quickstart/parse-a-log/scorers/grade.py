"""Only the report is taken over from who is graded: nothing of theirs runs here."""

import collections
import json
import re

LINE = re.compile(r'^(\S+) - - \[[^\]]+\] "\S+ (\S+) \S+" (\d{3}) (\d+|-)$')

found = [match for line in open("access.txt") if (match := LINE.match(line.rstrip("\n")))]
addresses = collections.Counter(match[1] for match in found)
wanted = {
    "requests": len(found),
    "errors": sum(int(match[3]) >= 500 for match in found),
    "bytes": sum(int(match[4]) for match in found if match[4] != "-"),
    "busiest": addresses.most_common(1)[0][0],
    "paths": dict(collections.Counter(match[2].partition("?")[0] for match in found)),
}
try:
    with open("report.json", "rb") as file:
        report = json.loads(file.read(1_000_000))
    right = [key for key in wanted if type(report.get(key)) is type(wanted[key]) and report[key] == wanted[key]]
except (OSError, ValueError, AttributeError, RecursionError) as error:
    print(f"no report: {error}")
    right = []
print("right:", ", ".join(right) or "nothing")
print(len(right) / len(wanted))
