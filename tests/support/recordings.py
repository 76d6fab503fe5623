# SPDX-License-Identifier: Apache-2.0
"""Recordings of another profiler, made of those of Kineto: both must say the same."""
import decimal
import gzip
import json

from harness import SHARED, SOURCE, Skip, case, one_line, orrery, scratch

BUNDLED = [SOURCE / "tests/golden/inputs/two_ranks" / f"rank{r}.json" for r in (0, 1)]


def fails(path, *more):
    return one_line(orrery("analyze", path, *more), 3)


class Recordings:
    """`form`: a module with reduced(recording), what the format can say of it, and write(path, recording);
    `ending`: of its files; `real`: names of shared Kineto traces."""

    def __init__(self, form, ending, real):
        self.form, self.ending, self.real = form, ending, real

    def reduced(self, path):
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode(errors="replace")
        return self.form.reduced(json.loads(text, strict=False, parse_float=decimal.Decimal))

    def said(self, command, path, *more):
        result = orrery(command, path, "--format", "json", *more)
        assert result.returncode == 0, result.stderr
        return result.stdout.replace(self.ending, ".json")

    def says_the_same(self, path):
        recording = self.reduced(path)
        with scratch() as folder:
            for kind in ("json", "other"):
                (folder / kind).mkdir()
            (folder / "json" / "rank0.json").write_text(json.dumps(recording))
            self.form.write(folder / "other" / f"rank0{self.ending}", recording)
            for command in (["analyze", "--all"], ["predict", "--host-speed", "2"]):
                want = self.said(command[0], folder / "json" / "rank0.json", *command[1:])
                got = self.said(command[0], folder / "other" / f"rank0{self.ending}", *command[1:])
                assert got.replace("/other/", "/json/") == want, (path, command)

    def cases(self):
        """Two cases: the bundled recordings, and the shared ones."""
        @case
        def the_bundled_recordings_say_the_same():
            for path in BUNDLED:
                self.says_the_same(path)

        @case
        def real_recordings_say_the_same():
            if SHARED is None:
                raise Skip("the shared traces are not here")
            for name in self.real:
                self.says_the_same(SHARED / "data" / "traces" / "kineto" / f"{name}.json.gz")

    def truncation_and_corruption_never_crash(self):
        with scratch() as folder:
            path, broken = folder / f"rank0{self.ending}", folder / f"broken{self.ending}"
            self.form.write(path, self.reduced(BUNDLED[0]))
            content = path.read_bytes()
            n = len(content)
            for k in range(1, 24):
                broken.write_bytes(content[:n * k // 24])
                fails(broken)
                at = n * k // 24
                broken.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) * 3 + content[at + 3:])
                result = orrery("analyze", broken)
                if result.returncode != 0:
                    one_line(result, 3)
