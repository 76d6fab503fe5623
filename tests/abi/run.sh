#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the symbols that the shared library exports with those listed beside this script, so that a change of the
# binary interface is seen in review and in the changelog. Usage: run.sh [--update] LIBRARY
set -eu
list=$(dirname "$0")/liborrery.symbols
exported() {
    LC_ALL=C nm -D --defined-only --format=posix "$1" | LC_ALL=C awk '{ print $2, $1 }' | LC_ALL=C sort -k 2
}
if [ "$1" = "--update" ]; then
    exported "$2" >"$list"
elif exported "$1" | diff -u --label "tests/abi/liborrery.symbols" --label "$1" "$list" -; then
    echo "ok 1 - the library exports the symbols that are listed"
else
    echo "not ok 1 - the symbols differ; if that is meant: make abi, and say it in CHANGELOG.md"
    exit 1
fi
