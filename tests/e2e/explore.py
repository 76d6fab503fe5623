#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A search as somebody makes one: the plan it prints is the one that `simulate` confirms, formats and the page say the
same, and a search that is interrupted, killed or pinned too tightly says so and loses nothing."""
import contextlib
import csv
import fcntl
import html.parser
import json
import math
import os
import pathlib
import pty
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import termios

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "page")]
import browser  # noqa: E402
from harness import (BIN, BUILD, PATIENCE_S, SANITIZED, Skip, case, environment, main, one_line, orrery,  # noqa: E402
                     scratch, wait_for)

SMALL = ["llama3.2-1b", "--cluster", "dgx_h100", "--batch", "32"]
SITES = ["llama3.2-1b", "--cluster", "gcp_a100_two_regions", "--batch", "128", "--seq", "2k", "--fix",
         "tp=2,zero=1,micro_batch=2,recompute=none,overlap_tp=on", "--limit", "pp<=4,cp<=1", "--gap", "10%"]
LARGE = ["llama3.1-405b", "--cluster", "h100_24k", "--exact"]
# With those that the next version leaves out: limits, needs, front.
TABLES = ["plans", "decision", "published", "bottlenecks", "limits", "cuts", "axes", "alternatives", "waterfalls",
          "break_even", "needs", "pareto_front", "front", "sensitivity", "baselines", "search", "memory", "basis",
          "relaxations", "answers", "probes", "network"]


def explore(*args, **more):
    return orrery("explore", "-q", *args, **more)


def found(*args, code=0, **more):
    """The document of a search."""
    result = explore(*args, "--format", "json", **more)
    assert result.returncode == code, f"exit {result.returncode}: {result.stderr}"
    return json.loads(result.stdout)


def confirmed_ns(question, plan, *more):
    """Step of the plan as `simulate` has it, which has to fit."""
    result = orrery("simulate", "-q", *question[:3], "--plan", plan, *more, "--format", "json")
    assert result.returncode == 0, f"{plan}: exit {result.returncode}: {result.stderr}"
    figures = json.loads(result.stdout)["tables"]["figures"]["rows"]
    return int(next(row["value"] for row in figures if row["figure"] == "step"))


@case
def the_plan_that_is_printed_takes_the_step_that_is_told():
    answer = found(*SMALL)
    assert answer["schema"] == "orrery.explore/1" and answer["status"] in ("optimal", "within the gap"), answer
    assert confirmed_ns(SMALL, answer["plan"]) == answer["step_ns"]
    assert answer["bound"] <= answer["value"] and answer["gap_frac"] <= 0.02
    plan = explore(*SMALL, "--format", "plan")
    assert plan.returncode == 0 and plan.stdout == answer["plan"] + "\n", plan.stdout
    for row in answer["tables"]["plans"]["rows"]:
        assert confirmed_ns(SMALL, row["plan"]) == row["step_ns"], row


@case
def a_calibration_of_ones_own_is_that_of_the_search():
    """Half of the products' speed makes every plan slower, as `simulate` has it, and is another question to a store."""
    with scratch() as folder:
        usual = (HERE.parents[1] / "catalog/calibrations/h100_sxm_80g.yaml").read_text()
        slow = folder / "slow.yaml"
        slow.write_text(re.sub(r"(matmul_(?:bf16|fp8):\s+\{value: )([\d.]+), low: [\d.]+, high: [\d.]+",
                               lambda at: f"{at[1]}{float(at[2]) / 2}", usual))
        store, own = folder / "a.db", ("--calibration", str(slow))
        first, second = found(*SMALL, "--store", store), found(*SMALL, *own, "--store", store, "--resume")
        assert second["step_ns"] > 1.3 * first["step_ns"], (first["step_ns"], second["step_ns"])
        assert confirmed_ns(SMALL, second["plan"], *own) == second["step_ns"]
        assert not any(row["stage"].endswith("earlier run") for row in second["tables"]["search"]["rows"])
        one_line(explore(*SMALL, "--calibration", folder / "none.yaml"), 3)


@case
def a_plan_over_sites_is_confirmed_too():
    answer = found(*SITES)
    assert confirmed_ns(SITES, answer["plan"]) == answer["step_ns"]
    assert [site["name"] for site in answer["sites"]] == ["us-central1-a", "us-central1-b", "us-west1-b"]
    assert sum(site["used"] for site in answer["sites"]) == answer["devices"]


