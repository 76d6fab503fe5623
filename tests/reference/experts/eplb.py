#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes eplb.txt: what DeepSeek's load balancer answers for loads that a formula gives.

    python3 eplb.py FOLDER_WITH_THEIR_EPLB_PY > eplb.txt

Needs torch. Their sort leaves the order of equal loads open; here it is stable, so that ties go to
the lowest index. A row: layers, experts, slots, groups, hosts, ranks, kind and seed of the loads,
FNV-1a over the map from slots to experts (two bytes each), and the map itself where it is short."""
import sys

import torch

sys.path.insert(0, sys.argv[1])
import eplb  # noqa: E402

unstable = torch.Tensor.sort
torch.Tensor.sort = lambda self, dim, descending: unstable(self, dim=dim, descending=descending, stable=True)

README = [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86, 20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27]


def numbers(seed):
    """xorshift32."""
    x = seed
    while True:
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        x ^= x << 5 & 0xFFFFFFFF
        yield x


KINDS = {
    "even": lambda x, i: 1000 + x % 100,
    "any": lambda x, i: x % 65536,
    "skewed": lambda x, i: 1000000 // (1 + x % 500),
    "ties": lambda x, i: x % 4,
    "hot": lambda x, i: 500000 if i % 61 == 7 else x % 50,
    "zero": lambda x, i: 0,
}
# layers, experts, slots, groups, hosts, ranks
SHAPES = [
    (2, 12, 16, 4, 2, 8), (3, 8, 8, 1, 1, 4), (3, 8, 12, 1, 1, 4), (3, 8, 12, 3, 2, 4), (2, 16, 24, 4, 4, 8),
    (2, 16, 16, 4, 2, 16), (2, 16, 32, 8, 2, 4), (4, 64, 64, 8, 4, 8), (4, 64, 80, 8, 4, 16), (4, 128, 144, 1, 1, 16),
    (4, 128, 160, 8, 2, 16), (4, 60, 64, 4, 4, 4), (3, 256, 288, 8, 4, 32), (3, 256, 288, 8, 8, 32),
    (3, 256, 320, 8, 20, 160), (3, 256, 256, 8, 16, 128), (3, 160, 320, 1, 1, 320),
]


def row(shape, kind, seed):
    layers, experts, slots, groups, hosts, ranks = shape
    if kind == "readme":
        load = README
    else:
        draw = numbers(seed)
        load = [KINDS[kind](next(draw), i) for i in range(layers * experts)]
    weight = torch.tensor(load, dtype=torch.int64).reshape(layers, experts)
    answer = eplb.rebalance_experts(weight, slots, groups, hosts, ranks)[0].flatten().tolist()
    digest = 0xCBF29CE484222325
    for expert in answer:
        for byte in (expert & 255, expert >> 8):
            digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    short = ",".join(map(str, answer)) if len(answer) <= 96 else "-"
    print(*shape, kind, seed, f"{digest:016x}", short)


row(SHAPES[0], "readme", 0)
for s, shape in enumerate(SHAPES):
    for k, kind in enumerate(KINDS):
        row(shape, kind, 2463534242 + 7919 * s + 104729 * k)
