#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Databases of rocprofv3: those of a Kineto recording say what that recording says."""
import gzip
import json
import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import rocpd  # noqa: E402
from harness import case, main, orrery, scratch  # noqa: E402
from recordings import BUNDLED, Recordings, fails  # noqa: E402

RECORDINGS = Recordings(rocpd, ".db", ("bert-small_h100", "ddp_a100_w8_rank3", "nsfw-vit_h100", "ns_v100",
                                       "qwen1.5-0.5b_h100"))
RECORDINGS.cases()
reduced, said = RECORDINGS.reduced, RECORDINGS.said


@case
def ranks_are_in_the_environment():
    with scratch() as folder:
        for rank, path in enumerate(BUNDLED):
            launched = ({"RANK": str(1 - rank), "SLURM_PROCID": "7", "WORLD_SIZE": "2"} if rank == 0 else
                        {"OMPI_COMM_WORLD_RANK": str(1 - rank), "OMPI_COMM_WORLD_SIZE": "2", "OTHER": "x"})
            rocpd.write(folder / f"{100 + rank}_results.db", reduced(path), launched)
        info = json.loads(orrery("info", folder, "--format", "json").stdout)
        rows = info["tables"]["recordings"]["rows"]
        assert [(r["rank"], r["world_size"], r["source"]) for r in rows] == [(0, 2, "rocpd"), (1, 2, "rocpd")], rows
        assert rows[0]["files"].endswith("101_results.db"), rows
        first = (folder / "100_results.db").read_bytes()
        (folder / "100_results.db").unlink()
        (folder / "100_results.db.gz").write_bytes(gzip.compress(first))
        assert orrery("validate", folder).stdout.count("rocpd, ") == 2


@case
def calls_of_rccl_name_the_collective():
    with scratch() as folder:
        recording = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}],
                     "baseTimeNanoseconds": 0, "traceEvents": [
            {"ph": "X", "cat": "cuda_runtime", "name": "hipExtLaunchKernel", "pid": 7, "tid": 8, "ts": 2.0, "dur": 1.0,
             "args": {"correlation": 5}},
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_Generic_1", "pid": 0, "tid": 3, "ts": 5.0, "dur": 4.0,
             "args": {"correlation": 5, "device": 0, "stream": 3, "grid": [4, 1, 1], "block": [256, 1, 1]}}]}
        path = folder / "rank0.db"
        rocpd.write(path, recording)
        db = sqlite3.connect(path)
        db.executescript(f"""
            INSERT INTO rocpd_string{rocpd.UUID} VALUES (90, 'g', 'RCCL_API'), (91, 'g', 'ncclReduceScatter');
            INSERT INTO rocpd_event{rocpd.UUID} VALUES (90, 'g', 90, 4, 0, 0, '{{}}', '{{}}', '{{}}');
            INSERT INTO rocpd_region{rocpd.UUID} VALUES (90, 'g', 1, 7, 8, 1000, 4000, 91, 90, '{{}}');""")
        db.commit()
        collectives = said("analyze", path, "--only", "collectives")
        assert "reduce_scatter" in collectives and "4000" in collectives, collectives
        db.execute(f"UPDATE rocpd_kernel_dispatch{rocpd.UUID} SET grid_size_y = 257, workgroup_size_y = 2")  # threads
        db.commit()
        assert orrery("convert", path, "-o", folder / "out.json", "--to", "chrome").returncode == 0
        events = json.loads((folder / "out.json").read_text())["traceEvents"]
        kernel, = [e for e in events if e["ph"] == "X" and e["name"].startswith("ncclDevKernel")]
        assert kernel["args"]["grid"] == [4, 129, 1] and kernel["args"]["block"] == [256, 2, 1], kernel
        info = orrery("info", path).stdout
        assert "MI300X" in info and "sizes of communications (1)" in info, info
        db.execute("UPDATE rocpd_region_0198a1b2_c3d4_7e5f_8a9b_0c1d2e3f4a5b SET start = 'now' WHERE id = 90")
        db.commit()
        assert "of its events has no time that is possible" in fails(path)
        assert orrery("analyze", path, "--tolerant").returncode == 0


@case
def other_databases_are_refused():
    with scratch() as folder:
        path = folder / "rank0.db"
        rocpd.write(path, reduced(BUNDLED[0]))
        rocpd.write(folder / "plain.db", reduced(BUNDLED[0]), uuid="")  # as written without an identifier
        assert orrery("validate", folder / "plain.db").returncode == 0
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE rocpd_region_0abc AS SELECT * FROM rocpd_region")
        db.commit()
        assert "it has tables of several processes" in fails(path)
        db.execute("DROP TABLE rocpd_region_0abc")
        db.execute(f"ALTER TABLE rocpd_kernel_dispatch{rocpd.UUID} RENAME COLUMN stream_id TO stream")
        db.commit()
        assert "stream_id" in fails(path)
        db.execute("DROP VIEW rocpd_event")
        db.execute(f"DROP TABLE rocpd_event{rocpd.UUID}")
        db.commit()
        assert "its table rocpd_event is missing" in fails(path)
        db = sqlite3.connect(folder / "made_up.db")
        db.execute("CREATE VIEW rocpd_kernel_dispatch AS WITH RECURSIVE n(start) AS "
                   "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n")
        db.commit()
        assert "it has no call, kernel or copy" in fails(folder / "made_up.db")


case(RECORDINGS.truncation_and_corruption_never_crash)


if __name__ == "__main__":
    main()
