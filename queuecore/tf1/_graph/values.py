"""Types, shapes and values of tensors: the facts known before the graph runs, and the values in a session."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, Union

import numpy as np

from queuecore._core.atoms.own import own
from queuecore._elements.component import BYTES
from queuecore._elements.dtypes import as_dtype as _as_dtype

__all__ = [
    "NAMES",
    "Dimension",
    "Sides",
    "TensorShape",
    "as_dtype",
    "as_shape",
    "as_value",
    "broadcast",
    "facts_of",
    "joined",
    "name_of",
    "string",
]

# Types: NumPy's, under TensorFlow's names

float16 = np.dtype("float16")
float32 = np.dtype("float32")
float64 = np.dtype("float64")
int8 = np.dtype("int8")
int16 = np.dtype("int16")
int32 = np.dtype("int32")
int64 = np.dtype("int64")
uint8 = np.dtype("uint8")
uint16 = np.dtype("uint16")
uint32 = np.dtype("uint32")
uint64 = np.dtype("uint64")
complex64 = np.dtype("complex64")
complex128 = np.dtype("complex128")
half = float16
double = float64
bool_ = np.dtype("bool")
string = BYTES

_ALL: list[np.dtype[Any]] = [float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64]
_ALL += [complex64, complex128, bool_]
NAMES: dict[str, np.dtype[Any]] = {one.name: one for one in _ALL} | {"half": half, "double": double, "string": string}
_KNOWN = frozenset(NAMES.values())
# Python's types and words mean the same as in TensorFlow: 32 bits.
_WORDS = NAMES | {"float": float32, "int": int32, "str": string, "bytes": string}
_CLASSES: dict[Any, np.dtype[Any]] = {one.type: one for one in _ALL} | {
    float: float32,
    int: int32,
    bool: bool_,
    complex: complex128,
    str: string,
    bytes: string,
    object: string,
}


def as_dtype(value: Any) -> np.dtype[Any]:
    """Return the type that a word, a class of Python's or NumPy's, or a type itself means to TensorFlow.

    Raises
    ------
    TypeError
        If there is none.
    """
    if isinstance(value, np.dtype) and value in _KNOWN:
        return value
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, type) and value in _CLASSES:
        return _CLASSES[value]
    if value is None:
        raise TypeError("None is no dtype")
    dtype = _as_dtype(value)
    if dtype.kind in "SUO":
        return string
    if dtype.name not in NAMES and dtype.name != "bfloat16":
        raise TypeError(f"{value!r} is no dtype of a tensor")
    return dtype.newbyteorder("=")


def name_of(dtype: np.dtype[Any]) -> str:
    """Return TensorFlow's name of a type."""
    return "string" if dtype.kind == "S" else dtype.name


# Shapes

Sides = tuple[Union[int, None], ...]  # noqa: UP007  evaluated when the module is loaded


