"""Tables of pyarrow, pandas and polars as dicts of their columns. None of these packages is imported here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged

__all__ = ["unframed"]

# What isn't a table yet, and what makes one of it.
_TABLES_OF = {
    "LazyFrame": ".collect()",
    "ParquetFile": ".read()",
    "ParquetDataset": ".read()",
    "RecordBatchReader": ".read_all()",
    "FileSystemDataset": ".to_table()",
    "InMemoryDataset": ".to_table()",
    "UnionDataset": ".to_table()",
    "DatasetDict": "[SPLIT].with_format('arrow')[:]",
    "Dataset": ".with_format('arrow')[:]",
}


def unframed(value: Any, place: str) -> Any:
    """Return a table as a dict of its columns, one of the columns as an array or `Ragged`, and all else as it is.

    Parameters
    ----------
    value : object
        For example a ``pyarrow.Table``, or ``RecordBatch``, or a ``DataFrame`` or ``Series`` of pandas or polars.
    place : str
        Its place in the user's value, for errors.

    Raises
    ------
    InvalidArgumentError
        If a column has missing values, or two have the same name.
    DtypeError
        If it is none of these, but one of what makes them.
    """
    packages = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    for name, take in (("pyarrow", _of_arrow), ("pandas", _of_pandas), ("polars", _of_polars)):
        if name in packages and name in sys.modules:
            return take(sys.modules[name], value, place)
    return _refused(value, place) if "datasets" in packages else value


def _refused(value: Any, where: str) -> Any:
    made = _TABLES_OF.get(type(value).__name__)
    if made is None:
        return value
    raise DtypeError(f"{where} is a {_name(value)}, which isn't read here: hand in the table itself, VALUE{made}")


def _name(value: Any) -> str:
    return f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"


def _columns(names: Iterable[Any], column: Callable[[Any], Any], where: str) -> dict[Any, Any]:
    listed = list(names)
    if len(set(listed)) != len(listed):
        raise InvalidArgumentError(f"{where} has several columns of the same name, of {listed}")
    return {name: column(name) for name in listed}


def _check_whole(missing: Any, where: str, fill: str, drop: str) -> None:
    if missing:
        raise InvalidArgumentError(
            f"{where} has {int(missing)} missing value{'s' if missing > 1 else ''}, and arrays have no room for any: "
            f"fill them (COLUMN.{fill}), or leave their rows out (TABLE.{drop}())"
        )


def _of_arrow(pa: Any, value: Any, place: str) -> Any:
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return _columns(value.schema.names, value.column, place)
    if not isinstance(value, (pa.Array, pa.ChunkedArray)):
        return _refused(value, place)
    _check_whole(value.null_count, place, "fill_null(0)", "drop_null")
    if isinstance(value, pa.ChunkedArray):
        value = (
            value.chunk(0) if value.num_chunks == 1 else pa.concat_arrays(value.chunks or [pa.array([], value.type)])
        )
    return _of_arrow_array(pa, value, place)


def _of_arrow_array(pa: Any, value: Any, place: str) -> Any:
    """Return an array of Arrow's without missing values of its own."""
    kind = value.type
    if isinstance(value, pa.ExtensionArray):
        return _of_arrow(pa, value.storage, place)
    if pa.types.is_dictionary(kind):
        return _of_arrow(pa, value.dictionary_decode(), place)
    if pa.types.is_struct(kind):
        return {kind.field(index).name: part for index, part in enumerate(value.flatten())}
    if pa.types.is_fixed_size_list(kind):
        values = _of_arrow(pa, value.flatten(), place)
        if isinstance(values, np.ndarray):
            return values.reshape(len(value), kind.list_size, *values.shape[1:])
        return Ragged(values, np.arange(len(value) + 1, dtype=np.int64) * kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        ends = value.offsets.to_numpy().astype(np.int64)
        return Ragged(_of_arrow(pa, value.flatten(), place), ends - ends[0])
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or kind in (pa.large_string(), pa.large_binary()):
        value = value.cast(pa.large_binary())
        _, ends, data = value.buffers()
        ends = np.frombuffer(ends or bytes(8), np.int64)[value.offset :][: len(value) + 1]
        return Ragged(np.frombuffer(data or b"", "S1")[ends[0] : ends[-1]], ends - ends[0])
    return value.to_numpy(zero_copy_only=False)


def _of_pandas(pd: Any, value: Any, place: str) -> Any:
    if isinstance(value, pd.DataFrame):
        return _columns(value.columns, value.__getitem__, place)
    if not isinstance(value, pd.Series):
        return value
    array = np.asarray(value)
    if array.dtype == object:
        _check_whole(value.isna().sum(), place, 'fillna("")', "dropna")
        return _of_objects(array)
    return array


def _of_polars(pl: Any, value: Any, where: str) -> Any:
    if isinstance(value, pl.DataFrame):
        return _columns(value.columns, value.__getitem__, where)
    if not isinstance(value, pl.Series):
        return _refused(value, where)
    _check_whole(value.null_count(), where, "fill_null(0)", "drop_nulls")
    if value.dtype == pl.Struct:
        return {part.name: part for part in value.struct.unnest()}
    array = value.to_numpy()
    return _of_objects(array) if array.dtype == object else array


def _of_objects(array: np.ndarray[Any, Any]) -> Any:
    """Return lists and arrays of numbers or strings as a `Ragged`; all else as it is."""
    if not len(array) or not all(isinstance(item, list | np.ndarray) for item in array):
        return array
    rows = [np.asarray(item) for item in array]
    filled = [row for row in rows if len(row)] or rows
    ends = np.cumsum([0, *map(len, rows)])
    if filled[0].dtype.kind not in "OSU":
        return Ragged(np.concatenate(filled), ends)
    strings = [text.encode() if isinstance(text, str) else text for row in filled for text in row.tolist()]
    return Ragged(Ragged.from_list(strings), ends) if all(isinstance(text, bytes) for text in strings) else array
