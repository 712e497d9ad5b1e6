"""Operations on bytes, numbers and pictures: at once on values, or, given no input, as native stages."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from queuecore._compression import encoding_number
from queuecore._core.csv import CsvFormat, CsvStep
from queuecore._core.decode import RawStep
from queuecore._core.example import ExampleStep
from queuecore._core.inflate import InflateStep
from queuecore._core.stages import Step
from queuecore._dtypes import as_dtype, kind_of
from queuecore._examples import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    Plan,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from queuecore._ops_calls import cfunc, python
from queuecore._ops_images import decode_bmp, decode_gif, decode_image, decode_jpeg, decode_png
from queuecore._ops_numbers import (
    cast,
    compose,
    on,
    one_hot,
    pad,
    reshape,
    scale,
    slice,
    transpose,
)
from queuecore._ops_pictures import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    random_brightness,
    random_contrast,
    random_crop,
    random_flip_left_right,
    random_hue,
    random_saturation,
    resize,
)
from queuecore._record import Leaf, RecordPlan, compile_record
from queuecore._stages import BYTES, MAX_DIMS, Component, Stage, Structure, lone_strings, strings_of, structure_of
from queuecore._trace import traceable
from queuecore.errors import CsvError, DtypeError, InvalidArgumentError, UnimplementedError
from queuecore.ragged import Ragged

__all__ = [
    "Component",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SparseFeature",
    "Stage",
    "VarLenFeature",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "cast",
    "cfunc",
    "compose",
    "decode_bmp",
    "decode_compressed",
    "decode_csv",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_padded_raw",
    "decode_png",
    "decode_raw",
    "on",
    "one_hot",
    "pad",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "python",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_hue",
    "random_saturation",
    "reshape",
    "resize",
    "scale",
    "slice",
    "transpose",
]


def _eager(label: str, stage: Stage, value: Any) -> list[Any]:
    strings = strings_of(label, value)
    return stage.bind([_component_of(strings)])(strings)


def _component_of(strings: bytes | np.ndarray | Ragged) -> Component:
    if isinstance(strings, bytes):
        return Component(BYTES, (), len(strings))
    return Component(BYTES, (len(strings),) if isinstance(strings, Ragged) else strings.shape)


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
        A boolean, integer, float or complex dtype; ``ml_dtypes.bfloat16``, or that word; or a structured dtype, which
        describes a whole record.
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
        dtype = as_dtype(out_type)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"decode_raw: out_type is no dtype: {error}") from error
    if dtype.names is not None or dtype.subdtype is not None:
        stage = _decode_record(dtype, fixed_length)
        if input_bytes is None:
            return stage
        return structure_of(compile_record(dtype).template, _eager("decode_raw", stage, input_bytes))
    if kind_of(dtype) not in "biufc":
        raise DtypeError(f"decode_raw: expected a dtype of numbers, got {dtype}")
    if dtype.byteorder == "=" and not little_endian:
        dtype = dtype.newbyteorder(">")
    if fixed_length is not None and (fixed_length <= 0 or fixed_length % dtype.itemsize):
        raise InvalidArgumentError(
            f"decode_raw: fixed_length must be a positive multiple of {dtype.itemsize} (the item), not {fixed_length}"
        )
    stage = _decode_numbers(dtype, fixed_length)
    return stage if input_bytes is None else _eager("decode_raw", stage, input_bytes)[0]


@overload
def decode_padded_raw(
    input_bytes: None = None,
    fixed_length: int | None = ...,
    out_type: Any = ...,
    little_endian: bool = ...,
    name: str | None = ...,
) -> Stage: ...
@overload
def decode_padded_raw(
    input_bytes: Any, fixed_length: int, out_type: Any, little_endian: bool = ..., name: str | None = ...
) -> Any: ...
def decode_padded_raw(
    input_bytes: Any = None,
    fixed_length: int | None = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
) -> Any:
    r"""Take strings of bytes for numbers, each cut or filled up to the same length: `decode_raw` with a `fixed_length`.

    Parameters
    ----------
    input_bytes : bytes, or array or list of bytes, optional
        Of any shape. Without it, the result is a `Stage`.
    fixed_length : int
        To which every string is cut, or filled up with zeros; a multiple of the item's size.
    out_type, little_endian, name
        As of `decode_raw`.

    Returns
    -------
    ndarray
        Of shape ``(*input.shape, fixed_length // itemsize)``; of a structured dtype a dict, as from `decode_raw`.

    Raises
    ------
    DtypeError, InvalidArgumentError
        As `decode_raw`; also if there is no `fixed_length`.

    Notes
    -----
    Follows TensorFlow's ``raw_ops.DecodePaddedRaw``. Zeros are filled in behind the string in either byte order.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> qc.ops.decode_padded_raw([b"\x01", b"\x01\x02\x03\x04\x05"], 4, np.uint16)
    array([[   1,    0],
           [ 513, 1027]], dtype=uint16)
    """
    if fixed_length is None:
        raise InvalidArgumentError("decode_padded_raw: fixed_length is missing")
    return decode_raw(input_bytes, out_type, little_endian, fixed_length, name)


def _decode_numbers(dtype: np.dtype[Any], fixed_length: int | None) -> Stage:
    swap = -1 if dtype.kind == "b" else 0
    if not dtype.isnative:
        swap = dtype.itemsize // (2 if dtype.kind == "c" else 1)

    def bind(components: tuple[Component, ...]) -> Step:
        given = lone_strings("decode_raw", components)
        length = given.nbytes if fixed_length is None else fixed_length
        shape = None
        if given.shape is not None:
            shape = (*given.shape, None if length is None else length // dtype.itemsize)
            _check_dims(shape)
        made = Component(dtype.newbyteorder("="), shape)
        return RawStep((given,), (made,), dtype.itemsize, swap, fixed_length or 0, [])

    def tensors(given: list[Any]) -> list[Any]:
        count, left = divmod(_known_length(given[0].nbytes, fixed_length), dtype.itemsize)
        if dtype.kind == "b" or left:
            raise UnimplementedError("it refuses some bytes, and a kernel can't")
        leaf = Leaf(dtype.newbyteorder("="), (count,), swap, (0,), count * dtype.itemsize)
        return list(given[0].fields([leaf]))

    return Stage(f"decode_raw({dtype})", bind, rowwise=True, device=tensors)


def _known_length(nbytes: int | None, fixed_length: int | None) -> int:
    if nbytes is None or nbytes < (fixed_length or 0):
        raise UnimplementedError("it gets strings that are shorter than the fixed length, or may be")
    return fixed_length or nbytes


def _decode_record(dtype: np.dtype[Any], fixed_length: int | None) -> Stage:
    record = compile_record(dtype)
    if fixed_length is not None and fixed_length != record.record_bytes:
        raise InvalidArgumentError(
            f"decode_raw: fixed_length must be {record.record_bytes}, the record's size, not {fixed_length}"
        )
    return record_stage(record, fixed_length, f"decode_raw({dtype})")


def record_stage(record: RecordPlan, fixed_length: int | None = None, text: str = "decode_raw") -> Stage:
    """Return the stage that cuts records; not for users."""
    names = dict(_leaf_names(record.template))

    def bind(components: tuple[Component, ...]) -> Step:
        given = lone_strings("decode_raw", components)
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

    def leaves_of(fill: Callable[[np.dtype[Any], tuple[Any, ...]], Any]) -> Any:
        return structure_of(record.template, [fill(leaf.dtype, leaf.shape) for leaf in record.leaves])

    def tensors(given: list[Any]) -> list[Any]:
        _known_length(given[0].nbytes, record.record_bytes)
        return [tensor.named(names[index]) for index, tensor in enumerate(given[0].fields(record.leaves))]

    structure = Structure(lambda arrays, _: structure_of(record.template, arrays), leaves_of, record.template)
    return Stage(text, bind, structure, True, device=tensors)


def _check_dims(shape: tuple[int | None, ...] | None) -> None:
    if shape is not None and len(shape) > MAX_DIMS:
        raise InvalidArgumentError(f"decode_raw: {len(shape)} dimensions; at most {MAX_DIMS} are possible")


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
        given = lone_strings("decode_compressed", components)
        made = Component(BYTES, given.shape, None if encoding else given.nbytes)
        return InflateStep((given,), (made,), encoding, max_record_bytes)

    stage = Stage(f"decode_compressed({compression_type or 'plain'})", bind, rowwise=True)
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
    columns = csv_columns(record_defaults)
    stage = _decode_csv(
        [dtype for dtype, _ in columns], csv_format(columns, field_delim, use_quote_delim, na_value, select_cols)
    )
    if records is None:
        return stage
    strings = strings_of("decode_csv", records)
    step = stage.bind([_component_of(strings)])
    try:
        return step(strings)
    except CsvError as error:
        if error.record is not None and error.field is not None:
            # The step has numbers only; here is the text.
            flat = strings.reshape(-1) if isinstance(strings, np.ndarray) else strings
            record = flat if isinstance(flat, bytes) else flat[error.record]
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


def csv_columns(record_defaults: Sequence[Any] | None) -> list[tuple[np.dtype[Any], bytes | None]]:
    """Return dtype and default, `None` where a value is required, of each column; not for users."""
    if record_defaults is None or len(record_defaults) == 0:
        raise InvalidArgumentError("decode_csv: record_defaults must have a default for each column")
    return [_csv_default(index, default) for index, default in enumerate(record_defaults)]


def csv_format(
    columns: Sequence[tuple[np.dtype[Any], bytes | None]],
    field_delim: str | bytes,
    use_quote_delim: bool,
    na_value: str | bytes,
    select_cols: Sequence[int] | None,
    max_record_bytes: int = _MAX_RECORD_BYTES,
) -> CsvFormat:
    """Return the native description of a file or of records; not for users."""
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
        given = lone_strings("decode_csv", components)
        return CsvStep((given,), tuple(Component(dtype, given.shape) for dtype in dtypes), csv_format)

    words = ("bytes" if dtype == BYTES else str(dtype) for dtype in dtypes)
    return Stage(f"decode_csv({', '.join(words)})", bind, rowwise=True)


# ---- Examples --------------------------------------------------------------------------------------------------------


@overload
def parse_example(
    serialized: None = None, features: Mapping[Any, Any] | None = ..., name: str | None = ..., example_names: Any = ...
) -> Stage: ...
@overload
def parse_example(
    serialized: Any, features: Mapping[Any, Any], name: str | None = ..., example_names: Any = ...
) -> dict[Any, Any]: ...
def parse_example(
    serialized: Any = None,
    features: Mapping[Any, Any] | None = None,
    name: str | None = None,
    example_names: Any = None,
) -> Any:
    r"""Parse a batch of serialized ``tf.train.Example`` messages.

    Parameters
    ----------
    serialized : list or array of bytes, Ragged of bytes, or bytes, optional
        The messages. A lone one is parsed as by `parse_single_example`. Without any, the result is a `Stage`.
    features : dict
        What to take from each: `FixedLenFeature`, `VarLenFeature`, `FixedLenSequenceFeature`, `SparseFeature` or
        `RaggedFeature` by key.
    name : str, optional
        Not used.
    example_names : list of str, optional
        A name for each message, for errors.

    Returns
    -------
    dict
        By the keys of `features`: an array of shape ``(n, *shape)`` for a `FixedLenFeature`, ``(n, longest, *shape)``
        for a `FixedLenSequenceFeature`, else a `Sparse` or a `Ragged`. Arrays of bytes are a `Ragged` too: of ``(n,)``
        strings, or with a level more for each further dimension.

    Raises
    ------
    InvalidArgumentError
        If there are no features, or a description is at odds with itself; if an Example lacks a feature that has no
        default, or has values of another dtype or in a number that doesn't fit.
    ProtoError
        If a message doesn't parse.
    DtypeError
        If a dtype is none of int64, float32 and bytes, or the input is no bytes.

    Notes
    -----
    One native call for the whole batch, without the GIL. Follows TensorFlow's ``io.parse_example``. Of several entries
    with one key the last one counts; a feature of no kind is missing; one without values is there. Values that nobody
    asks for are skipped and not looked at, as are unknown fields; known fields of the wrong wire type are refused.
    Unlike TensorFlow, the partitions of a `RaggedFeature` are always checked, and bad features are the same error for
    one and for many Examples.

    A stage gives the columns as they come off the wire, each a component of its own. A `FixedLenFeature` is one dense
    component with the feature's key as its name, and so is a `FixedLenSequenceFeature`. The others share the flat
    columns of the keys that they name: ``key.values``, all values one after the other, and in a batch
    ``key.row_splits`` (int64), where the values of each record begin and end. A stage that gets one record parses it
    as `parse_single_example` does.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> one = bytes.fromhex("0a0e0a0c0a016112071a050a0301ac02")
    >>> qc.ops.parse_example([one, one], {"a": qc.ops.FixedLenFeature(2, np.int64)})
    {'a': array([[  1, 300],
           [  1, 300]])}
    >>> qc.ops.parse_example([one, b""], {"a": qc.ops.RaggedFeature(np.int64)})
    {'a': Ragged([[1, 300], []], dtype=int64)}
    """
    del name
    _some_features("parse_example", features)
    return _examples("parse_example", serialized, [features], example_names, None)


@overload
def parse_single_example(
    serialized: None = None, features: Mapping[Any, Any] | None = ..., name: str | None = ..., example_names: Any = ...
) -> Stage: ...
@overload
def parse_single_example(
    serialized: Any, features: Mapping[Any, Any], name: str | None = ..., example_names: Any = ...
) -> dict[Any, Any]: ...
def parse_single_example(
    serialized: Any = None,
    features: Mapping[Any, Any] | None = None,
    name: str | None = None,
    example_names: Any = None,
) -> Any:
    r"""Parse one serialized ``tf.train.Example`` message.

    Parameters
    ----------
    serialized : bytes, optional
        The message. Without it, the result is a `Stage`.
    features : dict
        As for `parse_example`.
    name, example_names : str, optional
        Not used.

    Returns
    -------
    dict
        By the keys of `features`: an array of the shape asked for (`bytes` for one string), a `Sparse`, or, for a
        `RaggedFeature`, an array of the values, and a `Ragged` once they are partitioned. Arrays of bytes are a
        `Ragged`.

    Raises
    ------
    InvalidArgumentError, ProtoError, DtypeError
        As `parse_example`.

    Notes
    -----
    As for `parse_example`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> one = bytes.fromhex("0a0c0a0a0a016212050a030a0178")
    >>> qc.ops.parse_single_example(one, {"b": qc.ops.FixedLenFeature((), bytes)})
    {'b': b'x'}
    >>> qc.ops.parse_single_example(features={"b": qc.ops.FixedLenFeature((), bytes)})
    parse_single_example(b)
    """
    del name, example_names
    _some_features("parse_single_example", features)
    return _examples("parse_single_example", serialized, [features], None, False)


def parse_sequence_example(
    serialized: Any = None,
    context_features: Mapping[Any, Any] | None = None,
    sequence_features: Mapping[Any, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> Any:
    r"""Parse a batch of serialized ``tf.train.SequenceExample`` messages.

    Parameters
    ----------
    serialized : list or array of bytes, Ragged of bytes, or bytes, optional
        The messages, or a lone one. Without any, the result is a `Stage`.
    context_features : dict, optional
        `FixedLenFeature`, `VarLenFeature` or `RaggedFeature` by key.
    sequence_features : dict, optional
        `FixedLenSequenceFeature`, `VarLenFeature` or `RaggedFeature` by key, of the feature lists.
    example_names : list of str, optional
        A name for each message, for errors.
    name : str, optional
        Not used.

    Returns
    -------
    context, sequences, lengths : dict
        By key: the context as by `parse_example`; feature lists, with a dimension for the steps after that of the
        batch; and of each `FixedLenSequenceFeature` how many steps the messages have, an array of int64.

    Raises
    ------
    InvalidArgumentError, ProtoError, DtypeError
        As `parse_example`; also if a feature list is missing for which `allow_missing` is not set.

    Notes
    -----
    As for `parse_example`. A stage's components are named ``context.key`` and ``feature_lists.key``; a padded feature
    list in a batch has also ``.lengths``, a flat one ``.step_splits``, where the values of each step begin and end,
    and its ``.row_splits`` are those of the steps.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> one = bytes.fromhex("12170a150a017412100a061a040a0201020a061a040a020304")
    >>> asked = {"t": qc.ops.FixedLenSequenceFeature(2, np.int64)}
    >>> qc.ops.parse_sequence_example([one], sequence_features=asked)
    ({}, {'t': array([[[1, 2],
            [3, 4]]])}, {'t': array([2])})
    """
    del name
    sections = _some_sections("parse_sequence_example", context_features, sequence_features)
    return _examples("parse_sequence_example", serialized, sections, example_names, None)


def parse_single_sequence_example(
    serialized: Any = None,
    context_features: Mapping[Any, Any] | None = None,
    sequence_features: Mapping[Any, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> Any:
    """Parse one serialized ``tf.train.SequenceExample`` message.

    Parameters
    ----------
    serialized : bytes, optional
        The message. Without it, the result is a `Stage`.
    context_features, sequence_features : dict, optional
        As for `parse_sequence_example`.
    example_name, name : str, optional
        Not used.

    Returns
    -------
    context, sequences : dict
        As by `parse_sequence_example`, without the dimension of the batch.

    Raises
    ------
    InvalidArgumentError, ProtoError, DtypeError
        As `parse_sequence_example`.

    Notes
    -----
    As for `parse_sequence_example`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> asked = {"t": qc.ops.FixedLenSequenceFeature((), np.int64, allow_missing=True)}
    >>> qc.ops.parse_single_sequence_example(b"", sequence_features=asked)
    ({}, {'t': array([], dtype=int64)})
    """
    del name, example_name
    label = "parse_single_sequence_example"
    made = _examples(label, serialized, _some_sections(label, context_features, sequence_features), None, False)
    return made if isinstance(made, Stage) else made[:2]


def _some_features(label: str, features: Any) -> None:
    if not isinstance(features, Mapping) or not features:
        raise InvalidArgumentError(f"{label}: features must be a dict that is not empty, not {features!r}")


def _some_sections(label: str, context: Any, sequences: Any) -> list[Any]:
    for part, features in (("context_features", context), ("sequence_features", sequences)):
        if features is not None and not isinstance(features, Mapping):
            raise InvalidArgumentError(f"{label}: {part} must be a dict, not {features!r}")
    if not context and not sequences:
        raise InvalidArgumentError(f"{label}: one of context_features and sequence_features must name a feature")
    return [context, sequences]


def _examples(label: str, serialized: Any, sections: list[Any], names: Any, batch: bool | None) -> Any:
    """Parse, or return a stage. `batch`: False for lone messages only."""
    plan = Plan(label, sections, len(sections) > 1)
    if serialized is None:
        return _example_stage(label, plan, batch)
    strings = _messages(label, serialized)
    many = not isinstance(strings, bytes)
    if many and batch is False:
        raise InvalidArgumentError(f"{label}: expected one string of bytes, not a batch of {len(strings)}")
    if many and names is not None and len(names) != len(strings):
        raise InvalidArgumentError(f"{label}: {len(names)} example_names for {len(strings)} messages")
    step = _example_step(label, plan, Component(BYTES, (len(strings),) if many else ()))
    components, lengths = plan.assemble(step.parse(strings, names if many else None), many)
    return (*components, lengths) if plan.sequence else components[0]


def _messages(label: str, value: Any) -> bytes | Sequence[bytes] | Ragged:
    """Return bytes, or many of them."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, Ragged) and value.is_bytes:
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "S":
        # A message may well end with one: a 0.
        raise DtypeError(f"{label}: arrays of {value.dtype} lose the zeros at the end of strings; use a list")
    if isinstance(value, np.ndarray) and value.dtype == object:
        if value.ndim > 1:
            raise InvalidArgumentError(f"{label}: expected a string or a list of them, got {value.ndim} dimensions")
        value = value.tolist()
        if isinstance(value, bytes):
            return value
    if isinstance(value, (list, tuple)):
        kinds = set(map(type, value))
        if kinds <= {bytes}:
            return value
        if all(issubclass(kind, (bytes, bytearray, memoryview)) for kind in kinds):
            return [bytes(one) for one in value]
        value = next(one for one in value if not isinstance(one, (bytes, bytearray, memoryview)))
    raise DtypeError(f"{label}: expected a string of bytes or a list of them, got {type(value).__name__}")


def _example_step(label: str, plan: Plan, given: Component) -> ExampleStep:
    shape = given.shape or ()
    columns, outputs = plan.bound(len(shape) == 1)
    count = shape[0] if shape else None
    sides = {"n": count, "m": None if count is None else count + 1}
    made = [
        Component(
            dtype,
            tuple(sides[side] if isinstance(side, str) else side for side in dims),
            name=name,
            ragged=not shape and dims[:1] == (None,),
        )
        for name, dtype, dims in outputs
    ]
    return ExampleStep(label, (given,), tuple(made), columns)


def _example_stage(label: str, plan: Plan, batch: bool | None) -> Stage:
    def bind(components: tuple[Component, ...]) -> Step:
        given = lone_strings(label, components)
        if given.shape is None or len(given.shape) > (0 if batch is False else 1):
            expected = "one string" if batch is False else "one string, or a batch of them"
            raise InvalidArgumentError(f"{label}: expected {expected}, got components of shape {given.shape}")
        return _example_step(label, plan, given)

    shown = ", ".join(str(key) for section in plan.sections for key in section)
    structure = None if plan.sequence else Structure(plan.assembled, plan.spec)
    return Stage(f"{label}({shown})", bind, structure, True)


# ---- In functions that are traced ------------------------------------------------------------------------------------

# All that take a value or, without one, are stages: their first parameter is that value.
for _name in __all__:
    _op = globals()[_name]
    if inspect.isfunction(_op):
        _first = next(iter(inspect.signature(_op).parameters.values()))
        if _first.default is None:
            globals()[_name] = traceable(_op)
            globals()[_name].__module__ = __name__
