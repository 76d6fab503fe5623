#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A recommendation model that serves: probabilities are those of training wherever its rows live, a server answers what
`orrery score` prints, refuses what is wrong in a line and goes on, takes updates and other weights while it is asked, and
ends with what it has taken answered."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
from harness import (BIN, PATIENCE_S, SOURCE, Skip, case, environment, main, one_line, orrery, scratch,  # noqa: E402
                     wait_for)

MODEL = SOURCE / "examples" / "models" / "small_dlrm.yaml"
ROWS = [1460, 583, 10000, 2200, 305, 24, 12517, 633, 3, 9314, 5683, 8351, 3194, 27, 14992, 5461, 10, 5652, 2173, 4, 7046,
        18, 15, 28618, 105, 14257]
MAGIC, SCORE, BAGS = 0x3153414F, 0, 1


def export(folder, steps=20, seed=3):
    """What a training leaves in `folder`."""
    result = orrery("train", MODEL, "-q", "--plan", "dp=1,batch=256", "--steps", steps, "--seed", seed, "--threads", 1,
                    "--learning-rate", "2e-2", "--export", folder)
    assert result.returncode == 0, result.stderr
    return folder


def scored(*args):
    result = orrery("score", MODEL, "-q", *args)
    assert result.returncode == 0, result.stderr
    return result.stdout


def samples_of(path, n):
    """A file in Criteo's format, and its samples as a server is asked for them."""
    lines, samples = [], []
    for i in range(n):
        numbers = [(i * 7 + k * 3) % 50 for k in range(13)]
        values = [(i * 2654435761 + k * 40503) % (1 << 32) for k in range(26)]
        lines.append("\t".join([str(i % 2)] + [str(x) for x in numbers] + [f"{v:x}" for v in values]))
        samples.append((numbers, [v % rows for v, rows in zip(values, ROWS)]))
    path.write_text("\n".join(lines) + "\n")
    return samples


def as_json(samples):
    import math
    return json.dumps({"samples": [{"dense": [math.log1p(x) for x in numbers], "ids": [[i] for i in ids]}
                                   for numbers, ids in samples]})


def single(number):
    """As fp32 has it."""
    return struct.unpack("f", struct.pack("f", number))[0]


