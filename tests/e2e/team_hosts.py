#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A team over a network: each replica in a network namespace of its own, on links that are slow or cut.

Needs root and `ip netns`; is skipped where these are not to be had.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import BIN, SANITIZED, Skip, case, environment, main, scratch  # noqa: E402

PLAN = "layers=2,hidden=64,heads=4,vocab=512,seq=32,batch=4"
BOUND = "5s" if SANITIZED else "1s"
PORT = 29400


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, capture_output=True, text=True)


class Network:
    """Namespaces on a bridge: host i has 10.213.7.(i + 1)."""

    made = 0

    def __init__(self, hosts):
        Network.made += 1  # the kernel takes its time to remove what it has
        self.name = f"o{os.getpid()}n{Network.made}"
        self.bridge = f"{self.name}b"
        self.hosts = hosts
        if os.geteuid() != 0:
            raise Skip("making network namespaces needs root")
        try:
            ip("link", "add", self.bridge, "type", "bridge")
            ip("link", "set", self.bridge, "up")
            for i in range(hosts):
                self.add(i)
        except (OSError, subprocess.CalledProcessError) as why:
            self.close()
            raise Skip(f"no network namespaces here: {getattr(why, 'stderr', why)}".strip()) from why

    def host(self, i):
        return f"{self.name}h{i}"

    def link(self, i):
        return f"{self.name}v{i}"

    def address(self, i):
        return f"10.213.7.{i + 1}"

    def add(self, i):
        ip("netns", "add", self.host(i))
        ip("link", "add", self.link(i), "type", "veth", "peer", "name", "eth0", "netns", self.host(i))
        ip("link", "set", self.link(i), "master", self.bridge, "up")
        ip("-n", self.host(i), "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
        ip("-n", self.host(i), "link", "set", "eth0", "up")
        ip("-n", self.host(i), "link", "set", "lo", "up")

    def cut(self, i, down):
        """Nothing passes either way, and nobody is told."""
        ip("link", "set", self.link(i), "down" if down else "up")

    def slow(self, i, rate):
        done = subprocess.run(["tc", "qdisc", "add", "dev", self.link(i), "root", "tbf", "rate", rate, "burst", "64kbit",
                               "latency", "20ms"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Skip(f"no slow links here: {done.stderr.strip()}")

    def run(self, i, folder, name, *words):
        with open(folder / f"{name}.out", "w") as out, open(folder / f"{name}.err", "w") as err:
            return subprocess.Popen(["ip", "netns", "exec", self.host(i), BIN, *map(str, words)], stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=err, cwd=folder, env=environment())

    def close(self):
        for i in range(self.hosts):
            ip("netns", "del", self.host(i), check=False)
        ip("link", "del", self.bridge, check=False)


class Team:
    def __init__(self, network, folder, steps):
        self.network, self.folder, self.steps = network, folder, steps
        self.coordinator = network.run(0, folder, "coordinator", "coordinator", "--listen", f"{network.address(0)}:{PORT}", "--log",
                                       folder / "log", "--replicas", 3, "--least", 1, "--failure-timeout", BOUND)
        time.sleep(0.5)
        self.replicas = {}
        for i in range(3):
            self.start(i)

    def start(self, i):
        self.replicas[i] = self.network.run(
            i, self.folder, f"r{i}", "train", "gpt2", "--plan", PLAN, "--steps", self.steps, "--team",
            f"{self.network.address(0)}:{PORT}", "--replica", f"r{i}", "--replicas", 3, "--address", self.network.address(i),
            "--failure-timeout", BOUND, "-j", 1, "-f", "json")

    def events(self):
        return (self.folder / "coordinator.err").read_text()

    def wait_for(self, pattern, seconds=40):
        end = time.time() + seconds
        while time.time() < end:
            found = re.search(pattern, self.events())
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in:\n{self.events()}")

    def digests(self, seconds=120):
        end = time.time() + seconds
        for i, process in self.replicas.items():
            assert process.wait(max(1, end - time.time())) == 0, (self.folder / f"r{i}.err").read_text()[-600:]
        texts = [(self.folder / f"r{i}.out").read_text() for i in self.replicas]
        return {re.search(r'"state_digest": *"?(\w+)', text).group(1) for text in texts}

    def close(self):
        for process in [*self.replicas.values(), self.coordinator]:
            process.send_signal(signal.SIGKILL)
            process.wait()


def with_team(steps, act):
    with scratch() as folder:
        network = Network(3)
        try:
            team = Team(network, pathlib.Path(folder), steps)
            try:
                act(network, team)
            finally:
                team.close()
        finally:
            network.close()


@case
def three_hosts_on_slow_links_end_with_the_same_bytes():
    def act(network, team):
        for i in range(3):
            network.slow(i, "100mbit")
        assert len(team.digests()) == 1
    with_team(40, act)


@case
def a_host_that_is_cut_off_is_left_and_taken_back():
    def act(network, team):
        team.wait_for(r"3 replicas after step 0")
        time.sleep(1)
        network.cut(2, True)
        team.wait_for(r"lost: r2: silent")
        team.wait_for(r"2 replicas after step")
        network.cut(2, False)
        team.wait_for(r"lost: r2[^$]*joined: r2")
        assert len(team.digests()) == 1
    with_team(400 if SANITIZED else 1500, act)


@case
def a_process_that_is_killed_on_another_host_comes_back():
    def act(network, team):
        team.wait_for(r"3 replicas after step 0")
        time.sleep(1)
        pid = subprocess.run(["ip", "netns", "pids", network.host(1)], capture_output=True, text=True, check=True).stdout.split()
        for number in pid:
            os.kill(int(number), signal.SIGKILL)
        team.replicas[1].wait()
        team.wait_for(r"lost: r1")
        team.start(1)
        assert len(team.digests()) == 1
    with_team(400 if SANITIZED else 1500, act)


if __name__ == "__main__":
    main()
