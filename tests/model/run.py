#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The protocol's model (team.pml), checked by SPIN: nothing wrong as it is, but with any rule broken.

    run.py                 small bounds, as in make test
    run.py --full          the bounds of README.md: minutes, and up to 6 GB
    run.py --show NAME     how a broken rule goes wrong, in words (names: the BAD_ ones in team.pml, without BAD_)
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import PATIENCE_S, Failed, Skip, cases, main, scratch  # noqa: E402

MODEL = pathlib.Path(__file__).resolve().parent / "team.pml"
RULES = {name: number for name, number in re.findall(r"^#define BAD_(\w+) +(\d+)", MODEL.read_text(), re.M)}
MEMORY_MIB = 6000


def bounds(steps=2, epochs=4, crashes=0, cuts=0, restarts=0, **more):
    named = dict(steps=steps, epochs=epochs, crashes=crashes, cuts=cuts, restarts=restarts, **more)
    return {name.upper(): str(value) for name, value in named.items()}


# What must hold: name, small bounds, full bounds.
HOLDS = [
    ("with its record",
     bounds(epochs=3, crashes=1, cuts=1, restarts=1),
     bounds(epochs=4, crashes=1, cuts=2, restarts=1)),
    ("with its record twice",
     None,
     bounds(epochs=4, crashes=1, cuts=1, restarts=2)),
    ("without its record",
     bounds(epochs=3, cuts=2, restarts=1, amnesia=1),
     bounds(epochs=4, crashes=1, cuts=2, restarts=1, amnesia=1)),
    ("data path breaks",
     bounds(epochs=3, crashes=1, cuts=1, faults=1),
     bounds(epochs=4, crashes=1, cuts=1, restarts=1, faults=1)),
    ("three steps",
     None,
     bounds(steps=3, epochs=4, crashes=1, cuts=1, restarts=1)),
    ("two killed",
     None,
     bounds(epochs=5, crashes=2, cuts=1)),
    ("every run ends, one killed",
     bounds(epochs=4, crashes=1, ends=1),
     bounds(epochs=7, crashes=1, restarts=1, ends=1)),
    ("every run ends, one cut off",
     bounds(epochs=4, cuts=1, ends=1),
     bounds(epochs=7, cuts=1, restarts=1, ends=1)),
]

# What must not, and where it shows.
BREAKS = {
    "DURABLE": bounds(crashes=1, restarts=1),
    "PARTIAL": bounds(crashes=1, cuts=1),
    "OLD_READY": bounds(crashes=1),
    "FORGET": bounds(cuts=1, restarts=1),
    "SILENT": bounds(crashes=1, cuts=2, restarts=1, steps=3),
    "RECORD": bounds(cuts=1, restarts=1),
    "STALE": bounds(crashes=1, cuts=2, steps=3),
    "JOINERS": bounds(crashes=1, cuts=1, restarts=1),
    "UNSURE": bounds(crashes=1, cuts=2, restarts=1),
    "SLOT": bounds(crashes=1, cuts=1, restarts=1),
    "NUMBER": bounds(cuts=1, restarts=1, amnesia=1),
    "HALF": bounds(cuts=2, restarts=1, amnesia=1),
    "BASE": bounds(cuts=2, restarts=1, amnesia=1),
    "EPOCH_COMMITS": bounds(cuts=2, restarts=1, amnesia=1),
    "BASELESS": bounds(crashes=1, cuts=1, restarts=2),
    "ALSO": bounds(crashes=1, cuts=2, restarts=1, amnesia=1),
    "UNASKED": bounds(epochs=5, crashes=2, cuts=1),
    "GONE": bounds(cuts=2, restarts=1, amnesia=1),
}
SLOW = {"ALSO", "BASELESS", "UNSURE"}  # millions of states before it shows


