#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Standard input and output that are pipes: closed early, slow, endless."""
import gzip
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import (BIN, EXAMPLES, PATIENCE_S, SANITIZED, Skip, case, environment, main, one_line, orrery,  # noqa: E402
                     read_possibly_gzip, scratch)

PAIR = EXAMPLES / "mlp_ddp_gloo_w2"
DEVICE = PAIR / "rank0.device.json.gz"


@case
def a_reader_that_leaves_after_one_line_is_no_crash():
    for args in (["analyze", "--all", str(PAIR)], ["info", "--format", "json", str(PAIR)], ["--help"], ["completion", "bash"],
                 ["models", "--all", "--format", "json"]):
        shell = subprocess.run(["bash", "-c", '"$@" | head -n 1; echo "${PIPESTATUS[0]}"', "x", BIN, *args],
                               capture_output=True, text=True, check=False, env=environment(), timeout=PATIENCE_S)
        code = int(shell.stdout.splitlines()[-1])
        assert code in (0, 141), f"{args}: {code}: {shell.stderr}"
        assert shell.stderr == "", shell.stderr


@case
def a_closed_standard_output_is_an_error():
    process = subprocess.run(["sh", "-c", '"$0" info -q "$1" >&-', BIN, str(DEVICE)], capture_output=True, text=True,
                             check=False, env=environment())
    one_line(process, 3)


@case
def a_pipe_that_nobody_reads_ends_it_as_it_ends_its_peers():
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        result = orrery("convert", "-q", "--to", "chrome", DEVICE, "-o", "-", stdout=write_end,
                        stderr=subprocess.PIPE)
    finally:
        os.close(write_end)
    assert result.returncode == -signal.SIGPIPE and result.stderr == "", result


@case
def a_parent_that_ignores_sigpipe_gets_an_error():
    shell = subprocess.run(["bash", "-c", 'trap "" PIPE; "$0" convert -q --to chrome "$1" -o - | true; echo "${PIPESTATUS[0]}"',
                            BIN, str(DEVICE)], capture_output=True, text=True, check=False, env=environment())
    assert shell.stdout == "3\n" and "Broken pipe" in shell.stderr and len(shell.stderr.splitlines()) == 1, shell


@case
def names_of_files_do_not_drive_the_terminal():
    with scratch() as folder:
        name = "a\x1b[31m\u202egnp\u2066\u200f.json"
        (folder / name).write_bytes(gzip.decompress(DEVICE.read_bytes()))
        (folder / "lie\u202e\x07.json").write_text("{")
        for command, path in (("info", name), ("validate", name), ("analyze", name), ("info", "lie\u202e\x07.json"),
                              ("validate", "lie\u202e\x07.json"), ("info", "gone\u202e.json"), ("train", "gone\x1b"),
                              ("demo", "\x1b\u2066"), ("\x1bcommand", ""), ("completion", "\u202e\x1b")):
            result = orrery(command, *([path] if path else []), cwd=folder)
            seen = result.stdout + result.stderr
            assert "?" in seen or command == "analyze", (command, seen)
            bad = [c for c in seen if c != "\n" and (ord(c) < 0x20 or c in "\x7f\u200e\u200f\u202e\u2066")]
            assert not bad, (command, seen)


@case
def standard_input_reads_like_the_file():
    plain = gzip.decompress(DEVICE.read_bytes())
    from_file = orrery("analyze", "--format", "csv", DEVICE).stdout
    for data in (DEVICE.read_bytes(), plain):
        result = orrery("analyze", "--format", "csv", "-", input=data)
        assert result.returncode == 0, result.stderr
        assert result.stdout.decode() == from_file


@case
def standard_input_may_come_in_drops():
    data = gzip.decompress(DEVICE.read_bytes())[:20_000]
    process = subprocess.Popen([BIN, "info", "-q", "--tolerant", "--format", "csv", "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    for at in range(0, len(data), 7):
        process.stdin.write(data[at:at + 7])
        process.stdin.flush()
    out, err = process.communicate(timeout=PATIENCE_S)
    whole = orrery("info", "-q", "--tolerant", "--format", "csv", "-", input=data)
    assert process.returncode == 0, err
    assert out == whole.stdout


@case
def a_fifo_is_read_as_a_file_is():
    with scratch() as folder:
        os.mkfifo(folder / "rank0.json")
        feed = threading.Thread(target=lambda: (folder / "rank0.json").write_bytes(read_possibly_gzip(DEVICE)), daemon=True)
        feed.start()
        result = orrery("info", "--format", "csv", "--from", "kineto", "rank0.json", cwd=folder)
        feed.join(PATIENCE_S)
        assert result.returncode == 0, result.stderr


@case
def output_of_one_conversion_is_input_of_the_next():
    for form in ("chakra", "chrome"):
        command = '"$0" convert -q --to ' + form + ' "$1" -o - | "$0" info --format csv -'
        result = subprocess.run(["sh", "-c", command, BIN, str(DEVICE)], capture_output=True, text=True, check=False,
                                env=environment())
        assert result.returncode == 0 and "aten" not in result.stderr, result.stderr
        assert len(result.stdout.splitlines()) > 3


def feed_endless(size, head, limit_bytes):
    """Stream `head`, then `size` bytes of one string; seconds of a core and result."""
    def limit():
        if not SANITIZED:
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
    process = subprocess.Popen([BIN, "info", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment(), text=False, preexec_fn=limit)
    block = b"a" * (1 << 20)

    def feed():
        try:
            process.stdin.write(head)
            for _ in range(size >> 20):
                process.stdin.write(block)
        except BrokenPipeError:
            pass
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    feeder.join(PATIENCE_S)
    result = subprocess.CompletedProcess([], process.returncode, out.decode(), err.decode())
    return usage.ru_utime + usage.ru_stime, result


@case
def a_line_of_4_GiB_ends_in_one_clear_line():
    if SANITIZED:
        raise Skip("too slow under sanitizers")
    for head in (b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "',
                 b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "args": {"skipped": "', b'"', b"a"):
        seconds, result = feed_endless(4 << 30, head, 8 << 30)
        print(f"# {head[-20:]}: {seconds:.1f} s: {result.stderr.strip()}", flush=True)
        one_line(result, 3)
        assert seconds < 60, seconds


main()
