#!/bin/sh
# Runs the tests from a clean clone: ./test.sh [--agents] [pytest's arguments]
#
# Needs python >= 3.11 with venv, and git; with --agents npm too, which brings the agents' real programs (2.2 GB). Without
# --agents, tests of a real program that is not there are left out, and the end of the run says which.
# Everything it makes stands in .venv and .cache here. Your home folder is not touched.
set -eu
cd "$(dirname "$0")"

agents=0
remaining=$#
while [ "$remaining" -gt 0 ]; do
    argument=$1
    shift
    case $argument in
    --agents) agents=1 ;;
    *) set -- "$@" "$argument" ;;
    esac
    remaining=$((remaining - 1))
done

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "test.sh: no python >= 3.11 found; set PYTHON to one" >&2
    return 1
}

unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
mkdir -p .cache
export PIP_CACHE_DIR="$PWD/.cache/pip" PIP_DISABLE_PIP_VERSION_CHECK=1
# The installation under test runs in an empty home: it still needs the index this person has configured.
for config in "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf"; do
    if [ -z "${PIP_CONFIG_FILE:-}" ] && [ -f "$config" ]; then
        export PIP_CONFIG_FILE="$config"
    fi
done

python=$(find_python)
stamp=$("$python" -c 'import hashlib, sys
print(sys.version.split()[0], hashlib.sha256(open("pyproject.toml", "rb").read()).hexdigest())')
if [ "$(cat .venv/stamp 2>/dev/null)" != "$stamp" ]; then
    echo "test.sh: installing CEMS and its development tools into .venv"
    "$python" -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --editable '.[dev]'
    echo "$stamp" >.venv/stamp
fi

if [ "$agents" = 1 ]; then
    .venv/bin/python -m tests.e2e.programs
    export CEMS_REQUIRE_AGENTS=1
fi

# tests/conftest.py also takes providers' keys and agents' variables out of the environment, so that pytest alone is
# as safe as this script.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
trap 'exit 130' INT TERM
run_pytest() { HOME=$home CEMS_HOME=$home/.cems .venv/bin/python -m pytest "$@"; }
if [ "$#" -gt 0 ]; then
    run_pytest "$@"
else
    # Those with real programs, installations and daemons of their own wait more than they work: two at a time. The others
    # have the machine to themselves.
    result=0
    run_pytest -m "not (e2e or slow)" || result=$?
    run_pytest -m "e2e or slow" -n 2 || result=$?
    exit "$result"
fi
