#!/usr/bin/env bash
# Runs pytest with what it is given. Tests here start real servers, fill disks and kill processes; beside others on a
# small machine one may miss its moment. What failed is run once more, alone: if it fails again, the run has failed;
# if it passes, it is named, so that somebody looks at it. Whoever does adds it to the list of those that were seen
# once; if one of that list fails beside others again, that is no chance, and the run has failed.
set -uo pipefail

python=$1
workers=$2
shift 2
most=3
seen=tests/passed-alone.txt

rm -rf .pytest_cache/v/cache/lastfailed .pytest_cache/parity
# tests/groups.py says which tests stay together, and which begin.
"$python" -m pytest -n "$workers" --dist loadscope --no-loadscope-reorder -o cache_dir=.pytest_cache "$@"
status=$?
parity() {
    # What of the public benchmarks was executed; of a part of the tests it says nothing.
    [ -n "${PART_OF_THE_TESTS:-}" ] || "$python" -m tests.parity
}
if [ "$status" -eq 0 ]; then
    parity
    exit
fi
[ "$status" -eq 1 ] || exit "$status"

failed=$("$python" - <<'PYTHON'
import json
import pathlib

file = pathlib.Path(".pytest_cache/v/cache/lastfailed")
print("\n".join(json.loads(file.read_text())) if file.is_file() else "")
PYTHON
)
count=$(grep -c . <<<"$failed")
if [ "$count" -eq 0 ] || [ "$count" -gt "$most" ]; then
    echo "tests: $count failed; not run again: more than $most are no matter of chance" >&2
    exit 1
fi
if again=$(grep -Fx -f <(grep -v '^#' "$seen") <<<"$failed"); then
    echo "tests: these failed beside others before (see $seen), so it is no matter of chance:" >&2
    sed 's/^/    /' <<<"$again" >&2
    exit 1
fi
echo
echo "tests: $count failed beside others; once more, alone:"
mapfile -t names <<<"$failed"
"$python" -m pytest -o cache_dir=.pytest_cache "${names[@]}" || exit 1
echo
echo "tests: these failed beside others and passed alone; look at them, and add them to $seen:"
sed 's/^/    /' <<<"$failed"
parity
