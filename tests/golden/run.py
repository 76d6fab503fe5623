#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what the command prints against what it is known to print.

    run.py [--update] [path/to/orrery] [CASE...]

A case is a folder: `cmd` is a shell script, `want` its exit status, standard output and
standard error; the other files are copied to the empty folder where `cmd` runs. `--update`
rewrites every `want`: read the difference as you would read code.

Inputs that several cases use are in `inputs/`, which `cmd` finds as $INPUTS.

Whatever the case, an exit status of 2 or 3 comes with exactly one line on standard error
(or as many as a comment in `cmd` says: "# lines: 3"), each beginning with "orrery: ", and
with nothing on standard output, unless a comment says "# lines: any"; a file whose name
holds ".tmp" is never left behind.
"""
import difflib
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness  # noqa: E402


def run(folder, where):
    for path in folder.iterdir():
        if path.name not in ("cmd", "want"):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, where / path.name)
    return subprocess.run(["sh", folder / "cmd"], cwd=where, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="backslashreplace", check=False, timeout=harness.PATIENCE_S,
                          env=harness.environment(COLUMNS="100", EXAMPLES=str(harness.EXAMPLES),
                                                  INPUTS=str(HERE / "inputs")))


def neutral(text):
    """Without what changes from place to place, from release to release, and with how memory grows."""
    text = text.replace(str(harness.EXAMPLES), "EXAMPLES").replace(str(HERE / "inputs"), "INPUTS")
    text = re.sub(r"orrery \d+\.\d+\.\d+", "orrery VERSION", text)
    text = re.sub(r'"version":"\d+\.\d+\.\d+"', '"version":"VERSION"', text)
    text = re.sub(r"^(memory|bytes per node)( +)[\d.]+.*$", r"\1\2...", text, flags=re.M)
    text = re.sub(r'("(?:memory_bytes|bytes_per_node)":)[\d.]+', r"\1...", text)
    lines = text.split("\n")
    inside = False
    for i, line in enumerate(lines):
        if inside:
            lines[i] = re.sub(r",\d+,[\d.]+$", ",...,...", line)
        inside = line.endswith(",memory_bytes,bytes_per_node") or (inside and line != "")
    return "\n".join(lines)


def rules_broken(result, command, where):
    """What no command may do, in words."""
    lines = result.stderr.splitlines()
    allowed = (re.findall(r"# lines: (\w+)", command) or ["1"])[0]
    if result.returncode in (2, 3) and allowed != "any":
        if len(lines) != int(allowed):
            yield f"a failure is told in {allowed} line"
        if not all(line.startswith("orrery: ") for line in lines):
            yield "a line does not begin with 'orrery: '"
        if result.stdout:
            yield "a failure leaves standard output empty"
    if result.returncode < 0 or result.returncode > 130:
        yield f"the command died: {result.returncode}"
    left = [str(path) for path in where.rglob("*.tmp*")]
    if left:
        yield f"left behind: {left}"


def compare(folder, update):
    with harness.scratch() as where:
        result = run(folder, where)
        got = f"exit {result.returncode}\n--- stdout\n{neutral(result.stdout)}--- stderr\n{neutral(result.stderr)}"
        faults = list(rules_broken(result, (folder / "cmd").read_text(), where))
    want = folder / "want"
    if update and not faults:
        want.write_text(got)
    if faults:
        raise harness.Failed("\n".join([*faults, got]))
    expected = want.read_text() if want.exists() else "(there is no `want` yet: --update)"
    difference = difflib.unified_diff(expected.splitlines(), got.splitlines(), "want", "got", lineterm="", n=1)
    if got != expected:
        raise harness.Failed("\n".join(difference))


def main():
    update = "--update" in sys.argv[1:]
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    chosen = {word for word in words if "/" not in word}
    for word in words:
        if word not in chosen:
            harness.BIN = str(pathlib.Path(word).resolve())
    if not pathlib.Path(harness.BIN).exists():
        sys.exit(f"{harness.BIN} is not there: build it, or say which command to test")
    for command in sorted(HERE.glob("*/cmd")):
        folder = command.parent
        if not chosen or folder.name in chosen:
            harness.cases.append((folder.name, lambda folder=folder: compare(folder, update)))
    harness.main()


if __name__ == "__main__":
    main()
