#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is installed is whole, and a program of someone else builds and runs against it."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import BUILD, EXAMPLES, SANITIZED, SOURCE, Skip, case, environment, main  # noqa: E402

PROGRAM = r"""
#include <stdio.h>

#include <orrery/orrery.h>

int main(int argc, char **argv)
{
    orr_error err;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job = NULL;
    const orr_job_file *files;
    const orr_temporal *rows;
    size_t n_files, n_rows;
    const char *const paths[] = {argv[argc - 1]};

    if (orr_job_read(paths, 1, NULL, arena, &job, &files, &n_files, &err) != ORR_OK ||
        orr_analyze_temporal(job, NULL, arena, &rows, &n_rows, &err) != ORR_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("orrery %s: %zu files, %zu ranks\n", orr_version(), n_files, n_rows);
    orr_job_free(job);
    orr_arena_free(arena);
    return 0;
}
"""
state = {}


def run(*command, **more):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                            env=more.pop("env", environment()), **more)
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


def installed():
    """The prefix inside a staged tree, made once."""
    if "prefix" not in state:
        if not shutil.which("meson"):
            raise Skip("meson is not in the path")
        stage = state["stage"] = pathlib.Path(tempfile.mkdtemp(prefix="orrery-install-"))
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", stage)
        found = list(stage.rglob("bin/orrery"))
        assert len(found) == 1, found
        state["prefix"] = found[0].parent.parent
    return state["prefix"]


def one(pattern):
    found = list(installed().rglob(pattern))
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


def shared_library():
    found = list(installed().rglob("liborrery.so.0"))
    if not found:
        raise Skip("this build has no shared library")
    return found[0]


def pkg_config(*words):
    pc = one("orrery.pc")
    return run("pkg-config", f"--define-variable=prefix={installed()}", *words, "orrery",
               env=environment(PKG_CONFIG_PATH=str(pc.parent))).split()


def build_and_run(folder, flags, compiler="cc", suffix=".c", **env):
    if SANITIZED:
        raise Skip("a sanitized library needs a sanitized program")
    if not shutil.which(compiler):
        raise Skip(f"{compiler} is not installed")
    source = folder / f"program{suffix}"
    source.write_text(PROGRAM)
    run(compiler, "-Wall", "-Werror", source, "-o", folder / "program", *flags)
    said = run(folder / "program", EXAMPLES / "mlp_ddp_gloo_w2", env=environment(**env))
    version = pkg_config("--modversion")[0]
    assert said == f"orrery {version}: 4 files, 2 ranks\n", said


def in_scratch(body):
    with tempfile.TemporaryDirectory(prefix="orrery-program-") as folder:
        body(pathlib.Path(folder))


