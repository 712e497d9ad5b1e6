"""Shapes and values of tensors: the facts known before the graph runs, and the values in a session."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, Union

import numpy as np

from queuecore._core.atoms.own import own
from queuecore._elements.component import BYTES
from queuecore._elements.dtypes import as_dtype as _numpy_dtype

__all__ = [
    "DType",
    "Dimension",
    "NAMES",
    "QUANTIZED_DTYPES",
    "Sides",
    "TensorShape",
    "as_dtype",
    "as_shape",
    "as_value",
    "bfloat16",
    "bool_",
    "bracketed",
    "broadcast",
    "complex128",
    "complex64",
    "dimension_at_index",
    "dimension_value",
    "double",
    "facts_of",
    "float16",
    "float32",
    "float64",
    "half",
    "int16",
    "int32",
    "int64",
    "int8",
    "joined",
    "name_of",
    "qint16",
    "qint32",
    "qint8",
    "quint16",
    "quint8",
    "register_shape_message",
    "resource",
    "string",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "variant",
    "word_of",
]

# Types

_REF = 100  # what is added to the number of a type for that of references to it


def _quantized(name: str, base: str) -> np.dtype[Any]:
    return np.dtype([(name, base)])


# TensorFlow's number of each type, its name, and NumPy's dtype; `None`: a package's, which is looked up when it is used
_TABLE: dict[int, tuple[str, np.dtype[Any] | None]] = {
    1: ("float32", np.dtype("f4")),
    2: ("float64", np.dtype("f8")),
    3: ("int32", np.dtype("i4")),
    4: ("uint8", np.dtype("u1")),
    5: ("int16", np.dtype("i2")),
    6: ("int8", np.dtype("i1")),
    7: ("string", BYTES),
    8: ("complex64", np.dtype("c8")),
    9: ("int64", np.dtype("i8")),
    10: ("bool", np.dtype("?")),
    11: ("qint8", _quantized("qint8", "i1")),
    12: ("quint8", _quantized("quint8", "u1")),
    13: ("qint32", _quantized("qint32", "i4")),
    14: ("bfloat16", None),
    15: ("qint16", _quantized("qint16", "i2")),
    16: ("quint16", _quantized("quint16", "u2")),
    17: ("uint16", np.dtype("u2")),
    18: ("complex128", np.dtype("c16")),
    19: ("float16", np.dtype("f2")),
    20: ("resource", np.dtype(object)),
    21: ("variant", np.dtype(object)),
    22: ("uint32", np.dtype("u4")),
    23: ("uint64", np.dtype("u8")),
}


class DType:
    """The type of a tensor. NumPy takes it wherever it takes a dtype, and it has all attributes of NumPy's dtype.

    Parameters
    ----------
    type_enum : int
        TensorFlow's number of the type.

    Attributes
    ----------
    name : str
        For example ``"float32"`` or ``"string"``.

    Raises
    ------
    TypeError
        If no type has this number.

    Notes
    -----
    It is equal to what `as_dtype` takes for the same type: NumPy's dtype and class, and the name.

    Examples
    --------
    >>> import numpy as np, queuecore.tf1 as tf
    >>> np.zeros(2, tf.int16).dtype == tf.int16, tf.int16.max, tf.string.name
    (True, 32767, 'string')
    """

    __slots__ = ("_enum", "_numpy", "name")

    def __init__(self, type_enum: int) -> None:
        found = _TABLE.get(int(type_enum) % _REF) if 0 < int(type_enum) < 2 * _REF else None
        if found is None:
            raise TypeError(f"{type_enum} is not a valid types_pb2.DataType: no type has this number")
        self._enum = int(type_enum)
        self.name = found[0] if self._enum < _REF else f"{found[0]}_ref"
        self._numpy = found[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype. `UnimplementedError`: it is that of a package that isn't installed."""
        if self._numpy is None:
            self._numpy = _numpy_dtype(_TABLE[self._enum % _REF][0])
        return self._numpy

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of NumPy's dtype."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.dtype, name)

    @property
    def as_numpy_dtype(self) -> Any:
        """NumPy's class of its items: `object` of strings, and a dtype of quantized numbers."""
        if self.kind in "SO":
            return object
        return self.dtype if self.is_quantized else self.dtype.type

    @property
    def as_datatype_enum(self) -> int:
        """TensorFlow's number of it."""
        return self._enum

    @property
    def _is_ref_dtype(self) -> bool:
        return self._enum > _REF

    @property
    def _as_ref(self) -> DType:
        return self if self._is_ref_dtype else _BY_NUMBER[self._enum + _REF]

    @property
    def base_dtype(self) -> DType:
        """Itself; of a reference, the type that it refers to."""
        return _BY_NUMBER[self._enum % _REF]

    @property
    def real_dtype(self) -> DType:
        """The type of a complex number's parts; of other types their base."""
        parts = {8: float32, 18: float64}
        return parts.get(self._enum % _REF, self.base_dtype)

    @property
    def is_numpy_compatible(self) -> bool:
        """True unless its values are objects of a session."""
        return self._enum % _REF not in (20, 21)

    @property
    def is_bool(self) -> bool:
        """True of booleans."""
        return self._enum % _REF == 10

    @property
    def is_quantized(self) -> bool:
        """True of quantized numbers."""
        return self._enum % _REF in (11, 12, 13, 15, 16)

    @property
    def is_integer(self) -> bool:
        """True of integers, but not of quantized ones."""
        return self._enum % _REF in (3, 4, 5, 6, 9, 17, 22, 23)

    @property
    def is_floating(self) -> bool:
        """True of floats that aren't complex."""
        return self._enum % _REF in (1, 2, 14, 19)

    @property
    def is_complex(self) -> bool:
        """True of complex numbers."""
        return self._enum % _REF in (8, 18)

    @property
    def is_unsigned(self) -> bool:
        """True of integers that have no sign, but not of quantized ones."""
        return self._enum % _REF in (4, 17, 22, 23)

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether it is another type, or a reference to one is another type."""
        return self._enum in (as_dtype(other)._enum, as_dtype(other).base_dtype._enum)

    def _limits_of(self, bound: str) -> Any:
        if self.is_integer:
            return np.iinfo(self.dtype)
        if self.is_floating:
            if self.base_dtype == bfloat16:
                import ml_dtypes

                limits: Any = ml_dtypes.finfo
                return limits(ml_dtypes.bfloat16)
            return np.finfo(self.dtype)
        raise TypeError(f"Cannot find {bound} value of {self!s} with type {self!r}.")

    @property
    def min(self) -> Any:
        """The smallest number. `TypeError`: it isn't of integers or floats."""
        return self._limits_of("minimum").min

    @property
    def max(self) -> Any:
        """The largest number. `TypeError`: it isn't of integers or floats."""
        return self._limits_of("maximum").max

    @property
    def limits(self) -> tuple[Any, Any]:
        """The range of intensities of pictures: 0 and 1 of floats, else from 0 on. `ValueError`: there is none."""
        if self.base_dtype in (float32, float64):
            return 0, 1
        if self.is_bool:
            return 0, True
        if not self.is_integer:
            raise ValueError(f"{self!s} does not have defined limits.")
        return 0, self.max

    @property
    def size(self) -> int:
        """The number of bytes of an item; 0 of those whose items vary."""
        return self.dtype.itemsize if self.kind not in "SO" else 0

    def __int__(self) -> int:
        """Return TensorFlow's number of it."""
        return self._enum

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same type."""
        if not isinstance(other, DType):
            if other is None:
                return False
            try:
                other = as_dtype(other)
            except (TypeError, ValueError, NotImplementedError):
                return False
        return self._enum == other._enum

    def __hash__(self) -> int:
        """Return what it shares with NumPy's dtype."""
        return hash(self.dtype) if self._numpy is not None else self._enum

    def __reduce__(self) -> Any:
        """Support `pickle` and `copy`: there is one object of each type."""
        return as_dtype, (self.name,)

    def __str__(self) -> str:
        """Return its name as TensorFlow writes it."""
        return f"<dtype: {self.name!r}>"

    def __repr__(self) -> str:
        """Return it as an expression."""
        return f"tf.{self.name}"


