#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that nobody has run, as somebody types them: exit codes, formats, pages, traces, and plans that cannot be."""
import csv
import gzip
import html.parser
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import (BIN, PATIENCE_S, SANITIZED, SOURCE, Skip, case, environment, main, one_line, orrery,  # noqa: E402
                     scratch, wait_until_it_catches)

SMALL = ["llama3.2-1b", "--cluster", "dgx_h100"]
LARGE = ["llama3.1-405b", "--cluster", "h100_24k"]
ASTRA_SYSTEM = SOURCE / "tests" / "golden" / "inputs" / "astra" / "system.json"

# Names that would be markup or break quotes, if they were not escaped.
HOSTILE = r"""
source: shapes
sources:
  shapes: "</td><script>alert('source')</script>"
models:
  tiny-"<b>:
    family: "<i>family</i>"
    title: "</title><script>alert(1)</script> & \"quoted\\"
    layers: 8
    hidden: 512
    ffn: 2048
    heads: 8
    vocab: 32000
    context: 1024
    norm: rms
    norm_epsilon: 1e-5
    activation: swiglu
    position: rotary
    notes:
      "<u>what": ["<script>alert(2)</script>", shapes]
"""
GIANT = """
sources:
  test: "made up"
clusters:
  giant:
    device: h100_sxm_80g
    basis: assumed
    source: test
    levels:
      - {name: host, size: 8, technology: NVLink4}
      - {name: pod, size: 16384, technology: IB NDR 4x}
"""


def simulate(*args, **more):
    return orrery("simulate", "-q", *args, **more)