class Server:
    def __init__(self, folder, *args, weights, check=True):
        self.path = folder / "server.err"
        self.log = open(self.path, "w")
        self.process = subprocess.Popen([BIN, "serve-tables", str(MODEL), "--weights", str(weights), "--listen",
                                         "127.0.0.1:0", "--format", "json", *map(str, args)], stdout=subprocess.PIPE,
                                        stderr=self.log, stdin=subprocess.DEVNULL, text=True, env=environment())
        line = self.process.stdout.readline()
        if not line:
            text = self.errors()
            self.process.wait()
            if "microhttpd" in text:
                raise Skip("built without libmicrohttpd")
            raise AssertionError(f"it did not start: {text}")
        self.about = json.loads(line)
        self.host, port = self.about["http"].rsplit(":", 1)
        self.port = int(port)

    def errors(self):
        return self.path.read_text()

    def ask(self, method, path, body=None, headers={}):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read()

    def post(self, path, body, code=200):
        status, text = self.ask("POST", path, body if isinstance(body, (str, bytes)) else json.dumps(body))
        assert status == code, (status, text[:300])
        return json.loads(text)

    def metric(self, name, **labels):
        status, text = self.ask("GET", "/metrics")
        assert status == 200
        total = 0.0
        for line in text.decode().splitlines():
            found = re.match(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$", line)
            assert line.startswith("#") or found, line
            if not line.startswith("#") and found[1] == name:
                have = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
                total += float(found[3]) if all(have.get(k) == v for k, v in labels.items()) else 0
        return total

    def end(self, by=signal.SIGTERM):
        self.process.send_signal(by)
        assert self.process.wait(PATIENCE_S) == 0, self.errors()

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


# --- scores ---------------------------------------------------------------------------------------


@case
def probabilities_are_those_of_training():
    with scratch() as folder:
        weights = export(folder / "weights")
        told = orrery("train", MODEL, "-q", "--plan", "dp=1,batch=512", "--steps", 1, "--seed", 9, "--init", weights,
                      "--format", "json")
        assert told.returncode == 0, told.stderr
        first = json.loads(told.stdout)["tables"]["steps"]["rows"][0]
        answer = json.loads(scored("--weights", weights, "--count", 512, "--seed", 9, "--format", "json"))
        assert answer["samples"] == 512 and len(answer["probabilities"]) == 512
        assert abs(answer["log_loss"] - first["loss"]) < 1e-6, (answer["log_loss"], first["loss"])
        assert answer["auc"] == first["auc"], (answer["auc"], first["auc"])


@case
def rows_give_the_same_bits_wherever_they_live():
    with scratch() as folder:
        weights = export(folder / "weights")
        usual = scored("--weights", weights, "--count", "3000")
        assert len(set(usual.splitlines())) > 1000
        for args in (["--threads", 1, "--batch", 77], ["--store", folder / "s"],
                     ["--store", folder / "s", "--table-memory", "2MiB"],
                     ["--store", folder / "s", "--pooled-memory", "4MiB", "--dequantize"]):
            assert scored("--weights", weights, "--count", "3000", *args) == usual, args
        for form in ("int8", "int4"):
            result = orrery("export", weights, "--quantize", form, "-o", folder / form)
            assert result.returncode == 0, result.stderr
            small = scored("--weights", folder / form, "--count", "3000")
            assert small != usual
            assert max(abs(float(a) - float(b)) for a, b in zip(small.split(), usual.split())) < 0.02
            assert scored("--weights", folder / form, "--count", "3000", "--store", folder / f"s-{form}") == small


@case
def a_snapshot_of_other_weights_is_packed_anew():
    with scratch() as folder:
        one, two = export(folder / "one"), export(folder / "two", seed=4)
        told = [orrery("score", MODEL, "--weights", w, "--count", 100, "--store", folder / "s") for w in (one, one, two)]
        assert [r.returncode for r in told] == [0, 0, 0], [r.stderr for r in told]
        assert "was packed\n" in told[0].stderr and "was opened\n" in told[1].stderr, [r.stderr for r in told]
        assert "in place of one of other weights" in told[2].stderr, told[2].stderr
        assert told[0].stdout == told[1].stdout and told[2].stdout == scored("--weights", two, "--count", 100)


@case
def a_load_tells_latencies_by_schedule():
    with scratch() as folder:
        weights = export(folder / "weights")
        answer = json.loads(scored("--weights", weights, "--rate", "200", "--count", "100", "--request", "4", "--format",
                                   "json"))
        assert answer["answered"] == 100 and answer["samples"] == 400 and answer["missed"] == 0, answer
        assert 0 < answer["p50_ns"] <= answer["p99_ns"] <= answer["p999_ns"] <= answer["max_ns"], answer
        stored = json.loads(scored("--weights", weights, "--rate", "200", "--count", "100", "--store", folder / "s",
                                   "--format", "json"))
        assert stored["lookups"] >= 100 * 26 and 0 < stored["rows_read"] < stored["lookups"], stored


@case
def what_cannot_be_is_told_in_a_line():
    with scratch() as folder:
        weights = export(folder / "weights", steps=1)
        missing = orrery("score", MODEL, "-q", "--weights", folder / "none")
        assert "none" in one_line(missing, 3)
        assert "--rate" in one_line(orrery("score", MODEL, "-q", "--weights", weights, "--rate", "x"), 3)
        assert "--store" in one_line(orrery("score", MODEL, "-q", "--weights", weights, "--table-memory", "1GiB"), 3)
        assert "--weights" in one_line(orrery("score", MODEL), 2)
        assert "--weights" in one_line(orrery("serve-tables", MODEL), 2)
        assert "--batch" in one_line(orrery("score", MODEL, "-q", "--weights", weights, "--batch", "0"), 3)
        with open(weights / "t0.table", "r+b") as file:
            file.seek(4096 + 100)
            file.write(b"!!!!")
        for store in ([], ["--store", folder / "s"]):
            assert "t0" in one_line(orrery("score", MODEL, "-q", "--weights", weights, "--count", 1, *store), 3)
        assert not (folder / "s" / "tables.rows").exists()


# --- the server -----------------------------------------------------------------------------------


def binary(samples):
    import math
    n = len(samples)
    ids = b"".join(struct.pack(f"<{n}q", *(s[1][t] for s in samples)) for t in range(26))
    dense = b"".join(struct.pack("<13f", *(single(math.log1p(x)) for x in s[0])) for s in samples)
    return struct.pack("<IIIIQ", MAGIC, SCORE, n, 0, 26 * n) + ids + dense + struct.pack(f"<{26 * n}i", *[1] * (26 * n))


@case
def a_server_answers_what_score_prints():
    with scratch() as folder:
        weights = export(folder / "weights")
        samples = samples_of(folder / "clicks.tsv", 60)
        want = [single(float(p)) for p in scored("--weights", weights, "--data", folder / "clicks.tsv").split()]
        for store in ([], ["--store", folder / "s", "--pooled-memory", "1MiB"]):
            with Server(folder, *store, weights=weights) as server:
                assert server.ask("GET", "/health") == (200, b"ok\n")
                got = server.post("/score", as_json(samples))["probabilities"]
                assert [single(p) for p in got] == want
                code, body = server.ask("POST", "/score", binary(samples),
                                        {"Content-Type": "application/octet-stream"})
                head = struct.unpack("<IIIIQ", body[:24])
                assert code == 200 and head == (MAGIC, 200, 60, 1, 240), head
                assert list(struct.unpack("<60f", body[24:])) == want
                bags = server.post("/bags", {"lookups": [{"table": "t2", "ids": [[5, 6], [5], [6], []]},
                                                         {"table": "t8", "ids": [[1], [], [2], [0]]}]})["embeddings"]
                sums = bags[0]["values"]
                assert [b["table"] for b in bags] == ["t2", "t8"] and sums[3] == [0] * 16
                assert sums[0] == [single(a + b) for a, b in zip(sums[1], sums[2])]
                assert server.metric("orrery_serve_requests_total", code="200") == 3
                assert server.metric("orrery_serve_samples_total") == 124
                assert server.metric("orrery_serve_table_lookups_total", table="t2") >= 120
                assert server.metric("orrery_serve_latency_seconds_count", kind="score") == 2
                server.end()


@case
def what_is_wrong_is_refused_and_it_goes_on():
    with scratch() as folder:
        weights = export(folder / "weights", steps=1)
        with Server(folder, "--max-body", "64KiB", "--max-samples", 10, "--max-lookups", 50, weights=weights) as server:
            for path, body, code, words in (
                    ("/bags", "{", 400, "byte"), ("/bags", "", 400, "no body"), ("/score", "[]", 400, "byte"),
                    ("/bags", {"lookups": [{"table": "t99", "ids": [[1]]}]}, 400, "t99"),
                    ("/bags", {"lookups": [{"table": "t8", "ids": [[0], [3]]}]}, 400, "id 3 of 3 rows"),
                    ("/bags", {"lookups": [{"table": "t8", "ids": [[]] * 11}]}, 413, "samples"),
                    ("/bags", {"lookups": [{"table": "t8", "ids": [[1] * 51]}]}, 413, "lookups"),
                    ("/update", {"table": "t8", "rows": [1], "values": [[0] * 16]}, 409, "--store")):
                error = server.post(path, body, code)["error"]
                assert words in error and "\n" not in error, error
            for head in (b"", b"OAS1", struct.pack("<IIIIQ", MAGIC, BAGS, 2**32 - 1, 2**32 - 1, 2**64 - 1)):
                code, body = server.ask("POST", "/bags", head, {"Content-Type": "application/octet-stream"})
                assert code in (400, 413) and struct.unpack("<II", body[:8]) == (MAGIC, code), (code, body)
            assert server.ask("POST", "/bags", b"x" * (65 << 10))[0] == 413
            assert server.ask("GET", "/nothing")[0] == 404 and server.ask("POST", "/nothing", "")[0] == 404
            assert server.ask("DELETE", "/bags")[0] == 405
            for bytes_, half in ((b"nonsense\r\n\r\n", False), (b"POST /bags HTTP/1.1\r\nHost: a\r\nContent-Le", True),
                                 (b"POST /bags HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{", True),
                                 (b"POST /bags HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", False)):
                with socket.create_connection((server.host, server.port)) as client:
                    client.sendall(bytes_)
                    if half:
                        client.shutdown(socket.SHUT_WR)
                        client.settimeout(1)
                        with contextlib.suppress(OSError):
                            client.recv(4096)
                    else:
                        assert client.recv(4096)[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.0 400", b"HTTP/1.1 413")
            with socket.create_connection((server.host, server.port)) as client:  # one that has said all it will say
                body = b'{"lookups": [{"table": "t8", "ids": [[1]]}]}'
                client.sendall(b"POST /bags HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(4096)[:12] in (b"", b"HTTP/1.1 200")  # libmicrohttpd may have left with it
            assert server.ask("GET", "/health")[0] == 200
            server.end(signal.SIGINT)


@case
def a_snapshot_is_read_beside_its_server():
    with scratch() as folder:
        one, two = export(folder / "one"), export(folder / "two", seed=4)
        store = ["--count", 2000, "--store", folder / "s"]
        usual = scored("--weights", one, "--count", 2000)
        with Server(folder, "--store", folder / "s", weights=one) as server:
            before = (folder / "s" / "tables.rows").read_bytes()
            readers = [subprocess.Popen([BIN, "score", str(MODEL), "-q", "--weights", str(one), *map(str, store)],
                                        stdout=subprocess.PIPE, text=True, env=environment()) for _ in range(3)]
            assert [r.communicate()[0] for r in readers] == [usual] * 3
            assert (folder / "s" / "tables.rows").read_bytes() == before
            assert "another process" in one_line(orrery("score", MODEL, "-q", "--weights", two, *store), 3)
            ids = list(range(10000))  # all of t2: each sample's probability comes to depend on the update
            server.post("/update", {"table": "t2", "rows": ids, "values": [[0.5] * 16] * len(ids)})
            updated = scored("--weights", one, *store)
            assert updated != usual
            server.end()
        assert scored("--weights", one, *store) == updated


@case
def what_is_written_is_told_against_the_endurance():
    with scratch() as folder:
        weights = export(folder / "weights", steps=1)
        for drive, day in (("9550", 3 * 12.8e12), ("9550:6.4TB", 3 * 6.4e12), ("1.5:960GB", 1.5 * 960e9), (None, 0)):
            args = ["--drive", drive] if drive else []
            with Server(folder, "--store", folder / "s", *args, weights=weights) as server:
                packed = server.metric("orrery_serve_written_bytes_total")
                assert packed == (4 * 16 * sum(ROWS) if drive == "9550" else 0), packed
                server.post("/update", {"table": "t2", "rows": list(range(1000)), "values": [[0.5] * 16] * 1000})
                assert server.metric("orrery_serve_written_bytes_total") >= packed + 64000
                _, text = server.ask("GET", "/metrics")
                told = dict(line.split(" ") for line in text.decode().splitlines() if "#" not in line and "{" not in line)
                assert float(told["orrery_serve_written_bytes_per_day"]) > 0
                if drive is None:
                    assert not any("endurance" in name for name in told), told
                else:
                    most = float(told["orrery_serve_endurance_bytes_per_day"])
                    assert abs(most - day) < 1e-6 * day, (most, day)
                    share = float(told["orrery_serve_written_bytes_per_day"]) / day
                    assert abs(float(told["orrery_serve_endurance_used_ratio"]) - share) <= 1e-12 * share, told
                server.end()
        for drive, word in (("nothing", "nothing"), ("P5810", "how large"), ("9200", "not known"), ("9550:x", "no size")):
            result = orrery("serve-tables", MODEL, "-q", "--weights", weights, "--store", folder / "s", "--drive", drive)
            assert word in one_line(result, 3), drive
        assert "--store" in one_line(orrery("serve-tables", MODEL, "-q", "--weights", weights, "--drive", "9550"), 3)


@case
def connections_answer_what_http_does():
    with scratch() as folder:
        weights = export(folder / "weights")
        data = ["--data", folder / "clicks.tsv"]
        samples = samples_of(folder / "clicks.tsv", 300)
        usual = scored("--weights", weights, *data)
        for where in ("127.0.0.1:0", "127.0.0.1:0|shm"):
            with Server(folder, "--connections", where, "--max-samples", 128, weights=weights) as server:
                to = server.about["connections"]
                assert ("|shm:" in to) == ("|" in where), to
                assert scored("--connect", to, *data, "--batch", 50, "--threads", 3) == usual
                got = server.post("/score", as_json(samples[:100]))["probabilities"]
                assert [single(p) for p in got] == [single(float(p)) for p in usual.split()[:100]]
                assert "413" in one_line(orrery("score", MODEL, "-q", "--connect", to, *data, "--batch", 129), 3)
                told = json.loads(scored("--connect", to, *data, "--format", "json"))
                alone = json.loads(scored("--weights", weights, *data, "--format", "json"))
                assert abs(told["log_loss"] - alone["log_loss"]) < 1e-5, (told, alone)
                with socket.create_connection(to.split("|")[0].rsplit(":", 1)) as client:
                    client.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
                    with contextlib.suppress(ConnectionResetError):
                        assert client.recv(4096) == b""
                assert scored("--connect", to, *data) == usual
                server.end()
            assert to.split("|")[0] in one_line(orrery("score", MODEL, "-q", "--connect", to.split("|")[0], *data), 3)
        assert "--connect" in one_line(orrery("score", MODEL, "-q", "--weights", weights, "--connect", to), 3)


@case
def a_server_under_load_counts_what_it_refuses():
    with scratch() as folder:
        weights = export(folder / "weights", steps=1)
        ask = ["--rate", 400, "--count", 200, "--request", 3, "--threads", 2, "--format", "json"]
        with Server(folder, "--connections", "127.0.0.1:0", weights=weights) as server:
            r = json.loads(scored("--connect", server.about["connections"], *ask))
            assert (r["answered"], r["refused"], r["missed"], r["samples"]) == (200, 0, 0, 600), r
            assert 0 < r["p50_ns"] <= r["p99_ns"] <= r["max_ns"], r
            assert server.metric("orrery_serve_requests_total", code="200") == 202  # each thread asks once before
            server.end()
        ask[ask.index("--request") + 1], ask[1] = 1000, 100000
        with Server(folder, "--connections", "127.0.0.1:0", "--threads", 1, "--queue", 1, weights=weights) as server:
            r = json.loads(scored("--connect", server.about["connections"], *ask))
            assert r["answered"] + r["refused"] == 200 and r["answered"] > 0 and r["refused"] > 0, r
            assert server.metric("orrery_serve_requests_total", code="503") == r["refused"]
            server.end()


def some_samples(n):
    return [([k % 40 for k in range(13)], [(i * 31 + k) % rows for k, rows in enumerate(ROWS)]) for i in range(n)]


@case
def updates_last_and_swaps_are_whole():
    with scratch() as folder:
        one, two = export(folder / "one"), export(folder / "two", seed=4)
        shutil.copytree(one, folder / "served")
        body = as_json(some_samples(40))
        answers, ends = set(), threading.Event()
        with Server(folder, "--store", folder / "s", weights=folder / "served") as server:
            def go_on():
                while not ends.is_set():
                    answers.add(json.dumps(server.post("/score", body)))
            before = json.dumps(server.post("/score", body))
            threads = [threading.Thread(target=go_on) for _ in range(3)]
            for thread in threads:
                thread.start()
            try:
                shutil.rmtree(folder / "served")
                shutil.copytree(two, folder / "served")
                server.process.send_signal(signal.SIGHUP)
                wait_for(lambda: "are served now" in server.errors(), server.errors)
                after = json.dumps(server.post("/score", body))
            finally:
                ends.set()
                for thread in threads:
                    thread.join()
            assert before != after and answers <= {before, after}, len(answers)
            assert server.metric("orrery_serve_swaps_total") == 1
            row = [single(k / 7) for k in range(16)]
            assert server.post("/update", {"table": "t8", "rows": [2], "values": [row]}) == {"rows": 1}
            get = {"lookups": [{"table": "t8", "ids": [[2]]}]}
            assert server.post("/bags", get)["embeddings"][0]["values"] == [row]
            (folder / "served" / "t3.table").unlink()
            assert server.ask("POST", "/swap", "")[0] == 202
            wait_for(lambda: "stay as they were" in server.errors(), server.errors)
            server.end()
        shutil.copy(two / "t3.table", folder / "served" / "t3.table")
        with Server(folder, "--store", folder / "s", weights=folder / "served") as server:
            assert server.post("/bags", get)["embeddings"][0]["values"] == [row]
            assert "was opened" in server.errors()
            server.end()


@case
def what_was_asked_is_answered_before_the_end():
    with scratch() as folder:
        weights = export(folder / "weights", steps=1)
        body = as_json(some_samples(1000))
        with Server(folder, "--threads", 1, weights=weights) as server:
            codes = []

            def go_on():
                codes.append(server.ask("POST", "/score", body)[0])
            threads = [threading.Thread(target=go_on) for _ in range(8)]
            for thread in threads:
                thread.start()
            wait_for(lambda: server.metric("orrery_serve_taken_total") == 8, "not all have come")
            server.end()
            for thread in threads:
                thread.join()
            assert codes == [200] * 8, codes
            try:
                socket.create_connection((server.host, server.port)).close()
                raise AssertionError("it still listens")
            except ConnectionRefusedError:
                pass


@case
def a_full_queue_refuses():
    with scratch() as folder:
        weights = export(folder / "weights", steps=1)
        body = as_json(some_samples(2000))
        with Server(folder, "--threads", 1, "--queue", 1, weights=weights) as server:
            codes = []
            threads = [threading.Thread(target=lambda: codes.append(server.ask("POST", "/score", body)[0]))
                       for _ in range(24)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert set(codes) <= {200, 503} and 200 in codes, codes
            assert server.metric("orrery_serve_requests_total", code="503") == codes.count(503)
            assert server.ask("POST", "/score", as_json(some_samples(1)))[0] == 200
            server.end()


@case
def lookups_are_recorded_and_rows_fetched_first():
    with scratch() as folder:
        weights = export(folder / "weights", steps=1)
        body = as_json(some_samples(200))
        shutil.copytree(export(folder / "other", steps=1, seed=5), folder / "served")
        with Server(folder, "--store", folder / "s", "--record", folder / "trace", weights=folder / "served") as server:
            server.post("/score", as_json(some_samples(1)))
            few = server.metric("orrery_serve_reads_total")
            shutil.rmtree(folder / "served")
            shutil.copytree(weights, folder / "served")
            server.ask("POST", "/swap", "")
            wait_for(lambda: "are served now" in server.errors(), server.errors)
            server.post("/score", body)  # it is recorded after the swap, and counts go on
            cold = server.metric("orrery_serve_reads_total")
            assert cold > few > 0, (few, cold)
            assert server.metric("orrery_serve_written_bytes_total") == 2 * 4 * 16 * sum(ROWS)
            server.end()
        with Server(folder, "--store", folder / "s", "--warm", folder / "trace", weights=weights) as server:
            before = server.metric("orrery_serve_table_lookups_total", tier="storage")
            server.post("/score", body)
            missed = server.metric("orrery_serve_table_lookups_total", tier="storage") - before
            assert cold > 0 and missed < cold / 2, (cold, missed)
            server.end()


if len(sys.argv) > 1:
    import harness
    harness.cases[:] = [c for c in harness.cases if sys.argv[1] in c[0]]
main()