_BY_NUMBER: dict[int, DType] = {}
for _number in _TABLE:
    _BY_NUMBER[_number] = DType(_number)
    _BY_NUMBER[_number + _REF] = DType(_number + _REF)

float32, float64, int32, uint8, int16, int8, string, complex64, int64, bool_ = (_BY_NUMBER[i] for i in range(1, 11))
qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, complex128 = (_BY_NUMBER[i] for i in range(11, 19))
float16, resource, variant, uint32, uint64 = (_BY_NUMBER[i] for i in range(19, 24))
half = float16
double = float64
QUANTIZED_DTYPES = frozenset([qint8, quint8, qint32, qint16, quint16])

_PLAIN = [float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64]
_PLAIN += [complex64, complex128, bool_]
NAMES: dict[str, DType] = {one.name: one for one in _PLAIN} | {"half": half, "double": double, "string": string}
# Python's types and words mean the same as in TensorFlow: 32 bits.
_WORDS = {one.name: one for one in _BY_NUMBER.values()} | NAMES
_WORDS |= {"float": float32, "int": int32, "str": string, "bytes": string}
_CLASSES: dict[Any, DType] = {one.type: one for one in _PLAIN} | {
    float: float32,
    int: int32,
    bool: bool_,
    complex: complex128,
    str: string,
    bytes: string,
    object: string,
}
_OF_NUMPY: dict[np.dtype[Any], DType] = {one.dtype: one for one in [*_PLAIN, *QUANTIZED_DTYPES, string]}


