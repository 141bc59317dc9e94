python3 - <<'END'
import collections, json, re

line = re.compile(r'(\S+) - - \[[^\]]+\] "\S+ (\S+) \S+" (\d+) (\d+|-)')
found = [m for m in map(line.fullmatch, open("access.txt").read().splitlines()) if m]
report = {
    "requests": len(found),
    "errors": len([m for m in found if int(m[3]) >= 500]),
    "bytes": sum(int(m[4]) for m in found if m[4] != "-"),
    "busiest": collections.Counter(m[1] for m in found).most_common(1)[0][0],
    "paths": collections.Counter(m[2].split("?")[0] for m in found),
}
json.dump(report, open("report.json", "w"))
END
