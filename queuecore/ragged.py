"""Components of variable length: rows of values, and sparse arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from queuecore._core.atoms.own import own, register_rows
from queuecore._core.stream.arrow import export
from queuecore.errors import DtypeError, InvalidArgumentError, ResourceExhaustedError

__all__ = ["Ragged", "Sparse", "ragged_of"]

# Strings are rows of this. An array of it is bytes that say of themselves that they are text, not numbers.
_CHAR = np.dtype("S1")
# Arrow's words for numbers that lie in memory as NumPy's do.
_ARROW = {
    np.dtype(word): letter.encode()
    for word, letter in zip(
        ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"), "cCsSiIlLefg", strict=True
    )
}


class Ragged:
    """Rows of different lengths, in one array: row ``i`` is ``values[row_splits[i]:row_splits[i + 1]]``.

    Parameters
    ----------
    values : ndarray or Ragged
        Values of all rows, one after the other; with more dimensions, the first one counts. A `Ragged`, if the rows are
        made of rows themselves. Of dtype ``"S1"``: the rows are strings of bytes.
    row_splits : array of int64 or int32
        Where rows begin and end: one more than there are rows, rising, from 0 to ``len(values)``. They are copied.

    Attributes
    ----------
    values : ndarray or Ragged
        A view of those that were given: no copy is made, until a dataset takes them.
    row_splits : ndarray
        Nobody can write to them, since native code relies on them.

    Raises
    ------
    InvalidArgumentError
        If the splits don't fit.
    DtypeError
        If they are no integers.

    Notes
    -----
    Indexing gives a row: `bytes`, or a view of the values. A slice gives a `Ragged`, whose values are a view; so does
    an array of indices or of booleans, with a copy. Strings of bytes convert to Arrow, and so do rows of numbers
    (``pyarrow.array(ragged)``).

    Examples
    --------
    >>> import numpy as np
    >>> from queuecore.ragged import Ragged
    >>> rows = Ragged(np.array([1, 2, 3]), np.array([0, 2, 2, 3]))
    >>> rows[0], len(rows)
    (array([1, 2]), 3)
    >>> rows[1:].to_list()
    [[], [3]]
    >>> words = Ragged.from_list([b"to", b"", b"be"])
    >>> words[2], words.values.view(np.uint8)
    (b'be', array([116, 111,  98, 101], dtype=uint8))
    """

    # These arrays are never handed out, only views of them: the shape of an array can be set in place.
    __slots__ = ("_row_splits", "_values")

    _values: np.ndarray[Any, Any] | Ragged
    _row_splits: np.ndarray[Any, Any]

    def __init__(self, values: Any, row_splits: Any) -> None:
        if not isinstance(values, Ragged):
            values = np.asarray(values).view()
            if values.ndim == 0:
                raise InvalidArgumentError("Ragged: values must have a dimension")
            if values.dtype == _CHAR and values.ndim != 1:
                raise InvalidArgumentError(f"Ragged: characters of strings must have one dimension, not {values.ndim}")
        splits = np.asarray(row_splits)
        if splits.dtype.kind not in "iu":
            raise DtypeError(f"Ragged: row_splits must be integers, got {splits.dtype}")
        # A copy, before they are looked at: another thread may be writing.
        splits = splits.astype(splits.dtype if splits.dtype in (np.int32, np.int64) else np.int64)
        if splits.ndim != 1 or splits.size == 0:
            raise InvalidArgumentError(f"Ragged: row_splits must have one dimension and a first 0, got {splits.shape}")
        if splits[0] != 0 or splits[-1] != len(values) or (splits[1:] < splits[:-1]).any():
            raise InvalidArgumentError(f"Ragged: row_splits must rise from 0 to {len(values)}, the number of values")
        splits.setflags(write=False)
        self._values = values
        self._row_splits = splits

    @classmethod
    def _of(cls, values: Any, row_splits: np.ndarray[Any, Any]) -> Ragged:
        # Of splits that are known to fit, and that nobody can write to.
        made = object.__new__(cls)
        made._values = values
        made._row_splits = row_splits
        return made

    def _owned(self, fixed: bool) -> Ragged:
        # See `queuecore._core.atoms.own`. Splits that aren't in the memory of a batch are nobody else's.
        splits = self._row_splits
        return ragged_of(own(self._values, fixed=fixed), splits if splits.flags.owndata else own(splits, fixed=fixed))

    def _copy(self) -> Ragged:
        values = self._values._copy() if isinstance(self._values, Ragged) else self._values.copy()
        return ragged_of(values, self._row_splits.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments that make the object again, with a check."""
        return Ragged, (self._values, self._row_splits)

    @property
    def values(self) -> np.ndarray[Any, Any] | Ragged:
        """Values of all rows, one after the other."""
        return self._values if isinstance(self._values, Ragged) else self._values.view()

    @property
    def row_splits(self) -> np.ndarray[Any, Any]:
        """The places where rows begin and end. Read-only."""
        return self._row_splits.view()

    @classmethod
    def from_list(cls, rows: Sequence[Any], dtype: Any = None) -> Ragged:
        """Return a `Ragged` of the rows of a list.

        Parameters
        ----------
        rows : sequence of bytes, or of sequences of numbers or bytes
            The rows; of sequences of sequences, and so on, too.
        dtype : dtype, optional
            Of the numbers.

        Returns
        -------
        Ragged
            A copy.
        """
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        splits = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        if dtype is None and any(isinstance(row, (bytes, bytearray)) for row in rows):
            if not all(isinstance(row, (bytes, bytearray)) for row in rows):
                raise DtypeError("Ragged: expected only strings of bytes, or none")
            return cls(np.frombuffer(b"".join(rows), _CHAR), splits)
        flat = [value for row in rows for value in row]
        try:
            values: Any = np.array(flat, dtype)
        except ValueError:  # rows of rows of different lengths
            if not all(isinstance(one, (list, tuple)) for one in flat):
                raise
            return cls(cls.from_list(flat, dtype), splits)
        if dtype is None and values.dtype.kind == "S":  # which would lose the zeros at their ends
            return cls(cls.from_list(flat), splits)
        return cls(values, splits)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The values' dtype; ``dtype("S")``, of size 0, for strings of bytes."""
        if isinstance(self._values, Ragged):
            return self._values.dtype
        return np.dtype("S") if self._values.dtype == _CHAR else self._values.dtype

    @property
    def is_bytes(self) -> bool:
        """True if the rows are strings of bytes."""
        return not isinstance(self._values, Ragged) and self._values.dtype == _CHAR

    @property
    def nbytes(self) -> int:
        """Bytes of the values and the splits."""
        return int(self._values.nbytes + self._row_splits.nbytes)

    def row_lengths(self) -> np.ndarray[Any, Any]:
        """Return how long each row is, as an array of the splits' dtype."""
        return np.diff(self._row_splits)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._row_splits) - 1

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray[Any, Any]) -> Ragged: ...
    def __getitem__(self, index: Any) -> Any:
        """Return a row, or a `Ragged` of some."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                splits = self._row_splits[start : max(start, stop) + 1]
                return Ragged(self._values[splits[0] : splits[-1]], splits - splits[0])
            return self._take(np.arange(start, stop, step))
        if isinstance(index, (int, np.integer)):
            row = int(index) + (len(self) if index < 0 else 0)
            if not 0 <= row < len(self):
                raise IndexError(f"row {index} of {len(self)}")
            values = self._values[self._row_splits[row] : self._row_splits[row + 1]]
            return values.tobytes() if self.is_bytes else values  # type: ignore[union-attr]
        rows = np.asarray(index)
        return self._take(np.arange(len(self))[rows if rows.size else rows.astype(np.int64)])

    def _take(self, rows: np.ndarray[Any, Any]) -> Ragged:
        if rows.ndim != 1:
            raise InvalidArgumentError(f"Ragged: an index has one dimension, not {rows.ndim}")
        starts = self._row_splits[:-1][rows]
        lengths = self.row_lengths()[rows]
        splits = np.zeros(len(rows) + 1, self._row_splits.dtype)
        np.cumsum(lengths, out=splits[1:])
        places = np.arange(splits[-1]) + np.repeat(starts - splits[:-1], lengths)
        return Ragged(self._values[places], splits)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows."""
        if self.is_bytes:
            return iter(self._strings())
        return (self[row] for row in range(len(self)))

    def _strings(self) -> list[bytes]:
        text = self._values.tobytes()  # type: ignore[union-attr]
        return [text[start:end] for start, end in itertools.pairwise(self._row_splits.tolist())]

    def to_list(self) -> list[Any]:
        """Return the rows as nested lists of Python objects, strings as `bytes`."""
        if self.is_bytes:
            return self._strings()
        inner = self._values.to_list() if isinstance(self._values, Ragged) else self._values.tolist()
        return [inner[start:end] for start, end in itertools.pairwise(self._row_splits.tolist())]

    def to_object(self) -> np.ndarray[Any, Any]:
        """Return an array of one object for each row: `bytes`, an array, or a `Ragged`."""
        made = np.empty(len(self), object)
        for index, row in enumerate(self):
            made[index] = row
        return made

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return the capsules of the Arrow C data interface: lists, or binary strings, that share this memory.

        Parameters
        ----------
        requested_schema : capsule, optional
            Not used: the consumer casts.

        Returns
        -------
        schema, array : capsule
            Of ``large_list`` and ``large_binary`` for int64 splits, of ``list`` and ``binary`` for int32. Each further
            dimension of the values is a ``fixed_size_list``.

        Raises
        ------
        DtypeError
            If Arrow has no such numbers with the same memory (booleans, complex numbers).
        """
        del requested_schema
        levels: list[tuple[bytes, int, tuple[np.ndarray[Any, Any], ...]]] = []
        rows: Any = self
        while isinstance(rows, Ragged):
            splits = np.ascontiguousarray(rows._row_splits)
            long = splits.dtype == np.int64
            if rows.is_bytes:
                levels.append((b"Z" if long else b"z", len(rows), (splits, np.ascontiguousarray(rows._values))))
                return export(levels)
            levels.append((b"+L" if long else b"+l", len(rows), (splits,)))
            rows = rows._values
        word = _ARROW.get(rows.dtype)
        if word is None:
            raise DtypeError(f"Ragged: Arrow has no values of {rows.dtype}")
        length = len(rows)
        for side in rows.shape[1:]:
            levels.append((b"+w:%d" % side, length, ()))
            length *= side
        levels.append((word, length, (np.ascontiguousarray(rows),)))
        return export(levels)

    def equals(self, other: Any) -> bool:
        """Return whether another `Ragged` has the same dtype and the same rows.

        Parameters
        ----------
        other : object
            The object to compare with. Anything but a `Ragged` is unequal.
        """
        if not isinstance(other, Ragged) or not np.array_equal(self._row_splits, other._row_splits):
            return False
        if isinstance(self._values, Ragged):
            return self._values.equals(other._values)
        if isinstance(other._values, Ragged) or self._values.dtype != other._values.dtype:
            return False
        return np.array_equal(self._values, other._values)

    def __repr__(self) -> str:
        """Return the rows, or how many there are."""
        word = "bytes" if self.dtype.kind == "S" else str(self.dtype)
        if self.nbytes <= 1000:
            return f"Ragged({self.to_list()!r}, dtype={word})"
        return f"Ragged({len(self)} rows, dtype={word})"


def ragged_of(values: Any, row_splits: np.ndarray[Any, Any]) -> Ragged:
    """Return rows of splits that are known to fit, and that nobody else has: they are read-only from now on."""
    row_splits.setflags(write=False)
    return Ragged._of(values, row_splits)


class Sparse:
    """An array of which only some values are there: ``values[i]`` at ``indices[i]``, and nothing elsewhere.

    Parameters
    ----------
    indices : array of int64, shape (n, d)
        The place of each value.
    values : ndarray or Ragged, of length n
        The values; strings of bytes are a `Ragged`.
    dense_shape : array of int64, shape (d,)
        The shape of the whole.

    Attributes
    ----------
    indices, values, dense_shape
        Views of what was given: no copy is made, until a dataset takes them.

    Raises
    ------
    InvalidArgumentError
        If the shapes don't fit together. Whether indices lie inside is not looked at, as in TensorFlow.

    Examples
    --------
    >>> from queuecore.ragged import Sparse
    >>> Sparse([[0, 1], [2, 0]], [7, 8], [3, 2]).to_dense()
    array([[0, 7],
           [0, 0],
           [8, 0]])
    """

    __slots__ = ("_dense_shape", "_indices", "_values")

    _indices: np.ndarray[Any, Any]
    _values: np.ndarray[Any, Any] | Ragged
    _dense_shape: np.ndarray[Any, Any]

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        try:
            self._indices = np.asarray(indices, np.int64).view()
            self._dense_shape = np.asarray(dense_shape, np.int64).view()
        except OverflowError:
            raise InvalidArgumentError("Sparse: indices and dense_shape must fit into 64 bits") from None
        self._values = values if isinstance(values, Ragged) else np.asarray(values).view()
        if self._dense_shape.ndim != 1 or self._indices.shape != (len(self._values), len(self._dense_shape)):
            raise InvalidArgumentError(
                f"Sparse: indices of shape {self._indices.shape} for {len(self._values)} values and a dense_shape of "
                f"shape {self._dense_shape.shape}"
            )

    def _owned(self, fixed: bool) -> Sparse:
        # See `queuecore._core.atoms.own`.
        return Sparse(*(own(part, fixed=fixed) for part in (self._indices, self._values, self._dense_shape)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments that make the object again, with a check."""
        return Sparse, (self._indices, self._values, self._dense_shape)

    @property
    def indices(self) -> np.ndarray[Any, Any]:
        """The place of each value."""
        return self._indices.view()

    @property
    def values(self) -> np.ndarray[Any, Any] | Ragged:
        """The values."""
        return self._values if isinstance(self._values, Ragged) else self._values.view()

    @property
    def dense_shape(self) -> np.ndarray[Any, Any]:
        """The shape of the whole."""
        return self._dense_shape.view()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values."""
        return self._values.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the indices, the values and the shape."""
        return int(self._indices.nbytes + self._values.nbytes + self._dense_shape.nbytes)

    def to_dense(self, default: Any = None) -> np.ndarray[Any, Any]:
        """Return the whole array; of objects, if the values are strings of bytes.

        Parameters
        ----------
        default : optional
            The value of all other places; 0 or ``b""`` if not given.

        Returns
        -------
        ndarray
            An array of shape `dense_shape`. If several values have one place, the array has the last of them.

        Raises
        ------
        InvalidArgumentError
            If an index lies outside.
        ResourceExhaustedError
            If there is no memory for it.
        """
        shape = tuple(self._dense_shape.tolist())
        if ((self._indices < 0) | (self._indices >= self._dense_shape)).any():
            raise InvalidArgumentError(f"Sparse: an index lies outside the shape {shape}")
        values: Any = self._values
        fill, dtype = 0 if default is None else default, self._values.dtype
        if isinstance(values, Ragged):
            values = values.to_object()
            fill, dtype = b"" if default is None else default, np.dtype(object)
        try:
            made = np.empty(shape, dtype)
        except (MemoryError, ValueError) as error:  # the latter: more bytes than a number of 64 bits can say
            raise ResourceExhaustedError(f"Sparse: no memory for an array of {dtype} of shape {shape}") from error
        made[...] = fill
        made[tuple(self._indices.T)] = values
        return made

    def equals(self, other: Any) -> bool:
        """Return whether another `Sparse` has the same indices, values, dtype and shape.

        Parameters
        ----------
        other : object
            The object to compare with. Anything but a `Sparse` is unequal.
        """
        if not isinstance(other, Sparse) or self.dtype != other.dtype:
            return False
        if isinstance(self._values, Ragged) or isinstance(other._values, Ragged):
            same = isinstance(self._values, Ragged) and self._values.equals(other._values)
        else:
            same = np.array_equal(self._values, other._values)
        same = same and np.array_equal(self._indices, other._indices)
        return bool(same and np.array_equal(self._dense_shape, other._dense_shape))

    def __repr__(self) -> str:
        """Return the three parts."""
        return f"Sparse({self._indices.tolist()}, {self._values!r}, {self._dense_shape.tolist()})"


def strings(characters: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Ragged:
    """Return strings of bytes in an array's shape: a level of equally long rows for each dimension after the first."""
    made = Ragged(characters, offsets)
    for level in range(len(shape) - 1, 0, -1):
        rows = int(np.prod(shape[:level]))
        made = Ragged(made, np.arange(rows + 1, dtype=np.int64) * shape[level])
    return made


register_rows(Ragged, Sparse, strings)
