# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of an export of Nsight Systems from a Kineto recording, and what of that recording is left then.

Names of tables and columns: NVIDIA's "SQLite Schema Reference"; the schema of what CUPTI tells both tools. This is no
file that nsys wrote.
"""
import sqlite3

KERNEL = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName",
          "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
          "staticSharedMemory", "dynamicSharedMemory")
COPY = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes", "copyKind",
        "srcKind", "dstKind")
SET = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "value", "bytes", "memKind")
SYNC = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "syncType", "eventId")
EVENT = ("deviceId", "contextId", "streamId", "correlationId", "globalPid", "eventId")
CALL = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue")
RANGE = ("start", "end", "eventType", "rangeId", "text", "globalTid", "endGlobalTid", "textId", "domainId")
TABLES = {"CUPTI_ACTIVITY_KIND_KERNEL": KERNEL, "CUPTI_ACTIVITY_KIND_MEMCPY": COPY, "CUPTI_ACTIVITY_KIND_MEMSET": SET,
          "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": SYNC, "CUPTI_ACTIVITY_KIND_CUDA_EVENT": EVENT,
          "CUPTI_ACTIVITY_KIND_RUNTIME": CALL, "NVTX_EVENTS": RANGE}
COPIES = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]
MEMORIES = ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"]
SYNCS = ["Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"]
ORDER = {"user_annotation": 0, "cpu_op": 0, "cuda_runtime": 1, "cuda_driver": 1, "kernel": 2, "gpu_memcpy": 3,
         "gpu_memset": 4, "cuda_sync": 5}
KEPT = {"stream", "device", "correlation", "bytes", "grid", "block", "registers per thread", "shared memory",
        "memory bandwidth (GB/s)", "Sequence number", "wait_on_stream", "wait_on_cuda_event_record_corr_id"}


def whole_ns(us):
    return round(us * 1000)


def reduced(recording):
    """The recording without what the tables cannot hold: one process, no shapes, sizes, flows, memory. Its times are
    Decimal (json's parse_float) where they are no integers, and count from its first event then, as nsys counts."""
    first = min((e["ts"] for e in recording["traceEvents"] if e.get("ph") == "X" and "ts" in e), default=0)
    pids = [e["pid"] for e in recording["traceEvents"] if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    host = max(set(pids), key=pids.count)
    events = []
    for e in recording["traceEvents"]:
        if e.get("ph") != "X" or e.get("cat") not in ORDER:
            continue
        on_host = ORDER[e["cat"]] < 2
        if on_host and e["pid"] != host:
            continue
        e = dict(e, args={k: v for k, v in e.get("args", {}).items() if k in KEPT})
        if e["args"].get("wait_on_cuda_event_record_corr_id", -1) <= 0:
            e["args"].pop("wait_on_stream", None)  # the tables know it by the call that recorded the event
        if not isinstance(e["tid"], int) or e["tid"] >= 1 << 24 or e["tid"] < 0:
            e["tid"] = e["tid"] % (1 << 24) if isinstance(e["tid"], int) and on_host else 0
        if on_host:
            e["pid"] = host % (1 << 24)
        e["ts"] = float(e["ts"] - first)
        e["dur"] = float(max(e.get("dur", 0), 0))
        if e["cat"] == "cpu_op" and e["args"].get("Sequence number", -1) < 0:
            e["args"].pop("Sequence number", None)
        if "bytes" in e["args"]:
            duration = whole_ns(e["dur"])
            e["args"]["memory bandwidth (GB/s)"] = e["args"]["bytes"] / duration if duration else 0
        events.append(e)
    events.sort(key=lambda e: ORDER[e["cat"]])
    return {"schemaVersion": 1, "deviceProperties": recording.get("deviceProperties", []),
            "baseTimeNanoseconds": recording.get("baseTimeNanoseconds", 0), "traceEvents": events}


def write(path, recording, globals_of=lambda pid: pid << 24):
    """`recording` is reduced()'s."""
    db = sqlite3.connect(path)
    strings = {}

    def string(text):
        return strings.setdefault(text, len(strings) + 1)

    for table, columns in TABLES.items():
        db.execute(f"CREATE TABLE {table} ({', '.join(f'{c!r} INTEGER' if c != 'text' else 'text TEXT' for c in columns)})"
                   .replace("'", '"'))

    def insert(table, **values):
        columns = TABLES[table]
        assert set(values) <= set(columns), set(values) - set(columns)
        db.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(columns))})", [values.get(c) for c in columns])

    host = [e["pid"] for e in recording["traceEvents"] if ORDER[e["cat"]] < 2][0]
    events = 0
    for i, e in enumerate(recording["traceEvents"]):
        args, cat = e["args"], e["cat"]
        times = {"start": whole_ns(e["ts"]), "end": whole_ns(e["ts"]) + whole_ns(e["dur"])}
        on_device = {**times, "deviceId": args.get("device", e["pid"]), "contextId": 1,
                     "streamId": args.get("stream", e["tid"]) if args.get("stream", e["tid"]) >= 0 else 0xFFFFFFFF,
                     "correlationId": args.get("correlation"), "globalPid": globals_of(host)}
        name = e["name"]
        if cat in ("user_annotation", "cpu_op"):
            if cat == "cpu_op":
                name += (f", seq = {args['Sequence number']}" if "Sequence number" in args else "") + f", op_id = {i}"
            text = {"text": name} if i % 2 else {"textId": string(name)}
            insert("NVTX_EVENTS", **times, eventType=59, globalTid=globals_of(host) | e["tid"], **text)
        elif cat in ("cuda_runtime", "cuda_driver"):
            version = "" if cat == "cuda_driver" else "_v7000"
            insert("CUPTI_ACTIVITY_KIND_RUNTIME", **times, globalTid=globals_of(host) | e["tid"],
                   correlationId=args.get("correlation"), nameId=string(name + version), returnValue=0)
        elif cat == "kernel":
            shape = {}
            for key in ("grid", "block"):
                if key in args:
                    shape.update(zip((key + "X", key + "Y", key + "Z"), args[key]))
            if "shared memory" in args:
                shape.update(staticSharedMemory=0, dynamicSharedMemory=args["shared memory"])
            insert("CUPTI_ACTIVITY_KIND_KERNEL", **on_device, demangledName=string(name), shortName=string("short"),
                   registersPerThread=args.get("registers per thread"), **shape)
        elif cat == "gpu_memcpy":
            kind, _, sides = name.removeprefix("Memcpy ").partition(" (")
            sides = [MEMORIES.index(s) if s in MEMORIES else 0xFFFFFFFF for s in sides.rstrip(")").split(" -> ")]
            insert("CUPTI_ACTIVITY_KIND_MEMCPY", **on_device, bytes=args.get("bytes"), copyKind=COPIES.index(kind),
                   srcKind=sides[0], dstKind=sides[1])
        elif cat == "gpu_memset":
            memory = name.removeprefix("Memset (").rstrip(")")
            insert("CUPTI_ACTIVITY_KIND_MEMSET", **on_device, value=0, bytes=args.get("bytes"),
                   memKind=MEMORIES.index(memory) if memory in MEMORIES else 0xFFFFFFFF)
        else:
            record = args.get("wait_on_cuda_event_record_corr_id", -1)
            if record > 0:
                events += 1
                insert("CUPTI_ACTIVITY_KIND_CUDA_EVENT", eventId=events, correlationId=record,
                       streamId=args.get("wait_on_stream"))
            insert("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **on_device, syncType=SYNCS.index(name),
                   eventId=events if record > 0 else None)
    db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(n, text) for text, n in strings.items()])
    db.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT)")
    db.executemany("INSERT INTO TARGET_INFO_GPU VALUES (?, ?)",
                   [(d["id"], d["name"]) for d in recording["deviceProperties"]])
    db.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT)")
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", [recording["baseTimeNanoseconds"]])
    db.commit()
    db.close()
