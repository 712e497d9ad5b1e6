"""Operations on bytes, numbers and pictures: at once on values, or, given no input, as native stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from queuecore._core.decode import RawStep
from queuecore._core.stages import Step
from queuecore.data._record import compile_record
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = [
    "Component",
    "Stage",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "cast",
    "compose",
    "decode_raw",
    "on",
    "one_hot",
    "pad",
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


# Last, because they build upon the above.
from queuecore._ops_numbers import (  # noqa: E402
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
from queuecore._ops_pictures import (  # noqa: E402
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
