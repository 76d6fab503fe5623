#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generated jobs: repeatable, whole on any number of ranks, like their sources; and whose they are."""
import collections
import itertools
import json
import math
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import EXAMPLES, SHARED, Skip, case, main, one_line, orrery, scratch  # noqa: E402

JOBS = ["mlp_ddp_gloo_w2", "gpt_ddp_gloo_w2", "dlrm_gloo_w2"]


def good(*args, **more):
    result = orrery(*args, **more)
    assert result.returncode == 0, f"{args}: exit {result.returncode}: {result.stderr}"
    return result.stdout


def synthesize(where, *args):
    return json.loads(good("synthesize", "-q", *args, "-o", where, "--format", "json"))


def files(where):
    return {path.name: path.read_bytes() for path in sorted(where.iterdir())}


@case
def a_seed_gives_the_same_bytes_and_another_seed_another_job():
    with scratch() as where:
        for name, seed, threads in (("a", 7, 1), ("b", 7, 3), ("c", 8, 1)):
            synthesize(where / name, EXAMPLES / JOBS[0], EXAMPLES / JOBS[2], "--seed", seed, "-j", threads)
        assert files(where / "a") == files(where / "b")
        assert files(where / "a") != files(where / "c")


@case
def every_number_of_ranks_validates():
    with scratch() as where:
        for ranks in (1, 2, 3, 8, 64):
            for more in ([], ["--obfuscate"]):
                folder = where / f"{ranks}{len(more)}"
                synthesize(folder, EXAMPLES / JOBS[0], EXAMPLES / JOBS[2], "--scale", f"ranks={ranks}", *more)
                assert len(list(folder.iterdir())) == ranks
                assert f"{ranks} file" in good("validate", "-q", folder)


@case
def replays_are_what_was_written():
    with scratch() as where:
        for job in [*JOBS, "moe_gloo_w2", "pipeline_gloo_w2"]:
            synthesize(where / job, EXAMPLES / job)
            replay = json.loads(good("predict", "-q", "--format", "json", where / job))
            error = replay["predicted_ns"] / replay["recorded_ns"] - 1
            assert abs(error) < 0.02, f"{job}: the replay is off by {error:.1%}"


def mean(values):
    values = [value for value in values if value is not None]
    return sum(values) / len(values)


def likeness(sources, seeds, *more):
    """Mean absolute error of the step, and the largest KS distance and difference of autocorrelation."""
    steps, ks, autocorrelation = [], [], []
    for seed in seeds:
        with scratch() as where:
            tables = synthesize(where, *sources, "--seed", seed, *more)["tables"]
        steps.append(tables["sources"]["rows"][0]["step_error_frac"])
        for row in tables["distributions"]["rows"]:
            if row["what"] in ("host operator", "kernel") and row["count"] > 100:
                ks.append(row["ks"])
                autocorrelation.append(row["autocorrelation_difference"])
    return steps, max(ks), max(autocorrelation)


@case
def a_job_is_like_its_source():
    for job in ("gpt_ddp_gloo_w2", "moe_gloo_w2"):
        steps, ks, autocorrelation = likeness([EXAMPLES / job], range(1, 6))
        assert abs(mean(steps)) < 0.06 and max(map(abs, steps)) < 0.15, (job, steps)
        assert ks < 0.04 and autocorrelation < 0.06, (job, ks, autocorrelation)


@case
def jobs_are_like_recordings_of_devices():
    if SHARED is None:
        raise Skip("the shared traces are not here")
    kineto = SHARED / "data" / "traces" / "kineto"
    for name in ("qwen1.5-0.5b_h100", "ddp_a100_w8_rank3", "nsfw-vit_h100"):
        steps, ks, autocorrelation = likeness([kineto / f"{name}.json.gz"], (1, 2), "--scale", "ranks=1")
        assert max(map(abs, steps)) < 0.08, (name, steps)
        assert ks < 0.06 and autocorrelation < 0.3, (name, ks, autocorrelation)


def objects(text):
    """JSON values one after the other; each ends on a line of its own."""
    return json.loads("[" + text.replace("\n}\n{", "\n},\n{") + "]")


def features(path):
    """What an attacker sees of a job: how often each name occurs, and how long, how large and how many."""
    names, durations, sizes = collections.Counter(), [], []
    for node in objects(good("chakra", "json", "-q", path))[1:]:
        values = {attr["name"]: attr for attr in node.get("attr", [])}
        names[node["name"]] += 1
        durations.append(math.log(max(1, float(values.get("duration_ns", {}).get("int64Val", 0)))))
        if "comm_size" in values:
            sizes.append(math.log1p(float(values["comm_size"].get("int64Val", 0))))
    durations.sort()
    sizes.sort()
    numbers = [durations[int(i * (len(durations) - 1) / 20)] for i in range(21)]
    numbers += [sizes[int(i * (len(sizes) - 1) / 4)] for i in range(5)] if sizes else [0] * 5
    numbers += [math.log(len(durations)), math.log1p(len(sizes)), sum(durations) / len(durations)]
    total = sum(names.values())
    return {name: count / total for name, count in names.items()}, numbers


def distance(a, b, scale):
    """Of a job from a known one; what never occurs in generated jobs is left out."""
    known = {name: b[0].get(name, 0) for name in a[0]}
    total = sum(known.values()) or 1
    names = sum(abs(share - known[name] / total) for name, share in a[0].items())
    return 5 * names + math.sqrt(sum(((x - y) / s) ** 2 for x, y, s in zip(a[1], b[1], scale)) / len(scale))


def spread(examples):
    columns = list(zip(*(numbers for _, numbers in examples)))
    return [max(0.5, max(column) - min(column)) for column in columns]


