#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes estimates.csv: what the estimator of the installed torchrec says of shards of single tables.

Usage: make.py > estimates.csv, with torchrec 1.9 and fbgemm-gpu-cpu 1.9. Times are in ns, of each shard of
the table: all shards of a table are equal in these cases.
"""
import itertools
import sys

import torch
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.types import ParameterConstraints, Topology
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

KINDS = {"table_wise": "table", "column_wise": "column", "row_wise": "row", "table_row_wise": "table_row",
         "grid_shard": "grid", "data_parallel": "data"}
MACHINES = [(8, 8, "cuda"), (16, 8, "cuda"), (32, 8, "cuda"), (4, 4, "cpu")]
TABLES = [(1000, 16, 1.0, "fp32"), (5_000_000, 64, 20.0, "fp32"), (123_457, 128, 3.5, "fp16"), (40_000, 256, 0.5, "fp32")]
BATCHES = [512, 2048]


def shards_of(rows, columns, pooling, dtype, world, local, device, batch):
    data_type = DataType.FP16 if dtype == "fp16" else DataType.FP32
    table = EmbeddingBagConfig(name="t", embedding_dim=columns, num_embeddings=rows, feature_names=["f"], data_type=data_type)
    model = EmbeddingBagCollection(tables=[table], device=torch.device("meta"))
    constraints = {"t": ParameterConstraints(sharding_types=list(KINDS), pooling_factors=[pooling],
                                              min_partition=columns // 2 if columns >= 32 else columns)}
    topology = Topology(world_size=world, local_world_size=local, compute_device=device)
    enumerator = EmbeddingEnumerator(topology=topology, batch_size=batch, constraints=constraints)
    for option in enumerator.enumerate(module=model, sharders=[EmbeddingBagCollectionSharder()]):
        kernel = EmbeddingComputeKernel.DENSE if option.sharding_type == "data_parallel" else EmbeddingComputeKernel.FUSED
        if option.sharding_type in KINDS and option.compute_kernel == kernel.value:
            yield option


def main():
    print("kind,columns_parts,rows,columns,pooling,format,ranks,host_ranks,device,samples,forward_ns,bags_ns,backward_ns,gradients_ns")
    for (world, local, device), (rows, columns, pooling, dtype), batch in itertools.product(MACHINES, TABLES, BATCHES):
        for option in shards_of(rows, columns, pooling, dtype, world, local, device, batch):
            perf = option.shards[0].perf
            parts = 2 if option.sharding_type in ("column_wise", "grid_shard") else 1
            if any(shard.perf != perf for shard in option.shards) or (parts == 2 and option.shards[0].size[1] * 2 != columns):
                print(f"left out: {option.sharding_type} of {rows} x {columns} on {world}", file=sys.stderr)
                continue
            times = [1e6 * t for t in (perf.fwd_compute, perf.fwd_comms, perf.bwd_compute, perf.bwd_comms)]
            print(KINDS[option.sharding_type], parts, rows, columns, pooling, dtype, world, local, device, batch,
                  *(repr(float(t)) for t in times), sep=",")


if __name__ == "__main__":
    main()
