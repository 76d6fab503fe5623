#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that run here, as somebody trains, stops, resumes, exports, generates, records and replays them."""
import json
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import (BIN, BUILD, EXAMPLES, PATIENCE_S, SOURCE, Skip, case, environment, latest_step, main, members,  # noqa: E402
                     one_line, orrery, scratch, wait_for)

TINY = "layers=2,hidden=64,heads=4,vocab=512,seq=32"
SHAPE = TINY + ",batch=4"
CHECKPOINTS = SOURCE / "tests" / "reference" / "checkpoints"
TEXT = "the quick brown fox jumps over the lazy dog.\n" * 200


def job(folder, *more, plan=SHAPE, steps=6):
    """The words of a small run of training on the text."""
    data = folder / "text.txt"
    if not data.exists():
        data.write_text(TEXT)
    return ["train", "gpt2", "--plan", plan, "--data", "text.txt", "--steps", steps, "-j", 1, *more]


def train(folder, *more, code=0, **options):
    result = orrery(*job(folder, *more, **options), cwd=folder)
    assert result.returncode == code, f"exit {result.returncode}: {result.stderr}"
    return result


def steps_of(text):
    return {row["step"]: row["loss"] for row in json.loads(text)["tables"]["steps"]["rows"]}


def losses(folder, *more, **options):
    return steps_of(train(folder, "-f", "json", *more, **options).stdout)


