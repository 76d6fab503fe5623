#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of torch.cuda.memory: what the allocator held, in every form of the file; and nothing is ever executed."""
import gzip
import json
import os
import pathlib
import pickle
import pickletools
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import torch_memory  # noqa: E402
from harness import EXAMPLES, SOURCE, case, main, one_line, orrery, scratch  # noqa: E402


def table(path, only, *more):
    result = orrery("analyze", path, "--only", only, "--format", "json", *more)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["tables"][only]["rows"]


def timeline(path):
    """{series: [(ns, bytes)]}, without the points that draw steps."""
    series = {}
    for row in table(path, "memory_timeline"):
        series.setdefault(row["series"], []).append((row["at_ns"], int(row["value"])))
    return series


def holds(series, told, base_us):
    """Each time and total that the simulated allocator told is a point of the series."""
    points = set(series)
    return [row for row in told if ((row[0] - base_us) * 1000, row[1]) not in points]


def fails(path, *more):
    return one_line(orrery("analyze", path, *more), 3)


@case
def totals_are_the_allocators_in_every_form():
    for devices, events, drop in ((1, 60, 0), (1, 1, 0), (2, 40, 0), (3, 1500, 0), (1, 80, 30), (2, 2200, 900)):
        content, allocated, reserved = torch_memory.simulate(devices, events, drop=drop)
        base = min(trace[0]["time_us"] for trace in content["device_traces"])
        with scratch() as folder:
            seen = []
            for protocol in (2, 3, 4, 5):
                (folder / f"{protocol}.pickle").write_bytes(pickle.dumps(content, protocol))
            (folder / "optimized.pickle").write_bytes(pickletools.optimize(pickle.dumps(content, 4)))
            (folder / "x.json").write_text(json.dumps(content))
            (folder / "x.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
            for path in sorted(folder.iterdir()):
                seen.append(timeline(path))
                assert seen[-1] == seen[0], path
            for device in range(devices):
                missing = holds(seen[0][f"cuda:{device} allocated"], allocated[device], base)
                assert not missing, (devices, events, drop, device, missing[:3])
                missing = holds(seen[0].get(f"cuda:{device} reserved", []), reserved[device], base)
                assert not missing, (devices, events, drop, device, missing[:3])


@case
def a_summary_says_the_peak():
    content, allocated, reserved = torch_memory.simulate(1, 300)
    with scratch() as folder:
        (folder / "rank3.pickle").write_bytes(pickle.dumps(content))
        row, = table(folder / "rank3.pickle", "memory_summary")
        assert row["peak_allocated_bytes"] == max(b for _, b in allocated[0]), row
        assert row["peak_reserved_bytes"] == max(b for _, b in reserved[0]), row
        assert row["rank"] == 3 and row["device"] == "cuda:0", row
        assert "Memory held\n" in orrery("analyze", folder / "rank3.pickle").stdout
        assert "not recorded     work of the host, work of a device, steps\n" in orrery(
            "info", folder / "rank3.pickle").stdout
        info = orrery("validate", folder / "rank3.pickle").stdout
        assert f"torch-memory, {len(content['device_traces'][0])} records" in info, info


@case
def a_trace_that_the_segments_contradict_has_no_totals():
    content, allocated, _ = torch_memory.simulate(1, 60)
    with scratch() as folder:
        content["segments"] = []
        (folder / "rank0.pickle").write_bytes(pickle.dumps(content))
        row, = table(folder / "rank0.pickle", "memory_summary")
        assert row["peak_reserved_bytes"] in (-1, None) and row["start_allocated_bytes"] == 0, row
        assert row["end_allocated_bytes"] == allocated[0][-1][1], row  # summed up from zero


def of_a_recording(folder, start_us, ranks=(0,)):
    """The bundled recordings with a time of day, and a snapshot beside each."""
    recordings = []
    for rank in ranks:
        recording = json.loads((SOURCE / f"tests/golden/inputs/two_ranks/rank{rank}.json").read_text())
        recording["baseTimeNanoseconds"] = start_us * 1000
        (folder / f"rank{rank}.json").write_text(json.dumps(recording))
        recordings.append(recording)
    torch_memory.START_US = start_us + 1000
    content, allocated, _ = torch_memory.simulate(1, 300)
    return recordings, content, allocated[0]


@case
def a_snapshot_beside_a_trace_is_its_memory_and_nothing_else():
    with scratch() as folder:
        _, content, allocated = of_a_recording(folder, 1800000000000000)
        alone = json.loads(orrery("analyze", folder, "--all", "--format", "json").stdout)["tables"]
        predicted = json.loads(orrery("predict", folder, "--host-speed", "2", "--format", "json").stdout)["predicted_ns"]
        for name in ("rank0.pickle", "snapshot.pickle"):
            (folder / name).write_bytes(pickle.dumps(content))
            both = orrery("analyze", folder, "--all", "--format", "json")
            tables = json.loads(both.stdout)["tables"]
            row, = tables.pop("memory_summary")["rows"]
            assert row["peak_allocated_bytes"] == max(b for _, b in allocated) and row["rank"] == 0, row
            told = dict(alone)
            assert told.pop("memory_summary")["rows"] == [] and tables == told
            again = json.loads(orrery("predict", folder, "--host-speed", "2", "--format", "json").stdout)
            assert again["predicted_ns"] == predicted
            first = min(t for t, _ in timeline(folder)["cuda:0 allocated"])
            assert first == content["device_traces"][0][0]["time_us"] * 1000 - 1800000000000000000 - 1000000, first
            files = orrery("info", folder).stdout
            assert f"rank0.json + {folder}/{name}" in files and "kineto 1 + torch-memory" in files, files
            said = orrery("validate", folder).stdout
            assert f"{name}: the memory of a trace that is there\n" in said and "operators" not in said, said
            (folder / name).unlink()


@case
def a_linked_pair_takes_one_too():
    with scratch() as folder:
        for name in ("rank0.host.json.gz", "rank0.device.json.gz"):
            shutil.copy(EXAMPLES / "gpt_ddp_gloo_w2" / name, folder)
        before = orrery("info", folder).stdout
        recording = json.loads(gzip.decompress((folder / "rank0.device.json.gz").read_bytes()))
        torch_memory.START_US = recording["baseTimeNanoseconds"] // 1000 + int(recording["traceEvents"][-1]["ts"])
        content, (allocated,), _ = torch_memory.simulate(1, 50)
        (folder / "rank0.pickle").write_bytes(pickle.dumps(content))
        row, = [r for r in table(folder, "memory_summary") if r["device"] == "cuda:0"]
        assert row["peak_allocated_bytes"] == max(b for _, b in allocated), row
        after = orrery("info", folder).stdout
        for kind in ("host operator", "collective", "thread", "handoff", "control", "data"):
            count = [re.findall(rf"\n +0  {kind} +(\d+)", text) for text in (before, after)]
            assert count[0] == count[1] != [], (kind, count)


@case
def a_snapshot_of_another_time_or_rank_is_refused():
    with scratch() as folder:
        recordings, content, _ = of_a_recording(folder, 1800000000000000, ranks=(0, 1))
        (folder / "rank1.pickle").write_bytes(pickle.dumps(content))
        row, = table(folder, "memory_summary")
        assert row["rank"] == 1, row
        (folder / "rank1.pickle").rename(folder / "rank2.pickle")
        assert "rank2.pickle is a memory snapshot, and it is not known of which rank" in fails(folder)
        (folder / "rank2.pickle").rename(folder / "snapshot.pickle")
        assert "snapshot.pickle is a memory snapshot" in fails(folder)
        (folder / "snapshot.pickle").rename(folder / "rank0.pickle")
        recordings[0]["baseTimeNanoseconds"] = 5
        (folder / "rank0.json").write_text(json.dumps(recordings[0]))
        assert "begin a day or more apart" in fails(folder)
        recordings[0]["baseTimeNanoseconds"] = 1800000000000000000
        recordings[0]["traceEvents"].append({
            "ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1100,
            "args": {"Bytes": 64, "Addr": 7, "Device Type": 1, "Device Id": 0}})
        (folder / "rank0.json").write_text(json.dumps(recordings[0]))
        assert "has memory events of a device itself" in fails(folder)


class Runs:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


class Plain:
    pass


@case
def no_code_is_ever_run():
    content, _, _ = torch_memory.simulate()
    with scratch() as folder:
        path = folder / "rank0.pickle"
        for hidden in (Runs(folder / "ran"), Plain(), {1, 2}, bytearray(b"x"), 3 + 4j):
            for protocol in (2, 3, 4, 5):
                for where in ("external_annotations", "allocator_settings"):
                    path.write_bytes(pickle.dumps(dict(content, **{where: [hidden]}), protocol))
                    if isinstance(hidden, (set, bytearray)) and protocol >= 4:
                        assert "is no opcode of a snapshot's pickle" in fails(path) or "can run code" in fails(path)
                    else:
                        text = fails(path)
                        assert "which can run code" in text and "at byte" in text, text
                        assert "which can run code" in fails(path, "--tolerant")
        assert not (folder / "ran").exists()


@case
def what_is_wrong_is_named_with_its_byte():
    content, _, _ = torch_memory.simulate()
    with scratch() as folder:
        path = folder / "rank0.pickle"
        whole = pickle.dumps(content, 4)
        for k in range(1, 40):
            path.write_bytes(whole[:len(whole) * k // 40])
            assert "the pickle ends too early" in fails(path)
        path.write_bytes(whole[:-1] + b"d.")
        assert f"at byte {len(whole) - 1}: 0x64 is no opcode" in fails(path)
        for at in range(0, len(whole), 7):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:])
            result = orrery("info", path)
            if result.returncode != 0:
                one_line(result, 3)
        for key, what in (("time_us", "has no time: PyTorch 2.1"), ):
            broken = json.loads(json.dumps(content))
            del broken["device_traces"][0][4][key]
            (folder / "x.json").write_text(json.dumps(broken))
            assert f"entry 5 of its traces {what}" in fails(folder / "x.json")
            assert orrery("analyze", folder / "x.json", "--tolerant").returncode == 0
        path.write_bytes(pickle.dumps(dict(content, device_traces=[[]])))
        assert "_record_memory_history() before" in fails(path)
        shared = content["device_traces"][0]
        path.write_bytes(pickle.dumps(dict(content, device_traces=[shared, shared[:1] * 2])))
        assert "an entry that is no dictionary of its own" in fails(path)
        path.write_bytes(pickle.dumps([1, 2]))
        assert "no recording of a known format" in fails(path)


if __name__ == "__main__":
    main()
