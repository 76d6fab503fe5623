#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`orrery fit`: what it prints adds up, what it writes can be read, and both say the same each time."""
import csv
import gzip
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import SHARED, Skip, case, main, orrery, scratch  # noqa: E402

SIDES = ("train", "validation", "test")


def good(*args):
    result = orrery("fit", *args)
    assert result.returncode == 0, f"{args}: exit {result.returncode}: {result.stderr}"
    return result


def tables(*args):
    return {name: table["rows"] for name, table in
            json.loads(good(*args, "--format", "json").stdout)["tables"].items()}


def products(path):
    """Measurements that could be: 2.5 us, and an efficiency that grows with the smaller side; one per cent of noise."""
    source = random.Random(3)
    sides = (64, 96, 128, 256, 384, 512, 1024, 2048)
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["device", "family", "dtype", "dims", "ns", "op"])
        for m in sides:
            for n in sides:
                for k in (64, 128, 512, 1024):
                    smaller = min(m, n)
                    efficiency = 0.8 * smaller / (smaller + 300)
                    ns = 2500 + 1e9 * 2 * m * n * k / (efficiency * 312e12) * source.uniform(0.99, 1.01)
                    out.writerow(["a100_sxm_80g", "gemm", "fp16", f"1x{m}x{n}x{k}", round(ns), "aten::mm"])


def has_xgboost():
    with scratch() as where:
        products(where / "k.csv")
        result = orrery("fit", "--kind", "learned", where / "k.csv", "-o", where / "m.json")
        if result.returncode != 0:
            assert result.returncode == 3 and "needs XGBoost" in result.stderr, result.stderr
            assert result.stderr.count("\n") == 1 and result.stdout == "", result.stderr
            assert not (where / "m.json").exists()
        return result.returncode == 0


def recordings():
    if SHARED is None:
        raise Skip("the shared traces are not here")
    data = SHARED / "data" / "traces"
    return [data / "dlrm_v100x8", data / "kineto" / "ddp_a100_w8_rank3.json.gz",
            data / "kineto" / "qwen1.5-0.5b_h100.json.gz"]


def check(result, model):
    split = {row["family"]: row for row in result["split"]}
    assert sum(row[f"{side}_samples"] for row in split.values() for side in SIDES) == model["samples"]
    for row in result["errors"]:
        assert row["test_samples"] == split[row["family"]]["test_samples"]
        assert row["answered"] <= row["test_samples"]
        for column in ("gmae", "mape", "p90", "roofline_gmae", "roofline_mape", "roofline_p90"):
            assert (row[column] is not None) == (row["answered"] > 0), row
        if row["answered"]:
            assert 0 <= row["gmae"] <= row["mape"] + 4e-4, row
    stored = {("table", family["family"]): family for family in model.get("table", {"families": []})["families"]}
    stored |= {("learned", family["family"]): family for family in model.get("learned", {"families": []})["families"]}
    for row in result["errors"]:
        family = stored.get((row["model"], row["family"]))
        assert (family["error_frac"] if family else None) == row["mape"], row


@case
def trees_and_table_do_better_than_the_roofline_on_what_they_did_not_see():
    with scratch() as where:
        products(where / "k.csv")
        result = tables(where / "k.csv", "-o", where / "m.json")
        check(result, json.loads((where / "m.json").read_text()))
        assert [row["model"] for row in result["errors"]] == ["table", "learned"] if has_xgboost() else ["table"]
        for row in result["errors"]:
            assert row["answered"] > 30 and row["mape"] < 0.15 and row["mape"] < row["roofline_mape"] / 2, row


@case
def without_xgboost_the_table_is_made_and_it_is_said():
    if has_xgboost():
        raise Skip("XGBoost is here")
    with scratch() as where:
        products(where / "k.csv")
        result = good(where / "k.csv", "-o", where / "m.json")
        assert "only the table is made" in result.stderr
        assert "learned" not in json.loads((where / "m.json").read_text())


@case
def real_recordings_add_up():
    for path in recordings():
        with scratch() as where:
            result = tables("-q", path, "-o", where / "m.json")
            check(result, json.loads((where / "m.json").read_text()))


@case
def recordings_of_several_devices_make_one_model():
    with scratch() as where:
        result = tables("-q", *recordings(), "-o", where / "m.json")
        model = json.loads((where / "m.json").read_text())
        check(result, model)
        assert len(model["devices"]) == 3, model["devices"]
        assert model["sources"] == [path.name for path in recordings()]


@case
def the_same_input_gives_the_same_bytes():
    with scratch() as where:
        products(where / "k.csv")
        with gzip.open(where / "k.csv.gz", "wb") as file:
            file.write((where / "k.csv").read_bytes())
        texts = [good(where / name, "-o", where / f"{i}.json").stdout
                 for i, name in enumerate(("k.csv", "k.csv", "k.csv.gz"))]
        assert texts[0] == texts[1] == texts[2]
        models = [(where / f"{i}.json").read_text() for i in range(3)]
        assert models[0] == models[1]
        assert models[0] == models[2].replace("k.csv.gz", "k.csv")


@case
def another_seed_tests_on_other_shapes():
    with scratch() as where:
        products(where / "k.csv")
        first, second = (tables("--kind", "table", "--seed", str(seed), where / "k.csv", "-o", where / "m.json")
                         for seed in (1, 2))
        assert first["errors"] != second["errors"]


main()
