#!/bin/sh
# Installs CEMS from this checkout into CEMS_HOME (default ~/.cems) and connects the agents on this machine.
#
#   ./install.sh [options of `cems setup`, e.g. --dry-run, --agent claude-code, --no-permissions]
#
# Run it again to upgrade or to repair; it changes nothing where nothing has to change. `cems uninstall` takes
# everything out again. Everything it writes is in CEMS_HOME, but for what `cems setup` shows first: its lines in the
# agents' own files, and the link ~/.local/bin/cems. pip's and uv's caches are not used.
set -eu
umask 077

say() { printf '%s\n' "$*"; }
fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

case "${1-}" in
-h | --help)
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
[ -f "$here/pyproject.toml" ] && [ -d "$here/core" ] ||
    fail "this is not a checkout of CEMS. Clone the repository and run ./install.sh in it."
[ -n "${HOME-}" ] || fail "HOME is not set, so there is no place for your memories. Set it and run this again."

home=${CEMS_HOME:-$HOME/.cems}
case "$home" in
/*) ;;
*) home=$PWD/$home ;;
esac
env=$home/env
python_in_env=$env/bin/python

# What the person's shell says about Python is about their programs.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV PIP_TARGET PIP_PREFIX UV_PROJECT_ENVIRONMENT
export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0
export PYTHONDONTWRITEBYTECODE=1

work=$(mktemp -d "${TMPDIR:-/tmp}/cems-install.XXXXXX")
fresh=
clean_up() {
    rm -rf "$work"
    # Half an environment would look like a whole one to the next run.
    if [ -n "$fresh" ]; then rm -rf "$env"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
export UV_CACHE_DIR="$work/uv-cache" UV_LINK_MODE=copy UV_NO_PROGRESS=1

# pip asks rustc for its version, and rustup's rustc makes a folder in a home that has none.
[ -e "$HOME/.rustup" ] || export RUSTUP_HOME="${RUSTUP_HOME:-$work/rustup}"

step() { # what is tried, what to do if it fails, command...
    tried=$1 advice=$2
    shift 2
    "$@" >"$work/log" 2>&1 && return
    tail -n 15 "$work/log" >&2
    fail "$tried failed (the end of its output is above). $advice"
}

is_python() { "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
has_venv() { "$1" -I -c 'import ensurepip, venv' >/dev/null 2>&1; }

uv=
if command -v uv >/dev/null 2>&1 && uv --version >/dev/null 2>&1; then uv=uv; fi

python=
without_venv=
for name in python3.13 python3.12 python3.11 python3; do
    is_python "$name" || continue
    if [ -n "$uv" ] || has_venv "$name"; then
        python=$("$name" -I -c 'import sys; print(sys.executable)')
        break
    fi
    without_venv=$name
done
if [ -z "$python$uv" ]; then
    [ -z "$without_venv" ] ||
        fail "$without_venv lacks the modules venv and ensurepip. Install them (Debian, Ubuntu: apt install python3-venv), or uv (https://docs.astral.sh/uv/), and run this again."
    fail "no Python 3.11 or newer was found. Install one, or uv (https://docs.astral.sh/uv/), and run this again."
fi

mkdir -p "$home"
chmod 700 "$home"

# -- the environment

usable() {
    is_python "$python_in_env" || return 1
    [ -n "$uv" ] || "$python_in_env" -I -m pip --version >/dev/null 2>&1
}

digest_of() { # python: the digest of everything that goes into the package
    "$1" -I - "$here" <<'PY'
import hashlib, os, sys
root, digest = sys.argv[1], hashlib.sha256()
digest.update(sys.version.encode())
names = ["pyproject.toml"]
for top in ("core", "adapters", "installer", "src"):
    for folder, folders, files in os.walk(os.path.join(root, top)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        names += [os.path.relpath(os.path.join(folder, name), root) for name in files if not name.endswith(".pyc")]
for name in sorted(names):
    with open(os.path.join(root, name), "rb") as file:
        digest.update(b"%s\0%s\0" % (os.fsencode(name), hashlib.sha256(file.read()).digest()))
print(digest.hexdigest())
PY
}

with_uv() {
    uv build --python "$python_in_env" --wheel --out-dir "$work/wheel" "$here" &&
        uv pip install --python "$python_in_env" --reinstall-package cems "$work/wheel/"cems-*.whl
}

with_pip() {
    offline="Check the network and the package index, and run this again; what was installed before still works."
    step "Building the package" "$offline" \
        "$python_in_env" -I -m pip wheel --quiet --no-deps --wheel-dir "$work/wheel" "$here"
    step "Installing the package" "$offline" \
        "$python_in_env" -I -m pip install --quiet --no-compile "$work/wheel/"cems-*.whl
    # pip takes an equal version for the same program.
    step "Installing the package" "$offline" \
        "$python_in_env" -I -m pip install --quiet --no-compile --no-deps --force-reinstall "$work/wheel/"cems-*.whl
}

installed=
if usable; then
    installed=$(digest_of "$python_in_env")
    [ "$installed" = "$(cat "$env/cems-source" 2>/dev/null || :)" ] || installed=
else
    if [ -d "$env" ] && [ -n "$(ls -A "$env")" ] && [ ! -f "$env/pyvenv.cfg" ] && [ ! -d "$env/python" ]; then
        fail "$env is there and is not an environment of Python. Move it away, or choose another CEMS_HOME."
    fi
    say "Making an environment in $env"
    rm -rf "$env"
    fresh=yes
    if [ -n "$uv" ] && [ -n "$python" ]; then
        step "Making the environment with uv" "Try again, or without uv on PATH." \
            uv venv --no-config --python "$python" "$env"
    elif [ -n "$uv" ]; then
        # A Python that uv fetches stays with us too.
        export UV_PYTHON_INSTALL_DIR="$env/python"
        mkdir -p "$env"
        step "Fetching Python with uv" "Check the network, or install Python 3.11 or newer." \
            uv venv --no-config --allow-existing --managed-python --python 3.13 "$env"
    else
        step "Making the environment with $python" "Check that it works: $python -m venv --help" \
            "$python" -I -m venv "$env"
    fi
fi

if [ -z "$installed" ]; then
    version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$here/src/cems/__init__.py")
    say "Installing CEMS $version with $("$python_in_env" -I -c 'import platform; print("Python", platform.python_version())')${uv:+ and uv}; this takes a minute or two"
    if [ -n "$uv" ] && ! with_uv >"$work/log" 2>&1; then
        say "uv could not do it ($(grep -m 1 -i error "$work/log" || :)); trying with pip"
        step "Getting pip" "Install CEMS without uv on PATH." "$python_in_env" -I -m ensurepip
        uv=
    fi
    [ -n "$uv" ] || with_pip
    # Templates in some packages do not compile, and need not.
    "$python_in_env" -I -m compileall -q -j 0 "$env/lib" >/dev/null 2>&1 || :
    digest_of "$python_in_env" >"$env/cems-source"
    # The next prompt starts the daemon of this version.
    CEMS_HOME=$home "$python_in_env" -I -c '
from cems.core.paths import cems_home
from cems.core.service.client import stop_daemon
stop_daemon(cems_home())' >/dev/null 2>&1 || :
fi
fresh=
clean_up
trap - EXIT

export CEMS_HOME="$home"
unset PYTHONDONTWRITEBYTECODE
exec "$python_in_env" -I -c 'from cems.core.cli.main import run; run()' setup "$@"
