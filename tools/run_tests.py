#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a build folder and counts them one by one.

Usage: run_tests.py BUILD [meson test arguments...]

A program that prints TAP (cmocka's do) counts as many tests as it has cases; any other
counts as one, by its exit status (77: skipped). Skips and failures are named; the last
line is `N passed, N failed, N skipped`.
"""
import json
import pathlib
import re
import subprocess
import sys

CASE = re.compile(r"^(ok|not ok) \d+(?: - )?\s*(.*)$")


def cases_of(run):
    """(name, verdict) of each case of one program; verdict is passed, failed or skipped."""
    cases = []
    for line in (run.get("stdout") or "").splitlines():
        match = CASE.match(line)
        if not match:
            continue
        name = match.group(2)
        if "# SKIP" in name:
            cases.append((name.replace("# SKIP", "").strip(" -"), "skipped"))
        else:
            cases.append((name, "passed" if match.group(1) == "ok" else "failed"))
    result = run["result"]
    failed = result in ("FAIL", "TIMEOUT", "ERROR", "INTERRUPT")
    if not cases:
        verdict = "skipped" if result == "SKIP" else "failed" if failed else "passed"
        return [("", verdict)]
    if failed and not any(verdict == "failed" for _, verdict in cases):
        cases.append((f"the program itself: {result}", "failed"))
    return cases


def main():
    build = pathlib.Path(sys.argv[1])
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", *sys.argv[2:]],
                   stdin=subprocess.DEVNULL, check=False)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    named = {"failed": [], "skipped": []}
    if log.exists():
        for line in log.read_text().splitlines():
            run = json.loads(line)
            program = run["name"].split(" / ")[-1]
            for case, verdict in cases_of(run):
                counts[verdict] += 1
                if verdict in named:
                    named[verdict].append(f"{program}: {case}" if case else program)
    for verdict in ("skipped", "failed"):
        for name in named[verdict]:
            print(f"{verdict}: {name}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