def refused(code, *words, of=SMALL, plan, more=(), cwd=None):
    """The job is refused with the code, in one line that has these words, at once and in little memory."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    result = simulate(*of, "--plan", plan, *more, cwd=cwd, **modest())
    line = one_line(result, code)
    took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began
    assert all(word in line for word in words), f"{plan}: {line}"
    assert took < (60 if SANITIZED else 10), f"{plan}: {took} s until {line}"
    assert result.stdout == "", result.stdout


def modest():
    """No more than 2 GiB of memory, where that can be told."""
    return {} if SANITIZED else {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))}


def parsed(result, code=0):
    assert result.returncode == code, f"exit {result.returncode}: {result.stderr}"
    return json.loads(result.stdout)


class Page(html.parser.HTMLParser):
    """Elements that are open, and all words and tags that there are."""
    VOID = {"meta", "link", "br", "hr", "img", "input", "col"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice: {names}"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> at line {self.getpos()[0]} closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)


def hostile_model(folder):
    (folder / "hostile.yaml").write_text(HOSTILE, encoding="utf-8")
    return ["./hostile.yaml", "--cluster", "dgx_h100", "--plan", "tp=2,pp=2,dp=2,micro_batches=4"]


# What is said, and how it ends.

@case
def a_job_that_fits_is_status_0():
    result = simulate(*SMALL, "--plan", "dp=4,tp=2")
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert "Llama 3.2 1B" in result.stdout and "MFU" in result.stdout, result.stdout


@case
def a_job_that_does_not_fit_is_status_4_and_says_what_would_help():
    result = simulate(*LARGE, "--plan", "tp=8")
    assert result.returncode == 4 and result.stderr == "", result.stderr
    assert "does not fit" in result.stdout, result.stdout
    tables = parsed(simulate(*LARGE, "--plan", "tp=8", "-f", "json"), 4)
    assert tables["fits"] is False and any("relief" in name or "room" in name for name in tables["tables"]), \
        list(tables["tables"])


@case
def what_was_typed_wrong_is_status_2():
    refused(2, "'dq'", "did you mean 'dp'", plan="dq=4")
    refused(2, "tp=0", plan="tp=0")
    refused(2, "dp=4294967295", plan="dp=4294967295")
    refused(2, "twice", plan="dp=2,dp=2")
    refused(2, "schedule=gpip", "gpipe", plan="schedule=gpip")
    refused(2, "--mixed-devices", plan="dp=8", more=["--mixed-devices", "0-7"])
    refused(2, "--mixed-devices", plan="dp=8", more=["--mixed-devices", "7-0:a100_sxm_80g"])
    refused(2, "--slow-link", plan="dp=8", more=["--slow-link", "host:0:fast"])
    refused(2, "--slow-link", "no level", plan="dp=8", more=["--slow-link", "planet:0:0.5"])
    refused(2, "--straggler", plan="dp=8", more=["--straggler", "3"])
    refused(2, "--prompt", plan="dp=8", more=["--prompt", "99999999999"])
    refused(2, "--prompt", "decode", plan="dp=8", more=["--prompt", "512"])
    refused(2, "--lora-rank", "--task lora", plan="dp=8", more=["--lora-rank", "8"])
    refused(2, "--task", plan="dp=8", more=["--task", "dream"])
    refused(2, "--trace", plan="dp=8", more=["--trace", "ranks.et"])
    one_line(orrery("simulate", "llama3.2-1b", "--plan", "dp=8"), 2)
    one_line(orrery("simulate", "llama3.2-1b", "--cluster", "dgx_h100"), 2)
    one_line(orrery("compare", "llama3.2-1b@dgx_h100:dp=8"), 2)
    one_line(orrery("compare", "dp=8", "dp=4"), 2)


@case
def names_that_are_not_there_are_status_3_with_the_closest():
    assert "llama3.1-405b" in one_line(simulate("llama3.1-405x", "--cluster", "h100_24k", "--plan", "dp=8"), 3)
    assert "h100_24k" in one_line(simulate("llama3.2-1b", "--cluster", "h100_24", "--plan", "dp=8"), 3)
    assert "llama3.1-405b" in one_line(orrery("models", "llama3.1-405x"), 3)
    one_line(simulate(*SMALL, "--plan", "dp=8", "--mixed-devices", "0-3:nosuch"), 3)


@case
def plans_that_cannot_be_are_status_4():
    refused(4, "3 slices", plan="tp=3")
    refused(4, "cannot fill 64 stages", of=["llama3.2-1b", "--cluster", "h100_24k"], plan="pp=64,micro_batches=64")
    refused(4, "micro-batches", plan="pp=2")
    refused(4, "experts", plan="dp=8,ep=8")
    refused(4, "8 devices", plan="dp=16")
    refused(4, "dualpipe", plan="pp=2,schedule=dualpipe,micro_batches=3")
    refused(4, "ranks 0 to 7", plan="dp=8", more=["--straggler", "8:2x"])
    refused(4, "share of 1e-300", plan="dp=8", more=["--slow-link", "host:0:1e-300"])
    refused(4, "share of 5", plan="dp=8", more=["--slow-link", "host:0:5"])
    refused(4, "host 9", plan="dp=8", more=["--slow-link", "host:9:0.5"])


@case
def what_a_model_cannot_do_is_status_4():
    for model in ("dlrm-dcnv2", "resnet50"):
        for task in ("decode", "rl", "dpo", "lora"):
            refused(4, model, task, of=[model, "--cluster", "dgx_h100"], plan="dp=8", more=["--task", task])
        refused(4, "replicas", of=[model, "--cluster", "dgx_h100"], plan="tp=8")
    refused(4, "not published", of=["llama4-behemoth", "--cluster", "dgx_h100"], plan="dp=8")
    refused(4, "pictures", plan="dp=8", more=["--images", "5"])


def write_routes(path, top_k=2, experts=8):
    """Routes of two kinds of requests, each with experts of its own half."""
    rows = ["request,phase,token,3,9"]
    for token in range(64):
        half = token // 32 * experts // 2
        cell = ";".join(str(half + (token + k) % (experts // 2)) for k in range(top_k))
        rows.append(f"{token // 8},{'d' if token % 8 > 5 else 'p'},{token % 8},{cell},{cell}")
    path.write_text("\n".join(rows) + "\n")


PLACEMENT = """{"physical_to_logical_map": [[0, 1, 2, 3, 4, 5, 6, 7]],
                "logical_to_physical_map": [[[0], [1], [2], [3], [4], [5], [6], [7]]],
                "logical_replica_count": [[1, 1, 1, 1, 1, 1, 1, 1]]}"""


@case
def experts_of_another_model_are_refused():
    of = ["mixtral-8x7b", "--cluster", "dgx_h100"]
    with scratch() as folder:
        (folder / "load.csv").write_text("token,3\n0,8\n1,2\n")
        refused(3, "expert 8", of=of, plan="dp=1,ep=1", more=["--expert-load", "load.csv"], cwd=folder)
        write_routes(folder / "one.csv", top_k=1)
        write_routes(folder / "two.csv")
        (folder / "placement.json").write_text(PLACEMENT)
        refused(4, "2 experts a token", of=of, plan="dp=8,ep=8", more=["--expert-load", "one.csv"], cwd=folder)
        refused(4, "--expert-load", of=of, plan="dp=8,ep=8,expert_slots=1,expert_policy=eplb", cwd=folder)
        refused(4, "--expert-load", of=of, plan="dp=8,ep=8,request_groups=2", cwd=folder)
        refused(4, "3 groups", of=of, plan="dp=8,ep=8,request_groups=3", more=["--expert-load", "two.csv"], cwd=folder)
        refused(4, "places the experts", of=of, plan="dp=8,ep=8,expert_policy=eplb",
                more=["--placement", "placement.json", "--expert-load", "two.csv"], cwd=folder)


@case
def experts_are_loaded_placed_and_grouped():
    def step(plan, *more):
        answer = parsed(simulate("mixtral-8x7b", "--cluster", "h200_x8", "--task", "prefill", "--prompt", "512",
                                 "--plan", "dp=4,micro_batch=8," + plan, *more, "-f", "json", cwd=folder))
        rows = answer["tables"]["figures"]["rows"]
        return next(row["value"] for row in rows if row["figure"] == "step")
    with scratch() as folder:
        routes = ["--expert-load", "routes.csv"]
        write_routes(folder / "routes.csv")
        (folder / "placement.json").write_text(PLACEMENT)
        even = step("ep=4")
        assert step("ep=4", "--placement", "placement.json") == even
        assert step("ep=4", *routes) == step("ep=4", *routes, "--placement", "placement.json")
        assert step("ep=4,expert_policy=linear", *routes) == step("ep=4", *routes)
        assert step("ep=4,expert_policy=eplb", *routes) <= step("ep=4", *routes)
        assert step("ep=1", *routes) == step("ep=1")
        assert step("ep=4,request_groups=2", *routes) != step("ep=4", *routes)


@case
def plans_place_experts_as_the_command_does():
    """Step and bytes by the plan's policy are those by the file that `orrery experts` writes: all ranks on one host,
    over hosts, and with the model's groups of experts on a host each."""
    def told(model, cluster, plan, *more):
        tables = parsed(simulate(model, "--cluster", cluster, "--task", "prefill", "--prompt", "512",
                                 "--expert-load", "loads.json", "--plan", plan, *more, "-f", "json", cwd=folder))["tables"]
        step = [row["value"] for row in tables["figures"]["rows"] if row["figure"] == "step"]
        return step, [row for table in tables.values() for row in table["rows"] if row.get("axis") == "ep"]
    for model, cluster, layers, experts, ranks, policy in (("mixtral-8x7b", "dgx_h100", 32, 8, 8, "best"),
                                                           ("qwen3-30b-a3b", "h100_superpod", 48, 128, 16, "best"),
                                                           ("deepseek-v3", "h100_superpod", 58, 256, 32, "eplb")):
        with scratch() as folder:
            draw = random.Random(ranks)
            loads = [[round(1e6 * draw.random() ** 3) + 1 for _ in range(experts)] for _ in range(layers)]
            (folder / "loads.json").write_text(json.dumps(loads))
            made = orrery("experts", "loads.json", "-m", model, "-c", cluster, "--ranks", str(ranks), "--slots", "1",
                          "--policy", policy, "-o", "placement.yaml", cwd=folder)
            assert made.returncode == 0, made.stderr
            plan = f"dp={ranks},ep={ranks},micro_batch=8"
            placed = told(model, cluster, f"{plan},expert_slots=1,expert_policy={policy}")
            assert placed == told(model, cluster, plan, "--placement", "placement.yaml")
            assert placed[0] < told(model, cluster, plan)[0]


