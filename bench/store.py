#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random rows from storage beside fio on the same file and RocksDB with the same rows.

Usage: store.py BUILD FOLDER [--rows-bytes 128,256,512] [--gib 4] [--seconds 5] [--rounds 5] [--depth 128] [--no-rocksdb]

For each size of a row, a file of rows is made in FOLDER, as the store of rows keeps them, and read at random past the page
cache: by us, with checksums verified and rows copied out; by fio with io_uring, registered files and buffers, transfers as
large and as many in flight; rows of RocksDB by MultiGet of 8 keys on 16 threads, with a cache of 1/20 of them. Programs take turns within a round;
printed are JSON lines: medians, user and system time of a request, ratios within the round. All files are removed.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def fio(path, filled, sector_bytes, arguments):
    report = json.loads(run(
        "fio", "--name=rows", f"--filename={path}", "--readonly", "--ioengine=io_uring", "--direct=1", "--registerfiles=1",
        "--fixedbufs=1", "--norandommap", "--randrepeat=0", "--rw=randread", f"--bs={sector_bytes}",
        f"--offset={filled['from']}", f"--size={filled['bytes']}",
        f"--iodepth={arguments.depth}", f"--runtime={arguments.seconds}", "--time_based", "--output-format=json"))
    job = report["jobs"][0]
    n, spent_us = job["read"]["total_ios"], job["job_runtime"] * 1e3
    times = job["read"]["clat_ns"]["percentile"]
    return {"per_s": job["read"]["iops"], "p50_us": times["50.000000"] / 1e3, "p99_us": times["99.000000"] / 1e3,
            "user_us": job["usr_cpu"] / 100 * spent_us / n, "system_us": job["sys_cpu"] / 100 * spent_us / n}


def build_rocksdb(folder):
    program = folder / "rocksdb_rows"
    made = subprocess.run(["cc", "-O2", "-o", program, SOURCE / "rocksdb_rows.c", "-lrocksdb", "-lpthread"], capture_output=True)
    return program if made.returncode == 0 else None


def median(rounds, name):
    return statistics.median(figures[name] for figures in rounds)


def show(case, rounds, **more):
    figures = {name: round(median(rounds, name), 3) for name in rounds[0] if isinstance(rounds[0][name], (int, float))}
    print(json.dumps({"case": case, **more, **figures, "cpu_us": round(figures["user_us"] + figures["system_us"], 3)}),
          flush=True)


def measure(arguments, row_bytes, folder, rocksdb):
    bench = pathlib.Path(arguments.build) / "bench" / "bench_rows"
    rows = int(arguments.gib * 2**30 / row_bytes)
    filled = json.loads(run(bench, "fill", folder / "rows", row_bytes, rows))
    if rocksdb:
        run(rocksdb, "fill", folder / "rocksdb", row_bytes, rows)
    sector_bytes = 512 if row_bytes <= 496 else 1024
    cases = {"rows": [], "fio": [], "rocksdb": []}
    for _ in range(arguments.rounds):
        cases["rows"].append(json.loads(run(bench, "read", folder / "rows", arguments.seconds, arguments.depth)))
        cases["fio"].append(fio(folder / "rows", filled, sector_bytes, arguments))
        if rocksdb:
            cache_bytes = rows * row_bytes // 20
            cases["rocksdb"].append(json.loads(run(
                rocksdb, "read", folder / "rocksdb", rows, arguments.seconds, 8, cache_bytes, 16)))
    for case, rounds in cases.items():
        if rounds:
            show(case, rounds, row_bytes=row_bytes, rows=rows)
    pairs = list(zip(cases["rows"], cases["fio"]))
    print(json.dumps({"case": "rows/fio", "row_bytes": row_bytes,
                      "per_s": round(statistics.median(ours["per_s"] / theirs["per_s"] for ours, theirs in pairs), 3),
                      "p99": round(statistics.median(ours["p99_us"] / theirs["p99_us"] for ours, theirs in pairs), 3),
                      "load": pathlib.Path("/proc/loadavg").read_text().split()[0]}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--rows-bytes", default="128,256,512")
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--no-rocksdb", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("fio") is None:
        sys.exit("fio is not installed")
    for row_bytes in map(int, arguments.rows_bytes.split(",")):
        with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="orrery-rows-") as folder:
            folder = pathlib.Path(folder)
            rocksdb = None if arguments.no_rocksdb else build_rocksdb(folder)
            if rocksdb is None and not arguments.no_rocksdb:
                print("RocksDB cannot be compiled here (librocksdb-dev): left out", file=sys.stderr)
            measure(arguments, row_bytes, folder, rocksdb)


if __name__ == "__main__":
    main()
