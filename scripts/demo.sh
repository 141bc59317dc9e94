#!/usr/bin/env bash
# The demo: devboxes made, used, snapshotted and branched, on a private server that leaves nothing behind.
set -euo pipefail

data=$(mktemp -d "${TMPDIR:-/tmp}/benchyard-demo.XXXXXX")
export BENCHYARD_DATA=$data
unset BENCHYARD_URL BENCHYARD_API_KEY RUNLOOP_BASE_URL RUNLOOP_API_KEY

finish() {
    local code=$?
    trap - EXIT
    # Devboxes outlive their server: after a failure they have to be ended one by one.
    if [ "$code" != 0 ] && [ -e "$data/server.json" ]; then
        benchyard devbox shutdown --all --force >/dev/null 2>&1 || true
    fi
    benchyard server stop >/dev/null 2>&1 || true
    rm -rf "$data"
    [ "$code" = 0 ] || echo "demo: failed with status $code" >&2
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

show() {
    printf '$ %s\n' "$*"
    "$@"
}

started=
clock() { started=$(date +%s%N); }
took() { echo "  ($((($(date +%s%N) - started) / 1000000)) ms)"; }

first_word() { cut -d ' ' -f 1; }

say "1. A devbox. No server is configured, so the command line starts one for itself."
clock
show benchyard devbox create --name original
took

say "2. Another one, to see what a devbox costs when the server is up."
clock
show benchyard devbox create --name spare
took
benchyard devbox shutdown spare >/dev/null

say "3. Commands run inside, walled off from this machine."
clock
show benchyard devbox exec original -- \
    'echo "I am $(whoami) on $(hostname), and see $(ls -d /proc/[0-9]* | wc -l) processes"'
took

say "4. Write a file, and keep the disk as a snapshot."
show benchyard devbox exec original -- 'echo "first draft" > ~/essay.txt'
clock
snapshot=$(benchyard devbox snapshot original --name draft | first_word)
echo "$snapshot is on disk."
took

say "5. Two devboxes branch from the snapshot, and go their own ways."
clock
show benchyard devbox create --name left --snapshot "$snapshot"
show benchyard devbox create --name right --snapshot "$snapshot"
took
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

say "6. Shut everything down."
clock
show benchyard devbox shutdown original left right
took
show benchyard server stop

say "That was all of it, and nothing is left behind. Next: README.md, docs/guides/getting-started.md"
