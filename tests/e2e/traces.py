#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command on real recordings: all that it prints can be read again, and says the same each time."""
import csv
import io
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import EXAMPLES, SHARED, Skip, case, main, orrery, scratch  # noqa: E402

WORKLOADS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())


def good(*args, **more):
    result = orrery(*args, **more)
    assert result.returncode == 0, f"{args}: exit {result.returncode}: {result.stderr}"
    return result


def tables(*args):
    return json.loads(good(*args, "--format", "json").stdout)["tables"]


def recordings():
    if SHARED is None:
        raise Skip("the shared traces are not here")
    data = SHARED / "data" / "traces"
    return [path for kind in ("kineto", "pytorch_et", "chakra") for path in sorted((data / kind).rglob("*"))
            if path.is_file() and not path.name.endswith((".tar.gz", ".tgz", ".md", ".txt"))]


@case
def every_example_is_analysed_without_a_remark():
    assert len(WORKLOADS) >= 4
    for workload in WORKLOADS:
        result = good("analyze", workload)
        assert result.stdout.startswith("2 of 2 ranks recorded, "), result.stdout[:200]
        assert result.stderr == "", result.stderr


@case
def every_example_validates():
    for workload in WORKLOADS:
        assert "no fault" in good("validate", workload).stdout


@case
def every_real_recording_is_analysed():
    for path in recordings():
        good("analyze", "-q", path)


@case
def the_output_does_not_depend_on_threads():
    for workload in WORKLOADS:
        for arguments in (["--all", "--format", "csv"], ["--all", "--format", "json"]):
            one = good("analyze", workload, "-j", "1", *arguments)
            many = good("analyze", workload, "-j", "8", *arguments)
            assert one.stdout == many.stdout


@case
def json_has_a_schema_and_every_table():
    names = [line.split()[0] for line in good("analyze", "--only", "list", "x").stdout.splitlines()]
    document = json.loads(good("analyze", "--all", "--format", "json", WORKLOADS[0]).stdout)
    assert document["schema"] == "orrery.analyze/1"
    assert document["ranks"] == 2 and document["recorded_ranks"] == 2
    assert set(document["tables"]) <= set(names)
    for name in names:
        only = tables("analyze", "--only", name, WORKLOADS[0])
        assert list(only) == [name], f"{name}: {list(only)}"


@case
def csv_and_json_say_the_same():
    for name in ("temporal_breakdown", "gpu_kernel_breakdown", "profiler_steps"):
        as_json = json.dumps(tables("analyze", "--all", "--only", name, WORKLOADS[0])[name])
        as_csv = good("analyze", "--all", "--only", name, "--format", "csv", WORKLOADS[0]).stdout
        rows = list(csv.reader(io.StringIO(as_csv)))
        assert rows and all(len(row) == len(rows[0]) for row in rows), rows[:3]
        for column in rows[0]:
            assert f'"{column}"' in as_json, column


@case
def breakdown_adds_up():
    for workload in WORKLOADS:
        text = good("analyze", "--only", "temporal_breakdown", "--format", "csv", workload).stdout
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == 2
        for row in rows:
            parts = sum(int(row[name]) for name in ("idle_ns", "compute_ns", "non_compute_ns"))
            assert parts == int(row["span_ns"]) > 0, row


@case
def a_condition_decides_the_exit_status():
    workload = WORKLOADS[0]
    held = orrery("analyze", "--fail-if", "temporal_breakdown.span_ns>1us", workload)
    assert held.returncode == 1, held.stderr
    assert "condition holds: temporal_breakdown.span_ns is" in held.stderr
    assert held.stdout, "the tables are printed all the same"
    good("analyze", "--fail-if", "temporal_breakdown.span_ns>1h", workload)


def counts(path):
    """Nodes by kind, as `info` tells them."""
    return {(row[0], row[1]): row[2] for row in rows_of(tables("info", path)["nodes"])}


def rows_of(table):
    """Rows of a table as lists, whichever way the document lays them out."""
    rows = table["rows"] if isinstance(table, dict) else table
    return [list(row.values()) if isinstance(row, dict) else row for row in rows]


@case
def et_files_read_back_with_every_node():
    with scratch() as folder:
        for workload in WORKLOADS:
            out = folder / workload.name
            good("convert", "-q", workload, "-o", out, "--to", "chakra")
            assert sorted(path.name for path in out.iterdir()) == ["rank0.et", "rank1.et"]
            before = rows_of(tables("info", workload)["recordings"])
            after = rows_of(tables("info", out)["recordings"])
            columns = good("info", "--format", "csv", workload).stdout.splitlines()[0].split(",")
            nodes = columns.index("nodes")
            assert [row[nodes] for row in before] == [row[nodes] for row in after]


@case
def et_files_of_et_files_are_the_same():
    with scratch() as folder:
        for workload in WORKLOADS:
            good("convert", "-q", workload, "-o", folder / "once", "--to", "chakra")
            good("convert", "-q", folder / "once", "-o", folder / "twice", "--to", "chakra")
            for rank in ("rank0.et", "rank1.et"):
                assert (folder / "once" / rank).read_bytes() == (folder / "twice" / rank).read_bytes(), workload


