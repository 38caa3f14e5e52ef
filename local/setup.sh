#!/bin/sh
# Prints the folder of the Python environment that runs tfcluster, and makes it first when it is not there.
#     local/setup.sh          what requirements.txt names
#     local/setup.sh --dev    requirements-dev.txt as well: tests and checks
# Decided here: which python3 it is made with. The rest is environment.py's, which needs nothing but that python3.
set -eu
self=$(readlink -f -- "$0")
project=${self%/local/setup.sh}

fits() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for python in python3 python3.11 python3.12 python3.13 python3.14 /usr/bin/python3; do
        if command -v "$python" >/dev/null && fits "$python"; then return 0; fi
    done
    return 1
}

if ! find_python; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing python3 and python3-venv" >&2
        log=$(mktemp)
        if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install \
            --yes --no-remove --no-install-recommends python3 python3-venv; } >"$log" 2>&1; then
            tail -n 20 "$log" >&2
            echo "setup: installing python3 and python3-venv failed; the whole log is $log" >&2
            exit 3
        fi
        rm -f "$log"
    fi
    if ! find_python; then
        cat >&2 <<END
tfcluster needs Python 3.11 or newer with its venv module.
  why: none of python3, python3.11 … python3.14 on PATH is that
  fix: on Debian 12 or Ubuntu 24.04: sudo apt-get install python3 python3-venv
END
        exit 3
    fi
fi
export PYTHONPATH="$project"
exec "$python" -P -m local.environment "$@"
