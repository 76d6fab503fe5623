#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Archives of a job read as folders: the same answers, and what is wrong named with its member."""
import gzip
import io
import pathlib
import struct
import sys
import tarfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import EXAMPLES, Skip, case, environment, main, one_line, orrery, scratch  # noqa: E402

JOB = EXAMPLES / "mlp_ddp_gloo_w2"


def recordings():
    found = sorted(path for path in JOB.iterdir() if ".json" in path.name)
    assert len(found) == 4, found
    return found


def needs_libarchive(folder):
    with tarfile.open(folder / "asked.tar", "w") as tar:
        tar.add(JOB, "job")
    result = orrery("validate", folder / "asked.tar")
    if "this build has none" in result.stderr or "is not installed" in result.stderr:
        raise Skip("no libarchive")


def add(tar, name, content, **more):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(content))


def zstd_raw(content):
    """A zstd frame of stored blocks (RFC 8878, 3.1.1): without a compressor."""
    out = struct.pack("<IB", 0xFD2FB528, 0xA0) + struct.pack("<I", len(content))
    blocks = [content[i:i + 100_000] for i in range(0, len(content), 100_000)]
    for i, block in enumerate(blocks):
        out += struct.pack("<I", len(block) << 3 | (i == len(blocks) - 1))[:3] + block
    return out


def whole(folder, name="job.tgz"):
    with tarfile.open(folder / name, "w:gz") as tar:
        tar.add(JOB, "job")
    return folder / name


def analysed(path, *more):
    result = orrery("analyze", path, "--format", "json", *more)
    assert result.returncode == 0, result.stderr
    return result.stdout


def fails(path, code=3):
    return one_line(orrery("analyze", path), code)


@case
def every_kind_of_archive_says_what_the_folder_says():
    want = analysed(JOB)
    with scratch() as folder:
        needs_libarchive(folder)
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w") as tar:
            for path in reversed(recordings()):
                tar.add(path, "./" + path.name)
            add(tar, "job/notes.txt", b"of no known format")
            add(tar, "__MACOSX/._rank0.json", b"resource fork")
            add(tar, "job/.hidden.json", b"")
        (folder / "job.tar").write_bytes(plain.getvalue())
        (folder / "named-otherwise").write_bytes(gzip.compress(plain.getvalue()))
        (folder / "job.tar.zst").write_bytes(zstd_raw(plain.getvalue()))
        whole(folder)
        with zipfile.ZipFile(folder / "job.zip", "w", zipfile.ZIP_DEFLATED) as z:
            for path in recordings():
                z.write(path, "job/" + path.name)
        for name in ("job.tar", "named-otherwise", "job.tar.zst", "job.tgz", "job.zip"):
            for threads in ("1", "4"):
                assert analysed(folder / name, "-j", threads) == want, name
        assert analysed(str(folder / "job.t[g]z")) == want
        twice = orrery("validate", folder / "job.tgz", folder / "job.tgz")
        assert twice.returncode == 0 and "4 files, no fault" in twice.stdout, twice.stdout


@case
def a_member_is_a_path_of_its_own():
    with scratch() as folder:
        needs_libarchive(folder)
        archive = whole(folder)
        for path in recordings():
            member = orrery("validate", f"{archive}/job/{path.name}")
            alone = orrery("validate", path)
            assert member.returncode == alone.returncode == 1 and "1 of 2 ranks is missing" in alone.stdout
            assert member.stdout.replace(f"{archive}/job", str(JOB)) == alone.stdout
        assert "no such member" in fails(f"{archive}/job/rank7.json")


@case
def without_the_library_it_is_said():
    with scratch() as folder:
        needs_libarchive(folder)
        (folder / "libarchive.so.13").write_bytes(b"")
        environ = dict(environment(), LD_LIBRARY_PATH=str(folder))
        line = one_line(orrery("analyze", whole(folder), env=environ), 3)
        assert "job.tgz: archives need libarchive (libarchive13), which is not installed" in line, line
        assert orrery("analyze", JOB, env=environ).returncode == 0


