#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/deploy: every option that its files name is one of the command, and every metric one of the exporter."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import SOURCE, Skip, case, main, orrery  # noqa: E402

DEPLOY = pathlib.Path(SOURCE) / "examples" / "deploy"


def options(command):
    return set(re.findall(r"--[a-z][a-z-]+", orrery(command, "--help").stdout))


@case
def options_are_those_of_the_command():
    known = {"coordinator": options("coordinator"), "train": options("train")}
    seen = 0
    for path in DEPLOY.rglob("*"):
        if path.suffix not in (".sbatch", ".service", ".yaml"):
            continue
        text = re.sub(r"\\\n\s*|\n\s+(?=--)", " ", path.read_text(encoding="utf-8"))
        for command, rest in re.findall(r"orrery (coordinator|train) ([^\n;&]*)", text):
            for option in re.findall(r"(?<!\w)--[a-z][a-z-]+", rest):
                assert option in known[command], f"{path}: {command} has no {option}"
                seen += 1
        for name in re.findall(r"\bORRERY_([A-Z_]+)\b", text):
            option = "--" + name.lower().replace("_", "-")
            assert option in known["coordinator"] | known["train"], f"{path}: ORRERY_{name} is no option"
            seen += 1
    assert seen > 20, seen


@case
def metrics_are_those_of_the_exporter():
    exporter = (pathlib.Path(SOURCE) / "src/team/status/prometheus.c").read_text(encoding="utf-8")
    board = json.loads((DEPLOY / "grafana" / "team.json").read_text(encoding="utf-8"))
    names = {name for panel in board["panels"] for target in panel["targets"]
             for name in re.findall(r"\borrery_\w+", target["expr"])}
    assert len(names) > 8, names
    for name in names:
        assert f'"{name}"' in exporter, f"{name} is no metric"


@case
def services_are_valid():
    if shutil.which("systemd-analyze") is None:
        raise Skip("no systemd-analyze here")
    done = subprocess.run(["systemd-analyze", "verify", *map(str, (DEPLOY / "systemd").glob("*.service"))],
                          capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if "orrery" in line and "is not executable" not in line]
    assert not told, told


@case
def the_script_of_slurm_parses():
    done = subprocess.run(["bash", "-n", str(DEPLOY / "slurm" / "team.sbatch")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


main()