class Verifier:
    """pan, made once: bounds and rules are given by its environment."""

    def __init__(self, folder, full=False):
        self.folder = folder
        self.stores = ["-DHC4"] if full else []  # hashes of states, a few of which are alike; or states
        self.made = False

    def make(self):
        if self.made:
            return
        for tool in ("spin", "gcc"):
            if shutil.which(tool) is None:
                raise Skip(f"{tool} is not installed")
        shutil.copy(MODEL, self.folder)  # its trails are written beside it
        self.call(["spin", "-a", MODEL.name])
        self.call(["gcc", "-O2", "-w", "-DSAFETY", *self.stores, "-DVECTORSZ=2048",
                   f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c"])
        self.made = True

    def call(self, command, **environment):
        result = subprocess.run(command, cwd=self.folder, env={**os.environ, **environment}, text=True,
                                capture_output=True, timeout=3 * PATIENCE_S, check=False)
        if result.returncode != 0:
            raise Failed(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
        return result.stdout

    def run(self, at, rule="0", table_bits=22):
        self.make()
        return Outcome(self.call(["./pan", "-m2000", f"-w{table_bits}"], RULE=rule, **at))

    def story(self, at, rule):
        """The counterexample of the last run, in the words of the model."""
        said = self.call(["./pan", "-r"], RULE=rule, **at)
        return [line.strip() for line in said.splitlines()
                if line.strip().startswith(("member ", "coordinator: ", "the coordinator "))]


class Outcome:
    def __init__(self, text):
        def number(pattern):
            found = re.search(pattern, text)
            return float(found[1]) if found else 0.0

        self.text = text
        self.errors = int(number(r"errors: (\d+)"))
        self.states = int(number(r"(\d+(?:e\+\d+)?) states, stored"))
        self.depth = int(number(r"depth reached (\d+)"))
        self.seconds = number(r"elapsed time ([\d.e+-]+)")
        self.memory_mib = number(r"([\d.]+)\s+total actual memory")
        self.violated = re.search(r"pan:1: (.*)", text)
        # What makes "no error" worth nothing: a search that was cut short.
        self.partial = "Search not completed" in text or "max search depth too small" in text


def holds(verifier, at, table_bits):
    outcome = verifier.run(at, table_bits=table_bits)
    print(f"# {outcome.states} states, depth {outcome.depth}, {outcome.seconds:.1f} s, {outcome.memory_mib:.0f} MiB")
    if outcome.errors > 0:
        told = "\n".join(verifier.story(at, "0"))
        raise Failed(f"{outcome.violated[1] if outcome.violated else 'error'}\n{told}")
    assert not outcome.partial, outcome.text
    assert outcome.states > 100, outcome.text


def breaks(verifier, at, rule):
    outcome = verifier.run(at, RULES[rule])
    if not outcome.violated or "out of memory" in outcome.violated[1]:
        raise Failed(f"nothing goes wrong without this rule: {outcome.states} states")
    print(f"# after {outcome.states} states: {outcome.violated[1]}")


def show(verifier, rule):
    at = BREAKS[rule]
    outcome = verifier.run(at, RULES[rule])
    print("\n".join(verifier.story(at, RULES[rule])))
    print(outcome.violated[1] if outcome.violated else "nothing goes wrong")


def list_cases(verifier, full):
    assert BREAKS.keys() == RULES.keys(), BREAKS.keys() ^ RULES.keys()
    for name, small, large in HOLDS:
        at = large if full else small
        if at is not None:
            cases.append((name, lambda at=at: holds(verifier, at, 27 if full else 22)))
    for rule, at in BREAKS.items():
        if rule in SLOW and not full:
            continue
        words = rule.lower().replace("_", " ")
        cases.append((f"broken rule is found: {words}", lambda at=at, rule=rule: breaks(verifier, at, rule)))


if __name__ == "__main__":
    with scratch() as folder:
        if "--show" in sys.argv:
            show(Verifier(folder), sys.argv[sys.argv.index("--show") + 1].upper())
        else:
            full = "--full" in sys.argv
            list_cases(Verifier(folder, full), full)
            main()
