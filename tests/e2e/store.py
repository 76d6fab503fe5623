#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of embedding tables on a device: the bits of memory, and nothing lost, over whole runs of `orrery train`."""
import ctypes
import errno
import fcntl
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import (BIN, PATIENCE_S, SANITIZED, Skip, case, environment, latest_step, main, one_line, orrery, scratch,  # noqa: E402
                     wait_for)

MODEL = """
source: own
sources: {own: "made for this test"}
models:
  clicks:
    title: a small DLRM
    family: dlrm
    kind: dlrm
    dlrm:
      dense_features: 4
      dim: 16
      rows: [300, %d, 7, 48000]
      pooling: [2, 1, 1, 3]
      bottom: [16, 16]
      top: [16, 1]
"""
STORE = ("--store", "rows", "--table-memory", "160kB")  # 48,000 rows of 68 bytes are 20 times as much
SPREAD = ("--data", "synthetic:uniform,locality=0.3,window=4096")  # more rows than the cache has


def job(folder, *more, dp=1, steps=6, rows=50, tables=None):
    """The words of a small run, whose losses do not depend on how many steps it is to have."""
    model = folder / f"clicks_{rows}.yaml"
    model.write_text(MODEL % rows)
    plan = f"dp={dp},batch=48"
    if tables:
        (folder / "tables.yaml").write_text(f"ranks: {dp}\ntables:\n" + "".join(
            f"  t{i}: {{{tables[i % len(tables)]}}}\n" for i in range(4)))
        plan += ",tables=tables.yaml"
    return ["train", model.name, "--plan", plan, "--steps", steps, "-j", 1, "-q", "--learning-rate-schedule",
            "constant", "--warmup", 1, "--data", "synthetic:2022,locality=0.2", "-f", "json", *more]


def run(folder, *more, **options):
    """What a run says: its digest, and what it had to do for rows by tier."""
    words = job(folder, *more, **options)
    if "--data" in more:
        del words[words.index("--data"):words.index("--data") + 2]
    result = orrery(*words, cwd=folder)
    assert result.returncode == 0, f"exit {result.returncode}: {result.stderr}"
    said = json.loads(result.stdout)
    return said["state_digest"], {row["tier"]: row for row in said["tables"].get("tiers", {"rows": []})["rows"]}


def digest(folder, *more, **options):
    return run(folder, *more, **options)[0]


def refused(folder, *more, code=3, **options):
    return one_line(orrery(*job(folder, *more, **options), cwd=folder), code)


@case
def a_table_20_times_the_cache_has_the_bits_of_memory():
    with scratch() as folder:
        lines = ["kind: data", "kind: data", "kind: data", "kind: table, ranks: [0], tier: block"]
        alone = digest(folder, *SPREAD, steps=60)
        same, tiers = run(folder, *SPREAD, "--store", "rows", "--table-memory", "160kB", "--save", "kept", "--save-every",
                          7, "--html", "page.html", steps=60, tables=lines)
        page, rows = (folder / "page.html").read_text(), tiers["block"]
        assert same == alone, f"{same} and {alone}"
        assert rows["lookups"] >= 60 * 48 * 3 and 0.2 < rows["hit_frac"] < 0.9, rows
        assert rows["reads"] > 0 and rows["read_bytes"] >= 512 * rows["reads"], rows
        assert rows["written_bytes"] > 0, rows
        assert "Hit rate by step" in page and "Waited for rows by step" in page


@case
def without_checkpoints_nothing_is_left():
    with scratch() as folder:
        for policy in ("lookahead", "lru", "lfu"):
            assert digest(folder, *STORE, "--cache-policy", policy, "--lookahead", 2) == digest(folder), policy
            assert not list((folder / "rows").iterdir()), "a file is left"


