#!/usr/bin/env bash
# package.sh - installs into an empty folder and uses what lies there as a stranger would: the program and every example
# find the demo model, pkg-config gives the flags for the shared and for the static library, and the man page is readable.
#
#   package.sh BUILD
set -euo pipefail
build=$1

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root cmake --install "$build" --prefix /opt/gallop >/dev/null
prefix=$root/opt/gallop

for file in bin/gallop include/gallop.h lib/libgallop.a lib/libgallop.so lib/pkgconfig/gallop.pc share/man/man1/gallop.1 \
    share/gallop/models/demo/config.json share/gallop/examples/Makefile; do
    [ -e "$prefix/$file" ] || { echo "package: $file was not installed"; exit 1; }
done

cd /
"$prefix/bin/gallop" run -n 4 "Once" >/dev/null

# examples HOW MAKE-ARGUMENT...: builds a copy of what was installed and runs each program without an argument.
examples() {
    local how=$1 program n=0
    shift
    cp -r "$prefix/share/gallop/examples" "$root/$how"
    make -s -C "$root/$how" "$@"
    for source in "$root/$how"/*.c; do
        program=${source%.c}
        LD_LIBRARY_PATH=$prefix/lib "$program" >"$root/out" 2>"$root/err" ||
            { echo "package: ${program##*/} ($how) fails: $(cat "$root/err")"; exit 1; }
        [ -s "$root/out" ] || { echo "package: ${program##*/} ($how) says nothing"; exit 1; }
        n=$((n + 1))
    done
    [ $n -ge 3 ] || { echo "package: $n examples were installed, 3 at least were expected"; exit 1; }
}

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
examples shared
rm "$prefix"/lib/libgallop.so*
examples static STATIC=--static
echo "package: installed, found and linked both ways"
