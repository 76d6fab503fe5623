#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chakra files as JSON and text: what other tools write of them and read."""
import csv
import gzip
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import EXAMPLES, SHARED, SOURCE, Skip, case, main, orrery, scratch  # noqa: E402


def good(*args):
    result = orrery(*args)
    assert result.returncode == 0, f"{args}: exit {result.returncode}: {result.stderr}"
    return result.stdout


def objects(text):
    """JSON values one after the other."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def traces():
    if SHARED is None:
        raise Skip("the shared traces are not here")
    return SHARED / "data" / "traces"


@case
def json_is_what_chakras_jsonizer_writes():
    files = sorted((traces() / "expected").glob("*.chakra_converter.et.gz"))
    assert files
    for path in files:
        want = str(path).replace("chakra_converter.et", "chakra_jsonizer.json")
        assert objects(good("convert", "-q", path, "--to", "json", "-o", "-")) == \
            objects(gzip.open(want, "rt").read()), path


@case
def an_object_for_each_record():
    for path in sorted(EXAMPLES.rglob("*.json.gz")):
        with scratch() as where:
            good("convert", "-q", path, "-o", where / "rank0.et")
            table = csv.DictReader(io.StringIO(good("info", "-q", "-f", "csv", where / "rank0.et")))
            assert len(objects(good("convert", "-q", where / "rank0.et", "--to", "json", "-o", "-"))) == \
                int(next(table)["records"])


@case
def generated_files_are_those_of_chakras_generator():
    want = sorted((traces() / "chakra" / "generator").glob("*.et"))
    with scratch() as where:
        good("chakra", "generate", "--ranks", "2", "-o", where / "job")
        assert [path.name for path in sorted((where / "job").glob("*.et"))] == [path.name for path in want]
        for path in want:
            there, here = [objects(good("convert", "-q", file, "--to", "json", "-o", "-"))
                           for file in (path, where / "job" / path.name)]
            first = int(there[1].get("id", 0))  # the generator counts over all of its files
            for node in there[1:]:
                node["id"] = str(int(node.get("id", 0)) - first)
                node["dataDeps"] = [str(int(dep) - first) for dep in node.get("dataDeps", [])]
            for node in here[1:]:
                node.setdefault("id", "0")
                node.setdefault("dataDeps", [])
            assert here == there, path


@case
def generated_files_are_as_large_as_asked_for():
    with scratch() as where:
        good("chakra", "generate", "all_reduce", "compute_chain", "--ranks", "3", "--size", "4096", "--runtime", "7",
             "-o", where)
        assert len(list(where.glob("*.et"))) == 6
        assert '"comm_size",\n      "int64Val": "4096"' in good("chakra", "json", where / "ALL_REDUCE.2.et")
        chain = objects(good("chakra", "json", "-q", where / "two_comp_nodes_dependent.0.et"))
        assert [node["durationMicros"] for node in chain[1:]] == ["7", "7"] and chain[2]["dataDeps"] == ["0"]
        good("validate", *sorted(where.glob("ALL*.et")))


@case
def protoc_reads_the_text():
    if not shutil.which("protoc"):
        raise Skip("there is no protoc")
    schema = (SOURCE / "tests" / "unit" / "trace" / "chakra_et.proto").read_text().replace(
        "int32 type", "NodeType type").replace(
        "string types = 3;", "string types = 3; string strides = 4;")
    schema += """message File { GlobalMetadata metadata = 1; repeated Node node = 2; }
        enum NodeType { INVALID_NODE = 0; METADATA_NODE = 1; MEM_LOAD_NODE = 2; MEM_STORE_NODE = 3; COMP_NODE = 4;
                        COMM_SEND_NODE = 5; COMM_RECV_NODE = 6; COMM_COLL_NODE = 7; }"""
    with scratch() as where:
        (where / "file.proto").write_text(schema)
        for kind in ["all_reduce", "metadata"]:
            good("chakra", "generate", kind, "--ranks", "1", "-o", where)
        files = sorted(where.glob("*.et")) + sorted(EXAMPLES.rglob("*.json.gz"))
        for path in files:
            text = good("convert", "-q", path, "--to", "text", "-o", "-")

            def protoc(way, given):
                return subprocess.run(["protoc", f"-I{where}", f"--{way}=et.File", "file.proto"], input=given,
                                      capture_output=True, check=True).stdout
            again = protoc("decode", protoc("encode", text.encode())).decode()
            floats = re.compile(r"\d+\.\d+(e[-+]\d+)?")
            assert floats.sub(lambda m: repr(float(m[0])), again) == floats.sub(lambda m: repr(float(m[0])), text), path


def converted(path, form, where):
    good("convert", "-q", path, "-o", where / f"rank0.{form}")
    return where / f"rank0.{form}"


@case
def graphml_has_every_node_and_dependency():
    space = "{http://graphml.graphdrawing.org/xmlns}"
    for path in sorted(EXAMPLES.rglob("rank0.device.json.gz")):
        with scratch() as where:
            table = next(csv.DictReader(io.StringIO(good("info", "-q", "-f", "csv", path))))
            root = xml.etree.ElementTree.parse(converted(path, "graphml", where)).getroot()
            nodes = [node.get("id") for node in root.iter(space + "node")]
            edges = [edge.find(space + "data").text for edge in root.iter(space + "edge")]
            assert len(set(nodes)) == int(table["nodes"])
            assert len([edge for edge in edges if edge != "nested"]) == int(table["dependencies"])
            assert "nested" in edges
            try:
                import networkx
            except ImportError:
                continue
            seen = networkx.read_graphml(where / "rank0.graphml")
            assert seen.is_directed() and seen.number_of_nodes() == len(nodes)


@case
def graphviz_reads_the_picture():
    if not shutil.which("dot"):
        raise Skip("there is no dot")
    with scratch() as where:
        picture = converted(SOURCE / "tests/golden/inputs/two_ranks/rank0.json", "dot", where)
        svg = subprocess.run(["dot", "-Tsvg", picture], capture_output=True, check=True, text=True)
        assert svg.stdout.count('class="node"') == 38 and not svg.stderr, svg.stderr


def steps_of(job):
    """Recorded and replayed length of each step of each rank, and of all that was recorded."""
    answer = json.loads(good("predict", "-q", "--all", "-f", "json", job))
    rows = answer["tables"].get("steps", {"rows": []})["rows"]
    return ({(row["rank"], row["name"]): (row["recorded_ns"], row["predicted_ns"]) for row in rows},
            (answer["recorded_ns"], answer["replayed_ns"]))


def off_by(pair):
    return abs(pair[1] / pair[0] - 1)


def replays_alike(job, most_frac):
    """A step reduced to replays about as long as it was recorded, and each rank's as far off as in the whole."""
    whole, _ = steps_of(job)
    ranks = len({rank for rank, _ in whole})
    for step in sorted({0, min(len(whole) // ranks, 4) - 1}):
        with scratch() as where:
            good("chakra", "reduce", "-q", job, "--step", step, "-o", where / "part%r.et")
            part, span = steps_of(where)
            assert len(part) == ranks, (job, step, part)
            for key, pair in part.items():
                assert pair[0] == whole[key][0], (job, step, key)
                assert off_by(pair) < most_frac + off_by(whole[key]), (job, step, key, pair, whole[key])
            assert off_by(span) < most_frac, (job, step, span)


@case
def a_step_replays_as_in_the_whole():
    for name in ("dlrm_gloo_w2", "gpt_ddp_gloo_w2", "mlp_ddp_gloo_w2", "moe_gloo_w2"):
        replays_alike(EXAMPLES / name, 0.025)


@case
def a_step_of_a_device_that_runs_behind_replays_as_in_the_whole():
    for name in ("a100_w16_missing_launches", "ddp_a100_w8_rank3", "ns_v100", "qwen1.5-0.5b_h100",
                 "resnet50_v100_2020_old_categories", "w128_rank0_noflows"):
        replays_alike(traces() / "kineto" / f"{name}.json.gz", 0.025)


@case
def a_sample_of_ranks_replays_as_in_the_whole():
    def ranks_of(job):
        rows = json.loads(good("predict", "-q", "--all", "-f", "json", job))["tables"]["ranks"]["rows"]
        return {row["rank"]: row["predicted_ns"] for row in rows}

    with scratch() as where:
        good("chakra", "reduce", "-q", traces() / "dlrm_v100x8", "--ranks", "every:4", "-o", where / "part%r.et")
        whole, part = ranks_of(traces() / "dlrm_v100x8"), ranks_of(where)
        assert sorted(part) == [0, 4] and len(whole) == 8
        for rank, ns in part.items():
            assert off_by((whole[rank], ns)) < 0.01, (rank, ns, whole[rank])
        assert "a sample, 2 of 8 ranks" in good("validate", "-q", where)


@case
def a_subtree_replays_as_long_as_it_was_recorded():
    for name in ("## forward ##", "## backward ##", "Optimizer.step#AdamW.step"):
        with scratch() as where:
            good("chakra", "reduce", "-q", EXAMPLES / "gpt_ddp_gloo_w2", "--subtree", name, "-o", where / "part%r.et")
            _, span = steps_of(where)
            assert off_by(span) < 0.025, (name, span)


def reached(nodes):
    """By id of a plain file's nodes: the points, of an id its start or end, that are before the start."""
    after = {}
    for node in nodes:
        here = after[int(node.get("id", 0))] = set()
        for dep in map(int, node.get("dataDeps", [])):
            here |= {(dep, "end"), (dep, "start")} | after.get(dep, set())
        for dep in map(int, node.get("ctrlDeps", [])):
            here |= {(dep, "start")} | after.get(dep, set())
    return after


@case
def a_plain_file_keeps_its_ids_and_their_order():
    path = next((traces() / "expected").glob("*rank0.chakra_converter.et.gz"))
    whole = objects(good("chakra", "json", "-q", path))[1:]
    for name in ("DistributedDataParallel.forward", "Optimizer.step#Adagrad.step"):
        with scratch() as where:
            good("chakra", "reduce", "-q", path, "--subtree", name, "-o", where / "part.et")
            part = objects(good("chakra", "json", "-q", where / "part.et"))[1:]
            kept = {int(node.get("id", 0)) for node in part} & {int(node.get("id", 0)) for node in whole}
            assert 1 < len(kept) < len(whole)
            before, now = reached(whole), reached(part)
            for v in kept:
                assert {at for at in before[v] if at[0] in kept} == {at for at in now[v] if at[0] in kept}, v


main()
