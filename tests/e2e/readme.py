#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command of README.md and docs/commands.md runs as it is written, and prints what is printed there.

In a ```console block a line that begins with "$ " is a command, and what follows it is its
output; a line "..." stands for any lines. In a ```sh block every line is a command. They run in a folder
that looks like the source tree with its build, so that what they write goes
nowhere. `make` and `git` are not run, but their targets are looked up.
"""
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness  # noqa: E402
from harness import BUILD, PATIENCE_S, SOURCE, Skip, environment, scratch  # noqa: E402

NOT_RUN = re.compile(r"(?:sudo|git|cd|apt-get|pip)\b")
MAKE = re.compile(r"make\b\s*(.*)")


def commands_of(text):
    """(command, output or None) in order."""
    for language, body in re.findall(r"^```(console|sh)\n(.*?)^```", text, flags=re.M | re.S):
        current = None
        for line in body.splitlines():
            if language == "sh":
                if line.strip() and not line.lstrip().startswith("#"):
                    yield line, None
            elif line.startswith("$ "):
                if current:
                    yield current
                current = (line[2:], [])
            elif current:
                current[1].append(line.rstrip())
        if current:
            yield current


def matches(wanted, got):
    """A line "..." of `wanted` stands for any lines."""
    if not wanted:
        return not got
    if wanted[0] == "...":
        return any(matches(wanted[1:], got[at:]) for at in range(len(got) + 1))
    return bool(got) and wanted[0] == got[0] and matches(wanted[1:], got[1:])


def like_the_source(folder):
    for path in SOURCE.iterdir():
        if not path.name.startswith((".", "build")):
            (folder / path.name).symlink_to(path)
    (folder / "build").symlink_to(BUILD)


def check_make(words):
    targets = [word for word in words.split() if "=" not in word and not word.startswith("-")]
    known = re.findall(r"^([\w-]+):", (SOURCE / "Makefile").read_text(), flags=re.M)
    for target in targets:
        assert target in known, f"no `make {target}`"


def check(command, output):
    make = MAKE.match(command)
    if make:
        check_make(make.group(1))
        return
    if NOT_RUN.match(command):
        raise Skip("is for a person to run")
    with scratch() as folder:
        like_the_source(folder)
        result = subprocess.run(["bash", "-c", command], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=PATIENCE_S,
                                env=environment())
        folder_name = str(folder)
    assert result.returncode in (0, 1), f"exit {result.returncode}: {result.stdout}"
    if output:
        got = [line.rstrip().replace(folder_name + "/", "") for line in result.stdout.splitlines()]
        while output and not output[-1]:
            output.pop()
        assert matches(output, got), "\n".join(["--- README", *output, "--- now", *got])


def main():
    documents = [SOURCE / "README.md", SOURCE / "docs" / "commands.md"]
    found = list(dict((command, output) for document in documents
                      for command, output in commands_of(document.read_text())).items())

    def has_commands():
        assert len(found) >= 30, found
        assert shutil.which("bash")
    harness.cases.append(("the documents have commands", has_commands))
    for command, output in found:
        harness.cases.append((command.replace("#", "+"), lambda c=command, o=output: check(c, o)))
    harness.main()


if __name__ == "__main__":
    main()
