# SPDX-License-Identifier: Apache-2.0
"""Writes a database of rocprofv3 from a Kineto recording, and what of that recording is left then.

Tables and columns: rocpd_tables.sql (schema 3) and generateRocpd.cpp of ROCm/rocprofiler-sdk. This is no file that
rocprofv3 wrote.
"""
import json
import sqlite3

import nsight

UUID = "_0198a1b2_c3d4_7e5f_8a9b_0c1d2e3f4a5b"
TABLES = {
    "rocpd_string": "id, guid, string",
    "rocpd_info_process": "id, guid, nid, ppid, pid, init, fini, start, end, command, environment, extdata",
    "rocpd_info_thread": "id, guid, nid, ppid, pid, tid, name, start, end, extdata",
    "rocpd_info_agent": "id, guid, nid, pid, type, absolute_index, logical_index, type_index, uuid, name, model_name, "
                        "vendor_name, product_name, user_name, extdata",
    "rocpd_info_kernel_symbol": "id, guid, nid, pid, code_object_id, kernel_name, display_name, extdata",
    "rocpd_event": "id, guid, category_id, stack_id, parent_stack_id, correlation_id, call_stack, line_info, extdata",
    "rocpd_region": "id, guid, nid, pid, tid, start, end, name_id, event_id, extdata",
    "rocpd_kernel_dispatch": "id, guid, nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start, end, "
                             "private_segment_size, group_segment_size, workgroup_size_x, workgroup_size_y, "
                             "workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, region_name_id, event_id, extdata",
    "rocpd_memory_copy": "id, guid, nid, pid, tid, start, end, name_id, dst_agent_id, dst_address, src_agent_id, "
                         "src_address, size, queue_id, stream_id, region_name_id, event_id, extdata",
}
HOST_AGENT = 0


def reduced(recording):
    """What nsight's tables hold, without memsets, sync records, registers, and without a time of day."""
    recording = nsight.reduced(recording)
    events = []
    for e in recording["traceEvents"]:
        on_device = e["cat"] in ("kernel", "gpu_memcpy")
        if e["cat"] in ("cuda_sync", "gpu_memset") or (on_device and not isinstance(e["args"].get("stream"), int)):
            continue
        kept = {k: v for k, v in e["args"].items() if not k.startswith("wait_on") and k != "registers per thread"}
        if e["cat"] == "kernel":
            kept.setdefault("grid", [1, 1, 1])
            kept.setdefault("block", [1, 1, 1])
        events.append(dict(e, args=kept))
    return dict(recording, traceEvents=events, baseTimeNanoseconds=0)


def write(path, recording, environment=None, uuid=UUID):
    """`recording` is reduced()'s."""
    db = sqlite3.connect(path)
    strings, kernels, rows = {}, {}, {table: [] for table in TABLES}

    def insert(table, **values):
        columns = TABLES[table].split(", ")
        assert set(values) <= set(columns), set(values) - set(columns)
        rows[table].append([values.get(c, {"guid": "g", "nid": 1, "extdata": "{}"}.get(c)) for c in columns])

    def string(text):
        return strings.setdefault(text, len(strings) + 1)

    for table, columns in TABLES.items():
        names = columns.split(", ")
        db.execute(f"CREATE TABLE `{table}{uuid}` (id INTEGER PRIMARY KEY, "
                   + ", ".join(f'"{c}"' for c in names[1:]) + ")")
        if uuid:
            db.execute(f"CREATE VIEW `{table}` AS SELECT * FROM `{table}{uuid}`")
    host = [e["pid"] for e in recording["traceEvents"] if nsight.ORDER[e["cat"]] < 2][0]
    insert("rocpd_info_process", id=host, pid=host, environment=json.dumps(environment or {"PATH": "/bin"}))
    insert("rocpd_info_agent", id=HOST_AGENT, type="CPU", type_index=0, name="AMD EPYC", product_name="AMD EPYC")
    for d in recording["deviceProperties"]:
        insert("rocpd_info_agent", id=d["id"] + 1, type="GPU", type_index=d["id"], name="gfx942", product_name=d["name"])
    for n, e in enumerate(recording["traceEvents"], 1):
        args, cat, name, extra = e["args"], e["cat"], e["name"], "{}"
        times = {"start": nsight.whole_ns(e["ts"]), "end": nsight.whole_ns(e["ts"]) + nsight.whole_ns(e["dur"])}
        category = {"kernel": "KERNEL_DISPATCH", "gpu_memcpy": "MEMORY_COPY"}.get(cat, "HIP_RUNTIME_API")
        if cat in ("user_annotation", "cpu_op"):
            category = "MARKER_CORE_RANGE_API"
            if cat == "cpu_op":
                name += (f", seq = {args['Sequence number']}" if "Sequence number" in args else "") + f", op_id = {n}"
            extra, name = json.dumps({"message": name}), "roctxThreadRangeA"
        insert("rocpd_event", id=n, category_id=string(category), stack_id=args.get("correlation", 0),
               parent_stack_id=0, correlation_id=0, call_stack="{}", line_info="{}", extdata=extra)
        if nsight.ORDER[cat] < 2:
            insert("rocpd_region", id=n, pid=host, tid=e["tid"], name_id=string(name), event_id=n, **times)
            continue
        agent = args["device"] + 1
        if cat == "kernel":
            kernel = kernels.setdefault(name, len(kernels) + 1)
            size = {f"workgroup_size_{x}": b for x, b in zip("xyz", args["block"])}
            size.update({f"grid_size_{x}": g * b for x, g, b in zip("xyz", args["grid"], args["block"])})
            insert("rocpd_kernel_dispatch", id=n, pid=host, tid=1, agent_id=agent, kernel_id=kernel, dispatch_id=n,
                   queue_id=1, stream_id=args["stream"], group_segment_size=args.get("shared memory"), event_id=n, **size,
                   **times)
        else:
            to = agent if "-> Device" in name or n % 2 else HOST_AGENT
            insert("rocpd_memory_copy", id=n, pid=host, tid=1, name_id=string(name), dst_agent_id=to,
                   src_agent_id=HOST_AGENT if to == agent else agent, size=args.get("bytes"), stream_id=args["stream"],
                   event_id=n, **times)
    for name, kernel in kernels.items():
        insert("rocpd_info_kernel_symbol", id=kernel, pid=host, code_object_id=1, kernel_name=f"_Z{len(name)}.kd",
               display_name=name)
    for text, n in strings.items():
        insert("rocpd_string", id=n, string=text)
    for table, all_rows in rows.items():
        if all_rows:
            db.executemany(f"INSERT INTO `{table}{uuid}` VALUES ({','.join('?' * len(all_rows[0]))})", all_rows)
    db.commit()
    db.close()
