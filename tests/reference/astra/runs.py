#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ASTRA-sim on the cases of cases.py and prints the rows of a table; README.md says how."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import chakra

TOPOLOGIES = {"R": "Ring", "S": "Switch", "F": "FullyConnected"}
KINDS = {"ar": "all-reduce", "ag": "all-gather", "rs": "reduce-scatter", "aa": "all-to-all"}
KEYS = {"split": "preferred-dataset-splits", "active": "active-chunks-per-dimension",
        "ep": "endpoint-delay", "mem": "local-mem-bw", "peak": "peak-perf",
        "roof": "roofline-enabled", "replay": "replay-only"}
# The network with congestion has one dimension, and no ring of two.
NOT_THERE = re.compile(r"only support 1-dim|Assertion `!connected")
TOLD = re.compile(r"Assertion|terminate called")
# Some collectives of ASTRA-sim write to memory that they have freed: another layout may get through.
TUNABLES = ["", "glibc.malloc.tcache_count=0", "glibc.malloc.top_pad=1000000",
            "glibc.malloc.tcache_count=0:glibc.malloc.top_pad=1000000",
            "glibc.malloc.mxfast=0", "glibc.malloc.mxfast=0:glibc.malloc.tcache_count=0"]
LINE = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (\d+) cycles")


def network_yaml(text):
    dims = [re.fullmatch(r"([RSF])(\d+)@([\d.]+)/([\d.]+)", d).groups() for d in text.split(",")]
    rows = zip(("topology", "npus_count", "bandwidth", "latency"),
               zip(*((TOPOLOGIES[t], n, b, l) for t, n, b, l in dims)))
    return "".join("%s: [ %s ]\n" % (key, ", ".join(values)) for key, values in rows)


def ranks_of(text):
    n = 1
    for d in text.split(","):
        n *= int(re.match(r"[RSF](\d+)", d).group(1))
    return n


def system_json(text):
    """The system file, and the queues of a dimension."""
    out = {"scheduling-policy": "LIFO", "collective-optimization": "localBWAware"}
    queues = 1
    for field in text.split(";"):
        key, value = field.split("=")
        if key == "q":
            queues = int(value)
        elif key == "opt":
            out["collective-optimization"] = {"l": "localBWAware", "b": "baseline"}[value]
        elif key in KEYS:
            out[KEYS[key]] = float(value) if "." in value else int(value)
        else:
            for kind in KINDS if key == "all" else [key]:
                out[KINDS[kind] + "-implementation"] = value.split(",")
    return json.dumps(out), queues


def groups_json(text):
    groups = {}
    for group in text.split(";"):
        number, ranks = group.split(":")
        groups[number] = [int(r) for r in ranks.split(",")]
    return json.dumps(groups)


def programs(text, n):
    out = [""] * n
    for part in text.split("|"):
        ranks, program = part.split(":", 1)
        for rank in range(n) if ranks == "*" else map(int, ranks.split(",")):
            out[rank] = program.strip()
    return out


def run_one(binary, folder, n, queues, with_groups):
    command = [str(binary), "--workload-configuration=%s/w" % folder,
               "--system-configuration=%s/system.json" % folder,
               "--network-configuration=%s/network.yml" % folder,
               "--remote-memory-configuration=%s/memory.json" % folder,
               "--num-queues-per-dim=%d" % queues]
    if with_groups:
        command.append("--comm-group-configuration=%s/groups.json" % folder)
    for tunables in TUNABLES:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "GLIBC_TUNABLES": tunables})
        ranks = {int(r): (int(c), int(e)) for r, c, e in LINE.findall(done.stdout)}
        if len(ranks) == n:
            ends = [c for c, _ in ranks.values()]
            return "%d/%d/%d" % (max(ends), sum(ends), sum(e for _, e in ranks.values()) % 2**64)
        if NOT_THERE.search(done.stderr):
            return "-"
        if done.returncode == 0:
            return "deadlock"
        if TOLD.search(done.stderr):
            return "crash"
    return "crash" if done.returncode == -11 else "-"


def write(case, folder):
    """The files of a case; returns the queues of a dimension."""
    network, system, groups, text = case
    for rank, program in enumerate(programs(text, ranks_of(network))):
        (folder / ("w.%d.et" % rank)).write_bytes(chakra.encode(program))
    (folder / "network.yml").write_text(network_yaml(network))
    system_text, queues = system_json(system)
    (folder / "system.json").write_text(system_text)
    (folder / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    if groups != "-":
        (folder / "groups.json").write_text(groups_json(groups))
    return queues


def run(case, binaries, folder):
    for old in folder.glob("w.*.et"):
        old.unlink()
    queues = write(case, folder)
    return [run_one(b, folder, ranks_of(case[0]), queues, case[2] != "-") for b in binaries]


def main():
    import cases  # pylint: disable=import-outside-toplevel
    binaries = [pathlib.Path(sys.argv[1]) / mode for mode in ("unaware", "aware")]
    made = cases.generated(sys.argv[2]) if len(sys.argv) > 2 else cases.grid()
    with tempfile.TemporaryDirectory() as folder:
        for case in made:
            print("\t".join([*case, *run(case, binaries, pathlib.Path(folder))]), flush=True)


if __name__ == "__main__":
    main()
