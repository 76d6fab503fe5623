# SPDX-License-Identifier: Apache-2.0
"""Makes snapshots as torch.cuda.memory._dump_snapshot() writes them, by an allocator that is simulated here.

Keys, actions and their order: torch/csrc/cuda/memory_snapshot.cpp of PyTorch. No snapshot that a GPU made was seen.
"""
import random

FRAMES = [{"filename": "/model.py", "line": 10 + i, "name": f"layer{i}"} for i in range(3)]
START_US = 1700000000000000


def simulate(devices=1, events=60, seed=5, drop=0):
    """A snapshot, and for each device what it held after each alloc and free_completed, (time_us, bytes), and after each
    change of segments, (time_us, bytes). The first `drop` entries of the trace have left its ring buffer."""
    draw = random.Random(seed)
    segments, traces, allocated, reserved = [], [], [], []
    for device in range(devices):
        live, held, trace, total, taken = [], [], [], 0, 0
        base, at = 0x7F0000000000 + (device << 36), START_US + device
        told, told_reserved = [], []

        def entry(action, addr, size, trace=trace):
            trace.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": at,
                          "frames": [FRAMES[len(trace) % 3]]})

        for _ in range(events):
            at += draw.randrange(1, 900)
            size = draw.choice([512, 1000, 70000, 5 << 20])
            if live and draw.random() < 0.4:
                addr, size = live.pop(draw.randrange(len(live)))
                entry("free_requested", addr, size)
                at += draw.randrange(3)
                entry("free_completed", addr, size)
                total -= size
                told.append((at, total))
                continue
            if taken - total < size:
                segment = 20 << 20
                entry("segment_alloc", base + taken, segment)
                held.append((base + taken, segment))
                taken += segment
                told_reserved.append((at, taken))
            live.append((base + draw.randrange(1 << 30), size))
            entry("alloc", *live[-1])
            total += size
            told.append((at, total))
        at += 1
        trace.append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": at})
        for i, (addr, size) in enumerate(held):  # all that lives is told of the first
            sizes = [s for _, s in live] if i == 0 else []
            rounded = sum((s + 511) // 512 * 512 for s in sizes)
            segments.append({"device": device, "address": addr, "total_size": size, "allocated_size": rounded,
                             "active_size": rounded, "requested_size": sum(sizes), "stream": 0, "segment_type": "large",
                             "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                             "blocks": [{"address": addr, "size": s, "requested_size": s, "state": "active_allocated",
                                         "frames": FRAMES} for s in sizes]})
        gone = {e["time_us"] for e in trace[:drop]} - {e["time_us"] for e in trace[drop:]}
        traces.append(trace[drop:])
        allocated.append([row for row in told if row[0] not in gone])
        reserved.append([row for row in told_reserved if row[0] not in gone])
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                "expandable_segments": False, "roundup_power2_divisions": {"1": 0}}
    return ({"segments": segments, "device_traces": traces, "allocator_settings": settings}, allocated, reserved)
