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

install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 10 --timeout 60 "$@" </dev/null
}

for attempt in 1 2 3; do
    # Of swebench only what grades is needed, not the half gigabyte of clients that it asks for.
    if install --editable '.[dev]' && install --no-deps 'swebench==5.0.2'; then
        exit 0
    fi
    echo "setup: pip failed (try $attempt of 3)"
    sleep $((attempt * 5))
done
echo "setup: pip could not install the dependencies; see its message above, then run 'make setup' again." >&2
exit 1