class Dimension:
    """One side of a shape: a number, or unknown.

    Parameters
    ----------
    value : int or None
        `None`: unknown.

    Attributes
    ----------
    value : int or None
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        if isinstance(value, Dimension):
            value = value.value
        self.value: int | None = None if value is None else operator.index(value)
        if self.value is not None and self.value < 0:
            raise ValueError(f"Dimension {self.value} must be >= 0")

    def __repr__(self) -> str:
        """Return it as an expression."""
        return f"Dimension({self.value})"

    def __str__(self) -> str:
        """Return the number, or a question mark."""
        return "?" if self.value is None else str(self.value)

    def __int__(self) -> int:
        """Return the number; an unknown one has none."""
        return self.__index__()

    def __index__(self) -> int:
        """Return the number; an unknown one has none."""
        if self.value is None:
            raise TypeError("the dimension is not known before the graph runs")
        return self.value

    def __hash__(self) -> int:
        """Return what equal ones share."""
        return hash(self.value)

    def __eq__(self, other: object) -> Any:
        """Compare; `None` if either is unknown."""
        if isinstance(other, Dimension):
            other = other.value
        elif not isinstance(other, int) and other is not None:
            return NotImplemented
        return None if self.value is None or other is None else self.value == other

    def __ne__(self, other: object) -> Any:
        """Compare; `None` if either is unknown."""
        same = self.__eq__(other)
        return same if same is None or same is NotImplemented else not same

    def _computed(self, compute: Any, other: Any) -> Dimension:
        theirs = Dimension(other).value
        return Dimension(None if self.value is None or theirs is None else compute(self.value, theirs))

    def __add__(self, other: Any) -> Dimension:
        """Add; unknown if either is."""
        return self._computed(operator.add, other)

    def __sub__(self, other: Any) -> Dimension:
        """Subtract; unknown if either is."""
        return self._computed(operator.sub, other)

    def __mul__(self, other: Any) -> Dimension:
        """Multiply; unknown if either is."""
        return self._computed(operator.mul, other)

    def __floordiv__(self, other: Any) -> Dimension:
        """Divide; unknown if either is."""
        return self._computed(operator.floordiv, other)

    def __mod__(self, other: Any) -> Dimension:
        """Return the remainder; unknown if either is."""
        return self._computed(operator.mod, other)

    __radd__ = __add__
    __rmul__ = __mul__


class TensorShape:
    """The shape of a tensor, as far as it is known.

    Parameters
    ----------
    dims : TensorShape, sequence of (int, Dimension or None), int, or None
        `None`: not even the number of dimensions is known.
    """

    __slots__ = ("sides",)

    def __init__(self, dims: Any) -> None:
        self.sides: Sides | None
        if dims is None:
            self.sides = None
        elif isinstance(dims, TensorShape):
            self.sides = dims.sides
        elif isinstance(dims, (Dimension, SupportsIndex)):
            self.sides = (Dimension(dims).value,)
        else:
            self.sides = tuple(Dimension(one).value for one in dims)

    @property
    def dims(self) -> list[Dimension] | None:
        """Its sides; `None` if their number is unknown."""
        return None if self.sides is None else [Dimension(one) for one in self.sides]

    @property
    def ndims(self) -> int | None:
        """The number of dimensions, or `None`."""
        return None if self.sides is None else len(self.sides)

    rank = ndims

    def as_list(self) -> list[int | None]:
        """Return its sides, `None` for each unknown one."""
        return list(self._known())

    def _known(self) -> Sides:
        if self.sides is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape")
        return self.sides

    def is_fully_defined(self) -> bool:
        """Return whether every side is known."""
        return self.sides is not None and None not in self.sides

    def assert_is_fully_defined(self) -> None:
        """Raise `ValueError` unless every side is known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def num_elements(self) -> int | None:
        """Return the product of its sides, or `None`."""
        if self.sides is None:
            return None
        count = 1
        for side in self.sides:
            if side is None:
                return None
            count *= side
        return count

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether a tensor may have both shapes."""
        theirs = as_shape(other).sides
        if self.sides is None or theirs is None:
            return True
        return len(self.sides) == len(theirs) and all(
            a is None or b is None or a == b for a, b in zip(self.sides, theirs, strict=True)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise `ValueError` if no tensor can have both."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {as_shape(other)} are incompatible")

    def merge_with(self, other: Any) -> TensorShape:
        """Return the facts of both shapes together.

        Raises
        ------
        ValueError
            If they contradict each other.
        """
        theirs = as_shape(other)
        self.assert_is_compatible_with(theirs)
        if self.sides is None or theirs.sides is None:
            return theirs if self.sides is None else self
        return TensorShape([b if a is None else a for a, b in zip(self.sides, theirs.sides, strict=True)])

    def most_general_with(self, other: Any) -> TensorShape:
        """Return the facts that hold for tensors of either shape."""
        theirs = as_shape(other).sides
        if self.sides is None or theirs is None or len(self.sides) != len(theirs):
            return TensorShape(None)
        return TensorShape([a if a == b else None for a, b in zip(self.sides, theirs, strict=True)])

    def concatenate(self, other: Any) -> TensorShape:
        """Return its sides, and then the other's."""
        theirs = as_shape(other).sides
        return TensorShape(None if self.sides is None or theirs is None else self.sides + theirs)

    def with_rank(self, rank: int) -> TensorShape:
        """Return the shape with this number of dimensions; `ValueError` if it has another number."""
        if self.sides is None:
            return TensorShape([None] * rank)
        if len(self.sides) != rank:
            raise ValueError(f"Shape {self} must have rank {rank}")
        return self

    def __len__(self) -> int:
        """Return how many dimensions it has."""
        return len(self._known())

    def __iter__(self) -> Iterator[Dimension]:
        """Iterate over its sides."""
        return iter([Dimension(one) for one in self._known()])

    def __getitem__(self, key: Any) -> Any:
        """Return a side, or a part of it as a shape."""
        if isinstance(key, slice):
            return TensorShape(None if self.sides is None else self.sides[key])
        return Dimension(None if self.sides is None else self.sides[key])

    def __bool__(self) -> bool:
        """Return whether the number of dimensions is known."""
        return self.sides is not None

    def __eq__(self, other: object) -> bool:
        """Compare all that is known."""
        try:
            return self.sides == as_shape(other).sides
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        """Return what equal ones share."""
        return hash(self.sides)

    def __repr__(self) -> str:
        """Return it as an expression."""
        return f"TensorShape({None if self.sides is None else list(self.sides)})"

    def __str__(self) -> str:
        """Return it as TensorFlow writes it: ``(2, ?)``."""
        if self.sides is None:
            return "<unknown>"
        inside = ", ".join("?" if side is None else str(side) for side in self.sides)
        return f"({inside},)" if len(self.sides) == 1 else f"({inside})"


def as_shape(value: Any) -> TensorShape:
    """Return it as a `TensorShape`."""
    return value if isinstance(value, TensorShape) else TensorShape(value)


