#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cases of runs.tsv.gz: (network, system, groups, programs), in the words of README.md."""
import itertools
import json
import pathlib
import random
import re

import chakra

SEED = 20260325
ALGORITHMS = ["ring", "direct", "direct2", "direct4", "direct7", "halvingDoubling",
              "doubleBinaryTree"]
KINDS = ["AR", "AG", "RS", "AA"]
SIZES = [1, 100, 4096, 65536, 100003, 999999, 1 << 20, 3000001]


def power_of_two(n):
    return n & (n - 1) == 0


def fits(algorithm, n, kind):
    name = algorithm.replace("one", "").lower()
    if name in ("halvingdoubling", "doublebinarytree") and not power_of_two(n):
        return False
    return not (name == "halvingdoubling" and kind == "AA")


def dimension(rng, n):
    return "%s%d@%s/%s" % (rng.choice("RSF"), n, rng.choice(["25", "37.5", "50", "400", "900.5"]),
                           rng.choice(["0", "100", "412.5", "500", "2000"]))


def system(rng, ways, queues=None, **more):
    fields = {"all": ways, "split": rng.choice([1, 1, 2, 3, 4, 4, 5, 7, 8, 16]),
              "active": rng.choice([1, 1, 2, 3, 4]), "ep": rng.choice([1, 10, 10, 333]),
              "mem": rng.choice([50, 777, 1600]), "opt": rng.choice("lb"),
              "q": queues or rng.choice([1, 1, 1, 2, 3, 4])}
    fields.update(more)
    return ";".join("%s=%s" % item for item in fields.items())


def collective(rng, kind, group=None, mask=None):
    size = rng.choice(SIZES[1:]) + rng.choice([0, 0, 1, 17])
    return "%s%d%s%s" % (kind, size, "@%d" % group if group else "", "%" + mask if mask else "")


def one_dimension(rng):
    for kind, algorithm, n in itertools.product(KINDS, ALGORITHMS, (2, 3, 4, 5, 8, 12, 16, 32, 64)):
        if not fits(algorithm, n, kind) or (n > 16 and rng.random() < 0.5):
            continue
        for topology in "RSF":
            yield (topology + dimension(rng, n)[1:], system(rng, algorithm), "-",
                   "*:" + collective(rng, kind))


def several_dimensions(rng):
    for _ in range(220):
        sizes = rng.choice([(2, 2), (4, 2), (2, 4), (3, 4), (8, 4), (5, 3), (4, 4), (2, 2, 2),
                            (4, 2, 4), (2, 3, 2), (4, 4, 2)])
        kind = rng.choice(KINDS + ["AR", "AR"])
        ways = [rng.choice([a for a in ALGORITHMS if fits(a, n, kind)]) for n in sizes]
        mask = None
        if rng.random() < 0.3:
            mask = "".join(rng.choice("011") for _ in sizes)
            mask = mask if "1" in mask else "1" + mask[1:]
        yield (",".join(dimension(rng, n) for n in sizes), system(rng, ",".join(ways)), "-",
               "*:" + collective(rng, kind, mask=mask))


def all_as_one(rng):
    for _ in range(40):
        sizes = rng.choice([(8,), (4, 2), (2, 4), (4, 4), (2, 2, 2), (3, 2)])
        kind, n = rng.choice(KINDS), 1
        for size in sizes:
            n *= size
        way = rng.choice([w for w in ("oneRing", "oneDirect", "oneDirect3", "oneHalvingDoubling")
                          if fits(w, n, kind)])
        yield (",".join(dimension(rng, s) for s in sizes), system(rng, way), "-",
               "*:" + collective(rng, kind))


