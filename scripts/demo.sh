#!/usr/bin/env bash
# The demo: devboxes made, used, snapshotted and branched, and two agents compared by a job, on a private server that leaves nothing behind.
set -euo pipefail

data=$(mktemp -d "${TMPDIR:-/tmp}/benchyard-demo.XXXXXX")
export BENCHYARD_DATA=$data
snapshot=
unset BENCHYARD_URL BENCHYARD_API_KEY RUNLOOP_BASE_URL RUNLOOP_API_KEY

finish() {
    local code=$?
    trap - EXIT
    # Devboxes outlive their server: after a failure they have to be ended one by one.
    if [ "$code" != 0 ] && [ -e "$data/server.json" ]; then
        benchyard devbox shutdown --all --force >/dev/null 2>&1 || true
        [ -z "$snapshot" ] || benchyard snapshot delete "$snapshot" >/dev/null 2>&1 || true
    fi
    benchyard server stop >/dev/null 2>&1 || true
    # Devboxes of an ordinary user leave files that `rm` may not remove.
    if [ -e "$data/lock" ] && ! benchyard server delete --yes >/dev/null; then
        code=1
    fi
    rm -rf "$data"
    [ "$code" = 0 ] || echo "demo: failed with status $code" >&2
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

show() {
    local word line='$'
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_./:=-]+$ ]] || word="'$word'"
        line+=" $word"
    done
    echo "$line"
    "$@"
}

started=
clock() { started=$(date +%s%N); }
took() { echo "  ($((($(date +%s%N) - started) / 1000000)) ms, most of it for starting the command line itself)"; }

boot_time() { # of a devbox, by the times the server wrote down
    benchyard devbox show "$1" -o json | python -c '
import json, sys
times = {each["status"]: each["transition_time_ms"] for each in json.load(sys.stdin)["state_transitions"]}
print("  (the devbox itself took", times["running"] - times["provisioning"], "ms)")'
}

first_word() { cut -d ' ' -f 1; }

say "1. A devbox. No server is configured, so the command line starts its own."
clock
show benchyard devbox create --name original
echo "  ($((($(date +%s%N) - started) / 1000000)) ms, with the start of the server)"

say "2. Another one, to see what a devbox costs when the server is up."
clock
show benchyard devbox create --name spare
took
boot_time spare
benchyard devbox shutdown spare >/dev/null

say "3. Commands run inside, walled off from this machine."
clock
show benchyard devbox exec original -- \
    'echo "I am $(whoami) on $(hostname), and see $(ls -d /proc/[0-9]* | wc -l) processes"'
took

say "4. Write a file, and keep the disk as a snapshot."
show benchyard devbox exec original -- 'echo "first draft" > ~/essay.txt'
clock
echo '$ benchyard devbox snapshot original --name draft'
snapshot=$(benchyard devbox snapshot original --name draft | first_word)
echo "$snapshot is on disk."
took

say "5. Two devboxes branch from the snapshot, and go their own ways."
clock
show benchyard devbox create --name left --snapshot "$snapshot"
show benchyard devbox create --name right --snapshot "$snapshot"
took
boot_time right
show benchyard devbox exec left -- 'echo "a happy end" >> ~/essay.txt'
show benchyard devbox exec right -- 'echo "a sad end" >> ~/essay.txt'

text_of() { benchyard devbox exec "$1" -- 'cat ~/essay.txt'; }
for name in original left right; do
    printf '\n%s:\n' "$name"
    text_of "$name" | sed 's/^/    /'
done

[ "$(text_of original)" = "first draft" ] || { echo "demo: the original changed" >&2; exit 1; }
[ "$(text_of left)" != "$(text_of right)" ] || { echo "demo: the branches are alike" >&2; exit 1; }
say "The branches differ, and the original is as it was."

say "6. A job runs agents on scenarios, in a devbox each, and scores what they
   leave. One solves everything, the other does nothing."
clock
show benchyard job run --benchmark quickstart --agent oracle --agent nop --job-name demo --watch
echo "  ($((($(date +%s%N) - started) / 1000000)) ms for 24 trials)"
[ "$(benchyard job summary demo -o json | python -c '
import json, sys
print([each["mean_score"] for each in json.load(sys.stdin)["benchmark_outcomes"]])')" = "[1.0, 0.0]" ] ||
    { echo "demo: the agents were not told apart" >&2; exit 1; }

say "7. Shut everything down."
clock
show benchyard devbox shutdown original left right
took
show benchyard snapshot delete "$snapshot"
show benchyard server stop

say "That was all of it, and nothing is left behind.
Next: README.md, docs/guides/getting-started.md"
