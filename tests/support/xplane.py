# SPDX-License-Identifier: Apache-2.0
"""Writes an XSpace (.xplane.pb) of a GPU from a Kineto recording, and what of that recording is left then.

Messages and stats: xplane.proto, xplane_schema.cc and the CUPTI collector of OpenXLA. No file of a GPU that a tool wrote
was seen.
"""
import re

import nsight


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


class Plane:
    """One XPlane; stats are {name: int, or text, or ("ref", text)}."""

    def __init__(self, name, stats=None):
        self.name, self.events, self.names, self.lines, self.own = name, {}, {}, {}, stats or {}

    def _id(self, names, text):
        return names.setdefault(text, len(names) + 1)

    def _stats(self, field, stats):
        out = b""
        for name, value in stats.items():
            content = number(1, self._id(self.names, name))
            if isinstance(value, tuple):
                content += number(7, self._id(self.names, value[1]))
            else:
                content += message(5, value) if isinstance(value, str) else number(4, value)
            out += message(field, content)
        return out

    def line(self, number_, name, timestamp_ns=0):
        self.lines.setdefault(number_, (name, timestamp_ns, []))

    def event(self, line, name, start_ps, duration_ps, stats=None):
        self.lines[line][2].append(message(4, number(1, self._id(self.events, name)) + number(2, start_ps) +
                                           number(3, duration_ps) + self._stats(4, stats or {})))

    def encode(self, event_stats=None):
        own = self._stats(6, self.own)
        out = message(2, self.name)
        for n, (name, at, events) in self.lines.items():
            out += message(3, number(1, n) + message(2, name) + number(3, at) + b"".join(events))
        described = {name: self._stats(5, s) for name, s in (event_stats or {}).items()}
        for name, n in self.events.items():
            out += message(4, number(1, n) + message(2, number(1, n) + message(2, name) + described.get(name, b"")))
        for name, n in self.names.items():
            out += message(5, number(1, n) + message(2, number(1, n) + message(2, name)))
        return message(1, out + own)


def reduced(recording):
    """What nsight's tables hold, without sequence numbers, sync records and calls that launch nothing."""
    recording = nsight.reduced(recording)
    events = []
    for e in recording["traceEvents"]:
        runtime = e["cat"] in ("cuda_runtime", "cuda_driver")
        if e["cat"] == "cuda_sync" or (runtime and e["args"].get("correlation", 0) <= 0):
            continue
        if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") and not isinstance(e["args"].get("stream"), int):
            continue
        step = re.fullmatch(r"ProfilerStep#(\d+)", e["name"])
        if e["cat"] == "user_annotation" and not step:
            e["name"] = "NVTX:" + e["name"]
        e["args"] = {k: v for k, v in e["args"].items() if k != "Sequence number" and not k.startswith("wait_on")}
        if step:
            e["args"]["name"] = "train"
        events.append(e)
    return dict(recording, traceEvents=events)


def details(args):
    """As the collector writes a kernel's."""
    out = []
    if "registers per thread" in args:
        out.append(f"regs:{args['registers per thread']}")
    if "shared memory" in args:
        out.append(f"static_shared:0 dynamic_shared:{args['shared memory']}")
    for key in ("grid", "block"):
        if key in args:
            out.append(f"{key}:{','.join(str(n) for n in args[key])}")
    return " ".join(out + ["occ_pct:50"])


def write(path, recording):
    """`recording` is reduced()'s."""
    events = recording["traceEvents"]
    hosts = [e["pid"] for e in events if nsight.ORDER[e["cat"]] < 2]
    host = Plane("/host:CPU", {"process_id": hosts[0] if hosts else 0})
    devices = {}
    for d in recording["deviceProperties"]:
        devices[d["id"]] = Plane(f"/device:GPU:{d['id']}", {"gpu_device_name": d["name"]})
    for e in events:
        args, cat, name = e["args"], e["cat"], e["name"]
        times = nsight.whole_ns(e["ts"]) * 1000, nsight.whole_ns(e["dur"]) * 1000
        stats = {"correlation_id": args["correlation"]} if args.get("correlation", 0) > 0 else {}
        if nsight.ORDER[cat] < 2:
            if name.startswith("ProfilerStep#"):
                stats.update(_r=1, step_num=int(name.partition("#")[2]))
                name = "train"
            host.line(e["tid"], "")
            host.event(e["tid"], name, *times, stats)
            continue
        plane = devices.setdefault(args["device"], Plane(f"/device:GPU:{args['device']}"))
        plane.line(args["stream"], f"Stream #{args['stream']}")
        if cat == "kernel":
            stats["kernel_details"] = ("ref", details(args))
        elif cat == "gpu_memcpy":
            stats["memcpy_details"] = ("ref", f"kind_src:pageable kind_dst:device size:{args['bytes']} dest:0 async:1")
        else:
            stats["Memset_details"] = ("ref", f"kind:device num_bytes:{args['bytes']} async:1")
        plane.event(args["stream"], name, *times, stats)
        for line, text in ((-1 & (1 << 63) - 1, "XLA Ops"), (7777, "Framework Ops")):  # derived from the streams
            plane.line(line, text)
            plane.event(line, "fusion.1", *times)
    base = recording["baseTimeNanoseconds"]
    environment = Plane("Task Environment", {"profile_start_time": base} if base else {})
    path.write_bytes(b"".join(p.encode() for p in [host, *devices.values(), environment]) + message(4, "host"))