def partition(rng, n, size):
    """Groups of equal size, neighbours, strided or mixed up; ranks in any order."""
    ranks = list(range(n))
    style = rng.choice(["near", "far", "mixed"])
    if style == "far":
        ranks = [r for first in range(n // size) for r in range(first, n, n // size)]
    elif style == "mixed":
        rng.shuffle(ranks)
    return [ranks[i:i + size] for i in range(0, n, size)]


def groups_text(groups):
    return ";".join("%d:%s" % (i, ",".join(map(str, g))) for i, g in enumerate(groups, 1))


def groups_programs(groups, words):
    """Each group runs the words with its own number."""
    return "|".join("%s:%s" % (",".join(map(str, sorted(g))), " ".join(words).replace("@1", "@%d" % i))
                    for i, g in enumerate(groups, 1))


def some_ranks(rng):
    for _ in range(170):
        n = rng.choice([4, 6, 8, 12, 16, 32])
        size = rng.choice([s for s in (2, 3, 4, 6, 8, 16) if s < n and n % s == 0])
        kind = rng.choice(KINDS)
        way = rng.choice([a for a in ALGORITHMS + ["oneRing", "oneDirect"]
                          if fits(a, size, kind) and a != "doubleBinaryTree"])
        groups = partition(rng, n, size)
        words = [collective(rng, kind, 1) for _ in range(rng.choice([1, 1, 2, 3]))]
        if rng.random() < 0.5:
            words.insert(0, "c%d" % rng.randint(1, 30))
        dims = [n]
        if rng.random() < 0.35 and n % 2 == 0:
            dims = [n // 2, 2]
            if rng.random() < 0.7:
                way += ",ring"
        yield (",".join(dimension(rng, d) for d in dims), system(rng, way), groups_text(groups),
               groups_programs(groups, words))


def some_of_all(rng):
    """A group of all ranks, in another order, is no sub-group."""
    for _ in range(10):
        ranks = list(range(8))
        rng.shuffle(ranks)
        dims = rng.choice([[8], [4, 2], [2, 2, 2]])
        kind = rng.choice(KINDS)
        yield (",".join(dimension(rng, d) for d in dims),
               system(rng, ",".join(["ring"] * len(dims))), groups_text([ranks]),
               "*:" + collective(rng, kind, 1) + " " + collective(rng, kind))


def sequences(rng):
    """Several collectives, after each other or at once, so that turns of queues carry over."""
    for _ in range(110):
        sizes = rng.choice([(8,), (4,), (6,), (4, 2), (4, 4), (2, 2, 2)])
        ways = ",".join(rng.choice(["ring", "direct", "direct2", "halvingDoubling"] if power_of_two(n)
                                   else ["ring", "direct", "direct2"]) for n in sizes)
        words = []
        for _ in range(rng.randint(2, 5)):
            kind = rng.choice(KINDS if "halving" not in ways else KINDS[:3])
            words.append(rng.choice(["", "", "!"]) + collective(rng, kind))
            if rng.random() < 0.4:
                words.append(rng.choice(["", "!"]) + "c%d" % rng.randint(1, 40))
        yield (",".join(dimension(rng, n) for n in sizes), system(rng, ways), "-",
               "*:" + " ".join(words))


def late_ranks(rng):
    """Several collectives of some dimensions, with trees, of ranks that begin at different times."""
    for _ in range(90):
        sizes = rng.choice([(8,), (4,), (4, 2), (4, 4), (2, 2, 2), (8, 2)])
        ways = ",".join(rng.choice(["ring", "direct", "direct3", "doubleBinaryTree", "halvingDoubling"])
                        for _ in sizes)
        if rng.random() < 0.15:
            ways = rng.choice(["oneRing", "oneDirect2", "oneHalvingDoubling"])
        words = []
        for _ in range(rng.randint(2, 5)):
            mask = None
            if len(sizes) > 1 and rng.random() < 0.4 and not ways.startswith("one"):
                mask = rng.choice(["1" + "0" * (len(sizes) - 1), "0" * (len(sizes) - 1) + "1"])
            kind = rng.choice(KINDS[:3] if "alving" in ways else KINDS)
            words.append(rng.choice(["", "", "!"]) + collective(rng, kind, mask=mask))
            if rng.random() < 0.4:
                words.append(rng.choice(["", "!"]) + "c%d" % rng.randint(1, 40))
        n = 1
        for size in sizes:
            n *= size
        yield (",".join(dimension(rng, size) for size in sizes), system(rng, ways), "-",
               "|".join("%d:c%d %s" % (r, rng.randint(1, 60), " ".join(words)) for r in range(n)))


def two_groupings(rng):
    """Each rank in a group of tensor and one of data parallelism, with computations between."""
    for _ in range(60):
        n, tp = rng.choice([(4, 2), (8, 2), (8, 4), (12, 3), (16, 4)])
        rows = [list(range(i, i + tp)) for i in range(0, n, tp)]
        columns = [list(range(i, n, tp)) for i in range(tp)]
        way = rng.choice(["ring", "direct", "direct2", "direct4"])
        words = []
        for layer in range(rng.randint(1, 3)):
            words += ["f%d:%d" % (rng.randint(10**6, 10**9), rng.randint(10**4, 10**6)),
                      "%s%d@T" % (rng.choice(["AR", "AG", "RS"]), rng.choice(SIZES[2:]))]
            words += ["!AR%d@D<%d" % (rng.choice(SIZES[2:]), len(words))]
            words[-1] = words[-1].lstrip("!")
        text = " ".join(words)
        programs = "|".join("%d:%s" % (r, text.replace("@T", "@%d" % (1 + r // tp)).replace(
            "@D", "@%d" % (1 + len(rows) + r % tp))) for r in range(n))
        yield (dimension(rng, n), system(rng, way, roof=rng.choice([0, 1]), peak=rng.choice([100, 900])),
               groups_text(rows + columns), programs)


def point_to_point(rng):
    for _ in range(60):
        n = rng.choice([2, 4, 6, 8])
        dims = [n] if rng.random() < 0.7 or n < 4 else [n // 2, 2]
        parts = []
        size, tag = rng.choice(SIZES), rng.randint(0, 9)
        style = rng.choice(["chain", "exchange", "late", "many"])
        for r in range(n):
            if style == "chain":
                words = ["c%d" % rng.randint(1, 9)]
                words = (["r%d.%d.%d" % (r - 1, tag, size)] if r else []) + words
                words += ["s%d.%d.%d" % (r + 1, tag, size)] if r + 1 < n else []
            elif style == "exchange":
                words = ["c1", "s%d.%d.%d" % ((r + 1) % n, tag, size),
                         "r%d.%d.%d<1" % ((r - 1) % n, tag, size), "c3<2,3", "AR65536"]
            elif style == "late":
                words = (["c1", "s%d.%d.%d" % (r ^ 1, tag, size), "c2"] if r % 2 == 0 else
                         ["c%d" % rng.randint(1, 200), "r%d.%d.%d" % (r ^ 1, tag, size)])
            else:
                peers = [p for p in range(n) if p != r]
                words = ["c1"] + ["s%d.%d.%d<1" % (p, tag, size) for p in peers]
                words += ["r%d.%d.%d<1" % (p, tag, size) for p in peers]
            parts.append("%d:%s" % (r, " ".join(words)))
        yield (",".join(dimension(rng, d) for d in dims), system(rng, ",".join(["ring"] * len(dims))), "-",
               "|".join(parts))


def kinds_of_nodes(rng):
    """Slots: nodes on the host, metadata, dependencies of control, roofline, replay."""
    texts = [
        "*:c5 !c7 !h9 !h3 AR4096",
        "*:!c5 !c7 !h9 !g3 c2<1,2,3,4",
        "*:h5 c7 h9 g3 AR4096",
        "*:!c5 !i AR4096<1,2",
        "*:!c5 !AR65536 !i c4<1,2,3",
        "*:!h5 !c3 c2<1,2 AR100",
        "*:c5 !c7^1 !AR100^2 c3",
        "*:c5 !AR65536^1 !c30^2 AG100",
        "*:c5 c7^1 h3<1^2 AR4096^1,3",
        "*:BC5 AR4096 BC0 c3",
        "*:f1000000:1000 AR4096 f1000000000:1000000",
        "*:f1000000:1000 !f77:1000000 h3 AR4096",
        "*:!h5 !f5:0 f700:7<1,2 AR100",
        "*:!AR65536 !f5:0 f700:7<1,2",
        "0:c9 AR4096 c3|1,2,3:h2 AR4096 c100",
        "0:AR4096 AG100|1:c50 AR4096 AG100|2,3:AR4096 c3 AG100",
        "0:c0 g0 h0|1:h1 h2 g3|2,3:!g1 !g2 !h3",
    ]
    for text in texts:
        for more in ({}, {"roof": 1, "peak": 900}, {"roof": 1, "peak": 1}, {"replay": 1}):
            if "roof" in more and re.search(r"[:! ][cg]\d", text):
                continue
            yield (dimension(rng, 4), system(rng, "ring", queues=1, **more), "-", text)


def windows(rng):
    """Windows of direct against each other: what is reduced in which round."""
    for n, window, kind in itertools.product((4, 5, 8, 9, 16), (1, 2, 3, 5), ("AR", "RS")):
        yield (dimension(rng, n), system(rng, "direct%d" % window), "-", "*:" + collective(rng, kind))


def other_turns(rng):
    """Members of a group that had different numbers of chunks before: with several queues they go
    round in different directions."""
    groups = "1:0,1,2,5;2:0,3,4"
    programs = "0:%s@2 %s@1|1,2,5:%s@1|3,4:%s@2"
    for way, kind, split in itertools.product(("ring", "direct", "direct1", "direct2"), KINDS, (1, 3)):
        word = kind + "65536"
        yield (dimension(rng, 6), system(rng, way, queues=2, split=split, opt="b"), groups,
               programs % ((word,) * 4))


def unlike(rng):
    """Ranks that call different collectives of a group at once, with as many messages of one size."""
    for way, size in itertools.product(("ring", "direct", "direct2"), (2, 4, 5)):
        for words in (("AG65536@1 RS%d@1", "RS%d@1 AG65536@1"), ("AA%d@1 c2 RS%d@1", "c5 RS%d@1 AA%d@1"),
                      ("AR%d@1", "RS%d@1 AG65536@1")):
            a, b = (w.replace("%d", str(65536 * size)) for w in words)
            n = size + rng.choice([0, 2])
            yield (dimension(rng, n), system(rng, way, split=rng.choice([1, 2, 4])),
                   "1:" + ",".join(map(str, range(size))),
                   "0:%s|%s:%s%s" % (a, ",".join(map(str, range(1, size))), b,
                                     "|%d,%d:c1" % (size, size + 1) if n > size else ""))


def refused(_rng):
    """Where ASTRA-sim crashes or never ends."""
    one = "split=1;active=1;ep=10;mem=777"
    yield "S6@50/500", "all=halvingDoubling;" + one, "-", "*:AR65536"
    yield "S8@50/500", "all=halvingDoubling;" + one, "-", "*:AR8"
    yield "S6@50/500", "all=doubleBinaryTree;" + one, "-", "*:AR65536"
    yield "S8@50/500", "all=doubleBinaryTree;" + one, "1:0,1,2,3", "0,1,2,3:AR65536@1|4,5,6,7:c1"
    yield "S8@50/500", "all=halvingDoubling;" + one, "1:0,1,2", "0,1,2:AR65536@1|3,4,5,6,7:c1"
    yield "S4@50/500,R2@50/500", "all=doubleBinaryTree;" + one, "-", "*:AR65536"
    yield "S4@50/500", "all=ring;" + one, "1:0,1;2:2,3", "0,1,2,3:AR65536@1"
    yield "S4@50/500", "all=ring;" + one + ";roof=1;peak=900", "-", "*:c5"
    yield ("S4@50/500", "all=ring;" + one, "1:0,1,2,3;2:0,1", "0:AR100@1 AR100@2|1:AR100@2 AR100@1|2,3:AR100@1")
    yield "S4@50/500", "all=ring;" + one, "-", "0:r1.0.100 AR100|1:r0.0.100 AR100|2,3:AR100"


def grid():
    made = {}
    for family in (one_dimension, several_dimensions, all_as_one, some_ranks, some_of_all, sequences,
                   late_ranks, two_groupings, point_to_point, kinds_of_nodes, windows, other_turns, unlike, refused):
        for case in family(random.Random("%d %s" % (SEED, family.__name__))):
            made[case] = None
    return list(made)


def generated(folder):
    """Traces of the generator (README.md), each folder w.N.et and w.json, as cases."""
    rng = random.Random(SEED)
    for path in sorted(pathlib.Path(folder).iterdir()):
        ranks = sorted(path.glob("w.*.et"), key=lambda p: int(re.findall(r"\d+", p.name)[-1]))
        made = {}
        for rank, file in enumerate(ranks):
            made.setdefault(chakra.decode(file.read_bytes()), []).append(str(rank))
        groups = json.loads((path / "w.json").read_text())
        text = ";".join("%s:%s" % (i, ",".join(map(str, g))) for i, g in groups.items())
        way = rng.choice(["ring", "ring", "direct", "direct2", "halvingDoubling"])
        yield (dimension(rng, len(ranks)), system(rng, way, roof=1, peak=900, split=rng.choice([1, 2, 4])),
               text or "-", "|".join("%s:%s" % (",".join(r), t) for t, r in made.items()))
