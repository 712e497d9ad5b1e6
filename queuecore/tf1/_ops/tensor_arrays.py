"""Arrays of tensors that operations of one run write and read one by one, in loops above all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Operation, Tensor, apply_op, constant_value, convert_to_tensor, get_default_graph
from queuecore.tf1._graph.refused import refusing_members
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, as_shape, as_value, int32, string, variant
from queuecore.tf1._ops.arrays import range_, shape

__all__ = ["TensorArray"]

_UNWRITTEN, _CLEARED = object(), object()


class _Cells:
    # The elements of one array in one run. Operations of a run that share it are in an order, by their flows.

    def __init__(self, size: int, array: TensorArray) -> None:
        self.values: list[Any] = [_UNWRITTEN] * size
        self.dtype = array.dtype
        self._is_dynamic, self._clears, self._is_uniform = array.dynamic_size, array._clears, array._infers
        self.shape = array._declared

    def write(self, index: int, value: Any) -> None:
        size = len(self.values)
        if index < 0 or index >= size and not self._is_dynamic:
            raise InvalidArgumentError(
                f"Tried to write to index {index} but array is not resizeable and size is: {size}"
            )
        if index >= size:
            self.values += [_UNWRITTEN] * (index + 1 - size)
        if self.values[index] is not _UNWRITTEN:
            raise InvalidArgumentError(
                f"Could not write to TensorArray index {index} because it has already been written to."
            )
        if not self.shape.is_compatible_with(np.shape(value)):
            raise InvalidArgumentError(
                f"Could not write to TensorArray index {index} because the value shape is {list(np.shape(value))} "
                f"which is incompatible with the TensorArray's inferred element shape: {self.shape} (consider setting "
                "infer_shape=False)."
            )
        if self._is_uniform:
            self.shape = TensorShape(np.shape(value))
        self.values[index] = value

    def read(self, index: int) -> Any:
        if not 0 <= index < len(self.values):
            raise InvalidArgumentError(f"Tried to read from index {index} but array size is: {len(self.values)}")
        value = self.values[index]
        if value is _CLEARED:
            raise InvalidArgumentError(
                f"Could not read index {index} twice because it was cleared after a previous read (perhaps try setting "
                "clear_after_read = false?)"
            )
        if value is _UNWRITTEN:
            if not self.shape.is_fully_defined():
                raise InvalidArgumentError(
                    f"Could not read from TensorArray index {index}: nothing was written there. Furthermore, the "
                    f"element shape is not fully defined: {self.shape}"
                )
            return self._array(self.shape.sides or ())[()]
        if self._clears:
            self.values[index] = _CLEARED
        return value

    def _array(self, sides: Sequence[Any]) -> Any:
        if self.dtype != string:
            return np.zeros(sides, self.dtype.dtype)
        array = np.empty(sides, object)
        array[...] = b""
        return array

    def gather(self, indices: Sequence[int], element_shape: TensorShape) -> Any:
        # `element_shape`: the shape of an element that isn't there.
        if not len(indices) and not element_shape.is_fully_defined():
            raise InvalidArgumentError(
                f"TensorArray has size zero, but element shape {element_shape} is not fully defined. Currently only "
                "static shapes are supported when packing zero-size TensorArrays."
            )
        rows = [self.read(index) for index in indices]
        sides = np.shape(rows[0]) if rows else element_shape.sides or ()
        array = self._array((len(rows), *sides))
        for index, row in enumerate(rows):
            if np.shape(row) != sides:
                raise InvalidArgumentError(
                    f"TensorArray has inconsistent shapes. Index 0 has shape: {list(sides)} but index {index} has "
                    f"shape: {list(np.shape(row))}"
                )
            array[index] = row
        return as_value(array)

    def concat(self, element_shape: TensorShape) -> Any:
        rows = [self.read(index) for index in range(len(self.values))]
        for index, row in enumerate(rows):
            if not np.ndim(row):
                raise InvalidArgumentError(
                    f"Concat saw a scalar shape at index {index} but requires at least vectors.  Did you mean to call "
                    "stack?"
                )
            if np.shape(row)[1:] != np.shape(rows[0])[1:]:
                raise InvalidArgumentError(
                    "TensorArray has inconsistent shapes. Index 0 has (excepting dimension 0) shape: "
                    f"{list(np.shape(rows[0])[1:])} but index {index} has (excepting dimension 0) shape: "
                    f"{list(np.shape(row)[1:])}"
                )
        if not rows:
            sides = element_shape.sides
            return self.gather([], TensorShape(None if sides is None else sides[1:]))
        return as_value(np.concatenate(rows))

    def split(self, value: Any, lengths: Any) -> None:
        if np.ndim(lengths) != 1:
            raise InvalidArgumentError(f"Expected lengths to be a vector, received shape: {list(np.shape(lengths))}")
        if not np.ndim(value):
            raise InvalidArgumentError(
                f"Expected value to be at least a vector, but received shape: {list(np.shape(value))}"
            )
        if np.sum(lengths) != len(value) or np.min(lengths, initial=0) < 0:
            raise InvalidArgumentError(
                "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is "
                f"{np.sum(lengths)} and value's shape is: {list(np.shape(value))}"
            )
        if len(lengths) != len(self.values) and not self._is_dynamic:
            raise InvalidArgumentError(
                f"TensorArray's size is not equal to the size of lengths ({len(self.values)} vs. {len(lengths)}), and "
                "the TensorArray is not marked as dynamically resizeable"
            )
        for index, part in enumerate(np.split(value, np.cumsum(lengths)[:-1]) if len(lengths) else ()):
            self.write(index, part)


class _Facts:
    # What is known of the elements before a run; all handles on one array share it.
    def __init__(self, element_shape: TensorShape) -> None:
        self.shape = element_shape


class TensorArray:
    """An array of tensors that operations of one run write and read one by one, in loops above all.

    Operations that write return another handle, whose `flow` says that they come before those that use it.

    Parameters
    ----------
    dtype : dtype
        Of the elements.
    size : int or Tensor, optional
        Default: 0, of a dynamic one.
    dynamic_size : bool, default False
        Whether writing behind its end makes it longer.
    clear_after_read : bool, default True
        Whether an element that was read is gone.
    tensor_array_name : str, optional
    handle, flow : Tensor, optional
        Those of another handle, instead of a size.
    infer_shape : bool, default True
        Whether all elements have one shape. A read where nothing was written gives 0 then, if one shape is known.
    element_shape : shape, optional
        Of the elements.
    colocate_with_first_write_call : bool, default True
        Accepted.
    name : str, optional

    Attributes
    ----------
    dtype : DType
    dynamic_size : bool
    flow, handle : Tensor
        The tensors of this handle's order, and of the array.

    Raises
    ------
    ValueError
        If there is neither a size nor a handle with its flow, or both.

    Notes
    -----
    Each run, and each call of a function that makes it, has an array of its own. A run raises `InvalidArgumentError` if
    an index isn't in the array, an element is written twice, or read after it was cleared, or shapes don't fit.

    Examples
    --------
    >>> import queuecore.tf1 as tf
    >>> squares = tf.TensorArray(tf.int32, size=3)
    >>> _, squares = tf.while_loop(lambda i, _: i < 3, lambda i, array: (i + 1, array.write(i, i * i)), (0, squares))
    >>> with tf.Session() as sess:
    ...     sess.run(squares.stack())
    array([0, 1, 4], dtype=int32)
    """

    __getattr__ = refusing_members("tf.TensorArray", "grad")

    def __init__(
        self, dtype: Any, size: Any = None, dynamic_size: bool | None = None, clear_after_read: bool | None = None,
        tensor_array_name: str | None = None, handle: Any = None, flow: Any = None, infer_shape: bool = True,
        element_shape: Any = None, colocate_with_first_write_call: bool = True, name: str | None = None,
    ) -> None:  # fmt: skip
        del colocate_with_first_write_call
        if handle is not None and (size is not None or flow is None):
            raise ValueError("A handle is given with its flow, and without a size")
        if handle is None and size is None and not dynamic_size:
            raise ValueError("Size must be declared for TensorArrays that aren't dynamically sized")
        self.dtype: DType = as_dtype(dtype)
        self.dynamic_size = bool(dynamic_size)
        self._clears = clear_after_read is None or bool(clear_after_read)
        self._infers = bool(infer_shape)
        self._declared = as_shape(element_shape)
        self._facts = _Facts(self._declared)
        if handle is not None:
            self.handle: Tensor = handle
            self.flow: Tensor = flow
            return
        count = convert_to_tensor(0 if size is None else size, int32, "size")

        def kernel(_: Any, number: Any) -> _Cells:
            if np.ndim(number) or number < 0:
                raise InvalidArgumentError(f"Size should be a scalar, and not below 0: it is {number}")
            return _Cells(int(number), self)

        self.handle = self.flow = apply_op(
            "TensorArrayV3", [count], variant, (), kernel, name or tensor_array_name or "TensorArray", pure=False
        )

    @property
    def element_shape(self) -> TensorShape:
        """The shape of the elements, as far as it is known."""
        return self._facts.shape

    def _with(self, flow: Tensor) -> TensorArray:
        # The same array behind another operation.
        array: TensorArray = object.__new__(TensorArray)
        array.__dict__.update(vars(self), flow=flow)
        return array

    def _writing(self, type_: str, inputs: list[Tensor], write: Callable[..., Any], name: str | None) -> TensorArray:
        def kernel(_: Any, cells: _Cells, *values: Any) -> _Cells:
            write(cells, *values)
            return cells

        return self._with(apply_op(type_, [self.flow, *inputs], variant, (), kernel, name, pure=False))

    def _reading(
        self,
        type_: str,
        inputs: list[Tensor],
        sides: Any,
        read: Callable[..., Any],
        name: str | None,
        dtype: Any = None,
    ) -> Tensor:
        return apply_op(
            type_, [self.flow, *inputs], dtype or self.dtype, sides, lambda _, *values: read(*values), name, pure=False
        )

    def _learn(self, element_shape: TensorShape) -> None:
        if self._infers:
            self._facts.shape = self._facts.shape.merge_with(element_shape)
        else:
            self._facts.shape.assert_is_compatible_with(element_shape)

    def identity(self) -> TensorArray:
        """Return the same array; its uses come after the present control dependencies."""
        return self._writing("Identity", [], lambda cells: None, None)

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Return an element."""
        where = convert_to_tensor(index, int32)
        return self._reading(
            "TensorArrayReadV3", [where], self.element_shape, lambda cells, at: cells.read(int(at)), name
        )

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Return the array with one more element, which must not be there."""
        where, operand = convert_to_tensor(index, int32), convert_to_tensor(value, self.dtype)
        self._learn(operand.shape)
        return self._writing(
            "TensorArrayWriteV3", [where, operand], lambda cells, at, item: cells.write(int(at), item), name
        )

    def stack(self, name: str | None = None) -> Tensor:
        """Return all elements, stacked."""
        known = self.element_shape
        return self._reading(
            "TensorArrayGatherV3",
            [],
            TensorShape([None]).concatenate(known),
            lambda cells: cells.gather(range(len(cells.values)), known),
            name,
        )

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Return the elements of a vector of indices, stacked."""
        where, known = convert_to_tensor(indices, int32), self.element_shape
        return self._reading(
            "TensorArrayGatherV3",
            [where],
            where.shape.ranked(1).concatenate(known),
            lambda cells, places: cells.gather(places.tolist(), known),
            name,
        )

    def concat(self, name: str | None = None) -> Tensor:
        """Return all elements, one behind the other along their first dimension."""
        known = self.element_shape
        sides = None if not known.sides else (None, *known.sides[1:])
        return self._reading("TensorArrayConcatV3", [], sides, lambda cells: cells.concat(known), name)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Return the array with the rows of a tensor as its elements."""
        operand = convert_to_tensor(value, self.dtype)
        return self.scatter(range_(shape(operand)[0]), operand, name)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Return the array with the rows of a tensor as the elements of a vector of indices."""
        cell_numbers, operand = convert_to_tensor(indices, int32), convert_to_tensor(value, self.dtype)
        if operand.shape.ranked(1, least=True).sides is not None:
            self._learn(operand.shape[1:])

        def write(cells: _Cells, places: Any, rows: Any) -> None:
            if np.ndim(places) != 1 or len(places) != len(rows):
                raise InvalidArgumentError(
                    f"Expected len(indices) == values.shape[0], but indices have the shape {list(np.shape(places))} "
                    f"and values {list(np.shape(rows))}"
                )
            for place, row in zip(places.tolist(), rows, strict=True):
                cells.write(place, row)

        return self._writing("TensorArrayScatterV3", [cell_numbers, operand], write, name)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Return the array with parts of a tensor, of these numbers of rows, as its elements."""
        operand, counts = convert_to_tensor(value, self.dtype), convert_to_tensor(lengths)
        known = constant_value(counts)
        if operand.shape.sides and np.ndim(known) == 1 and len(set(known.tolist())) == 1:
            self._learn(TensorShape((int(known[0]), *operand.shape.sides[1:])))
        return self._writing(
            "TensorArraySplitV3", [operand, counts], lambda cells, whole, parts: cells.split(whole, parts), name
        )

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of its elements, an int32; elements that weren't written count too."""
        return self._reading("TensorArraySizeV3", [], (), lambda cells: np.int32(len(cells.values)), name, int32)

    def mark_used(self) -> None:
        """Do nothing: TensorFlow warns of a handle that nobody uses."""

    def close(self, name: str | None = None) -> Operation:
        """Return an operation that drops all elements."""

        def kernel(_: Any, cells: _Cells) -> None:
            cells.values.clear()

        return get_default_graph().create_op("TensorArrayCloseV3", [self.flow], [], kernel, name or "TensorArrayClose")
