"""What a pass over a large file must remember, in a temporary database instead of in memory."""

from __future__ import annotations

import hashlib
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from memdecay.classifier.errors import StorageError

CACHE_KIBIBYTES = 8 * 1024


def text_key(text: str) -> bytes:
    """Return 16 bytes that stand for a text, lone surrogates included."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class TemporaryDatabase:
    """Tables in a file that the system deletes when it is closed; memory holds a small cache.

    The file lies where SQLite puts its temporary files: in ``SQLITE_TMPDIR`` or ``TMPDIR``, else
    in the system's folder for them. It is made only when the cache does not suffice.
    """

    def __init__(self) -> None:
        with _disk_errors():
            self._connection = sqlite3.connect("", isolation_level=None)
            # Nothing of it is to survive a crash, so nothing is journalled or committed.
            for pragma in ("journal_mode=OFF", "synchronous=OFF"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute(f"PRAGMA cache_size=-{CACHE_KIBIBYTES}")
            self._connection.execute("BEGIN")

    def __enter__(self) -> Self:
        """Return the database."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close and delete the database."""
        self.close()

    def close(self) -> None:
        """Delete the database with all its tables."""
        self._connection.close()

    def sightings(self, name: str) -> Sightings:
        """Return a new table of keys."""
        return Sightings(self._connection, name)

    def lists(self, name: str) -> TextLists:
        """Return a new table of texts."""
        return TextLists(self._connection, name)


class Sightings:
    """Where keys were seen first, and how often.

    Args:
        connection: The database.
        name: The table's name, one in the database.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._find = f'SELECT first FROM "{name}" WHERE key = ?'
        self._add = (
            f'INSERT INTO "{name}" VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1'
        )
        self._often = f'SELECT first, count FROM "{name}" WHERE count >= ? ORDER BY first'
        with _disk_errors():
            connection.execute(
                f'CREATE TABLE "{name}" (key BLOB PRIMARY KEY, first INTEGER, count INTEGER)'
                " WITHOUT ROWID"
            )

    def add(self, keys: Iterable[bytes], number: int) -> None:
        """Note that keys were seen in line ``number``."""
        with _disk_errors():
            self._connection.executemany(self._add, ((key, number) for key in keys))

    def first(self, key: bytes) -> int:
        """Return the line in which a key was seen first, 0 if in none."""
        return next(iter(self.firsts((key,))), 0)

    def firsts(self, keys: Iterable[bytes]) -> list[int]:
        """Return the lines in which keys were seen first; keys not seen have none."""
        with _disk_errors():
            rows = (self._connection.execute(self._find, (key,)).fetchone() for key in keys)
            return [row[0] for row in rows if row]

    def often(self, min_count: int) -> Iterator[tuple[int, int]]:
        """Yield first line and count of what was seen ``min_count`` times or more."""
        with _disk_errors():
            yield from self._connection.execute(self._often, (min_count,))


class TextLists:
    """Texts under keys, several under each.

    Args:
        connection: The database.
        name: The table's name, one in the database.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._insert = f'INSERT INTO "{name}" VALUES (?, ?)'
        self._select = f'SELECT text FROM "{name}" WHERE key = ? ORDER BY rowid'
        with _disk_errors():
            connection.execute(f'CREATE TABLE "{name}" (key BLOB, text BLOB)')
            connection.execute(f'CREATE INDEX "{name} by key" ON "{name}" (key)')

    def add(self, key: str, text: str) -> None:
        """Put a text behind those of its key."""
        with _disk_errors():
            row = (text_key(key), text.encode("utf-8", "surrogatepass"))
            self._connection.execute(self._insert, row)

    def get(self, key: str) -> list[str]:
        """Return the texts of a key in their order."""
        with _disk_errors():
            rows = self._connection.execute(self._select, (text_key(key),)).fetchall()
        return [row[0].decode("utf-8", "surrogatepass") for row in rows]


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(
            f"a temporary file in {tempfile.gettempdir()} could not be written ({error}); free "
            "some space, or set TMPDIR to a folder that has some"
        ) from error
