#!/usr/bin/env bash
# package.sh - installs into an empty folder and uses the result as a user would: the program and
# every example find the demo model, pkg-config gives the flags for the shared and for the static
# library, programs find the shared library where it was installed, and the man page is readable.
# The programs of README.md and docs/C-API.md are compiled and run. The installed files are built
# without tests.
#
#   package.sh BUILD
set -euo pipefail
build=$1 repository=$(cd "$(dirname "$0")/../.." && pwd)

fail() {
    echo "package: $1"
    exit 1
}

needed=$(ninja -C "$build" -t inputs gallop_installed)
grep -q 'CMakeFiles/gallop_program.dir' <<<"$needed" ||
    fail "the target gallop_installed lacks the program"
if grep -E '(test_|fuzz_|example_|emulated)[a-z0-9_]*\.dir|^test/' <<<"$needed"; then
    fail "the target gallop_installed builds tests"
fi
for target in demo install program; do
    commands=$(make -n -C "$repository" "$target" PRESET=release)
    grep -q 'tools/setup --program' <<<"$commands" ||
        fail "make $target does not ask for the packages of the program"
    ! grep -qE 'tools/setup *$|tools/setup --[^p]' <<<"$commands" ||
        fail "make $target installs packages of tests"
done
if "$repository/tools/setup" --program --list |
    grep -E 'cmocka|simde|redis-server|^openssl$|python|clang|chromium'; then
    fail "packages of tests are installed with the program"
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root cmake --install "$build" --prefix /opt/gallop >/dev/null
prefix=$root/opt/gallop

for file in bin/gallop include/gallop.h lib/libgallop.a lib/libgallop.so lib/pkgconfig/gallop.pc \
    share/man/man1/gallop.1 share/gallop/models/demo/config.json share/gallop/examples/Makefile \
    share/bash-completion/completions/gallop share/zsh/site-functions/_gallop \
    share/fish/vendor_completions.d/gallop.fish; do
    [ -e "$prefix/$file" ] || fail "$file was not installed"
done

cd /
"$prefix/bin/gallop" run -n 4 "Once" >/dev/null

# examples HOW MAKE-ARGUMENT...: builds a copy of the installed examples and runs each without an
# argument.
examples() {
    local how=$1 program n=0
    shift
    cp -r "$prefix/share/gallop/examples" "$root/$how"
    make -s -C "$root/$how" "$@"
    for source in "$root/$how"/*.c; do
        program=${source%.c}
        "$program" >"$root/out" 2>"$root/err" ||
            fail "${program##*/} ($how) fails: $(cat "$root/err")"
        [ -s "$root/out" ] || fail "${program##*/} ($how) says nothing"
        n=$((n + 1))
    done
    [ $n -ge 3 ] || fail "$n examples were installed, 3 at least were expected"
}

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
unset LD_LIBRARY_PATH
examples shared

# page HOW PACKAGE PAGE: compiles the first C program of PAGE and runs it where README.md says. Only
# the package gallop-static links the static library, though the shared one lies beside it.
page() {
    local how=$1 page=$3 linked
    awk '/^```c$/ { inside = !n++; next } /^```$/ { inside = 0 } inside' \
        "$repository/$page" >"$root/story.c"
    # shellcheck disable=SC2046 # the flags are words
    cc -Wall -Wextra -Werror "$root/story.c" $(pkg-config --cflags --libs "$2") \
        -o "$root/story"
    (cd "$repository" && "$root/story" >"$root/out") || fail "the example of $page ($how) fails"
    grep -q '[a-z]' "$root/out" || fail "the example of $page ($how) prints nothing"
    linked=$(ldd "$root/story" | grep -c libgallop || true)
    [ "$linked" = $([ "$how" = shared ] && echo 1 || echo 0) ] ||
        fail "the example of $page ($how) is linked with $linked shared libraries of Gallop"
}
page shared gallop README.md
page shared gallop docs/C-API.md
examples static PACKAGE=gallop-static
page static gallop-static README.md
echo "package: installed, found and linked both ways"