def as_dtype(value: Any) -> DType:
    """Return the type that a word, a number, a class of Python's or NumPy's, or a type itself means to TensorFlow.

    Raises
    ------
    TypeError
        If there is none.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, np.dtype) and (known := _OF_NUMPY.get(value)) is not None:
        return known
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, type) and value in _CLASSES:
        return _CLASSES[value]
    if type(value) is int and value in _BY_NUMBER:
        return _BY_NUMBER[value]
    if value is None:
        raise TypeError("Cannot convert value None to a TensorFlow DType: None is no dtype")
    if isinstance(value, (tuple, list)):  # NumPy would take the first of two types
        raise TypeError(f"Cannot convert value {value!r} to a TensorFlow DType: it is no type, but several")
    try:
        dtype = _numpy_dtype(value)
    except (TypeError, ValueError) as error:
        inner = getattr(value, "dtype", None)
        if inner is not None and inner is not value:
            return as_dtype(inner)
        raise TypeError(f"Cannot convert value {value!r} to a TensorFlow DType: {error}") from error
    if dtype.kind in "SUO":
        return string
    if dtype.name == "bfloat16":
        return bfloat16
    found = _OF_NUMPY.get(dtype.newbyteorder("="))
    if found is None:
        raise TypeError(f"Cannot convert value {value!r} to a TensorFlow DType: {value!r} is no dtype of a tensor")
    return found


def name_of(dtype: Any) -> str:
    """Return TensorFlow's name of a type."""
    return as_dtype(dtype).name


