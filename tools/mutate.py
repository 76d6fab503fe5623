#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: changes one token of the sources at a time and sees whether a test notices.

    mutate.py TREE [--log FILE] [--seed N] [--count N] [--rooms a,b] [--files GLOB] [--tests NAME,...] [--summary]

TREE is a git worktree that is made for this, with a build folder of its own: nothing else is ever written to, and a
source that was changed is as it was when the program ends, however it ends. Mutants are drawn from the seed, a room
after the other, so that a run may be stopped and continued: one line of JSON each in FILE (TREE.jsonl), and those that
stand there are not made again. A mutant is

  equivalent   its object is, byte for byte, the one of the source
  not compiled the compiler refuses it
  killed       a test fails, which is named
  timed out    a test runs ten times as long as it should
  survived     all tests of the room pass, and those of tests/property and tests/simulation that are quick and
               include what the room declares

--tests adds tests by name, as `golden`. Test programs run in a process namespace and with limited memory, where
that is allowed, as a mutant may do anything.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
VERDICTS = ("killed", "timed out", "survived", "equivalent", "not compiled")
QUICK_S = 4  # of the tests of other suites
MEMORY_BYTES = 8 << 30
JOBS = min(4, os.cpu_count() or 1)
ALONE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode != 0:
    ALONE = []
DANGEROUS = re.compile(r"\b(kill|unlink\w*|rmdir|remove|rename\w*|truncate|ftruncate|exec\w+|system|setrlimit)\s*\(")

# Binary operators stand between blanks (clang-format sees to it); `*`, `&` and `-` without them are others.
SWAPS = {" < ": [" <= ", " > "], " <= ": [" < "], " > ": [" >= ", " < "], " >= ": [" > "], " == ": [" != "],
         " != ": [" == "], " && ": [" || "], " || ": [" && "], " + ": [" - "], " - ": [" + "], " * ": [" / "],
         " / ": [" * "], " % ": [" / "], " += ": [" -= ", " = "], " -= ": [" += "], " *= ": [" /= "], " |= ": [" = "],
         " &= ": [" |= "], " << ": [" >> "], " >> ": [" << "], " & ": [" | "], " | ": [" & "]}
TOKENS = re.compile("|".join([*(re.escape(swap) for swap in sorted(SWAPS, key=len, reverse=True)), r"!(?=[\w(*])",
                              r"\+\+|--", r"\b(?:true|false)\b", r"(?<![\w.\"'])\d+(?![\w.])", r"\bcontinue;", r"\bbreak;"]))
STATEMENT = re.compile(r"^\s+(?!return\b|goto\b|break\b|continue\b|case\b|default\b|else\b)"
                       r"(?:ORR_TRY\(.*\);|[\w>.\[\]*-]+(?:\([^;{}]*\)| [-+*/|&]?= [^;{}]*|\+\+|--);)$")

Mutant = collections.namedtuple("Mutant", "id room path line operator before after")


