#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that the named purposes need and that are missing: through apt
# as root or with password-less sudo, else prints the one line to run.
#   tools/setup.sh build|test|coverage|arm64|dist ...
set -eu

packages_build="gcc libc6-dev meson ninja-build pkg-config python3 zlib1g-dev libzstd-dev libxxhash-dev libyaml-dev libdnnl-dev
    libcurl4-openssl-dev libssl-dev libmicrohttpd-dev libsqlite3-dev liburing-dev libarchive-dev libisal-dev"
packages_test="$packages_build g++ clang libclang-rt-14-dev libcmocka-dev protobuf-compiler protobuf-c-compiler
    libprotobuf-c-dev libxgboost-dev libopenmpi-dev openmpi-bin chromium etcd-server spin iproute2 python3-jsonschema coinor-cbc"
packages_coverage="gcovr"
packages_dist="$packages_build debhelper dpkg-dev fakeroot git mmdebstrap xz-utils libopenmpi-dev libxgboost-dev"
packages_arm64="gcc-aarch64-linux-gnu qemu-user libc6-dev:arm64 zlib1g-dev:arm64 libzstd-dev:arm64 libxxhash-dev:arm64
    libyaml-dev:arm64 libsqlite3-dev:arm64 libcmocka-dev:arm64"

wanted=""
for purpose in "$@"; do
    eval "wanted=\"\$wanted \$packages_$purpose\""
done

native=$(dpkg --print-architecture)
missing=""
for package in $wanted; do
    case "$package" in
    *:*) architecture="${package#*:}" ;;
    *) architecture="($native|all)" ;;
    esac
    dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$package" 2>/dev/null |
        grep -qxE "$architecture installed" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

foreign="true"
case "$missing" in
*:arm64*) foreign="dpkg --add-architecture arm64" ;;
esac

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif sudo -n true 2>/dev/null; then
    as_root="sudo"
else
    echo "Orrery needs packages that are not installed. Run:" >&2
    [ "$foreign" = "true" ] || echo "  sudo $foreign && sudo apt-get update" >&2
    echo "  sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi

echo "Installing:$missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
if ! { $as_root $foreign && $as_root apt-get update -q && $as_root apt-get install -y -q --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    exit 1
fi
