#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embedding tables over ranks as somebody plans them: the file that is written means the plan that was printed, formats
and the page say the same, and what cannot be planned or read is refused in a line that names the table."""
import contextlib
import csv
import json
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "page")]
import browser  # noqa: E402
from harness import (BIN, PATIENCE_S, SOURCE, Skip, case, environment, main, one_line, orrery,  # noqa: E402
                     scratch)

SMALL = SOURCE / "examples" / "models" / "small_dlrm.yaml"
KAGGLE = ["dlrm-criteo-kaggle", "--cluster", "dgx_a100"]
TABLES = ["figures", "comparison", "kinds", "tables", "ranks", "given_tables", "given_ranks", "tiers", "placed"]
LINE = re.compile(r"^  (\w+): \{kind: (\w+)(?:, columns: (\d+))?(?:, ranks: \[([\d, -]+)\])?\}$")


def tables(*args, **more):
    return orrery("tables", "-q", *args, **more)


def planned(*args, code=0, **more):
    """The document of a planning."""
    result = tables(*args, "--format", "json", **more)
    assert result.returncode == code, f"exit {result.returncode}: {result.stderr}"
    return json.loads(result.stdout)


def rows_of(answer, table):
    return answer["tables"][table]["rows"]


def placements(text):
    """{table: (kind, ranks)} of the text of a plan."""
    found = {}
    for line in text.split("tables:\n")[1].splitlines():
        name, kind, _, ranks = LINE.match(line).groups()
        assert name not in found, line
        found[name] = (kind, ranks)
    return found


def model(path, n, seed=1):
    """A recommendation model of n tables from tens to millions of rows."""
    draw = random.Random(seed)
    rows = [int(10 ** draw.uniform(1, 6.8)) for _ in range(n)]
    pooling = [draw.randint(1, 40) for _ in range(n)]
    path.write_text("source: own\nsources:\n  own: \"made for a test\"\nmodels:\n  many:\n    title: many tables\n"
                    "    family: dlrm\n    kind: dlrm\n    dlrm:\n      dense_features: 13\n      dim: 64\n"
                    f"      rows: {rows}\n      pooling: {pooling}\n      bottom: [128, 64]\n      top: [64, 1]\n")
    return path


# --- the plan -------------------------------------------------------------------------------------


@case
def the_file_means_the_plan_that_was_printed():
    with scratch() as folder:
        path = folder / "plan.yaml"
        answer = planned(*KAGGLE, "-o", path)
        text = path.read_text()
        assert tables(*KAGGLE, "--format", "plan").stdout == text
        placed = placements(text)
        assert list(placed) == [f"t{i}" for i in range(26)], list(placed)
        for row in rows_of(answer, "tables"):
            assert placed[row["table"]][0] == row["kind"], row
        again = planned(*KAGGLE, "--plan", f"tables={path}")
        given, best = rows_of(again, "comparison")
        assert (given["plan"], best["plan"]) == ("given", "best")
        assert given["time_ns"] == best["time_ns"] == answer["ns"] and given["tables_of_another_kind"] == 0
        assert rows_of(again, "given_ranks") == rows_of(answer, "ranks")


@case
def what_is_told_adds_up():
    answer = planned(*KAGGLE, "--batch", "16k", "--ranks", "4", "--memory", "1GiB")
    assert answer["schema"] == "orrery.tables/1" and answer["status"] in ("optimal", "within the gap", "stopped")
    assert answer["question"]["batch"] == 16384 and answer["question"]["memory_bytes"] == 1 << 30
    assert 0 < answer["bound_ns"] <= answer["ns"] * (1 + 1e-9), answer
    ranks = rows_of(answer, "ranks")
    assert len(ranks) == 4 and all(row["memory_bytes"] <= 1 << 30 for row in ranks), ranks
    assert max(row["total_ns"] for row in ranks) <= answer["ns"] * (1 + 1e-9)
    for row in ranks:
        stages = sum(row[f"{stage}_ns"] for stage in ("ids", "lookup", "bags", "gradients", "update"))
        assert abs(stages - row["total_ns"]) <= 1e-6 * row["total_ns"], row
    assert sum(row["tables"] for row in rows_of(answer, "kinds")) == 26
    assert sum(row["shards"] for row in rows_of(answer, "kinds")) == sum(row["shards"] for row in ranks)


@case
def a_worse_plan_stands_beside_the_best():
    with scratch() as folder:
        path = folder / "heap.yaml"
        path.write_text("ranks: 8\ntables:\n" + "".join(f"  t{i}: {{kind: table, ranks: [3]}}\n" for i in range(26)))
        answer = planned(*KAGGLE, "--plan", f"tables={path}")
        given, best = rows_of(answer, "comparison")
        assert given["time_ns"] > 2 * best["time_ns"] and given["over_best_frac"] > 1, (given, best)
        busy = [row["rank"] for row in rows_of(answer, "given_ranks") if row["shards"] > 0]
        assert busy == [3], busy
        said = tables(*KAGGLE, "--plan", f"tables={path}").stdout
        assert re.search(r"^given: .* of the best, ", said, re.M), said


@case
def kinds_terms_and_transfers_are_kept_to():
    answer = planned(*KAGGLE, "--kinds", "row,table")
    assert {row["kind"] for row in rows_of(answer, "tables")} <= {"row", "table"}
    torchrec = planned(*KAGGLE, "--cost", "torchrec")
    assert torchrec["question"]["cost"] == "torchrec" and torchrec["ns"] != answer["ns"]
    alike, published = (planned(*KAGGLE, "--popularity", kind) for kind in ("uniform", "2021"))
    assert published["ns"] < alike["ns"], (published["ns"], alike["ns"])
    few, many = (planned(*KAGGLE, "--kinds", "table", "--forward", codec, "--backward", codec)
                 for codec in ("fp16", "fp32"))
    assert few["ns"] < many["ns"], (few["ns"], many["ns"])
    with scratch() as folder:
        path = folder / "plan.yaml"
        tables(*KAGGLE, "--forward", "int8", "--backward", "bf16", "--pipeline", "3", "-o", path)
        head = path.read_text().split("tables:")[0]
        assert "forward: int8\n" in head and "backward: bf16\n" in head and "pipeline: 3\n" in head, head
        question = planned(*KAGGLE, "--plan", f"tables={path}")["question"]
        assert (question["forward"], question["backward"], question["pipeline"]) == ("int8", "bf16", 3)


@case
def all_formats_have_the_same_tables():
    answer = planned(*KAGGLE)
    assert list(answer["tables"]) == TABLES, list(answer["tables"])
    text = tables(*KAGGLE, "--format", "csv")
    blocks = [list(csv.reader(block.splitlines())) for block in text.stdout.split("\n\n")]
    assert [block[0][0] for block in blocks] == ["figure", "kind", "table", "rank"], [block[0] for block in blocks]
    assert len(blocks[2]) == 27 and len(blocks[3]) == 9
    assert "| table | kind |" in tables(*KAGGLE, "--format", "md").stdout
    people = tables(*KAGGLE).stdout
    for word in ("time: ", "memory: ", "proof: ", "\ntables\n", "\nranks\n"):
        assert word in people, people


@case
def this_machine_is_planned_for_too():
    with scratch() as folder:
        said = orrery("tables", SMALL, "--ranks", "2", "--format", "json", env=environment(XDG_CACHE_HOME=str(folder)))
        assert said.returncode == 0 and "its rates are assumed" in said.stderr, said.stderr
        question = json.loads(said.stdout)["question"]
        assert question["cluster"] is None and question["rates"].startswith("assumed"), question
        assert "nothing.yaml" in one_line(tables(SMALL, "--ranks", "2", "--machine", folder / "nothing.yaml"), 3)


@case
def equal_questions_have_equal_answers():
    first, second = (planned(*KAGGLE) for _ in range(2))
    for answer in (first, second):
        del answer["wall_ns"]
    assert first == second


# --- the page -------------------------------------------------------------------------------------


def check_page(shown, path, blocks):
    """The page is whole, asks for nothing, and its pictures have at least so many blocks and fit."""
    shown.open(path.as_uri(), ready="document.readyState == 'complete'")
    assert not shown.problems(), shown.problems()
    assert all(url.startswith("file:") for url in shown.requests()), shown.requests()
    assert shown.eval("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the window"
    marks = shown.eval("[...document.querySelectorAll('svg.picture')].map(p => p.querySelectorAll('rect').length)")
    assert len(marks) == 2 and min(marks) >= blocks, marks
    assert max(marks) <= 30000, marks
    out = shown.eval("""[...document.querySelectorAll('svg.picture text, svg.picture rect')].filter(t => {
        const a = t.getBoundingClientRect(), b = t.closest('svg').getBoundingClientRect();
        return a.left < b.left - 2 || a.right > b.right + 2 || a.top < b.top - 4 || a.bottom > b.bottom + 4;
    }).map(t => t.textContent)""")
    assert out == [], out
    assert shown.eval("[...document.querySelectorAll('svg.picture text')].some(t => t.textContent.startsWith('bound'))")


@case
def a_page_that_needs_nothing_else():
    chromium = browser.find()
    with scratch() as folder:
        large = model(folder / "many.yaml", 1000)
        pages = [(folder / "8x26.html", KAGGLE, 26), (folder / "1x26.html", [*KAGGLE, "--ranks", "1"], 2),
                 (folder / "128x1000.html", [large, "--cluster", "h100_24k", "--ranks", "128"], 500)]
        for path, question, _ in pages:
            result = tables(*question, "--html", path)
            assert result.returncode == 0, result.stderr
            text = path.read_text()
            assert text.count("<script") == 1 and "<link" not in text and text.endswith("</html>\n")
        if not chromium:
            raise Skip("no Chromium here (set ORRERY_CHROMIUM): the pages were only written")
        with contextlib.closing(browser.Browser(chromium)) as shown:
            for theme in ("light", "dark"):
                shown.theme(theme)
                for path, _, blocks in pages:
                    check_page(shown, path, blocks)


# --- what cannot be -------------------------------------------------------------------------------


@case
def a_table_that_fits_nowhere_is_named_with_its_size():
    with scratch() as folder:
        path, page = folder / "plan.yaml", folder / "plan.html"
        path.write_text("of yesterday")
        question = [*KAGGLE, "--memory", "64MiB", "--kinds", "table", "-o", path, "--html", page]
        answer = planned(*question, code=4)
        assert answer["status"] == "no plan" and re.search(r"'?t2\b.*(MiB|GiB)", answer["infeasible"]), answer["infeasible"]
        assert answer["infeasible_bytes"] > 64 << 20
        assert path.read_text() == "of yesterday" and "No plan" in page.read_text()
        text = tables(*question)
        assert text.returncode == 4 and f"no plan: {answer['infeasible']}\n" in text.stdout, text
        script = tables(*question, "--format", "plan")
        assert script.returncode == 4 and script.stdout == "" and "no plan: " in script.stderr, script


def refused(folder, text, *words, code=3):
    path = folder / "bad.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    line = one_line(tables(*KAGGLE, "--plan", f"tables={path}"), code)
    for word in words:
        assert word in line, f"{word!r} is not in: {line}"


@case
def a_plan_that_cannot_be_is_refused_by_line():
    with scratch() as folder:
        good = tables(*KAGGLE, "--kinds", "table", "--format", "plan").stdout
        lines = good.splitlines(keepends=True)
        last = len(lines)
        swap = lambda new: "".join(lines[:-1]) + new  # noqa: E731
        refused(folder, good + lines[-1], f"bad.yaml:{last + 1}:", "t25")
        refused(folder, "".join(lines[:-1]), "t25", "missing")
        refused(folder, good + "  t99: {kind: table, ranks: [0]}\n", f":{last + 1}:", "t99")
        refused(folder, swap("  t25: {kind: colum, ranks: [0]}\n"), f":{last}:", "'colum'", "did you mean 'column'")
        refused(folder, swap("  t25: {kind: table, ranks: [8]}\n"), f":{last}:", "rank 8")
        refused(folder, swap("  t25: {kind: row, ranks: [0, 0]}\n"), f":{last}:", "t25", "twice")
        refused(folder, swap("  t25: {kind: table, ranks: [0, 1]}\n"), f":{last}:", "t25")
        refused(folder, swap("  t25: {kind: column, columns: 9, ranks: [0-7]}\n"), f":{last}:", "t25")
        refused(folder, swap("  t25: {}\n"), f":{last}:", "t25", "kind")
        refused(folder, good.replace("ranks: 8", "rnaks: 8", 1), "bad.yaml:1:")


@case
def a_file_that_is_no_plan_is_refused():
    with scratch() as folder:
        good = tables(*KAGGLE, "--format", "plan").stdout
        for text in ("", "\n", "[]", "ranks: 8\n", "ranks: 8\ntables:\n", bytes(range(256)) * 64, b"\x7fELF" + bytes(4000),
                     good.replace("t3", "t\0"), "a: " * 100_000, "{" * 100_000):
            refused(folder, text, "bad.yaml")
        for at in range(1, len(good) - 4, 97):
            refused(folder, good[:at], "bad.yaml")
        refused(folder, "ranks: 8\n" + "# long\n" * 3_000_000, "bad.yaml", "16")
        one_line(tables(*KAGGLE, "--plan", f"tables={folder / 'nothing.yaml'}"), 3)
        one_line(tables(*KAGGLE, "--plan", f"tables={folder}"), 3)


@case
def what_cannot_be_asked_is_refused_in_a_line():
    for more, word in ([("--kinds", "tabel"), "did you mean table"], [("--kinds", ","), "--kinds"], [("--memory", "much"), "--memory"],
                       [("--batch", "1001"), "--batch"],
                       [("--plan", "dp=8"), "tables=FILE"], [("--plan", "tables=auto"), "tables=FILE"],
                       [("--pipeline", "4"), "pipeline"], [("--cost", "mine"), "stages|torchrec"],
                       [("--ranks", "9"), "9"], [("--groups", "3"), "3 groups"], [("--time-limit", "soon"), "--time-limit"]):
        assert word in one_line(tables(*KAGGLE, *more), 2), more
    assert "embedding tables" in one_line(tables("gpt2", "-c", "dgx_a100"), 2)
    assert "--cluster" in one_line(tables("dlrm-dcnv2"), 2)
    one_line(tables("no-such-model", "-c", "dgx_a100"), 3)
    one_line(tables("dlrm-dcnv2", "-c", "nowhere.yaml"), 3)
    one_line(tables(*KAGGLE, "-o", "/nowhere/at/all.yaml"), 3)
    one_line(tables(*KAGGLE, "--html", "/nowhere/at/all.html"), 3)
    with scratch() as folder:
        (folder / "two.yaml").write_text(tables(*KAGGLE, "--ranks", "2", "--format", "plan").stdout)
        assert "--ranks" in one_line(tables(*KAGGLE, "--ranks", "4", "--plan", f"tables={folder / 'two.yaml'}"), 2)


# --- what reads the plan --------------------------------------------------------------------------

def trained(words, **more):
    """Losses of a few steps of training, and the digest of the state after them."""
    asked = ["train", SMALL, "--plan", words, "--steps", "4", "--learning-rate", "2e-2", "--threads", "1"]
    result = orrery(*asked, "-q", "--format", "json", **more)
    assert result.returncode == 0, f"{words}: exit {result.returncode}: {result.stderr}"
    document = json.loads(result.stdout)
    losses = [row["loss"] for row in document["tables"]["steps"]["rows"]]
    assert len(losses) == 4 and document["state_digest"] != "0", result.stdout
    return losses, document["state_digest"]


@case
def training_learns_the_same_by_any_plan():
    with scratch() as folder:
        alone = trained("dp=1,batch=120")
        assert trained("dp=2,batch=120") == alone
        assert trained("dp=3,batch=120,tables=auto") == alone
        for ranks, kinds in ((2, "row"), (3, "row,data"), (2, "data")):
            path = folder / f"{kinds[-4:]}{ranks}.yaml"
            tables(SMALL, "-c", "dgx_a100", "--ranks", ranks, "--kinds", kinds, "--pipeline", "3", "-o", path)
            assert trained(f"batch=120,tables={path.name},dp={ranks}", cwd=folder) == alone, kinds
        said = orrery("train", SMALL, "--plan", f"dp=2,batch=120,tables={folder / 'data2.yaml'}", "--steps", "1", "-j", "1")
        assert re.search(r"^plan      .*,tables=.*data2.yaml$", said.stdout, re.M), said.stdout
        assert re.search(r"^tables    26 data$", said.stdout, re.M), said.stdout


@case
def groups_are_planned_and_trained():
    with scratch() as folder:
        path = folder / "two.yaml"
        asked = [SMALL, "-c", "dgx_a100", "--ranks", "4", "--groups", "2", "--synchronize", "2", "--batch", "120"]
        assert planned(*asked, "-o", path)["question"]["batch"] == 120
        assert path.read_text().startswith("ranks: 2\nhost_ranks: 2\ngroups: 2\nsynchronize: 2\n"), path.read_text()
        losses, digest = trained(f"dp=4,batch=120,tables={path}")
        assert (losses, digest) == trained(f"dp=4,batch=120,tables={path}") != trained("dp=4,batch=120")
        again = planned(*asked[:3], "--batch", "120", "--plan", f"tables={path}")
        assert again["question"]["groups"] == 2 and again["question"]["ranks"] == 2


@case
def simulation_tells_plans_apart():
    with scratch() as folder:
        best, heap = folder / "best.yaml", folder / "heap.yaml"
        tables(*KAGGLE, "-o", best)
        heap.write_text("ranks: 8\ntables:\n" + "".join(f"  t{i}: {{kind: table, ranks: [3]}}\n" for i in range(26)))
        steps = []
        for name in ("best.yaml", "heap.yaml"):
            asked = ["simulate", "-q", *KAGGLE, "--plan", f"dp=8,batch=64k,tables={name}"]
            said = orrery(*asked, cwd=folder)
            assert re.search(rf"^plan: .*,tables={name}$", said.stdout, re.M), said.stdout
            document = json.loads(orrery(*asked, "--format", "json", cwd=folder).stdout)
            steps += [row["value"] for row in document["tables"]["figures"]["rows"] if row["figure"] == "step"]
        assert steps[1] > 1.2 * steps[0], steps
        page = folder / "page.html"
        said = orrery("simulate", "-q", *KAGGLE, "--plan", "dp=8,batch=64k,tables=auto", "--html", page).stdout
        kinds = ", ".join(f"{row['tables']} {row['kind']}" for row in rows_of(planned(*KAGGLE), "kinds"))
        assert f"\ntables: {kinds}\n" in said, (said, kinds)
        assert f"Embedding tables: {kinds}; over 8 ranks." in page.read_text()


def simulated_ns(name, cluster, words):
    result = orrery("simulate", name, "--cluster", cluster, "--plan", words, "--format", "json")
    assert result.returncode == 0, result.stderr
    return next(row["value"] for row in rows_of(json.loads(result.stdout), "figures") if row["figure"] == "step")


@case
def what_is_planned_is_simulated_no_slower_than_the_rule():
    for name, cluster, words in (("dlrm-dcnv2", "dgx_a100", "dp=8,batch=65536"),
                                 ("dlrm-dcnv2", "dgx_h100", "dp=8,batch=65536"),
                                 ("dlrm-criteo-1tb", "dgx_a100", "dp=8,batch=65536"),
                                 ("dlrm-a", "h100_superpod", "dp=64,batch=65536")):
        rule, best = (simulated_ns(name, cluster, words + more) for more in ("", ",tables=auto"))
        assert best <= rule * 1.001, f"{name} on {cluster}: {best} ns, by rule {rule}"


@case
def a_plan_that_does_not_suit_the_run_is_refused():
    with scratch() as folder:
        path = folder / "two.yaml"
        tables(SMALL, "-c", "dgx_a100", "--ranks", "2", "-o", path)
        line = one_line(orrery("train", SMALL, "--plan", f"dp=4,batch=120,tables={path}"), 4)
        assert "2 ranks" in line and "job has 4" in line, line
        assert "job has 4" in one_line(orrery("simulate", *KAGGLE, "--plan", f"dp=4,batch=4k,tables={path}"), 4)
        assert "embedding tables" in one_line(orrery("train", "gpt2", "--plan", "tables=auto"), 4)
        assert "embedding tables" in one_line(orrery("simulate", "gpt2", "-c", "dgx_a100", "--plan", "tables=auto"), 4)
        assert "twice" in one_line(orrery("train", SMALL, "--plan", "tables=auto,tables=auto"), 2)
        assert "nothing.yaml" in one_line(orrery("train", SMALL, "--plan", "tables=nothing.yaml", cwd=folder), 3)
        path.write_text(path.read_text().replace("t7:", "t8:", 1))
        assert "two.yaml:" in one_line(orrery("train", SMALL, "--plan", f"dp=2,batch=120,tables={path}"), 3)


# --- disks and interrupts -------------------------------------------------------------------------


@case
def a_full_disk_leaves_the_older_plan():
    with scratch() as folder:
        path = folder / "plan.yaml"
        path.write_text("of yesterday")
        for size in (0, 1, 200):
            result = tables(*KAGGLE, "-o", path, preexec_fn=lambda size=size: resource.setrlimit(
                resource.RLIMIT_FSIZE, (size, size)))
            line = one_line(result, 3)
            assert "File too large" in line and "plan.yaml" in line, line
            assert path.read_text() == "of yesterday" and len(list(folder.iterdir())) == 1
    assert "No space left" in one_line(tables(*KAGGLE, "-o", "/dev/full"), 3)


@case
def an_interrupt_ends_it_with_what_there_is():
    with scratch() as folder:
        path = folder / "plan.yaml"
        process = subprocess.Popen([BIN, "tables", "-v", *KAGGLE, "--exact", "--format", "json", "-o", path],
                                   env=environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        try:
            said = process.stderr.readline()
            assert said == "orrery: planning 26 tables over 8 ranks\n", said
            process.send_signal(signal.SIGINT)
            said, error = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130, f"exit {process.returncode}: {error}"
        answer = json.loads(said)
        assert answer["interrupted"] and answer["status"] == "interrupted" and answer["gap_frac"] > 0, answer["status"]
        again = planned(*KAGGLE, "--plan", f"tables={path}")
        assert rows_of(again, "comparison")[0]["time_ns"] == answer["ns"]


@case
def a_time_limit_ends_it_with_what_there_is():
    for limit in ("1us", "50ms"):
        answer = planned(*KAGGLE, "--exact", "--time-limit", limit)
        assert answer["status"] == "stopped" and len(rows_of(answer, "tables")) == 26, answer["status"]


def served(*args):
    result = orrery("simulate", "-q", "dlrm-dcnv2", "--task", "serve", "-c", "sdm_nand_host", "--format", "json", *args)
    assert result.returncode == 0, result.stderr
    return {row["figure"]: row["value"] for row in rows_of(json.loads(result.stdout), "figures")}


@case
def serving_costs_what_was_said_or_nothing_is_told():
    assert "cost" not in served()
    told = served("--price", "2")
    assert abs(told["cost"] - 2e6 / 3600 / told["samples_per_s"]) < 1e-9, told
    one_line(orrery("simulate", "dlrm-dcnv2", "--task", "serve", "-c", "sdm_nand_host", "--price", "0"), 2)


def parts_of(plan):
    result = orrery("simulate", "-q", "dlrm-dcnv2", "-c", "sdm_nand_host", "--plan",
                    f"dp=2,micro_batch=4096,precision=fp32,tables={plan}", "--format", "json")
    assert result.returncode == 0, result.stderr
    return {row["part"]: row["mean_ns"] for row in rows_of(json.loads(result.stdout), "waterfall")}


@case
def a_training_knows_where_its_rows_live():
    with scratch() as folder:
        path, memory = folder / "plan.yaml", folder / "memory.yaml"
        planned("dlrm-dcnv2", "-c", "sdm_nand_host", "--batch", "8192", "--tiers", "host,dram=8GiB", "-o", path)
        memory.write_text(re.sub(r"lookahead: .*\n|, tier: block, cached_rows: \d+", "", path.read_text()))
        parts, without = parts_of(path), parts_of(memory)
        assert parts.pop("rows from storage") > 0 and "rows from storage" not in without, parts
        assert set(parts) == set(without), (parts, without)
        for part in set(parts) - {"overhead"}:
            assert parts[part] == without[part], part


MACHINE = """schema: orrery.machine/1
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
  - path: /disk
    engine: io_uring
    sector: 512
    bytes: 1073741824
    accesses:
      - [random_read, 512, 128, %d, 100000, 200000, 3000]
      - [random_write, 512, 128, 1000000, 1, 1, 1000]
"""


@case
def measured_storage_is_what_rows_live_on():
    fetch_ns = []
    with scratch() as folder:
        machine = folder / "machine.yaml"
        for reads_per_s in (10_000, 20_000):
            machine.write_text(MACHINE % reads_per_s)
            result = orrery("tables", "dlrm-criteo-kaggle", "-c", "dgx_a100", "--machine", machine, "--tiers",
                            "dram=256MiB,block=10GiB", "--format", "json")
            assert result.returncode == 0 and "measured under /disk" in result.stderr, result.stderr
            block = next(row for row in rows_of(json.loads(result.stdout), "tiers") if row["tier"] == "block")
            fetch_ns.append(block["fetch_ns"] / block["reads"])
        assert abs(fetch_ns[0] - 101_000) < 100 and abs(fetch_ns[1] - 51_000) < 100, fetch_ns
        result = orrery("tables", "dlrm-criteo-kaggle", "-c", "dgx_a100", "--tiers", "dram=256MiB,block=10GiB")
        assert "rates are assumed" in result.stderr, result.stderr


if __name__ == "__main__":
    main()
