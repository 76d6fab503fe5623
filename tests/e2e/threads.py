#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Work that threads share comes to the same bytes on one thread and on several. Under the thread sanitizer
(`make tsan`) a data race ends the process with status 66, so each case also shows that there is none."""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import EXAMPLES, SANITIZED, SOURCE, case, main, orrery, scratch  # noqa: E402

MODEL = SOURCE / "examples" / "models" / "small_llama.yaml"
LATE = 280


def output(*args):
    result = orrery(*args, timeout=LATE)
    assert result.returncode == 0, f"{args}: exit {result.returncode}: {result.stderr}"
    return result.stdout


@case
def traces_of_many_ranks_are_read_by_several_threads():
    with scratch() as folder:
        for copy in range(4):
            shutil.copytree(EXAMPLES / "mlp_ddp_gloo_w2", folder / str(copy))
        files = sorted(folder.glob("*/rank*.json.gz"))
        assert len(files) == 16, files
        for args in (["validate", "-q"], ["analyze", "-q", "--all", "--format", "csv"]):
            for job in [[folder / "0"], [EXAMPLES / "gpt_ddp_gloo_w2"]]:
                assert output(*args, "-j", 1, *job) == output(*args, "-j", 4, *job)


@case
def two_ranks_of_four_threads_learn_what_two_of_one_do():
    with scratch() as folder:
        for threads in (1, 4):
            output("train", "-q", MODEL, "--plan", "dp=2,tp=1,seq=64,batch=4,micro_batch=1", "-j", threads,
                   "--steps", 3, "--data", SOURCE / "docs", "--export", folder / str(threads))
        assert (folder / "1" / "model.safetensors").read_bytes() == (folder / "4" / "model.safetensors").read_bytes()


@case
def a_search_finds_the_same_plan_on_two_threads():
    question = ["explore", "-q", "llama3.2-1b", "--cluster", "dgx_h100", "--batch", 16, "--seq", "2k",
                "--limit", "pp<=2", "--format", "plan"]
    assert output(*question, "-j", 1) == output(*question, "-j", 2)


main()
