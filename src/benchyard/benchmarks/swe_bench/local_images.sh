#!/bin/bash
# Makes the environment `testbed` of a Python of this image and packages of the index, where conda would have it.
#   swe_local.sh VERSION [FOLDER]    the Python that is asked for, such as 3.9, and where conda would be
# Beside this file are conda.txt and pip.txt: the pins of what conda and pip install officially, in that order.
set -eu

wanted=$1
beside=$(dirname "$0")
conda=${2:-/opt/miniconda3}
environment=$conda/envs/testbed
different=$beside/different.txt

# The Python that is asked for, else the nearest newer one.
find_python() {
    local name first=${wanted#3.}
    case $wanted in 2.*) first=4 ;; esac
    case $first in *[!0-9]*) first=19 ;; esac
    for name in "python$wanted" $(seq -f 'python3.%g' $((first + 1)) 20) python3; do
        if name=$(command -v "$name") && "$name" -c 'import venv' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo 'there is no Python 3 with the module venv in the base' >&2
    return 1
}

# Debian's and Ubuntu's Pythons make environments with pip only where python3-venv is installed.
make_environment() {
    "$python" -m venv --clear "$environment" || with_pip_of_base || with_package || without_pip
}

with_pip_of_base() {
    local pip
    pip=$("$python" -c 'import os, pip; print(os.path.dirname(pip.__file__))') &&
        "$python" -m venv --clear --without-pip "$environment" &&
        "$environment/bin/python" "$pip" install --ignore-installed pip setuptools wheel &&
        "$environment/bin/python" -m pip --version
}

with_package() {
    apt-get update && apt-get install -y --no-install-recommends python3-venv &&
        "$python" -m venv --clear "$environment"
}

without_pip() {
    echo 'no pip: install python3-pip or python3-venv in the base'
    [ ! -s "$beside/conda.txt" ] && [ ! -s "$beside/pip.txt" ] &&
        "$python" -m venv --clear --without-pip "$environment"
}

# Who follows a link to the environment's Python, as tox does, finds the packages all the same: conda's Python
# has them beside itself, that of a virtual environment only where it is called by its own name.
let_links_find_packages() {
    "$python" - "$environment" <<'END_OF_FILES'
import os, site, sys
folder = site.getsitepackages()[0]
os.makedirs(folder, exist_ok=True)
with open(os.path.join(folder, "testbed_links.py"), "w") as file:
    file.write('''"""Finds the packages of an environment for who follows a link to its Python."""
import glob, os, site, sys

place = sys.executable or ""
while sys.prefix == sys.base_prefix and os.path.islink(place):
    place = os.path.join(os.path.dirname(place), os.readlink(place))
    if os.path.dirname(place) == %r:
        own = sys.path.index(os.path.dirname(__file__))
        rest = sys.path[own:]
        for folder in glob.glob(%r):
            site.addsitedir(folder)
        sys.path[own:] = sys.path[own + len(rest):] + rest
        break
''' % (sys.argv[1] + "/bin", sys.argv[1] + "/lib/python*/site-packages"))
with open(os.path.join(folder, "testbed_links.pth"), "w") as file:
    file.write("import testbed_links\n")
END_OF_FILES
}

stand_in_for_conda() {
    mkdir -p "$conda/bin" "$conda/etc/profile.d"
    cat > "$conda/bin/activate" <<END_OF_FILE
conda() { if [ "\${1:-}" = activate ]; then
export CONDA_DEFAULT_ENV=testbed VIRTUAL_ENV=$environment PATH=$environment/bin:\$PATH; fi; }
if [ "\${1:-}" = testbed ]; then conda activate; fi
END_OF_FILE
    cp "$conda/bin/activate" "$conda/etc/profile.d/conda.sh"
}

install() {
    "$environment/bin/python" -m pip install --no-deps "$@" < /dev/null
}

# One pin: as it is, else another release that differs in its last number only, else what has to be compiled.
install_one() {
    local name=${1%%==*} version=${1#*==}
    if install --only-binary :all: "$1"; then return; fi
    if install --only-binary :all: "$name~=$version"; then
        echo "$name: a later release than $version" >> "$different"
    elif ! install "$1"; then
        echo "$name: not $version" >> "$different"
    fi
}

# All pins of a file. Packages of conda are not all in the index, and not all that are have wheels for this Python.
install_all() {
    local pin
    if [ ! -s "$1" ] || install "${@:2}" -r "$1"; then return; fi
    while read -r pin; do
        install_one "$pin"
    done < "$1"
}

: > "$different"
python=$(find_python)
make_environment
let_links_find_packages
stand_in_for_conda

found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
only_wheels=()
case $found. in
    "$wanted".*)
        # What pip makes of older projects depends on its version.
        if pin=$(grep '^pip==' "$beside/conda.txt"); then install_one "$pin"; fi
        ;;
    *)
        echo "Python $found instead of $wanted" >> "$different"
        only_wheels=(--only-binary :all:)
        ;;
esac
sed -i '/^pip==/d' "$beside/conda.txt"
install_all "$beside/conda.txt" --only-binary :all:
install_all "$beside/pip.txt" "${only_wheels[@]}"
if [ -s "$different" ]; then
    echo 'not as officially:'
    cat "$different"
fi