def start(folder, *args):
    return subprocess.Popen([BIN, *map(str, args)], cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def end(process):
    """Nothing of the process group outlives the case."""
    for number in members(process.pid):
        os.kill(number, signal.SIGKILL)
    process.communicate()


def no_leftovers(folder, *kept):
    left = sorted(path.name for path in folder.iterdir() if path.name not in ("text.txt", *kept))
    assert left == [], left


def exported(folder, name="model", **options):
    train(folder, "--export", name, steps=4, **options)
    return folder / name


# Training.

@case
def a_quiet_training_tells_its_result_alone():
    with scratch() as folder:
        result = train(folder, "-q")
        lines = result.stdout.splitlines()
        assert result.stderr == "" and [line for line in lines if line] == lines[1:] and "6 steps, " in lines[1], lines


@case
def the_loss_falls():
    with scratch() as folder:
        seen = losses(folder, "--learning-rate", "3e-3", steps=30)
        assert len(seen) == 30 and seen[30] < seen[1] - 1, seen


@case
def the_loss_of_a_plan_is_that_of_one_rank():
    with scratch() as folder:
        plan = SHAPE + ",precision=fp32"
        alone = losses(folder, plan=plan)
        for more in ("dp=2", "tp=2", "pp=2", "cp=2", "dp=2,zero=3"):
            other = losses(folder, plan=f"{plan},{more}")
            worst = max(abs(other[step] - alone[step]) for step in alone)
            assert other.keys() == alone.keys() and worst < 2e-4, f"{more}: {worst}"


@case
def a_killed_run_goes_on_to_the_same_bits():
    generator = random.Random(7)
    with scratch() as folder:
        whole = losses(folder, steps=40)
        words = job(folder, "--save", "kept", "--save-every", 1, "--resume", steps=40)
        began = time.monotonic()
        losses(folder, "--save", "timed", "--save-every", 1, steps=40)
        took = time.monotonic() - began
        first = [word for word in words if word != "--resume"]
        for attempt in range(8):
            there = (folder / "kept" / "latest").exists()
            process = start(folder, *(words if there else first))
            time.sleep(took * generator.random())
            process.kill()
            process.communicate()
        there = (folder / "kept" / "latest").exists()
        result = orrery(*(words if there else first), "-f", "json", cwd=folder)
        assert result.returncode == 0, result.stderr
        for step, loss in steps_of(result.stdout).items():
            assert loss == whole[step], f"step {step}: {loss} and {whole[step]}"


@case
def going_on_gives_the_losses_of_a_run_that_never_stopped():
    for more in ("", ",dp=2,zero=1", ",pp=2"):
        with scratch() as folder:
            whole = losses(folder, "--learning-rate-schedule", "constant", steps=8, plan=SHAPE + more)
            losses(folder, "--learning-rate-schedule", "constant", "--warmup", 1, "--save", "kept", steps=3, plan=SHAPE + more)
            rest = losses(folder, "--learning-rate-schedule", "constant", "--save", "kept", "--resume", steps=8,
                          plan=SHAPE + more)
            assert sorted(rest) == [4, 5, 6, 7, 8], sorted(rest)
            assert all(rest[step] == whole[step] for step in rest), f"{more}: {rest} and {whole}"


@case
def an_interrupt_ends_after_the_step_with_a_checkpoint():
    with scratch() as folder:
        words = job(folder, "--save", "kept", steps=1_000_000)
        process = start(folder, *words)
        try:
            assert any("loss" in line for line in iter(process.stdout.readline, "")), "it never began"
            process.stdout.readline()
            os.kill(process.pid, signal.SIGINT)
            said, wrong = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 130 and wrong == "", f"{process.returncode}: {wrong}"
            assert "stopped" in said, said
            assert (folder / "kept" / "latest").exists()
        finally:
            end(process)


@case
def a_signal_to_the_group_saves_and_the_run_goes_on_to_the_same_bits():
    for plan, number in (("dp=2", signal.SIGTERM), ("pp=2", signal.SIGHUP), ("tp=2", signal.SIGUSR1)):
        with scratch() as folder:
            plan = f"{SHAPE},{plan}"
            words = job(folder, "--learning-rate-schedule", "constant", "--warmup", 1, "--save", "kept", plan=plan,
                        steps=1_000_000)
            process = start(folder, *words)
            try:
                assert any("loss" in line for line in iter(process.stdout.readline, "")), "it never began"
                process.stdout.readline()
                os.killpg(process.pid, number)
                said, wrong = process.communicate(timeout=PATIENCE_S)
            finally:
                end(process)
            assert process.returncode == 128 + number and wrong == "", f"{plan}: {process.returncode}: {wrong}"
            assert "stopped" in said, said
            last = latest_step(folder / "kept")
            options = ("--learning-rate-schedule", "constant", "--warmup", 1)
            rest = losses(folder, *options, "--save", "kept", "--resume", plan=plan, steps=last + 3)
            whole = losses(folder, *options, plan=plan, steps=last + 3)
            assert sorted(rest) == [last + 1, last + 2, last + 3] and all(rest[n] == whole[n] for n in rest), plan


@case
def a_second_signal_ends_it_at_once():
    with scratch() as folder:
        process = start(folder, *job(folder, plan=f"{SHAPE},dp=2", steps=1_000_000))
        try:
            assert any("loss" in line for line in iter(process.stdout.readline, "")), "it never began"
            os.kill(process.pid, signal.SIGSTOP)  # both are there when it goes on
            os.killpg(process.pid, signal.SIGTERM)
            os.killpg(process.pid, signal.SIGHUP)
            os.kill(process.pid, signal.SIGCONT)
            process.communicate(timeout=PATIENCE_S)
            assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGHUP), process.returncode
            wait_for(lambda: not members(process.pid), "processes are left")
        finally:
            end(process)


@case
def a_rank_that_dies_ends_the_others_with_one_line():
    for plan in ("dp=2", "tp=2", "pp=2"):
        with scratch() as folder:
            process = start(folder, *job(folder, plan=f"{SHAPE},{plan}", steps=1_000_000))
            try:
                assert any("loss" in line for line in iter(process.stdout.readline, "")), "it never began"
                process.stdout.readline()
                others = [number for number in members(process.pid) if number != process.pid]
                assert others, "its ranks are no processes"
                os.kill(others[0], signal.SIGKILL)
                wrong = process.communicate(timeout=PATIENCE_S)[1]
                assert process.returncode == 3, process.returncode
                assert len(wrong.splitlines()) == 1 and wrong.startswith("orrery: "), wrong
                wait_for(lambda: not members(process.pid), f"{plan}: processes are left")
            finally:
                end(process)