def word_of(dtype: Any) -> str:
    """Return the name of a type in errors of TensorFlow's kernels, which say float and double."""
    name = name_of(dtype)
    return {"float32": "float", "float64": "double", "float16": "half"}.get(name, name)


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
        try:
            self.value: int | None = None if value is None else operator.index(value)
        except TypeError as error:
            raise TypeError(
                f"Dimension value must be integer or None or have an __index__ method, got value '{value!r}' with type "
                f"'{type(value)!r}'"
            ) from error
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
        elif isinstance(other, (str, float)):
            try:
                number = int(other)
            except (ValueError, OverflowError):
                return False
            if isinstance(other, float) and number != other:
                return False
            other = number
        elif not isinstance(other, (int, np.integer)) and other is not None:
            return NotImplemented
        return None if self.value is None or other is None else self.value == other

    def __ne__(self, other: object) -> Any:
        """Compare; `None` if either is unknown."""
        same = self.__eq__(other)
        return same if same is None or same is NotImplemented else not same

    def _computed(self, compute: Any, other: Any) -> Any:
        try:
            theirs = Dimension(other).value
        except (TypeError, ValueError):
            return NotImplemented
        return Dimension(None if self.value is None or theirs is None else compute(self.value, theirs))

    def __add__(self, other: Any) -> Any:
        """Add; unknown if either is."""
        return self._computed(operator.add, other)

    def __sub__(self, other: Any) -> Any:
        """Subtract; unknown if either is."""
        return self._computed(operator.sub, other)

    def __mul__(self, other: Any) -> Any:
        """Multiply; unknown if either is."""
        return self._computed(operator.mul, other)

    def __floordiv__(self, other: Any) -> Any:
        """Divide; unknown if either is."""
        return self._computed(operator.floordiv, other)

    def __mod__(self, other: Any) -> Any:
        """Return the remainder; unknown if either is."""
        return self._computed(operator.mod, other)

    __radd__ = __add__
    __rmul__ = __mul__
    __div__ = __floordiv__

    def __rsub__(self, other: Any) -> Any:
        """Subtract; unknown if either is."""
        return self._computed(lambda a, b: b - a, other)

    def __rfloordiv__(self, other: Any) -> Any:
        """Divide; unknown if either is."""
        return self._computed(lambda a, b: b // a, other)

    def __rmod__(self, other: Any) -> Any:
        """Return the remainder; unknown if either is."""
        return self._computed(lambda a, b: b % a, other)

    def __truediv__(self, other: Any) -> Any:
        """Raise: dimensions are whole numbers."""
        raise TypeError(
            f"unsupported operand type(s) for /: 'Dimension' and '{type(other).__name__}', please use // instead"
        )

    def __rtruediv__(self, other: Any) -> Any:
        """Raise: dimensions are whole numbers."""
        raise TypeError(
            f"unsupported operand type(s) for /: '{type(other).__name__}' and 'Dimension', please use // instead"
        )

    def _ordered(self, compare: Any, other: Any) -> bool | None:
        theirs = Dimension(other).value
        return None if self.value is None or theirs is None else bool(compare(self.value, theirs))

    def __lt__(self, other: Any) -> bool | None:
        """Compare; `None` if either is unknown."""
        return self._ordered(operator.lt, other)

    def __le__(self, other: Any) -> bool | None:
        """Compare; `None` if either is unknown."""
        return self._ordered(operator.le, other)

    def __gt__(self, other: Any) -> bool | None:
        """Compare; `None` if either is unknown."""
        return self._ordered(operator.gt, other)

    def __ge__(self, other: Any) -> bool | None:
        """Compare; `None` if either is unknown."""
        return self._ordered(operator.ge, other)

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether both may be the same number."""
        theirs = Dimension(other).value
        return self.value is None or theirs is None or self.value == theirs

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise `ValueError` if they can't be the same number."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {Dimension(other)} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """Return the one that is known. `ValueError`: they differ."""
        theirs = Dimension(other)
        self.assert_is_compatible_with(theirs)
        return Dimension(theirs.value if self.value is None else self.value)

    def __reduce__(self) -> Any:
        """Support `pickle` and `copy`."""
        return Dimension, (self.value,)


class TensorShape:
    """The shape of a tensor, as far as it is known.

    Parameters
    ----------
    dims : TensorShape, sequence of (int, Dimension or None), int, message of `as_proto`, or None
        `None`: not even the number of dimensions is known.
    """

    __slots__ = ("sides",)

    def __init__(self, dims: Any) -> None:
        self.sides: Sides | None
        if dims is None or getattr(dims, "unknown_rank", False):
            self.sides = None
        elif isinstance(dims, TensorShape):
            self.sides = dims.sides
        elif hasattr(dims, "unknown_rank"):  # a message
            self.sides = tuple(None if one.size == -1 else int(one.size) for one in dims.dim)
        elif isinstance(dims, (Dimension, SupportsIndex)) and not getattr(dims, "shape", ()):  # arrays are lists
            self.sides = (Dimension(dims).value,)
        else:
            several: Any = dims
            self.sides = tuple(Dimension(one).value for one in several)

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
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
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
        if not self.is_compatible_with(theirs):
            raise ValueError(f"Shapes {self} and {theirs} are not compatible")
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

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Return it. `ValueError`: it has fewer dimensions."""
        if self.sides is not None and len(self.sides) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """Return it. `ValueError`: it has more dimensions."""
        if self.sides is not None and len(self.sides) > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def ranked(self, rank: int, least: bool = False) -> TensorShape:
        """As `with_rank`, with the error that TensorFlow's operations raise; `least`: or more dimensions."""
        if self.sides is None:
            return self if least else TensorShape([None] * rank)
        if len(self.sides) < rank or len(self.sides) > rank and not least:
            more = "at least " if least else ""
            raise ValueError(f"Shape must be {more}rank {rank} but is rank {len(self.sides)}: {self}")
        return self

    def equal_to(self, other: Any) -> TensorShape:
        """As `merge_with`, with the error that TensorFlow's operations raise."""
        theirs = as_shape(other)
        if self.sides is not None and theirs.sides is not None:
            texts = [bracketed(self.sides), bracketed(theirs.sides)]
            if len(self.sides) != len(theirs.sides):
                raise ValueError(
                    f"Shapes must be equal rank, but are {len(self.sides)} and {len(theirs.sides)}: {texts[0]} and "
                    f"{texts[1]}"
                )
            for at, (a, b) in enumerate(zip(self.sides, theirs.sides, strict=True)):
                if None not in (a, b) and a != b:
                    raise ValueError(
                        f"Dimension {at} in both shapes must be equal, but are {a} and {b}. Shapes are {texts[0]} and "
                        f"{texts[1]}."
                    )
        return self.merge_with(theirs)

    def assert_has_rank(self, rank: int) -> None:
        """Raise `ValueError` if it is known to have another number of dimensions."""
        if self.ndims not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Raise `ValueError` if the two are known to have different numbers of dimensions."""
        theirs = as_shape(other)
        if self.ndims is not None and theirs.ndims is not None and self.ndims != theirs.ndims:
            raise ValueError(f"Shapes {self} and {theirs} must have the same rank")

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """As `most_general_with`."""
        return self.most_general_with(other)

    def as_proto(self) -> Any:
        """Return it as a message of TensorFlow's, whose unknown sides are -1."""
        made = _message[0](unknown_rank=self.sides is None)
        for side in self.sides or ():
            made.dim.add(size=-1 if side is None else side)
        return made

    def __add__(self, other: Any) -> TensorShape:
        """As `concatenate`."""
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        """Return the other's sides, and then its own."""
        return as_shape(other).concatenate(self)

    def __reduce__(self) -> Any:
        """Support `pickle` and `copy`."""
        return TensorShape, (None if self.sides is None else list(self.sides),)

    def __len__(self) -> int:
        """Return how many dimensions it has."""
        if self.sides is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self.sides)

    def __iter__(self) -> Iterator[Dimension]:
        """Iterate over its sides."""
        if self.sides is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter([Dimension(one) for one in self.sides])

    def __getitem__(self, key: Any) -> Any:
        """Return a side, or a part of it as a shape."""
        if isinstance(key, slice):
            if self.sides is None and (key.stop is None or key.step not in (None, 1) or (key.stop or 0) < 0):
                return TensorShape(None)
            unknown = (None,) * max((key.stop or 0) - (key.start or 0), 0) if (key.start or 0) >= 0 else None
            return TensorShape(unknown if self.sides is None else self.sides[key])
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
        return f"TensorShape({self.dims})"

    def __str__(self) -> str:
        """Return it as TensorFlow writes it: ``(2, ?)``."""
        if self.sides is None:
            return "<unknown>"
        inside = ", ".join("?" if side is None else str(side) for side in self.sides)
        return f"({inside},)" if len(self.sides) == 1 else f"({inside})"