@case
def what_cannot_be_read_is_named():
    with scratch() as folder:
        needs_libarchive(folder)
        for name, content, word in (("rank1.json", b"", "rank1.json is empty"),
                                    ("rank1.json", b"garbage", "rank1.json cannot be read (it is no JSON)"),
                                    ("rank1.json.gz", gzip.compress(b"{" * 99)[:-20] + b"\xff" * 20, "rank1.json.gz")):
            with tarfile.open(folder / "bad.tgz", "w:gz") as tar:
                tar.add(recordings()[0], "rank0.json")
                add(tar, name, content)
            line = fails(folder / "bad.tgz")
            assert "bad.tgz/" in line and word in line, line
        with tarfile.open(folder / "two.tgz", "w:gz") as tar:
            for where in "ab":
                tar.add([p for p in recordings() if "kineto" in p.name or "rank0" in p.name][0], f"{where}/rank0.json")
        line = fails(folder / "two.tgz")
        assert "2 recordings of rank 0" in line and "a/rank0.json" in line and "b/rank0.json" in line, line
        with tarfile.open(folder / "none.tgz", "w:gz") as tar:
            add(tar, "readme.txt", b"nothing here")
        assert "the archive has no recording" in fails(folder / "none.tgz")


@case
def hostile_names_links_and_nesting_are_refused():
    with scratch() as folder:
        needs_libarchive(folder)
        good = recordings()[0].read_bytes()
        for name in ("../rank0.json", "/etc/rank0.json", "a/../../rank0.json", "c:\\rank0.json", "a\\..\\rank0.json",
                     "rank\x1b[2J0.json", "rank\n0.json"):
            with tarfile.open(folder / "evil.tar", "w") as tar:
                add(tar, name, good)
            line = fails(folder / "evil.tar")
            assert "member 0 (" in line and "is refused: its name" in line and "\x1b" not in line, line
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            with tarfile.open(folder / "link.tar", "w") as tar:
                add(tar, "rank0.json", good)
                add(tar, "rank1.json", b"", type=kind, linkname="/etc/passwd")
            assert "rank1.json is a link" in fails(folder / "link.tar")
        with tarfile.open(folder / "nested.tar", "w") as tar:
            add(tar, "rank0.json", good)
            add(tar, "inner.tgz", whole(folder).read_bytes())
        assert "inner.tgz is an archive in an archive" in fails(folder / "nested.tar")
        with tarfile.open(folder / "twice.tar", "w") as tar:
            add(tar, "rank0.json", good)
            add(tar, "rank0.json", good)
        assert "rank0.json stands in the archive twice" in fails(folder / "twice.tar")


@case
def bombs_are_refused_before_they_unpack():
    with scratch() as folder:
        needs_libarchive(folder)
        with tarfile.open(folder / "bomb.tgz", "w:gz") as tar:
            add(tar, "rank0.json", recordings()[0].read_bytes())
            add(tar, "zeros", bytes(100 << 20))
        assert "500 times its size" in fails(folder / "bomb.tgz")
        # A tar that declares a terabyte and holds nothing.
        header = tarfile.TarInfo("rank0.json")
        header.size = 1 << 40
        (folder / "claims.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + b"{" * 4096)
        assert "500 times its size" in fails(folder / "claims.tar")
        # A zip whose directory says that a member is small.
        with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("rank0.json", b"[" + b" " * (100 << 20) + b"]")
        assert "500 times its size" in fails(folder / "bomb.zip")


@case
def truncation_and_corruption_never_crash_and_name_the_archive():
    with scratch() as folder:
        needs_libarchive(folder)
        with zipfile.ZipFile(folder / "job.zip", "w", zipfile.ZIP_DEFLATED) as z:
            for path in recordings():
                z.write(path, path.name)
        for source in (whole(folder), folder / "job.zip"):
            content = source.read_bytes()
            n = len(content)
            broken = folder / ("broken" + source.suffix)
            for k in range(1, 12):
                broken.write_bytes(content[:n * k // 12])
                assert str(broken) in fails(broken)
            for k in range(1, 12):
                at = n * k // 12
                broken.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1:])
                result = orrery("analyze", broken)
                assert result.returncode in (0, 3), (k, result)
                if result.returncode == 3:
                    one_line(result, 3)


@case
def encrypted_members_are_named():
    with scratch() as folder:
        needs_libarchive(folder)
        with zipfile.ZipFile(folder / "job.zip", "w", zipfile.ZIP_STORED) as z:
            z.writestr("rank0.json", b"x" * 64)
        content = bytearray((folder / "job.zip").read_bytes())
        content[6] |= 1  # the flag, in the member's own header and in the directory
        content[content.index(b"PK\x01\x02") + 8] |= 1
        (folder / "job.zip").write_bytes(content)
        line = fails(folder / "job.zip")
        assert "job.zip/rank0.json cannot be read (it is encrypted)" in line, line


if __name__ == "__main__":
    main()
