#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time to place experts by loads, beside DeepSeek's EPLB and vLLM's, in one run on one core.

Usage: experts.py BENCH_EXPERT_PLANS [--eplb FOLDER] [--vllm FOLDER] [--runs N]
BENCH_EXPERT_PLANS: build/bench/bench_expert_plans. --eplb: a folder with the eplb.py of DeepSeek; needs torch.
--vllm: a folder with default.py of vllm/distributed/eplb/policy; needs torch and numpy. Peers whose folder is not
given are left out, by name. Prints JSON lines: CPU milliseconds, the median of the runs.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

# layers, experts, slots, groups, hosts, ranks
SHAPES = [(58, 256, 288, 8, 4, 32), (58, 256, 320, 1, 1, 160)]


def median_ms(call, runs):
    call()
    times = []
    for _ in range(runs):
        begin = time.process_time()
        call()
        times.append((time.process_time() - begin) * 1e3)
    return statistics.median(times)


def say(shape, **values):
    print(json.dumps({"bench": "expert plans", "shape": "x".join(map(str, shape)), **values}), flush=True)


def load_eplb(folder):
    sys.path.insert(0, folder)
    import eplb
    return eplb.rebalance_experts


def load_vllm(folder):
    text = (pathlib.Path(folder) / "default.py").read_text()
    space = {}
    exec(text.replace("from .abstract import AbstractEplbPolicy", "AbstractEplbPolicy = object"), space)
    return space["DefaultEplbPolicy"].rebalance_experts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--eplb")
    parser.add_argument("--vllm")
    parser.add_argument("--runs", type=int, default=200)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    peers = {"EPLB": (args.eplb, load_eplb, 3), "vLLM": (args.vllm, load_vllm, 9)}
    for name, (folder, _, _) in peers.items():
        if folder is None:
            print(f"{name}: no folder is given, not measured", file=sys.stderr)
    calls = {name: (load(folder), runs) for name, (folder, load, runs) in peers.items() if folder}
    for shape in SHAPES:
        layers, experts, slots, groups, hosts, ranks = shape
        rnd = random.Random(0)
        load = [[int(rnd.lognormvariate(5, 1)) for _ in range(experts)] for _ in range(layers)]
        if calls:
            import torch
            torch.set_num_threads(1)
            weight = torch.tensor(load)
        for name, (call, runs) in calls.items():
            say(shape, planner=name, cpu_ms=round(median_ms(lambda: call(weight, slots, groups, hosts, ranks), runs), 3))
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(" ".join(map(str, row)) for row in load))
            file.flush()
            answer = subprocess.run([args.program, file.name, *map(str, shape), str(args.runs)], capture_output=True,
                                    text=True)
        print(answer.stderr, end="", file=sys.stderr)
        for line in answer.stdout.splitlines():
            say(shape, **json.loads(line))


if __name__ == "__main__":
    main()
