#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster of one's own: asked for on a terminal or given by options, and then used; devices of the catalogue, their
plans and their prices."""
import fcntl
import json
import os
import pathlib
import pty
import subprocess
import sys
import termios

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import BIN, PATIENCE_S, case, environment, main, one_line, orrery, scratch  # noqa: E402

ALL = [row["name"] for row in
       json.loads(orrery("hw", "--format", "json").stdout)["tables"]["devices"]["rows"]]
NEW = ["tpu_v5e", "tpu_v6e", "tpu_v7x", "trainium1", "trainium2", "trainium3", "gaudi3_128g", "mi325x_256g", "mi355x_288g",
       "h20_sxm_96g", "h800_sxm_80g", "a800_sxm_80g", "l40s_48g", "mtia_v1", "mtia_v2", "gb300_288g", "ascend_910c_128g"]


def on_a_terminal(folder, answers, *args):
    """What is asked and said, and the exit status; `answers` are typed as they are."""
    terminal, inside = pty.openpty()

    def in_front():  # of the terminal, so that ^C is for it
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen([BIN, "hw", "--new", *args], cwd=folder, stdin=inside, stdout=subprocess.PIPE, stderr=inside,
                               env=environment(TERM="dumb"), preexec_fn=in_front)
    os.close(inside)
    said = os.read(terminal, 4096)  # the first question
    os.write(terminal, answers.encode())
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # its last process has ended
            break
        if not part:
            break
        said += part
    out = process.stdout.read()
    code = process.wait(timeout=PATIENCE_S)
    os.close(terminal)
    return said.decode(), out.decode(), code


def understood(folder, name="mine.yaml"):
    result = orrery("hw", name, "--format", "json", cwd=folder)
    assert result.returncode == 0, result.stderr
    return [(r["level"], r["size"], r["technology"], r["bandwidth_bytes_per_s"])
            for r in json.loads(result.stdout)["tables"]["levels"]["rows"]]


@case
def a_terminal_is_asked():
    with scratch() as folder:
        said, out, code = on_a_terminal(
            folder, "h100\nH100 SXM\nmany\n1024\n7\n8\n\nInfiniBand\nInfiniBand NDR\n3\n2\nfar\n10km\n", "mine.yaml")
        assert code == 0 and out == "", (said, out)
        for words in ("which device [h100_sxm_80g]: ", "did you mean 'h100_sxm_80g', 'h100_pcie_80g'", "'many'",
                      "1024 devices are not whole hosts of 7", "(a link, or a bandwidth one way) [NVLink4]: ",
                      "did you mean 'IB EDR 4x'", "as many of the 128 hosts in each", "'far' is not a distance",
                      "mine.yaml: 1024 h100_sxm_80g"):
            assert words in said, (words, said)
        assert understood(folder) == [("host", 8, "NVLink4", 450e9), ("building", 64, "IB NDR 4x", 50e9),
                                      ("region", 2, "IB NDR 4x", 50e9)]
        text = (folder / "mine.yaml").read_text()
        assert "distance: 10km" in text and text.count("(assumed)") == 1 and "(assumed)\n" in text, text


@case
def enter_takes_what_is_usual_and_options_are_not_asked_for():
    with scratch() as folder:
        said, _, code = on_a_terminal(folder, "\n" * 9, "a.yaml", "--gpus", "64", "--device", "gb300")
        assert code == 0 and "how many of them" not in said and "which device" not in said, said
        result = orrery("hw", "--new", "b.yaml", "--gpus", "64", "--device", "GB300", cwd=folder)
        assert result.returncode == 0, result.stderr
        assert (folder / "a.yaml").read_text() == (folder / "b.yaml").read_text()
        said, out, code = on_a_terminal(folder, "\n" * 9, "-q")
        assert code == 0 and out == orrery("hw", "--new").stdout and out.startswith("# 64 devices"), out


@case
def who_stops_writes_nothing():
    with scratch() as folder:
        said, _, code = on_a_terminal(folder, "\n\n\x04", "mine.yaml")
        assert code == 3 and "no answer, and nothing is written" in said, (code, said)
        _, _, code = on_a_terminal(folder, "\n\n\x03", "mine.yaml")
        assert code in (130, -2), code
        assert list(folder.iterdir()) == []


@case
def nothing_is_overwritten_unasked():
    with scratch() as folder:
        path = folder / "mine.yaml"
        path.write_text("precious")
        text = one_line(orrery("hw", "--new", "mine.yaml", cwd=folder), 3)
        assert "mine.yaml is there already; --force writes over it" in text, text
        assert path.read_text() == "precious"
        result = orrery("hw", "--new", "mine.yaml", "--force", "--device", "nothing like it", cwd=folder)
        assert result.returncode == 3 and path.read_text() == "precious", result
        assert orrery("hw", "--new", "mine.yaml", "--force", "--link", "100GB/s", cwd=folder).returncode == 0
        assert understood(folder)[0] == ("host", 8, "", 100e9)
        assert [p.name for p in folder.iterdir()] == ["mine.yaml"]


@case
def a_file_of_each_device_loads_and_is_simulated_on():
    assert set(NEW) <= set(ALL), set(NEW) - set(ALL)
    with scratch() as folder:
        for device in ALL:
            made = ["hw", "--new", f"{device}.yaml", "--device", device, "--gpus", "4", "--per-host", "4"]
            result = orrery(*made, cwd=folder)
            if result.returncode == 3:
                assert f"--link is needed: of '{device}' nobody says it" in result.stderr, result.stderr
                result = orrery(*made, "--link", "100GB/s", cwd=folder)
            assert result.returncode == 0, (device, result.stderr)
            assert understood(folder, f"{device}.yaml")[0][1] == 4, device
            if device not in NEW:
                continue
            result = orrery("simulate", "gpt2", "-c", f"{device}.yaml", "--plan", "dp=4,batch=64", cwd=folder)
            assert result.returncode == 0 and f"on 4 of mine ({device})" in result.stdout, (device, result)
            if device not in ("gb300_288g", "h800_sxm_80g"):  # these were fitted; what others borrow is assumed
                assert "assumed  100.0 %" in result.stdout, (device, result.stdout)
                borrowed = orrery("hw", device, "--calibration", "--format", "json").stdout
                assert "of another device" in borrowed, device
            best = orrery("explore", "gpt2", "-c", f"{device}.yaml", "--format", "json", "-q", cwd=folder)
            assert best.returncode == 0, (device, best.stderr)
            best = json.loads(best.stdout)
            assert best["plan"] and best["complete"], (device, best["status"])


@case
def a_pod_of_each_kind_is_simulated_on():
    for pod in ("tpu_v5e_pod", "tpu_v5p_pod", "tpu_v6e_pod", "tpu_v7x_pod", "trn2_ultraserver", "trn3_ultraserver",
                "gaudi3_x8", "mi325x_x8", "mi355x_x8", "gb300_nvl72", "cloudmatrix384", "h20_x8", "a800_x8", "l40s_x4",
                "mtia_v2_chassis"):
        result = orrery("simulate", "gpt2", "-c", pod, "--plan", "dp=4,tp=1,batch=64")
        assert result.returncode == 0, (pod, result.stderr)


def cost(*args, cwd=None):
    result = orrery("explore", "gpt2", "--objective", "cost", "--format", "json", *args, cwd=cwd)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    return answer["value"], answer["devices"] * answer["step_ns"] / 3600e9, result.stderr


@case
def a_cloud_says_what_a_device_costs():
    usd, hours, said = cost("-c", "dgx_h100")
    assert abs(usd / hours - 10) < 1e-9 and "h100_sxm_80g at 10 USD an hour (Oracle Cloud" in said, (usd, hours, said)
    usd, hours, said = cost("-c", "dgx_h100", "--price", "2.5")
    assert abs(usd / hours - 2.5) < 1e-9 and "Oracle" not in said, (usd, hours, said)
    with scratch() as folder:
        (folder / "two.yaml").write_text("""
clusters:
  two:
    device: h100_sxm_80g
    levels: [{name: host, size: 8, technology: NVLink4}]
    sites: [{name: a, region: r, devices: 8, price: 3}, {name: b, region: r, devices: 8, device: MI300X}]
    cuts: [{between: sites, distance: 1km, bandwidth: 400Gbps}]
""")
        usd, hours, _ = cost("-c", "two.yaml", "--max-sites", "1", cwd=folder)
        assert abs(usd / hours - 3) < 1e-9 or abs(usd / hours - 6) < 1e-9, (usd, hours)
        made = orrery("hw", "--new", "none.yaml", "--device", "h20_sxm_96g", "--gpus", "8", cwd=folder)
        assert made.returncode == 0
        text = one_line(orrery("explore", "gpt2", "-c", "none.yaml", "--objective", "cost", "-q", cwd=folder), 2)
        assert "is not known: give a price" in text, text


if __name__ == "__main__":
    main()