@case
def what_is_fixed_bounded_and_left_out_is_kept_to():
    answer = found(*SMALL, "--fix", "tp=2", "--bounds", "pp<=2", "--exclude", "fp8,zero=3")
    for row in answer["tables"]["plans"]["rows"]:
        fields = dict(field.split("=") for field in row["plan"].split(","))
        assert fields["tp"] == "2" and int(fields.get("pp", 1)) <= 2, row["plan"]
        assert fields.get("precision", "bf16") != "fp8" and fields.get("zero") != "3", row["plan"]
        assert fields["batch"] == "32"


@case
def fewer_devices_and_a_front():
    answer = found(*SMALL, "--gpus", "4", "--pareto", "devices")
    front = answer["tables"]["front"]["rows"]
    assert answer["devices"] <= 4 and front
    for before, after in zip(front, front[1:]):
        assert before["step_ns"] <= after["step_ns"] and before["devices"] >= after["devices"], front


@case
def all_formats_have_the_same_tables():
    answer = found(*SMALL, "--sensitivity", "--baselines", "production,fsdp")
    assert list(answer["tables"]) == TABLES, list(answer["tables"])
    assert len(answer["tables"]["sensitivity"]["rows"]) == 8
    assert [row["baseline"] for row in answer["tables"]["baselines"]["rows"]] == ["production", "fsdp"]
    text = explore(*SMALL, "--format", "csv")
    blocks = [list(csv.reader(block.splitlines())) for block in text.stdout.split("\n\n")]
    assert blocks[0][0][0] == "place" and blocks[0][1][0] == "1", blocks[0]
    assert "| place |" in explore(*SMALL, "--format", "md").stdout


@case
def the_answer_is_a_set_and_one_of_it_is_recommended():
    """Plans within the model's error, with what they lose over draws; fp8 and MFU are told with the precision's peak."""
    question = SMALL + ["--fix", "precision=bf16", "--seq", "4k"]
    answer = found(*question)
    rows = answer["tables"]["decision"]["rows"]
    assert answer["set_plans"] == len(rows) >= 1 and answer["draws"] == 200, answer["set_plans"]
    assert [row["place"] for row in rows] == list(range(1, len(rows) + 1))
    assert sum(row["recommended"] for row in rows) == 1
    take = next(row for row in rows if row["recommended"])
    assert take["plan"] == answer["recommended_plan"]
    assert take["mean_regret_frac"] == min(row["mean_regret_frac"] for row in rows)
    assert rows[0]["plan"] == answer["plan"] and rows[0]["odds_of_better_frac"] == 0.5
    assert all(0.1 <= row["odds_of_better_frac"] <= 0.5 for row in rows)
    assert sum(row["draws_best_frac"] for row in rows) <= 1 + 1e-9
    for row in rows[:6]:
        assert confirmed_ns(question, row["plan"]) == row["step_ns"], row
    # In fp8 the plan is another, as `simulate` has it, and its MFU is of a peak twice as high.
    fp8 = answer["plan"] + ("" if "precision" in answer["plan"] else ",precision=fp8")
    assert answer["fp8_value"] == confirmed_ns(question, fp8), fp8
    shares = []
    for plan in (answer["plan"], fp8):
        figures = json.loads(orrery("simulate", "-q", *question[:3], "--plan", plan, "--format", "json").stdout)
        rows = {row["figure"]: row for row in figures["tables"]["figures"]["rows"]}
        shares.append(float(rows["mfu"]["value"]) * float(rows["step"]["value"]))
    assert abs(shares[0] / shares[1] - 2) < 0.01, shares
    text = explore(*question).stdout
    assert "\nanswer: " in text and "\nfp8: this plan would take" in text and "warning:" not in text, text


@case
def the_published_plan_of_a_job_stands_beside_what_is_found():
    question = ["gpt3-175b", "--cluster", "h100_superpod", "--gpus", "512", "--min-gpus", "512", "--batch", "2048",
                "--seq", "2k", "--fix", "tp=4,pp=8,precision=fp8", "--gap", "20%", "--keep", "2"]
    answer = found(*question)
    rows = {row["name"]: row for row in answer["tables"]["published"]["rows"]}
    assert sorted(rows) == ["mlperf_gpt3_2023", "mlperf_gpt3_2024"], sorted(rows)
    row = rows["mlperf_gpt3_2024"]
    assert abs(row["measured_step_ns"] - 10.37e9) < 1 and row["source"] and row["fits"]
    assert abs(row["excess_frac"] - (row["step_ns"] / answer["step_ns"] - 1)) < 1e-9
    assert row["step_ns"] == confirmed_ns(question, row["plan"])
    assert "published: mlperf_gpt3_2024" in explore(*question).stdout


