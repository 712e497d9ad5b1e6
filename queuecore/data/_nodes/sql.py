"""The rows of the result of an SQL query, as columns."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sqlite3
import urllib.parse
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._core.io.names import FileList
from queuecore._elements.component import BYTES, Component
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Unknown
from queuecore.data._rows.chunks import Column, Rows
from queuecore.errors import InvalidArgumentError, NotFoundError, UnknownError

__all__ = ["Sql"]

_ROWS = 1024
_STAGE = "sql"
# As SQLite reads a number from the beginning of a text.
_WHOLE = re.compile(rb"[ \t\n\v\f\r]*([-+]?\d+)")
_REAL = re.compile(rb"[ \t\n\v\f\r]*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


@dataclass(frozen=True, eq=False)
class Sql(Node):
    """The rows that a query of an SQLite database gives.

    Attributes
    ----------
    path : str
        The file of the database.
    query : str
        The query.
    dtypes : tuple of numpy.dtype
        Of each column.
    template : object
        The structure of an element over the columns.
    """

    name = "SqlDataset"

    path: str
    query: str
    dtypes: tuple[np.dtype[Any], ...]
    template: Any

    def words(self) -> dict[str, Any]:
        return {"database": self.path, "query": self.query, "types": [str(one) for one in self.dtypes]}

    def read_files(self) -> FileList:
        return FileList([os.fsencode(self.path)] if self.path else [])

    def label(self) -> str:
        return f"{self.name} of {self.path}"

    def where(self) -> str:
        return "Python: SQLite gives rows"

    def count(self, min_count: int | None) -> int:
        raise Unknown

    def layout(self) -> Layout:
        return Layout(tuple(Component(dtype, ()) for dtype in self.dtypes), self.template)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Rows]:
        with contextlib.closing(self._connected()) as connection:
            rows = self._result(connection)
            try:
                for _ in itertools.islice(rows, start):
                    pass
                while some := rows.fetchmany(_ROWS):
                    columns = list(zip(*some, strict=True))
                    yield Rows(len(some), [_column(*pair) for pair in zip(columns, self.dtypes, strict=True)])
            except sqlite3.Error as error:
                raise self._failed(error) from error

    def _connected(self) -> sqlite3.Connection:
        # Only to be read. A connection is used by one thread at a time; which one closes it is left to chance.
        try:
            connection = sqlite3.connect(
                f"file:{urllib.parse.quote(os.path.abspath(self.path))}?mode=ro", uri=True, check_same_thread=False
            )
        except sqlite3.Error as error:
            if not os.path.exists(self.path):
                raise NotFoundError(f"there is no database {self.path}", path=self.path, stage=_STAGE) from error
            raise self._failed(error) from error
        connection.text_factory = bytes
        return connection

    def _result(self, connection: sqlite3.Connection) -> sqlite3.Cursor:
        count = 0
        rows: Any = None
        try:
            rows = connection.execute(self.query)
            count = len(rows.description or ())
        except sqlite3.Error as error:
            # A statement that writes has no columns.
            if "readonly" not in str(error):
                raise self._failed(error) from error
        except sqlite3.Warning as error:
            raise self._failed(error) from error
        if count != len(self.dtypes):
            raise InvalidArgumentError(
                f"The number of columns in query ({count}) must match the number of elements in output_types "
                f"({len(self.dtypes)}).",
                path=self.path,
                stage=_STAGE,
            )
        made: sqlite3.Cursor = rows
        return made

    def _failed(self, error: Exception) -> UnknownError:
        return UnknownError(f"{self.path}: {error}", path=self.path, stage=_STAGE)


def _column(values: tuple[Any, ...], dtype: np.dtype[Any]) -> Column:
    """Return the values of a column, converted as SQLite converts them."""
    if dtype == BYTES:
        texts = [_text(value) for value in values]
        ends = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=ends[1:])
        return np.frombuffer(b"".join(texts), np.uint8), ends, None
    if dtype.kind == "f":
        return np.array([_real(value) for value in values], dtype)
    whole = np.array([_whole(value) for value in values], np.int64)
    return whole != 0 if dtype.kind == "b" else whole.astype(dtype)


def _text(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, float):
        digits, power, exponent = f"{value:.15g}".partition("e")
        return f"{digits if set(digits) & set('.in') else f'{digits}.0'}{power}{exponent}".encode()
    return b"" if value is None else str(value).encode()


def _number(pattern: re.Pattern[bytes], kind: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, bytes):
        found = pattern.match(value)
        value = 0 if found is None else kind(found[1])
    return kind(value or 0)


def _real(value: Any) -> float:
    made: float = _number(_REAL, float, value)
    return made


def _whole(value: Any) -> int:
    if isinstance(value, float) and not abs(value) < 2**63:
        return -(2**63) if value < 0 else 2**63 - 1
    number: int = _number(_WHOLE, int, value)
    return min(max(number, -(2**63)), 2**63 - 1)
