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


main()
