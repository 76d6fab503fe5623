#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of a folder in a bare root of Debian 12, as a user would with apt, and uses what they
# bring: the command with its man page and completions, then the library from a C program, linked both ways.
#   test_dist.sh FOLDER             makes the root, with this script in it; needs root
#   test_dist.sh --inside VERSION   what runs there, packages and program in the same folder
set -eu

if [ "$1" != "--inside" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp "$1"/*.deb "$0" "$work"
    version=$(dpkg-deb -f "$work"/orrery_*.deb Version)
    cat >"$work/user.c" <<'END'
#include <orrery/orrery.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    orr_error err;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job = NULL;
    const orr_job_file *files;
    size_t n_files = 0;
    const char *const paths[] = {argv[argc - 1]};
    if (orr_job_read(paths, 1, NULL, arena, &job, &files, &n_files, &err) != ORR_OK)
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("%s, %zu files\n", orr_version(), n_files);
    orr_job_free(job);
    orr_arena_free(arena);
    return 0;
}
END
    mmdebstrap --quiet --variant=apt --customize-hook="copy-in $work /" \
        --customize-hook="chroot \"\$1\" sh /$(basename "$work")/$(basename "$0") --inside $version" bookworm /dev/null
    exit
fi

version=$2
folder=$(dirname "$0")
job=/usr/share/orrery/examples/mlp_ddp_gloo_w2
n=0

install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/tmp/apt.log 2>&1 ||
        { tail -n 20 /tmp/apt.log && exit 1; }
}

# check NAME WANTED COMMAND...: the command succeeds and its output has a line in which WANTED occurs.
check() {
    name=$1 wanted=$2
    n=$((n + 1))
    shift 2
    if "$@" >/tmp/said 2>&1 && grep -qF -- "$wanted" /tmp/said; then
        echo "ok $n - $name: $(grep -m 1 -F -- "$wanted" /tmp/said | cut -c 1-90)"
    else
        echo "not ok $n - $name"
        cat /tmp/said
        exit 1
    fi
}

cd /tmp
install "$folder"/orrery_*.deb
check "the version" "orrery $version" orrery --version
check "the demonstration" "Where the time went" orrery demo --html demo.html
check "its page" "<html" head -c 2000 demo.html
check "a recording" "exposed" orrery analyze "$job"
check "a simulation" "step" orrery simulate llama3.1-8b --cluster dgx_h100 --plan dp=8,batch=64,seq=2k,zero=3
check "a training" "loss" orrery train gpt2 --plan layers=1,hidden=64,seq=32,batch=2,dp=2 --steps 2
check "the man page" ".TH" zcat /usr/share/man/man1/orrery.1.gz
check "completions" "orrery" sh -c 'cat /usr/share/bash-completion/completions/orrery \
    /usr/share/zsh/*/_orrery /usr/share/fish/vendor_completions.d/orrery.fish'

install gcc libc6-dev pkg-config "$folder"/liborrery*.deb
flags=$(pkg-config --cflags --libs orrery)
# shellcheck disable=SC2086
gcc -Wall -Werror "$folder/user.c" -o shared $flags
check "a program with the shared library" "$version, 4 files" ./shared "$job"
check "what it needs" "liborrery.so.0" readelf -d shared
# shellcheck disable=SC2046
gcc -Wall -Werror "$folder/user.c" -o static -static $(pkg-config --static --cflags --libs orrery)
check "a program that is static" "$version, 4 files" ./static "$job"

apt-get purge -y -q orrery liborrery-dev liborrery0 >/tmp/apt.log 2>&1
check "nothing stays" "none" sh -c 'find / -xdev -name "*orrery*" -path "/usr/*" | grep . || echo none'
echo "1..$n"