@case
def threads_do_not_change_the_answer():
    one, three = (found(*SMALL, "--threads", n) for n in ("1", "3"))
    for answer in (one, three):
        del answer["wall_ns"]
    assert one == three


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


@case
def a_page_that_needs_nothing_else():
    with scratch() as folder:
        path = folder / "plan.html"
        result = explore(*SITES, "--pareto", "devices", "--sensitivity", "--baselines", "all", "--html", path)
        assert result.returncode == 0, result.stderr
        page = Page(path.read_text())
        assert page.tags.count("script") == 1 and "link" not in page.tags and page.tags.count("svg") >= 6, page.tags
        chromium = browser.find()
        if not chromium:
            raise Skip("no Chromium here (set ORRERY_CHROMIUM): the page was only parsed")
        with contextlib.closing(browser.Browser(chromium)) as shown:
            for theme in ("light", "dark"):
                shown.theme(theme)
                shown.open(path.as_uri(), ready="document.readyState == 'complete'")
                assert not shown.problems(), shown.problems()
                assert all(url.startswith("file:") for url in shown.requests()), shown.requests()
                assert shown.eval("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the window"
                # Words of the pictures lie within them.
                out = shown.eval("""[...document.querySelectorAll('svg.picture text')].filter(t => {
                    const a = t.getBoundingClientRect(), b = t.closest('svg').getBoundingClientRect();
                    return a.left < b.left - 2 || a.right > b.right + 2 || a.top < b.top - 4 || a.bottom > b.bottom + 4;
                }).map(t => t.textContent)""")
                assert out == [], out


@case
def no_plan_is_told_with_what_would_make_one():
    answer = found("llama3.1-405b", "--cluster", "dgx_h100", "--batch", "8", code=4)
    assert answer["status"] == "no feasible plan" and answer["plan"] is None and answer["infeasible"]
    text = explore("llama3.1-405b", "--cluster", "dgx_h100", "--batch", "8")
    assert text.returncode == 4 and "no feasible plan: " in text.stdout, text.stdout


@case
def no_time_is_not_no_plan():
    result = explore(*LARGE[:3], "--time-limit", "1ms")
    assert result.returncode in (0, 1) and "no feasible plan" not in result.stdout, result.stdout
    assert result.returncode == 0 or "stopped before a plan was found" in result.stdout, result.stdout


@case
def what_cannot_be_asked_is_refused_in_a_line():
    for more, word in ([("--fix", "tp=x"), "--fix"], [("--gap", "no"), "--gap"], [("--objective", "budget"), "--tokens"],
                       [("--resume",), "--store"], [("--bounds", "tp<<3"), "bounds"], [("--exclude", "fp9"), "fp9"],
                       [("--baselines", "atlass"), "atlas"], [("--dimensions", "colour"), "colour"]):
        assert word in one_line(explore(*SMALL, *more), 2), more
    one_line(explore("no-such-model", "--cluster", "dgx_h100"), 3)
    one_line(explore("llama3.2-1b", "--cluster", "nowhere.yaml"), 3)
    one_line(explore(*SMALL, "--html", "/nowhere/at/all.html"), 3)


def start(*args, cwd):
    return subprocess.Popen([BIN, "explore", "-q", *map(str, args)], cwd=cwd, env=environment(), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def kept_plans(store):
    """Texts of the plans that were simulated, as the database has them."""
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=PATIENCE_S)) as base:
        try:
            return {row[0] for row in base.execute("SELECT plan FROM plan WHERE step_ns > 0")}
        except sqlite3.OperationalError:
            return set()


def wait_for_a_plan(process, store):
    """Return once a simulated plan is in the database of the search, or the search is over."""
    wait_for(lambda: process.poll() is not None or (store.exists() and kept_plans(store)), "no plan is kept")


@case
def an_interrupt_ends_it_with_what_there_is():
    with scratch() as folder:
        process = start(*LARGE, "--store", folder / "runs.db", "--format", "json", cwd=folder)
        try:
            wait_for_a_plan(process, folder / "runs.db")
            assert process.poll() is None, "the search was over before it could be interrupted"
            process.send_signal(signal.SIGINT)
            said, error = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130, f"exit {process.returncode}: {error}"
        answer = json.loads(said)
        assert answer["interrupted"] and not answer["complete"], answer["status"]
        assert confirmed_ns(LARGE, answer["plan"]) == answer["step_ns"]


def resumed_plans(answer):
    rows = {row["what"]: row["plans"] for row in answer["tables"]["search"]["rows"]}
    return rows.get("simulated by an earlier run", 0)