@case
def every_file_is_there():
    prefix = installed()
    for path in ("bin/orrery", "share/man/man1/orrery.1", "share/bash-completion/completions/orrery",
                 "share/zsh/site-functions/_orrery", "share/fish/vendor_completions.d/orrery.fish"):
        assert (prefix / path).stat().st_size > 500, path
    assert one("orrery.pc").parent.name == "pkgconfig"
    assert {path.relative_to(prefix) for path in (prefix / "include").rglob("*.h*")} == \
        {path.relative_to(SOURCE) for path in (SOURCE / "include").rglob("*.h*")}
    assert one("liborrery.a").stat().st_size > 100_000
    examples = prefix / "share" / "orrery" / "examples"
    wanted = {path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*") if path.is_file()}
    assert {path.relative_to(examples) for path in examples.rglob("*") if path.is_file()} == wanted
    catalog = prefix / "share" / "orrery" / "catalog"
    assert {path.relative_to(catalog) for path in catalog.rglob("*.yaml")} == \
        {path.relative_to(SOURCE / "catalog") for path in (SOURCE / "catalog").rglob("*.yaml")}


@case
def nothing_else_is_there():
    prefix = installed()
    known = re.compile(r"bin/orrery|include/orrery/\w+\.h|include/orrery/chakra/et_feeder\.hpp|lib/.*liborrery\.(a|so[.\d]*)|lib/.*pkgconfig/orrery\.pc|"
                       r"lib/.*orrery/orrery_mpi\.so|lib64/.*|share/man/man1/orrery\.1|share/bash-completion/completions/orrery|"
                       r"share/zsh/site-functions/_orrery|share/fish/vendor_completions\.d/orrery\.fish|"
                       r"share/orrery/(examples|catalog)/.*")
    others = [str(path.relative_to(prefix)) for path in prefix.rglob("*")
              if not path.is_dir() and not known.fullmatch(str(path.relative_to(prefix)))]
    assert not others, others


@case
def the_installed_command_finds_its_examples():
    command = installed() / "bin" / "orrery"
    with tempfile.TemporaryDirectory() as folder:
        said = run(command, "demo", "-q", "--only", "temporal_breakdown", "--format", "csv", cwd=folder)
        assert len(said.splitlines()) == 3, said
        listed = run(command, "demo", "list", cwd=folder).split()
        recordings = sorted(path.name for path in EXAMPLES.iterdir())
        assert listed[:len(recordings)] == recordings and all(name.startswith("llama3") for name in
                                                              listed[len(recordings):])


@case
def the_installed_command_needs_no_library_of_ours():
    needed = run("readelf", "-d", installed() / "bin" / "orrery")
    assert "liborrery" not in needed and "RUNPATH" not in needed, needed


@case
def a_program_links_the_shared_library():
    library = shared_library()
    in_scratch(lambda folder: build_and_run(folder, pkg_config("--cflags", "--libs"),
                                            LD_LIBRARY_PATH=str(library.parent)))


@case
def a_cxx_program_links_the_shared_library():
    library = shared_library()
    in_scratch(lambda folder: build_and_run(folder, ["-std=c++17", *pkg_config("--cflags", "--libs")], "c++", ".cc",
                                            LD_LIBRARY_PATH=str(library.parent)))


@case
def a_program_links_the_static_library():
    flags = [flag.replace("-lorrery", "-l:liborrery.a") for flag in pkg_config("--static", "--cflags", "--libs")]
    in_scratch(lambda folder: build_and_run(folder, flags))


@case
def a_program_links_everything_statically():
    in_scratch(lambda folder: build_and_run(folder, ["-static", *pkg_config("--static", "--cflags", "--libs")]))


@case
def the_soname_is_liborrery_so_0():
    assert "soname: [liborrery.so.0]" in run("readelf", "-d", shared_library())


def declared():
    """Functions that the public headers declare."""
    names = set()
    for header in (SOURCE / "include" / "orrery").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        text = re.sub(r"^\s*#.*(?:\\\n.*)*$", "", text, flags=re.M)
        for statement in re.findall(r"\bORR_API\b[^;{]*", text):
            statement = re.sub(r"\bORR_(?:API|MUST_CHECK|PRINTF\([^)]*\))", "", statement)
            names.update(re.findall(r"\b(orr_\w+)\s*\(", statement)[:1])
    return names


@case
def the_shared_library_shows_what_the_headers_declare_and_no_more():
    lines = run("nm", "-D", "--defined-only", shared_library()).splitlines()
    shown = {line.split()[-1] for line in lines}
    assert all(name.startswith("orr_") for name in shown), sorted(shown)
    wanted = declared()
    assert len(wanted) > 50, wanted
    assert shown == wanted, f"not declared: {sorted(shown - wanted)}; not defined: {sorted(wanted - shown)}"


@case
def the_installed_headers_compile_alone():
    include = installed() / "include"
    for header in sorted((include / "orrery").glob("*.h")):
        run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{include}", "-fsyntax-only", "-xc", header)


@case
def nothing_installed_names_the_folder_it_was_built_in():
    if SANITIZED:
        raise Skip("a sanitized build says where its lines are from")
    for path in installed().rglob("*"):
        if path.is_file() and path.suffix not in (".gz", ".a"):
            assert str(SOURCE).encode() not in path.read_bytes(), path


try:
    main()
finally:
    shutil.rmtree(state.get("stage", "/nonexistent"), ignore_errors=True)
