#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the rules of the team's protocol in its code, one at a time: each must be noticed by a test.

    broken_rules.py --check           every rule stands in the sources as it is told here
    broken_rules.py TREE [RULE...]    breaks them in TREE, a git worktree made for this with a build of its own, and
                                      says for each which test noticed: the units of the team first, then the
                                      simulation, with its seeds that failed once and SEEDS fresh ones

The first rules are those of tests/model/team.pml, by its names.
"""
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
SEEDS = 200_000
UNITS = ("roster", "membership", "coordinator", "coordinator_hostile", "standby", "member", "message",
         "proxy_merge")

# name -> (file under src/team, what stands there, what breaks it)
RULES = {
    # Those of the model.
    "DURABLE": ("coordinator/epoch.c", "if (!committed || c->first_commit)", "if (committed && c->first_commit)"),
    "PARTIAL": ("coordinator/commit.c", "        if (peer == NULL || !peer->ready)\n            return false;",
                "        if (i > 1 && (peer == NULL || !peer->ready))\n            continue;\n"
                "        if (peer == NULL || !peer->ready)\n            return false;"),
    "OLD_READY": ("coordinator/commit.c", "!peer->in || frame->epoch != c->epoch.epoch ||", "!peer->in ||"),
    "FORGET": ("member/member.c", "    memcpy(addresses, ring, ring_bytes);\n",
               "    m->report.prepared = false;\n    memcpy(addresses, ring, ring_bytes);\n"),
    "SILENT": ("member/epoch.c", "    r->known = m->epoch.step;\n    r->known_epoch = m->epoch.data.epoch;\n",
               "    if (whole)\n        r->known = m->epoch.step;\n    if (whole)\n        r->known_epoch = m->epoch.data.epoch;\n"),
    "RECORD": ("protocol/membership.c", "        if (r->epoch <= memory->record.epoch)\n            continue;",
               "        if (r->epoch <= memory->record.epoch || memory->record.members.n > 0)\n            continue;"),
    "STALE": ("protocol/roster.c", "holder(candidates, n, best->step, &memory->made, NULL)",
              "holder(candidates, n, best->step, NULL, NULL)"),
    "JOINERS": ("protocol/roster.c", "    if (!has_state(r))\n        return false;",
                "    if (!has_state(r))\n        return !epoch->carried;"),
    "UNSURE": ("protocol/roster.c", "(!memory->lost && orr_roster_quorum(memory, candidates, n).all_heard)",
               "orr_roster_quorum(memory, candidates, n).all_heard"),
    "SLOT": ("protocol/roster.c", "r->slot == ORR_TEAM_NONE || !orr_team_data_cursor_is_open(&epoch->data, r->slot))",
             "r->slot == ORR_TEAM_NONE)"),
    "NUMBER": ("protocol/roster.c", "        ret->epoch += memory->jump;", "        ret->epoch += 0;"),
    "HALF": ("protocol/membership.c", "2 * q.here > roll->n || roll->n == 0", "2 * q.here >= roll->n || roll->n == 0"),
    "BASE": ("protocol/membership.c", "orr_quorum q = count(memory, 1, candidates, n);",
             "orr_quorum q = count(memory, 0, candidates, n);"),
    "EPOCH_COMMITS": ("member/epoch.c", "    if (m->epoch.carried) {\n        enter_carried(m);\n",
                      "    if (m->epoch.carried) {\n        enter_carried(m);\n        if (m->report.prepared)\n"
                      "            orr_team_member_conclude_step(m, ORR_OUTCOME_COMMITTED, 0);\n"),
    "GONE": ("protocol/membership.c", "q.all_heard &= here || memory->dead[which][i];",
             "q.all_heard &= here || memory->gone[which][i];"),
    "UNASKED": ("coordinator/epoch.c",
        "    if (next->step >= c->memory.step)\n        return false;",
        "    return false;"),
    "BASELESS": ("coordinator/epoch.c", "if (!committed || c->first_commit)", "if (!committed)"),
    "ALSO": ("protocol/membership.c", "        q.enough &= last.enough;", "        q.enough &= true;"),
    # Others.
    "digests are not compared": ("coordinator/commit.c", "    if (!digests_differ(c)) {", "    if (true) {"),
    "a foreign state is accepted": ("protocol/roster.c",
        "return !memory->uncommitted &&",
        "return false && !memory->uncommitted &&"),
    "a hello that comes late counts": ("protocol/message.c",
        "&& call < last->call)",
        "&& call < last->call && call == 0)"),
    "the base is who committed, not who contributes since": ("protocol/membership.c",
        "if (nobody || (!epoch->carried",
        "if (nobody || (false && !epoch->carried"),
    "checkpoints say nothing of epochs": ("protocol/roster.c",
        "if (ret->epoch < memory->known_epoch)",
        "if (false && ret->epoch < memory->known_epoch)"),
    "a majority without memory waits for nobody": ("coordinator/epoch.c",
        "(c->memory.lost ? c->settings.join_window_ns : c->patience_ns)",
        "c->patience_ns"),
    "going back drops what a rank has committed": ("protocol/roster.c",
        "    if (known != NULL || (behind && !all_heard))",
        "    if (known != NULL || behind)"),
    "a later life disproves a commit": ("protocol/roster.c",
        "if (orr_member_id_equal(&one->members.ids[k], &r->id) && r->known",
        "if (strcmp(one->members.ids[k].name, r->id.name) == 0 && r->known"),
    "ranks that were apart go on": ("member/epoch.c", "    if (frame->op == 1) /*", "    if (frame->op == 7) /*"),
    "what was fetched is kept in another branch": ("member/epoch.c",
        "    if (whole || !leads_here(m))",
        "    if (whole)"),
    "a rank that has a state stands for all": ("member/proxy_merge.c",
        "            r->step = ORR_TEAM_NONE;\n            r->prepared = false;",
        "            r->prepared = false;"),
    "numbers that cannot be true are believed": ("protocol/membership.c",
        "    return plausible;",
        "    return plausible || true;"),
    "a standby leads without a quorum": ("coordinator/epoch.c",
        "    if (!q.enough) {",
        "    if (!q.enough && !stands_by) {"),
    "a standby ends the job without a quorum": ("coordinator/epoch.c",
        "    if (!stands_by && all_go(c, &f)) {",
        "    if (all_go(c, &f)) {"),
    "who led before goes on": ("coordinator/epoch.c",
        "    if (status == ORR_CANCELED && c->settings.standby) {",
        "    if (status == ORR_CANCELED && c->settings.standby) {\n        return true;"),
}


def broken(name, root):
    """(path, its text, its text with the rule broken)"""
    file, stands, breaks = RULES[name]
    path = root / "src" / "team" / file
    text = path.read_text(encoding="utf-8")
    if text.count(stands) != 1:
        sys.exit(f"{name}: stands {text.count(stands)} times in {path}, not once:\n{stands}")
    return path, text, text.replace(stands, breaks)


def run(words, cwd, seconds):
    """Whether it ends well, and the first line that says why not."""
    try:
        done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
                              check=False)
    except subprocess.TimeoutExpired:
        return False, "it does not end"
    said = re.search(r"^\[  FAILED  \] (test_\w+|seeds?_\w+)$|^(seed \d+: .*)$", done.stdout, re.M)
    return done.returncode == 0, said.group(said.lastindex) if said else f"exit {done.returncode}"


def noticed_by(build):
    """The test that notices; None: none does."""
    for unit in UNITS:
        well, why = run([build / f"tests/test_team_{unit}"], build, 60)
        if not well:
            return f"{unit}: {why}"
    simulation = build / "tests/simulation/test_simulation_team"
    some = SEEDS // 20
    fresh = [["--from", str(first), "--count", str(some), "--jobs", str(os.cpu_count())]
             for first in range(1_000_000, 1_000_000 + SEEDS, some)]
    for words in [[], *fresh]:
        well, why = run([simulation, *words], build, 900)
        if not well:
            return f"simulation: {why}"
    return None


def main():
    if sys.argv[1:] == ["--check"]:
        for name in RULES:
            broken(name, SOURCE)
        print(f"1..1\nok 1 - {len(RULES)} rules stand in the sources")
        return
    sys.path.insert(0, str(SOURCE / "tools"))
    import mutate
    tree = mutate.Tree(pathlib.Path(sys.argv[1]).resolve())
    targets = [*(f"tests/test_team_{unit}" for unit in UNITS), "tests/simulation/test_simulation_team"]
    missed = 0
    for name in sys.argv[2:] or RULES:
        path, _, text = broken(name, tree.path)
        with tree.replaced(path, text):
            by = noticed_by(tree.build) if tree.ninja(targets) else "the compiler"
        missed += by is None
        print(f"{name:55} {by or 'NOBODY'}", flush=True)
    sys.exit(missed > 0)


main()
