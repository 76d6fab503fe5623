#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/schema.json, the JSON Schema of every document and table that `orrery --format json` prints.

    schema.py BUILD [--check]

Runs each command on small inputs, but `bench`, which takes minutes, and `team`, which needs a coordinator. A table tells its own columns, as the command's column tables have them: their
names and types, and which of them are old names that another replaces ("deprecated" here). What stands beside the
tables of a document is described from what was printed. With --check the file is left alone, and the exit status is 1
where it is not up to date.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
PATH = SOURCE / "docs" / "schema.json"
PAIR = SOURCE / "examples" / "traces" / "mlp_ddp_gloo_w2"
GPT = SOURCE / "examples" / "traces" / "gpt_ddp_gloo_w2"
INPUTS = SOURCE / "tests" / "golden" / "inputs"
ROUTES = SOURCE / "examples" / "routes" / "small_moe.csv.gz"
PLACED = ["experts", ROUTES, "-c", "dgx_h100", "--ranks", "4", "--slots", "1", "--policy"]
CHECKPOINT = SOURCE / "tests" / "reference" / "checkpoints" / "llama3"
TINY = ["train", "gpt2", "--plan", "layers=1,hidden=64,heads=4,vocab=512,seq=16,batch=2", "--steps", "4", "-j", "1"]
PLAN = ["llama3.1-8b", "-c", "dgx_h100", "--plan"]
SERIES = "cuda_kernel_launch_stats,queue_length_time_series,memory_bw_time_series,memory_timeline,critical_path_pieces,collectives,slow_workers,operator_rates,operator_tree,phase_bounds"

COMMANDS = [
    ["analyze", PAIR], ["analyze", "--only", SERIES, PAIR], ["diff", PAIR, GPT], ["diagnose", GPT], ["info", PAIR], ["ops"], ["hw"],
    ["hw", "h100_sxm_80g"], ["hw", "h100_sxm_80g", "--calibration"], ["hw", "gcp_a100_two_regions"], ["hw", "h100_sxm_80g", "a100_sxm_80g"], ["models"],
    ["models", "llama3.1-8b", "mixtral-8x7b"], ["predict", PAIR], ["predict", "--explain", PAIR],
    ["predict", "--unprofiled", "auto", SOURCE / "examples" / "pairs" / "cnn.plain.json.gz"],
    ["predict", "--ranks", "8", "--network", "dgx_h100", GPT], ["replay", PAIR / "rank0.host.json.gz"],
    ["fleet", "--gpus", "1024", "--days", "5", "--repetitions", "4", "--set", "rate=500", "--replicas", "2,8", "--sensitivity"],
    ["simulate", *PLAN, "dp=8,batch=64,seq=4k"], ["simulate", *PLAN, "tp=8,batch=512,seq=8k,recompute=none"],
    ["compare", "-m", "llama3.1-8b", "-c", "dgx_h100", "dp=8,batch=64,seq=4k", "tp=2,dp=4,batch=64,seq=4k"],
    ["simulate", "--astra-system", INPUTS / "astra/system.json", "--astra-network", INPUTS / "astra/ring.yml",
     "--workload", INPUTS / "astra/step", "--compare"],
    ["simulate", "--astra-system", INPUTS / "astra/system.json", "--astra-network", INPUTS / "astra/ring.yml",
     "--workload", INPUTS / "astra/step"],
    *(["simulate", "--astra-system", INPUTS / "astra/system.json", "--astra-network", INPUTS / "astra/ring.yml",
       "--workload", INPUTS / "astra/step", "--astra-mode", mode] for mode in ("unaware", "aware")),
    ["explore", "llama3.2-1b", "--cluster", "dgx_h100", "--batch", "32",
     "--pareto", "devices", "--sensitivity", "--baselines", "production,fsdp", "--store", "runs.db"],
    ["tables", "dlrm-criteo-kaggle", "-c", "dgx_a100", "-o", "tables.yaml"],
    ["tables", "dlrm-criteo-kaggle", "-c", "dgx_a100", "--plan", "tables=tables.yaml"],
    ["tables", "dlrm-dcnv2", "-c", "dgx_a100", "--memory", "1GiB", "--kinds", "table"],
    ["experts", ROUTES, "--windows", "2"], [*PLACED, "linear", "-o", "running.yaml"],
    [*PLACED, "eplb", "--running", "running.yaml", "--windows", "2", "--dead", "1"],
    ["explore", "--published-effects"], ["sql", "runs.db"], ["sql", "runs.db", "SELECT place, plan FROM best"],
    ["score", CHECKPOINT, "text.txt"], ["score", "--all", CHECKPOINT, "text.txt"],
    ["generate", CHECKPOINT, "the quick", "--generated", "4"], TINY,
    ["generate", CHECKPOINT.parent / "mixtral", "the quick", "--generated", "4", "--ranks", "2"],
    [*TINY, "--replicas", "2", "--no-shared-memory"], ["fit", "--kind", "table", "few.csv", "-o", "few.json"],
    ["synthesize", GPT, PAIR, "-o", "synthetic"],
]
# Their columns depend on what was asked: plans, policies, devices, queries.
WIDE = {"orrery.explore_waterfalls/1", "orrery.explore_sensitivity/1", "orrery.fleet_losses/1", "orrery.fleet_concurrency/1",
        "orrery.hw_comparison/1", "orrery.sql/1"}
TYPES = {"text": "string", "bool": "boolean", "uint": "integer", "int": "integer", "bytes": "integer"}


# Only where a site is used.
OPTIONAL = {"first_stage", "last_stage"}
UNKNOWN = {"description": "null, or what is known"}


