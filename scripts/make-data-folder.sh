#!/usr/bin/env bash
# Makes tests/store/earlier_folder/data.tar.xz: the data folder that a server of an earlier commit leaves.
#   scripts/make-data-folder.sh [COMMIT]
# It needs root, as the native driver does. The commit gets a worktree and a virtual environment for the time it takes.
# Left out are what a server makes again, keys beside the one of its clients, which opens nothing but copies of this
# folder, and the view of this machine's own system; tests/store/test_earlier_folder.py puts that of its machine there.
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

host=$("$source/.venv/bin/python" -c 'import json, sys; print(*json.load(open(sys.argv[1]))["layers"])' \
    "$data/images/images/host.json")
omitted=(kits reserve lock benchyard.db.lock secret-key ssh-host-key driver/lock driver/warden images/builder)
tar --create --xz --file="$target" --directory="$work" --sort=name --numeric-owner \
    "${omitted[@]/#/--exclude=data/}" "--exclude=data/images/layers/$host" data
if tar --extract --to-stdout --file="$target" | grep -qaF -e "$work" -e "$HOME/"; then
    echo "make-data-folder: the folder names paths of this machine; see maker.py" >&2
    exit 1
fi
ls -l "$target"
