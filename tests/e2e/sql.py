#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`orrery sql` beside those who write, and stopped in the middle; searches that are killed and go on."""
import contextlib
import csv
import io
import json
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import (BIN, BUILD, PATIENCE_S, SANITIZED, Skip, case, environment, main, one_line, orrery,  # noqa: E402
                     scratch, wait_for, wait_until_it_catches)

ENDLESS = "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


def database(path):
    """Open, with a write-ahead log as searches leave it."""
    made = sqlite3.connect(path, isolation_level=None)
    made.execute("PRAGMA journal_mode=WAL")
    made.execute("CREATE TABLE IF NOT EXISTS t(x)")
    return made


def rows(folder):
    result = orrery("sql", "a.db", "SELECT count(*) AS n FROM t", "-f", "csv", cwd=folder)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    return int(result.stdout.split()[1])


def running(pid):
    """It has used a little time of a core, so it is past its beginning."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12]) >= 20


def stopped_by(number, code):
    with scratch() as folder:
        database(folder / "a.db").close()
        with subprocess.Popen([BIN, "sql", "a.db", ENDLESS], cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_until_it_catches(process, number)
            wait_for(lambda: running(process.pid), "it does not run")
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out, err) == (code, "", ""), (process.returncode, out, err)
        assert [path.name for path in folder.iterdir()] == ["a.db"], list(folder.iterdir())


@case
def an_interrupt_ends_a_query_and_exits_130():
    stopped_by(signal.SIGINT, 130)


@case
def a_query_is_given_up_at_its_time_limit():
    with scratch() as folder:
        database(folder / "a.db").close()
        assert "--time-limit 50ms" in one_line(orrery("sql", "a.db", ENDLESS, "--time-limit", "50ms", cwd=folder), 3)
        assert "--time-limit" in one_line(orrery("sql", "a.db", ENDLESS, "--time-limit", "soon", cwd=folder), 2)
        assert orrery("sql", "a.db", "SELECT 1 AS n", "--time-limit", "1h", "-f", "csv", cwd=folder).stdout == "n\n1\n"


@case
def csv_for_spreadsheets_has_no_formulas():
    cells = ["=1+1", "+a", "-a", "@a", "\ta", "\ra", "a=1", "", '=cmd|"x",1']
    with scratch() as folder:
        base = database(folder / "a.db")
        base.execute("DELETE FROM t")
        base.executemany("INSERT INTO t VALUES(?)", [(cell,) for cell in [*cells, -1, 2.5]])
        base.close()
        plain, safe = (list(csv.reader(io.StringIO(orrery("sql", "a.db", "SELECT x FROM t ORDER BY rowid", "-f", "csv", *more,
                                                          cwd=folder).stdout, newline=""))) for more in ([], ["--csv-safe"]))
        texts = [row[0] if row else "" for row in plain[1:]]
        guarded = [row[0] if row else "" for row in safe[1:]]
        assert texts[:2] == cells[:2] and len(texts) == len(guarded) == len(cells) + 2, texts
        for text, after in zip(texts, guarded):
            runs = text[:1] in list("=+-@\t\n") and text != "-1"  # \r is read as \n
            assert after == ("'" + text if runs else text), (text, after)


@case
def a_termination_ends_a_query_and_exits_143():
    stopped_by(signal.SIGTERM, 143)


@case
def a_query_sees_what_is_committed_beside_a_writer_and_does_not_wait():
    with scratch() as folder:
        writer = database(folder / "a.db")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO t VALUES(1)")
        assert rows(folder) == 0
        writer.execute("COMMIT")
        assert rows(folder) == 1
        writer.execute("INSERT INTO t VALUES(2)")
        assert rows(folder) == 2
        writer.close()


@case
def what_a_killed_writer_left_in_its_log_is_read():
    program = ("import os, signal, sqlite3; d = sqlite3.connect('a.db', isolation_level=None); "
               "d.execute('PRAGMA journal_mode=WAL'); d.execute('CREATE TABLE t(x)'); "
               "d.execute('INSERT INTO t VALUES(1)'); d.execute('BEGIN'); d.execute('INSERT INTO t VALUES(2)'); "
               "os.kill(os.getpid(), signal.SIGKILL)")
    with scratch() as folder:
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=False)
        assert (folder / "a.db-wal").stat().st_size > 0
        assert rows(folder) == 1


def search_of(model, cluster, batch):
    """A search to its very end, whose answer does not depend on how it came to it."""
    return ["explore", model, "-c", cluster, "--batch", str(batch), "--exact", "-q", "-f", "json"]


SHORT = search_of("llama3.1-8b", "dgx_h100", 256)
# Of some seconds, so that there is time to kill it.
LONG = SHORT if SANITIZED else search_of("llama3.1-70b", "dgx_h100_pod", 1024)


def kept(path):
    """Plans that are simulated so far."""
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=PATIENCE_S)) as base:
        try:
            return base.execute("SELECT count(*) FROM plan WHERE step_ns > 0").fetchone()[0]
        except sqlite3.OperationalError:  # it is not there yet
            return 0


def counted(folder):
    """Plans that are simulated, with their steps; none while there is no file."""
    result = orrery("sql", "runs.db", "SELECT plan, step_ns FROM plan WHERE step_ns > 0", "-f", "json", cwd=folder)
    if result.returncode:
        return {}
    return {row["plan"]: row["step_ns"] for row in json.loads(result.stdout)["rows"]}


def answer(text):
    told = json.loads(text)
    return told["plan"], told["step_ns"], told["bound"], told["status"]


def killed_search(folder):
    """What stands after a search that was killed once it had simulated some plans."""
    with subprocess.Popen([BIN, *LONG, "--store", "runs.db"], cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_for(lambda: process.poll() is not None or kept(folder / "runs.db") >= 20, "no plans are kept")
        process.kill()
    return counted(folder)


@case
def a_search_that_was_killed_goes_on_and_keeps_what_it_had():
    with scratch() as folder:
        had = killed_search(folder)
        went_on = orrery(*LONG, "--store", "runs.db", "--resume", cwd=folder)
        has = counted(folder)
        assert all(has.get(plan) == step for plan, step in had.items())
        counts = {row["what"]: row["plans"] for row in json.loads(went_on.stdout)["tables"]["search"]["rows"]}
        assert counts["simulated"] == len(has) - len(had), (counts, len(had), len(has))
        progress = orrery("sql", "runs.db", "SELECT count(*) FROM search", "-f", "csv", cwd=folder)
        assert progress.stdout.split()[1] == "1", progress.stdout
        assert answer(went_on.stdout) == answer(orrery(*LONG, cwd=folder).stdout)


@case
def processes_of_mpirun_search_together():
    plugin = BUILD / "src" / "io" / "orrery_mpi.so"
    if not shutil.which("mpirun") or not plugin.exists():
        raise Skip("no mpirun here" if plugin.exists() else "built without MPI")
    with scratch() as folder:
        env = environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", ORRERY_MPI_PLUGIN=str(plugin),
                          ASAN_OPTIONS="detect_leaks=0")  # Open MPI leaks its own
        words = ' "$0" "$@" -o "$OMPI_COMM_WORLD_RANK.json"'
        result = subprocess.run(["mpirun", "--oversubscribe", "-n", "3", "sh", "-c", "exec" + words, BIN, *SHORT, "-j",
                                 "1", "--store", "runs.db"], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert result.returncode == 0, result.stderr
        alone = answer(orrery(*SHORT, cwd=folder).stdout)
        assert answer((folder / "0.json").read_text()) == alone
        for rank in "12":  # they may be silent, but not say anything else
            path = folder / f"{rank}.json"
            assert not path.exists() or answer(path.read_text()) == alone
        assert len(counted(folder)) > 20


main()
