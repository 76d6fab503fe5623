# SPDX-License-Identifier: Apache-2.0
"""make_database.py STATEMENTS.sql OUTPUT.db: a database for the cases of `orrery sql`."""
import pathlib
import sqlite3
import sys

with sqlite3.connect(sys.argv[2]) as database:
    database.executescript(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
