"""Operations on raw bytes: numbers, records, compressed strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from queuecore._checks.checks import MAX_DIMS
from queuecore._core.io.inflate import InflateStep
from queuecore._core.steps.decode import RawStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import BYTES, Component, Structure
from queuecore._elements.dtypes import as_dtype, kind_of
from queuecore._elements.nests import structure_of
from queuecore._elements.record import RecordLeaf, RecordPlan, compile_record
from queuecore._io.compression import COMPRESSIONS, COMPRESSIONS_SHOWN, encoding_number
from queuecore._ops.stage import Stage, traceable
from queuecore._ops.strings import lone_strings, strings_of
from queuecore.errors import DtypeError, InvalidArgumentError, UnimplementedError
from queuecore.ragged import Ragged

__all__ = ["component_of", "decode_compressed", "decode_padded_raw", "decode_raw", "record_stage"]


def _eager(label: str, stage: Stage, value: Any) -> list[Any]:
    strings = strings_of(label, value)
    return stage.bind([component_of(strings)])(strings)


def component_of(strings: bytes | np.ndarray | Ragged) -> Component:
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


@traceable
def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> Any:
    r"""Read strings of bytes as numbers.

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
    if fixed_length is not None and (not 0 < fixed_length < 2**63 or fixed_length % dtype.itemsize):
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


@traceable
def decode_padded_raw(
    input_bytes: Any = None,
    fixed_length: int | None = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
) -> Any:
    r"""Read strings of bytes as numbers, each cut or padded to the same length: `decode_raw` with a `fixed_length`.

    Parameters
    ----------
    input_bytes : bytes, or array or list of bytes, optional
        Of any shape. Without it, the result is a `Stage`.
    fixed_length : int
        The length to which every string is cut, or padded with zeros; a multiple of the item's size.
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
        component = lone_strings("decode_raw", components)
        length = component.nbytes if fixed_length is None else fixed_length
        shape = None
        if component.shape is not None:
            shape = (*component.shape, None if length is None else length // dtype.itemsize)
            _check_dims(shape)
        output = Component(dtype.newbyteorder("="), shape)
        return RawStep((component,), (output,), dtype.itemsize, swap, fixed_length or 0, [])

    def tensors(inputs: list[Any]) -> list[Any]:
        count, left = divmod(_known_length(inputs[0].nbytes, fixed_length), dtype.itemsize)
        if dtype.kind == "b" or left:
            raise UnimplementedError("it refuses some bytes, and a kernel can't")
        leaf = RecordLeaf(dtype.newbyteorder("="), (count,), swap, (0,), count * dtype.itemsize)
        return list(inputs[0].fields([leaf]))

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
        component = lone_strings("decode_raw", components)
        if fixed_length is None and component.nbytes not in (None, record.record_bytes):
            raise InvalidArgumentError(
                f"decode_raw: expected records of {record.record_bytes} bytes, got {component.nbytes} bytes"
            )
        outputs = []
        for index, leaf in enumerate(record.leaves):
            shape = None if component.shape is None else (*component.shape, *leaf.shape)
            _check_dims(shape)
            outputs.append(Component(leaf.dtype, shape, name=names[index]))
        leaves = [leaf.native() for leaf in record.leaves]
        return RawStep((component,), tuple(outputs), record.record_bytes, 0, fixed_length or 0, leaves)

    def leaves_of(fill: Callable[[np.dtype[Any], tuple[Any, ...]], Any]) -> Any:
        return structure_of(record.template, [fill(leaf.dtype, leaf.shape) for leaf in record.leaves])

    def tensors(inputs: list[Any]) -> list[Any]:
        _known_length(inputs[0].nbytes, record.record_bytes)
        return [tensor.named(names[index]) for index, tensor in enumerate(inputs[0].fields(record.leaves))]

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


@traceable
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
    compression_type : {"", "ZLIB", "GZIP", "ZSTD", "LZ4", "XZ", "BZ2"}, default ""
        ``""``: they are not compressed.
    name : str, optional
        Not used.
    max_record_bytes : int, default 64 MiB
        The most bytes that a string may have when decompressed.

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
    Runs without the GIL. Members and frames may follow each other in a string, those of GZIP and XZ also with zeros
    between or after them, but of ZLIB there is only one; an empty string is an empty string. Follows TensorFlow's
    ``io.decode_compressed``, but a cut string is an error, as is anything behind the data; the limit is ours, and so
    are ZSTD, LZ4, XZ and BZ2. ZSTD and XZ data may have a window of 128 MiB.

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
    if isinstance(compression_type, str):
        compression_type = compression_type.upper()
    if compression_type not in ("", *COMPRESSIONS):
        raise InvalidArgumentError(
            f"decode_compressed: compression_type must be '', {COMPRESSIONS_SHOWN}, not {compression_type!r}"
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
