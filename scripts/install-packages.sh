#!/usr/bin/env bash
# Installs the Debian packages listed in a file, where it may; else says what to type. Never fails the setup.
set -euo pipefail

list=$1
mapfile -t wanted < <(grep -v '^#' "$list" | grep .)

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "setup: this is not a Debian system; install the likes of these yourself: ${wanted[*]}"
    exit 0
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
    # A program may come from elsewhere than Debian, whose package would then be in its way.
    grep -qx "installed $package" <<<"$installed" || command -v "$package" >/dev/null || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

say_what_to_type() {
    echo "setup: $1"
    echo "setup: to install what is missing, type:"
    echo "    sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}"
}

if [ "$(id -u)" = 0 ]; then
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    apt=(sudo -n env DEBIAN_FRONTEND=noninteractive apt-get)
else
    say_what_to_type "packages are missing and may not be installed by $(id -un)."
    exit 0
fi
apt+=(-o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -qq)

echo "setup: installing Debian packages: ${missing[*]}"
for attempt in 1 2 3; do
    # The first try uses the package lists that are there; a fresh machine has none.
    if [ "$attempt" -gt 1 ] || [ -z "$(find /var/lib/apt/lists -name '*_Packages*' -print -quit 2>/dev/null)" ]; then
        "${apt[@]}" update </dev/null || true
    fi
    if "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null; then
        exit 0
    fi
    echo "setup: apt-get failed (try $attempt of 3)"
done
say_what_to_type "apt-get could not install the packages; setup goes on without them."
