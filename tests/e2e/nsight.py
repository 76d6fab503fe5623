#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports of Nsight Systems: the tables of a Kineto recording say what that recording says."""
import gzip
import pathlib
import sqlite3
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import nsight  # noqa: E402
from harness import case, main, orrery, scratch  # noqa: E402
from recordings import BUNDLED, Recordings, fails  # noqa: E402

RECORDINGS = Recordings(nsight, ".sqlite", (
    "bert-small_h100", "ddp_a100_w8_rank3", "event_sync_a100", "nsfw-vit_h100", "ns_v100", "qwen1.5-0.5b_h100",
    "simple_add_a100", "simple_add_a100_sync", "triton", "w128_rank0_noflows"))
RECORDINGS.cases()
reduced, said = RECORDINGS.reduced, RECORDINGS.said


@case
def what_the_tables_say_moves_the_answer():
    with scratch() as folder:
        path = folder / "rank0.sqlite"
        nsight.write(path, reduced(BUNDLED[0]))
        before = said("analyze", path, "--all")
        db = sqlite3.connect(path)
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 1000 WHERE rowid = 1")
        db.commit()
        assert said("analyze", path, "--all") != before
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end - 1000 WHERE rowid = 1")
        db.commit()
        assert said("analyze", path, "--all") == before


@case
def compressed_in_archives_and_of_two_ranks():
    with scratch() as folder:
        for rank, path in enumerate(BUNDLED):
            nsight.write(folder / f"rank{rank}.sqlite", reduced(path))
        want = said("analyze", folder)
        with zipfile.ZipFile(folder / "job.zip", "w", zipfile.ZIP_DEFLATED) as z:
            for rank in (0, 1):
                z.write(folder / f"rank{rank}.sqlite", f"rank{rank}.sqlite")
        result = orrery("analyze", folder / "job.zip", "--format", "json")
        if "needs libarchive" not in result.stderr and "need libarchive" not in result.stderr:
            assert result.stdout.replace(".sqlite", ".json") == want, result.stderr
        (folder / "job.zip").unlink()
        content = (folder / "rank1.sqlite").read_bytes()
        (folder / "rank1.sqlite").unlink()
        (folder / "rank1.sqlite.gz").write_bytes(gzip.compress(content))
        assert said("analyze", folder) == want
        (folder / "rank1.sqlite.gz").unlink()
        (folder / "rank1.sqlite").write_bytes(b"")
        assert "rank1.sqlite is empty" in fails(folder)


@case
def nccl_ranges_name_the_collective():
    with scratch() as folder:
        path = folder / "rank0.sqlite"
        db = sqlite3.connect(path)
        db.executescript("""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'cudaLaunchKernelExC_v11060'), (2, 'ncclKernel_unknown_RING');
            CREATE TABLE NVTX_EVENTS (start INT, "end" INT, eventType INT, text TEXT, globalTid INT);
            INSERT INTO NVTX_EVENTS VALUES (100, 900, 59, 'ncclReduceScatter', 117440513),
                                           (100, NULL, 34, 'a mark', 117440513);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, "end" INT, globalTid INT, correlationId INT, nameId INT);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (200, 300, 117440513, 5, 1), (200, 300, 33554433, 6, 1);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, "end" INT, deviceId INT, streamId INT, correlationId INT,
                                                     globalPid INT, shortName INT);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500, 5500, 0, 7, 5, 117440512, 2);""")
        db.commit()
        collectives = said("analyze", path, "--only", "collectives")
        assert "reduce_scatter" in collectives and "5000" in collectives, collectives
        info = orrery("validate", path).stdout
        assert "nsight, 5 records" in info, info
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500, 5500, 1, 7, 6, 33554432, 2)")
        db.commit()
        assert "device work of several processes" in fails(path)


@case
def other_databases_and_made_up_tables_are_refused():
    with scratch() as folder:
        db = sqlite3.connect(folder / "other.sqlite")
        db.execute("CREATE TABLE runs (a, b)")
        db.commit()
        assert "no recording of a known format" in fails(folder / "other.sqlite")
        db = sqlite3.connect(folder / "rows.sqlite")
        db.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS "
                   "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n")
        db.commit()
        assert "it has no event of CUDA or NVTX" in fails(folder / "rows.sqlite")
        db = sqlite3.connect(folder / "times.sqlite")
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, 'end')")
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('now', 5)")
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (9223372036854775807, -5)")
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 5)")
        db.commit()
        assert "row 1 of its events has no time" in fails(folder / "times.sqlite")


case(RECORDINGS.truncation_and_corruption_never_crash)


if __name__ == "__main__":
    main()