def joined(shapes: Sequence[TensorShape], general: bool) -> TensorShape:
    """Return the facts for tensors that have all of these shapes; with `general`, for tensors that have any of them.

    Raises
    ------
    ValueError
        If two of them contradict each other.
    """
    found = shapes[0]
    for shape in shapes:
        found.assert_is_compatible_with(shape)
        found = found.most_general_with(shape) if general else found.merge_with(shape)
    return found


def broadcast(shapes: Sequence[TensorShape]) -> TensorShape:
    """Return the shape of an element-wise operation's result.

    Raises
    ------
    ValueError
        If two sides contradict each other.
    """
    found: Sides = ()
    for shape in shapes:
        if shape.sides is None:
            return TensorShape(None)
        length = max(len(found), len(shape.sides))
        old: Sides = (1,) * (length - len(found)) + found
        new: Sides = (1,) * (length - len(shape.sides)) + shape.sides
        found = tuple(_broadcast_side(a, b, shapes) for a, b in zip(old, new, strict=True))
    return TensorShape(found)


def _broadcast_side(a: int | None, b: int | None, shapes: Sequence[TensorShape]) -> int | None:
    if a == 1 or a == b:
        return b
    if b == 1:
        return a
    if a is None or b is None:
        return b if a is None else a
    raise ValueError(f"Shapes {' and '.join(map(str, shapes))} are incompatible: {a} and {b} along one dimension")


# Values


def as_value(value: Any, dtype: Any = None) -> Any:
    """Return a value as a session uses it: a NumPy array or scalar; strings are bytes, or object arrays of them.

    Parameters
    ----------
    value : object
    dtype : dtype, optional
        Default: an array's own; for Python's numbers TensorFlow's, with 32 bits where they fit.

    Raises
    ------
    TypeError, ValueError
        If it can't be a value, or has another type.

    Notes
    -----
    A NumPy array isn't copied; anything else that becomes an array is.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if value is None:
        raise ValueError("None values not supported.")
    if isinstance(value, (str, bytes)):
        _check_kind(value, "S", wanted)
        return value.encode() if isinstance(value, str) else value
    array = value if isinstance(value, (np.ndarray, np.generic)) else _listed(value, wanted)
    if array.dtype.kind in "SUO":
        _check_kind(value, "S", wanted)
        return _strings(array)
    if wanted is None:
        wanted = as_dtype(array.dtype)
        if not isinstance(value, (np.ndarray, np.generic)):
            if wanted == float64:
                wanted = float32
            elif wanted == int64 and _fits(array):
                wanted = int32
    return _cast(array, wanted, value)


def _listed(value: Any, wanted: np.dtype[Any] | None) -> Any:
    try:
        array = np.asarray(value)
        if not isinstance(value, (list, tuple)):
            array = own(array)  # it may lie in the user's memory
    except ValueError as error:
        raise ValueError(f"{value!r} is no tensor: {error}") from error
    if array.dtype.kind == "O" and not all(isinstance(one, (str, bytes)) for one in array.flat):
        raise TypeError(f"Failed to convert {value!r} (of type {type(value).__name__}) to a tensor")
    if array.dtype.kind in "SU":  # which would cut zeros off their ends
        array = np.array(value, object)
    if array.size == 0 and array.dtype == np.float64 and not isinstance(value, np.ndarray):
        array = array.astype(np.float32 if wanted is None or wanted.kind == "S" else wanted)
        if wanted is not None and wanted.kind == "S":
            array = array.astype(object)
    return array


def _fits(array: Any) -> bool:
    return array.size == 0 or (int(array.min()) >= -(2**31) and int(array.max()) < 2**31)


def _check_kind(value: Any, kind: str, wanted: np.dtype[Any] | None) -> None:
    if wanted is not None and wanted.kind != kind:
        raise TypeError(f"Expected {name_of(wanted)}, got {value!r} of type '{type(value).__name__}' instead.")


def _strings(array: Any) -> Any:
    flat = [one.encode() if isinstance(one, str) else bytes(one) for one in np.asarray(array).flat]
    if np.ndim(array) == 0:
        return flat[0]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(np.shape(array))


def _cast(array: Any, wanted: np.dtype[Any], value: Any) -> Any:
    if array.dtype == wanted:
        return array
    source, target = array.dtype.kind, wanted.kind
    if target == "S":
        raise TypeError(f"Expected string, got {value!r} of type '{type(value).__name__}' instead.")
    exact = source == target or (source in "iu" and target in "iufc") or (source == "f" and target in "fc")
    if array.size and not exact and not (target == "V" and source in "iuf"):
        raise TypeError(f"Expected {name_of(wanted)}, got {value!r} of type '{type(value).__name__}' instead.")
    if source in "iu" and target in "iu" and array.size:
        info = np.iinfo(wanted)
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise ValueError(f"{value!r} does not fit {name_of(wanted)}")
    return array.astype(wanted)


def facts_of(value: Any) -> tuple[np.dtype[Any], TensorShape]:
    """Return the type and the shape of what `as_value` returned."""
    return (string if isinstance(value, bytes) else as_dtype(value.dtype)), as_shape(np.shape(value))
