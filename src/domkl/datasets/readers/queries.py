"""Rows of a database: SQLite from the standard library, PostgreSQL through psycopg; nothing is written."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from ...base import checks
from ...base.budget import TABLE, Spent
from ...base.errors import DataError, InputError
from ...base.extras import need
from ...base.secret import HIDDEN, Secret, plain
from .rows import Raw, quickened

SQLITE = "sqlite:"
#: Bytes of a cell of SQLite, and its instructions between two looks at the clock.
LONGEST, STEPS = 2**20, 100_000
#: A server that vanishes while it is asked is given up after a minute; by default, after two hours.
KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
POSTGRES = ("postgresql://", "postgres://")
SQLITE_TABLES = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
POSTGRES_TABLES = "select table_name from information_schema.tables where table_schema = current_schema()"
#: Other spellings of an address, which may hold a password, too: no file is called so.
_ADDRESS = re.compile(r"postgres\w*[+:]|\w[\w+.-]+://", re.IGNORECASE)


def is_database(source: str) -> bool:
    """Whether a source is a database's address; refuses what is neither that nor a file."""
    if source.startswith((SQLITE, *POSTGRES)):
        return True
    if _ADDRESS.match(source):
        raise InputError(
            "an address is given that is neither a file's nor a database's; expected a file, sqlite:FILE or "
            "postgresql://user@host:port/name; write one of these"
        )
    return False


def name_of(source: str) -> str:
    """What people call a database: its own name, never its address, which may hold a password."""
    if source.startswith(SQLITE):
        return Path(source.removeprefix(SQLITE)).name
    source = plain(source)
    if {*source.partition("://")[2].rpartition("@")[0]} & {*"/?#[]"}:
        raise InputError(  # which parsers would take for a host, a port or a name, and show
            "the PostgreSQL address has one of / ? # [ ] before its @; expected a password with %2F %3F %23 "
            "%5B %5D in their place; write it so, or leave it to ~/.pgpass"
        )
    try:
        return urlsplit(source).path.strip("/") or "PostgreSQL"
    except ValueError:
        raise _no_address() from None


def address(source: str) -> str:
    """A source as it is kept: a server's address shows its database's name alone."""
    text = plain(source)
    return Secret(text, f"{POSTGRES[0]}{HIDDEN}/{name_of(text)}") if text.startswith(POSTGRES) else text


def _no_address() -> InputError:
    """Says nothing about what is wrong, as that may be the password."""
    return InputError(
        "the PostgreSQL address cannot be read; expected postgresql://user@host:port/name, with %20 for a "
        "blank and %25 for %; write it so, and leave the password to ~/.pgpass"
    )


def file_of(source: str) -> str:
    """The path of a file that is named as it is, or as a SQLite database."""
    return source.removeprefix(SQLITE).removeprefix("//") if source.startswith(SQLITE) else source


def anchored(source: str, folder: Path) -> str:
    """The same with the path of a file as seen from `folder`; a server's address stays as it is."""
    if source.startswith(SQLITE):
        return f"{SQLITE}{folder / file_of(source)}"
    return source if is_database(source) else str(folder / source)


def read(source: str, query: str, max_rows: int | None = None) -> Raw:
    """The rows of a query; without one, of the only table."""
    if source.startswith(SQLITE):
        path = Path(file_of(source))
        spent = Spent(path.name, clock=time.monotonic)
        with _sqlite(path, spent) as connection:
            query = query or _only(path.name, connection, SQLITE_TABLES)
            return _rows(spent, connection.cursor(), query, max_rows)
    name = name_of(source)
    with _postgres(source, name) as connection:
        query = query or _only(name, connection, POSTGRES_TABLES)
        try:
            return _selected(name, connection, query, max_rows)
        except need("psycopg", "postgres").DataError as error:
            if error.sqlstate is not None:  # of the server
                raise
        _take_times_as_text(connection)
        return _selected(name, connection, query, max_rows)


def _selected(name: str, connection: Any, query: str, max_rows: int | None) -> Raw:
    with connection.cursor(name="domkl") as cursor:  # one with a name takes one select, and nothing else
        return _rows(Spent(name, clock=time.monotonic), cursor, query, max_rows)


def _take_times_as_text(connection: Any) -> None:
    """Leave times as they are, since one is none of Python's, such as 'infinity', and only its row is bad."""
    text = need("psycopg.types.string", "postgres").TextLoader
    connection.rollback()
    connection.execute("set datestyle to iso")
    for kind in ("date", "timestamp", "timestamptz", "interval"):
        connection.adapters.register_loader(kind, text)


def _only(name: str, connection: Any, query: str) -> str:
    tables = [str(row[0]) for row in connection.execute(query)]
    if len(tables) == 1:
        quoted = tables[0].replace('"', '""')
        return f'select * from "{quoted}"'
    shown = checks.short(", ".join(tables))
    raise InputError(
        f"{name} has {len(tables)} tables ({shown}) and no query is given; expected one of the rows to read; "
        'add --query "select ..." (query=)'
    )


def _rows(spent: Spent, cursor: Any, query: str, max_rows: int | None) -> Raw:
    name = spent.name
    cursor.execute(query)
    if cursor.description is None:
        raise InputError(f"{name}: the query gives no rows; expected a select; write one")
    names = [str(each[0]) for each in cursor.description]
    if len(set(names)) < len(names):
        raise InputError(f"{name}: two columns of the query have one name; expected others; use AS")
    rows = []
    for row in islice(cursor, max_rows):
        spent.row(len(row))
        spent.size(sum(len(cell) for cell in row if isinstance(cell, (str, bytes))))
        spent.check_time()
        rows.append(row)
    cells = zip(*rows, strict=True) if rows else [()] * len(names)
    found = dict(zip(names, map(list, cells), strict=True))
    return Raw(name, quickened(found), range(1, len(rows) + 1), "row", format="a query")


@contextlib.contextmanager
def _sqlite(path: Path, spent: Spent) -> Iterator[Any]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            connection.set_authorizer(_no_other_file)
            connection.set_progress_handler(lambda: spent.is_overdue, STEPS)
            if sys.version_info >= (3, 11):
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            yield connection
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
        spent.check_time()
        is_busy = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
        remedy = (
            "expected a moment without a writer; try again when the other program has written"
            if is_busy
            else "expected a SQLite database and a select; fix them"
        )
        raise DataError(f"{path}: {_line(error)}; {remedy}") from None


def _no_other_file(action: int, *about: str | None) -> int:
    """ATTACH, and VACUUM INTO with it, would make files, whatever the database itself may be opened for."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


@contextlib.contextmanager
def _postgres(address: str, name: str) -> Iterator[Any]:
    psycopg = need("psycopg", "postgres")
    try:
        psycopg.conninfo.conninfo_to_dict(plain(address))
    except psycopg.ProgrammingError:
        raise _no_address() from None
    try:
        alive = {} if "keepalives" in plain(address) else KEEPALIVE
        about = {"connect_timeout": 10, "client_encoding": "utf8", **alive}
        with psycopg.connect(plain(address), **about) as connection:
            connection.read_only = True
            connection.execute(f"set statement_timeout = {int(1000 * TABLE.seconds)}")
            connection.commit()  # else it ends with the first transaction
            yield connection
    except (psycopg.Error, UnicodeError) as error:
        fact = _line(error)
        raise DataError(f"{name}: {fact}; expected a PostgreSQL server and a select; fix them") from None


def _line(error: Exception) -> str:
    return checks.short(" ".join(str(error).split()) or type(error).__name__).strip("'\"")
