"""Datasets of the results of SQL queries."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from queuecore._elements.component import BYTES
from queuecore._elements.dtypes import as_dtype
from queuecore._io.names import Filename, local_text
from queuecore.data._nodes.sql import Sql
from queuecore.data._plan.chain import Chain
from queuecore.data._rows.elements import flattened
from queuecore.data.dataset import Dataset
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["SqlDataset"]


class SqlDataset(Dataset):
    """Rows of the result of a query, from an SQLite database.

    Parameters
    ----------
    driver_name : str
        ``"sqlite"``.
    data_source_name : str, bytes or os.PathLike
        The file of the database.
    query : str
        The query, which only reads.
    output_types : tuple of dtype
        The dtype of each column: integers, float32 and float64, bool, or bytes.

    Raises
    ------
    InvalidArgumentError
        If `driver_name` is another one; while iterating, if the query has another number of columns.
    DtypeError
        If a type is none of these.
    NotFoundError
        While iterating, if there is no such file.
    UnknownError
        While iterating, if SQLite refuses the query.

    Notes
    -----
    An element is a tuple with a number, or `bytes`, for each column. Values are converted as SQLite converts them: text
    to the number that it begins with, NULL to 0 or ``b""``. The module `sqlite3` reads, in a thread of Python, some
    rows at a time. The query runs anew in each pass; where a run goes on at a saved place, the rows before it are read
    again: so the query should have an ORDER BY.

    The class follows ``tf.data.experimental.SqlDataset``.

    Examples
    --------
    >>> import contextlib, pathlib, sqlite3
    >>> import numpy as np, queuecore as qc
    >>> file = pathlib.Path("people.sqlite")
    >>> with contextlib.closing(sqlite3.connect(file)) as db:
    ...     _ = db.execute("CREATE TABLE people (name TEXT, age INTEGER)")
    ...     _ = db.execute("INSERT INTO people VALUES ('Ada', 36), ('Alan', 41)")
    ...     db.commit()
    >>> query = "SELECT name, age FROM people ORDER BY name"
    >>> for name, age in qc.data.experimental.SqlDataset("sqlite", file, query, (bytes, np.int32)):
    ...     print(name, age)
    b'Ada' 36
    b'Alan' 41
    """

    def __init__(
        self, driver_name: str | bytes, data_source_name: Filename, query: str | bytes, output_types: Any
    ) -> None:
        driver, path, text = os.fsdecode(driver_name), local_text(data_source_name), os.fsdecode(query)
        if driver != "sqlite":
            raise InvalidArgumentError(
                f"The database type, {driver}, is not supported by SqlDataset. The set of supported databases is: "
                "{'sqlite'}."
            )
        template, dtypes = flattened(output_types, _dtype)
        self._chain = Chain.of(Sql((), path, text, tuple(dtypes), template))


def _dtype(word: Any, place: str) -> np.dtype[Any]:
    try:
        dtype = as_dtype(word)
    except (TypeError, ValueError):
        raise DtypeError(f"SqlDataset: output_types{place} must be a dtype, not {word!r:.60}") from None
    if dtype.kind in "SU":
        return BYTES
    if dtype.kind not in "biu" and dtype not in (np.float32, np.float64):
        raise DtypeError(f"SqlDataset: output_types{place} can't be {dtype}")
    return dtype.newbyteorder("=")
