#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recommendation models, as somebody trains them over ranks: killed, resumed on other ranks, exported."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import BIN, EXAMPLES, PATIENCE_S, case, environment, latest_step, main, members, orrery, scratch, wait_for  # noqa: E402

MODEL = """
source: own
sources: {own: "made for this test"}
models:
  clicks:
    title: a small DLRM
    family: dlrm
    kind: dlrm
    dlrm:
      dense_features: 4
      dim: 16
      rows: [300, %d, 7, 4000]
      pooling: [2, 1, 1, 3]
      bottom: [16, 16]
      top: [16, 1]
"""


def job(folder, *more, dp=2, steps=8, rows=50, kind=None, threads=1):
    """The words of a small run, all tables of one kind or as by default. Its losses do not depend on how many steps it
    is to have."""
    model, plan, ranks = folder / f"clicks_{rows}.yaml", f"dp={dp},batch=48", list(range(dp))
    model.write_text(MODEL % rows)
    if kind:
        (folder / "tables.yaml").write_text(f"ranks: {dp}\npipeline: 3\ntables:\n" + "".join(
            f"  t{i}: {{kind: {kind}, ranks: {ranks}}}\n" for i in range(4)))
        plan += ",tables=tables.yaml"
    return ["train", model.name, "--plan", plan, "--steps", steps, "-j", threads, "--learning-rate-schedule",
            "constant", "--warmup", 1, "--data", "synthetic:2022,locality=0.2", *more]


def losses(folder, *more, **options):
    result = orrery(*job(folder, "-f", "json", *more, **options), cwd=folder)
    assert result.returncode == 0, f"exit {result.returncode}: {result.stderr}"
    return {row["step"]: row["loss"] for row in json.loads(result.stdout)["tables"]["steps"]["rows"]}


def sharded(folder, ranks, threads=1, pipeline=0, tables=(), *more, steps=6):
    """Losses and the digest of the final state, with a line of the plan for each table."""
    words = job(folder, "-f", "json", *more, dp=ranks, threads=threads, steps=steps)
    if tables:
        lines = "".join(f"  t{i}: {{{tables[i % len(tables)]}}}\n" for i in range(4))
        (folder / "mixed.yaml").write_text(f"ranks: {ranks}\npipeline: {pipeline}\ntables:\n{lines}")
        words[words.index("--plan") + 1] += ",tables=mixed.yaml"
    result = orrery(*words, cwd=folder)
    assert result.returncode == 0, f"exit {result.returncode}: {result.stderr}"
    said = json.loads(result.stdout)
    return {row["step"]: row["loss"] for row in said["tables"]["steps"]["rows"]}, said["state_digest"]


def refused(folder, *more, **options):
    """The one line that says why there is no run."""
    result = orrery(*job(folder, *more, **options), cwd=folder)
    assert result.returncode == 3, f"exit {result.returncode}: {result.stdout}"
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("orrery: "), result.stderr
    return result.stderr