@case
def hostile_plans_are_refused_at_once():
    for plan in ("pp=1000000000", "dp=4294967294", "tp=65536,cp=65536,dp=65536,pp=65536",
                 "dp=1,micro_batches=1000000000", "pp=2,micro_batches=1000000000", "pp=4,micro_batches=4000000",
                 "batch=4294967294", "layers=1000000000",
                 "hidden=4294967292", "heads=4294967294", "ffn=4294967294", "vocab=4294967294", "seq=4294967294",
                 "seq=4294967294,cp=2", "micro_batch=4294967294", "ep=4294967294", "ep=65536,etp=65536",
                 "pp=2,micro_batches=4,vp=4294967294", "pp=2,vp=1000,micro_batches=100000,layers=16000",
                 "first_layers=4294967294,last_layers=4294967294,pp=2,micro_batches=2",
                 "zero=3,shards=4294967294", "micro_batch=1000000,micro_batches=50000,seq=1",
                 "hidden=16777216,heads=1024,layers=1000,ffn=16777216"):
        refused(4, plan=plan)


@case
def the_widest_numbers_that_make_sense_are_no_crash():
    for plan in ("zero=3,prefetch=4294967294", "bucket_bytes=4294967294", "bucket_bytes=1",
                 "recompute_layers=4294967294", "recompute_layers=1", "group=1,pp=2,vp=2,micro_batches=2",
                 "zero=4", "shards=2", "order=pp",
                 "micro_batches=20000", "layers=4000"):
        result = simulate(*SMALL, "--plan", plan)
        assert result.returncode in (0, 4), f"{plan}: {result.returncode} {result.stderr}"
        assert result.returncode == 0 or result.stdout or one_line(result, 4), plan


