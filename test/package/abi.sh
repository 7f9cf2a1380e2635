#!/usr/bin/env bash
# abi.sh - the binary interface of gallop.h is that of test/abi.txt, and changes are found by name.
#
#   abi.sh LIBRARY
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
library=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

fail() {
    echo "abi: $1" >&2
    exit 1
}

"$repository/test/compare/abi" "$library"

# finds WHAT SED-SCRIPT: a changed header must fail with a line that has WHAT.
finds() {
    sed "$2" "$repository/include/gallop.h" >"$root/gallop.h"
    ! cmp -s "$root/gallop.h" "$repository/include/gallop.h" ||
        fail "the change for '$1' changes nothing"
    if "$repository/test/compare/abi" "$library" "$root/gallop.h" >"$root/out"; then
        fail "a change of '$1' is not found"
    fi
    grep -q "^[+-].*$1" "$root/out" || fail "a change of '$1' is not shown: $(cat "$root/out")"
}

finds 'struct gallop_sampling' 's/^    double temperature;/    double warmth, temperature;/'
finds '    threads ' 's/^    int threads;/    long threads;/'
finds 'constant GALLOP_UNSUPPORTED' 's/^    GALLOP_BAD_INPUT,/    GALLOP_NEW, GALLOP_BAD_INPUT,/'
finds 'function int gallop_cancel' 's/^GALLOP_API int gallop_cancel(struct gallop \*g, /&int x, /'
echo "abi: four changes were found"
