"""Operations on rows of CSV."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from queuecore._core.io.csv import CsvFormat, CsvStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import BYTES, Component
from queuecore._ops.raw import component_of
from queuecore._ops.stage import Stage, traceable
from queuecore._ops.strings import lone_strings, strings_of
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["csv_columns", "csv_format", "decode_csv"]

_CSV_KINDS: dict[np.dtype[Any], int] = {
    np.dtype(np.float32): 0,
    np.dtype(np.float64): 1,
    np.dtype(np.int32): 2,
    np.dtype(np.int64): 3,
    BYTES: 4,
    # In files alone, as decode_csv is TensorFlow's.
    np.dtype(np.uint8): 5,
    np.dtype(np.bool_): 6,
}
# The limit for a row of a file; a single record is in memory anyway.
_MAX_RECORD_BYTES = 64 << 20


@overload
def decode_csv(
    records: None = None,
    record_defaults: Sequence[Any] | None = ...,
    field_delim: str | bytes = ...,
    use_quote_delim: bool = ...,
    name: str | None = ...,
    na_value: str | bytes = ...,
    select_cols: Sequence[int] | None = ...,
) -> Stage: ...


@overload
def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str | bytes = ...,
    use_quote_delim: bool = ...,
    name: str | None = ...,
    na_value: str | bytes = ...,
    select_cols: Sequence[int] | None = ...,
) -> list[Any]: ...


@traceable
def decode_csv(
    records: Any = None,
    record_defaults: Sequence[Any] | None = None,
    field_delim: str | bytes = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str | bytes = "",
    select_cols: Sequence[int] | None = None,
) -> Any:
    r"""Split records of comma-separated values into columns.

    Parameters
    ----------
    records : bytes, or array or list of bytes, optional
        Of any shape; each is one record, without the newline at its end. Without it, the result is a `Stage`.
    record_defaults : sequence
        One for each column: the value where the field is empty, a scalar or a list or array of one. Its type is that of
        the column: float32 (also of a Python float), float64, int32 (also of a Python int), int64, or bytes (also of a
        str). An empty list (float32) or array: a value is required.
    field_delim : str or bytes, default ","
        One byte.
    use_quote_delim : bool, default True
        A field may stand in double quotes, and then hold delimiters, newlines and doubled quotes.
    name : str, optional
        Not used.
    na_value : str or bytes, default ""
        A field of this text is taken as empty.
    select_cols : sequence of int, optional
        Which fields are wanted, in rising order, one for each default; fields after the last of them are not checked.

    Returns
    -------
    list
        For each column an array of the shape of `records`; of bytes: an object array, or bytes if `records` is bytes.

    Raises
    ------
    CsvError
        If a record has another number of fields, a quote where none may be, or a newline outside of quotes; or if a
        required field is empty, or a field is no number or out of an integer's range. `record` is the record's index in
        the batch, `field` the column's.
    DtypeError
        If a default has another type, or the input is no bytes.
    InvalidArgumentError
        If there is no default, or one has several values; if the delimiter is not one byte; if `select_cols` is not as
        described.

    Notes
    -----
    Runs without the GIL. Numbers have their exact value: a float64 equals Python's ``float``, a float32 is the one
    nearest to the text. Floats may also be hexadecimal (as in C99), ``nan``, ``inf`` or ``infinity`` in any case;
    floats that are too large become infinity. Blanks around them are ignored. Follows TensorFlow's ``io.decode_csv``,
    but doesn't accept ``nan(...)``.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.decode_csv([b"1,2.5,a", b"3,,b"], [[0], [-1.0], [b""]])
    [array([1, 3], dtype=int32), array([ 2.5, -1. ], dtype=float32), array([b'a', b'b'], dtype=object)]
    >>> qc.ops.decode_csv(b'7;"x;y"', [np.int64(0), b""], field_delim=";")
    [array(7), b'x;y']
    >>> qc.ops.decode_csv(record_defaults=[0, b""])
    decode_csv(int32, bytes)
    """
    del name
    columns = csv_columns(record_defaults)
    stage = _decode_csv(
        [dtype for dtype, _ in columns], csv_format(columns, field_delim, use_quote_delim, na_value, select_cols)
    )
    if records is None:
        return stage
    strings = strings_of("decode_csv", records)
    return stage.bind([component_of(strings)])(strings)


def _csv_default(operation: str, index: int, default: Any) -> tuple[np.dtype[Any], bytes | None]:
    """Return the dtype of a column, and the bytes of its default; `None`: a value is required."""
    label = f"{operation}: the default of column {index + 1}"
    if isinstance(default, (type, np.dtype)):
        default = np.empty(0, default)
    one = default[0] if isinstance(default, (list, tuple)) and len(default) == 1 else default
    if isinstance(one, (bytes, str)):  # not through NumPy, which takes NUL bytes off their end
        return BYTES, one.encode() if isinstance(one, str) else bytes(one)
    array = np.asarray(default)
    if array.ndim > 1 or array.size > 1:
        raise InvalidArgumentError(f"{label} must be one value, or an empty list; its shape is {array.shape}")
    dtype = array.dtype
    if not isinstance(default, (np.ndarray, np.generic)):
        # As in TensorFlow: a Python int is int32, a float float32, and an empty list float32.
        if dtype == np.float64:
            dtype = np.dtype(np.float32)
        elif dtype == np.int64:
            dtype = np.dtype(np.int32)
    item = array.reshape(-1)[0] if array.size else None
    if dtype.kind in "SUO":
        if isinstance(item, (bytes, str)):
            return BYTES, item.encode() if isinstance(item, str) else bytes(item)
        if array.size == 0:
            return BYTES, None
    dtype = dtype.newbyteorder("=")
    small = operation == "CsvDataset"
    if dtype not in _CSV_KINDS or (dtype.itemsize == 1 and not small):
        kinds = "float32, float64, int32, int64, uint8, bool" if small else "float32, float64, int32, int64"
        raise DtypeError(f"{label} must be a {kinds} or bytes, not {dtype}")
    if item is not None and dtype == np.int32 and not -(2**31) <= item < 2**31:
        raise InvalidArgumentError(f"{label}, {item}, is no int32; pass it as a numpy.int64 for a column of those")
    return dtype, None if item is None else np.array(item, dtype).tobytes()


def csv_columns(
    record_defaults: Sequence[Any] | None, operation: str = "decode_csv"
) -> list[tuple[np.dtype[Any], bytes | None]]:
    """Return the dtype and the default of each column, `None` where a value is required; not for users."""
    if record_defaults is None or len(record_defaults) == 0:
        raise InvalidArgumentError(f"{operation}: record_defaults must have a default for each column")
    return [_csv_default(operation, index, default) for index, default in enumerate(record_defaults)]


def csv_format(
    columns: Sequence[tuple[np.dtype[Any], bytes | None]],
    field_delim: str | bytes,
    use_quote_delim: bool,
    na_value: str | bytes,
    select_cols: Sequence[int] | None,
    max_record_bytes: int = _MAX_RECORD_BYTES,
    operation: str = "decode_csv",
    max_fields: int = 0,
) -> CsvFormat:
    """Return the native description of the format of a file or of records; not for users.

    `max_fields`: the fields that a row of a file may have; 0: as many as it likes, with `select_cols`.
    """
    delim = field_delim.encode() if isinstance(field_delim, str) else bytes(field_delim)
    if len(delim) != 1:
        raise InvalidArgumentError(f"{operation}: field_delim must be one byte, not {delim!r}")
    na = na_value.encode() if isinstance(na_value, str) else bytes(na_value)
    fields = list(range(len(columns)))
    if select_cols is not None:
        fields = [operator.index(column) for column in select_cols]
        if len(fields) != len(columns):
            raise InvalidArgumentError(
                f"{operation}: select_cols has {len(fields)} columns and record_defaults {len(columns)}"
            )
        if fields[0] < 0 or any(b <= a for a, b in itertools.pairwise(fields)):
            raise InvalidArgumentError(f"{operation}: select_cols must be rising numbers from 0 on, not {fields}")
        if fields[-1] >= 2**31:
            raise InvalidArgumentError(f"{operation}: there is no field {fields[-1]}")
    native = [(_CSV_KINDS[dtype], field, default) for (dtype, default), field in zip(columns, fields, strict=True)]
    return CsvFormat(
        native, select_cols is not None, delim[0], bool(use_quote_delim), na, max_record_bytes, max_fields=max_fields
    )


def _decode_csv(dtypes: Sequence[np.dtype[Any]], csv_format: CsvFormat) -> Stage:
    def bind(components: tuple[Component, ...]) -> Step:
        given = lone_strings("decode_csv", components)
        return CsvStep((given,), tuple(Component(dtype, given.shape) for dtype in dtypes), csv_format)

    words = ("bytes" if dtype == BYTES else str(dtype) for dtype in dtypes)
    return Stage(f"decode_csv({', '.join(words)})", bind, rowwise=True)
