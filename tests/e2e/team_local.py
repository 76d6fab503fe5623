#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A team of replicas on one machine, as somebody starts it: nothing that dies, hangs or is told to stop loses a step."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import BIN, PATIENCE_S, Skip, case, environment, main, one_line, orrery, scratch, wait_for  # noqa: E402

PLAN = "layers=2,hidden=64,heads=4,vocab=512,seq=32,batch=4"
# Who dies is found dead at once, and nobody is taken for silent who is slow; who hangs is found after the shorter time.
PATIENT, BOUND = "600s", "5s"


def job(*more, replicas=3, steps=100, bound=PATIENT):
    return ["train", "gpt2", "--plan", PLAN, "--steps", steps, "--replicas", replicas, "--failure-timeout", bound,
            "-j", 1, *more]


def ended(process):
    """The name of its state after the command's name, which may hold anything."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


class Team:
    """A launcher with its children; its output is in files, so that nobody waits for whoever reads."""

    def __init__(self, folder, *words):
        self.folder = folder
        with open(folder / "out", "w", encoding="utf-8") as out, open(folder / "err", "w", encoding="utf-8") as err:
            self.launcher = subprocess.Popen([BIN, *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                                             stderr=err, env=environment(TMPDIR=str(folder)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        children = self.children()
        self.launcher.kill()
        self.launcher.wait()
        self.wait_for(lambda: all(ended(number) for number in children), "children outlive their launcher")

    def out(self):
        return (self.folder / "out").read_text()

    def err(self):
        return (self.folder / "err").read_text()

    def children(self):
        try:
            text = pathlib.Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children").read_text()
        except OSError:
            return []
        return [int(word) for word in text.split()]

    def child(self, word):
        """The one that has this word on its command line; None: there is none now."""
        for number in self.children():
            try:
                words = pathlib.Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in words and not ended(number):
                return number
        return None

    def wait_for(self, condition, what):
        wait_for(condition, lambda: f"{what}:\n{self.out()}\n{self.err()}")

    def expect(self, condition, what):
        """It comes to be while the launcher lives."""
        self.wait_for(lambda: condition() or self.launcher.poll() is not None, what)
        assert condition(), f"{what}:\n{self.out()}\n{self.err()}"

    def step(self):
        """The last that was printed."""
        steps = re.findall(r"^ +(\d+)  .* ms ", self.out(), re.M)
        return int(steps[-1]) if steps else 0

    def reach(self, step):
        self.expect(lambda: self.step() >= step, f"step {step} is not reached")

    def kill(self, word, number=signal.SIGKILL):
        self.expect(lambda: self.child(word), f"no {word}")
        os.kill(self.child(word), number)

    def end(self, code=0):
        got = self.launcher.wait(timeout=PATIENCE_S)
        assert got == code, f"exit {got}\n{self.out()}\n{self.err()}"

    def replicas(self):
        """Rows of the last table: name -> (state, starts, step, digest)."""
        rows = re.findall(r"^(r\d+) +([a-z ]+?) +(\d+) +(-?\d+)(?: +([0-9a-f]{16}))?$", self.out(), re.M)
        return {name: (state, int(starts), int(step), digest) for name, state, starts, step, digest in rows}

    def agree(self, step, names=("r0", "r1", "r2")):
        rows = self.replicas()
        assert sorted(rows) == sorted(names), self.out()
        assert all(row[0] == "done" and row[2] == step for row in rows.values()), self.out()
        assert len({row[3] for row in rows.values()}) == 1 and rows["r0"][3], self.out()
        assert "have the same state" in self.out()
        return rows

    def agree_where_they_left(self):
        """The last step; who left after the same step left with the same state."""
        rows = self.replicas()
        assert {row[0] for row in rows.values()} == {"left"}, self.out()
        assert len({row[2:] for row in rows.values()}) == len({row[2] for row in rows.values()}), rows
        return max(row[2] for row in rows.values())


@case
def replicas_train_to_the_same_bits():
    with scratch() as folder:
        result = orrery(*job("-f", "json", steps=8), cwd=folder)
        assert result.returncode == 0, result.stderr
        told = json.loads(result.stdout)
        rows = told["tables"]["replicas"]["rows"]
        assert [row["replica"] for row in rows] == ["r0", "r1", "r2"]
        assert all(row["state_digest"] == told["state_digest"] and row["step"] == 8 for row in rows), rows
        assert told["team"] == {"replicas": 3, "restarts": 0, "coordinator_restarts": 0, "retries": 0,
                                "states_equal": True, "equal": True}
        steps = told["tables"]["steps"]["rows"]
        assert [row["step"] for row in steps] == list(range(1, 9))
        assert all(row["contributors"] == 3 for row in steps)


def a_key(path, text="k" * 32, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


@case
def with_a_key_all_is_the_same():
    with scratch() as folder:
        key = a_key(folder / "key")
        for more in (["--no-shared-memory"], ["--no-shared-memory", "--encrypt", "all"], []):
            result = orrery(*job("-f", "json", "--key", key, *more, steps=8), cwd=folder)
            if result.returncode != 0 and "OpenSSL" in result.stderr:
                raise Skip("this build has no TLS")
            assert result.returncode == 0, result.stderr
            told = json.loads(result.stdout)
            assert told["team"]["states_equal"] and told["team"]["restarts"] == 0, told["team"]


@case
def what_a_key_must_be_is_said_in_a_line():
    with scratch() as folder:
        for key, word in ((a_key(folder / "open", mode=0o644), "chmod 600"), (a_key(folder / "short", "k"), "16 to 4096"),
                          (folder / "absent", "No such file"), (folder, "no file")):
            result = orrery("coordinator", "--key", key, "--log", "none")
            assert result.returncode in (2, 3) and word in one_line(result, result.returncode), key
        for words, word in ((["--insecure", "--key", a_key(folder / "key")], "--key or --insecure"),
                            (["--listen", "0.0.0.0:0"], "--insecure")):
            assert word in one_line(orrery("coordinator", "--log", "none", *words), 2), words


@case
def a_replica_that_is_killed_comes_back():
    with scratch() as folder, Team(folder, *job("-v", steps=200)) as team:
        team.reach(20)
        team.kill("--replica=r1")
        team.end()
        rows = team.agree(200)
        assert rows["r1"][1] == 2 and rows["r0"][1] == rows["r2"][1] == 1, rows
        told = [int(number) for number in re.findall(r"^ +(\d+)  .* ms ", team.out(), re.M)]
        assert told == list(range(1, 201)), "a step is missing, or told twice"
        assert "r1 was killed by signal 9" in team.err() and "r1: epoch" in team.err(), team.err()
        assert not list(folder.glob("orrery-team-*")), "the log of the coordinator is left behind"


@case
def a_replica_that_hangs_is_left_behind():
    with scratch() as folder, Team(folder, *job("-v", steps=100000, bound=BOUND)) as team:
        team.reach(20)
        team.kill("--replica=r2", signal.SIGSTOP)
        team.expect(lambda: "lost: r2" in team.err(), "r2 is not missed")
        team.reach(team.step() + 20)
        team.kill("--replica=r2", signal.SIGCONT)
        team.expect(lambda: re.search(r" ms +2 +\d+$.* ms +3 +\d+$", team.out(), re.M | re.S), "r2 is not taken back")
        team.reach(team.step() + 20)
        team.launcher.send_signal(signal.SIGINT)
        team.end(130)
        team.agree_where_they_left()
        assert re.search(r"^ +\d+  .* ms +2 +\d+$", team.out(), re.M), "no step was made by two"


@case
def the_coordinator_comes_back_with_its_memory():
    with scratch() as folder, Team(folder, *job("-v", steps=200)) as team:
        team.reach(20)
        team.kill("coordinator")
        team.end()
        team.agree(200)
        assert "the coordinator was killed by signal 9" in team.err(), team.err()
        epochs = [int(number) for number in re.findall(r" epoch (\d+), step \d+: \d+ replicas? after", team.err())]
        assert epochs == sorted(set(epochs)) and len(epochs) >= 2, epochs


@case
def ctrl_c_ends_after_the_step_and_the_team_goes_on_later():
    with scratch() as folder:
        with Team(folder, *job("-v", "--save", "kept", steps=100000)) as team:
            team.reach(20)
            team.launcher.send_signal(signal.SIGINT)
            team.end(130)
            last = team.agree_where_they_left()
        line = one_line(orrery(*job("--save", "kept"), cwd=folder), 3)
        assert "--resume goes on" in line, line
        with Team(folder, *job("--save", "kept", "--resume", steps=last + 20, replicas=2)) as team:
            team.end()
            team.agree(last + 20, ("r0", "r1"))
            assert team.step() == last + 20 and not re.search(r"^ +1  ", team.out(), re.M), team.out()


@case
def what_dies_too_often_is_given_up():
    with scratch() as folder, Team(folder, *job("-v", steps=100000)) as team:
        team.reach(5)
        for _ in range(6):
            team.expect(lambda: team.child("--replica=r1"), "r1 is not started again")
            os.kill(team.child("--replica=r1"), signal.SIGKILL)
            team.expect(lambda: not team.child("--replica=r1"), "r1 is still there")
        team.expect(lambda: "it is given up" in team.err(), "r1 is not given up")
        at = team.step()
        team.reach(at + 20)
        team.launcher.send_signal(signal.SIGTERM)
        team.end(143)
        rows = team.replicas()
        assert rows["r1"][0] == "given up" and rows["r1"][1] == 6, rows
        assert rows["r0"][0] == rows["r2"][0] == "left", rows


@case
def children_die_with_their_launcher():
    with scratch() as folder, Team(folder, *job("-v", steps=100000)) as team:
        team.reach(5)
        children = team.children()
        assert len(children) == 4, children
        team.launcher.kill()
        team.launcher.wait()
        team.wait_for(lambda: all(ended(number) for number in children), "a child is still there")


@case
def all_that_die_at_once_begin_at_the_last_checkpoint():
    with scratch() as folder, Team(folder, *job("-v", "--save", "kept", "--save-every", 20, steps=200)) as team:
        team.reach(60)
        for name in ("r0", "r1", "r2"):
            os.kill(team.child(f"--replica={name}"), signal.SIGKILL)
        team.end()
        rows = team.agree(200)
        assert {row[1] for row in rows.values()} == {2}, rows


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Started:
    """Processes in a folder, none of which outlives the case."""

    def __init__(self, folder):
        self.folder = folder
        self.all = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.all:
            one.kill()
            one.communicate()

    def run(self, *words):
        self.all.append(subprocess.Popen([str(word) for word in words], cwd=self.folder, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, env=environment()))
        return self.all[-1]

    def __call__(self, *words):
        return self.run(BIN, *words)


@case
def a_team_by_hand_is_seen_by_its_status():
    with scratch() as folder, Started(folder) as start:
        page = f"127.0.0.1:{free_port()}"

        def look():
            told = orrery("team", "status", page, "-f", "json")
            if told.returncode != 0: # it may not listen yet
                return "", []
            seen = json.loads(told.stdout)
            return seen["state"], [member["name"] for member in seen["members"]]

        coordinator = start("coordinator", "--listen", "127.0.0.1:0", "--metrics", page, "--replicas", 2, "--log",
                            "log", "--failure-timeout", PATIENT)
        first = coordinator.stdout.readline()
        assert first.startswith("listening on 127.0.0.1:"), first
        address = first.split()[-1]
        words = job("--team", address, "-f", "json", replicas=2, steps=30)
        one = start(*words, "--replica", "a")
        wait_for(lambda: look()[1] == ["a"], "nobody has joined")
        assert look() == ("forming", ["a"])
        table = orrery("team", "status", page).stdout
        assert table.startswith("forming") and re.search(r"^a +waiting +1 ", table, re.M), table
        other = start(*words, "--replica", "b")
        told = [process.communicate(timeout=PATIENCE_S) for process in (one, other)]
        assert one.returncode == other.returncode == 0, told
        ends = [json.loads(out) for out, _ in told]
        assert ends[0]["state_digest"] == ends[1]["state_digest"]
        assert ends[1]["team"] == {"replicas": 2, "replica": "b", "coordinator": address}
        assert coordinator.wait(timeout=PATIENCE_S) == 0
        assert "all replicas have left" in coordinator.stderr.read()
        one_line(orrery("team", "status", page), 3)


@case
def a_machine_that_is_gone_is_forgotten():
    """An outage of all, after which the one that saved comes back and the other never does."""
    with scratch() as folder, Started(folder) as start:
        key = a_key(folder / "key")

        def coordinate():
            process = start("coordinator", "--listen", "127.0.0.1:0", "--replicas", 2, "--log", "log", "--key", key,
                            "--failure-timeout", "10s", "--outage-timeout", "1h")
            first = process.stdout.readline()
            if not first and "OpenSSL" in process.stderr.read():
                raise Skip("this build has no TLS")
            return process, first.split()[-1]

        def forget(name, *more):
            return orrery("team", "forget", name, *more)

        process, address = coordinate()
        words = job("--key", key, "-v", replicas=2, steps=1_000_000, bound="10s")
        saved = ["--save", "kept", "--save-every", 5]
        start(*words, "--team", address, "--replica", "b")
        start(*words, *saved, "--team", address, "--replica", "a")
        wait_for(lambda: (folder / "kept" / "a" / "latest").exists(), "a saves nothing")
        assert "a is here" in one_line(forget("a", "--coordinator", address, "--key", key), 3)
        assert "nobody waits" in one_line(forget("z", "--coordinator", address, "--key", key), 3)
        for one in start.all:
            one.kill()
            one.communicate()
        process, address = coordinate()
        last = (folder / "kept" / "a" / "latest").read_text()
        start(*words, *saved, "--resume", "--team", address, "--replica", "a")
        halt = next(line for line in iter(process.stderr.readline, "") if "halt" in line)
        assert "b is missing, waited for 3600 s at most" in halt, halt
        one_line(forget("b", "--coordinator", address), 3)  # without the key nobody is heard
        told = forget("b", "--coordinator", address, "--key", key)
        assert told.returncode == 0 and "nobody waits for b" in told.stderr, told.stderr
        wait_for(lambda: (folder / "kept" / "a" / "latest").read_text() != last, "a does not go on")


def await_line(process, word):
    """The first line with this word that it writes from now on."""
    lines = []
    for line in iter(process.stderr.readline, ""):
        lines.append(line)
        if word in line:
            return line
    raise AssertionError(f"no {word}: {''.join(lines)}")


def answers(url):
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1) as told:
            return b"true" in told.read()
    except OSError:
        return False


@case
def a_coordinator_that_dies_costs_nobody_an_operator():
    """Each of two leads until it is killed; the other takes the lead, and whoever is started again stands by."""
    if shutil.which("etcd") is None:
        raise Skip("no etcd here")
    with scratch() as folder, Started(folder) as start:
        store, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        start.run("sh", "-c", 'exec etcd "$@" >/dev/null 2>&1', "etcd", "--data-dir", "kept", "--listen-client-urls", store,
                  "--advertise-client-urls", store, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                  "--initial-cluster", f"default={peer}")
        wait_for(lambda: answers(store), lambda: "etcd does not answer")

        def coordinate(port):
            process = start("coordinator", "--listen", f"127.0.0.1:{port}", "--replicas", 2, "--standby", "--etcd",
                            f"{store}/job", "--failure-timeout", BOUND)
            if not process.stdout.readline():
                told = process.stderr.read()
                raise Skip("this build has no libcurl") if "libcurl" in told else AssertionError(told)
            await_line(process, "stands by")
            return process

        ports = [free_port(), free_port()]
        both = [coordinate(port) for port in ports]
        words = job("--team", ",".join(f"127.0.0.1:{port}" for port in ports), "-f", "json", replicas=2, steps=1500,
                    bound=BOUND)
        replicas = [start(*words, "--replica", name) for name in "ab"]
        await_line(both[0], "epoch")
        for which in 0, 1:
            both[which].kill()
            await_line(both[1 - which], "leads: a quorum has called it")
            await_line(both[1 - which], "epoch")
            both[which] = coordinate(ports[which])
        told = [process.communicate(timeout=PATIENCE_S) for process in replicas]
        assert [process.returncode for process in replicas] == [0, 0], told
        ends = [json.loads(out) for out, _ in told]
        assert ends[0]["state_digest"] == ends[1]["state_digest"], ends
        for process in both:
            assert process.wait(timeout=PATIENCE_S) == 0
            assert "all replicas have left" in process.stderr.read()


main()
