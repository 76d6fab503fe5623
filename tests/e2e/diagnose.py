#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`orrery diagnose`: every command that it prints gives the figure that it prints, and what is planted is found."""
import json
import pathlib
import shlex
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import EXAMPLES, SHARED, Skip, case, main, orrery, scratch  # noqa: E402

WORKLOADS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
REAL = ("ns_v100", "ddp_a100_w8_rank3", "resnet50_v100_2020_old_categories", "qwen1.5-0.5b_h100", "event_sync_a100")


def read(*command):
    result = orrery(*command, "-q", "--all", "--format", "json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    for name, table in document["tables"].items():
        columns = [column["name"] for column in table["columns"]]
        document["tables"][name] = [dict(zip(columns, row)) if isinstance(row, list) else row for row in table["rows"]]
    return document


def diagnose(path):
    return read("diagnose", path)


def tables(*command):
    return read(*command)["tables"]


def predicted_ns(command):
    words = shlex.split(command)
    assert words[:2] == ["orrery", "predict"], command
    result = orrery(*words[1:], "-q", "--format", "json")
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return json.loads(result.stdout)["predicted_ns"]


def check(path):
    """Commands give the figures; gains are in order, and each is at least 1 % of the replay."""
    found = diagnose(path)
    causes = found["tables"]["causes"]
    assert abs(found["replayed_ns"] - predicted_ns(f"orrery predict {shlex.quote(str(path))}")) == 0
    for row in causes:
        assert predicted_ns(row["command"]) == found["replayed_ns"] - row["gain_ns"], row
        assert row["gain_ns"] >= 0.01 * found["replayed_ns"], row
        assert row["uncertain_ns"] >= abs(found["replayed_ns"] - found["recorded_ns"]), row
    assert [row["gain_ns"] for row in causes] == sorted((row["gain_ns"] for row in causes), reverse=True)
    assert [row["place"] for row in causes] == list(range(1, len(causes) + 1))
    assert {row["place"] for row in found["tables"]["evidence"]} == {row["place"] for row in causes}
    if causes:
        assert predicted_ns(found["together_command"]) == found["together_ns"]
    assert found["together_ns"] <= found["replayed_ns"] - max([row["gain_ns"] for row in causes], default=0)
    return len(causes)


@case
def every_command_gives_its_figure_on_the_examples():
    assert sum(check(workload) for workload in WORKLOADS) >= 3


@case
def every_command_gives_its_figure_on_real_recordings():
    if SHARED is None:
        raise Skip("the shared traces are not here")
    assert sum(check(SHARED / "data" / "traces" / "kineto" / f"{name}.json.gz") for name in REAL) >= 5


class Drawing:
    """A recording of one rank by hand: a thread that launches kernels, and a stream that runs them in order."""

    def __init__(self, rank=0, ranks=1):
        self.rank, self.ranks = rank, ranks
        self.events, self.now, self.device_free, self.correlation = [], 0.0, 0.0, 0

    def event(self, cat, name, ts, dur, tid=1, pid=1, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    def call(self, name, dur, **args):
        self.event("cuda_runtime", name, self.now, dur, **args)
        self.now += dur

    def work(self, cat, name, dur, call="cudaLaunchKernel"):
        self.correlation += 1
        start = max(self.now + 6, self.device_free + 1)
        self.call(call, 5, correlation=self.correlation)
        self.now += 5
        self.event(cat, name, start, dur, tid=7, pid=0, correlation=self.correlation, stream=7, device=0)
        self.device_free = start + dur

    def wait(self, name):
        """Until the stream is empty."""
        self.call(name, max(self.device_free + 4 - self.now, 2))

    def all_reduce(self, end):
        """Begins when the device is free, and ends when `end` says so."""
        self.correlation += 1
        start = max(self.now + 6, self.device_free + 1)
        self.call("cudaLaunchKernel", 5, correlation=self.correlation)
        args = {"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "dtype": "Float",
                "Group size": self.ranks, "Process Group Name": "0", "Process Group Description": "default_pg",
                "Process Group Ranks": str(list(range(self.ranks)))}
        self.event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end - start, tid=20, pid=0,
                   correlation=self.correlation, stream=20, device=0, **args)
        self.device_free = end

    def write(self, folder):
        path = folder / f"rank{self.rank}.json"
        path.write_text(json.dumps({
            "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],
            "distributedInfo": {"rank": self.rank, "world_size": self.ranks}, "traceEvents": self.events}))
        return path


def draw(folder, plant=lambda drawing, step: None, after=lambda drawing: None, steps=5):
    """Steps of ten kernels of 60 us, launched well ahead of the device."""
    drawing = Drawing()
    for step in range(steps):
        begin = drawing.now
        plant(drawing, step)
        for _ in range(10):
            drawing.work("kernel", "gemm", 60)
            after(drawing)
        drawing.wait("cudaDeviceSynchronize")
        drawing.event("user_annotation", f"ProfilerStep#{step + 1}", begin, drawing.now - begin)
        drawing.now += 1
    return drawing.write(folder)


def load(drawing, us):
    drawing.event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", drawing.now, us)
    drawing.event("cpu_op", "aten::stack", drawing.now + 1, us - 2)
    drawing.now += us


def copy_in(drawing, us):
    drawing.work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", us, call="cudaMemcpyAsync")


PLANTS = {
    "data_loading": dict(plant=lambda d, step: load(d, 400)),
    "memory_allocation": dict(plant=lambda d, step: d.call("cudaMalloc", 300)),
    "host_device_copy": dict(plant=lambda d, step: copy_in(d, 200)),
    "first_step_warm_up": dict(plant=lambda d, step: d.call("cuModuleLoadData", 900 if step == 0 else 1)),
}
LOST_NS = {"data_loading": 5 * 400e3, "memory_allocation": 5 * 300e3, "host_device_copy": 5 * 200e3, "first_step_warm_up": 899e3}


@case
def what_is_planted_is_found_and_brings_what_was_planted():
    for cause, plant in PLANTS.items():
        with scratch() as folder:
            path = draw(pathlib.Path(folder), **plant)
            check(path)
            rows = [row for row in diagnose(path)["tables"]["causes"] if row["cause"] == cause]
            assert len(rows) == 1, (cause, diagnose(path)["tables"]["causes"])
            assert abs(rows[0]["gain_ns"] - LOST_NS[cause]) < 0.15 * LOST_NS[cause], (cause, rows)


@case
def what_is_not_planted_is_not_found():
    for cause, plant in PLANTS.items():
        with scratch() as folder:
            found = {row["cause"] for row in diagnose(draw(pathlib.Path(folder), **plant))["tables"]["causes"]}
            assert not (found & PLANTS.keys()) - {cause}, (cause, found)


@case
def a_wait_for_the_device_after_every_kernel_is_found():
    with scratch() as folder:
        path = draw(pathlib.Path(folder), after=lambda drawing: drawing.wait("cudaStreamSynchronize"))
        rows = diagnose(path)["tables"]["causes"]
        waits = [row for row in rows if row["cause"] == "host_waits_for_device"]
        # each kernel but the last of a step waits for 4 us of return, 5 us between calls and 6 us of launch
        assert len(waits) == 1 and 45 * 8e3 < waits[0]["gain_ns"] < 45 * 20e3, rows
        assert "cudaStreamSynchronize" in waits[0]["where"]


def draw_products(folder, us):
    drawing = Drawing()
    for _ in range(4):
        begin = drawing.now
        drawing.work("kernel", "ampere_sgemm_128x64_nn", us)
        drawing.event("cpu_op", "aten::mm", begin, 10, **{
            "Input Dims": [[1024, 2048], [2048, 512]], "Input type": ["float", "float"], "External id": drawing.correlation})
    drawing.wait("cudaDeviceSynchronize")
    return drawing.write(folder)


@case
def rates_of_operators_are_work_over_time():
    for us in (400, 800):
        with scratch() as folder:
            rows = tables("analyze", "--only", "operator_rates", draw_products(pathlib.Path(folder), us))["operator_rates"]
        assert [(row["op"], row["family"], row["shape"], row["count"]) for row in rows] == [("aten::mm", "gemm", "1x1024x512x2048", 4)], rows
        row = rows[0]
        assert row["flops"] == 2 * 1024 * 2048 * 512 and row["bytes"] == 4 * (1024 * 2048 + 2048 * 512 + 1024 * 512), row
        assert abs(row["flops_per_s"] / (row["flops"] / (us * 1e-6)) - 1) < 1e-9, row
        assert abs(row["bytes_per_s"] / (row["bytes"] / (us * 1e-6)) - 1) < 1e-9, row
        # an A100 has 19.5 TFLOP/s of FP32: 110 us, and more where its tiles of 128x64 do not fill all multiprocessors
        assert 110e3 < row["roofline_ns"] < 220e3 and abs(row["roofline_frac"] - row["roofline_ns"] / (us * 1e3)) < 1e-6, row
        assert row["limit"] == "compute", row


@case
def rates_without_a_known_device_have_no_roofline():
    for workload in WORKLOADS:
        rows = tables("analyze", "--only", "operator_rates", workload)["operator_rates"]
        assert any(row["family"] == "gemm" and row["flops_per_s"] > 0 for row in rows), workload
        assert all(row["roofline_ns"] is None and row["limit"] == "" for row in rows), workload


class Step(Drawing):
    """Steps of a training: operators on the thread, nested in annotations, each launching one kernel."""

    def operator(self, name, kernel_us, host_us):
        begin = self.now
        self.event("cpu_op", "aten::empty", begin, host_us)
        self.now += host_us
        self.work("kernel", "gemm", kernel_us)
        self.event("cpu_op", name, begin, self.now - begin)

    def phase(self, name, kernels, kernel_us, host_us):
        begin = self.now
        for _ in range(kernels):
            self.operator("aten::mm", kernel_us, host_us)
        self.event("user_annotation", name, begin, self.now - begin)


PHASES = {"## forward ##": 10, "## backward ##": 20, "Optimizer.step#SGD.step": 5}
NAMED = dict(zip(PHASES, ("forward", "backward", "optimizer")))


def draw_steps(folder, kernel_us, host_us, steps=4):
    """The lengths of kernels and of host work are those of a phase, by its annotation."""
    drawing = Step()
    for step in range(steps):
        begin = drawing.now
        for phase, kernels in PHASES.items():
            drawing.phase(phase, kernels, kernel_us[phase], host_us[phase])
        drawing.wait("cudaDeviceSynchronize")
        drawing.event("user_annotation", f"ProfilerStep#{step + 1}", begin, drawing.now - begin)
        drawing.now += 1
    return drawing.write(folder)


def bounds(kernel_us, host_us):
    with scratch() as folder:
        rows = tables("analyze", "--only", "phase_bounds", draw_steps(pathlib.Path(folder), kernel_us, host_us))["phase_bounds"]
    return {row["phase"]: row for row in rows}


@case
def the_side_that_bounds_a_phase_turns_with_what_is_longer():
    long = dict.fromkeys(PHASES, 200)
    short = dict.fromkeys(PHASES, 4)
    for phase in PHASES:
        found = bounds(long, short)  # the device is behind everywhere
        assert {row["bound"] for row in found.values()} == {"device"}, found
        assert all(row["idle_frac"] < 0.1 for row in found.values()), found
        found = bounds(short, long)  # the host is
        assert {row["bound"] for row in found.values()} == {"host"}, found
        assert all(row["late"] == row["launches"] and row["idle_frac"] > 0.9 for row in found.values()), found
        # longer kernels turn one phase, and no phase before it
        turned = bounds({**short, phase: 400}, long)
        assert turned[NAMED[phase]]["bound"] == "device", turned
        assert all(turned[NAMED[other]]["bound"] == "host" for other in list(PHASES)[:list(PHASES).index(phase)]), turned
        # and a slower host
        turned = bounds(long, {**short, phase: 2000})
        assert turned[NAMED[phase]]["bound"] == "host", turned
        assert turned[NAMED[phase]]["late"] > 0 and turned[NAMED[phase]]["host_bound_frac"] > 0.6, turned


@case
def kernels_barely_shorter_than_their_launches_are_the_hosts():
    """A launch each 20 us, kernels of 15 us: the device idles a quarter, and yet only the host could be faster."""
    found = bounds(dict.fromkeys(PHASES, 15), dict.fromkeys(PHASES, 10))
    assert {row["bound"] for row in found.values()} == {"host"}, found
    assert all(0.1 < row["idle_frac"] < 0.4 and row["host_bound_frac"] > 0.9 for row in found.values()), found


@case
def autograd_tells_phases_apart_where_nothing_is_annotated():
    with scratch() as folder:
        drawing = Step()
        for _ in range(4):
            for _ in range(10):
                drawing.operator("aten::mm", 200, 4)
            for _ in range(10):
                begin = drawing.now
                drawing.operator("aten::mm", 4, 200)
                drawing.event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", begin, drawing.now - begin)
            drawing.wait("cudaDeviceSynchronize")
        rows = tables("analyze", "--only", "phase_bounds", drawing.write(pathlib.Path(folder)))["phase_bounds"]
    assert {row["phase"]: row["launches"] for row in rows} == {"forward": 40, "backward": 40}, rows
    assert {row["phase"]: row["bound"] for row in rows}["forward"] == "device", rows


def draw_reduced(folder, comm_us, late):
    """Steps of ten kernels, then a reduction that the next ones wait for; launched ahead, or after a pause of the host."""
    drawing = Step(0, 2)
    for _ in range(6):
        drawing.phase("## forward ##", 10, 20, 1)
        begin = drawing.now
        if late:
            drawing.wait("cudaStreamSynchronize")
            drawing.now += late
        drawing.all_reduce(max(drawing.device_free + 1, drawing.now + 6) + comm_us)
        drawing.event("user_annotation", "## backward ##", begin, drawing.now - begin)
    return drawing.write(folder)


@case
def computation_that_waits_for_communication_is_bound_by_it():
    for comm_us, late, bound in ((20, 0, "device"), (2000, 0, "communication"), (20, 3000, "host")):
        with scratch() as folder:
            rows = tables("analyze", "--only", "phase_bounds", draw_reduced(pathlib.Path(folder), comm_us, late))["phase_bounds"]
        found = {row["phase"]: row for row in rows}
        assert found["communication"]["launches"] == 6 and found["communication"]["busy_ns"] == 6e3 * comm_us, found
        assert found["communication"]["bound"] == ("host" if late else "device"), found
        if not late:
            assert found["forward"]["bound"] == bound, (bound, found)
            assert found["forward"]["idle_host_ns"] == 0 or comm_us < 100, found


@case
def the_tree_of_operators_adds_up():
    with scratch() as folder:
        lengths = dict.fromkeys(PHASES, 30), dict.fromkeys(PHASES, 10)
        rows = tables("analyze", "--only", "operator_tree", draw_steps(pathlib.Path(folder), *lengths))["operator_tree"]
    by_path = {row["path"]: row for row in rows}
    assert list(by_path)[:3] == ["## backward ##", "## backward ##;aten::mm", "## backward ##;aten::mm;aten::empty"], list(by_path)
    for phase, kernels in PHASES.items():
        top, mm, empty = (by_path[phase + below] for below in ("", ";aten::mm", ";aten::mm;aten::empty"))
        assert [row["depth"] for row in (top, mm, empty)] == [0, 1, 2]
        assert top["count"] == 4 and mm["count"] == 4 * kernels and mm["count_per_step"] == kernels, mm
        assert mm["host_total_ns"] == 4 * kernels * 20e3 and mm["host_self_ns"] == 4 * kernels * 10e3, mm
        assert top["host_self_ns"] == 0 and top["host_per_step_ns"] == kernels * 20e3, top
        assert top["kernels"] == mm["kernels"] == 4 * kernels and empty["kernels"] == 0
        assert top["kernel_total_ns"] == mm["kernel_self_ns"] == 4 * kernels * 30e3 and top["kernel_self_ns"] == 0, top


@case
def trees_of_real_recordings_add_up():
    if SHARED is None:
        raise Skip("the shared traces are not here")
    for name in REAL:
        path = SHARED / "data" / "traces" / "kineto" / f"{name}.json.gz"
        rows = tables("analyze", "--only", "operator_tree", path)["operator_tree"]
        launches = tables("analyze", "--only", "cuda_kernel_launch_stats", path)["cuda_kernel_launch_stats"]
        by_path = {row["path"]: row for row in rows}
        assert len(by_path) == len(rows) > 5, name
        for row in rows:
            above = by_path[row["path"][:-len(row["op"]) - 1]] if row["depth"] else row
            assert above["kernel_total_ns"] >= row["kernel_total_ns"] >= row["kernel_self_ns"], (name, row)
            assert row["host_total_ns"] >= row["host_self_ns"] >= 0, (name, row)
        assert sum(row["kernels"] for row in rows if row["depth"] == 0) <= len(launches), name
        assert sum(row["kernel_self_ns"] for row in rows) == sum(row["kernel_total_ns"] for row in rows if row["depth"] == 0), name


def draw_ranks(folder, slowness, steps=4, kernels=8):
    """A data-parallel job: ranks compute 100 us x their slowness a kernel, then reduce for 50 us."""
    ranks = [Drawing(rank, len(slowness)) for rank in range(len(slowness))]
    for step in range(steps):
        for drawing, slow in zip(ranks, slowness):
            drawing.begin = drawing.now
            for _ in range(kernels):
                drawing.work("kernel", "gemm", 100 * slow)
        end = max(max(drawing.device_free + 1, drawing.now + 6) for drawing in ranks) + 50
        for drawing in ranks:
            drawing.all_reduce(end)
            drawing.wait("cudaDeviceSynchronize")
            drawing.event("user_annotation", f"ProfilerStep#{step + 1}", drawing.begin, drawing.now - drawing.begin)
            drawing.now += 1
    for drawing in ranks:
        drawing.write(folder)
    return folder


def slow_ones(folder, slowness):
    found = diagnose(draw_ranks(folder, slowness))
    check(folder)
    return found, {row["where"]: row for row in found["tables"]["causes"] if row["cause"] in ("slow_rank", "slow_stage", "load_imbalance")}


@case
def a_slow_rank_is_found_wherever_it_stands():
    for slow in range(4):
        with scratch() as folder:
            found, rows = slow_ones(pathlib.Path(folder), [1.5 if rank == slow else 1 for rank in range(4)])
            assert set(rows) == {f"rank {slow}", "all ranks"}, rows
            planted = 4 * 8 * 50e3  # steps x kernels x what each takes longer
            for row in rows.values():
                assert abs(row["gain_ns"] - planted) < 0.02 * planted, row
            assert rows[f"rank {slow}"]["lost_ns"] == planted, rows
            workers = tables("analyze", "--only", "slow_workers", folder)["slow_workers"]
            assert [(row["part"], row["number"]) for row in workers] == [("rank", slow), ("all", 0)], workers
            for row in workers:  # without: 4 steps of 800 us, a reduction of 50 us, and what lies between
                assert abs(row["gain_ns"] - planted) < 0.02 * planted, row
                assert abs(row["slowdown"] - (row["without_ns"] + planted) / row["without_ns"]) < 0.01, row
                assert 1.4 < row["slowdown"] < 1.5, row


@case
def equal_ranks_have_no_straggler():
    with scratch() as folder:
        assert slow_ones(pathlib.Path(folder), [1] * 4)[1] == {}
        assert tables("analyze", "--only", "slow_workers", folder)["slow_workers"] == []


@case
def one_of_two_slow_ranks_alone_brings_nothing():
    with scratch() as folder:
        found, rows = slow_ones(pathlib.Path(folder), [1, 1.5, 1, 1.5, 1, 1])
        # one alone brings nothing, for the other is as slow
        assert set(rows) == {"all ranks"}, rows


if __name__ == "__main__":
    main()
