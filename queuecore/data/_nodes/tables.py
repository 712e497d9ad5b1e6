"""Rows of Arrow's tables: of Parquet and Arrow files, and of Hugging Face's datasets. pyarrow reads them."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import stat
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from queuecore._checks.lazy import lazy
from queuecore._core.io.names import FileList
from queuecore._io import remote
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun, leave_out
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Unknown
from queuecore.data._rows.chunks import Piece, Rows
from queuecore.data._rows.elements import rows_of_slices
from queuecore.errors import (
    DataLossError,
    DtypeError,
    InvalidArgumentError,
    NotAFileError,
    QueueCoreError,
    SourceChangedError,
    UnimplementedError,
    os_error,
    shown_name,
)

__all__ = [
    "ArrowFiles",
    "HuggingFace",
    "HuggingFaceTable",
    "ParquetFiles",
    "TableReader",
    "TableRows",
    "Tables",
    "arrow",
]

_STAGE = "read"
# Bytes that are decoded at once: enough for pyarrow's threads, little beside a machine's memory.
_CHUNK_BYTES = 8 << 20
_CHUNK_ROWS = 1 << 16
_FIRST_ROWS = 64
_FOOTERS_AT_A_TIME = 16
_MAGIC = b"ARROW1"


class TableRows(NamedTuple):
    """Rows that were read at once.

    Attributes
    ----------
    rows : pyarrow.RecordBatch
        With the wanted columns.
    path : bytes, optional
        Their file.
    first : int
        The number of the first one, in its file.
    """

    rows: Any
    path: bytes | None
    first: int


class TableReader:
    """Tables that can be read again and again. Abstract; can be pickled.

    Attributes
    ----------
    private : bool
        Whether nobody else has the memory of what is read, as a user may have that of a table which is handed in.
    """

    private = False

    def schema(self) -> Any:
        """Return the wanted columns, as a ``pyarrow.Schema``."""
        raise NotImplementedError

    def count(self) -> int:
        """Return the number of rows. Raises `Unknown`."""
        raise NotImplementedError

    def batches(self, start: int) -> Iterator[TableRows | QueueCoreError]:
        """Yield the rows from number `start` on, and in its place the error of a file that ends there."""
        raise NotImplementedError

    def words(self) -> dict[str, Any]:
        """Return what decides the rows, as plain values."""
        raise NotImplementedError

    def files(self) -> FileList:
        """Return the files that are read, as far as they are known."""
        return FileList([])

    def shown(self) -> str:
        """Return what is read, for people."""
        raise NotImplementedError


def arrow(subject: str) -> Any:
    """Return the package pyarrow, or say who needs it."""
    try:
        for module in ("compute", "ipc", "parquet"):
            importlib.import_module(f"pyarrow.{module}")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise UnimplementedError(f"{subject} needs pyarrow, which isn't here: pip install pyarrow") from error


# ---- the node ----


@dataclass(frozen=True, eq=False)
class Tables(Node):
    """The rows of tables.

    Attributes
    ----------
    name : str
        The user's name for the source.
    reader : TableReader
        Reads them.
    """

    name: str
    reader: TableReader

    def words(self) -> dict[str, Any]:
        return self.reader.words()

    def read_files(self) -> FileList:
        return self.reader.files()

    def label(self) -> str:
        return f"{self.name}{self.reader.shown()}"

    def where(self) -> str:
        return "Python: pyarrow reads many rows at a time"

    def count(self, min_count: int | None) -> int:
        return self.reader.count()

    def layout(self) -> Layout:
        pa, schema = arrow(self.name), self.reader.schema()
        for field in schema:
            if not _is_read(pa, field.type):
                raise DtypeError(
                    f"{self.name}: column {field.name!r} is of {field.type}, for which there is no dtype: cast it, or "
                    "name the columns without it (columns=)"
                )
        if not schema.names:
            raise InvalidArgumentError(f"{self.name}: there are no columns")
        return _rows(pa, pa.RecordBatch.from_pylist([], schema), True)[1]

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        # How many rows were left out before is unknown, so then all are looked at again.
        pa = arrow(self.name)
        skip_count = 0 if run.skips is None else start
        for batch in self.reader.batches(start if run.skips is None else 0):
            if isinstance(batch, QueueCoreError):
                if run.skips is None:
                    raise batch
                yield from leave_out(run.skips, batch, skip_count > 0)
                continue
            missing = _missing_rows(pa, batch.rows)
            first = 0
            for bad_row in [*missing, batch.rows.num_rows]:
                count = bad_row - first
                passed = min(skip_count, count)
                skip_count -= passed
                if count > passed:
                    yield self._chunk(pa, batch.rows.slice(first + passed, count - passed))
                if bad_row < batch.rows.num_rows:
                    yield from leave_out(run.skips, self._lacking(pa, batch, bad_row), skip_count > 0)
                first = bad_row + 1

    def _chunk(self, pa: Any, rows: Any) -> Rows:
        made, layout = _rows(pa, rows, self.reader.private)
        if layout.components != self.layout().components:
            expected = self.layout().components
            raise InvalidArgumentError(f"{self.name}: rows of {layout.components} come after those of {expected}")
        return made

    def _lacking(self, pa: Any, batch: TableRows, row: int) -> InvalidArgumentError:
        columns = [
            name
            for name, column in zip(batch.rows.schema.names, batch.rows.columns, strict=True)
            if _missing_mask(pa, _plain(pa, column.slice(row, 1))) is not None
        ]
        where = f"{self.name} of {shown_name(batch.path)!r}" if batch.path else self.name
        return InvalidArgumentError(
            f"{where}: row {batch.first + row} has no value in {', '.join(map(repr, columns))}, and arrays have no "
            "room for that: fill it, or leave such rows out",
            path=batch.path,
            record=batch.first + row,
            stage=_STAGE,
        )

    @property
    def by_number(self) -> bool:
        return isinstance(self.reader, HuggingFaceTable)

    def chosen(self, index: np.ndarray[Any, Any]) -> Rows:
        assert isinstance(self.reader, HuggingFaceTable)
        pa = arrow(self.name)
        rows = self.reader.chosen(index)
        for bad in _missing_rows(pa, rows)[:1]:
            raise self._lacking(pa, TableRows(rows, None, int(index[bad]) - bad), bad)
        return self._chunk(pa, rows)


def _rows(pa: Any, rows: Any, private: bool) -> tuple[Rows, Layout]:
    columns = {name: _plain(pa, column) for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    found = rows_of_slices(columns, private)
    if found is None:
        raise DtypeError(f"rows of {rows.schema} can't be rows of arrays")
    return Rows(found[0], found[1]), found[2]


def _plain(pa: Any, column: Any) -> Any:
    """Return a column as one that becomes arrays: of an encoded picture or sound, as Hugging Face has it, the bytes."""
    if isinstance(column, pa.ExtensionArray):
        return _plain(pa, column.storage)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(pa, column.dictionary_decode())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}:
        contents = column.flatten()[kind.get_field_index("bytes")]
        if pa.types.is_binary(contents.type) or pa.types.is_large_binary(contents.type):
            return contents
    return column


def _is_read(pa: Any, kind: Any, inside: bool = False) -> bool:
    """Return whether values of a type become arrays. inside: of a list, which has no lists or structures in it."""
    types = pa.types
    if isinstance(kind, pa.ExtensionType):
        return _is_read(pa, kind.storage_type, inside)
    if types.is_dictionary(kind):
        return _is_read(pa, kind.value_type, inside)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return not inside and _is_read(pa, kind.value_type, True)
    if types.is_struct(kind):
        return not inside and kind.num_fields > 0 and all(_is_read(pa, field.type) for field in kind)
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_large_string)
    return any(test(kind) for test in (*tests, types.is_binary, types.is_large_binary, types.is_fixed_size_binary))


def _missing_rows(pa: Any, rows: Any) -> list[int]:
    """Return the rows that lack a value, in order."""
    masks = [mask for column in rows.columns if (mask := _missing_mask(pa, _plain(pa, column))) is not None]
    found: list[int] = np.flatnonzero(np.logical_or.reduce(masks)).tolist() if masks else []
    return found


def _missing_mask(pa: Any, column: Any) -> np.ndarray[Any, Any] | None:
    kind = column.type
    masks = [np.asarray(column.is_null())] if column.null_count else []
    if pa.types.is_struct(kind):
        masks += [mask for part in column.flatten() if (mask := _missing_mask(pa, _plain(pa, part))) is not None]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = _missing_mask(pa, _plain(pa, column.flatten()))
        if inner is not None:
            masks.append(np.zeros(len(column), bool))
            masks[-1][np.asarray(pa.compute.list_parent_indices(column))[inner]] = True
    return np.logical_or.reduce(masks) if masks else None


# ---- files ----


class _Files(TableReader):
    """Files of tables, one after the other. Abstract."""

    private = True

    def __init__(
        self, what: str, names: Sequence[bytes], columns: Sequence[str] | None, store: remote.RemoteStore | None
    ) -> None:
        self.what = what
        self.names = list(names)
        self.columns = None if columns is None else list(columns)
        self.store = store
        self._schema: Any = None
        self._identities: dict[int, Any] = {}  # by number: what tells a file from one that has its name later
        self._rows: dict[int, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.names, self.columns, self.store)

    def words(self) -> dict[str, Any]:
        return {"files": [os.fsdecode(name) for name in self.names], "columns": self.columns}

    def files(self) -> FileList:
        return FileList(self.names, self.store)

    def shown(self) -> str:
        first = shown_name(self.names[0])
        return f" of {first}{f' and {len(self.names) - 1} more' if len(self.names) > 1 else ''}"

    def schema(self) -> Any:
        if self._schema is None:
            with self._open(0) as file:
                self._schema = self._wanted(file, 0)
        return self._schema

    def count(self) -> int:
        with ThreadPoolExecutor(_FOOTERS_AT_A_TIME, "queuecore-footers") as threads:
            return sum(threads.map(self._counted, range(len(self.names))))

    def _counted(self, number: int) -> int:
        if number not in self._rows:
            with self._open(number) as file:
                self._rows[number] = self._rows_in(file)
        return self._rows[number]

    def batches(self, start: int) -> Iterator[TableRows | QueueCoreError]:
        skip_count = start
        for number, name in enumerate(self.names):
            try:
                if skip_count > 0 and skip_count >= self._counted(number):
                    skip_count -= self._rows[number]
                    continue
                with self._open(number) as file:
                    wanted = self._wanted(file, number)
                    at = skip_count
                    for batch in self._read(file, wanted.names, skip_count):
                        yield TableRows(batch, name, at)
                        at += batch.num_rows
                    skip_count = 0
            except QueueCoreError as error:
                yield error

    def _wanted(self, file: Any, number: int) -> Any:
        """Return the wanted columns of a file, which must be those of the first file."""
        pa = arrow(self.what)
        schema, name = self._schema_of(file), self.names[number]
        columns = schema.names if self.columns is None else self.columns
        for column in columns:
            if schema.names.count(column) != 1:
                how = "no column" if column not in schema.names else "several columns"
                raise InvalidArgumentError(
                    f"{self.what}: {shown_name(name)!r} has {how} {column!r}: it has {schema.names}", path=name
                )
        fields = pa.schema([pa.field(column, schema.field(column).type) for column in columns])
        if self._schema is not None and fields != self._schema:
            raise InvalidArgumentError(
                f"{self.what}: the columns of {shown_name(name)!r} are {_columns_in(fields)}, those of "
                f"{shown_name(self.names[0])!r} {_columns_in(self._schema)}",
                path=name,
            )
        return fields

    @contextlib.contextmanager
    def _open(self, number: int) -> Iterator[Any]:
        """Open a file, which must be the one that it was the first time."""
        name = self.names[number]
        pa = arrow(self.what)
        try:
            with contextlib.closing(self._bytes_of(pa, name)) as source:
                identity = _identity_of(source, name)
                if self._identities.setdefault(number, identity) != identity:
                    raise SourceChangedError(
                        f"{shown_name(name)!r} is another file than before: it was changed while it was being read",
                        path=name,
                        stage=_STAGE,
                    )
                yield self._file_of(pa, source)
        except QueueCoreError:
            raise
        except pa.ArrowNotImplementedError as error:
            raise UnimplementedError(f"{shown_name(name)!r}: {error}", path=name, stage=_STAGE) from error
        except (pa.ArrowInvalid, EOFError) as error:
            raise DataLossError(f"{shown_name(name)!r} is damaged: {error}", path=name, stage=_STAGE) from error
        except OSError as error:
            if error.errno is None:  # of a codec
                raise DataLossError(f"{shown_name(name)!r} is damaged: {error}", path=name, stage=_STAGE) from error
            raise os_error(
                error.errno,
                f"cannot read {shown_name(name)!r}: ",
                reason=error.strerror or str(error),
                path=name,
                stage=_STAGE,
            ) from (error.__cause__ or error)

    def _bytes_of(self, pa: Any, name: bytes) -> Any:
        if remote.is_url(name):
            return io.BufferedReader(remote.opened(name, self.store), 1 << 16)
        if not stat.S_ISREG(os.stat(name).st_mode):  # opening a pipe would wait for a writer
            raise NotAFileError(f"{os.fsdecode(name)!r} is no regular file", path=name, stage="open")
        try:
            return pa.OSFile(name.decode())
        except UnicodeDecodeError:
            return open(name, "rb")

    def _schema_of(self, file: Any) -> Any:
        raise NotImplementedError

    def _file_of(self, pa: Any, source: Any) -> Any:
        raise NotImplementedError

    def _rows_in(self, file: Any) -> int:
        raise NotImplementedError

    def _read(self, file: Any, columns: list[str], start: int) -> Iterator[Any]:
        raise NotImplementedError


def _columns_in(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _identity_of(source: Any, name: bytes) -> Any:
    if remote.is_url(name):
        return source.raw.look()
    status = os.stat(name)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class ParquetFiles(_Files):
    """Parquet files: rows are decoded some megabytes at a time, by pyarrow's threads."""

    def _schema_of(self, file: Any) -> Any:
        return file.schema_arrow

    def _file_of(self, pa: Any, source: Any) -> Any:
        return pa.parquet.ParquetFile(source, pre_buffer=isinstance(source, io.BufferedReader))

    def _rows_in(self, file: Any) -> int:
        return int(file.metadata.num_rows)

    def _read(self, file: Any, columns: list[str], start: int) -> Iterator[Any]:
        metadata, group, skip_count = file.metadata, 0, start
        while group < metadata.num_row_groups and skip_count >= metadata.row_group(group).num_rows:
            skip_count -= metadata.row_group(group).num_rows
            group += 1
        groups = list(range(group, metadata.num_row_groups))
        if not groups:
            return
        at_once = self._fixed_rows(file, columns)
        if at_once is None:
            # How large rows are is known once some are decoded. (By a damaged footer pyarrow may end the process.)
            some = next(file.iter_batches(_FIRST_ROWS, groups, columns), None)
            at_once = _FIRST_ROWS if some is None else _rows_at_once(some)
        for batch in file.iter_batches(at_once, groups, columns):
            passed = min(skip_count, batch.num_rows)
            skip_count -= passed
            if passed < batch.num_rows:
                yield batch.select(columns).slice(passed)

    def _fixed_rows(self, file: Any, columns: list[str]) -> int | None:
        """Return how many rows are some megabytes, if all are of one size."""
        types, row_bytes = arrow(self.what).types, 0
        for column in columns:
            kind = file.schema_arrow.field(column).type
            if not (types.is_integer(kind) or types.is_floating(kind)):
                return None
            row_bytes += int(kind.bit_width) // 8
        return min(max(_CHUNK_BYTES // row_bytes, 1), _CHUNK_ROWS)


def _rows_at_once(rows: Any) -> int:
    """Return how many rows like these are some megabytes."""
    return int(min(max(_CHUNK_BYTES * rows.num_rows // max(rows.nbytes, 1), 1), _CHUNK_ROWS))


class ArrowFiles(_Files):
    """Files of Arrow's IPC format, and of its streams: batch after batch, as they were written."""

    def _schema_of(self, file: Any) -> Any:
        return file.schema

    def _file_of(self, pa: Any, source: Any) -> Any:
        begins = source.read(len(_MAGIC))
        source.seek(0)
        return pa.ipc.open_file(source) if begins == _MAGIC else pa.ipc.open_stream(source)

    def _rows_in(self, file: Any) -> int:
        return sum(batch.num_rows for batch in _batches_in(file))

    def _read(self, file: Any, columns: list[str], start: int) -> Iterator[Any]:
        left = start
        for batch in _batches_in(file):
            passed = min(left, batch.num_rows)
            left -= passed
            if passed < batch.num_rows:
                wanted = batch.select(columns).slice(passed)
                wanted.validate(full=True)  # offsets may be anything
                yield from _pieces_of(wanted)


def _batches_in(file: Any) -> Iterator[Any]:
    if hasattr(file, "get_batch"):
        return (file.get_batch(number) for number in range(file.num_record_batches))
    return iter(file)


def _pieces_of(batch: Any) -> Iterator[Any]:
    """Yield the rows of a batch, some megabytes at a time."""
    at_once = _rows_at_once(batch)
    for first in range(0, batch.num_rows, at_once):
        yield batch.slice(first, at_once)


# ---- Hugging Face ----


class HuggingFace(TableReader):
    """A dataset of the package datasets: slices of its Arrow table, in the order of its indices.

    Parameters
    ----------
    dataset : datasets.Dataset or datasets.IterableDataset
        In whatever format.
    columns : list of str, optional
        Those that are wanted.
    """

    def __init__(self, dataset: Any, columns: Sequence[str] | None) -> None:
        self._columns = None if columns is None else list(columns)
        self._dataset = dataset.with_format("arrow")
        self._turn = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._dataset, self._columns)

    def words(self) -> dict[str, Any]:
        schema = self.schema()
        return {"columns": [[field.name, str(field.type)] for field in schema], "rows": self._length()}

    def shown(self) -> str:
        return f"({type(self._dataset).__name__})"

    @lazy
    def _schema(self) -> Any:
        features = self._dataset.features
        if features is not None:
            return self._chosen(features.arrow_schema.empty_table()).schema
        for rows in self._dataset.take(1).iter(1):
            return self._chosen(rows).schema
        raise InvalidArgumentError("from_hugging_face: the dataset is empty, and doesn't say what it consists of")

    def schema(self) -> Any:
        return self._schema

    def _length(self) -> int | None:
        return len(self._dataset) if hasattr(self._dataset, "__len__") else None

    def count(self) -> int:
        length = self._length()
        if length is None:
            raise Unknown
        return length

    def batches(self, start: int) -> Iterator[TableRows | QueueCoreError]:
        position, at_once = start, _FIRST_ROWS
        if self._length() is None:
            left = start
            for rows in self._streamed(at_once):
                passed = min(left, rows.num_rows)
                left -= passed
                if passed < rows.num_rows:
                    yield TableRows(self._together(rows.slice(passed)), None, position)
                    position += rows.num_rows - passed
            return
        while position < len(self._dataset):
            rows = self._together(self._dataset[position : position + at_once])
            yield TableRows(rows, None, position)
            position += rows.num_rows
            at_once = _rows_at_once(rows)

    def _streamed(self, at_once: int) -> Iterator[Any]:
        # A stream counts in one place how far it is, whoever iterates, and begins there: while a pass begins, another
        # one, such as one that is being closed, must not go on.
        stream = self._dataset.iter(batch_size=at_once)
        while True:
            with self._turn:
                rows = next(stream, None)
            if rows is None:
                return
            yield rows

    def _chosen(self, rows: Any) -> Any:
        names = rows.schema.names if self._columns is None else self._columns
        unknown = [name for name in names if name not in rows.schema.names]
        if unknown:
            raise InvalidArgumentError(
                f"from_hugging_face: there is no column {unknown[0]!r}: the dataset has {rows.schema.names}"
            )
        return rows.select(names)

    def _together(self, rows: Any) -> Any:
        return _one_batch(self._chosen(rows))


class HuggingFaceTable(HuggingFace):
    """One whose rows have numbers."""

    def chosen(self, index: np.ndarray[Any, Any]) -> Any:
        """Return the rows of these numbers."""
        return self._together(self._dataset[index.tolist()])


def _one_batch(table: Any) -> Any:
    """Return a table as one batch."""
    pa = arrow("from_hugging_face")
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
