#!/usr/bin/env bash
# package.sh - installs into an empty folder and uses what lies there as a stranger would: the program finds its demo
# model, pkg-config gives the flags for the shared and for the static library, and the man page is readable.
#
#   package.sh BUILD EXAMPLE.c
set -euo pipefail
build=$1 example=$2

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root cmake --install "$build" --prefix /opt/gallop >/dev/null
prefix=$root/opt/gallop

for file in bin/gallop include/gallop.h lib/libgallop.a lib/libgallop.so lib/pkgconfig/gallop.pc share/man/man1/gallop.1 \
    share/gallop/models/demo/config.json; do
    [ -e "$prefix/$file" ] || { echo "package: $file was not installed"; exit 1; }
done

cd /
"$prefix/bin/gallop" run -n 4 "Once" >/dev/null

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
flags=$(pkg-config --cflags --libs gallop)
# shellcheck disable=SC2086  # flags are words
cc -o "$root/shared" "$example" $flags
LD_LIBRARY_PATH=$prefix/lib "$root/shared" "$prefix/share/gallop/models/demo" >/dev/null

rm "$prefix"/lib/libgallop.so*
flags=$(pkg-config --cflags --libs --static gallop)
# shellcheck disable=SC2086
cc -o "$root/static" "$example" $flags
"$root/static" "$prefix/share/gallop/models/demo" >/dev/null
echo "package: installed, found and linked both ways"
