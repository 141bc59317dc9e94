#!/usr/bin/env bash
# Makes tests/store/earlier_folder/data.tar.xz: the data folder that a server of an earlier commit leaves.
#   scripts/make-data-folder.sh [COMMIT]
# It needs root, as the native driver does. The commit gets a worktree and a virtual environment for the time it takes.
set -euo pipefail

commit=${1:-b8eb20cd}
here=$(cd "$(dirname "$0")/.." && pwd)
target=$here/tests/store/earlier_folder/data.tar.xz
work=$(mktemp -d /tmp/earlier.XXXXXX)
source=$work/source
data=$work/data

clean() {
    git -C "$here" worktree remove --force "$source" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT

git -C "$here" worktree add --quiet --detach "$source" "$commit"
(cd "$source" && scripts/make-venv.sh .venv)
"$source/.venv/bin/python" "$here/tests/store/earlier_folder/maker.py" "$data"