@case
def changed_rows_go_where_one_says():
    with scratch() as folder:
        again = ()
        for number, way in enumerate(("holes", "extents", "holes")):
            same = digest(folder, *STORE, "--save", "kept", "--save-every", 1, *again, "--row-writes", way,
                          steps=3 * number + 3)
            again = ("--resume",)
        assert same == digest(folder, steps=9)
        words = [word for word in job(folder, *STORE[2:], "--store", "new", steps=1) if word != "-q"]
        words += ["--machine", folder / "none.yaml"]
        for more, said in (((), True), (("--row-writes", "holes"), False)):
            result = orrery(*words, *more, cwd=folder)
            assert result.returncode == 0, result.stderr
            assert ("written as extents" in result.stderr and "orrery bench --storage new" in result.stderr) == said, (
                result.stderr)


@case
def a_slow_device_changes_times_alone():
    with scratch() as folder:
        slow = ("--byte-store", "bytes", *STORE[2:], "--save", "kept", "--byte-device", "P3700")
        digest(folder, *slow, steps=3)
        same, tiers = run(folder, *slow, "--resume", steps=6)
        assert same == digest(folder) and tiers["byte"]["reads"] > 0, tiers
        words = [word for word in job(folder, "--byte-store", "others", *STORE[2:], steps=1) if word != "-q"]
        result = orrery(*words, "--byte-device", "P3700", cwd=folder)
        assert result.returncode == 0 and "as slow as NVMe MLC Gen3 (Intel P3700 800G)" in result.stderr, result.stderr
        for name, said in (("P4800X", "is 'Optane P4800X 750GB' or"), ("tape", "no memory is called 'tape'")):
            assert said in refused(folder, "--byte-store", "bytes", "--byte-device", name, code=2), name
        assert "--byte-store" in refused(folder, *STORE, "--byte-device", "P3700", code=2)


WAYS = (  # ranks, options of the store, tables of the plan
    (1, STORE, None),
    (2, STORE, None),
    (1, (), None),
    (3, ("--store", "rows", "--table-memory", "4MB"), ["kind: row, ranks: [0-2], tier: block", "kind: data"]),
    (2, ("--byte-store", "bytes", "--table-memory", "160kB"), None),
    (2, ("--store", "rows", "--byte-store", "bytes", "--table-memory", "4MB"),
     ["kind: table, ranks: [1], tier: byte", "kind: row, ranks: [1, 0], tier: block", "kind: data",
      "kind: column, ranks: [0], tier: block"]),
    (1, ("--byte-store", "node:0", "--table-memory", "160kB"), None),
    (2, STORE, ["kind: data, tier: block"]),
    (1, ("--store", "elsewhere", "--table-memory", "160kB"), None),
)


@case
def any_tier_ranks_and_sharding_go_on_in_any_other():
    with scratch() as folder:
        whole = digest(folder, steps=len(WAYS) + 1)
        again = ()
        for number, (ranks, store, tables) in enumerate(WAYS):
            digest(folder, *store, "--save", "kept", *again, dp=ranks, tables=tables, steps=number + 1)
            again = ("--resume",)
        assert digest(folder, *STORE, "--save", "kept", "--resume", steps=len(WAYS) + 1) == whole
        left = sorted(path.name for name in ("rows", "bytes", "elsewhere") for path in (folder / name).iterdir())
        assert len(left) == 1, f"files of before are left: {left}"


@case
def the_same_sharding_goes_on_in_the_same_file():
    with scratch() as folder:
        for dp in (1, 2):
            kept, rows = ("--save", f"kept{dp}"), ("--store", f"rows{dp}", "--table-memory", "160kB")
            digest(folder, *kept, *rows, "--save-every", 1, dp=dp, steps=4)
            files = {path: path.stat().st_ino for path in (folder / f"rows{dp}").iterdir()}
            assert len(files) == dp, files
            assert digest(folder, *kept, *rows, "--resume", "--lookahead", 1, dp=dp, steps=6) == digest(folder)
            assert {path: path.stat().st_ino for path in (folder / f"rows{dp}").iterdir()} == files
            assert digest(folder, *kept, *rows, "--resume", dp=dp, steps=6) == digest(folder), "nothing left to do"