# The class of messages of shapes; its module imports this one, and so registers it.
_message: list[Any] = []


def register_shape_message(message: Any) -> None:
    """Say which class of messages `TensorShape.as_proto` makes."""
    _message[:] = [message]


def bracketed(sides: Sequence[Any] | None) -> str:
    """Return a shape as TensorFlow's kernels write it: ``[2,?]``."""
    return "?" if sides is None else f"[{','.join('?' if side is None else str(side) for side in sides)}]"


def dimension_value(dimension: Any) -> Any:
    """Return a dimension's number, or `None`; anything else as it is."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """Return a side of a shape; an unknown one of a shape of which nothing is known."""
    return Dimension(None if shape.sides is None else shape.sides[index])


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
    sides: Sides = ()
    for shape in shapes:
        if shape.sides is None:
            return TensorShape(None)
        length = max(len(sides), len(shape.sides))
        old: Sides = (1,) * (length - len(sides)) + sides
        new: Sides = (1,) * (length - len(shape.sides)) + shape.sides
        sides = tuple(_broadcast_side(a, b, shapes) for a, b in zip(old, new, strict=True))
    return TensorShape(sides)


def _broadcast_side(a: int | None, b: int | None, shapes: Sequence[TensorShape]) -> int | None:
    if a == 1 or a == b:
        return b
    if b == 1:
        return a
    if a is None or b is None:
        return b if a is None else a
    raise ValueError(f"Dimensions must be equal, but are {a} and {b}: of the shapes {' and '.join(map(str, shapes))}")


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
    target = None if dtype is None else as_dtype(dtype)
    if value is None:
        raise ValueError("None values not supported.")
    if isinstance(value, (str, bytes)):
        _check_kind(value, "S", target)
        return value.encode() if isinstance(value, str) else value
    array = value if isinstance(value, (np.ndarray, np.generic)) else _listed(value, target)
    if array.dtype.kind in "SUO":
        _check_kind(value, "S", target)
        return _strings(array)
    if target is None:
        target = as_dtype(array.dtype)
        if not isinstance(value, (np.ndarray, np.generic)):
            if target == float64:
                target = float32
            elif target == int64 and _fits(array):
                target = int32
    return _cast(array, target, value)


def _listed(value: Any, target: DType | None) -> Any:
    if isinstance(value, TensorShape):
        if not value.is_fully_defined():
            raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {value}")
        value = value.as_list()
    try:
        try:
            array = np.asarray(value)
        except UnicodeDecodeError:  # text beside bytes that are none
            array = np.array(value, object)
        if not isinstance(value, (list, tuple)):
            array = own(array)  # it may lie in the user's memory
    except ValueError as error:
        raise ValueError(f"Argument must be a dense tensor: {value!r} ({error})") from error
    if array.dtype.kind in "SU":  # which cuts zeros off their ends, and takes numbers for strings
        array = np.array(value, object)
    if (
        array.dtype.kind == "O"
        and array.size
        and all(isinstance(one, (int, np.integer, Dimension)) for one in array.flat)
    ):
        array = np.array([_side_of(one) for one in array.flat]).reshape(array.shape)
    if array.dtype.kind == "O" and not all(isinstance(one, (str, bytes)) for one in array.flat):
        raise TypeError(
            f"Failed to convert object of type {type(value)} to Tensor. Contents: {value}. Consider casting elements "
            "to a supported type."
        )
    if array.size == 0 and array.dtype == np.float64 and not isinstance(value, np.ndarray):
        array = array.astype(np.float32 if target is None or target.kind == "S" else target)
        if target is not None and target.kind == "S":
            array = array.astype(object)
    return array


def _side_of(value: Any) -> int:
    if isinstance(value, Dimension) and value.value is None:
        raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: {value}")
    return operator.index(value)


def _fits(array: Any) -> bool:
    return array.size == 0 or (int(array.min()) >= -(2**31) and int(array.max()) < 2**31)


def _check_kind(value: Any, kind: str, wanted: DType | None) -> None:
    if wanted is not None and wanted.kind != kind:
        raise _unexpected(wanted, value)


def _unexpected(target: DType, value: Any) -> TypeError:
    # The error names the first item that isn't of the type.
    if isinstance(value, (list, tuple)):
        for one in value:
            try:
                as_value(one, target)
            except TypeError as error:
                return error
    return TypeError(f"Expected {name_of(target)}, got {value!r} of type '{type(value).__name__}' instead.")


def _strings(array: Any) -> Any:
    flat = [one.encode() if isinstance(one, str) else bytes(one) for one in np.asarray(array).flat]
    if np.ndim(array) == 0:
        return flat[0]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(np.shape(array))


def _cast(array: Any, target_dtype: DType, value: Any) -> Any:
    if array.dtype == target_dtype:
        return array
    source, target = array.dtype.kind, target_dtype.kind
    if target == "S":
        raise _unexpected(target_dtype, value)
    exact = source == target or (source in "iu" and target in "iufc") or (source == "f" and target in "fc")
    if source == "b" and not isinstance(value, (np.ndarray, np.generic)):
        exact = target in "iuf"  # Python's booleans are numbers
    if array.size and not exact and not (target == "V" and source in "iuf"):
        raise _unexpected(target_dtype, value)
    if source in "iu" and target in "iu" and array.size:
        info = np.iinfo(target_dtype)
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise ValueError(f"{value!r} does not fit {name_of(target_dtype)}")
    return array.astype(target_dtype)


def facts_of(value: Any) -> tuple[DType, TensorShape]:
    """Return the type and the shape of what `as_value` returned."""
    return (string if isinstance(value, bytes) else as_dtype(value.dtype)), as_shape(np.shape(value))
