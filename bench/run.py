#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what docs/benchmarks.md reports; a JSON line for each figure.

Usage: run.py BUILD [--events N]

Traces of other projects are read from ../shared beside the checkout; what needs them is left out,
by name, where they are absent. --events: size of the synthetic trace (10 million).
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRACES = ROOT.parent / "shared" / "data" / "traces"


def run_whole(label, command, stdin=None, runs=5):
    """Wall seconds (median) and peak memory of a whole process."""
    walls, peaks = [], []
    for _ in range(runs):
        start = time.monotonic()
        source = subprocess.Popen(stdin, stdout=subprocess.PIPE) if stdin else None
        process = subprocess.Popen(command, stdin=source.stdout if source else subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        if source:
            source.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        walls.append(time.monotonic() - start)
        peaks.append(usage.ru_maxrss / 1024)
        if source:
            source.wait()
        if status:
            raise SystemExit(f"{label}: exit status {os.waitstatus_to_exitcode(status)}")
    print(json.dumps({"bench": label, "median_s": round(sorted(walls)[len(walls) // 2], 3),
                      "min_s": round(min(walls), 3), "max_s": round(max(walls), 3),
                      "peak_mib": round(max(peaks), 1), "runs": runs}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--events", type=int, default=10_000_000)
    args = parser.parse_args()
    bench, synth, sim, orrery = (args.build / path for path in ("bench/bench", "bench/synth", "bench/bench_sim", "src/cli/orrery"))

    def inside(*words):
        subprocess.run([bench, *words], check=True)

    for words in (["4096", "14"], ["4096", "14", "overlap"], ["32768", "14"], ["100000", "14", "fold"]):
        subprocess.run([sim, *words], check=True)
    for case in ("ring 8", "ring 64", "ring 512", "ring 1024", "ring 4096", "ring 1024 aware", "halving 4096",
                 "halving 4096 aware", "direct 512", "direct 512 aware", "3d 4096", "3d 4096 aware"):
        subprocess.run([args.build / "bench/messages", *case.split()], check=True)
    for model in ("gpt3-175b", "llama3.1-405b"):
        for what in ("estimate", "simulate"):
            subprocess.run([args.build / "bench/bench_plans", what, model, "h100-24k"], check=True)
    for words in (["explore_bars", "full"], ["explore_bars", "known"], ["explore_points"]):
        if words[-1] != "known" or "ORRERY_SHARED" in os.environ:
            subprocess.run([(args.build / "bench" / words[0]).resolve(), *words[1:]], check=True, cwd=ROOT)
    run_whole("simulate llama3.1-405b on 131,072 ranks", [orrery, "simulate", "llama3.1-405b", "--cluster",
              ROOT / "examples/clusters/h100_131k.yaml", "--plan", "tp=8,pp=16,dp=1024,batch=32768,seq=8k,zero=1,recompute=full"])
    with tempfile.TemporaryDirectory() as folder:
        million = pathlib.Path(folder) / "synthetic_1m.json"
        with open(million, "wb") as out:
            subprocess.run([synth, "1000000"], stdout=out, check=True)
        inside("read", million)
        inside("convert", million)
        inside("analyze", million)
        run_whole("orrery analyze --all, synthetic 1m", [orrery, "analyze", "--all", "-q", "-f", "json", million], runs=3)
    if TRACES.is_dir():
        ddp = TRACES / "kineto" / "ddp_a100_w8_rank3.json.gz"
        negq = TRACES / "kineto" / "a100_w16_missing_launches.json.gz"
        dlrm = TRACES / "dlrm_v100x8"
        for trace in (ddp, negq):
            inside("read", trace)
            inside("convert", trace)
            inside("analyze", trace)
        inside("convert", dlrm / "rank0.device.json.gz", dlrm / "rank0.host.json.gz")
        run_whole("orrery analyze --all, ddp_a100_w8_rank3.json.gz",
                  [orrery, "analyze", "--all", "-q", "-f", "json", ddp])
        run_whole("orrery analyze --all, dlrm_v100x8, 8 pairs", [orrery, "analyze", "--all", "-q", "-f", "json", dlrm])
    else:
        print(json.dumps({"left out": f"the traces of other projects: no {TRACES}"}))
    run_whole(f"orrery analyze --all, synthetic {args.events} events from a pipe",
              [orrery, "analyze", "--all", "-q", "-f", "json", "-"], stdin=[synth, str(args.events)], runs=1)


if __name__ == "__main__":
    main()