@case
def files_of_models_that_are_none_are_status_3():
    with scratch() as folder:
        whole = HOSTILE.encode()
        files = {"empty.yaml": b"", "binary.yaml": bytes(range(256)) * 8, "cut.yaml": whole[:200],
                 "list.yaml": b"- 1\n", "open.yaml": b"models: [", "word.yaml": b"model", "nul.yaml": b"\0" * 100,
                 "empty.json": b"",
                 "cut.json": b'{"model_type": "llama", "hidden_size": 12', "list.json": b"[]", "none.json": b"{}",
                 "deep.json": b'{"architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 1024, '
                              b'"num_attention_heads": 8, "num_hidden_layers": 1000000000, "vocab_size": 1000, '
                              b'"max_position_embeddings": 2048, "hidden_act": "silu", "rms_norm_eps": 1e-5}',
                 "text.yaml": whole.replace(b"layers: 8", b"layers: eight"),
                 "deep.yaml": whole.replace(b"layers: 8", b"layers: 1000000000"),
                 "odd.yaml": whole.replace(b"hidden: 512", b"hidden: 511"),
                 "nest.yaml": b"[" * 100_000, "nest.json": b'{"a":' * 100_000}
        for name, text in files.items():
            (folder / name).write_bytes(text)
            for args in (["models", name], ["simulate", name, "--cluster", "dgx_h100", "--plan", "dp=8"],
                         ["compare", f"{name}@dgx_h100:dp=8", "llama3.2-1b@dgx_h100:dp=8"]):
                line = one_line(orrery(*args, cwd=folder), 3)
                assert name in line, f"{args}: {line}"
        (folder / "folder").mkdir()
        for name in ("./folder", "nowhere.yaml", "no/where.json"):
            line = one_line(orrery("models", name, cwd=folder), 3)
            assert name in line, line


@case
def other_files_that_are_none_are_status_3():
    with scratch() as folder:
        files = {"empty": b"", "binary": bytes(range(256)) * 8, "cut": b"subject,1,2\nx,3", "open": b"clusters: [",
                 "nul": b"\0" * 100}
        for name, text in files.items():
            for ending in (".yaml", ".csv", ".csv.gz"):
                (folder / (name + ending)).write_bytes(text)
        for name in [*files, "nowhere", "."]:
            of_cluster = name + ".yaml" if name != "." else "./"
            line = one_line(simulate("llama3.2-1b", "--cluster", of_cluster, "--plan", "dp=8", cwd=folder), 3)
            assert of_cluster in line, line
            line = one_line(simulate(*SMALL, "--plan", "dp=8", "--calibration", of_cluster, cwd=folder), 3)
            assert of_cluster in line, line
            for ending in (".csv", ".csv.gz") if name not in ("cut", ".") else ():
                line = one_line(simulate("mixtral-8x7b", "--cluster", "dgx_h100", "--plan", "dp=8,ep=8",
                                         "--expert-load", name + ending, cwd=folder), 3)
                assert name + ending in line, line


