#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds src/ against the tables of rooms and of their folders: who may include whom, which calls are
banned, and that no folder of the repository holds more files than one can look over.

Usage: check_layers.py [SOURCE_ROOT]; exits 1 and names each offending line.
"""
import collections
import pathlib
import re
import subprocess
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
    "experts": {"base", "io", "graph", "machine", "cost"},
    "model": {"base", "io", "graph", "op", "machine", "cost", "experts"},
    "kernel": {"base", "graph", "op"},
    "store": {"base", "io", "kernel"},
    "text": {"base", "io"},
    "team": {"base", "io", "kernel"},
    "weights": {"base", "io", "graph", "op", "model", "kernel", "text"},
    "engine": {"base", "io", "graph", "op", "model", "experts", "kernel", "store", "text", "weights", "trace", "team"},
    "replay": {"base", "io", "graph", "op", "trace", "kernel", "engine"},
    "measure": {"base", "io", "graph", "op", "machine", "cost", "model", "kernel", "store", "engine", "sim"},
    "rescale": {"base", "io", "graph", "machine", "cost", "model"},
    "sim": {"base", "io", "graph", "machine", "cost"},
    "synthesis": {"base", "graph", "analysis", "sim"},
    "outcome": {"base", "io", "graph", "op", "machine", "cost", "model", "experts", "sim"},
    "estimate": {"base", "io", "graph", "op", "machine", "cost", "model", "experts", "sim", "outcome"},
    "fleet": {"base", "io", "machine", "team"},
    "explore": {"base", "io", "graph", "op", "machine", "cost", "model", "experts", "sim", "outcome", "estimate", "fleet"},
    "report": {"base", "io", "graph", "op", "machine", "analysis", "cost", "model", "experts", "engine", "replay", "measure", "sim", "outcome", "fleet", "explore"},
    "cli": {"base", "io", "graph", "op", "machine", "trace", "analysis", "cost", "model", "experts", "rescale", "sim", "synthesis", "outcome", "estimate", "fleet", "explore", "report", "kernel", "store", "text", "weights", "engine", "replay", "measure", "team"},
}
# A folder of a room may include itself and the folders of its room that stand here; ".": the files beside them. From the
# ground up, so that there is no circle.
FOLDERS = {
    "analysis": {
        ".": "",
        "breakdown": ".",
        "comm": ".",
        "launch": ".",
        "path": ".",
    },
    "cli": {
        "command": "",
        ".": "command",
        "arguments": "command",
        "models": "arguments command",
        "running": "arguments command",
        "search": "arguments command",
        "teams": "arguments command running",
        "traces": "arguments command models",
    },
    "cost": {
        ".": "",
        "calibration": "",
        "collective": "",
        "host": "",
        "kernel_work": "",
        "network": "collective",
        "roofline": "kernel_work",
        "models": "roofline",
        "fit": "models",
    },
    "engine": {
        "ranks": "",
        "run": "ranks",
        "record": "run",
        "tables": "ranks",
        "experts": "ranks",
        "generate": "experts ranks record run",
        "step": "record run tables",
        "data": "step tables",
        "checkpoint": "data step tables",
        "serve": "checkpoint data run step",
        "train": "checkpoint data generate ranks record step tables",
    },
    "experts": {
        "routes": "",
        "statistics": "routes",
        "placement": "routes",
        "moves": "placement routes",
        "group": "routes",
        "policy": "group moves placement routes",
    },
    "explore": {
        "evaluate": "",
        "results": "",
        ".": "evaluate results",
        "baseline": ". evaluate",
        "decision": ". evaluate",
        "questions": "evaluate",
        "tables": "",
        "search": ".",
        "space": ".",
    },
    "io": {
        "archive": "",
        "block": "",
        "database": "",
        "socket": "",
        "stream": "",
        "http": "socket",
        "net": "socket",
        "transport": "socket",
        "json": "stream",
        "protobuf": "stream",
        "yaml": "json stream",
    },
    "kernel": {
        "cpu/simd": "",
        "cuda": "",
        "cpu": "cpu/simd",
        "format": "cpu/simd",
        "cpu/gemm": "cpu cpu/simd format",
        "cpu/tensor": "cpu/simd format",
        "cpu/attention": "cpu cpu/simd cpu/tensor format",
        "cpu/convolution": "cpu cpu/simd cpu/tensor format",
        "cpu/elementwise": "cpu cpu/simd cpu/tensor format",
        "cpu/embedding": "cpu cpu/simd cpu/tensor format",
        "cpu/layout": "cpu cpu/simd cpu/tensor format",
    },
    "machine": {
        ".": "",
        "catalog": "",
        "cluster": "catalog",
    },
    "model": {
        "schedule": "",
        "spec": "",
        "tables": "",
        "plan": "schedule",
        "framework": "plan",
        "shard": "plan",
        "experts": "plan",
        "module": "experts plan shard spec",
        "arch": "experts module plan spec tables",
        "memory": "module plan schedule tables",
        "step": "experts memory module plan schedule tables",
    },
    "op": {
        ".": "",
        "families": ".",
        "tape": ".",
    },
    "report": {
        "analyses": "",
        "humanize": "",
        "catalog": "analyses humanize",
        "runs": "analyses",
        "table": "humanize",
        "timeline": "humanize",
        "page": "humanize table",
        "fleet": "analyses humanize page table",
        "sharding": "analyses humanize page table",
        "training": "humanize page",
        "experts": "analyses humanize page table",
        "plan": "analyses humanize page",
        "trace": "humanize page table timeline",
        "explore": "analyses humanize page plan table",
    },
    "rescale": {
        "emit": "",
        "plan": "emit",
        "recognise": "emit plan",
        "synthetic": "emit plan",
        "compose": "plan recognise",
        "data_parallel": "plan recognise",
        ".": "compose plan",
    },
    "sim": {
        "effects": "",
        "flow": "",
        "message": "",
        "program": "",
        "astra": "message",
        "symmetry": "program",
        "validation": "program",
        "engine": "flow symmetry",
        "results": "engine",
        ".": "engine program results",
    },
    "store": {
        "file": "",
        "cache": "file",
        ".": "cache file",
        "serve": ". cache file",
    },
    "team": {
        "catchup": "",
        "protocol": "",
        "ring": "",
        "store": "",
        "member": "catchup protocol ring",
        "status": "protocol",
        "coordinator": "protocol status store",
        ".": "coordinator member protocol status",
    },
    "trace": {
        "common": "",
        ".": "common",
        "comm": "common",
        "perfetto": "common",
        "picture": "common",
        "recover": "common",
        "chakra": "comm common",
        "chrome": "comm common",
        "kineto": "comm common recover",
        "nsight": "comm common kineto recover",
        "rocpd": "comm common kineto recover",
        "xplane": "comm common kineto recover",
        "link": "comm common",
        "pytorch": "comm common",
        "torch_memory": "common",
    },
}
MOST_FILES = 40  # in one folder
# The room that implements each public header.
ROOM_OF_HEADER = {
    "status": "base", "arena": "base", "dtype": "base", "workers": "base", "graph": "graph", "ensemble": "graph", "op": "op", "experts": "experts", "trace": "trace", "feeder": "trace",
    "machine": "machine", "analysis": "analysis", "cost": "cost", "fit": "cost", "calibration": "cost",
    "plan": "model", "model": "model", "memory_plan": "model", "step": "model", "hit_rate": "model", "rescale": "rescale", "outcome": "outcome", "sim": "sim", "astra": "sim", "whatif": "sim",
    "kernel": "kernel", "team": "team", "fleet": "fleet", "explore": "explore", "table_planner": "explore", "table_tiers": "explore", "text": "text", "weights": "weights", "engine": "engine", "replay": "replay", "measure": "measure",
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


def folder_of(parts):
    """Of the parts of a path below src/: what stands between the room and the file."""
    return "/".join(parts[1:-1]) or "."


def check_include(room, folder, match):
    """What an include reaches into when it may not: a room, or a folder of the same room."""
    if match.group(2):
        target = ROOM_OF_HEADER.get(match.group(2))
        return None if target is None or target == room or target in MAY_INCLUDE[room] else target
    parts = match.group(1).split("/")
    if len(parts) == 1 or parts[0] not in MAY_INCLUDE:  # a generated file of the room's own
        return None
    if parts[0] != room:
        return None if parts[0] in MAY_INCLUDE[room] else parts[0]
    target = folder_of(parts)
    granted = FOLDERS.get(room, {}).get(folder, "").split()
    if target in (folder, *granted) or target not in FOLDERS.get(room, {}):
        return None
    return f"{room}/{target}"


def check_folders():
    """Circles in the table of folders: a folder that is granted one that stands below it."""
    for room, folders in FOLDERS.items():
        seen = set()
        for folder, granted in folders.items():
            for other in granted.split():
                if other not in seen:
                    yield f"tools/check_layers.py: {room}/{folder} is granted {other}, which does not stand above it in the table"
            seen.add(folder)


def check_counts(root):
    """Folders of the repository with more files than one can look over."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False).stdout
    count = collections.Counter(str(pathlib.PurePath(name).parent) for name in listed.splitlines())
    for folder, n in sorted(count.items()):
        if n > MOST_FILES:
            yield f"{folder}/ holds {n} files, more than {MOST_FILES}"


def check_file(path, room, folder):
    in_comment = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path}:{number}"
        match = INCLUDE.match(line)
        if match:
            target = check_include(room, folder, match)
            if target:
                here = room if folder == "." else f"{room}/{folder}"
                yield f"{where}: {here}/ may not include {target}/"
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
        if len(parts) > 2 and folder_of(parts) not in FOLDERS.get(parts[0], {}):
            faults.append(f"{path}: no such folder in the table: {parts[0]}/{folder_of(parts)}/")
            continue
        faults.extend(check_file(path, parts[0], folder_of(parts)))
    faults.extend(check_folders())
    faults.extend(check_counts(root))
    print("\n".join(faults) if faults else f"{len(files)} files keep to the table")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