def code_lines(text):
    """Lines without comments, strings, characters and preprocessor directives, which become blanks."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M).split("\n")


def function_of(lines, at):
    """The line that begins the function around a line; None outside of functions."""
    for i in range(at, -1, -1):
        if lines[i] == "}" and i < at:
            return None
        if lines[i] == "{":
            while i > 0 and not re.match(r"\w", lines[i - 1]):
                i -= 1
            return lines[i - 1]
    return None


def mutants_of_line(lines, masked, at):
    """(operator, new line) of all that can be changed in a line of a function."""
    line, code = lines[at], masked[at]
    head = function_of(masked, at)
    if head is None or DANGEROUS.search(code) or re.match(r"\s*(static |_Static_assert)", code):
        return
    for match in TOKENS.finditer(code):
        token = match.group()
        if token in SWAPS:
            news = SWAPS[token]
        elif token.isdigit():
            news = [str(int(token) + 1), *([str(int(token) - 1)] if int(token) > 0 else [])]
        else:
            news = {"!": [""], "++": ["--"], "--": ["++"], "true": ["false"], "false": ["true"], "continue;": [";"],
                    "break;": [";"]}[token]
        for new in news:
            name = "constant" if token.isdigit() else f"{token.strip()} to {new.strip()}" if new else f"drop {token}"
            yield name, line[:match.start()] + new + line[match.end():]
    if STATEMENT.match(code.rstrip()):
        indent = line[:len(line) - len(line.lstrip())]
        yield "drop statement", indent + ";"
        if "orr_status" in head:
            yield "return ORR_OK early", indent + "return ORR_OK;"


def mutants_of(tree, path, room):
    """A list for each line in which something can be changed."""
    lines = path.read_text(encoding="utf-8").split("\n")
    masked, seen = code_lines("\n".join(lines)), collections.Counter()
    for at, line in enumerate(lines):
        seen[line] += 1
        found = []
        for operator, after in mutants_of_line(lines, masked, at):
            key = "\0".join((path.name, line, after, str(seen[line])))  # goes with the line when it moves
            found.append(Mutant(hashlib.sha256(key.encode()).hexdigest()[:12], room, str(path.relative_to(tree.path)), at,
                                operator, line, after))
        if found:
            yield found


def drawn(tree, rooms, pattern, seed):
    """Mutants in the order in which they are made: rooms take turns, each line of a room is as likely as another."""
    queues = []
    for room in rooms:
        generator = random.Random(f"{seed} {room}")
        lines = [found for path in sorted((tree.path / "src" / room).rglob("*.c"))
                 if path in tree.objects and path.match(pattern) for found in mutants_of(tree, path, room)]
        generator.shuffle(lines)
        queues.append(collections.deque(generator.choice(found) for found in lines))
    while any(queues):
        for queue in queues:
            if queue:
                yield queue.popleft()


class Tree:
    """A worktree at the commit of this checkout, with its build folder, tests and objects."""

    def __init__(self, path):
        self.path, self.build = path, path / "build"
        if not path.exists():
            git(SOURCE, "worktree", "add", "--detach", path, "HEAD")
        if not (path / ".git").is_file() or path == SOURCE:
            sys.exit(f"{path} is no worktree made for this: name a folder that is not there yet")
        self.lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"{path} is being mutated by another run")
        self.put_back()
        if git(path, "status", "--porcelain", "--untracked-files=no"):
            sys.exit(f"{path} has changes of its own")
        git(path, "checkout", "--quiet", "--detach", git(SOURCE, "rev-parse", "HEAD"))
        if not (self.build / "build.ninja").exists():
            env = dict(os.environ, **({"CC_LD": "lld"} if shutil.which("lld") else {}))
            subprocess.run(["meson", "setup", self.build, path, "-Dtests=enabled"], check=True, env=env,
                           stdout=subprocess.DEVNULL)
        subprocess.run(["ninja", "-C", self.build, "build.ninja"], check=True, stdout=subprocess.DEVNULL)
        self.objects = collections.defaultdict(list)
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            self.objects[(self.build / entry["file"]).resolve()].append(entry["output"])
        targets = {target["id"]: target for target in introspect(self.build, "--targets")}
        self.tests = [Test(self, test, targets) for test in introspect(self.build, "--tests")]
        self.rooms, self.defined = {}, {}

    def put_back(self):
        """Undoes the mutant that a killed run left behind."""
        left = self.path / "mutant.json"
        if left.exists():
            kept = json.loads(left.read_text())
            (self.path / kept["path"]).write_text(kept["text"], encoding="utf-8")
            left.unlink()

    @contextlib.contextmanager
    def replaced(self, path, text):
        """With another text in a source."""
        left = self.path / "mutant.json"
        left.write_text(json.dumps({"path": str(path.relative_to(self.path)), "text": path.read_text(encoding="utf-8")}))
        try:
            path.write_text(text, encoding="utf-8")
            yield
        finally:
            self.put_back()

    def changed(self, mutant):
        path = self.path / mutant.path
        lines = path.read_text(encoding="utf-8").split("\n")
        assert lines[mutant.line] == mutant.before, mutant
        lines[mutant.line] = mutant.after
        return self.replaced(path, "\n".join(lines))

    def ninja(self, targets, **more):
        return subprocess.run(["ninja", "-j", str(JOBS), "-C", self.build, *targets], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=dict(os.environ, **more), check=False).returncode == 0

    def digest(self, path):
        return [hashlib.sha256((self.build / name).read_bytes()).digest() for name in self.objects[path]]

    def tests_of(self, room, named):
        """The room's unit tests, then others that call what it defines; each has passed once, and its time is known."""
        if room not in self.rooms:
            defined = set()
            for path in (self.path / "src" / room).rglob("*.c"):
                defined |= set(re.findall(r"^\w[\w *]*?\b(\w+)\(", path.read_text(encoding="utf-8"), re.M))
            unit = [test for test in self.tests if {"unit", room} <= test.suites]
            others = [test for test in self.tests if test.name in named or
                      test.suites & {"property", "simulation"} and defined & test.calls()]
            if not self.ninja({name for test in unit + others for name in test.programs}):
                sys.exit(f"the tests of {room} cannot be built")
            for test in (test for test in unit + others if test.took is None):
                test.run(None)
            broken = [test.name for test in unit + others if test.failed]
            if broken:
                print(f"{room}: left out, as they fail without a mutant: {', '.join(broken)}", flush=True)
            self.rooms[room] = ([test for test in unit if not test.failed],
                                [test for test in others if not test.failed and
                                 (test.took < QUICK_S or test.name in named)])
        return self.rooms[room]


