#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzzer of a fuzz build for a while, on top of the corpus that is kept.
#   tools/fuzz.sh BUILD SECONDS [NAME...]
# New inputs go to BUILD/corpus; a finding stops the run and its input is named.
set -eu
build=$1
seconds=$2
shift 2
[ $# -gt 0 ] || set -- $(cd fuzz && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')

for name in "$@"; do
    mkdir -p "$build/corpus/$name" "$build/findings"
    echo "fuzz_$name: $seconds s"
    "$build/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$build/findings/$name-" "$build/corpus/$name" "fuzz/corpus/$name" 2>"$build/fuzz_$name.log" || {
        tail -n 40 "$build/fuzz_$name.log"
        echo "fuzz_$name: a finding; see $build/findings" >&2
        exit 1
    }
    grep -E "stat::(number_of_executed_units|new_units_added)|^#.*DONE" "$build/fuzz_$name.log" || true
done
