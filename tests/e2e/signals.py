#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A conversion that is stopped in the middle leaves its folder as it was, or at most a *.tmp file."""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import (BIN, PATIENCE_S, case, environment, large_kineto, main, orrery, scratch,  # noqa: E402
                     wait_until_it_catches)

EVENTS = 400_000


def start(folder, *args, **more):
    return subprocess.Popen([BIN, *args], cwd=folder, env=environment(), stderr=subprocess.PIPE,
                            stdout=subprocess.DEVNULL, text=True, **more)


def stop_while_writing(folder, number, output="out.et.gz"):
    """Convert, and send the signal once the temporary file has bytes in it. A conversion that is over before that is
    seen is made again, of more events."""
    before = {path.name: path.read_bytes() for path in folder.glob(output)}
    for events in (EVENTS, 2 * EVENTS, 4 * EVENTS, 8 * EVENTS):
        large_kineto(folder / "in.json", events)
        process = start(folder, "convert", "-q", "in.json", "-o", output, stdin=subprocess.DEVNULL)
        try:
            writing = False
            while process.poll() is None and not writing:
                writing = any(path.stat().st_size for path in folder.glob(f"{output}.tmp*"))
            process.send_signal(number)
            said = process.communicate(timeout=PATIENCE_S)[1]
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            return process, said
        (folder / output).unlink()
        for name, data in before.items():
            (folder / name).write_bytes(data)
    raise AssertionError("it is over before it can be stopped")


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def stopped_by(number, code):
    with scratch() as folder:
        process, said = stop_while_writing(folder, number)
        assert process.returncode == code, f"exit {process.returncode}: {said}"
        assert files(folder) == ["in.json"], files(folder)
        assert said == "", said


@case
def an_interrupt_while_writing_leaves_nothing_and_exits_130():
    stopped_by(signal.SIGINT, 130)


@case
def a_termination_while_writing_leaves_nothing_and_exits_143():
    stopped_by(signal.SIGTERM, 143)


@case
def a_hangup_while_writing_leaves_nothing_and_exits_129():
    stopped_by(signal.SIGHUP, 129)


@case
def an_interrupt_keeps_the_older_output():
    with scratch() as folder:
        (folder / "out.et.gz").write_bytes(b"of yesterday")
        process, _ = stop_while_writing(folder, signal.SIGINT)
        assert process.returncode == 130
        assert files(folder) == ["in.json", "out.et.gz"], files(folder)
        assert (folder / "out.et.gz").read_bytes() == b"of yesterday"


@case
def an_interrupt_while_reading_leaves_nothing_and_exits_130():
    with scratch() as folder:
        os.mkfifo(folder / "in.json")
        process = start(folder, "convert", "in.json", "-o", "out.et", stdin=subprocess.DEVNULL)
        with open(folder / "in.json", "w", encoding="ascii") as feed:
            feed.write('{"schemaVersion": 1, "traceEvents": [')
            feed.flush()
            wait_until_it_catches(process, signal.SIGINT)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130, process.returncode
        assert files(folder) == ["in.json"], files(folder)


@case
def a_kill_leaves_at_most_a_temporary_file():
    with scratch() as folder:
        process, _ = stop_while_writing(folder, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        left = [name for name in files(folder) if name != "in.json"]
        assert all(name.startswith("out.et.gz.tmp") for name in left), left


@case
def kills_at_any_moment_never_leave_a_wrong_file():
    with scratch() as folder:
        large_kineto(folder / "in.json", 20_000)
        began = time.monotonic()
        assert orrery("convert", "-q", "in.json", "-o", "whole.et", cwd=folder).returncode == 0
        took = time.monotonic() - began
        whole = (folder / "whole.et").read_bytes()
        finished = 0
        for attempt in range(40):
            process = start(folder, "convert", "-q", "in.json", "-o", "out.et", stdin=subprocess.DEVNULL)
            time.sleep(took * 1.2 * attempt / 40)
            process.kill()
            process.communicate()
            if (folder / "out.et").exists():
                finished += 1
                assert (folder / "out.et").read_bytes() == whole, f"attempt {attempt}"
                (folder / "out.et").unlink()
            for path in folder.glob("out.et.tmp*"):
                path.unlink()
            assert files(folder) == ["in.json", "whole.et"], files(folder)
        print(f"# {finished} of 40 kills came too late", flush=True)


main()