# What is written.

@case
def every_command_gives_json_that_parses():
    job = [*SMALL, "--plan", "tp=2,pp=2,dp=2,micro_batches=4"]
    assert parsed(simulate(*job, "-f", "json"))["schema"].startswith("orrery.outcome/")
    assert parsed(simulate(*job, "-f", "json", "-a"))["fits"] is True
    both = orrery("compare", "-q", "-f", "json", "llama3.2-1b@dgx_h100:dp=8", "llama3.2-3b@dgx_h100:dp=8,zero=1")
    assert parsed(both)["schema"].startswith("orrery.comparison/")
    assert len(parsed(orrery("models", "-f", "json"))["rows"]) > 30
    cards = parsed(orrery("models", "-f", "json", "llama3.1-405b", "mixtral-8x7b", "deepseek-v3"))["models"]
    assert [card["name"] for card in cards] == ["llama3.1-405b", "mixtral-8x7b", "deepseek-v3"]
    assert len(parsed(orrery("ops", "-f", "json"))["rows"]) > 50
    for task in ("sft", "lora", "dpo", "rl", "prefill", "decode"):
        parsed(simulate(*SMALL, "--plan", "dp=8", "--task", task, "-f", "json"))


@case
def every_command_gives_tables_that_have_their_columns():
    for args in (["simulate", "-q", *SMALL, "--plan", "dp=8"], ["models"], ["models", "llama3.1-405b"], ["ops"],
                 ["compare", "llama3.2-1b@dgx_h100:dp=8", "llama3.2-1b@dgx_h100:dp=4"]):
        result = orrery(*args, "-f", "csv")
        assert result.returncode == 0, result.stderr
        for block in result.stdout.split("\n\n"):
            rows = list(csv.reader(block.splitlines()))
            assert len(rows) > 1 and len({len(row) for row in rows}) == 1, f"{args}: {rows[:2]}"
        rules = [line for line in orrery(*args, "-f", "md").stdout.splitlines() if line.startswith("| --")]
        assert len(rules) == len(result.stdout.split("\n\n")), args


@case
def names_of_a_user_are_escaped_in_json():
    with scratch() as folder:
        job = hostile_model(folder)
        card = parsed(orrery("models", "-f", "json", job[0], cwd=folder))["models"][0]
        assert card["name"] == 'tiny-"<b>', card["name"]
        parsed(simulate(*job, "-f", "json", cwd=folder))


@case
def names_of_a_user_do_not_drive_the_terminal():
    with scratch() as folder:
        text = HOSTILE.replace("</title>", "\\n\\e[31m\\a").replace('tiny-"<b>', '"a\\nb"')
        (folder / "bell.yaml").write_text(text, encoding="utf-8")
        job = ["./bell.yaml", "--cluster", "dgx_h100", "--plan", "dp=2"]
        for args in (["models", job[0]], ["simulate", *job], ["compare", *["./bell.yaml@dgx_h100:dp=2"] * 2]):
            result = orrery(*args, cwd=folder)
            assert result.returncode == 0, result.stderr
            assert "\x1b" not in result.stdout and "\a" not in result.stdout, f"{args}: {result.stdout[:200]!r}"


@case
def pages_are_well_formed_and_names_are_escaped():
    with scratch() as folder:
        job = hostile_model(folder)
        result = simulate(*job, "--html", "one.html", cwd=folder)
        assert result.returncode == 0, result.stderr
        result = orrery("compare", "-q", "--html", "two.html", f"{job[0]}@dgx_h100:dp=8",
                        "llama3.2-1b@dgx_h100:dp=4,tp=2", cwd=folder)
        assert result.returncode == 0, result.stderr
        for name in ("one.html", "two.html"):
            text = (folder / name).read_text(encoding="utf-8")
            page = Page(text)
            assert page.tags.count("script") == 1 and "b" not in page.tags and "<i>" not in text, set(page.tags)
            assert any("<script>alert(1)</script>" in words for words in page.words), "the title is not there"
        assert Page((folder / "two.html").read_text(encoding="utf-8")).tags.count("svg") >= 4