@case
def exports_and_imports_go_through_a_store():
    with scratch() as folder:
        digest(folder, "--export", "memory", steps=3)
        digest(folder, *STORE, "--export", "stored", steps=3, dp=2)
        for path in (folder / "memory").iterdir():
            assert path.read_bytes() == (folder / "stored" / path.name).read_bytes(), path.name
        assert not list((folder / "rows").iterdir()), "a file is left"
        begun = [digest(folder, "--init", "stored", *store, steps=2) for store in ((), STORE)]
        assert begun[0] == begun[1] != digest(folder, steps=2), begun


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
/* Counts syncs of all processes in a file, a byte each; the KILL_AT-th kills its process before or after it. */
static int synced(const char *name, int fd)
{
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const int log = open(getenv("KILL_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (write(log, ".", 1) != 1)
        abort();
    const long n = lseek(log, 0, SEEK_END), at = strtol(getenv("KILL_AT"), NULL, 10);
    close(log);
    if (n == at && *getenv("KILL_WHEN") == 'b')
        kill(getpid(), SIGKILL);
    const int result = sync(fd);
    if (n == at)
        kill(getpid(), SIGKILL);
    return result;
}
int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }
"""


def shimmed(folder, at, when, *more, **options):
    """A run that is killed at a sync; returns its exit status and how many there were."""
    log = folder / "syncs"
    log.unlink(missing_ok=True)
    more_environment = environment(LD_PRELOAD=str(folder / "shim.so"), KILL_LOG=str(log), KILL_AT=str(at), KILL_WHEN=when)
    result = orrery(*job(folder, *more, **options), cwd=folder, env=more_environment)
    return result, log.stat().st_size if log.exists() else 0


def build_shim(folder):
    if SANITIZED:
        raise Skip("a sanitizer's runtime must come before all other libraries")
    if shutil.which("cc") is None:
        raise Skip("there is no compiler")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl"], check=True)


def begin_again(folder, more):
    """Goes on as somebody would after a crash."""
    if (folder / "kept" / "latest").exists():
        return digest(folder, *more, "--resume")
    shutil.rmtree(folder / "rows", ignore_errors=True)
    shutil.rmtree(folder / "kept", ignore_errors=True)
    return digest(folder, *more)


@case
def killed_at_each_sync_in_turn_nothing_is_lost():
    with scratch() as folder:
        build_shim(folder)
        more, steps = (*STORE, "--save", "kept", "--save-every", 2), 5
        whole = digest(folder, steps=6)
        result, n = shimmed(folder, 0, "b", *more, steps=steps)
        assert result.returncode == 0, result.stderr
        assert n >= 3 * 3, f"{n} syncs of three checkpoints"
        for at in range(1, n + 1):
            for name in ("rows", "kept"):
                shutil.rmtree(folder / name, ignore_errors=True)
            when = "ba"[at % 2]
            result, seen = shimmed(folder, at, when, *more, steps=steps)
            if seen < at:
                continue  # an order of threads with fewer syncs
            assert result.returncode == -signal.SIGKILL, f"sync {at}: exit {result.returncode}: {result.stderr}"
            assert begin_again(folder, more) == whole, f"killed at sync {at} ({when}): another state"


@case
def killed_while_rows_are_sharded_anew_nothing_is_lost():
    with scratch() as folder:
        build_shim(folder)
        whole = digest(folder, steps=6)
        digest(folder, *STORE, "--save", "kept", dp=2, steps=3)
        for name in ("rows", "kept"):
            shutil.copytree(folder / name, folder / f"{name}-before")
        resumed = (*STORE, "--save", "kept", "--resume")

        def restore():
            for name in ("rows", "kept"):
                shutil.rmtree(folder / name)
                shutil.copytree(folder / f"{name}-before", folder / name)
        result, n = shimmed(folder, 0, "b", *resumed, steps=5)
        assert result.returncode == 0, result.stderr
        for at in range(1, n + 1):
            restore()
            result, seen = shimmed(folder, at, "ab"[at % 2], *resumed, steps=5)
            assert seen < at or result.returncode == -signal.SIGKILL, f"sync {at}: exit {result.returncode}"
            for dp in (2, 1):
                assert digest(folder, *resumed, dp=dp, steps=6) == whole, f"killed at sync {at}, {dp} ranks"


@case
def a_full_disk_is_told_and_the_last_commit_stands():
    if os.geteuid() != 0:
        raise Skip("a small file system needs root")
    with scratch() as folder:
        small = folder / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24M", "tmpfs", small], capture_output=True,
                          check=False).returncode != 0:
            raise Skip("no file system can be mounted here")
        try:
            whole, filler = digest(folder), small / "filler"
            more = ("--store", "small/rows", "--table-memory", "160kB", "--save", "small/kept")
            said = refused(folder, *more, "--store-bytes", "64MiB")
            assert "no space left" in said.lower(), said
            shutil.rmtree(small / "rows")
            digest(folder, *more, steps=3)
            with open(filler, "wb") as out:
                try:
                    while True:
                        os.write(out.fileno(), bytes(4096))
                except OSError as error:
                    assert error.errno == errno.ENOSPC, error
            said = refused(folder, *more, "--resume")
            assert "no space left" in said.lower(), said
            filler.unlink()
            assert digest(folder, *more, "--resume") == whole
        finally:
            subprocess.run(["umount", "-l", small], check=True)  # the kernel may still close files


@case
def an_interrupt_saves_and_ends():
    with scratch() as folder:
        words = job(folder, *STORE, "--save", "kept", "--save-every", 1, steps=100_000, dp=2)
        process = subprocess.Popen([BIN, *map(str, words)], cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        latest = folder / "kept" / "latest"
        try:
            wait_for(lambda: process.poll() is not None or latest.exists(), "no checkpoint is written")
            process.send_signal(signal.SIGINT)
            out, wrong = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == 128 + signal.SIGINT, f"exit {process.returncode}: {wrong}"
        step = latest_step(latest.parent)
        assert step == len(json.loads(out)["tables"]["steps"]["rows"]), "the last step is not saved"
        assert digest(folder, *STORE, "--save", "kept", "--resume", dp=2, steps=step + 2) == digest(folder, steps=step + 2)


@case
def rows_of_another_job_are_refused():
    with scratch() as folder:
        kept = (*STORE, "--save", "kept")
        digest(folder, *kept, steps=2)
        path = folder / "rows" / "rank-00000.rows"
        whole = path.read_bytes()
        said = refused(folder, *STORE, "--save", "other")
        assert "rank-00000.rows has rows of an earlier run, after step 2" in said, said
        assert "rank-00000.rows has rows of an earlier run" in refused(folder, *STORE), "they would be lost"
        assert "model" in refused(folder, *kept, "--resume", rows=51)
        assert "seed" in refused(folder, *kept, "--resume", "--seed", 7)
        path.write_bytes(whole[:len(whole) // 8192 * 4096])
        said = refused(folder, *kept, "--resume")
        assert "rank-00000.rows" in said, said
        path.write_bytes(bytes(4096) + whole[4096:])
        said = refused(folder, *kept, "--resume")
        assert "rank-00000.rows" in said, said
        path.unlink()
        said = refused(folder, *kept, "--resume")
        assert "rank-00000.rows" in said and "not there" in said, said
        path.write_bytes(whole)
        assert digest(folder, *kept, "--resume") == digest(folder)


@case
def rows_of_an_earlier_step_are_refused():
    with scratch() as folder:
        kept = (*STORE, "--save", "kept")
        digest(folder, *kept, steps=2)
        path = folder / "rows" / "rank-00000.rows"
        before = path.read_bytes()
        digest(folder, *kept, "--resume", steps=4)
        after = path.read_bytes()
        path.write_bytes(before)
        for dp in (1, 2):
            said = refused(folder, *kept, "--resume", dp=dp)
            assert "rank-00000.rows" in said and "step 4" in said, said
        path.write_bytes(after)
        assert digest(folder, *kept, "--resume", dp=2) == digest(folder)


@case
def a_flipped_bit_is_found():
    with scratch() as folder:
        kept = (*STORE, "--save", "kept")
        digest(folder, *kept, steps=3)
        path = folder / "rows" / "rank-00000.rows"
        whole = bytearray(path.read_bytes())
        used = [at for at in range(0, len(whole), 512) if any(whole[at:at + 512])]
        found = 0
        for at in used[-4:]:  # rows stand behind header and logs
            path.write_bytes(whole[:at + 9] + bytes([whole[at + 9] ^ 1]) + whole[at + 10:])
            result = orrery(*job(folder, *kept, "--resume", steps=3), cwd=folder)  # digests all rows
            if result.returncode == 0:
                assert json.loads(result.stdout)["state_digest"] == digest(folder, steps=3), f"byte {at}: other rows"
                continue
            assert "damaged" in one_line(result, 3), result.stderr
            found += 1
        assert found > 0, "no sector that has rows was looked at"


@case
def two_processes_on_one_folder():
    with scratch() as folder:
        kept = (*STORE, "--save", "kept")
        digest(folder, *kept, steps=2)
        with open(folder / "rows" / "rank-00000.rows", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            said = refused(folder, *kept, "--resume", code=4)
        assert "another process" in said, said
        assert digest(folder, *kept, "--resume") == digest(folder)


def forbid_io_uring():
    """In the child: io_uring_setup fails with EPERM (seccomp)."""
    class Program(ctypes.Structure):
        _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_char_p)]
    setup, allow, fail = 425, 0x7FFF0000, 0x00050000 | errno.EPERM
    code = b"".join(struct.pack("HBBI", *line) for line in (
        (0x20, 0, 0, 0), (0x15, 0, 1, setup), (0x06, 0, 0, fail), (0x06, 0, 0, allow)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)
    if libc.prctl(22, 2, ctypes.byref(Program(4, code)), 0, 0) != 0:
        os._exit(77)


@case
def where_io_uring_is_forbidden_it_is_said():
    if os.uname().machine not in ("x86_64", "aarch64"):
        raise Skip("the number of the call is not known here")
    with scratch() as folder:
        words = [word for word in job(folder, *STORE, steps=3) if word != "-q"]
        result = orrery(*words, cwd=folder, preexec_fn=forbid_io_uring)
        if result.returncode == 77:
            raise Skip("no filter of system calls can be set here")
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["state_digest"] == digest(folder, steps=3)
        assert "io_uring" in result.stderr and "pread" in result.stderr, result.stderr


@case
def options_that_cannot_be():
    with scratch() as folder:
        said = refused(folder, "--store", "rows", "--table-memory", "2kB", code=4)
        assert "would do" in said or "needs at least" in said, said
        said = refused(folder, "--store", "rows", "--table-memory", "160kB", "--store-bytes", "64kB", code=4)
        assert "need" in said, said
        said = refused(folder, "--lookahead", 3, code=2)
        assert "--lookahead" in said and "--store" in said, said
        said = refused(folder, "--row-writes", "holes", code=2)
        assert "--row-writes" in said and "--store" in said, said
        said = refused(folder, code=2, tables=["kind: data", "kind: data, tier: block"])
        assert "'t1'" in said and "--store" in said, said
        said = refused(folder, *STORE, code=2, tables=["kind: data", "kind: data, tier: byte"])
        assert "'t1'" in said and "--byte-store" in said, said
        said = refused(folder, *STORE, "--byte-store", "bytes", code=2)
        assert "--plan tables=FILE" in said, said
        (folder / "machine.yaml").write_text("schema: orrery.machine/1\n")
        said = refused(folder, *STORE, "--machine", folder / "machine.yaml")
        assert "machine.yaml" in said, said


main()