@case
def compressed_outputs_hold_the_same_bytes():
    with scratch() as folder:
        for name in ("a.et", "a.et.gz", "a.et.zst"):
            good("convert", "-q", WORKLOADS[0] / "rank0.device.json.gz", "-o", folder / name)
        plain = (folder / "a.et").read_bytes()
        assert subprocess.run(["gzip", "-dc", folder / "a.et.gz"], capture_output=True, check=True).stdout == plain
        for name in ("a.et.gz", "a.et.zst"):
            assert counts(folder / name) == counts(folder / "a.et")
            assert (folder / name).stat().st_size < len(plain)


@case
def chrome_output_is_json_that_reads_back():
    with scratch() as folder:
        for workload in WORKLOADS:
            good("convert", "-q", workload, "-o", folder / "all.json")
            events = json.loads((folder / "all.json").read_text())["traceEvents"]
            assert len(events) > 1000
            assert {event["ph"] for event in events} & {"X"}


@case
def every_real_recording_converts():
    with scratch() as folder:
        for path in recordings():
            good("convert", "-q", path, "-o", folder / "out.et")
            good("info", "-q", folder / "out.et")
            for name in ("out.json", "out.pftrace"):
                result = orrery("convert", "-q", path, "-o", folder / name)
                if "has no times" in result.stderr:
                    assert "/pytorch_et/" in str(path) or "/chakra/" in str(path), path
                    continue
                assert result.returncode == 0, f"{path}: {result.stderr}"
                assert (folder / name).stat().st_size > 0
                (folder / name).unlink()


@case
def a_real_job_of_eight_ranks():
    if SHARED is None:
        raise Skip("the shared traces are not here")
    job = SHARED / "data" / "traces" / "dlrm_v100x8"
    result = good("validate", job)
    assert "16 files, no fault" in result.stdout, result.stdout[-300:]
    assert good("analyze", job).stdout.startswith("8 of 8 ranks recorded, ")


@case
def the_demo_runs_from_anywhere():
    with scratch() as folder:
        result = good("demo", "--html", "demo.html", cwd=folder)
        assert "2 of 2 ranks recorded" in result.stdout
        page = (folder / "demo.html").read_text()
        assert page.lstrip().lower().startswith("<!doctype html") and "</html>" in page
        listed = good("demo", "list", cwd=folder).stdout.split()
        assert [name for name in listed if not name.startswith("llama3")] == [path.name for path in WORKLOADS]


@case
def quiet_answers_still_say_what_they_rest_on():
    """-q takes away progress and remarks, not what a figure rests on."""
    job = EXAMPLES / "mlp_ddp_gloo_w2"
    alone = good("predict", "-q", "--ranks", "1000", job).stdout
    assert "nothing but the number of ranks was changed, from 2 to 1000" in alone, alone[:600]
    priced = good("predict", "-q", "--network", "h100_24k", job).stdout
    assert "recorded network: not known" in priced, priced[:600]
    told = good("predict", "-q", "--ranks", "8", "--network", "h100_24k", "--traced-network", "dgx_a100", job).stdout
    assert "recorded network: dgx_a100, as stated" in told, told[:600]
    text = (
        '{"distributedInfo":{"rank":0,"world_size":2},"traceEvents":['
        '{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum","pid":0,"tid":7,"ts":1,"dur":900,'
        '"args":{"stream":7,"device":0,"correlation":1}}]}'
    )
    with scratch() as folder:
        (folder / "rank0.json").write_text(text)
        for more in ([], ["--ranks", "4"], ["--contention"]):
            kept = good("predict", "-q", "--network", "h100_24k", *more, folder / "rank0.json").stdout
            assert "1 of 1 transfers take their recorded time" in kept, kept[:600]
            assert kept.startswith("predicted 900.0 us"), kept[:100]


@case
def a_network_that_cannot_have_been_recorded_is_refused():
    """Stated, and smaller than the job: nothing could be anchored on it."""
    with scratch() as folder:
        for ranks, status in ((8, 0), (16, 3)):
            (folder / "rank0.json").write_text(
                f'{{"distributedInfo":{{"rank":0,"world_size":{ranks}}},"traceEvents":['
                '{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":900,"args":{"stream":7,"device":0,"correlation":1}}]}'
            )
            result = orrery("predict", "-q", "--network", "h100_24k", "--traced-network", "dgx_a100", folder / "rank0.json")
            assert result.returncode == status, (ranks, result.stderr)
        assert "dgx_a100 has 8 devices, and the recording is of 16 ranks" in result.stderr, result.stderr


@case
def a_pipeline_over_gloo():
    """Sends and receives are matched over ranks by the peer that their operators name."""
    job = EXAMPLES / "pipeline_gloo_w2"
    assert "4 files, no fault" in good("validate", job).stdout
    assert "24 matched collectives" in good("analyze", job).stdout
    # Gloo's send is over when its receiver has taken the data, and its record begins after that.
    steps = json.loads(good("predict", "-q", "--format", "json", job).stdout)["tables"]["steps"]["rows"]
    assert len(steps) == 6 and all(abs(row["change_frac"]) < 0.01 for row in steps), steps


main()
