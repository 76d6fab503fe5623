#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The team's all-reduce beside Open MPI's or gloo's, on one machine; a JSON line for each size and transport.

Usage: allreduce.py BENCH_TEAM_ALLREDUCE MPI_COLLECTIVES|GLOO_ALLREDUCE [--ranks N] [--bytes N,...] [--rounds N]
                    [--transports tcp,shm] [-- OPTIONS OF BENCH_TEAM_ALLREDUCE]

Both are run in turn, several times, since what else the machine does changes by the second: the ratio is the
median of the ratios of neighbours, and times are medians. Open MPI runs with its TCP (btl tcp,self) or
its shared memory (btl vader,self); gloo knows TCP alone.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

SIZES = (8, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 8 << 20, 32 << 20, 128 << 20)
BTL = {"tcp": "tcp,self", "shm": "vader,self"}


def time_us(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["us"]


def command_of(other, transport, ranks, size):
    if pathlib.Path(other).name.startswith("gloo"):
        return [other, ranks, size]
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", BTL[transport], "-np", ranks, other, size]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("team")
    parser.add_argument("other")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transports", default="tcp,shm")
    parser.add_argument("options", nargs="*")
    args = parser.parse_args()
    for transport in args.transports.split(","):
        team = [args.team, transport, str(args.ranks), *args.options, "--bytes"]
        for size in args.bytes.split(","):
            pairs = [(time_us([*team, size]), time_us(command_of(args.other, transport, str(args.ranks), size))) for _ in range(args.rounds)]
            ours, theirs = (statistics.median(times) for times in zip(*pairs))
            ratios = sorted(other / own for own, other in pairs)
            bus = 1e-3 * int(size) * 2 * (args.ranks - 1) / args.ranks
            print(json.dumps({"transport": transport, "ranks": args.ranks, "bytes": int(size), "us": round(ours, 2),
                              "other": pathlib.Path(args.other).name, "other_us": round(theirs, 2), "busbw_GB_per_s": round(bus / ours, 3),
                              "other_busbw_GB_per_s": round(bus / theirs, 3), "ratio": round(statistics.median(ratios), 3),
                              "ratio_min": round(ratios[0], 3), "ratio_max": round(ratios[-1], 3)}), flush=True)


if __name__ == "__main__":
    main()
