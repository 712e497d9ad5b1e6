"""Datasets of the rows of Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from queuecore._io import remote
from queuecore._io.names import Filename, expand_filenames
from queuecore.data._nodes.tables import ArrowFiles, ParquetFiles, Tables
from queuecore.data._plan.chain import Chain
from queuecore.data.dataset import Dataset
from queuecore.errors import InvalidArgumentError

__all__ = ["ArrowDataset", "ParquetDataset"]


class ParquetDataset(Dataset):
    """Rows of Parquet files: dicts of their columns.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`: names, one pattern, URLs. All files must have the wanted columns, of the same
        types.
    columns : sequence of str, optional
        Those that are wanted, in their order; others are not read. Default: all of the first file.
    storage_options : dict, optional
        As of `FixedLengthRecordDataset`.

    Raises
    ------
    InvalidArgumentError
        If a pattern matches nothing, there is no such column, or no file.
    DtypeError
        If a column is of a type that has no dtype here: times, decimals, maps, lists of lists.
    NotFoundError, PermissionDeniedError, NotAFileError, DataLossError
        If the first file can't be read, or is damaged.
    UnimplementedError
        If pyarrow isn't installed.

    Notes
    -----
    Numbers and booleans keep their dtypes. Strings and binary values are `bytes`; lists are arrays of one dimension,
    which batches have as `Ragged`; lists of one size are arrays of that shape; structures are dicts. A structure of
    ``bytes`` and ``path``, in which Hugging Face keeps pictures and sounds, is its bytes.

    pyarrow decodes some megabytes of rows at a time, by its own threads, without the GIL; native threads do the rest.
    ``len()`` reads the footers of all files. A place goes on at its row group.

    A row without a value is an `InvalidArgumentError` in its place, and a file that is damaged, or whose columns are
    others, an error that ends the pass: with ``on_error="skip"`` they are left out and counted, the latter up to the
    next file. A file that was changed after the dataset was made is a `SourceChangedError`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> import queuecore as qc
    >>> pq.write_table(pa.table({"x": [1, 2, 3], "name": ["a", "b", "c"]}), "t.parquet")
    >>> ds = qc.data.ParquetDataset("t.parquet", columns=["name", "x"])
    >>> [(row["name"], int(row["x"])) for row in ds.skip(1)]
    [(b'b', 2), (b'c', 3)]
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        columns: Sequence[str] | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._chain = _chain_of("ParquetDataset", ParquetFiles, filenames, columns, storage_options)


class ArrowDataset(Dataset):
    """Rows of files of Arrow's IPC format (Feather), or of its stream format, in which Hugging Face keeps tables.

    Parameters
    ----------
    filenames, columns, storage_options
        As of `ParquetDataset`.

    Raises
    ------
    InvalidArgumentError, DtypeError, NotFoundError, PermissionDeniedError, NotAFileError, DataLossError, UnimplementedError
        As of `ParquetDataset`.

    Notes
    -----
    As of `ParquetDataset`, but that batches are read as they were written, and ``len()`` reads all of a file. Offsets
    and texts of a file are checked before they are used.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import queuecore as qc
    >>> table = pa.table({"x": [1, 2, 3]})
    >>> with pa.OSFile("t.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
    ...     writer.write_table(table)
    >>> [batch["x"].tolist() for batch in qc.data.ArrowDataset("t.arrow").batch(2)]
    [[1, 2], [3]]
    """  # noqa: E501

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        columns: Sequence[str] | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._chain = _chain_of("ArrowDataset", ArrowFiles, filenames, columns, storage_options)


def _chain_of(label: str, kind: Any, filenames: Any, columns: Any, storage_options: Any) -> Chain:
    if isinstance(columns, str) or (columns is not None and not all(isinstance(one, str) for one in columns)):
        raise InvalidArgumentError(f"{label}: columns must be a list of names, not {columns!r}")
    store = remote.store_of(storage_options)
    names = expand_filenames(filenames, store)
    if not names:
        raise InvalidArgumentError(f"{label}: there are no files")
    node = Tables((), label, kind(label, names, columns, store))
    node.layout()
    return Chain.of(node)
