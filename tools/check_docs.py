#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the documents against the tree: each file or folder that one names is there.

Usage: check_docs.py [SOURCE_ROOT]; exits 1 and names each line that points nowhere.

Looked at are names in backticks that end in a source suffix or hold a slash after a room's name. A
name counts as found relative to the root, to src/, include/ or tests/, to the folder of the document
or one above it, or, without a slash, anywhere in the room of the document.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

TOKEN = re.compile(r"`([\w./*{},\[\]-]+)`")
USERS = {"machine.yaml", "config.json"}  # files that a user has, not the tree
SUFFIX = re.compile(r"\.(?:c|h|cu|py|sh|pml|yaml|md|js|css|html|\[ch\])$")


def alternatives(token):
    """x.[ch] and {a,b}.c as the names that they stand for."""
    match = re.search(r"\[(\w+)\]|\{([^}]*)\}", token)
    if not match:
        return [token]
    parts = list(match.group(1)) if match.group(1) else match.group(2).split(",")
    return [name for part in parts for name in alternatives(token[:match.start()] + part + token[match.end():])]


def is_there(name, document, names, folders):
    parents = [str(parent) + "/" for parent in document.parents if str(parent) != "."]
    bases = ["", "src/", "include/", "include/orrery/", "tests/", *parents]
    for base in bases:
        path = base + name.rstrip("/")
        if path in names or path in folders or ("*" in path and fnmatch.filter(names, path)):
            return True
    if "/" in name:
        return False
    below = "/".join(document.parts[:2]) + "/" if document.parts[0] == "src" else "".join(parents[:1])
    return any(known.startswith(below) and fnmatch.fnmatch(known.rsplit("/", 1)[-1], name) for known in names)


def check(document, root, names, folders, rooms):
    for number, line in enumerate((root / document).read_text().splitlines(), 1):
        for token in TOKEN.findall(line):
            room = token.split("/")[0]
            if not SUFFIX.search(token) and not ("/" in token and (room == "src" or room in rooms)):
                continue
            if token.startswith(("/", "..", "build", "~")) or token in USERS or (not SUFFIX.search(token) and "." in token):
                continue
            for name in alternatives(token):
                if not is_there(name, document, names, folders):
                    yield f"{document}:{number}: {name} is not there"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False).stdout
    names = set(listed.splitlines())
    if not names:
        print("not a checkout: nothing to hold the documents against")
        return 77
    folders = {str(parent) for name in names for parent in pathlib.PurePath(name).parents}
    rooms = {name.split("/")[1] for name in names if name.startswith("src/") and name.count("/") > 1}
    documents = sorted(pathlib.PurePath(name) for name in names if name.endswith(".md") and (root / name).exists())
    faults = [fault for document in documents for fault in check(document, root, names, folders, rooms)]
    print("\n".join(faults) if faults else f"{len(documents)} documents name what is there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
