#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command of docs/explore_cookbook.md runs as it is written, and its answer has the shape that the text says. The
environment asks for JSON, so that what is said can be checked. No check depends on how far a search comes in its time."""
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import PATIENCE_S, SOURCE, case, environment, main  # noqa: E402

TEXT = (SOURCE / "docs" / "explore_cookbook.md").read_text()


def commands_of(question):
    section = re.split(r"^## ", TEXT, flags=re.M)[question]
    assert section.startswith(f"{question}. "), section[:80]
    blocks = re.findall(r"^```sh\n(.*?)^```", section, flags=re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def answers(question, codes=None):
    """The documents that the commands of a question print, in order. `codes`: their exit codes, where not 0."""
    documents = []
    for command, code in zip(commands_of(question), codes or [0, 0]):
        result = subprocess.run(["bash", "-c", command], cwd=SOURCE, text=True, capture_output=True, check=False,
                                stdin=subprocess.DEVNULL, timeout=PATIENCE_S, env=environment(ORRERY_FORMAT="json"))
        assert result.returncode == code, f"{command}: exit {result.returncode}: {result.stderr}"
        documents.append(json.loads(result.stdout))
    return documents


def rows(document, table):
    return document["tables"][table]["rows"]


def answer(document, question):
    return next(row for row in rows(document, "answers") if row["question"] == question)


def probes(document, title):
    return [row for row in rows(document, "probes") if row["question"] == title]


def best(document):
    assert document["plan"], document["status"]
    assert document["value"] > 0 and 0 <= document["gap_frac"] <= 1
    return rows(document, "plans")[0]


def check_bracket(document, row, smaller_is_harder=True):
    """The answer meets the limit, what is beyond it was not found to, and the probes are in order."""
    made = probes(document, row["title"])
    assert row["value"] <= row["limit"] and row["probes"] == len(made)
    assert sum(probe["is_answer"] for probe in made) == 1
    for probe in made:
        meets = probe["value"] is not None and probe["value"] <= row["limit"]
        assert (probe["verdict"] == "meets") == meets, probe
        if probe["verdict"] == "cannot" and probe["bound"] is not None:
            assert probe["bound"] > row["limit"] or probe["value"] is None, probe
    if row["beyond"] is not None:
        assert (row["beyond"] < row["at"]) == smaller_is_harder
    return made


@case
def the_commands_are_those_of_six_questions():
    assert [len(commands_of(question)) for question in range(1, 7)] == [2, 1, 1, 2, 2, 1]


@case
def deepseek_v3_as_published_and_as_it_fits():
    published, found = answers(1, codes=[4, 0])
    figures = {row["figure"]: row["value"] for row in rows(published, "figures")}
    published_ns = float(figures["step"])
    hours, tokens, step_tokens, devices = 2.664e6, 14.8e12, 15360 * 4096, 2048
    measured_ns = hours * 3600e9 / devices / (tokens / step_tokens)
    assert abs(published_ns / measured_ns - 1) < 0.1, (published_ns, measured_ns)
    assert published["fits"] is False
    plan = best(found)
    assert plan["peak_bytes"] <= plan["usable_bytes"]
    assert published_ns < found["value"] < 2 * published_ns
    assert "pp=16" in found["plan"] and "dualpipe" in found["plan"]


@case
def bandwidth_between_three_buildings():
    document, = answers(2)
    row = answer(document, "bandwidth")
    made = check_bracket(document, row)
    given = next(probe for probe in made if probe["probe"] == "as it is")
    assert row["at"] < given["at"] and row["beyond"] < row["at"] <= 1.05 * row["beyond"]
    assert row["limit"] == 1.02 * given["value"]
    by_bandwidth = sorted((probe for probe in made if probe["value"] is not None), key=lambda probe: probe["at"])
    if row["contradictions"] == 0:
        assert all(a["value"] >= b["value"] * (1 - 1e-9) for a, b in zip(by_bandwidth, by_bandwidth[1:]))
    for probe in made:
        if probe["ratio_with_reference_plan"] is not None and probe["ratio_to_reference"] is not None:
            assert probe["ratio_to_reference"] <= probe["ratio_with_reference_plan"] * (1 + 1e-9)


@case
def llama_3_405b_with_failures():
    document, = answers(3)
    plan = best(document)
    assert plan["devices"] <= 16384 and plan["budget_days"] > 0 and 0 < plan["effective_time_frac"] < 1
    assert document["bound"] is None or document["bound"] <= document["value"]
    row = answer(document, "spares")
    check_bracket(document, row)
    changed = {probe["probe"]: probe["ratio_to_reference"] for probe in probes(document, "what if")}
    assert changed["failures x 0.5"] < 1 < changed["failures x 2"], changed


@case
def three_regions_with_local_steps_and_without():
    with_steps, without = answers(4)
    plan = best(with_steps)
    assert plan["devices"] == 768 and "local_steps=64" in plan["plan"] and plan["changes_numerics"]
    sites = with_steps["sites"]
    assert [site["name"] for site in sites] == ["west", "middle", "east"]
    assert all(site["used"] == 256 for site in sites)
    assert not best(without)["changes_numerics"]
    for document in (with_steps, without):
        row = answer(document, "against")
        own, one_place = probes(document, row["title"])
        assert one_place["step_ns"] > 0 and one_place["devices"] <= 768
        assert one_place["value"] <= own["value"]
    ratio = [probes(d, answer(d, "against")["title"])[1]["ratio_to_reference"] for d in (with_steps, without)]
    assert ratio[0] > 0.8 and ratio[1] < ratio[0], ratio


@case
def older_devices_beside_newer_ones():
    both, one = (best(document) for document in answers(5))
    assert both["devices"] > one["devices"] and one["devices"] <= 6144
    assert both["budget_days"] < one["budget_days"]
    assert both["cost_usd"] > one["cost_usd"]


@case
def ten_days_on_three_clusters():
    document, = answers(6)
    names = ["h100_superpod", "h200_pod", "b200_pod"]
    assert sorted(probe["probe"] for probe in probes(document, "the best plan of each cluster")) == sorted(names)
    devices, cost = {}, {}
    for name in names:
        fewest = next(row for row in rows(document, "answers") if row["title"] == f"{name}: fewest devices")
        cheapest = next(row for row in rows(document, "answers") if row["title"] == f"{name}: lowest cost")
        for probe in check_bracket(document, fewest):
            assert probe["verdict"] != "meets" or probe["budget_days"] <= 10
        chosen = next(probe for probe in probes(document, cheapest["title"]) if probe["is_answer"])
        assert chosen["budget_days"] <= 10 and chosen["devices"] >= fewest["beyond"]
        in_time = [probe["cost_usd"] for probe in probes(document, fewest["title"]) if probe["verdict"] == "meets"]
        assert chosen["cost_usd"] <= min(in_time)
        assert chosen["bound"] is None or chosen["bound"] <= chosen["cost_usd"]
        devices[name], cost[name] = fewest["at"], chosen["cost_usd"]
    assert devices["b200_pod"] == min(devices.values())
    assert document["question"]["cluster"] == min(cost, key=cost.get)


if __name__ == "__main__":
    main()