@case
def pages_of_known_jobs_are_well_formed():
    with scratch() as folder:
        for number, (model, plan, task) in enumerate((
                ("deepseek-v3", "ep=64,pp=8,dp=64,schedule=dualpipe,micro_batches=32,precision=fp8", "pretrain"),
                ("llama3.1-405b", "tp=8,pp=16,dp=8,vp=4,micro_batches=32,zero=2", "pretrain"),
                ("llama3.1-8b", "tp=8", "decode"), ("dlrm-dcnv2", "dp=8", "pretrain"))):
            name = f"{number}.html"
            result = simulate(model, "--cluster", "h100_24k", "--plan", plan, "--task", task, "--html", name,
                              cwd=folder)
            assert result.returncode in (0, 4) and result.stdout, f"{model}: {result.stderr}"
            Page((folder / name).read_text(encoding="utf-8"))


@case
def timelines_are_written_and_read():
    with scratch() as folder:
        for name in ("job.pftrace", "job.json"):
            result = simulate(*SMALL, "--plan", "tp=2,pp=2,dp=2,micro_batches=4", "--trace", name, cwd=folder)
            assert result.returncode == 0, result.stderr
            assert (folder / name).stat().st_size > 1000
        events = json.loads((folder / "job.json").read_text(encoding="utf-8"))["traceEvents"]
        assert sum(event["ph"] == "X" for event in events) > 50
        assert all(event.get("dur", 0) >= 0 for event in events)


@case
def traces_of_all_ranks_are_read_back_and_run():
    plan = "tp=2,pp=2,dp=2,micro_batches=4"
    with scratch() as folder:
        step = parsed(simulate(*SMALL, "--plan", plan, "--ranks-as-trace", "job", "-f", "json", cwd=folder))
        rows = {row["figure"]: row["value"] for row in step["tables"]["figures"]["rows"]}
        step_ns = float(rows.get("step") or rows["step_ns"])
        names = sorted(path.name for path in (folder / "job").iterdir())
        assert names == ["groups.json", *(f"rank.{rank}.et" for rank in range(8))], names
        told = orrery("info", "job", "-f", "json", cwd=folder)
        assert told.returncode == 0 and told.stderr == "", told.stderr
        seen = parsed(orrery("analyze", "-q", "job", "--only", "temporal_breakdown", "-f", "json", cwd=folder))
        table = seen if "rows" in seen else next(iter(seen.get("tables", seen.get("analyses")).values()))
        assert len(table["rows"]) == 8, table
        groups = json.loads((folder / "job" / "groups.json").read_text(encoding="utf-8"))
        assert {len(members) for members in groups.values()} == {2, 8}, groups
        (folder / "network.yml").write_text("topology: [ Switch ]\nnpus_count: [ 8 ]\nbandwidth: [ 450.0 ]\n"
                                            "latency: [ 500.0 ]\n", encoding="ascii")
        run = orrery("simulate", "--astra-system", ASTRA_SYSTEM, "--astra-network", "network.yml", "--workload",
                     "job/rank", "--comm-groups", "job/groups.json", "-f", "json", cwd=folder)
        assert run.returncode == 0 and "8 of 8 ranks simulated" in run.stderr, run.stderr
        json.loads(run.stdout)
        simulated = finish_ns(json.loads(run.stdout))
        assert step_ns / 2 < simulated < 2 * step_ns, f"{simulated} ns there, {step_ns} ns here"


