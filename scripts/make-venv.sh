#!/usr/bin/env bash
# Makes the virtual environment with a fitting Python and installs the project with its development tools.
set -euo pipefail

venv=$1

fits() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3.14 python3 /usr/bin/python3; do
        if [ -n "$candidate" ] && fits "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "setup: no Python 3.11 or newer with venv was found. On Debian 12 or newer type:" >&2
    echo "    sudo apt-get install python3 python3-venv" >&2
    echo "setup: or name one: make setup PYTHON=/path/to/python3.12" >&2
    return 1
}

if ! fits "$venv/bin/python"; then
    python=$(find_python)
    echo "setup: making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
fi

log=$(mktemp "${TMPDIR:-/tmp}/benchyard-setup.XXXXXX")
trap 'rm -f "$log"' EXIT

# What pip is at, as one line that changes in a terminal; what it says is shown where it fails.
install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off --retries 10 --timeout 60 \
        "$@" </dev/null >"$log" 2>&1 &
    local pip=$! began=$SECONDS
    # What a script starts in the background hears no Ctrl-C.
    trap 'kill "$pip" 2>/dev/null; exit 130' INT TERM
    while [ -t 1 ] && kill -0 "$pip" 2>/dev/null; do
        printf '\r\033[Ksetup: %d s, pip: %.50s' "$((SECONDS - began))" "$(tail -n 1 "$log")"
        sleep 0.5
    done
    [ ! -t 1 ] || printf '\r\033[K'
    local status=0
    wait "$pip" || status=$?
    trap - INT TERM
    if [ "$status" != 0 ]; then
        { grep -E '^(ERROR|WARNING|error)' "$log" || tail -n 20 "$log"; } >&2
    fi
    return "$status"
}

for attempt in 1 2 3; do
    # Of swebench only what grades is needed, not the half gigabyte of clients that it asks for.
    if install --editable '.[dev]' && install --no-deps 'swebench==5.0.2'; then
        printf 'setup: everything is in %s; to have the command in this shell, type:\n    . %s/bin/activate\n' "$venv" "$venv"
        exit 0
    fi
    echo "setup: pip failed (try $attempt of 3)"
    sleep $((attempt * 5))
done
echo "setup: pip could not install the dependencies; see its message above, then run 'make setup' again." >&2
exit 1
