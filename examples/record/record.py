#!/usr/bin/env python3
"""Record pairs of traces from small models that train on several ranks.

Each rank of each workload writes, from one and the same run,
  rankN.host.json.gz    the PyTorch execution trace: what was asked for, with shapes and inputs
  rankN.device.json.gz  the Kineto trace: when it ran
whose records meet at rf_id (host) and "Record function id" (device).

    record.py --out examples/traces  # gloo on CPU, or NCCL if there is a GPU
    record.py --out /some/folder --only moe --steps 50
"""

import argparse
import datetime
import gzip
import json
import os
import pathlib
import re
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule

from workloads import WORKLOADS, Context

ACTIVE_STEPS = 3


def profiler(cuda, memory, host_path, steps):
    """Profile ACTIVE_STEPS steps in mid-run. No stacks: they would name local files."""
    activities = [ProfilerActivity.CPU]
    config = None
    if cuda:
        activities.append(ProfilerActivity.CUDA)
        config = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    return profile(
        activities=activities,
        schedule=schedule(wait=0, skip_first=steps // 2, warmup=2, active=ACTIVE_STEPS, repeat=1),
        record_shapes=True,
        profile_memory=memory,
        experimental_config=config,
        execution_trace_observer=ExecutionTraceObserver().register_callback(host_path),
    )


def train(rank, world, name, folder, steps):
    """One rank of one workload. The traces are written to folder, uncompressed."""
    os.chdir(folder)  # so that the traces, which record their own name, hold no path
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(minutes=2),
    )
    work = WORKLOADS[name](Context(rank, world, device))
    dist.barrier()
    losses = []
    with profiler(cuda, work.profile_memory, f"rank{rank}.host.json", steps) as prof:
        for i in range(steps):
            losses.append(work.step(i))
            prof.step()
    prof.export_chrome_trace(f"rank{rank}.device.json")

    mean = torch.stack(losses)
    dist.all_reduce(mean)
    if rank == 0:
        mean = (mean / world).tolist()
        pathlib.Path("losses.json").write_text(json.dumps(mean))
    dist.barrier()
    del work, prof  # before the process group that DDP's reducer uses
    dist.destroy_process_group()


def summary(folder, rank):
    """How well the two files of a rank meet, in one line."""
    host = json.loads((folder / f"rank{rank}.host.json").read_text())
    device = json.loads((folder / f"rank{rank}.device.json").read_text())
    ids = {node["id"] for node in host["nodes"]}
    orphans = sum(node["ctrl_deps"] not in ids for node in host["nodes"])
    host_ids = set()
    for node in host["nodes"]:
        host_ids |= {a["value"] for a in node["attrs"] if a["name"] == "rf_id" and a["value"]}
    events = [e for e in device["traceEvents"] if "Record function id" in e.get("args", {})]
    device_ids = [e["args"]["Record function id"] for e in events]
    spans = [e["dur"] for e in events if e["name"].startswith("ProfilerStep#")]
    if not host_ids.intersection(device_ids) or len(spans) != ACTIVE_STEPS:
        sys.exit(f"{folder.name} rank {rank}: the pair is not linked, or steps are missing")
    return (
        f"  rank {rank}: {len(host['nodes'])} nodes, {len(device['traceEvents'])} events; "
        f"rf_id {len(host_ids)} host, {len(device_ids)} device, "
        f"{len(host_ids.intersection(device_ids))} shared; "
        f"step {sum(spans) / len(spans) / 1000:.1f} ms"
        + (f"; {orphans} nodes have lost their parent, record again" if orphans else "")
    )


def compress(file, out):
    """Reproducibly (no time, no name), without the host name that recent Kineto writes."""
    data = re.sub(rb'"host_name": "[^"]*"', b'"host_name": ""', file.read_bytes())
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))


def pack(folder, out, world):
    for rank in range(world):
        for kind in ("host", "device"):
            file = f"rank{rank}.{kind}.json"
            compress(folder / file, out / f"{file}.gz")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the traces")
    parser.add_argument("--only", choices=WORKLOADS, action="append", help="may be repeated")
    parser.add_argument("--steps", type=int, default=40, help="training steps (default 40)")
    cuda = torch.cuda.is_available()
    ranks = min(2, torch.cuda.device_count()) if cuda else 2
    parser.add_argument("--ranks", type=int, default=ranks, help=f"processes (default {ranks})")
    args = parser.parse_args()

    world = args.ranks
    names = args.only or [n for n, w in WORKLOADS.items() if cuda or not w.cuda_only]
    print(f"torch {torch.__version__}, {world} ranks over {'NCCL' if cuda else 'gloo'}")
    for name in names:
        if WORKLOADS[name].cuda_only and not cuda:
            sys.exit(f"{name} needs a GPU")
        label = f"{name}_{'nccl' if cuda else 'gloo'}_w{world}"
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / label
            folder.mkdir()
            mp.spawn(train, args=(world, name, str(folder), args.steps), nprocs=world)
            losses = json.loads((folder / "losses.json").read_text())
            print(f"{label}: loss {losses[0]:.3f} -> {losses[-1]:.3f} in {args.steps} steps")
            for rank in range(world):
                print(summary(folder, rank))
            pack(folder, args.out / label, world)


if __name__ == "__main__":
    main()