def kill_a_rank(folder, save):
    """A run of two ranks, of which one is killed when a checkpoint of a few steps is there."""
    latest = folder / save / "latest"
    words = job(folder, "--save", save, "--save-every", 1, steps=1_000_000, kind="row")
    process = subprocess.Popen([BIN, *map(str, words)], cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        wait_for(lambda: latest.exists() and latest.read_text() >= "step-00000004", "no checkpoint is written")
        others = [number for number in members(process.pid) if number != process.pid]
        assert others, "its ranks are no processes"
        os.kill(others[-1], signal.SIGKILL)
        wrong = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 3, process.returncode
        assert len(wrong.splitlines()) == 1 and wrong.startswith("orrery: "), wrong
        wait_for(lambda: not members(process.pid), "processes are left")
    finally:
        for number in members(process.pid):
            os.kill(number, signal.SIGKILL)
        process.communicate()
    return latest_step(folder / save)


MIXES = ((1, 2), (2, 1), (3, 2), (4, 1), (2, 1, 0, ["kind: row, ranks: [0, 1]"]),
         (3, 1, 1, ["kind: data", "kind: table, ranks: [2]"]),
         (4, 2, 2, ["kind: table_row, ranks: [3, 0]", "kind: row, ranks: [0-3]", "kind: column, ranks: [1]"]),
         (1, 1, 3, ["kind: table, ranks: [0]"]), (2, 2, 3, ["kind: data", "kind: row, ranks: [1, 0]"]))


@case
def any_ranks_threads_and_sharding_have_the_same_bits():
    with scratch() as folder:
        alone = sharded(folder, 1)
        for mix in MIXES:
            other = sharded(folder, *mix)
            assert other == alone, f"{mix}: {other} and {alone}"


@case
def one_sharding_goes_on_in_another():
    with scratch() as folder:
        alone = sharded(folder, 1)
        for number, mix in enumerate(MIXES[4:]):
            ranks, threads = MIXES[number][:2]
            sharded(folder, ranks, threads, 0, (), "--save", f"kept{number}", steps=3)
            rest = sharded(folder, *mix, "--save", f"kept{number}", "--resume")
            assert rest[1] == alone[1], f"{mix}: another state"
            assert rest[0] == {step: alone[0][step] for step in (4, 5, 6)}, f"{mix}: {rest} and {alone}"


@case
def a_killed_rank_leaves_a_checkpoint_that_any_ranks_go_on_from():
    with scratch() as folder:
        step = kill_a_rank(folder, "kept")
        whole = losses(folder, steps=step + 9)
        for number, (ranks, kind) in enumerate(((2, "row"), (1, None), (3, "row"))):
            rest = losses(folder, "--save", "kept", "--resume", dp=ranks, kind=kind, steps=step + 3 * (number + 1))
            wanted = list(range(step + 3 * number + 1, step + 3 * number + 4))
            assert sorted(rest) == wanted, f"{sorted(rest)} and not {wanted}"
            assert all(rest[at] == whole[at] for at in rest), f"{ranks} ranks: {rest} and {whole}"


@case
def a_checkpoint_of_another_model_is_refused():
    with scratch() as folder:
        losses(folder, "--save", "kept", steps=2)
        said = refused(folder, "--save", "kept", "--resume", steps=4, rows=51)
        assert "table t1 is 50 x 16 in fp32" in said and "should be 51 x 16" in said, said


@case
def damaged_checkpoints_are_refused():
    with scratch() as folder:
        losses(folder, "--save", "kept", steps=2)
        path = folder / "kept" / "step-00000002" / "rank-00001.tables"
        whole = path.read_bytes()
        path.write_bytes(whole[:len(whole) // 2 + 1])
        said = refused(folder, "--save", "kept", "--resume", steps=4)
        assert "rank-00001.tables: byte " in said and "ends" in said, said
        path.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
        said = refused(folder, "--save", "kept", "--resume", steps=4)
        assert "rank-00001.tables: byte 4096: table t" in said and "damaged" in said, said
        path.unlink()
        said = refused(folder, "--save", "kept", "--resume", steps=4)
        assert "rank-00001.tables is not there" in said, said


@case
def an_exported_model_is_begun_from():
    with scratch() as folder:
        losses(folder, "--export", "model", steps=3)
        names = sorted(path.name for path in (folder / "model").iterdir())
        assert names == ["dense.safetensors", "t0.table", "t1.table", "t2.table", "t3.table"], names
        assert (folder / "model" / "t1.table").stat().st_size == 4096 + 4096, "a header, then 50 x 16 numbers"
        first = [losses(folder, "--init", "model", dp=ranks, steps=2) for ranks in (1, 2, 3)]
        assert first[0] == first[1] == first[2] != losses(folder, steps=2), first
        said = refused(folder, "--init", "model", rows=51)
        assert "model" in said and "50 x 16 in fp32" in said and "should be 51 x 16" in said, said


def exported(folder, name, form):
    result = orrery("export", "model", "-o", name, "--quantize", form, cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder / name


@case
def exported_tables_are_quantized():
    with scratch() as folder:
        losses(folder, "--export", "model", steps=3)
        same, small = exported(folder, "same", "fp32"), exported(folder, "small", "int8")
        for path in (folder / "model").iterdir():
            assert (same / path.name).read_bytes() == path.read_bytes(), path.name
        assert (small / "dense.safetensors").read_bytes() == (same / "dense.safetensors").read_bytes()
        whole, rows = (same / "t1.table").read_bytes(), (small / "t1.table").read_bytes()
        for row in range(50):
            numbers = struct.unpack_from("<16f", whole, 4096 + 64 * row)
            scale, *units = struct.unpack_from("<f16b", rows, 4096 + 20 * row)
            assert all(abs(x - scale * q) <= 0.51 * scale for x, q in zip(numbers, units)), row


MACHINE = """
schema: orrery.machine/1
cpu: made up
isa: none
when: never
cores: 2
read_bytes_per_s: 1e10
copy_bytes_per_s: 1e10
flops_fp32: 1e11
flops_bf16: 1e11
cache_bytes: 1000000
base_bytes: 1
kernels:
  - [copy, fp32, 0, false, 1, 16, 512, 0, 0, 65536, 10000, 0]
transfers:
  - [all_to_all, 2, 1000, 1000]
"""


@case
def a_run_is_measured_in_parts_and_predicted():
    with scratch() as folder:
        (folder / "machine.yaml").write_text(MACHINE)
        for ranks, kind in ((1, None), (2, "row"), (3, None)):
            said = orrery(*job(folder, "--predict", "--machine", "machine.yaml", "--format", "json", "-a", dp=ranks,
                               kind=kind, steps=3), cwd=folder)
            assert said.returncode == 0, said.stderr
            tables = json.loads(said.stdout)["tables"]
            figures = {row["figure"]: row for row in tables["expected"]["rows"]}
            memory = figures["peak memory of a rank"]
            assert figures["step time"]["expected"] > 0, figures
            assert 0.4 < memory["expected"] / memory["measured"] < 2.5, memory
            for row in tables["operators"]["rows"]:
                assert row["expected_ns"] > 0 or row["operator"] in ("view", "copy"), row
            made = {row["step"]: row["loss"] for row in tables["steps"]["rows"]}
            assert made == losses(folder, dp=ranks, kind=kind, steps=3), made


STORAGE = """schema: orrery.machine/1
cpu: one
isa: plain
when: before
cores: 2
read_bytes_per_s: 1
copy_bytes_per_s: 1
flops_fp32: 1
flops_bf16: 1
cache_bytes: 1
base_bytes: 1
kernels: []
transfers: []
storage:
  - path: '%s'
    engine: io_uring
    sector: 512
    bytes: 1073741824
    accesses:
      - [random_write, 512, 128, %d, 1, 1, 1]
      - [read, 1048576, 8, 2000, 1, 1, 1]
      - [write, 1048576, 8, 3000, 1, 1, 1]
"""


@case
def changed_rows_are_written_as_the_device_prefers():
    losses = set()
    for per_s, word in ((35_000, "as extents:"), (10_000_000, "as holes:")):
        with scratch() as folder:
            (folder / "machine.yaml").write_text(STORAGE % (folder.resolve(), per_s))
            result = orrery("train", EXAMPLES.parent / "models" / "small_dlrm.yaml", "--store", "rows", "--save", "saved",
                            "--machine", "machine.yaml", "--table-memory", "1MiB", "--steps", "3", cwd=folder)
            assert result.returncode == 0, result.stderr
            assert f"changed rows are written {word}" in result.stderr, result.stderr
            steps = [line.split() for line in result.stdout.splitlines()]
            losses.add(tuple(words[1] for words in steps if words[:1] in (["1"], ["2"], ["3"]) and words[1] != "steps,"))
    assert len(losses) == 1 and len(next(iter(losses))) == 3, losses


main()
