#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes what a release consists of, from the last commit: a source archive, the Debian packages built from that
# archive, and their checksums. Usage: dist.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
folder=$(cd "$1" && pwd)
version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" meson.build | head -n 1)
packaged=$(dpkg-parsechangelog -l debian/changelog -S Version)
grep -q "^## \[$version\]" CHANGELOG.md && [ "$packaged" = "$version" ] || {
    echo "meson.build says version $version, debian/changelog $packaged; CHANGELOG.md needs a section [$version]" >&2
    exit 1
}
git diff --quiet HEAD || echo "dist: what is not committed is left out" >&2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -f "$folder"/*
source=orrery-$version.tar.xz
git archive --prefix="orrery-$version/" HEAD | xz -T0 >"$folder/$source"
tar -xJf "$folder/$source" -C "$work"
(cd "$work/orrery-$version" && DEB_BUILD_OPTIONS="nocheck noautodbgsym ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage -b -us -uc)
mv "$work"/*.deb "$folder"
(cd "$folder" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
