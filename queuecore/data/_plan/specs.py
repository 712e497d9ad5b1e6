"""Structures of elements, dicts and tuples of arrays: what is known of them, and whether one fits another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from queuecore._core.stream.describe import DENSE, FIXED, STRING, STRINGS
from queuecore._elements.component import BYTES
from queuecore._elements.nests import apart, mapped, structure_of
from queuecore._elements.record import ArraySpec, DatasetSpec, SparseSpec
from queuecore.data._plan.made import Made, NativeComponent
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged, Sparse

__all__ = ["check_element", "classes_of", "fits", "made_spec", "shape_of", "type_of"]

_CHAR = np.dtype("S1")


def type_of(spec: Any) -> Any:
    """Return the dtype of a leaf; a dataset is its own type, as in tf.data."""
    return spec.dtype if isinstance(spec, ArraySpec) else spec


def shape_of(spec: Any) -> Any:
    """Return the shape of a leaf; a dataset is its own shape."""
    return spec.shape if isinstance(spec, ArraySpec) else spec


def made_spec(types: Any, shapes: Any = None) -> Any:
    """Return the specification for a user's types and shapes.

    Parameters
    ----------
    types : structure of dtype
        Dicts and tuples of anything that `numpy.dtype` takes.
    shapes : structure of sequences of int or None, or None
        The same structure; each shape, and each side in one, may be `None`: nothing is known of it.

    Raises
    ------
    DtypeError
        If a type is no dtype.
    InvalidArgumentError
        If a shape is none, or the structures differ.
    """
    return _made_spec(types, shapes, "")


def _made_spec(types: Any, shapes: Any, place: str) -> Any:
    if isinstance(types, dict):
        if shapes is not None and not (isinstance(shapes, dict) and shapes.keys() == types.keys()):
            raise InvalidArgumentError(
                f"output_shapes{place} must be a dict with the keys {list(types)}, not {shapes!r}"
            )
        return {
            key: _made_spec(inner, None if shapes is None else shapes[key], f"{place}[{key!r}]")
            for key, inner in types.items()
        }
    if isinstance(types, tuple):
        if shapes is not None and not (isinstance(shapes, tuple) and len(shapes) == len(types)):
            raise InvalidArgumentError(f"output_shapes{place} must be a tuple of {len(types)}, not {shapes!r}")
        return tuple(
            _made_spec(inner, None if shapes is None else shapes[index], f"{place}[{index}]")
            for index, inner in enumerate(types)
        )
    try:
        dtype = None if types is None else np.dtype(types)  # whose None is float64: here it is a slip
    except TypeError:
        dtype = None
    if dtype is None or dtype.names is not None or dtype.subdtype is not None:
        raise DtypeError(f"output_types{place} must be a dtype, or a dict or tuple of them, not {types!r}")
    return ArraySpec(_made_shape(shapes, place), dtype.newbyteorder("="))


def _made_shape(shape: Any, place: str) -> tuple[int | None, ...] | None:
    if shape is None:
        return None
    sides = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for side in sides:
        if side is not None and (isinstance(side, bool) or not isinstance(side, (int, np.integer)) or side < 0):
            raise InvalidArgumentError(
                f"output_shapes{place} must be a tuple of numbers from 0 on, or None where a side is not known, "
                f"not {shape!r}"
            )
    return tuple(None if side is None else int(side) for side in sides)


def fits(declared: Any, spec: Any, subject: str) -> bool:
    """Check elements against what was declared of them.

    Parameters
    ----------
    declared, spec : structure of ArraySpec
        The declared specification, and the dataset's. A side that is unknown to one of them fits.
    subject : str
        Whose elements they are, for messages.

    Returns
    -------
    bool
        Whether that settles it. If not, more was declared than the dataset knows, and each element must be checked.

    Raises
    ------
    DtypeError
        If the structure or a dtype is another one.
    InvalidArgumentError
        If a shape can't be right.
    """
    return _fits(declared, spec, subject, "")


def _fits(declared: Any, spec: Any, subject: str, position: str) -> bool:
    if isinstance(declared, dict) and isinstance(spec, dict) and declared.keys() == spec.keys():
        return all([_fits(declared[key], spec[key], subject, f"{position}[{key!r}]") for key in declared])
    told, there = apart(declared), apart(spec)
    if told is not None and there is not None and not isinstance(declared, dict) and len(told[0]) == len(there[0]):
        pairs = enumerate(zip(told[0], there[0], strict=True))
        return all([_fits(*pair, subject, f"{position}[{index}]") for index, pair in pairs])
    if declared is None and spec is None:
        return True
    place = f" at {position}" if position else ""
    if isinstance(declared, DatasetSpec) and declared == spec:
        return True
    if not (isinstance(declared, ArraySpec) and isinstance(spec, ArraySpec)):
        raise DtypeError(f"{subject}: expected the structure {_shown(declared)}{place}, got {_shown(spec)}")
    # Strings of any length are all strings.
    if declared.dtype != spec.dtype and not (declared.dtype == BYTES and spec.dtype.kind == "S"):
        raise DtypeError(f"{subject}: expected dtype {declared.dtype}{place}, got {spec.dtype}")
    if declared.shape is None:
        return True
    if spec.shape is None:
        return False
    sides = list(zip(declared.shape, spec.shape, strict=False))
    if len(declared.shape) != len(spec.shape) or any(None not in pair and pair[0] != pair[1] for pair in sides):
        raise InvalidArgumentError(f"{subject}: expected shape {declared.shape}{place}, got {spec.shape}")
    return not any(side is not None and here is None for side, here in sides)


def _shown(spec: Any) -> str:
    types = mapped(lambda leaf: str(type_of(leaf)), spec)
    return types if isinstance(types, str) else repr(types)


def check_element(declared: Any, element: Any, position: str = "") -> None:
    """Check the shapes of an element whose structure and dtypes are known to fit.

    Raises
    ------
    InvalidArgumentError
        If one isn't what was declared.
    """
    if isinstance(declared, dict):
        for key, inner in declared.items():
            check_element(inner, element[key], f"{position}[{key!r}]")
    elif (split := apart(declared)) is not None:
        parts = (apart(element) or (element,))[0]
        for index, inner in enumerate(split[0]):
            check_element(inner, parts[index], f"{position}[{index}]")
    elif isinstance(declared, ArraySpec) and declared.shape is not None:
        shape = _shape_of_value(element, len(declared.shape))
        pairs = list(zip(declared.shape, shape, strict=False))
        if len(declared.shape) != len(shape) or any(None not in pair and pair[0] != pair[1] for pair in pairs):
            place = f" at {position}" if position else ""
            raise InvalidArgumentError(f"expected an element of shape {declared.shape}{place}, got {shape}")


def _shape_of_value(value: Any, dims: int) -> tuple[int | None, ...]:
    if isinstance(value, Ragged):  # whose rows have no length that all of them share
        return (len(value), *(None,) * (dims - 1))
    if isinstance(value, Sparse):
        return tuple(int(side) for side in value.dense_shape)
    return tuple(np.shape(value))


def classes_of(result: Made, batched: bool) -> Any:
    """Return the class of each component of an element, in its structure.

    Found by doing with nothing what the native core does with data: an element assembled in Python says so best itself.
    """
    parts = [_nothing(one) for one in result.components]
    if not batched:
        parts = [part[0] for part in parts]
    element = structure_of(result.template, parts) if result.assemble is None else result.assemble(parts, batched)
    return mapped(type, element)


def class_of(spec: ArraySpec) -> type[Any]:
    """Return the class of a component of an element that is a Python object, given its specification."""
    if isinstance(spec, SparseSpec):
        return Sparse
    if spec.dtype == BYTES:
        return Ragged if spec.shape else bytes
    return np.ndarray if spec.shape or spec.shape is None else spec.dtype.type


def _nothing(component: NativeComponent) -> np.ndarray[Any, Any] | Ragged:
    """Return a batch of one row of a component."""
    kind, dtype, shape = component
    if kind in (FIXED, DENSE):
        return np.zeros((1, *_least(shape)), dtype)
    splits = np.zeros(2, np.int64)
    strings = np.empty(0, _CHAR)
    if kind == STRING:
        return Ragged(strings, splits)
    if kind == STRINGS:
        return Ragged(Ragged(strings, splits[:1]), splits)
    return Ragged(np.empty(0, dtype), splits)


def _least(shape: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(side or 0 for side in shape)