@case
def one_mode_of_astra_never_ends_and_the_other_answers():
    reference = SOURCE / "tests" / "reference" / "astra"
    sys.path.insert(0, str(reference))
    import runs  # pylint: disable=import-outside-toplevel
    with gzip.open(reference / "generated.tsv.gz", "rt", encoding="ascii") as table:
        rows = [line.rstrip("\n").split("\t") for line in table]
    *job, unaware, _ = next(row for row in rows if row[5] == "deadlock" and row[4][0].isdigit())
    with scratch() as folder:
        queues = runs.write(job, folder)
        words = ["simulate", "--astra-system", "system.json", "--astra-network", "network.yml", "--workload", "w",
                 "--comm-groups", "groups.json", "--num-queues-per-dim", str(queues), "-q", "-f", "json"]
        both, one, other = (orrery(*words, *more, cwd=folder) for more in
                            ([], ["--astra-mode", "unaware"], ["--astra-mode", "aware"]))
    assert both.returncode == 4 and other.returncode == 4 and one.returncode == 0, (both, one, other)
    assert "with congestion: deadlock" in both.stderr and "with congestion: deadlock" in other.stderr, both.stderr
    assert one.stderr == "" and other.stdout == "", (one.stderr, other.stdout)
    for told in (both, one):
        assert finish_ns(json.loads(told.stdout)) == int(unaware.split("/")[0]), (told.stdout, unaware)
        assert "aware_ns" not in json.loads(told.stdout)["tables"]["ranks"]["rows"][0], told.stdout


def finish_ns(node):
    """The latest "unaware_ns" or alike of ASTRA-sim's table of ranks."""
    if isinstance(node, dict):
        own = [value for name, value in node.items()
               if name in ("unaware", "unaware_ns") and isinstance(value, (int, float))]
        return max([*own, *(finish_ns(value) for name, value in node.items() if name != "collectives")], default=0)
    return max((finish_ns(item) for item in node), default=0) if isinstance(node, list) else 0


@case
def a_job_that_somebody_ran_is_a_demo():
    with scratch() as folder:
        result = orrery("demo", "llama3_405b_16k_gpus", "--html", "page.html", cwd=folder)
        assert result.returncode == 0, f"exit {result.returncode}: {result.stderr}"
        assert "published: 400 TFLOP/s" in result.stdout, result.stdout
        Page((folder / "page.html").read_text(encoding="utf-8"))


# What does not go well.

@case
def a_full_disk_leaves_nothing_half_written():
    def of_little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
    for option, name in (("--html", "page.html"), ("--trace", "job.pftrace"), ("--trace", "job.json"),
                         ("-o", "tables.txt")):
        with scratch() as folder:
            more = ["-f", "json"] if option == "-o" else ["-o", "/dev/null"]
            result = simulate(*SMALL, "--plan", "tp=2,pp=2,dp=2,micro_batches=8", option, name, *more, cwd=folder,
                              preexec_fn=of_little_room)
            line = one_line(result, 3)
            assert "File too large" in line and name in line, line
            assert list(folder.iterdir()) == [], list(folder.iterdir())


@case
def a_simulated_pipeline_has_the_bubble_that_its_analysis_finds():
    # With one slot a stage nothing overlaps and both are the same to the nanosecond, but for rounding of means.
    # In 1F1B a rank may wait for one peer while another's transfer moves; which of them it is put down to differs.
    for plan, part in (("tp=4,pp=2,micro_batches=2,schedule=gpipe", 1e-6), ("pp=8,micro_batches=16", 0.003)):
        with scratch() as folder:
            told = parsed(simulate("llama2-7b", "--cluster", "dgx_h100", "--plan", plan, "--ranks-as-trace", "job",
                                   "-f", "json", cwd=folder))
            simulated = next(row["mean_ns"] for row in told["tables"]["waterfall"]["rows"]
                             if row["part"] == "pipeline bubble")
            seen = parsed(orrery("analyze", "-q", "job", "--only", "temporal_breakdown", "-f", "json", cwd=folder))
            rows = seen["tables"]["temporal_breakdown"]["rows"]
            # A rank that has nothing left to do until the last one ends waits too, after its span.
            step_ns = max(row["span_ns"] for row in rows)
            found = sum(row["bubble_ns"] + row["idle_ns"] + step_ns - row["span_ns"] for row in rows) / len(rows)
            assert abs(found - simulated) <= part * simulated + 1, (plan, found, simulated)
            assert 0.9 * found < sum(row["bubble_ns"] for row in rows) / len(rows) <= found, (plan, rows)


