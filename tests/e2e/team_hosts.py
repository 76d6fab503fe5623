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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import BIN, PATIENCE_S, Skip, case, environment, main, orrery, scratch, wait_for  # noqa: E402

PLAN = "layers=2,hidden=64,heads=4,vocab=512,seq=32,batch=4"
# Who dies is found dead at once, and nobody is taken for silent who is slow; who is cut off is found after the shorter time.
PATIENT, BOUND = "600s", "5s"
RATE = "100mbit"  # of each link: what a step takes at least, however fast the machine is
PORT = 29400
PAGE = "127.0.0.1:29401"


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
    def __init__(self, network, folder, steps, bound):
        self.network, self.folder, self.steps, self.bound = network, folder, steps, bound
        self.access = self.access_of(folder)
        self.coordinator = network.run(0, folder, "coordinator", "coordinator", "--listen", f"{network.address(0)}:{PORT}", "--log",
                                       folder / "log", "--replicas", 3, "--min-replicas", 1, "--failure-timeout", bound,
                                       "--metrics", PAGE, *self.access)
        wait_for(lambda: "listening on" in (folder / "coordinator.out").read_text(), "the coordinator does not listen")
        self.replicas = {}
        for i in range(3):
            self.start(i)

    def start(self, i):
        self.replicas[i] = self.network.run(
            i, self.folder, f"r{i}", "train", "gpt2", "--plan", PLAN, "--steps", self.steps, "--team",
            f"{self.network.address(0)}:{PORT}", "--replica", f"r{i}", "--replicas", 3, "--failure-timeout", self.bound,
            "-j", 1, "-f", "json", *self.access)

    @staticmethod
    def access_of(folder):
        """A key, where this build has TLS."""
        key = folder / "key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        tried = orrery("coordinator", "--key", key, "--listen", "nowhere", "--log", "none")
        return ["--insecure"] if "OpenSSL" in tried.stderr else ["--key", key]

    def events(self):
        return (self.folder / "coordinator.err").read_text()

    def wait_for(self, pattern):
        wait_for(lambda: re.search(pattern, self.events(), re.S), lambda: f"no {pattern!r} in:\n{self.events()}")

    def reach(self, step):
        """That step is committed, says the coordinator's page."""
        def reached():
            told = subprocess.run(["ip", "netns", "exec", self.network.host(0), BIN, "team", "status", PAGE, "-f", "json"],
                                  capture_output=True, text=True, env=environment(), check=False)
            return told.returncode == 0 and json.loads(told.stdout)["step"] >= step
        wait_for(reached, lambda: f"step {step} is not reached:\n{self.events()}")

    def digests(self):
        for i, process in self.replicas.items():
            assert process.wait(PATIENCE_S) == 0, (self.folder / f"r{i}.err").read_text()[-600:]
        texts = [(self.folder / f"r{i}.out").read_text() for i in self.replicas]
        return {re.search(r'"state_digest": *"?(\w+)', text).group(1) for text in texts}

    def close(self):
        for process in [*self.replicas.values(), self.coordinator]:
            process.send_signal(signal.SIGKILL)
            process.wait()


def with_team(steps, act, bound=PATIENT):
    with scratch() as folder:
        network = Network(3)
        try:
            for i in range(3):
                network.slow(i, RATE)
            team = Team(network, pathlib.Path(folder), steps, bound)
            try:
                act(network, team)
            finally:
                team.close()
        finally:
            network.close()


@case
def three_hosts_on_slow_links_end_with_the_same_bytes():
    def act(network, team):
        assert len(team.digests()) == 1
    with_team(40, act)


@case
def a_host_that_is_cut_off_is_left_and_taken_back():
    def act(network, team):
        team.reach(10)
        network.cut(2, True)
        team.wait_for(r"lost: r2: silent")
        team.wait_for(r"2 replicas after step")
        network.cut(2, False)
        team.wait_for(r"lost: r2.*joined: r2")
        assert len(team.digests()) == 1
    with_team(200, act, BOUND)


@case
def a_process_that_is_killed_on_another_host_comes_back():
    def act(network, team):
        team.reach(10)
        pid = subprocess.run(["ip", "netns", "pids", network.host(1)], capture_output=True, text=True, check=True).stdout.split()
        for number in pid:
            os.kill(int(number), signal.SIGKILL)
        team.replicas[1].wait()
        team.wait_for(r"lost: r1")
        team.start(1)
        team.wait_for(r"lost: r1.*joined: r1")
        assert len(team.digests()) == 1
    with_team(200, act)


if __name__ == "__main__":
    main()
