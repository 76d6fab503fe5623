#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of 8 embedding tables of 1M x 64 in fp32 (100 lookups, batch 2048) beside PyTorch and fbgemm.

Usage: tables.py BUILD [--python PYTHON] [--threads N] [--rounds N]

Every library reads the same indices and does the same step: bags summed, then rows updated from the gradients of bags
by exact row-wise Adagrad. PYTHON has torch and fbgemm-gpu-cpu; without it only our own figures are printed. Libraries
take turns, each in a process of its own; printed are medians over rounds as JSON lines, wall and CPU time of a step, and
ratios within the round.
"""
import argparse
import array
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

TABLES, ROWS, COLUMNS, POOL, BATCH = 8, 1_000_000, 64, 100, 2048
RATE, EPSILON = 0.01, 1e-8


def write_ids(path):
    draw = random.Random(7)
    with open(path, "wb") as file:
        array.array("q", (draw.randrange(ROWS) for _ in range(TABLES * BATCH * POOL))).tofile(file)


def timed(name, body):
    wall, cpu = time.perf_counter(), time.process_time()
    result = body()
    print(json.dumps({"case": name, "wall_ms": 1e3 * (time.perf_counter() - wall), "cpu_ms": 1e3 * (time.process_time() - cpu)}))
    return result


def run_torch(torch, ids, repetitions):
    """Row-wise Adagrad by hand on sparse gradients, and plain SGD."""
    tables = [torch.nn.EmbeddingBag(ROWS, COLUMNS, mode="sum", sparse=True) for _ in range(TABLES)]
    states = [torch.zeros(ROWS) for _ in range(TABLES)]
    gradient = torch.randn(BATCH, TABLES * COLUMNS) * 0.1
    offsets = torch.arange(0, BATCH * POOL, POOL)

    def forward():
        return torch.cat([table(ids[i].reshape(-1), offsets) for i, table in enumerate(tables)], 1)

    def backward(bags, sgd):
        bags.backward(gradient)
        with torch.no_grad():
            for table, state in zip(tables, states):
                if sgd:
                    table.weight.add_(table.weight.grad, alpha=-RATE)
                else:
                    sums = table.weight.grad.coalesce()
                    rows, g = sums.indices()[0], sums.values()
                    state.index_add_(0, rows, g.pow(2).mean(1))
                    table.weight.index_add_(0, rows, g / (state[rows].sqrt() + EPSILON).unsqueeze(1), alpha=-RATE)
                table.weight.grad = None

    for sgd in (False, True):
        for _ in range(repetitions + 1):
            name = "torch sgd" if sgd else "torch rowwise_adagrad"
            bags = timed(f"{name} forward", forward)
            timed(f"{name} update", lambda: backward(bags, sgd))


def run_fbgemm(torch, ids, repetitions):
    """Tables fused with exact row-wise Adagrad."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(ROWS, COLUMNS, EmbeddingLocation.HOST, ComputeDevice.CPU)] * TABLES, optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=RATE, eps=EPSILON)
    flat, offsets = ids.reshape(-1), torch.arange(0, TABLES * BATCH * POOL + 1, POOL)
    gradient = torch.randn(BATCH, TABLES * COLUMNS) * 0.1
    for _ in range(repetitions + 1):
        bags = timed("fbgemm rowwise_adagrad forward", lambda: tables(flat, offsets))
        timed("fbgemm rowwise_adagrad update", lambda: bags.backward(gradient))


def run_peer(peer, path, threads, repetitions):
    import torch
    torch.set_num_threads(threads)
    ids = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.int64).reshape(TABLES, BATCH, POOL)
    (run_torch if peer == "torch" else run_fbgemm)(torch, ids, repetitions)


def lines_of(command, skip):
    """Milliseconds by case: the shortest of a process's repetitions but the first `skip`."""
    seen = {}
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        row = json.loads(line)
        seen.setdefault(row["case"], []).append((row["wall_ms"], row["cpu_ms"]))
    return {case: tuple(min(pair[i] for pair in pairs[skip:]) for i in (0, 1)) for case, pairs in seen.items()}


def with_steps(times):
    for case in [case for case in times if case.endswith(" forward")]:
        whole = case.replace(" forward", " step")
        times.setdefault(whole, tuple(times[case][i] + times[case.replace(" forward", " update")][i] for i in (0, 1)))
    return times


def main():
    if sys.argv[1] == "peer":
        run_peer(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--python")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        ids = pathlib.Path(folder) / "ids.bin"
        write_ids(ids)
        for _ in range(args.rounds):
            times = lines_of([args.build / "bench/bench_tables", str(args.threads), ids, "4", "rowwise_adagrad"], 1)
            for peer in ("torch", "fbgemm") if args.python else ():
                times.update(lines_of([args.python, __file__, "peer", peer, ids, str(args.threads), "2"], 1))
            rounds.append(with_steps(times))
    ours = "rowwise_adagrad"
    for case in rounds[0]:
        part = case.rsplit(" ", 1)[-1]
        mine = "floor" if case == "floor" else f"{ours} {part}"
        row = {"case": case, "threads": args.threads, "rounds": args.rounds}
        for i, kind in enumerate(("wall", "cpu")):
            row[f"{kind}_ms"] = round(statistics.median(times[case][i] for times in rounds), 1)
            if mine != case:
                row[f"{kind}_over_ours"] = round(statistics.median(times[case][i] / times[mine][i] for times in rounds), 2)
        if case != "floor":
            row["million_rows_per_cpu_s"] = round(TABLES * BATCH * POOL / row["cpu_ms"] / 1e3, 2)
        print(json.dumps(row), flush=True)
    for i, kind in enumerate(("wall", "cpu")):
        print(json.dumps({"case": f"{kind} of our step over the floor", "threads": args.threads,
                          "ratio": round(statistics.median(times[f"{ours} step"][i] / times["floor"][i] for times in rounds), 2)}))


if __name__ == "__main__":
    main()