def documents(build):
    """What each command prints, in a folder that is gone afterwards."""
    folder = pathlib.Path(tempfile.mkdtemp())
    env = {key: value for key, value in os.environ.items() if not key.startswith("ORRERY_")}
    try:
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n")
        shutil.copy(SOURCE / "tests" / "golden" / "fit_json" / "few.csv", folder)
        for command in COMMANDS:
            words = [str(pathlib.Path(build).resolve() / "src" / "cli" / "orrery"), *map(str, command), "-q", "--format", "json"]
            result = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120,
                                    stdin=subprocess.DEVNULL)
            if result.returncode not in (0, 4):
                sys.exit(f"{' '.join(words)}: exit {result.returncode}: {result.stderr}")
            yield command, json.loads(result.stdout)
    finally:
        shutil.rmtree(folder)


def is_table(value):
    return isinstance(value, dict) and {"schema", "columns", "rows"} <= value.keys()


def of_column(column):
    kind = TYPES.get(column["type"], "number")
    schema = {"type": [kind, "null"], "description": f"column type: {column['type']}"}
    if "replaced_by" in column:
        schema.update(deprecated=True, description=f"old name of {column['replaced_by']}, gone after one release")
    return schema


def merge(a, b):
    """The schema of what is either."""
    if a is None or a == b:
        return b
    if UNKNOWN in (a, b):
        return dict(UNKNOWN)
    if "$ref" in a or "$ref" in b:
        return a if "$ref" in a else b
    kinds = sorted({*as_list(a.get("type")), *as_list(b.get("type"))} - {None})
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    result = {**a, **b, "type": kinds if len(kinds) != 1 else kinds[0]}
    if "properties" in a or "properties" in b:
        pa, pb = a.get("properties", {}), b.get("properties", {})
        result["properties"] = {key: merge(pa.get(key), pb.get(key)) if key in pb else pa[key] for key in {**pa, **pb}}
        both = [x.get("required") for x in (a, b) if "properties" in x]
        result["required"] = sorted(set(both[0]).intersection(*both[1:]))
    if "items" in a and "items" in b:
        result["items"] = merge(a["items"] or None, b["items"]) if b["items"] else a["items"]
    return result


def as_list(kind):
    return kind if isinstance(kind, list) else [kind]


def describe(value, defs, old):
    """Schema of a value; tables and documents within it go to defs."""
    if is_table(value):
        add(value["schema"], of_table(value), defs)
        return {"$ref": "#/$defs/" + value["schema"].replace("/", "~1")}
    if isinstance(value, dict):
        properties = {key: describe(v, defs, old) for key, v in value.items()}
        for key, now in old.items():
            if key in properties and now in properties:
                properties[key] = {**properties[key], "deprecated": True, "description": f"old name of {now}, gone after one release"}
        if "schema" in value:
            properties["schema"] = {"const": value["schema"]}
        return {"type": "object", "properties": properties, "required": sorted(k for k in properties if k not in old and k not in OPTIONAL)}
    if isinstance(value, list):
        items = None
        for entry in value:
            items = merge(items, describe(entry, defs, old))
        return {"type": "array", "items": items or {}}
    kinds = {str: "string", bool: "boolean", int: "number", float: "number"}
    if value is None:
        return dict(UNKNOWN)
    return {"type": kinds[type(value)] if isinstance(value, bool) else [kinds[type(value)], "null"]}


def of_table(table):
    row = {"type": "object"}
    if table["schema"] not in WIDE:
        row["properties"] = {c["name"]: of_column(c) for c in table["columns"]}
        row["required"] = sorted(c["name"] for c in table["columns"] if "replaced_by" not in c)
        row["additionalProperties"] = False
    column = {"type": "object", "required": ["name", "type"]}
    return {"type": "object", "required": ["columns", "rows", "schema", "title"],
            "properties": {"schema": {"const": table["schema"]}, "title": {"type": ["string", "null"]},
                           "columns": {"type": "array", "items": column}, "rows": {"type": "array", "items": row}}}


def add(name, schema, defs):
    defs[name] = merge(defs.get(name), schema)


# Keys and tables of documents that have a new name.
OLD = {"classes": "rank_classes", "one_step": "single_step", "ended": "finished", "equal": "states_equal",
       "relief": "memory_options", "moved": "waterfall_change", "limits": "bottlenecks", "needs": "break_even",
       "front": "pareto_front"}


def make(build):
    defs, roots = {}, set()
    for _, document in documents(build):
        roots.add(document["schema"])
        if is_table(document):
            describe(document, defs, OLD)
        else:
            add(document["schema"], describe(document, defs, OLD), defs)
    for name in roots:
        defs[name].setdefault("properties", {}).setdefault("version", {"type": "string"})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "what orrery prints with --format json",
            "description": "Generated by tools/schema.py. Names end in their unit: _ns, _bytes, _bytes_per_s, _frac. "
                           "Null: not known. Deprecated names hold what the new ones hold, for one release.",
            "oneOf": [{"$ref": "#/$defs/" + name.replace("/", "~1")} for name in sorted(roots)],
            "$defs": dict(sorted(defs.items()))}


def text_of(schema):
    """A line each definition, so that a change can be read."""
    head = {key: value for key, value in schema.items() if key != "$defs"}
    defs = ",\n".join(f" {json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in schema["$defs"].items())
    return json.dumps(head, indent=1)[:-2] + ',\n "$defs": {\n' + defs + "\n }\n}\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    made = text_of(make(options.build))
    if options.check:
        sys.exit(0 if PATH.read_text() == made else f"{PATH} is not up to date: tools/schema.py {options.build}")
    PATH.write_text(made)