class Test:
    def __init__(self, tree, told, targets):
        self.name, self.command, self.env = told["name"], told["cmd"], told["env"]
        self.suites = {suite.split(":")[-1] for suite in told["suite"]}
        depends = [targets[name] for name in told["depends"] if name in targets]
        self.programs = [os.path.relpath(name, tree.build) for target in depends for name in target["filename"]]
        self.sources = [source for target in depends for group in target["target_sources"]
                        for source in group.get("sources", [])]
        self.took, self.failed = None, False

    def calls(self):
        words = set()
        for source in map(pathlib.Path, self.sources):
            for path in [source, *source.parent.glob("*.h")]:
                words |= set(re.findall(r"\borr_\w+", path.read_text(encoding="utf-8")))
        return words

    def run(self, stop):
        """None where it passes, else what failed; also None once `stop` is set."""
        bound = 120 if self.took is None else max(10, 10 * self.took)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder, tempfile.TemporaryFile() as out:
            env = dict(os.environ, **self.env, TMPDIR=folder)
            with subprocess.Popen([*ALONE, *self.command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=limited) as process:
                try:
                    while process.poll() is None and time.monotonic() - began < bound and not (stop and stop.is_set()):
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            process.wait(0.2)
                finally:
                    late = process.poll() is None
                    with contextlib.suppress(OSError):
                        os.killpg(process.pid, signal.SIGKILL)
            if stop and stop.is_set() and late:
                return None
            out.seek(0)
            cases = re.findall(rb"^not ok \d+ - (.*)$", out.read(1 << 22), re.M)
        if self.took is None:
            self.took, self.failed = time.monotonic() - began, late or process.returncode not in (0, 77)
        if late:
            return f"{self.name}: timed out"
        if process.returncode in (0, 77):
            return None
        return f"{self.name}: {cases[0].decode() if cases else f'exit {process.returncode}'}"


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def git(folder, *words):
    return subprocess.run(["git", "-C", folder, *map(str, words)], check=True, capture_output=True, text=True).stdout.strip()


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", what, build], check=True, capture_output=True).stdout)


def first_failure(tests):
    """What fails first of tests that run side by side; None: all pass."""
    stop, found = threading.Event(), []

    def one(test):
        if not stop.is_set():
            failure = test.run(stop)
            if failure:
                found.append(failure)
                stop.set()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        try:
            list(pool.map(one, tests))
        finally:
            stop.set()  # when this program is stopped, its tests are too
    return found[0] if found else None


def tried(tree, mutant, named):
    """(verdict, the test that says so)"""
    path = tree.path / mutant.path
    unit, others = tree.tests_of(mutant.room, named)
    if not tree.ninja(tree.objects[path]):
        sys.exit(f"{mutant.path} does not compile as it is")
    whole = tree.digest(path)
    nearest = [test for test in unit if test.name in path.stem or path.stem in test.name]
    with tree.changed(mutant):
        if not tree.ninja(tree.objects[path], CCACHE_READONLY="1"):
            return "not compiled", None
        if tree.digest(path) == whole:
            return "equivalent", None
        for tests in (nearest, [test for test in unit if test not in nearest], others):
            if not tree.ninja({name for test in tests for name in test.programs}) and tests:
                return "not compiled", None
            failure = first_failure(tests)
            if failure:
                return ("timed out" if failure.endswith(": timed out") else "killed"), failure
    return "survived", None


def summary(rows):
    """A line a room: of those that could be noticed, the share that was."""
    by_room = collections.defaultdict(collections.Counter)
    for row in rows:
        for name in (row["room"], "all"):
            by_room[name][row["verdict"]] += 1
    print(f"{'room':<12}" + "".join(f"{name:>14}" for name in VERDICTS) + f"{'noticed':>10}")
    for name in sorted(by_room, key=lambda name: (name == "all", name)):
        count = by_room[name]
        noticed, seen = count["killed"] + count["timed out"], sum(count[verdict] for verdict in VERDICTS[:3])
        print(f"{name:<12}" + "".join(f"{count[verdict]:>14}" for verdict in VERDICTS) +
              f"{f'{100 * noticed / seen:.0f} %' if seen else '-':>10}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("--log", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rooms", default="")
    parser.add_argument("--files", default="*.c")
    parser.add_argument("--tests", default="")
    parser.add_argument("--again", action="store_true", help="make those that survived once more")
    parser.add_argument("--summary", action="store_true", help="only print what the log says")
    given = parser.parse_args()
    log = given.log or given.tree.with_suffix(".jsonl")
    rows = {row["id"]: row for row in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    if not given.summary:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        tree = Tree(given.tree.resolve())
        rooms = given.rooms.split(",") if given.rooms else sorted(path.name for path in (tree.path / "src").iterdir()
                                                                  if path.is_dir())
        chosen = (mutant for mutant in drawn(tree, rooms, given.files, given.seed)
                  if (rows.get(mutant.id, {}).get("verdict") == "survived" if given.again else mutant.id not in rows))
        with open(log, "a", encoding="utf-8") as out, contextlib.suppress(KeyboardInterrupt):
            for mutant in itertools.islice(chosen, given.count):
                began = time.monotonic()
                verdict, by = tried(tree, mutant, set(filter(None, given.tests.split(","))))
                row = {**mutant._asdict(), "line": mutant.line + 1, "verdict": verdict, "by": by,
                       "seconds": round(time.monotonic() - began, 1)}
                rows[mutant.id] = row
                out.write(json.dumps(row) + "\n")
                out.flush()
                print(f"{verdict:<13} {mutant.path}:{mutant.line + 1}: {mutant.operator}"
                      f"{f' ({by})' if by else ''}: {mutant.after.strip()}", flush=True)
    summary(rows.values())


if __name__ == "__main__":
    main()
