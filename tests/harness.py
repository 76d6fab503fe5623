# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder share: cases that print TAP, and the command to be tested.

    @case
    def what_is_expected():
        ...assert...        # or: raise Skip("why")
    main()
"""
import gzip
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

SOURCE = pathlib.Path(os.environ.get("ORRERY_SOURCE", pathlib.Path(__file__).resolve().parent.parent))
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", SOURCE / "build"))
BIN = os.environ.get("ORRERY_BIN", str(BUILD / "src" / "cli" / "orrery"))
SHARED = pathlib.Path(os.environ["ORRERY_SHARED"]) if "ORRERY_SHARED" in os.environ else None
SANITIZED = os.environ.get("ORRERY_SANITIZE", "none") not in ("", "none")
PATIENCE_S = 1800  # a bound against hanging alone: no test may depend on how fast the machine is
SLOW = os.environ.get("ORRERY_SLOW", "0") not in ("", "0")
EXAMPLES = SOURCE / "examples" / "traces"


class Skip(Exception):
    """Raised by a case that cannot run here, with the reason."""


class Failed(Exception):
    """Raised by a case whose text says all; no traceback is printed."""


cases = []


def case(function):
    cases.append((function.__name__.replace("_", " "), function))
    return function


def main():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:  # by nohup or a shell's &: the command would inherit that
            signal.signal(number, signal.SIG_DFL)
    failed = 0
    for number, (name, function) in enumerate(cases, 1):
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
        except Exception as error:
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            text = str(error) if isinstance(error, Failed) else traceback.format_exc()
            for line in text.splitlines():
                print(f"# {line}", flush=True)
    print(f"1..{len(cases)}")
    sys.exit(1 if failed else 0)


def latest_step(folder):
    """The step of the latest checkpoint of a folder."""
    return int((folder / "latest").read_text().split()[0].removeprefix("step-"))


def environment(**more):
    """The environment of the command: nothing of the user's that it would listen to."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("ORRERY_") and name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    kept.update(LC_ALL="C", TZ="UTC", PATH=f"{pathlib.Path(BIN).parent}:{kept.get('PATH', '')}")
    kept.update(more)
    return kept


def members(group):
    """Processes of a group that are still there."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def orrery(*args, cwd=None, timeout=PATIENCE_S, **more):
    """Run the command to its end; the result's stdout and stderr are text unless stdin is bytes."""
    options = {"stdin": subprocess.DEVNULL} if "input" not in more else {}
    options.update(capture_output="stdout" not in more, text=not isinstance(more.get("input"), bytes),
                   env=environment(), cwd=cwd, timeout=timeout)
    options.update(more)
    return subprocess.run([BIN, *map(str, args)], check=False, **options)


def wait_for(condition, what):
    """Return once the condition holds, however long that takes; `what` is told if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.005)


def wait_until_it_catches(process, number):
    """Return once the process has a handler for the signal, so that it does not just die of it."""
    def catches():
        assert process.poll() is None, f"it ended before it could be stopped: {process.stderr.read()}"
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii", errors="replace")
        return int(re.search(r"^SigCgt:\s*(\w+)", status, re.M)[1], 16) >> (number - 1) & 1
    wait_for(catches, "it never catches the signal")


def one_line(result, code):
    """The result failed with that code and said why in exactly one line."""
    lines = result.stderr.splitlines()
    assert result.returncode == code, f"exit {result.returncode}, not {code}: {result.stderr}"
    assert len(lines) == 1 and lines[0].startswith("orrery: "), result.stderr
    return lines[0]


class scratch:
    """A folder that is gone afterwards, even where the command made it read-only."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="orrery-test-"))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def large_kineto(path, events):
    """A device trace of one rank, as plain JSON: pairs of a launch and its kernel."""
    head = '{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":0,"world_size":1},"traceEvents":[\n'
    pair = ('{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{0}.125,"dur":5.5,'
            '"args":{{"correlation":{1}}}}},\n'
            '{{"ph":"X","cat":"kernel","name":"kernel_{2}","pid":0,"tid":7,"ts":{3}.25,"dur":8,'
            '"args":{{"device":0,"stream":7,"correlation":{1}}}}}')
    with open(path, "w", encoding="ascii") as out:
        out.write(head)
        step = 1000
        for first in range(0, events // 2, step):
            if first:
                out.write(",\n")
            out.write(",\n".join(pair.format(10 * i, i + 1, i % 97, 10 * i + 6) for i in range(first, first + step)))
        out.write("\n]}\n")


def read_possibly_gzip(path):
    data = pathlib.Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
