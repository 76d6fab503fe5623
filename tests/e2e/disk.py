#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk that fills up, an output that takes nothing: one line, status 3, and no file that is not whole."""
import os
import pathlib
import resource
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import EXAMPLES, Skip, case, main, one_line, orrery, scratch  # noqa: E402

PAIR = EXAMPLES / "mlp_ddp_gloo_w2"
DEVICE = PAIR / "rank0.device.json.gz"


def room_for(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def refused_over(size, *args, output):
    with scratch() as folder:
        result = orrery(*args, cwd=folder, preexec_fn=room_for(size))
        line = one_line(result, 3)
        assert "File too large" in line and output in line, line
        assert list(folder.iterdir()) == [], list(folder.iterdir())


def full(result):
    line = one_line(result, 3)
    assert "No space left on device" in line, line


@case
def a_full_disk_leaves_no_et():
    for size in (0, 1, 4096, 100_000):
        refused_over(size, "convert", "-q", PAIR / "rank0.device.json.gz", "-o", "rank0.et", output="rank0.et")


@case
def a_full_disk_leaves_no_compressed_et():
    for name in ("rank0.et.gz", "rank0.et.zst"):
        refused_over(5000, "convert", "-q", DEVICE, "-o", name, output=name)


@case
def a_full_disk_leaves_no_chrome_or_perfetto_file():
    for name in ("rank0.json", "rank0.pftrace"):
        refused_over(5000, "convert", "-q", DEVICE, "-o", name, output=name)


@case
def a_full_disk_leaves_no_table():
    refused_over(1000, "analyze", "-q", "--all", "-o", "tables.txt", DEVICE, output="tables.txt")


@case
def a_full_disk_leaves_no_report():
    with scratch() as folder:
        result = orrery("analyze", "-q", "--only", "temporal_breakdown", "--html", "report.html", DEVICE, cwd=folder,
                        preexec_fn=room_for(10_000))
        line = one_line(result, 3)
        assert "File too large" in line and "report.html" in line, line
        assert list(folder.iterdir()) == [], list(folder.iterdir())


@case
def the_older_output_survives_a_full_disk():
    with scratch() as folder:
        (folder / "rank0.et").write_bytes(b"of yesterday")
        one_line(orrery("convert", "-q", DEVICE, "-o", "rank0.et", cwd=folder, preexec_fn=room_for(4096)), 3)
        assert (folder / "rank0.et").read_bytes() == b"of yesterday"
        assert len(list(folder.iterdir())) == 1


MACHINE = """schema: orrery.machine/1
cpu: one
isa: plain
when: before
cores: 2
read_bytes_per_s: 1
copy_bytes_per_s: 1
flops_fp32: 1
flops_bf16: 1
cache_bytes: 1
base_bytes: 1
kernels: []
transfers: []
"""


@case
def a_full_disk_is_not_measured():
    with scratch() as folder:
        (folder / "machine.yaml").write_text(MACHINE)
        (folder / "rows").mkdir()
        line = one_line(orrery("bench", "-q", "--quick", "--storage", "rows", "-o", "machine.yaml", cwd=folder,
                               preexec_fn=room_for(1 << 20)), 3)
        assert "File too large" in line and str(folder / "rows") in line and "allocated" in line, line
        assert (folder / "machine.yaml").read_text() == MACHINE
        assert list((folder / "rows").iterdir()) == []


@case
def a_folder_is_measured_and_left_as_it_was():
    with scratch() as folder:
        (folder / "machine.yaml").write_text(MACHINE)
        (folder / "rows").mkdir()
        if shutil.disk_usage(folder).free < 8 << 30:
            raise Skip("needs 8 GiB that are free")
        for _ in range(2):  # the second time it replaces what the first one found
            result = orrery("bench", "-q", "--quick", "--storage", "rows", "-o", "machine.yaml", "--format", "json",
                            cwd=folder)
            assert result.returncode == 0, result.stderr
            assert '"random_read"' in result.stdout and '"sync"' in result.stdout, result.stdout
            text = (folder / "machine.yaml").read_text()
            assert text.count("- path: ") == 1 and f"'{folder / 'rows'}'" in text and "cpu: 'one'" in text, text
            assert list((folder / "rows").iterdir()) == []


@case
def a_real_full_file_system():
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skip("needs root and unshare, for a small tmpfs")
    with scratch() as folder:
        script = ("mount -t tmpfs -o size=64k none . && cd . && cd \"$PWD\" && "
                  "\"$0\" convert -q \"$1\" -o rank0.et; code=$?; ls -A; exit $code")
        probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(folder)], capture_output=True,
                               check=False)
        if probe.returncode:
            raise Skip("mounting is not allowed here")
        from harness import BIN, environment
        result = subprocess.run(["unshare", "-m", "sh", "-c", script, BIN, str(DEVICE)], cwd=folder, text=True,
                                capture_output=True, check=False, env=environment())
        full(result)
        assert result.stdout == "", result.stdout


@case
def dev_full_as_standard_output():
    with open("/dev/full", "wb") as nowhere:
        full(orrery("analyze", "-q", PAIR, stdout=nowhere, stderr=subprocess.PIPE))
        full(orrery("info", "-q", DEVICE, stdout=nowhere, stderr=subprocess.PIPE))
        full(orrery("convert", "-q", "--to", "chakra", DEVICE, "-o", "-", stdout=nowhere, stderr=subprocess.PIPE))


@case
def dev_full_as_output():
    full(orrery("convert", "-q", "--to", "chakra", DEVICE, "-o", "/dev/full"))
    full(orrery("analyze", "-q", DEVICE, "-o", "/dev/full"))


@case
def dev_full_for_help_and_completion():
    with open("/dev/full", "wb") as nowhere:
        for args in (["--help"], ["--version"], ["help", "analyze"], ["analyze", "--help"], ["completion", "bash"],
                     ["analyze", "--only", "list", "x"], ["demo", "list"]):
            full(orrery(*args, stdout=nowhere, stderr=subprocess.PIPE))


def as_somebody():
    """Root may do everything: be nobody then."""
    if os.geteuid() != 0:
        return {}

    def become_nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        orrery("--version", preexec_fn=become_nobody, cwd="/")
    except PermissionError as error:
        raise Skip("nobody may not run the command here") from error
    return {"preexec_fn": become_nobody}


@case
def a_folder_that_may_not_be_written():
    with scratch() as folder:
        shutil.copy(DEVICE, folder / "rank0.json.gz")
        folder.chmod(0o555)
        result = orrery("convert", "-q", "rank0.json.gz", "-o", "a.et", cwd=folder, **as_somebody())
        assert one_line(result, 3) == "orrery: cannot write a.et: Permission denied"


@case
def an_input_that_may_not_be_read():
    with scratch() as folder:
        shutil.copy(DEVICE, folder / "rank0.json.gz")
        folder.chmod(0o755)
        (folder / "rank0.json.gz").chmod(0)
        line = one_line(orrery("info", "rank0.json.gz", cwd=folder, **as_somebody()), 3)
        assert "rank0.json.gz" in line and "Permission denied" in line, line


@case
def a_link_is_followed_and_stays():
    with scratch() as folder:
        (folder / "real.et").write_bytes(b"")
        (folder / "link.et").symlink_to("real.et")
        assert orrery("convert", "-q", DEVICE, "-o", "link.et", cwd=folder).returncode == 0
        assert (folder / "link.et").is_symlink() and (folder / "real.et").stat().st_size > 1000


main()
