#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of docs/accuracy.md again.

Usage: accuracy.py BUILD [--check]

Each table stands between <!-- NAME --> and <!-- /NAME -->. Its figures are what a program prints:
`accuracy replay`, the reference tests, `orrery fit`, `jobs`. With --check the page is left alone, and the exit
status is 1 if a table differs from it. Traces and facts of other projects are read from ../shared
beside the checkout.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
PAGE = ROOT / "docs" / "accuracy.md"


def output(*command, streams=subprocess.DEVNULL):
    environment = {"ORRERY_SHARED": str(SHARED), "ORRERY_SOURCE": str(ROOT), **os.environ}
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=streams, text=True,
                          encoding="utf-8").stdout


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "--:|" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def replay(build):
    return output(build / "bench" / "accuracy", "replay")


def from_test(build, name, pattern, heads):
    text = output(build / "tests" / f"test_reference_{name}", streams=subprocess.STDOUT)
    return table(heads, re.findall(pattern, text, flags=re.MULTILINE))


def collectives(build):
    return from_test(build, "busbw", r"^(\S.*?): (\d+) points, GMAE (.*?), MAPE (.*?), max (.*)$",
                     ["judged", "points", "GMAE", "MAPE", "worst"])


def overheads(build):
    return from_test(build, "overheads_carried", r"^# (\S+) +T2: (\d+ of \d+) names, GMAE (.*?), MAPE (.*)$",
                     ["judged", "names known", "GMAE", "MAPE"])


def kernels(build):
    return from_test(build, "kernel_models", r"^# (\S+): (\d+) shapes, GMAE (.*?), MAPE (.*?),",
                     ["family", "shapes", "GMAE", "MAPE"])


def fitted(build):
    """Held-out shapes of one recording: what a fit is worth beside the roofline."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        said = json.loads(output(build / "src" / "cli" / "orrery", "fit", "-q", "--format", "json",
                                 SHARED / "data" / "traces" / "kineto" / "ddp_a100_w8_rank3.json.gz",
                                 "-o", pathlib.Path(folder) / "model.json"))
    for row in said["tables"]["errors"]["rows"]:
        if row["answered"]:
            rows.append([row["family"], row["model"], f'{row["answered"]} of {row["test_samples"]}']
                        + [f"{100 * row[key]:.1f} %" for key in ("gmae", "mape", "p90", "roofline_mape")])
    return table(["family", "model", "answered", "GMAE", "MAPE", "P90", "MAPE of the roofline, same rows"], rows)


def predict_jobs(build):
    """Predictions of published jobs with the built-in calibrations: judged rows, then fitted ones."""
    folders = [SHARED / "facts" / "tables", SHARED / "facts" / "published", SHARED / "facts" / "hardware",
               ROOT / "bench" / "jobs" / "tables"]
    return output(build / "bench" / "jobs", *(word for folder in folders for word in ("--tables", folder))).split("\n\n")


def jobs(build):
    return predict_jobs(build)[0] + "\n"


def jobs_fitted(build):
    return predict_jobs(build)[1]


def jobs_readings(build):
    return "| table | reading |\n|---|---|\n" + output(build / "bench" / "jobs", "--readings")


def unprofiled(build):
    """Each pair with the costs of all pairs of other workloads."""
    rows = []
    for pair in sorted((ROOT / "examples" / "pairs").iterdir()):
        work = pair.name.split(".")[0]
        with tempfile.TemporaryDirectory() as others:
            for other in pair.parent.iterdir():
                if not other.name.startswith(work + "."):
                    os.symlink(other, f"{others}/{other.name}")
            answer = json.loads(output(build / "src" / "cli" / "orrery", "predict", "-q", "--format", "json",
                                       "--unprofiled", others, pair))
        steps = [row["recorded_ns"] for row in answer["tables"]["steps"]["rows"]]
        bare, predicted, recorded = answer["bare_step_ns"], answer["predicted_step_ns"], sum(steps) / len(steps)
        rows.append((pair.name[:-len(".json.gz")], bare, recorded, predicted))
    shown = [[name, *(f"{ns / 1e6:.2f}" for ns in (bare, recorded, predicted)),
              *(f"{100 * (ns / bare - 1):+.1f} %" for ns in (recorded, predicted))]
             for name, bare, recorded, predicted in rows]
    means = [sum(abs(row[i] / row[1] - 1) for row in rows) / len(rows) for i in (2, 3)]
    return table(["workload and recorder", "bare, ms", "recorded", "predicted", "recorded is off by", "predicted is off by"],
                 shown + [["mean of sizes", "", "", "", *(f"{100 * mean:.1f} %" for mean in means)]])


TABLES = {"replay": replay, "unprofiled": unprofiled, "collectives": collectives, "overheads": overheads, "kernels": kernels, "fitted": fitted,
          "jobs": jobs, "jobs-fitted": jobs_fitted, "jobs-readings": jobs_readings}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"the tables rest on traces and facts that are not in the repository: no {SHARED}")
    old = page = PAGE.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        text = make(args.build.resolve())
        page, n = re.subn(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", lambda m: m[1] + text + m[2], page,
                          flags=re.DOTALL)
        if n != 1:
            sys.exit(f"{PAGE}: no place for the table '{name}'")
    if args.check:
        sys.exit(page != old)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