@case
def ranks_started_by_mpirun_train_together():
    plugin = BUILD / "src" / "io" / "orrery_mpi.so"
    if not shutil.which("mpirun") or not plugin.exists():
        raise Skip("no mpirun here" if plugin.exists() else "built without MPI")
    with scratch() as folder:
        alone = losses(folder, plan=SHAPE + ",dp=2")
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", BIN,
                   *map(str, job(folder, "-f", "json", plan=SHAPE + ",dp=2"))]
        env = environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                          ORRERY_MPI_PLUGIN=str(plugin),
                          ASAN_OPTIONS="detect_leaks=0")  # Open MPI leaks its own
        result = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=PATIENCE_S, check=False)
        assert result.returncode == 0, result.stderr
        assert steps_of(result.stdout) == alone, f"{result.stdout[:500]} and {alone}"


@case
def a_loss_that_is_no_number_names_what_made_it():
    with scratch() as folder:
        for plan in (SHAPE, SHAPE + ",dp=2"):
            result = orrery(*job(folder, "--learning-rate", "1e11", "--clip", 0, plan=plan, steps=40), cwd=folder)
            line = one_line(result, 3)
            assert "NaN" in line and "layer" in line, line


@case
def outputs_that_cannot_be_are_refused_before_the_run():
    with scratch() as folder:
        (folder / "file").write_text("")
        for option in ("--save", "--export", "--record"):
            for place in ("file", "no/where"):
                result = orrery(*job(folder, option, place), cwd=folder)
                assert place.split("/", maxsplit=1)[0] in one_line(result, 3) and result.stdout == "", result.stdout


@case
def an_earlier_run_is_not_overwritten():
    with scratch() as folder:
        train(folder, "--save", "kept", steps=2)
        before = (folder / "kept" / "latest").read_bytes()
        assert "--resume" in one_line(orrery(*job(folder, "--save", "kept"), cwd=folder), 3)
        assert (folder / "kept" / "latest").read_bytes() == before
        assert "nothing left" in train(folder, "--save", "kept", "--resume", steps=2).stdout


@case
def a_checkpoint_is_validated():
    with scratch() as folder:
        train(folder, "--save", "kept", steps=2, plan=f"{SHAPE},dp=2,zero=1")
        result = orrery("validate", "kept", cwd=folder)
        assert result.returncode == 0 and "after step 2, 2 ranks" in result.stdout, result.stdout + result.stderr
        path = folder / "kept" / "step-00000002" / "rank-00001.safetensors"
        whole = bytearray(path.read_bytes())
        whole[-5] ^= 4
        path.write_bytes(whole)
        line = one_line(orrery("validate", "kept", cwd=folder), 3)
        assert "rank-00001.safetensors: tensor " in line and "its hash differs" in line, line
        line = one_line(orrery(*job(folder, "--save", "kept", "--resume", plan=f"{SHAPE},dp=2,zero=1"), cwd=folder), 3)
        assert "its hash differs" in line, line


@case
def two_runs_do_not_save_into_one_folder():
    with scratch() as folder:
        process = start(folder, *job(folder, "--save", "kept", "--save-every", 1, steps=1_000_000))
        try:
            wait_for(lambda: (folder / "kept" / "latest").exists(), "nothing was saved")
            line = one_line(orrery(*job(folder, "--save", "kept", "--resume"), cwd=folder), 3)
            assert f"kept: another run saves there (process {process.pid})" in line, line
        finally:
            end(process)
        train(folder, "--save", "kept", "--resume")


@case
def a_full_disk_leaves_no_half_checkpoint_and_no_half_model():
    with scratch() as folder:
        words = job(folder)

        def full():
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        for option in ("--save", "--export"):
            line = one_line(orrery(*words, option, "out", cwd=folder, preexec_fn=full), 3)
            assert "large" in line, line
            left = [path for path in folder.rglob("*") if path.is_file() and path.name != "text.txt"]
            assert left == [], left
            shutil.rmtree(folder / "out", ignore_errors=True)
        model = exported(folder)
        for output in ("out.gguf", "out"):
            line = one_line(orrery("export", model, "-o", output, cwd=folder, preexec_fn=full), 3)
            assert "large" in line, line
            left = [path.name for path in folder.rglob("*") if path.is_file() and model not in path.parents]
            assert left == ["text.txt"], left