def nearest_source(job, sources):
    """Which of two recordings a job is nearer to."""
    scale = spread(sources)
    return min((0, 1), key=lambda i: distance(job, sources[i], scale))


def nearest_examples(job, examples):
    """What most of the three nearest of other jobs came from, whose origin the attacker was told."""
    scale = spread([example for example, _ in examples])
    votes = [label for _, label in sorted((distance(job, example, scale), label) for example, label in examples)[:3]]
    return int(sum(votes) >= 2)


def recall(answers):
    """Mean over both origins of the share that was told right: 0.5 is chance, however many there are of each."""
    return mean([sum(right == told for right, told in answers if right == origin) /
                 max(1, sum(right == origin for right, _ in answers)) for origin in (0, 1)])


def attack(seeds, draw):
    """Both attackers over all pairs of jobs; draw(where, pair, seed) writes a job and says which it came from."""
    by_source, by_example = [], []
    with scratch() as where:
        recorded = {}
        for job in JOBS:
            good("convert", "-q", EXAMPLES / job, "--to", "chakra", "-o", where / job)
            recorded[job] = features(where / job / "rank0.et")
        for pair in itertools.combinations(JOBS, 2):
            drawn = []
            for seed in seeds:
                label = draw(where / "job", pair, seed)
                drawn.append((features(where / "job" / "rank0.et"), label))
            sources = [recorded[job] for job in pair]
            for i, (job, label) in enumerate(drawn):
                by_source.append((label, nearest_source(job, sources)))
                by_example.append((label, nearest_examples(job, drawn[:i] + drawn[i + 1:])))
    return recall(by_source), recall(by_example)


def of_one_among_all(*more):
    """The game: both jobs are given, and which does this one follow?"""
    def draw(where, pair, seed):
        rows = synthesize(where, *(EXAMPLES / job for job in pair), "--seed", seed, "--scale", "ranks=2",
                          *more)["tables"]["sources"]["rows"]
        return [row["followed"] for row in rows].index(True)
    return draw


def of_a_pool_with_one_of_two(where, pair, seed):
    """Another game: one of two jobs was given beside a third, and which?"""
    third = next(job for job in JOBS if job not in pair)
    label = seed % 2
    synthesize(where, EXAMPLES / pair[label], EXAMPLES / third, "--seed", seed, "--scale", "ranks=2", "--obfuscate")
    return label


@case
def plain_jobs_tell_what_they_follow():
    source, example = attack(range(1, 9), of_one_among_all())
    print(f"# plain: {source:.0%} by the nearest source, {example:.0%} by the nearest examples; chance is 50%")
    assert source > 0.9 and example > 0.9


@case
def obfuscated_jobs_do_not():
    source, example = attack(range(1, 13), of_one_among_all("--obfuscate"))
    print(f"# obfuscated: {source:.0%} by the nearest source, {example:.0%} by the nearest examples")
    assert 0.3 < source < 0.7 and 0.3 < example < 0.7


@case
def what_was_given_is_not_hidden():
    source, example = attack(range(1, 7), of_a_pool_with_one_of_two)
    print(f"# membership: {source:.0%} by the nearest source, {example:.0%} by the nearest examples")
    assert example > 0.8


@case
def obfuscated_files_have_no_name_of_the_recording():
    with scratch() as where:
        synthesize(where, *(EXAMPLES / job for job in JOBS), "--obfuscate")
        names = {node["name"] for node in objects(good("chakra", "json", "-q", where / "rank0.et"))[1:]}
        assert names <= {"host operator", "runtime call", "annotation", "all_reduce", "all_to_all", "broadcast",
                         "barrier", *(f"ProfilerStep#{i}" for i in range(9))}, names
        for data in files(where).values():
            assert not any(word in data for word in (b"aten", b"c10d", b"gloo", b"autograd", b"DistributedDataParallel"))


@case
def one_job_alone_is_told_that_it_cannot_hide():
    with scratch() as where:
        result = orrery("synthesize", EXAMPLES / JOBS[0], "-o", where, "--obfuscate")
        assert result.returncode == 0 and "of one job nobody can doubt whose it is" in result.stderr


@case
def what_cannot_be_read_or_written_is_one_line():
    with scratch() as where:
        (where / "broken.json").write_text('{"traceEvents": [{')
        (where / "empty").mkdir()
        good("chakra", "generate", "all_reduce", "--ranks", "2", "-o", where / "pattern")
        for job in (where / "broken.json", where / "empty", where / "none"):
            one_line(orrery("synthesize", "-q", EXAMPLES / JOBS[0], job, "-o", where / "out"), 3)
            assert not (where / "out").exists()
        one_line(orrery("synthesize", "-q", EXAMPLES / JOBS[0], "-o", where / "no" / "such"), 3)
        one_line(orrery("synthesize", "-q", EXAMPLES / JOBS[0], "-o", where / "out", "--seed", "x"), 2)
        with open("/dev/full", "wb") as nowhere:
            one_line(orrery("synthesize", "-q", EXAMPLES / JOBS[0], "-o", where / "out", stdout=nowhere,
                            stderr=subprocess.PIPE), 3)
        # Chakra's patterns, host traces and device traces are jobs as any other, if they have times.
        result = orrery("synthesize", "-q", EXAMPLES / JOBS[0], where / "pattern", "-o", where / "mixed")
        assert result.returncode in (0, 3) and len(result.stderr.splitlines()) == (result.returncode == 3)
        host = orrery("synthesize", "-q", EXAMPLES / JOBS[0] / "rank0.host.json.gz", "-o", where / "host")
        assert "nothing in it has a time" in one_line(host, 3)


main()
