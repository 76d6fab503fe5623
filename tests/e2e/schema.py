#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/schema.json is what the commands print, and what they print of other inputs is as it says."""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "tools")]
import schema as generator  # noqa: E402
from harness import BUILD, EXAMPLES, SANITIZED, Skip, case, main, orrery, scratch  # noqa: E402

SCHEMA = json.loads(generator.PATH.read_text())


def validator():
    try:
        import jsonschema
    except ImportError as missing:
        raise Skip("python3-jsonschema is not installed") from missing
    return jsonschema.Draft202012Validator(SCHEMA)


def must_be_valid(document, what):
    name = document["schema"]
    assert {"$ref": "#/$defs/" + name.replace("/", "~1")} in SCHEMA["oneOf"], f"{what}: {name} is in no schema"
    faults = sorted(validator().evolve(schema={"$ref": "#/$defs/" + name.replace("/", "~1"), "$defs": SCHEMA["$defs"]})
                    .iter_errors(document), key=str)
    assert not faults, f"{what}: {faults[0].message[:300]} at {list(faults[0].absolute_path)}"


@case
def the_schema_is_up_to_date():
    if SANITIZED:
        raise Skip("it runs every command: slow under sanitizers")
    made = generator.text_of(generator.make(BUILD))
    assert made == generator.PATH.read_text(), f"run tools/schema.py {BUILD}"


@case
def other_outputs_are_as_the_schema_says():
    inputs = [["analyze", EXAMPLES / "moe_gloo_w2"], ["info", EXAMPLES / "gpt_ddp_gloo_w2"], ["hw", "--kind", "links"],
              ["predict", "--straggler", "1:1.2x", EXAMPLES / "mlp_ddp_gloo_w2"], ["models", "gpt2"],
              ["simulate", "llama3.1-70b", "-c", "dgx_h100", "--task", "decode", "--prompt", "512", "--plan", "tp=8,batch=4"],
              ["fleet", "--gpus", "512", "--days", "2", "--repetitions", "3", "--policy", "sync"],
              ["explore", "llama3.2-1b", "-c", "dgx_h100", "--batch", "16", "--fix", "tp=2", "--gpus", "4"]]
    with scratch() as folder:
        for words in inputs:
            result = orrery(*words, "-q", "--format", "json", cwd=folder)
            assert result.returncode == 0, result.stderr
            must_be_valid(json.loads(result.stdout), words)


@case
def golden_outputs_are_as_the_schema_says():
    seen = 0
    for path in sorted((HERE.parent / "golden").glob("*/want")):
        text = re.search(r"--- stdout\n(\{\"schema\":.*)--- stderr", path.read_text(), re.S)
        try:
            document = json.loads(text.group(1)) if text else None
        except ValueError:  # what differs from run to run stands there as "..."
            continue
        if document:
            must_be_valid(document, path.parent.name)
            seen += 1
    assert seen >= 8, seen


@case
def a_wrong_document_is_refused():
    document = {"schema": "orrery.analyze/1", "version": "1", "ranks": "2", "recorded_ranks": 2, "tables": {}}
    try:
        must_be_valid(document, "a rank that is a text")
    except AssertionError:
        return
    raise AssertionError("it passed")


main()
