#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles each public header alone, as C17 and as C++17. Usage: check_headers.sh SOURCE_ROOT
set -eu
cd "$1"
n=0
for header in include/orrery/*.h; do
    name=${header#include/}
    n=$((n + 1))
    if printf '#include <%s>\n' "$name" | cc -std=c17 -Wall -Wextra -Wpedantic -Werror -Iinclude -xc -fsyntax-only -; then
        echo "ok $n - $name as C17"
    else
        echo "not ok $n - $name as C17"
    fi
    n=$((n + 1))
    if ! command -v c++ >/dev/null; then
        echo "ok $n # SKIP $name as C++17 (no C++ compiler)"
    elif printf '#include <%s>\n' "$name" | c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -Iinclude -xc++ -fsyntax-only -; then
        echo "ok $n - $name as C++17"
    else
        echo "not ok $n - $name as C++17"
    fi
done
echo "1..$n"