@case
def a_full_disk_ends_the_traces_of_all_ranks():
    with scratch() as folder:
        result = simulate(*SMALL, "--plan", "tp=2,pp=2,dp=2,micro_batches=8", "--ranks-as-trace", "job", cwd=folder,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)))
        assert "File too large" in one_line(result, 3)
        assert list((folder / "job").iterdir()) == [], list((folder / "job").iterdir())


@case
def outputs_that_take_nothing_are_status_3():
    with open("/dev/full", "wb") as nowhere:
        for args in (["simulate", "-q", *SMALL, "--plan", "dp=8"], ["models"], ["models", "llama3.1-405b"], ["ops"],
                     ["compare", "-q", "llama3.2-1b@dgx_h100:dp=8", "llama3.2-1b@dgx_h100:dp=4"]):
            result = orrery(*args, stdout=nowhere, stderr=subprocess.PIPE)
            assert "No space left on device" in one_line(result, 3), args
    for option, name in (("--html", "no/where.html"), ("--trace", "no/where.json"), ("--ranks-as-trace", "no/where")):
        line = one_line(simulate(*SMALL, "--plan", "dp=8", option, name), 3)
        assert "no/where" in line, line


@case
def an_interrupt_leaves_nothing_and_exits_130():
    with scratch() as folder:
        process = subprocess.Popen([BIN, "simulate", "-q", *LARGE, "--plan", "tp=8,pp=16,dp=16,micro_batches=4000",
                                    "--trace", "job.json", "--html", "job.html"],
                                   cwd=folder, env=environment(), text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            wait_until_it_catches(process, signal.SIGINT)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=PATIENCE_S)[1]
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130 and said == "", f"exit {process.returncode}: {said}"
        assert list(folder.iterdir()) == [], list(folder.iterdir())


@case
def a_job_of_131072_ranks_needs_less_than_200_MB():
    if SANITIZED:
        raise Skip("a sanitizer needs memory of its own")
    with scratch() as folder:
        (folder / "giant.yaml").write_text(GIANT, encoding="ascii")
        process = subprocess.Popen([BIN, "simulate", "-q", "llama3.1-405b", "--cluster", "./giant.yaml", "--plan",
                                    "tp=8,pp=16,dp=1024,vp=4,micro_batches=32,zero=2", "--html", "page.html"],
                                   cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        said, wrong = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        process.stderr.close()
        assert process.returncode in (0, 4) and "131,072" in said, f"exit {process.returncode}: {wrong}"
        assert usage.ru_maxrss < 200_000, f"{usage.ru_maxrss} KiB"
        Page((folder / "page.html").read_text(encoding="utf-8"))


def calibration(*words):
    result = orrery("hw", "h100_sxm_80g", "--calibration", "--format", "json", *words)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["tables"]


@case
def a_calibration_says_how_well_it_is_known():
    rows = calibration()["calibration"]["rows"]
    own = {row["parameter"]: row for row in rows if row["name"] == "h100_sxm_80g"}
    assert {"matmul_bf16", "attention", "memory", "launch_ns", "step_ns", "serving_ns"} <= set(own), own.keys()
    for row in rows:
        assert row["basis"] in ("data", "prior"), row
        assert row["low"] is None or row["low"] <= row["value"] * 1.001 and row["value"] <= row["high"] * 1.001, row
        assert row["yearly_frac"] == 0 or (row["yearly_frac"] < 0) == row["parameter"].endswith("_ns") or \
            row["parameter"] == "dp_exposed", row
    for words, told in [(["--calibration"], "name one or more"), (["NVLink4", "--calibration"], "of devices")]:
        result = orrery("hw", *words)
        assert result.returncode == 3 and told in result.stderr, result.stderr


@case
def newer_software_is_not_slower():
    last = None
    for year in ("2020", "2022", "2024", "2026"):
        result = orrery("simulate", *SMALL, "--plan", "dp=8,batch=64", "--software", year, "--format", "json")
        assert result.returncode == 0, result.stderr
        step = re.search(r'"figure":"step","value":([0-9]+)', result.stdout)
        assert last is None or int(step.group(1)) <= last, (year, step.group(1), last)
        last = int(step.group(1))
    one_line(orrery("simulate", *SMALL, "--plan", "dp=8,batch=64", "--software", "2012"), 2)


main()