@case
def an_export_that_fails_loses_nothing():
    with scratch() as folder:
        in_the_way = folder / "out" / "model.safetensors"
        in_the_way.mkdir(parents=True)
        line = one_line(orrery(*job(folder, "--export", "out", plan=f"{SHAPE},dp=2,zero=1"), cwd=folder), 3)
        assert "out/model.safetensors" in line and "is kept in out.checkpoint" in line, line
        rest = train(folder, "--save", "out.checkpoint", "--resume", "--export", "model", plan=f"{SHAPE},dp=2,zero=1")
        assert "nothing left" in rest.stdout and (folder / "model").exists(), rest.stdout


# What was recorded.

@case
def a_recorded_step_is_read_by_all_other_commands():
    with scratch() as folder:
        train(folder, "--record", "trace", steps=5)
        train(folder, "--record", "traces", steps=5, plan=SHAPE + ",dp=2")
        assert (folder / "trace" / "rank0.et").exists() and (folder / "traces" / "rank1.et").exists()
        for args in (["validate", "trace/rank0.et"], ["validate", "traces"], ["analyze", "-q", "trace"],
                     ["analyze", "-q", "traces"], ["predict", "-q", "traces", "--host-speed", "2"],
                     ["replay", "trace/rank0.et", "--iterations", 1, "-j", 1]):
            result = orrery(*args, cwd=folder)
            assert result.returncode == 0 and result.stdout, f"{args}: {result.stderr}"
        result = orrery("replay", "traces", "--iterations", 1, "-j", 1, "-f", "json", cwd=folder)
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["schema"] == "orrery.replay/1"


def covered(*args):
    """Share of the recorded time that ran here."""
    result = orrery("replay", "-q", "--iterations", 1, *args)
    assert result.returncode == 0, result.stderr
    words = result.stdout.split("\n", 1)[0].split()
    return float(words[words.index("recorded") - 3])


@case
def recordings_of_pytorch_are_covered_by_time():
    for name in ("dlrm_gloo_w2", "gpt_ddp_gloo_w2", "mlp_ddp_gloo_w2", "moe_gloo_w2"):
        share = covered(EXAMPLES / name)
        assert share >= 95, f"{name}: {share} %"


@case
def what_would_be_replayed_can_be_handed_on():
    with scratch() as folder:
        pair = EXAMPLES / "mlp_ddp_gloo_w2"
        result = orrery("replay", "-q", pair, "--part", "compute", "--extract", "job.et", "--obfuscate", cwd=folder)
        assert result.returncode == 0, result.stderr
        assert "all_reduce" not in orrery("info", "-v", "job.et", cwd=folder).stdout
        assert orrery("replay", "-q", "job.et", "--iterations", 1, cwd=folder).returncode == 0


# Models that were trained, or given.

@case
def what_was_exported_is_generated_from_and_scored():
    with scratch() as folder:
        model = exported(folder)
        (folder / "line.txt").write_text(TEXT[:100])
        result = orrery("generate", "-q", model, "the quick", "--generated", 12, cwd=folder)
        assert result.returncode == 0 and result.stderr == "", result.stderr
        whole = json.loads(orrery("generate", "-q", model, "the quick", "--generated", 12, "-f", "json",
                                  cwd=folder).stdout)
        assert result.stdout == whole["answers"][0]["text"] + "\n", result.stdout
        rows = json.loads(orrery("score", model, "line.txt", "-f", "json", cwd=folder).stdout)["rows"]
        each = json.loads(orrery("score", model, "line.txt", "--all", "-f", "json", cwd=folder).stdout)["rows"]
        assert rows[0]["tokens"] == len(each) == 99, rows
        assert math.isclose(rows[0]["log_probability"], sum(row["log_probability"] for row in each), rel_tol=1e-6)
        assert math.isclose(rows[0]["perplexity"], math.exp(-rows[0]["log_probability"] / 99), rel_tol=1e-6)


