#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Twelve attacks on a team that has a key, by processes that have not: the job goes on, its replicas end with the same bits, and
whoever is attacked neither lets anybody in nor grows."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import BIN, PATIENCE_S, SANITIZED, Skip, case, environment, main, orrery, scratch, wait_for  # noqa: E402

JOB = ["gpt2", "--plan", "layers=2,hidden=64,heads=4,vocab=512,seq=32,batch=4", "--replicas", "2"]
STEPS = 800  # so that the job outlasts the attacks, which take a second
MOST_KIB = 128 << 10  # of a process that is attacked, at its largest: frames of 64 MiB were taken from anybody


class Process:
    """A command whose output is in files."""

    def __init__(self, folder, name, *words):
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with open(self.out, "w", encoding="utf-8") as out, open(self.err, "w", encoding="utf-8") as err:
            self.process = subprocess.Popen([BIN, *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            env=environment())

    def said(self):
        return self.out.read_text() + self.err.read_text()

    def end(self):
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ports(self):
        """Where it listens on TCP."""
        pid = self.process.pid
        mine = set()
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                mine.add(os.readlink(entry))
        rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
        return sorted(int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine)

    def largest_kib(self):
        return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{self.process.pid}/status").read_text()).group(1))


class Scene:
    """A coordinator and two replicas that have a key, and those that are attacked: all their ports."""

    def __init__(self, folder):
        self.folder = folder
        self.key, self.other = folder / "key", folder / "other"
        for path, text in ((self.key, "k" * 32), (self.other, "o" * 32)):
            path.write_text(text)
            path.chmod(0o600)
        self.address = "127.0.0.1:0"
        self.coordinator = self.start_coordinator()
        self.replicas = [self.replica(name, "--key", self.key) for name in ("a", "b")]
        self.wait_for(lambda: self.step() >= 5, "no step is made")

    def start_coordinator(self):
        made = Process(self.folder, "coordinator", "coordinator", "--listen", self.address, "--replicas", 2, "--log",
                       self.folder / "log", "--key", self.key, "--failure-timeout", "120s", "-v")
        self.wait_for(lambda: "listening on" in made.said() or made.process.poll() is not None, "it does not listen")
        if "OpenSSL" in made.said():
            raise Skip("this build has no TLS")
        self.address = re.search(r"listening on (\S+)", made.said()).group(1)
        return made

    def replica(self, name, *more, bound="120s", folder=None):
        folder = folder or self.folder
        folder.mkdir(exist_ok=True)
        return Process(folder, name, "train", *JOB, "--team", self.address, "--replica", name, "--steps", STEPS,
                       "--no-shared-memory", "-f", "json", "--failure-timeout", bound, *more)

    def wait_for(self, condition, what):
        wait_for(condition, lambda: f"{what}: " + "".join(path.read_text()[-2000:] for path in self.folder.glob("*.err")))

    def step(self):
        steps = re.findall(r"step (\d+)", self.coordinator.said())
        return int(steps[-1]) if steps else 0

    def targets(self):
        return [port for process in [self.coordinator, *self.replicas] if process.process.poll() is None
                for port in process.ports()]

    def stranger(self, name, *more, folder=None):
        """A replica that is not of the team; it is ended when it was refused, or hung up on."""
        made = self.replica(name, *more, bound="2s", folder=folder)
        self.wait_for(lambda: made.process.poll() is not None or "coordinator lost" in made.said() or self.is_over(),
                      "a stranger is still")
        made.kill()

    def is_over(self):
        return all(replica.process.poll() is not None for replica in self.replicas)


def dial(port):
    with contextlib.suppress(OSError):
        return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    return None


def say(port, *parts):
    """Says it, and waits for the end or for nothing more."""
    caller = dial(port)
    if caller is None:
        return
    with caller, contextlib.suppress(OSError):
        for part in parts:
            caller.sendall(part)
        caller.shutdown(socket.SHUT_WR)
        while caller.recv(4096):
            pass


FRAME = b"ORR1" + b"\x01\x00\x00\x00" + b"\xfe" + b"\xff" * 7 + bytes(24) + (1 << 26).to_bytes(4, "little") + bytes(20)


def half_sent_frames(scene):
    held = [caller for port in scene.targets() for _ in range(16) if (caller := dial(port)) is not None]
    for caller in held:
        with contextlib.suppress(OSError):
            caller.sendall(FRAME + bytes(1 << 16))
    for caller in held:
        caller.close()


def huge_lengths(scene):
    for port in scene.targets():
        say(port, FRAME[:40] + b"\xff" * 4 + FRAME[44:], bytes(1 << 20))


def a_hello_of_the_last_epoch(scene):
    for port in scene.targets():
        say(port, FRAME[:40] + (64).to_bytes(4, "little") + FRAME[44:], bytes(64))


def a_stolen_name(scene):
    scene.stranger("a", folder=scene.folder / "elsewhere")


def another_key(scene):
    scene.stranger("wrong", "--key", scene.other)


def no_key(scene):
    scene.stranger("none")


def another_job(scene):
    scene.stranger("job", "--key", scene.other, "--seed", "77")


def a_greeting_played_again(scene):
    """What one that has the key said to the coordinator, heard on the way and said again."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        way = f"127.0.0.1:{server.getsockname()[1]}"
        client = Process(scene.folder, "heard", "train", *JOB, "--team", way, "--replica", "c", "--steps", STEPS, "--key", scene.key)
        server.settimeout(PATIENCE_S)
        caller, _ = server.accept()
        with caller:
            heard.append(caller.recv(1 << 16))
        client.kill()
    assert heard[0], "nothing was heard"
    for port in scene.targets():
        say(port, heard[0], heard[0])


def slow_words(scene):
    held = [caller for port in scene.targets() for _ in range(20) if (caller := dial(port)) is not None]
    for byte in FRAME[:8]:
        for caller in held:
            with contextlib.suppress(OSError):
                caller.sendall(bytes([byte]))
    for caller in held:
        caller.close()


def a_flood(scene):
    for port in scene.targets():
        held = [caller for _ in range(200) if (caller := dial(port)) is not None]
        for caller in held:
            caller.close()


def garbage(scene):
    for port in scene.targets():
        say(port, bytes(range(256)) * 4096)


def tls_without_the_key(scene):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for port in scene.targets():
        caller = dial(port)
        if caller is not None:
            with caller, contextlib.suppress(OSError, ssl.SSLError):
                context.wrap_socket(caller).close()
                assert False, "a stranger was let in"


def a_stranger_after_a_restart(scene):
    scene.coordinator.kill()
    waiting = threading.Thread(target=no_key, args=[scene])
    waiting.start()
    scene.coordinator = scene.start_coordinator()
    waiting.join()


ATTACKS = [half_sent_frames, huge_lengths, a_hello_of_the_last_epoch, a_stolen_name, another_key, no_key, another_job,
           a_greeting_played_again, slow_words, a_flood, garbage, tls_without_the_key, a_stranger_after_a_restart]


@case
def strangers_change_nothing():
    with scratch() as folder:
        scene = Scene(folder)
        try:
            for attack in ATTACKS:
                assert not scene.is_over(), f"the job was over before {attack.__name__}"
                attack(scene)
                largest = max((p.largest_kib() for p in [scene.coordinator, *scene.replicas] if p.process.poll() is None), default=0)
                assert SANITIZED or largest < MOST_KIB, (attack.__name__, largest)
            assert [replica.end() for replica in scene.replicas] == [0, 0], scene.coordinator.said()[-2000:]
        finally:
            for process in [scene.coordinator, *scene.replicas]:
                process.kill()
        told = [json.loads(replica.out.read_text()) for replica in scene.replicas]
        assert told[0]["state_digest"] == told[1]["state_digest"], [one["state_digest"] for one in told]
        joined = set(re.findall(r"joined: (\S+?),", scene.coordinator.said()))
        assert joined <= {"a", "b"}, joined
        alone = orrery("train", *JOB, "--steps", STEPS, "-f", "json", cwd=folder)
        assert json.loads(alone.stdout)["state_digest"] == told[0]["state_digest"], "the strangers changed the bits"


@case
def a_certificate_is_no_key():
    """Who answers at the coordinator's address with a certificate in place of the key hears nothing."""
    with scratch() as folder:
        try:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "s.key", "-out", "s.crt",
                            "-subj", "/CN=127.0.0.1"], cwd=folder, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Skip(f"no certificate can be made: {error}") from error
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.num_tickets = ssl.TLSVersion.TLSv1_3, 0
        context.load_cert_chain(folder / "s.crt", folder / "s.key")
        key = folder / "key"
        key.write_text("k" * 32)
        key.chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as server:
            replica = Process(folder, "a", "train", *JOB, "--team", f"127.0.0.1:{server.getsockname()[1]}", "--replica", "a",
                              "--steps", 5, "--key", key)
            server.settimeout(PATIENCE_S)
            heard = b""
            caller, _ = server.accept()
            with caller, contextlib.suppress(OSError, ssl.SSLError):
                caller.settimeout(PATIENCE_S)
                heard = context.wrap_socket(caller, server_side=True).recv(4096)
            if heard:
                replica.kill()
            code = replica.end()
        if "OpenSSL" in replica.said():
            raise Skip("this build has no TLS")
        assert heard == b"" and code != 0, (heard, code, replica.said())
        assert "another key, or none" in replica.said(), replica.said()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    main()
