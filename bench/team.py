#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the fault-tolerant protocol costs, and how long a team stands still, as JSON lines.

Usage: team.py BENCH_TEAM_STEP [--soak SECONDS] [--every SECONDS]

Replicas are processes whose steps are made of sleep, so that what is left is the protocol. A soak
kills a random replica about every `--every` seconds and starts it again two seconds later.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Team:
    def __init__(self, program, folder, replicas, compute_us, numbers, state, timeout_ms, steps=10**9):
        self.program, self.folder, self.n = str(program), pathlib.Path(folder), 0
        self.address = f"127.0.0.1:{free_port()}"
        self.args = [str(x) for x in (steps, compute_us, numbers, state, timeout_ms)]
        self.coordinator = subprocess.Popen(
            [self.program, "coordinator", self.address, str(replicas), str(timeout_ms), str(self.folder / "log")],
            stderr=open(self.folder / "coordinator", "w"))
        time.sleep(0.2)
        self.members, self.logs = {}, {}
        for i in range(replicas):
            self.start(f"r{i}")

    def start(self, name):
        self.n += 1
        log = self.folder / f"{name}.{self.n}"
        self.members[name] = subprocess.Popen([self.program, name, self.address, *self.args], stdout=open(log, "w"),
                                              stderr=subprocess.DEVNULL)
        self.logs.setdefault(name, []).append(log)

    def kill(self, name):
        self.members[name].kill()
        self.members.pop(name).wait()

    def steps(self, name):
        """(step, ns of the commit, contributors, retries) of all lives."""
        rows = []
        for log in self.logs[name]:
            for line in log.read_text().splitlines():
                fields = line.split()
                if len(fields) == 5:
                    rows.append(tuple(int(x) for x in fields[:4]))
        return rows

    def wait_for(self, name, steps, seconds=60):
        end = time.time() + seconds
        while len(self.steps(name)) < steps and time.time() < end:
            time.sleep(0.02)

    def end(self):
        for p in [*self.members.values(), self.coordinator]:
            p.send_signal(signal.SIGKILL)
            p.wait()


def gaps_ms(rows):
    return [(b[1] - a[1]) / 1e6 for a, b in zip(rows, rows[1:])]


def tell(**row):
    print(json.dumps(row), flush=True)


def quiet(program, folder):
    """A step of 50 ms, 4 numbers reduced over 2 replicas: what is beyond the sleep."""
    team = Team(program, folder, 2, 50000, 4, 1000, 2000)
    team.wait_for("r0", 100)
    gaps = gaps_ms(team.steps("r0"))[10:]
    team.end()
    begin = time.monotonic_ns()
    for _ in range(40):
        time.sleep(0.05)
    sleep_ms = (time.monotonic_ns() - begin) / 40 / 1e6
    over = statistics.median(gaps) - sleep_ms
    tell(name="no failure, 2 replicas, steps of 50 ms", step_ms=round(statistics.median(gaps), 3), sleep_ms=round(sleep_ms, 3),
         beyond_ms=round(over, 3), share=round(over / sleep_ms, 4))


def after_signal(program, folder, number, timeout_ms, name, rounds=7):
    """From the signal to the next committed step of the others, beyond a step."""
    times = []
    for i in range(rounds):
        sub = pathlib.Path(folder) / f"{name}{i}"
        sub.mkdir()
        team = Team(program, sub, 4, 20000, 65536, 65536, timeout_ms)
        team.wait_for("r0", 20)
        normal = statistics.median(gaps_ms(team.steps("r0")))
        at = time.monotonic_ns()
        team.members["r2"].send_signal(number)
        before = len(team.steps("r0"))
        time.sleep(0.3 + 1.2 * timeout_ms / 1000)
        rows = [r for r in team.steps("r0") if r[1] > at and r[2] == 3]
        if rows:
            times.append((rows[0][1] - at) / 1e6 - normal)
        team.end()
    tell(name=name, timeout_ms=timeout_ms, rounds=len(times), beyond_a_step_ms={
        "median": round(statistics.median(times), 1), "max": round(max(times), 1)})


def catch_up(program, folder, state_bytes, step_ms):
    """Steps of three while a fourth gets their state, beside their steps before."""
    team = Team(program, folder, 4, step_ms * 1000, 65536, state_bytes // 4, 2000)
    team.wait_for("r0", 6, 120)
    team.kill("r3")
    rows = len(team.steps("r0"))
    team.wait_for("r0", rows + 5, 120)
    before = gaps_ms(team.steps("r0"))[-4:]
    at = len(team.steps("r0"))
    team.start("r3")
    end = time.time() + 120
    while time.time() < end and not [r for r in team.steps("r0")[at:] if r[2] == 4]:
        time.sleep(0.1)
    rows = team.steps("r0")
    back = next((i for i, r in enumerate(rows) if i > at and r[2] == 4), len(rows) - 1)
    during = gaps_ms(rows[at - 1:back + 1])
    normal = statistics.median(before)
    tell(name="catch-up", state_bytes=state_bytes, step_ms=round(normal, 1), during_ms=[round(x, 1) for x in during],
         longest_beyond=round(max(during) / normal - 1, 4), sum_beyond_ms=round(sum(during) - len(during) * normal, 1))
    team.end()


def soak(program, folder, seconds, every):
    team = Team(program, folder, 4, 50000, 250000, 250000, 1000)
    rng, begin, kills, waiting = random.Random(7), time.time(), 0, []
    following = begin + rng.expovariate(1 / every)
    while time.time() < begin + seconds:
        time.sleep(0.05)
        for name in [n for n, p in team.members.items() if p.poll() is not None]:
            tell(name="soak", ended=name, code=team.members.pop(name).returncode)
            waiting.append((time.time() + 2, name))
        for item in [w for w in waiting if time.time() >= w[0]]:
            waiting.remove(item)
            team.start(item[1])
        if time.time() >= following and len(team.members) > 1:
            name = rng.choice(sorted(team.members))
            team.kill(name)
            waiting.append((time.time() + 2, name))
            kills, following = kills + 1, time.time() + rng.expovariate(1 / every)
    seen = {}
    for name in team.logs:
        for step, at, contributors, retries in team.steps(name):
            seen[step] = max(seen.get(step, 0), retries)
    team.end()
    steps, again = len(seen), sum(seen.values())
    tell(name="soak", seconds=seconds, kills=kills, steps=steps, made_again=again, highest=max(seen),
         committed_share=round(steps / (steps + again), 4))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--soak", type=float, default=0)
    parser.add_argument("--every", type=float, default=60)
    args = parser.parse_args()
    program = os.path.abspath(args.program)
    with tempfile.TemporaryDirectory() as root:
        def folder(name):
            path = pathlib.Path(root) / name
            path.mkdir()
            return path
        if args.soak > 0:
            soak(program, folder("soak"), args.soak, args.every)
            return
        quiet(program, folder("quiet"))
        after_signal(program, folder("kill"), signal.SIGKILL, 2000, "SIGKILL of one of four")
        after_signal(program, folder("stop"), signal.SIGSTOP, 500, "SIGSTOP of one of four")
        catch_up(program, folder("catch_up"), 1 << 30, 2000)


if __name__ == "__main__":
    main()
