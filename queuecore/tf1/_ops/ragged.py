"""Ragged tensors: rows of different lengths, one after the other, and where they begin and end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.tf1._graph.graph import Tensor, apply_op, constant_value, convert_to_tensor
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, as_shape, as_value, int32, int64, string
from queuecore.tf1._ops.sparse import SparseTensor

__all__ = ["RaggedTensor", "RaggedTensorValue", "ragged_of", "rows_of"]


class RaggedTensorValue(NamedTuple):
    """The value of a `RaggedTensor` in a run: row i is ``values[row_splits[i]:row_splits[i + 1]]``.

    Attributes
    ----------
    values : ndarray or RaggedTensorValue
    row_splits : ndarray
    """

    values: Any
    row_splits: Any

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        return self.values.flat_values if isinstance(self.values, RaggedTensorValue) else self.values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """All splits, from the outermost on."""
        inner = self.values.nested_row_splits if isinstance(self.values, RaggedTensorValue) else ()
        return (self.row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """The number of dimensions that are divided by splits."""
        return len(self.nested_row_splits)

    @property
    def dtype(self) -> Any:
        """NumPy's dtype of the values."""
        return self.flat_values.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The length of each dimension, and `None` of those whose rows have lengths of their own."""
        return (len(self.row_splits) - 1, None, *self.values.shape[1:])

    def to_list(self) -> list[Any]:
        """Return the rows as nested lists."""
        inner = self.values.to_list() if isinstance(self.values, RaggedTensorValue) else self.values.tolist()
        return [inner[a:b] for a, b in zip(self.row_splits[:-1], self.row_splits[1:], strict=True)]


class RaggedTensor:
    """A tensor whose rows have different lengths; made by its class methods, by `tf.ragged`, and by `parse_example`.

    Attributes
    ----------
    values : Tensor or RaggedTensor
        Those of all rows, one after the other.
    row_splits : Tensor
        Where rows begin and end.
    """

    def __init__(self, values: Tensor | RaggedTensor, row_splits: Tensor) -> None:
        self.values = values
        self.row_splits = row_splits

    # ---- how one is made

    @classmethod
    def from_row_splits(
        cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Return the rows that begin and end at these places.

        Parameters
        ----------
        values : Tensor or RaggedTensor
        row_splits : Tensor of int32 or int64, vector
            One number more than there are rows; the first one is 0, the last one the number of values.
        name : str, optional
        validate : bool, default True
            Accepted: they are always checked.

        Raises
        ------
        ValueError
            If the numbers are none.
        InvalidArgumentError
            In a run, if they don't divide the values.
        """
        del validate
        if not _may_have_items(row_splits):
            raise ValueError("row_splits may not be empty: at least the first place, 0, is in it")
        return _divided(cls, "RowSplits", values, row_splits, lambda x, count: x, 0, name)

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Return the rows of these lengths; parameters as of `from_row_splits`."""
        del validate
        return _divided(cls, "RowLengths", values, row_lengths, lambda x, count: np.append(0, np.cumsum(x)), 1, name)

    @classmethod
    def from_row_starts(
        cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Return the rows that begin at these places; parameters as of `from_row_splits`."""
        del validate
        return _divided(cls, "RowStarts", values, row_starts, np.append, 1, name)

    @classmethod
    def from_row_limits(
        cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Return the rows that end at these places; parameters as of `from_row_splits`."""
        del validate
        return _divided(cls, "RowLimits", values, row_limits, lambda x, count: np.append(0, x), 1, name)

    @classmethod
    def from_value_rowids(
        cls, values: Any, value_rowids: Any, nrows: Any = None, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Return rows of values, of which each says in which row it is.

        Parameters
        ----------
        values : Tensor or RaggedTensor
        value_rowids : Tensor of integers, vector
            In ascending order.
        nrows : int, optional
            Default: up to the last row that has a value.
        name : str, optional
        validate : bool, default True
            Accepted: they are always checked.
        """
        del validate
        row_count = None if nrows is None else constant_value(convert_to_tensor(nrows))
        if nrows is not None and row_count is None:
            raise UnimplementedError("from_value_rowids: nrows must be known before the graph runs")

        def splits(rows: Any, count: int) -> Any:
            if len(rows) != count or (np.diff(rows) < 0).any() or len(rows) and rows[0] < 0:
                raise InvalidArgumentError(f"value_rowids must be one ascending number of a row per value: {rows}")
            most = int(rows[-1]) + 1 if len(rows) else 0
            if row_count is not None and row_count < most:
                raise InvalidArgumentError(f"value_rowids has a row {most - 1}, and there are nrows={row_count}")
            return np.searchsorted(rows, np.arange((most if row_count is None else int(row_count)) + 1))

        return _divided(cls, "ValueRowids", values, value_rowids, splits, None, name)

    @classmethod
    def from_uniform_row_length(
        cls, values: Any, uniform_row_length: int, nrows: Any = None, validate: bool = True, name: str | None = None
    ) -> RaggedTensor:
        """Return rows of one length.

        Parameters
        ----------
        values : Tensor or RaggedTensor
        uniform_row_length : int
            0: `nrows` must be given.
        nrows : int, optional
        validate : bool, default True
            Accepted: the number of values is always checked.
        name : str, optional
        """
        del validate
        side, row_count = (None if one is None else constant_value(convert_to_tensor(one)) for one in
                      (uniform_row_length, nrows))  # fmt: skip
        if side is None or nrows is not None and row_count is None:
            raise UnimplementedError("from_uniform_row_length: both numbers must be known before the graph runs")
        if side < 0 or side == 0 and row_count is None:
            raise ValueError(f"nrows must be specified if uniform_row_length={int(side)}, which may not be below 0")
        parts = values if isinstance(values, RaggedTensor) else convert_to_tensor(values)

        def splits(places: Any, count: int) -> Any:
            rows = int(row_count) if row_count is not None else count // int(side)
            if rows * int(side) != count:
                raise InvalidArgumentError(f"{count} values are no whole number of rows of {int(side)}")
            return np.arange(rows + 1) * int(side)

        counted = parts.row_splits if isinstance(parts, RaggedTensor) else parts
        less = int(isinstance(parts, RaggedTensor))
        kind = counted.dtype if less else int64
        places = apply_op("RaggedFromUniformRowLength", [counted], kind, [None],
                          lambda x: np.asarray(splits(x, len(x) - less), kind.dtype), name)  # fmt: skip
        return cls(parts, places)

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """Return the innermost values, divided by the last splits, and so on outwards."""
        made = flat_values
        for splits in reversed(list(nested_row_splits)):
            made = cls.from_row_splits(made, splits, name, validate)
        return made

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """Return the innermost values, divided by the last lengths, and so on outwards."""
        made = flat_values
        for lengths in reversed(list(nested_row_lengths)):
            made = cls.from_row_lengths(made, lengths, name, validate)
        return made

    @classmethod
    def from_tensor(
        cls, tensor: Any, lengths: Any = None, padding: Any = None, ragged_rank: int = 1, name: str | None = None,
        row_splits_dtype: Any = int64,
    ) -> RaggedTensor:  # fmt: skip
        """Return the rows of a tensor, cut at lengths, or before the padding at their ends.

        Parameters
        ----------
        tensor : Tensor, shape (rows, columns, ...)
        lengths : Tensor of integers, vector, optional
        padding : optional
            A value like an item of a row. Not together with `lengths`.
        ragged_rank : {1}
        name : str, optional
        row_splits_dtype : {int64, int32}
        """
        if lengths is not None and padding is not None:
            raise ValueError("Specify argument `lengths` or `padding`, but not both.")
        if ragged_rank != 1:
            raise UnimplementedError("RaggedTensor.from_tensor: ragged_rank must be 1")
        operand = convert_to_tensor(tensor)
        operand.shape.with_rank_at_least(2)
        blank = None if padding is None else as_value(padding, operand.dtype)
        inputs = [operand] if lengths is None else [operand, convert_to_tensor(lengths)]

        def kernel(dense: Any, long: Any = None) -> Any:
            count, width = dense.shape[:2]
            if blank is not None:
                same = (dense == blank).reshape(count, width, -1).all(-1)
                long = width - np.argmin(same[:, ::-1], 1)
                long[same.all(1)] = 0
            if long is None:
                long = np.full(count, width)
            if len(long) != count:
                raise InvalidArgumentError(f"from_tensor: {len(long)} lengths for {count} rows")
            long = np.clip(long, 0, width)
            flat = dense[np.arange(width) < np.asarray(long)[:, None]]
            return flat, np.append(0, np.cumsum(long)).astype(as_dtype(row_splits_dtype).dtype)

        inner = None if operand.shape.sides is None else list(operand.shape.sides)
        return rows_of(
            "RaggedFromTensor", inputs, operand.dtype, kernel, inner[0] if inner else None, name,
            inner[2:] if inner else None,
            as_dtype(row_splits_dtype),
        )  # fmt: skip

    @classmethod
    def from_sparse(
        cls, st_input: SparseTensor, name: str | None = None, row_splits_dtype: Any = int64
    ) -> RaggedTensor:
        """Return the rows of a sparse matrix, in which no value has a hole before it.

        Raises
        ------
        TypeError
            If it is no sparse tensor.
        InvalidArgumentError
            In a run, if there is a hole.
        """
        if not isinstance(st_input, SparseTensor):
            raise TypeError(f"Expected SparseTensor, got {type(st_input).__name__}")
        if st_input.dense_shape.shape[0].value not in (None, 2):
            raise ValueError(f"rank(st_input) must be 2: {st_input!r}")
        kind = as_dtype(row_splits_dtype)

        def kernel(places: Any, values: Any, shape: Any) -> Any:
            splits = np.searchsorted(places[:, 0], np.arange(int(shape[0]) + 1)).astype(kind.dtype)
            if (places[:, 1] != np.arange(len(places)) - splits[places[:, 0]]).any():
                raise InvalidArgumentError("SparseTensor is not right-ragged")
            return values, splits

        parts = [st_input.indices, st_input.values, st_input.dense_shape]
        return rows_of("RaggedFromSparse", parts, st_input.dtype, kernel, st_input.shape[0].value, name, (), kind)

    # ---- facts

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """The shape, as far as it is known; rows of different lengths have none."""
        count = self.row_splits.shape.ranked(1)[0].value
        inner = self.values.shape
        if inner.ndims is None:
            return TensorShape(None)
        return TensorShape([None if count is None else count - 1, None, *inner[1:]])

    def get_shape(self) -> TensorShape:
        """Return what is known of the shape."""
        return self.shape

    @property
    def ragged_rank(self) -> int:
        """The number of dimensions that are divided by splits."""
        return len(self.nested_row_splits)

    @property
    def flat_values(self) -> Tensor:
        """The innermost values."""
        return self.values.flat_values if isinstance(self.values, RaggedTensor) else self.values

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """All splits, from the outermost on."""
        inner = self.values.nested_row_splits if isinstance(self.values, RaggedTensor) else ()
        return (self.row_splits, *inner)

    def nrows(self, out_type: Any = None, name: str | None = None) -> Tensor:
        """Return the number of rows, a scalar."""
        return self._of_splits("RaggedNRows", lambda x: len(x) - 1, (), name, out_type)

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Tensor | RaggedTensor:
        """Return the length of each row; with an `axis` above 1, of each row of the rows, as a ragged tensor."""
        if axis == 1:
            return self._of_splits("RaggedRowLengths", np.diff, None, name)
        if not isinstance(self.values, RaggedTensor) or axis < 1:
            raise ValueError(f"row_lengths: axis={axis}, and the dimensions from 1 to {self.ragged_rank} have rows")
        return self.with_values(self.values.row_lengths(axis - 1, name))

    def row_starts(self, name: str | None = None) -> Tensor:
        """Return the places where rows begin."""
        return self._of_splits("RaggedRowStarts", lambda x: x[:-1], None, name)

    def row_limits(self, name: str | None = None) -> Tensor:
        """Return the places behind the rows' ends."""
        return self._of_splits("RaggedRowLimits", lambda x: x[1:], None, name)

    def value_rowids(self, name: str | None = None) -> Tensor:
        """Return the number of the row of each value."""
        made = apply_op("RaggedValueRowIds", [self.row_splits], self.row_splits.dtype, [None], _rows_of_values, name)
        made.set_shape(self.values.shape[:1])
        return made

    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the lengths of all rows, from the outermost on."""
        inner = self.values.nested_row_lengths(name) if isinstance(self.values, RaggedTensor) else ()
        return (self._of_splits("RaggedRowLengths", np.diff, None, name), *inner)

    def bounding_shape(self, name: str | None = None) -> Tensor:
        """Return the shape of the smallest tensor that holds all rows."""
        inputs = [self.flat_values, *self.nested_row_splits]
        kind = self.row_splits.dtype

        def kernel(flat: Any, *splits: Any) -> Any:
            return np.array([*_lengths(splits), *np.shape(flat)[1:]], kind.dtype)

        rank = self.shape.ndims
        return apply_op("RaggedBoundingShape", inputs, kind, [rank], kernel, name)

    def _of_splits(
        self, type_: str, made: Callable[[Any], Any], shape: Any, name: str | None, out_type: Any = None
    ) -> Tensor:
        splits = self.row_splits
        kind = splits.dtype if out_type is None else as_dtype(out_type)
        return apply_op(type_, [splits], kind, self.shape[:1] if shape is None else shape,
                        lambda x: np.asarray(made(x), kind.dtype)[()], name)  # fmt: skip

    # ---- what else has its rows

    def with_values(self, new_values: Any) -> RaggedTensor:
        """Return other values with the same splits."""
        values = new_values if isinstance(new_values, RaggedTensor) else convert_to_tensor(new_values)
        values.shape.with_rank_at_least(1)
        self.values.shape[:1].assert_is_compatible_with(values.shape[:1])
        return RaggedTensor(values, self.row_splits)

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """Return other innermost values with the same splits."""
        if isinstance(self.values, RaggedTensor):
            return self.with_values(self.values.with_flat_values(new_values))
        return self.with_values(new_values)

    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Tensor:
        """Return a tensor of it, filled up with a value.

        Parameters
        ----------
        default_value : optional
            Default: 0, or an empty string.
        name : str, optional
        shape : optional
            The tensor's shape, to which rows are cut or filled up. Default: that of the longest rows.
        """
        flat, dtype = self.flat_values, self.dtype
        blank = as_value((b"" if dtype == string else 0) if default_value is None else default_value, dtype)
        full_shape = self.shape if shape is None else as_shape(shape)
        if full_shape.ndims is not None and self.shape.ndims not in (None, full_shape.ndims):
            raise ValueError(f"Shape {full_shape} must have rank {self.shape.ndims}")
        sides = full_shape.sides if shape is not None else None
        if full_shape.sides is not None and self.shape.sides is not None:
            pairs = zip(full_shape.sides, self.shape.sides, strict=True)
            full_shape = TensorShape([b if a is None else a for a, b in pairs])

        def kernel(values: Any, *splits: Any) -> Any:
            own_sides = [*_lengths(splits), *np.shape(values)[1:]]
            asked = sides or [None] * len(own_sides)
            full_sides = [had if side is None else side for had, side in zip(own_sides, asked, strict=True)]
            array = np.empty(full_sides, object if dtype == string else dtype.dtype)
            array[...] = blank
            places = _places(splits)
            inside = np.logical_and.reduce([at < most for at, most in zip(places, full_sides, strict=False)])
            inner = tuple(slice(min(a, b)) for a, b in zip(full_sides, own_sides, strict=True))[len(places) :]
            array[(*[at[inside] for at in places], *inner)] = np.asarray(values)[(inside, *inner)]
            return array

        return apply_op("RaggedTensorToTensor", [flat, *self.nested_row_splits], dtype, full_shape, kernel, name)

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """Return a sparse tensor of it."""
        flat = self.flat_values

        def kernel(values: Any, *splits: Any) -> Any:
            shape = [*_lengths(splits), *np.shape(values)[1:]]
            sides = np.shape(values)[1:]
            inner = np.indices(sides).reshape(len(sides), -1) if sides else np.empty((0, 1), np.int64)
            outer = np.stack(_places(splits))
            count = inner.shape[1]
            places = np.concatenate([np.repeat(outer, count, 1), np.tile(inner, outer.shape[1])])
            return places.T.astype(np.int64), np.reshape(values, -1), np.array(shape, np.int64)

        rank = self.shape.ndims
        outputs = [(int64, (None, rank)), (self.dtype, (None,)), (int64, (rank,))]
        op = flat.graph.create_op("RaggedTensorToSparse", [flat, *self.nested_row_splits], outputs, kernel,
                                  name or "RaggedToSparse", pure=True)  # fmt: skip
        return SparseTensor(*op.outputs)

    def __getitem__(self, key: Any) -> Any:
        """Return a row, or the rows between two places.

        Parameters
        ----------
        key : int, scalar Tensor, or slice without a step

        Raises
        ------
        UnimplementedError
            If it is another key.
        InvalidArgumentError
            In a run, if there is no such row.
        """
        several = isinstance(key, slice)
        if isinstance(key, tuple) or several and key.step not in (None, 1):
            raise UnimplementedError("a ragged tensor is indexed by the number of a row, or by a slice without a step")
        bounds = [key.start, key.stop] if several else [key]
        tensors = [convert_to_tensor(bound) for bound in bounds if bound is not None]
        depth = self.ragged_rank

        def kernel(flat: Any, *rest: Any) -> Any:
            splits, places = list(rest[:depth]), iter(rest[depth:])
            count = len(splits[0]) - 1
            if several:
                ends = [None if bound is None else int(next(places)) for bound in bounds]
                first, last, _ = slice(*ends).indices(count)
                last = max(first, last)
            else:
                first = int(next(places))
                if not -count <= first < count:
                    raise InvalidArgumentError(
                        f"slice index {first} of dimension 0 out of bounds: there are {count} rows"
                    )
                last = first % count + 1
                first = last - 1
            parts = []
            for level in splits:
                part = level[first : last + 1]
                first, last = int(part[0]), int(part[-1])
                parts.append(part - part[0])
            return (flat[first:last], *(parts if several else parts[1:]))

        inner_splits = self.nested_row_splits[0 if several else 1 :]
        inner = self.flat_values.shape
        count = None if several or depth > 1 else _known_length(self.row_splits, tensors[0])
        outputs = [(self.dtype, None if inner.ndims is None else [count, *inner[1:]])]
        outputs += [(splits.dtype, [None]) for splits in inner_splits]
        op = self.flat_values.graph.create_op(
            "RaggedGetItem", [self.flat_values, *self.nested_row_splits, *tensors], outputs,
            kernel if inner_splits else lambda *values: kernel(*values)[0], "RaggedGetItem", pure=True,
        )  # fmt: skip
        ragged: Any = op.outputs[0]
        for splits in reversed(op.outputs[1:]):
            ragged = RaggedTensor(ragged, splits)
        return ragged

    @classmethod
    def joined(cls, values: Sequence[Any], axis: Any, name: str) -> Any:
        """Return ragged tensors, of which some may be plain ones, one after the other: what `tf.concat` does.

        Raises
        ------
        ValueError
            If they have different numbers of ragged dimensions.
        UnimplementedError
            If the axis is neither 0 nor 1, or isn't known.
        """
        depth = max(value.ragged_rank for value in values if isinstance(value, RaggedTensor))
        operands = [
            value if isinstance(value, RaggedTensor) else cls.from_tensor(value, ragged_rank=depth) for value in values
        ]
        axis_number: Any = constant_value(convert_to_tensor(axis))
        if axis_number is not None and axis_number < 0 and operands[0].shape.ndims is not None:
            axis_number = axis_number + operands[0].shape.ndims
        if axis_number not in (0, 1):
            raise UnimplementedError(f"ragged tensors are put together along the axis 0 or 1, not {axis!r}")
        if any(operand.ragged_rank != depth for operand in operands):
            raise ValueError(
                f"they have {[operand.ragged_rank for operand in operands]} ragged dimensions, and must have the same"
            )
        if len(operands) == 1:
            return operands[0]

        def kernel(*parts: Any) -> Any:
            flats, rest = parts[: len(operands)], parts[len(operands) :]
            levels = [rest[level::depth] for level in range(depth)]
            if axis_number == 1 and len({len(part) for part in levels[0]}) > 1:
                raise InvalidArgumentError(f"different numbers of rows: {[len(part) - 1 for part in levels[0]]}")
            order: Any = None  # of the items of a level among those of all parts
            new_splits = []
            for level, splits in enumerate(levels):
                lengths = [np.diff(part) for part in splits]
                counts = np.concatenate(lengths)
                rows = np.repeat(np.arange(len(counts)), counts)
                if level == 0 and axis_number == 1:
                    count = len(lengths[0])
                    merged, order = np.sum(lengths, 0), np.argsort(rows % max(count, 1), kind="stable")
                elif order is None:
                    merged = counts
                else:
                    turn = np.empty_like(order)
                    turn[order] = np.arange(len(order))
                    merged, order = counts[order], np.argsort(turn[rows], kind="stable")
                new_splits.append(np.append(0, np.cumsum(merged)).astype(splits[0].dtype))
            flat = np.concatenate(flats)
            return (flat if order is None else flat[order], *new_splits)

        first = operands[0]
        inner = first.flat_values.shape
        outputs = [(first.dtype, None if inner.ndims is None else [None, *inner[1:]])]
        outputs += [(splits.dtype, [None]) for splits in first.nested_row_splits]
        inputs = [operand.flat_values for operand in operands] + [
            part for operand in operands for part in operand.nested_row_splits
        ]
        op = first.flat_values.graph.create_op("RaggedConcat", inputs, outputs, kernel, name, pure=True)
        ragged: Any = op.outputs[0]
        for splits in reversed(op.outputs[1:]):
            ragged = cls(ragged, splits)
        return ragged

    def eval(self, feed_dict: Any = None, session: Any = None) -> RaggedTensorValue:
        """Return its value in a session, the default one unless another is given."""
        parts = [one.eval(feed_dict, session) for one in (self.values, self.row_splits)]
        return RaggedTensorValue(*parts)

    def consumers(self) -> list[Any]:
        """Return the operations that read its parts."""
        return [op for one in (self.flat_values, *self.nested_row_splits) for op in one.consumers()]

    def _fetch(self) -> tuple[list[Any], Callable[[list[Any]], RaggedTensorValue]]:
        return [self.values, self.row_splits], lambda parts: RaggedTensorValue(*parts)

    def __repr__(self) -> str:
        """Return its parts."""
        return f"tf.RaggedTensor(values={self.values!r}, row_splits={self.row_splits!r})"


def _may_have_items(given: Any) -> bool:
    return given.shape.num_elements() != 0 if isinstance(given, Tensor) else len(given) > 0


def rows_of(
    type_: str, inputs: list[Tensor], dtype: DType, kernel: Callable[..., Any], count: int | None, name: str | None,
    inner: Any = (), kind: DType = int64,
) -> RaggedTensor:  # fmt: skip
    """Add an operation whose kernel returns values and splits.

    Parameters
    ----------
    type_, inputs, kernel, name
        As of `apply_op`.
    dtype : DType
        That of the values.
    count : int, optional
        The number of rows, if it is known.
    inner : list of int, or None
        The shape of a value; `None`: unknown.
    kind : DType
        That of the splits.
    """
    values = None if inner is None else [None, *inner]
    splits = [None if count is None else count + 1]
    op = inputs[0].graph.create_op(type_, inputs, [(dtype, values), (kind, splits)], kernel, name or type_, pure=True)
    return RaggedTensor(*op.outputs)


def _divided(
    cls: type[RaggedTensor], scheme: str, values: Any, division: Any, splits: Callable[[Any, int], Any],
    missing_count: int | None, name: str | None,
) -> RaggedTensor:  # fmt: skip
    # Rows by a vector of which `splits` makes the places: it has `missing_count` numbers less; None: any number.
    parts = values if isinstance(values, RaggedTensor) else convert_to_tensor(values)
    parts.shape.with_rank_at_least(1)
    vector = convert_to_tensor(division)
    if vector.dtype not in (int32, int64) or isinstance(division, (list, tuple)):
        vector = convert_to_tensor(division, int64)
    side = vector.shape.ranked(1)[0].value
    counted = parts.row_splits if isinstance(parts, RaggedTensor) else parts
    less = int(isinstance(parts, RaggedTensor))
    kind = vector.dtype

    def kernel(x: Any, there: Any) -> Any:
        count = len(there) - less
        row_splits = np.asarray(splits(x, count), kind.dtype)
        if len(row_splits) < 1 or row_splits[0] != 0 or row_splits[-1] != count or (np.diff(row_splits) < 0).any():
            raise InvalidArgumentError(
                f"Arguments to from_{_SPELT[scheme]} do not form a valid RaggedTensor: {count} values can't be divided "
                f"by {np.asarray(x).tolist()}"
            )
        return row_splits

    shape = [None if side is None or missing_count is None else side + missing_count]
    places = apply_op(f"RaggedFrom{scheme}", [vector, counted], kind, shape, kernel, name)
    return cls(parts, places)


_SPELT = {
    "RowSplits": "row_splits",
    "RowLengths": "row_lengths",
    "RowStarts": "row_starts",
    "RowLimits": "row_limits",
    "ValueRowids": "value_rowids",
}


def _known_length(splits: Tensor, row: Tensor) -> int | None:
    places, at = constant_value(splits), constant_value(row)
    if places is None or at is None or not 1 - len(places) <= int(at) < len(places) - 1:
        return None
    return int(np.diff(places)[int(at)])


def _rows_of_values(splits: Any) -> Any:
    return np.repeat(np.arange(len(splits) - 1, dtype=splits.dtype), np.diff(splits))


def _lengths(splits: Sequence[Any]) -> list[int]:
    return [len(splits[0]) - 1, *(int(np.diff(one).max(initial=0)) for one in splits)]


def _places(splits: Sequence[Any]) -> list[Any]:
    # Of each of the innermost values its place in every dimension that has rows.
    places: list[Any] = []
    above: Any = np.s_[:]
    for one in reversed(splits):
        rows = _rows_of_values(one)
        places.insert(0, (np.arange(len(rows)) - one[rows])[above])
        above = rows[above]
    return [above, *places]


def ragged_of(value: RaggedTensorValue) -> RaggedTensor:
    """Return the ragged tensor that has a run's value in each run."""
    inner = value.values
    values = ragged_of(inner) if isinstance(inner, RaggedTensorValue) else convert_to_tensor(inner)
    return RaggedTensor(values, convert_to_tensor(value.row_splits))
