"""Decoding operations: at once on values, or, given no input, as native stages."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from queuecore._compression import encoding_number
from queuecore._core.csv import CsvFormat, CsvStep
from queuecore._core.decode import RawStep
from queuecore._core.inflate import InflateStep
from queuecore._core.stages import Step
from queuecore.data._record import compile_record
from queuecore.errors import CsvError, DtypeError, InvalidArgumentError

__all__ = ["Component", "Stage", "decode_compressed", "decode_csv", "decode_raw"]

# Any length: NumPy's word for strings of bytes.
BYTES: np.dtype[Any] = np.dtype("S")
_MAX_DIMS = 32


class Component(NamedTuple):
    """What is known beforehand of one component of an element.

    Attributes
    ----------
    dtype : numpy.dtype
        In native byte order; ``dtype("S")``, of size 0, for strings of bytes of any length.
    shape : tuple of int or None, or None
        `None` in it for a dimension that may differ from element to element; `None`: all of it may.
    nbytes : int or None
        Length of each string, if it is always the same.
    name : str or None
        Its key, if elements are dicts.
    """

    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] | None
    nbytes: int | None = None
    name: str | None = None


class Stage:
    """A native step of a `StageProgram`, as an operation returns it that was given no input.

    It knows its options; what components it gets, and so which it gives, shows when it is put into a program.
    """

    __slots__ = ("_bind", "_text")

    def __init__(self, text: str, bind: Callable[[tuple[Component, ...]], Step]) -> None:
        self._text = text
        self._bind = bind

    def __repr__(self) -> str:
        """Return the operation and what it makes."""
        return self._text

    def bind(self, components: Sequence[Component]) -> Step:
        """Return the native step for elements of these components.

        Raises
        ------
        InvalidArgumentError
            If it can't work on such elements.
        """
        return self._bind(tuple(components))


def _lone_strings(label: str, components: tuple[Component, ...]) -> Component:
    if len(components) != 1 or components[0].dtype != BYTES:
        shown = ", ".join(str(one.dtype) for one in components)
        raise InvalidArgumentError(f"{label}: expected one component of bytes, got {len(components)} ({shown})")
    return components[0]


def _strings(label: str, value: Any) -> bytes | np.ndarray:
    """Return bytes, or an object array of them."""
    if isinstance(value, (bytes, bytearray, memoryview, str)):
        return value.encode() if isinstance(value, str) else bytes(value)
    try:
        # Not np.asarray: NumPy's own strings lose the zero bytes at their end.
        array = value if isinstance(value, np.ndarray) else np.asarray(value, object)
    except ValueError as error:
        raise InvalidArgumentError(f"{label}: {error}") from error
    flat = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
    if not all(isinstance(one, bytes) for one in flat):
        raise DtypeError(f"{label}: expected bytes, or an array or list of them, got {array.dtype} ({value!r:.60})")
    if not array.ndim:
        return flat[0]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(array.shape)


def _eager(label: str, stage: Stage, value: Any) -> list[Any]:
    strings = _strings(label, value)
    if isinstance(strings, bytes):
        return stage.bind([Component(BYTES, (), len(strings))])(strings)
    return stage.bind([Component(BYTES, strings.shape)])(strings)


@overload
def decode_raw(
    input_bytes: None = None,
    out_type: Any = ...,
    little_endian: bool = ...,
    fixed_length: int | None = ...,
    name: str | None = ...,
) -> Stage: ...
@overload
def decode_raw(
    input_bytes: Any,
    out_type: Any,
    little_endian: bool = ...,
    fixed_length: int | None = ...,
    name: str | None = ...,
) -> Any: ...
def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> Any:
    r"""Take strings of bytes for numbers.

    Parameters
    ----------
    input_bytes : bytes, or array or list of bytes, optional
        Of any shape; all equally long, unless there is a `fixed_length`. Without it, the result is a `Stage`.
    out_type : dtype
        A boolean, integer, float or complex dtype; or a structured one, which describes a whole record.
    little_endian : bool, default True
        Byte order of the input. A dtype that names its own (``">i4"``), or a structured one, goes before.
    fixed_length : int, optional
        Cut every string to so many bytes, or fill it up with zeros; a multiple of the item's size.
    name : str, optional
        Not used.

    Returns
    -------
    ndarray or dict of ndarray
        Of shape ``(*input.shape, length // itemsize)``. Of a structured dtype: a dict with an array for each field, of
        shape ``(*input.shape, *field.shape)``; nested structures are nested dicts (in a stage their names are joined by
        dots).

    Raises
    ------
    DtypeError
        If there is no such dtype, or it holds Python objects; or if the input is no bytes.
    InvalidArgumentError
        If a string's length is no multiple of the item's size (structured: isn't that of the record), strings of a
        batch are not equally long, a bool is neither 0 nor 1, or the `fixed_length` doesn't fit.

    Notes
    -----
    Runs without the GIL. Follows TensorFlow's ``io.decode_raw``; structured dtypes, unsigned 32 and 64-bit integers,
    and the check of booleans are ours. In a structured dtype, any byte other than 0 is a true boolean, as in
    `queuecore.data`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.decode_raw(b"\x01\x00\x02\x00", np.int16)
    array([1, 2], dtype=int16)
    >>> qc.ops.decode_raw([b"\x01\x02", b"\x03\x04"], np.uint8)
    array([[1, 2],
           [3, 4]], dtype=uint8)
    >>> qc.ops.decode_raw(b"\x07\x01\x02", np.dtype([("label", "u1"), ("pixels", "u1", 2)]))
    {'label': array(7, dtype=uint8), 'pixels': array([1, 2], dtype=uint8)}
    >>> qc.ops.decode_raw(out_type=np.int16)
    decode_raw(int16)
    """
    del name
    if out_type is None:
        raise InvalidArgumentError("decode_raw: out_type is missing")
    try:
        dtype = np.dtype(out_type)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"decode_raw: out_type is no dtype: {error}") from error
    if dtype.names is not None or dtype.subdtype is not None:
        stage = _decode_record(dtype, fixed_length)
        if input_bytes is None:
            return stage
        record = compile_record(dtype)
        arrays = _eager("decode_raw", stage, input_bytes)

        def fill(template: Any) -> Any:
            if isinstance(template, dict):
                return {key: fill(inner) for key, inner in template.items()}
            return arrays[template]

        return fill(record.template)
    if dtype.kind not in "biufc":
        raise DtypeError(f"decode_raw: expected a dtype of numbers, got {dtype}")
    if dtype.byteorder == "=" and not little_endian:
        dtype = dtype.newbyteorder(">")
    if fixed_length is not None and (fixed_length <= 0 or fixed_length % dtype.itemsize):
        raise InvalidArgumentError(
            f"decode_raw: fixed_length must be a positive multiple of {dtype.itemsize} (the item), not {fixed_length}"
        )
    stage = _decode_numbers(dtype, fixed_length)
    return stage if input_bytes is None else _eager("decode_raw", stage, input_bytes)[0]


def _decode_numbers(dtype: np.dtype[Any], fixed_length: int | None) -> Stage:
    swap = -1 if dtype.kind == "b" else 0
    if not dtype.isnative:
        swap = dtype.itemsize // (2 if dtype.kind == "c" else 1)

    def bind(components: tuple[Component, ...]) -> Step:
        given = _lone_strings("decode_raw", components)
        length = given.nbytes if fixed_length is None else fixed_length
        shape = None
        if given.shape is not None:
            shape = (*given.shape, None if length is None else length // dtype.itemsize)
            _check_dims(shape)
        made = Component(dtype.newbyteorder("="), shape)
        return RawStep((given,), (made,), dtype.itemsize, swap, fixed_length or 0, [])

    return Stage(f"decode_raw({dtype})", bind)


def _decode_record(dtype: np.dtype[Any], fixed_length: int | None) -> Stage:
    record = compile_record(dtype)
    if fixed_length is not None and fixed_length != record.record_bytes:
        raise InvalidArgumentError(
            f"decode_raw: fixed_length must be {record.record_bytes}, the record's size, not {fixed_length}"
        )
    names = dict(_leaf_names(record.template))

    def bind(components: tuple[Component, ...]) -> Step:
        given = _lone_strings("decode_raw", components)
        if fixed_length is None and given.nbytes not in (None, record.record_bytes):
            raise InvalidArgumentError(
                f"decode_raw: expected records of {record.record_bytes} bytes, got {given.nbytes} bytes"
            )
        made = []
        for index, leaf in enumerate(record.leaves):
            shape = None if given.shape is None else (*given.shape, *leaf.shape)
            _check_dims(shape)
            made.append(Component(leaf.dtype, shape, name=names[index]))
        leaves = [leaf.native() for leaf in record.leaves]
        return RawStep((given,), tuple(made), record.record_bytes, 0, fixed_length or 0, leaves)

    return Stage(f"decode_raw({dtype})", bind)


def _check_dims(shape: tuple[int | None, ...] | None) -> None:
    if shape is not None and len(shape) > _MAX_DIMS:
        raise InvalidArgumentError(f"decode_raw: {len(shape)} dimensions; at most {_MAX_DIMS} are possible")


def _leaf_names(template: Any, prefix: str = "") -> Any:
    if not isinstance(template, dict):
        yield template, prefix or None
        return
    for key, inner in template.items():
        yield from _leaf_names(inner, f"{prefix}.{key}" if prefix else key)


@overload
def decode_compressed(
    bytes: None = None, compression_type: str = ..., name: str | None = ..., *, max_record_bytes: int = ...
) -> Stage: ...
@overload
def decode_compressed(
    bytes: Any, compression_type: str = ..., name: str | None = ..., *, max_record_bytes: int = ...
) -> Any: ...
def decode_compressed(
    bytes: Any = None,
    compression_type: str = "",
    name: str | None = None,
    *,
    max_record_bytes: int = 64 << 20,
) -> Any:
    r"""Decompress strings of bytes.

    Parameters
    ----------
    bytes : bytes, or array or list of bytes, optional
        Of any shape; each compressed by itself. Without it, the result is a `Stage`.
    compression_type : {"", "ZLIB", "GZIP", "ZSTD"}, default ""
        ``""``: they are not compressed.
    name : str, optional
        Not used.
    max_record_bytes : int, default 64 MiB
        How long a string may be when it is decompressed.

    Returns
    -------
    bytes or ndarray of object
        Of the input's shape.

    Raises
    ------
    InvalidArgumentError
        If there is no such `compression_type`, or `max_record_bytes` is negative.
    DtypeError
        If the input is no bytes.
    DecompressError
        If a string is damaged, cut, or followed by something else. Its `offset` is the place in that string.
    RecordTooLargeError
        If a string is longer than `max_record_bytes` when decompressed. No more of it than that is ever in memory.
    UnimplementedError
        If there is no library for it on this machine.

    Notes
    -----
    Runs without the GIL. GZIP members and ZSTD frames may follow each other in a string, GZIP ones also with zeros
    between or after them; an empty string is an empty string. Follows TensorFlow's ``io.decode_compressed``, but a cut
    string is an error, as is anything behind the data; the limit is ours. A ZSTD frame may have a window of 128 MiB.

    Examples
    --------
    >>> import gzip, queuecore as qc
    >>> qc.ops.decode_compressed(gzip.compress(b"one") + gzip.compress(b"two"), "GZIP")
    b'onetwo'
    >>> qc.ops.decode_compressed([gzip.compress(b"one"), b""], "GZIP")
    array([b'one', b''], dtype=object)
    >>> qc.ops.decode_compressed(compression_type="ZLIB")
    decode_compressed(ZLIB)
    """
    del name
    if compression_type not in ("", "ZLIB", "GZIP", "ZSTD"):
        raise InvalidArgumentError(
            f"decode_compressed: compression_type must be '', 'ZLIB', 'GZIP' or 'ZSTD', not {compression_type!r}"
        )
    if not 0 <= max_record_bytes < 1 << 62:
        raise InvalidArgumentError(
            f"decode_compressed: max_record_bytes must be a number of bytes, not {max_record_bytes}"
        )
    encoding = encoding_number(compression_type)

    def bind(components: tuple[Component, ...]) -> Step:
        given = _lone_strings("decode_compressed", components)
        made = Component(BYTES, given.shape, None if encoding else given.nbytes)
        return InflateStep((given,), (made,), encoding, max_record_bytes)

    stage = Stage(f"decode_compressed({compression_type or 'plain'})", bind)
    return stage if bytes is None else _eager("decode_compressed", stage, bytes)[0]


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
def decode_csv(
    records: Any = None,
    record_defaults: Sequence[Any] | None = None,
    field_delim: str | bytes = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str | bytes = "",
    select_cols: Sequence[int] | None = None,
) -> Any:
    r"""Take records of comma-separated values apart.

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
        Which fields are wanted, in rising order, as many as there are defaults; what follows them is not looked at.

    Returns
    -------
    list
        For each column an array of the shape of `records`; of bytes: an object array, or bytes if `records` is bytes.

    Raises
    ------
    CsvError
        If a record has another number of fields, a quote where none may be, or a newline outside of quotes; or a field
        is required and empty, no number, or out of an integer's range. `record` is its index in the batch, `field` that
        of the column.
    DtypeError
        If a default has another type, or the input is no bytes.
    InvalidArgumentError
        If there is no default, or one has several values; if the delimiter is not one byte; if `select_cols` is not as
        described.

    Notes
    -----
    Runs without the GIL. Numbers have their exact value: a float64 equals Python's ``float``, a float32 is the one
    nearest to the text. Floats may also be hexadecimal (as in C99), ``nan``, ``inf`` or ``infinity`` in any case; too
    large ones become infinity. Blanks around numbers are passed over. Follows TensorFlow's ``io.decode_csv``, but takes
    no ``nan(...)``.

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
    if record_defaults is None or len(record_defaults) == 0:
        raise InvalidArgumentError("decode_csv: record_defaults must have a default for each column")
    columns = [_csv_default(index, default) for index, default in enumerate(record_defaults)]
    stage = _decode_csv(
        [dtype for dtype, _ in columns], _csv_format(columns, field_delim, use_quote_delim, na_value, select_cols)
    )
    if records is None:
        return stage
    strings = _strings("decode_csv", records)
    step = stage.bind([Component(BYTES, () if isinstance(strings, bytes) else strings.shape)])
    try:
        return step(strings)
    except CsvError as error:
        if error.record is not None and error.field is not None:
            # The step has numbers only; here is the text.
            record = strings if isinstance(strings, bytes) else strings.reshape(-1)[error.record]
            text = step.field(record, error.field)  # type: ignore[attr-defined]
            if text is not None:
                error.args = (f"{error}: {text.decode(errors='backslashreplace')}",)
        raise


_CSV_KINDS: dict[np.dtype[Any], int] = {
    np.dtype(np.float32): 0,
    np.dtype(np.float64): 1,
    np.dtype(np.int32): 2,
    np.dtype(np.int64): 3,
    BYTES: 4,
}
# Of a row of a file. A record on its own is in memory anyway.
_MAX_RECORD_BYTES = 64 << 20


def _csv_default(index: int, default: Any) -> tuple[np.dtype[Any], bytes | None]:
    """Return the dtype of a column, and the bytes of its default; `None`: a value is required."""
    label = f"decode_csv: the default of column {index}"
    one = default[0] if isinstance(default, (list, tuple)) and len(default) == 1 else default
    if isinstance(one, (bytes, str)):  # not through NumPy, which takes NUL bytes off their end
        return BYTES, one.encode() if isinstance(one, str) else bytes(one)
    array = np.asarray(default)
    if array.ndim > 1 or array.size > 1:
        raise InvalidArgumentError(f"{label} must be one value, or an empty list; its shape is {array.shape}")
    dtype = array.dtype
    if not isinstance(default, (np.ndarray, np.generic)):
        # TensorFlow's words: a Python int is an int32, a float a float32, and so is what an empty list lacks.
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
    if dtype not in _CSV_KINDS:
        raise DtypeError(f"{label} must be a float32, float64, int32, int64 or bytes, not {dtype}")
    if item is not None and dtype == np.int32 and not -(2**31) <= item < 2**31:
        raise InvalidArgumentError(f"{label}, {item}, is no int32; pass it as a numpy.int64 for a column of those")
    return dtype, None if item is None else np.array(item, dtype).tobytes()


def _csv_format(
    columns: Sequence[tuple[np.dtype[Any], bytes | None]],
    field_delim: str | bytes,
    use_quote_delim: bool,
    na_value: str | bytes,
    select_cols: Sequence[int] | None,
    max_record_bytes: int = _MAX_RECORD_BYTES,
) -> CsvFormat:
    delim = field_delim.encode() if isinstance(field_delim, str) else bytes(field_delim)
    if len(delim) != 1:
        raise InvalidArgumentError(f"decode_csv: field_delim must be one byte, not {delim!r}")
    na = na_value.encode() if isinstance(na_value, str) else bytes(na_value)
    fields = list(range(len(columns)))
    if select_cols is not None:
        fields = [operator.index(one) for one in select_cols]
        if len(fields) != len(columns):
            raise InvalidArgumentError(
                f"decode_csv: select_cols has {len(fields)} columns and record_defaults {len(columns)}"
            )
        if fields[0] < 0 or any(b <= a for a, b in itertools.pairwise(fields)):
            raise InvalidArgumentError(f"decode_csv: select_cols must be rising numbers from 0 on, not {fields}")
        if fields[-1] >= 2**31:
            raise InvalidArgumentError(f"decode_csv: there is no field {fields[-1]}")
    native = [(_CSV_KINDS[dtype], field, one) for (dtype, one), field in zip(columns, fields, strict=True)]
    return CsvFormat(native, select_cols is not None, delim[0], bool(use_quote_delim), na, max_record_bytes)


def _decode_csv(dtypes: Sequence[np.dtype[Any]], csv_format: CsvFormat) -> Stage:
    def bind(components: tuple[Component, ...]) -> Step:
        given = _lone_strings("decode_csv", components)
        return CsvStep((given,), tuple(Component(dtype, given.shape) for dtype in dtypes), csv_format)

    words = ("bytes" if dtype == BYTES else str(dtype) for dtype in dtypes)
    return Stage(f"decode_csv({', '.join(words)})", bind)
