#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""XSpaces of JAX: real ones of two processes on CPUs, and those that say what a Kineto recording says."""
import gzip
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import xplane  # noqa: E402
from harness import SOURCE, case, main, one_line, orrery, scratch  # noqa: E402
from recordings import Recordings, fails  # noqa: E402

REAL = [SOURCE / "fuzz/corpus/xplane" / f"jax_w2_rank{r}.xplane.pb" for r in (0, 1)]

RECORDINGS = Recordings(xplane, ".xplane.pb", ("bert-small_h100", "nsfw-vit_h100", "ns_v100", "qwen1.5-0.5b_h100",
                                               "simple_add_a100", "triton"))
RECORDINGS.cases()
said = RECORDINGS.said


@case
def a_job_of_jax_is_matched_replayed_and_checked():
    with scratch() as folder:
        for rank, path in enumerate(REAL):
            (folder / f"rank{rank}.xplane.pb.gz").write_bytes(gzip.compress(path.read_bytes()))
        result = orrery("validate", folder)
        assert result.returncode == 0 and len(re.findall(r"xplane, \d+ records", result.stdout)) == 2, result.stdout
        assert orrery("info", folder).stdout.count(
            "not recorded     work of a device, shapes, sizes of communications (3), groups of communications (3), memory\n"
        ) == 2
        collectives = said("analyze", folder, "--only", "collectives")
        assert collectives.count('"all_reduce"') == 3 and '"members":2' in collectives, collectives
        steps = said("predict", folder)
        for n in range(3):
            assert f"ProfilerStep#{n}" in steps, steps
        recorded, predicted = (json.loads(steps)[k] for k in ("recorded_ns", "predicted_ns"))
        assert abs(predicted / recorded - 1) < 0.05, (recorded, predicted)


@case
def operators_of_a_tpu_are_device_work():
    plane = xplane.Plane("/device:TPU:1", {"device_type_string": "TPU v4"})
    for n, (name, events) in enumerate({
            "XLA Ops": [("while.1", 0, 9000), ("fusion.2", 0, 4000), ("all-reduce.3", 4000, 3000),
                        ("all-gather-start.4", 7000, 10), ("all-gather-done.4", 7010, 1990)],
            "Async XLA Ops": [("all-gather-start.4", 7000, 2000)], "XLA Modules": [("jit_step(1)", 0, 9000)],
            "Framework Ops": [("derived", 0, 9000)]}.items()):
        plane.line(n, name, 1000)
        for event, at, duration in events:
            plane.event(n, event, at * 1000 + 999, duration * 1000)
    with scratch() as folder:
        path = folder / "tpu.xplane.pb"
        path.write_bytes(plane.encode({"fusion.2": {"hlo_category": "convolution fusion", "flops": 12345}}))
        kernels = said("analyze", path, "--only", "gpu_kernels")
        assert "fusion.2" in kernels and "while" not in kernels and "derived" not in kernels, kernels
        found = re.findall(r'"collective":"(\w+)".*?"sum_ns":(\d+)', said("analyze", path, "--only", "collective_summary"))
        assert dict(found) == {"all_reduce": "3000", "all_gather": "1990"}, found
        info = orrery("info", path).stdout
        assert "TPU v4" in info and re.search(r"compute +2 ", info) and re.search(r"device annotation +3 ", info), info


@case
def what_hands_over_is_kept():
    plane = xplane.Plane("/host:CPU")
    plane.line(1, "python")
    plane.line(2, "pool")
    plane.event(1, "enqueue", 0, 1000000, {"_pt": 15, "_p": 5})
    plane.event(2, "before", 0, 2500000)  # without a silence that would show it
    plane.event(2, "run", 3000000, 1000000, {"_ct": 15, "_c": 5})
    plane.event(2, "later", 5000000, 1000000, {"_ct": 3, "_c": 5})  # another kind of number
    with scratch() as folder:
        path = folder / "handed.xplane.pb"
        path.write_bytes(plane.encode())
        assert re.search(r"handoff +1\n", orrery("info", path).stdout), orrery("info", path).stdout


@case
def what_is_no_xspace_is_refused_with_its_byte():
    with scratch() as folder:
        path = folder / "rank0.xplane.pb"
        content = REAL[0].read_bytes()
        for k in range(1, 40):
            path.write_bytes(content[:len(content) * k // 40])
            text = fails(path)
            assert re.search(r"byte \d+|no recording of a known format", text), text
        path.write_bytes(content + b"\x08\x01")
        assert f"at byte {len(content)}: no field of an XSpace" in fails(path)
        for k in range(1, 200):
            at = len(content) * k // 200
            path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1:])
            for more in ((), ("--tolerant",)):
                result = orrery("analyze", path, *more)
                if result.returncode != 0:
                    one_line(result, 3)
        path.write_bytes(xplane.Plane("/host:metadata").encode())
        assert "it has no event" in fails(path)
        (folder / "rank1.xplane.pb").write_bytes(b"")
        assert "rank1.xplane.pb is empty" in fails(folder)


if __name__ == "__main__":
    main()