@case
def what_a_baseline_said_is_not_simulated_again():
    """As if the search had been killed after its first plan, before any family."""
    with scratch() as folder:
        store = folder / "runs.db"
        whole = found(*SMALL, "--store", store, "--resume")
        assert resumed_plans(whole) == 0
        for kept in sorted(kept_plans(store)):
            with contextlib.closing(sqlite3.connect(store, timeout=PATIENCE_S)) as base:
                base.execute("DELETE FROM family")
                base.execute("DELETE FROM plan WHERE plan <> ?", [kept])
                base.commit()
            answer = found(*SMALL, "--store", store, "--resume")
            assert resumed_plans(answer) >= 1, (kept, answer["tables"]["search"]["rows"])
            assert answer["value"] == whole["value"] and kept in kept_plans(store)


@case
def a_killed_search_goes_on_where_it_was():
    question = ["llama3.1-70b", "--cluster", "dgx_h100_pod", "--batch", "512", "--gap", "0.1%"]
    with scratch() as folder:
        store = folder / "runs.db"
        process = start(*question, "--store", store, cwd=folder)
        try:
            wait_for_a_plan(process, store)
        finally:
            process.kill()
            process.communicate()
        before = kept_plans(store)
        assert before, "nothing was kept"
        answer = found(*question, "--store", store, "--resume")
        assert resumed_plans(answer) >= 1, answer["tables"]["search"]["rows"]
        assert before <= kept_plans(store)
        # Once more: everything is there, nothing is simulated again.
        again = found(*question, "--store", store, "--resume")
        assert again["value"] <= answer["value"]


@case
def a_terminal_sees_where_it_stands_and_then_the_answer():
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        raise Skip(f"no terminals here: {error}") from error
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    process = subprocess.Popen([BIN, "explore", *LARGE, "--format", "plan"], env=environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    seen, shown = b"", None
    try:
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 65536):
                seen += chunk
                if not shown:
                    shown = re.search(rb"\rexploring .* best \d.* plans .*/s .* [1-9][\d,]* simulated", seen)
                    if shown:
                        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert shown, seen
    assert process.returncode == 130 and said.count("\n") == 1, f"exit {process.returncode}: {said} {seen}"
    assert seen.split(b"\r")[-1] == b"\x1b[K", seen  # the line is gone


@case
def processes_of_mpirun_find_the_same_and_one_speaks():
    plugin, mpirun = BUILD / "src" / "io" / "orrery_mpi.so", shutil.which("mpirun")
    if not plugin.exists() or not mpirun:
        raise Skip("no MPI here")
    if SANITIZED:
        raise Skip("MPI is not built for sanitizers")
    alone = explore(*SMALL, "--threads", "1", "--format", "plan")
    env = environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", ORRERY_MPI_PLUGIN=str(plugin))
    together = subprocess.run([mpirun, "--oversubscribe", "-n", "2", BIN, "explore", "-q", *SMALL, "--threads", "1",
                               "--format", "plan"], env=env, capture_output=True, text=True, timeout=PATIENCE_S,
                              check=False)
    assert together.returncode == 0, together.stderr
    assert together.stdout == alone.stdout, together.stdout


@case
def plans_over_sites_are_checked_with_flows():
    """Few plans are left, all of which cross; none is told where no draw is asked for."""
    few = ["llama3.2-1b", "--cluster", "gcp_a100_two_regions", "--batch", "128", "--seq", "2k", "--gap", "10%",
           "--fix", "tp=2,pp=3,dp=64,cp=1,zero=1,micro_batch=1,recompute=none", "--dimensions", "placement"]
    rows = found(*few)["tables"]["network"]["rows"]
    assert rows, rows
    for row in rows:
        assert row["flows_p95_ns"] >= row["flows_mean_ns"] * 0.999 and row["closed_form_ns"] > 0, row
        assert row["differs"] == (abs(row["flows_mean_ns"] / row["closed_form_ns"] - 1) > 0.03), row
    busy = found(*few, "--network-flows", "others=90%,seed=2")["tables"]["network"]["rows"]
    by_plan = {row["plan"]: row["flows_mean_ns"] for row in rows}
    assert any(row["flows_mean_ns"] > by_plan.get(row["plan"], math.inf) for row in busy), (rows, busy)
    assert found(*few, "--network-draws", "0")["tables"]["network"]["rows"] == []


@case
def published_effects_are_printed():
    result = explore("--published-effects", "--format", "json")
    assert result.returncode == 0, result.stderr
    table = json.loads(result.stdout)
    assert table["schema"] == "orrery.network_effects/1" and len(table["rows"]) >= 7
    assert all(row["source"] for row in table["rows"])


if __name__ == "__main__":
    main()
