#!/usr/bin/env bash
# Runs pytest with what it is given. Tests here start real servers, fill disks and kill processes; beside others on a
# small machine one may miss its moment. What failed is run once more, alone: if it fails again, the run has failed;
# if it passes, the run has passed, and its name is added to a list in the working tree, to be committed. If one of
# that list fails beside others again, that is no chance, and the run has failed.
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
if [ -f "$seen" ] && again=$(grep -Fx -f <(grep -v -e '^#' -e '^$' "$seen") <<<"$failed"); then
    echo "tests: these failed beside others before (see $seen), so it is no matter of chance:" >&2
    sed 's/^/    /' <<<"$again" >&2
    exit 1
fi
echo
echo "tests: $count failed beside others; once more, alone:"
mapfile -t names <<<"$failed"
"$python" -m pytest -o cache_dir=.pytest_cache "${names[@]}" || exit 1
# A list that somebody wrote may end without a newline.
{ [ ! -s "$seen" ] || [ -z "$(tail -c 1 "$seen")" ] || echo; printf '%s\n' "$failed"; } >>"$seen" || exit 1
echo
echo "tests: these failed beside others and passed alone:"
sed 's/^/    /' <<<"$failed"
echo "tests: they are in $seen now. Commit that, so that whoever sees one fail again knows it is no chance:"
echo "    git commit $seen -m 'tests: failed beside others, passed alone'"
echo "tests: a run on another machine, such as CI, leaves it to you to add these lines here. Look at the tests, too."
parity
