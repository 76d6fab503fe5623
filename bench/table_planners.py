#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of embedding tables: TorchRec's planner beside ours, on the same tables and in its own terms.

Usage: table_planners.py BENCH_TABLE_PLANS TABLES RANKS HOST_RANKS [SEED]; needs torchrec 1.9 and fbgemm-gpu-cpu 1.9.
BENCH_TABLE_PLANS: build/bench/bench_table_plans. Prints a JSON line.
"""
import json
import logging
import random
import subprocess
import sys
import tempfile
import time

import torch
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

BATCH = 512  # of a rank: TorchRec's default


def draw(n, seed):
    """(rows, columns, lookups of a sample) of each table: few enough rows that memory does not bind."""
    rnd = random.Random(seed)
    return [(int(10 ** rnd.uniform(3, 7)), rnd.choice([16, 32, 64, 128, 256]), rnd.randint(1, 100)) for _ in range(n)]


def plan_theirs(tables, ranks, host_ranks):
    """Seconds (wall, user CPU), and ms of the busiest rank by the estimates of its own plan."""
    configs = [EmbeddingBagConfig(name=f"t{i}", num_embeddings=rows, embedding_dim=columns, feature_names=[f"f{i}"])
               for i, (rows, columns, _) in enumerate(tables)]
    model = EmbeddingBagCollection(tables=configs, device=torch.device("meta"))
    constraints = {f"t{i}": ParameterConstraints(pooling_factors=[float(pooling)]) for i, (_, _, pooling) in enumerate(tables)}
    topology = Topology(world_size=ranks, local_world_size=host_ranks, compute_device="cuda", hbm_cap=320 << 30)
    planner = EmbeddingShardingPlanner(topology=topology, batch_size=BATCH, constraints=constraints)
    wall, cpu = time.perf_counter(), time.process_time()
    planner.plan(model, [EmbeddingBagCollectionSharder()])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    load = [0.0] * ranks
    for option in planner._best_plan:
        for shard in option.shards:
            for rank in range(ranks) if option.sharding_type == "data_parallel" else [shard.rank]:
                load[rank] += shard.perf.total
    return wall, cpu, max(load)


def plan_ours(program, tables, ranks, host_ranks):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("".join(f"{rows},{columns},{pooling}\n" for rows, columns, pooling in tables))
        file.flush()
        answer = subprocess.run([program, file.name, str(ranks), str(host_ranks), str(BATCH)], capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def main():
    program, n, ranks, host_ranks = sys.argv[1], *map(int, sys.argv[2:5])
    logging.disable(logging.CRITICAL)
    tables = draw(n, int(sys.argv[5]) if len(sys.argv) > 5 else 1)
    ours = plan_ours(program, tables, ranks, host_ranks)
    wall, cpu, ms = plan_theirs(tables, ranks, host_ranks)
    print(json.dumps({"tables": n, "ranks": ranks, "torchrec_wall_s": round(wall, 3), "torchrec_cpu_s": round(cpu, 3),
                      "torchrec_ms": ms, **ours, "torchrec_over_ours": round(ms / ours["ms"], 4)}))


if __name__ == "__main__":
    main()
