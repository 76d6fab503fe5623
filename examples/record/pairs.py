#!/usr/bin/env python3
"""Record what recording costs: steps without a recorder beside recorded ones.

In one process blocks of bare steps and blocks of steps under each recorder take turns, so that what
else the machine does meets all alike. Kept of each recorder is the block that took least, and in its
Kineto trace two keys are added, in ns: "bare_step_ns", what a step of a bare block took that is
among the fastest as the kept one is among its own, and "bare_step_spread_ns", how much longer the
next such took. "execution_trace" says that there was an observer, too.

    pairs.py --out examples/pairs --rounds 12
    pairs.py --out /some/folder --only gpt_ddp --ranks 2 --recorders all
"""

import argparse
import datetime
import os
import pathlib
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule

import record
from workloads import LOCAL, WORKLOADS, Context

STEPS = 2
ALL = {**WORKLOADS, **LOCAL}
RECORDERS = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "memory": {"profile_memory": True},
    "stack": {"with_stack": True},
    "all": {"record_shapes": True, "profile_memory": True, "with_stack": True},
    "et": {"record_shapes": True, "execution_trace_observer": True},
}


def block(work, steps, after=lambda: None):
    """Seconds of each of some steps. What the profiler does between them, such as to save its
    recording after the last, is not among them."""
    seconds = []
    for i in range(steps):
        begin = time.perf_counter()
        work.step(i)
        seconds.append(time.perf_counter() - begin)
        after()
    return seconds


def recorded(work, recorder, host_path):
    """A block of steps under a recorder, after one of warm-up; what it recorded."""
    options = dict(RECORDERS[recorder])
    if options.pop("execution_trace_observer", False):
        options["execution_trace_observer"] = ExecutionTraceObserver().register_callback(host_path)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    plan = schedule(wait=0, warmup=1, active=STEPS, repeat=1)
    with profile(activities=activities, schedule=plan, **options) as prof:
        times = block(work, 1 + STEPS, prof.step)[1:]
    return sum(times) / STEPS, prof


def slowest(seconds, world):
    """Of all ranks, so that all of them keep the same block."""
    if world == 1:
        return seconds
    value = torch.tensor(seconds)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return float(value)


def run(rank, world, name, recorders, rounds, folder):
    os.chdir(folder)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    if name in WORKLOADS:
        dist.init_process_group(
            "nccl" if torch.cuda.is_available() else "gloo",
            init_method=f"file://{folder}/rendezvous",
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(minutes=2),
        )
    work = ALL[name](Context(rank, world, torch.device("cpu")))
    block(work, 8)
    bare, best = [], {}
    for i in range(rounds):
        for recorder in recorders:
            bare.append(slowest(sum(block(work, STEPS)) / STEPS, world))
            host_path = f"rank{rank}.{recorder}.host.{i}.json"
            seconds, prof = recorded(work, recorder, host_path)
            seconds = slowest(seconds, world)
            if recorder not in best or seconds < best[recorder][0]:
                best[recorder] = seconds, prof
    bare.sort()
    bare_ns, next_ns = (1e9 * bare[min(i * len(recorders), len(bare) - 1)] for i in (1, 2))
    for recorder, (seconds, prof) in best.items():
        out = pathlib.Path(f"rank{rank}.{recorder}.json")
        prof.export_chrome_trace(str(out))
        keys = f'"bare_step_ns": {bare_ns:.0f}, "bare_step_spread_ns": {next_ns - bare_ns:.0f},'
        if "execution_trace_observer" in RECORDERS[recorder]:
            keys += ' "execution_trace": 1,'
        out.write_text(out.read_text().replace("{", "{\n  " + keys, 1))
        if rank == 0:
            print(f"  {recorder}: bare {bare_ns / 1e6:.3f} ms, recorded {seconds * 1e3:.3f} ms")
    if name in WORKLOADS:
        dist.barrier()
        del work
        dist.destroy_process_group()


def keep(folder, out, label, recorder, world):
    """A file, or the folder of several ranks."""
    name = f"{label}.{recorder}"
    for rank in range(world):
        to = f"{name}.json.gz" if world == 1 else f"{name}/rank{rank}.json.gz"
        record.compress(folder / f"rank{rank}.{recorder}.json", out / to)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", choices=ALL, action="append", help="may be repeated")
    parser.add_argument("--recorders", choices=RECORDERS, action="append", help="may be repeated")
    parser.add_argument("--rounds", type=int, default=12, help="blocks of each (default 12)")
    parser.add_argument("--ranks", type=int, default=1, help="processes (default 1)")
    args = parser.parse_args()
    recorders = args.recorders or list(RECORDERS)
    for name in args.only or [n for n, w in ALL.items() if not w.cuda_only]:
        label = f"{name}_w{args.ranks}"
        print(label, flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            arguments = (args.ranks, name, recorders, args.rounds, scratch)
            mp.spawn(run, args=arguments, nprocs=args.ranks)
            for recorder in recorders:
                keep(pathlib.Path(scratch), args.out, label, recorder, args.ranks)


if __name__ == "__main__":
    main()
