#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds src/ against the table of rooms: who may include whom, and which calls are banned.

Usage: check_layers.py [SOURCE_ROOT]; exits 1 and names each offending line.
"""
import pathlib
import re
import sys

# A room may include itself and what stands here; the order is from the ground up.
MAY_INCLUDE = {
    "base": set(),
    "io": {"base"},
    "graph": {"base"},
    "op": {"base", "graph"},
    "machine": {"base", "io"},
    "trace": {"base", "io", "graph"},
    "analysis": {"base", "graph"},
    "cost": {"base", "io", "graph", "op", "machine"},
    "model": {"base", "io", "graph", "op", "machine", "cost"},
    "kernel": {"base", "graph", "op"},
    "text": {"base", "io"},
    "team": {"base", "io"},
    "weights": {"base", "io", "graph", "op", "model", "kernel", "text"},
    "engine": {"base", "io", "graph", "op", "model", "kernel", "text", "weights", "trace", "team"},
    "replay": {"base", "io", "graph", "op", "trace", "kernel", "engine"},
    "measure": {"base", "io", "graph", "op", "machine", "cost", "model", "kernel", "engine", "sim"},
    "rescale": {"base", "io", "graph", "machine", "cost", "model"},
    "sim": {"base", "io", "graph", "machine", "cost"},
    "plan": {"base", "io", "graph", "op", "machine", "cost", "model", "sim", "team"},
    "report": {"base", "io", "graph", "op", "machine", "analysis", "cost", "model", "engine", "replay", "measure", "sim", "plan"},
    "cli": {"base", "io", "graph", "op", "machine", "trace", "analysis", "cost", "model", "rescale", "sim", "plan", "report", "kernel", "text", "weights", "engine", "replay", "measure", "team"},
}
# The room that implements each public header.
ROOM_OF_HEADER = {
    "status": "base", "arena": "base", "dtype": "base", "workers": "base", "graph": "graph", "ensemble": "graph", "op": "op", "trace": "trace",
    "machine": "machine", "analysis": "analysis", "cost": "cost", "fit": "cost", "calibration": "cost",
    "plan": "model", "model": "model", "memory_plan": "model", "step": "model", "rescale": "rescale", "outcome": "plan", "sim": "sim", "astra": "sim", "whatif": "sim", "effects": "sim",
    "kernel": "kernel", "team": "team", "fleet": "plan", "explore": "plan", "text": "text", "weights": "weights", "engine": "engine", "replay": "replay", "measure": "measure",
    "report": "report", "orrery": "cli",
}
BANNED = re.compile(r"(?<![\w.>])(strcpy|strcat|sprintf|vsprintf|gets|alloca|atoi|atol|atof|strtok)\s*\(")
# The one door to the allocator is base/alloc.c.
ALLOCATORS = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|asprintf)\s*\(")
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<orrery/(\w+)\.h>)')


def code_of(line):
    """The line without its comment (of one line) and without the text of strings."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return re.sub(r"/\*.*?\*/|//.*", "", line)


def check_include(room, match):
    """The room that an include reaches into, when it may not."""
    if match.group(2):
        target = ROOM_OF_HEADER.get(match.group(2))
    else:
        path = match.group(1)
        target = path.split("/")[0] if "/" in path else room
        if target not in MAY_INCLUDE:  # a generated file of the room's own
            target = room
    if target is None or target == room or target in MAY_INCLUDE[room]:
        return None
    return target


def check_file(path, room):
    in_comment = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path}:{number}"
        match = INCLUDE.match(line)
        if match:
            target = check_include(room, match)
            if target:
                yield f"{where}: {room}/ may not include {target}/"
            continue
        if in_comment or line.lstrip().startswith(("/*", "*")):
            in_comment = "*/" not in line
            continue
        code = code_of(line)
        banned = BANNED.search(code)
        if banned:
            yield f"{where}: {banned.group(1)}() is banned"
        allocator = ALLOCATORS.search(code)
        if allocator and path.name != "alloc.c":
            yield f"{where}: {allocator.group(1)}() goes past base/alloc.h"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    faults = []
    files = sorted((root / "src").rglob("*.[ch]"))
    for path in files:
        parts = path.relative_to(root / "src").parts
        if len(parts) == 1:
            continue  # src/version.c belongs to no room
        if parts[0] not in MAY_INCLUDE:
            faults.append(f"{path}: no such room in the table: {parts[0]}/")
            continue
        faults.extend(check_file(path, parts[0]))
    print("\n".join(faults) if faults else f"{len(files)} files keep to the table")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