@case
def texts_longer_than_the_context_are_scored_in_windows():
    with scratch() as folder:
        model = exported(folder)
        (folder / "long.txt").write_text(TEXT[:3000])
        rows = json.loads(orrery("score", model, "long.txt", "--all", "-f", "json", cwd=folder).stdout)["rows"]
        assert len(rows) == 2999
        (folder / "first.txt").write_text(TEXT[:1024])
        first = json.loads(orrery("score", model, "first.txt", "--all", "-f", "json", cwd=folder).stdout)["rows"]
        assert [row["log_probability"] for row in rows[:1023]] == [row["log_probability"] for row in first]


@case
def formats_lead_into_each_other():
    with scratch() as folder:
        model = exported(folder)
        for words in ([model, "-o", "a.gguf"], ["a.gguf", "-o", "back"], [model, "-o", "b.gguf", "--quantize", "q8_0"],
                      ["b.gguf", "-o", "again", "--quantize", "bf16"]):
            result = orrery("export", "-q", *words, cwd=folder)
            assert result.returncode == 0 and result.stderr == "", f"{words}: {result.stderr}"
        assert (folder / "back" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
        assert (folder / "b.gguf").stat().st_size < (folder / "a.gguf").stat().st_size
        texts = {name: orrery("generate", "-q", name, "the quick", "--generated", 4, cwd=folder) for name in
                 ("model", "a.gguf", "back", "b.gguf", "again")}
        assert all(text.returncode == 0 and text.stderr == "" for text in texts.values()), texts
        assert texts["model"].stdout == texts["a.gguf"].stdout == texts["back"].stdout, texts


@case
def every_family_generates_and_scores():
    with scratch() as folder:
        (folder / "line.txt").write_text(TEXT[:40])
        for config in sorted(CHECKPOINTS.glob("*/config.json")):
            for args in (["generate", config.parent, "hi", "--generated", 4], ["score", config.parent, "line.txt"]):
                result = orrery(*args, "-q", cwd=folder)
                assert result.returncode == 0 and result.stderr == "", f"{config.parent.name}: {result.stderr}"


@case
def tokens_come_one_by_one():
    with scratch() as folder:
        model = exported(folder)
        out, into = os.pipe2(os.O_DIRECT)  # each write is a packet, and is read alone
        with subprocess.Popen([BIN, "generate", "-q", model, "the quick", "--generated", "1000", "-j", "1"], cwd=folder,
                              env=environment(), stdin=subprocess.DEVNULL, stdout=into) as process:
            os.close(into)
            writes = list(iter(lambda: os.read(out, 1 << 16), b""))
            os.close(out)
        assert process.returncode == 0 and sum(map(len, writes)) > 100, writes
        assert len(writes) > 100, f"{len(writes)} writes of 1000 tokens"


@case
def a_seed_repeats_and_another_differs():
    with scratch() as folder:
        model = exported(folder)

        def say(seed):
            result = orrery("generate", "-q", model, "hi", "--temperature", 1, "--seed", seed, "--generated", 30,
                            "-f", "json", cwd=folder)
            assert result.returncode == 0, result.stderr
            return json.loads(result.stdout)["answers"][0]["tokens"]
        assert say(3) == say(3) and say(3) != say(4)


def rows_of(path):
    """Rows of routes: tokens as (request, token, experts of all layers), and the ranks that had them."""
    lines = path.read_text().splitlines()
    at = lines[0].split(",").index("rank") if "rank" in lines[0] else None
    cells = [line.split(",") for line in lines[1:]]
    first = 3 if at is None else 4
    return ([(int(c[0]), int(c[2]), *c[first:]) for c in cells], [int(c[at]) for c in cells] if at else [])


@case
def training_records_the_same_routes_in_every_plan():
    with scratch() as folder:
        def routes(plan):
            result = orrery("train", "-q", CHECKPOINTS / "qwen3_moe", "--plan", plan + ",batch=4,seq=16,precision=fp32",
                            "--steps", 2, "--warmup", 0, "-j", 1, "--expert-trace", "routes.csv", cwd=folder)
            assert result.returncode == 0, f"{plan}: {result.stderr}"
            return rows_of(folder / "routes.csv")
        whole, ranks = routes("micro_batch=2")
        assert len(whole) == 2 * 4 * 16 and ranks == [0] * len(whole)
        assert sorted(whole) == sorted(set(whole)) and len({row[2:] for row in whole}) > 20
        for plan, of_rank in {"dp=2,ep=2,pp=2": 64, "tp=2,sp=on,ep=2,etp=1": 64, "tp=2,cp=2": 32,
                              "pp=2,schedule=zb_v,micro_batch=1": 128, "recompute=full": 128}.items():
            rows, ranks = routes(plan)
            assert sorted(rows) == sorted(whole), plan
            assert {ranks.count(rank) for rank in ranks} == {of_rank}, plan


@case
def routes_of_training_are_those_of_generation():
    """A sample begins somewhere in a text of 12 letters over and over: one beginning fits, and no other."""
    with scratch() as folder:
        config = (CHECKPOINTS / "qwen3_moe" / "config.json").read_text()
        (folder / "model.json").write_text(config.replace('"vocab_size": 160', '"vocab_size": 320'))
        (folder / "text.txt").write_text("abcdefghijkl" * 12)

        def train_one(*more):
            result = orrery("train", "-q", "model.json", "--data", "text.txt", "--plan",
                            "micro_batch=1,batch=1,seq=16,precision=fp32", "--steps", 1, "--warmup", 0, "-j", 1,
                            *more, cwd=folder)
            assert result.returncode == 0, result.stderr
        train_one("--export", "model")
        train_one("--init", "model", "--expert-trace", "trained.csv")
        trained = [row[2:] for row in rows_of(folder / "trained.csv")[0]]
        same = []
        for begin in range(12):
            result = orrery("generate", "-q", "model", ("abcdefghijkl" * 3)[begin:begin + 16], "--generated", 1,
                            "--fp32", "-f", "json", "--expert-trace", "generated.csv", cwd=folder)
            assert result.returncode == 0, result.stderr
            rows = [row[2:] for row in rows_of(folder / "generated.csv")[0]]
            assert len(rows) == len(trained) == 16
            same.append(sum(a == b for a, b in zip(rows, trained)))
        assert sorted(same)[-1] == 16 and sorted(same)[-2] < 12, same


@case
def a_trace_of_experts_is_simulated():
    with scratch() as folder:
        result = orrery("generate", "-q", CHECKPOINTS / "mixtral", "hi", "--generated", 8, "--expert-trace",
                        "experts.csv", cwd=folder)
        assert result.returncode == 0, result.stderr
        result = orrery("simulate", "-q", "mixtral-8x7b", "--cluster", "dgx_h100", "--plan", "dp=8,ep=8,zero=3",
                        "--expert-load", "experts.csv", cwd=folder)
        assert result.returncode in (0, 4) and "experts" not in result.stderr, result.stderr


@case
def a_recording_of_more_shapes_than_are_cached():
    """Programs that gave way to others are in the trace, too."""
    with scratch() as folder:
        prompts = ["abcdefgh"[:n] for n in range(1, 9)]
        result = orrery("generate", "-q", "-f", "json", CHECKPOINTS / "mixtral", *prompts, "--generated", 6, "--record", "trace.et",
                        cwd=folder)
        assert result.returncode == 0, result.stderr
        result = orrery("analyze", "-q", "trace.et", cwd=folder)
        assert result.returncode == 0 and "expert_down" in result.stdout, result.stderr


@case
def ranks_answer_as_one_process_does():
    """Any placement of experts, and its traces and routes of all ranks."""
    with scratch() as folder:
        (folder / "two.json").write_text(json.dumps({"physical_to_logical_map": [[0, 1, 2, 3, 0, 1], [3, 1, 0, 2, 1, 3]]}))

        def answers(*options):
            result = orrery("generate", "-q", CHECKPOINTS / "mixtral", "hi", "there", "you", "--generated", 6,
                            "-f", "json", *options, cwd=folder)
            assert result.returncode == 0, result.stderr
            return json.loads(result.stdout)
        alone = answers()
        for options in (["--ranks", 3], ["--ranks", 2, "--placement", "two.json", "--transport", "tcp"]):
            over = answers(*options, "--record", "traces", "--expert-trace", "routes.csv")
            assert over["answers"] == alone["answers"]
            assert over["exchange"]["ranks"] == options[1] and sum(over["exchange"]["all_bytes"]) > 0
            rows = (folder / "routes.csv").read_text().splitlines()
            ranks = {row.split(",")[rows[0].split(",").index("rank")] for row in rows[1:]}
            assert ranks == {str(r) for r in range(options[1])}
        result = orrery("analyze", "-q", "traces", cwd=folder)
        assert result.returncode == 0 and "all_to_all" in result.stdout, result.stderr
        for name, options in (("7 ranks", ["--ranks", 7, "--placement", "two.json"]), ("experts", ["--placement", "two.json"])):
            model = "mixtral" if name == "7 ranks" else "llama3"
            line = one_line(orrery("generate", CHECKPOINTS / model, "hi", *options, cwd=folder), 3)
            assert name in line or "rank" in line, line


@case
def requests_and_experts_move_while_tokens_are_generated():
    prompts = ["aaaaaaaaaaaa", "aaaaaaaaaaaa", "aaaaaaaaa", "aaaaaaaa", "aaaaaaa"]
    with scratch() as folder:
        def generated(*options):
            result = orrery("generate", CHECKPOINTS / "qwen3_moe", *prompts, "--generated", 40, "-f", "json", *options,
                            cwd=folder)
            assert result.returncode == 0, result.stderr
            return json.loads(result.stdout), result.stderr
        alone, _ = generated("--expert-trace", "routes.csv")
        moved, told = generated("--ranks", 2, "--rebalance", 8, "--move-bytes", "1KiB")
        exchange = moved["exchange"]
        assert moved["answers"] == alone["answers"]
        assert exchange["plans"] > 0 and exchange["moved_experts"] > 0
        assert "longest pause" in told, told
        assert sum(exchange["weight_bytes"]) % exchange["moved_experts"] == 0
        grouped, _ = generated("--ranks", 2, "--group", "affinity", "--routes", "routes.csv")
        assert grouped["answers"] == alone["answers"] and grouped["exchange"]["weight_bytes"] == [0, 0]
        for options in (["--ranks", 2, "--group", "affinity"], ["--group", "affinity", "--routes", "routes.csv"],
                        ["--ranks", 3, "--groups", 2, "--group", "affinity", "--routes", "routes.csv"]):
            one_line(orrery("generate", CHECKPOINTS / "qwen3_moe", "hi", *options, cwd=folder), 3)
        one_line(orrery("generate", CHECKPOINTS / "mixtral", "hi", "--ranks", 2, "--group", "affinity", "--routes",
                        "routes.csv", cwd=folder), 3)


# Files that are broken.

def corrupt(whole, header):
    """A file's bytes, broken in ways that matter."""
    yield b""
    yield whole[:4]
    yield whole[:header // 2]
    yield whole[:len(whole) - 1000]
    yield struct.pack("<Q", 1 << 62) + whole[8:]
    yield whole[:8] + b"\xff" * 64 + whole[72:]
    yield bytes(len(whole))
    yield whole.replace(b"[64", b"[65", 1)


@case
def broken_weights_are_status_3_and_one_line():
    with scratch() as folder:
        model = exported(folder)
        assert orrery("export", "-q", model, "-o", "whole.gguf", cwd=folder).returncode == 0
        weights = model / "model.safetensors"
        good = weights.read_bytes()
        for number, bad in enumerate(corrupt(good, 2000)):
            weights.write_bytes(bad)
            for args in (["generate", model, "hi"], ["score", model, "text.txt"], ["export", model, "-o", "out.gguf"]):
                line = one_line(orrery(*args, cwd=folder), 3)
                assert len(line) < 400, f"{number}: {line}"
            assert not (folder / "out.gguf").exists(), number
        whole = (folder / "whole.gguf").read_bytes()
        for number, bad in enumerate(corrupt(whole, 2000)):
            if bad == whole:
                continue
            (folder / "bad.gguf").write_bytes(bad)
            line = one_line(orrery("generate", "bad.gguf", "hi", cwd=folder), 3)
            assert "bad.gguf" in line, f"{number}: {line}"


@case
def weights_that_are_no_numbers_are_named():
    """NaN in the last weights that are read, and an infinity in a norm: no answer, and no exit status 0."""
    whole = (CHECKPOINTS / "llama3" / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8:8 + length])
    for name, value in (("lm_head.weight", math.nan), ("model.layers.0.input_layernorm.weight", math.inf)):
        with scratch() as folder:
            shutil.copytree(CHECKPOINTS / "llama3", folder / "model")
            about = header[name]
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
            number = {"F32": struct.pack("<I", bits), "BF16": struct.pack("<H", bits >> 16)}[about["dtype"]]
            at = 8 + length + about["data_offsets"][1] - len(number)
            (folder / "model" / "model.safetensors").write_bytes(whole[:at] + number + whole[at + len(number):])
            (folder / "text.txt").write_text("hi there")
            for words in (("generate", "model", "hi", "--generated", 3), ("score", "model", "text.txt")):
                result = orrery(*words, cwd=folder)
                assert result.returncode == 3 and name in result.stderr, f"{words}: {result.stderr}{result.stdout}"


@case
def numbers_of_a_configuration_that_cannot_be_are_status_3():
    for key, value in (("rms_norm_eps", -1e-5), ("rope_theta", 0), ("rope_theta", -1e4)):
        with scratch() as folder:
            shutil.copytree(CHECKPOINTS / "llama3", folder / "model")
            config = folder / "model" / "config.json"
            said = json.loads(config.read_text())
            (said["rope_parameters"] if key == "rope_theta" else said)[key] = value
            config.write_text(json.dumps(said))
            (folder / "text.txt").write_text("hi there")
            for words in (("generate", "model", "hi"), ("score", "model", "text.txt")):
                line = one_line(orrery(*words, cwd=folder), 3)
                assert ("norm_epsilon" if key == "rms_norm_eps" else key) in line, line


@case
def a_shard_that_is_missing_is_named():
    with scratch() as folder:
        shutil.copytree(CHECKPOINTS / "llama2", folder / "model")
        (folder / "model" / "model-00002-of-00002.safetensors").unlink()
        assert "model-00002-of-00002.safetensors" in one_line(orrery("generate", "model", "hi", cwd=folder), 3)


@case
def broken_configurations_and_tokenizers_are_status_3():
    with scratch() as folder:
        shutil.copytree(CHECKPOINTS / "llama3", folder / "model")
        config = folder / "model" / "config.json"
        good = config.read_text()
        for bad in ("", "{", "[]", good.replace('"hidden_size": ', '"hidden_size": 1'), good[:50]):
            config.write_text(bad)
            one_line(orrery("generate", "model", "hi", cwd=folder), 3)
        config.write_text(good)
        for name, bad in (("tokenizer.json", "{"), ("tokenizer.json", '{"model": {"type": "BPE"}}'),
                          ("tokenizer.json", "\0" * 100), ("tokenizer.model", "\xff" * 50)):
            path = folder / "model" / name
            path.write_text(bad, encoding="latin-1")
            assert name in one_line(orrery("generate", "model", "hi", cwd=folder), 3), name
            path.unlink()


@case
def a_rank_without_open_files_is_told_and_waited_for_by_nobody():
    """Rank 0 waits for calls of the others, and one of them may open no socket."""
    words = ["train", "gpt2", "--plan", SHAPE + ",tp=2", "--steps", "2", "-j", "1", "--transport", "tcp"]
    for files in 4, 5, 8:
        done = subprocess.run(["sh", "-c", f'ulimit -n {files}; exec "$0" "$@"', BIN, *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S, env=environment(), check=False)
        assert "Too many open files" in one_line(done, 3), files


main()
