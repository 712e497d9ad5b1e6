"""Kernels: the stages after a copy to a device, as one CUDA kernel that makes all outputs of a batch in one launch.

A `KernelTensor` is a component of which each item can be computed from the item's place alone. A stage describes its
form on a device by a function from tensors to tensors. No stage stores its results. Threads take the items of an output
in the order of their addresses, so all writes are coalesced, also those of a transposition. A transposition reads with
a small stride, and the cache has most of these items already, so kernels need no tiles in shared memory.

Kernels use the arithmetic of ``kernels/device.hpp``, as native steps of the host do; its text stands in front of every
kernel. A kernel's text compiles as C++ for the host unchanged; tests run it so.
"""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from queuecore._core.steps.stages import PythonStep
from queuecore._elements.component import BYTES, Component
from queuecore._elements.dtypes import is_bfloat16
from queuecore._elements.record import RecordLeaf
from queuecore._ops.stage import Stage
from queuecore.errors import UnimplementedError

__all__ = [
    "ALIGNMENT",
    "OPTIONS",
    "THREADS",
    "Compiled",
    "Kernel",
    "KernelColumn",
    "KernelTensor",
    "compile_for",
    "kernel_of",
]

ALIGNMENT = 256  # bytes: of the input, the output, and of each component in the output
THREADS = 256  # in a block
OPTIONS = ("--std=c++17", "-fmad=false")

# Blocks that run at once on 132 multiprocessors; more of them would only wait.
_MOST_BLOCKS = 132 * 8
_MOST_CONSTANT = 1 << 16  # items of a constant, which stand in the source

_TYPES = {
    "b1": "Bool",
    "i1": "int8_t",
    "u1": "uint8_t",
    "i2": "int16_t",
    "u2": "uint16_t",
    "i4": "int32_t",
    "u4": "uint32_t",
    "i8": "int64_t",
    "u8": "uint64_t",
    "f2": "Half",
    "f4": "float",
    "f8": "double",
    "c8": "Complex<float>",
    "c16": "Complex<double>",
}
# Functions of NumPy's that device.hpp has, by their names. All but `where` take operands of one dtype.
_CALLS = """
    add subtract multiply divide negative absolute square sqrt minimum maximum where equal not_equal less less_equal
    greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert
"""

Item = Callable[["_Body", str], str]


class KernelColumn(NamedTuple):
    """One component of a raw batch, as it lies in a slot.

    Attributes
    ----------
    component : Component
        With the batch dimension in front, if there is one. Dtype ``S`` means raw records, each of `nbytes`.
    offset : int
        Offset of the first row, in bytes from the start of the slot.
    stride : int, optional
        Bytes from one row to the next; by default rows follow each other.
    """

    component: Component
    offset: int = 0
    stride: int | None = None


@dataclass(frozen=True)
class Kernel:
    """A kernel's source, and the facts needed to launch it.

    It takes ``const unsigned char* in, unsigned char* out, long long rows``; both areas begin at multiples of
    `ALIGNMENT` bytes. Any number of blocks of `THREADS` threads will do, also for no rows.

    Attributes
    ----------
    source : str
        CUDA C++ that includes nothing; C++ for the host too.
    entry : str
        The function's name.
    outputs : tuple of Component
        The components of each output row: shapes without the batch dimension.
    """

    source: str
    entry: str
    outputs: tuple[Component, ...]
    threads: ClassVar[int] = THREADS
    most_blocks: ClassVar[int] = _MOST_BLOCKS

    def row_bytes(self) -> list[int]:
        """Return the bytes of a row of each output."""
        return [_items(one.shape) * one.dtype.itemsize for one in self.outputs]

    def offsets(self, rows: int) -> list[int]:
        """Return the offset of each output in the output area of a batch of `rows` rows; the last entry is its end."""
        made = [0]
        for nbytes in self.row_bytes():
            made.append(made[-1] + -(-nbytes * rows // ALIGNMENT) * ALIGNMENT)
        return made

    def nbytes(self, rows: int) -> int:
        """Return the bytes of the output area for a batch of `rows` rows. More rows never take fewer."""
        return self.offsets(rows)[-1]

    @property
    def items(self) -> int:
        """The number of items in a row of the largest output."""
        return max(_items(one.shape) for one in self.outputs)

    def blocks(self, rows: int) -> int:
        """Return how many blocks to launch for a batch of `rows` rows."""
        return min(max(-(-self.items * rows // THREADS), 1), _MOST_BLOCKS)


class Compiled(NamedTuple):
    """A kernel that can be launched.

    Attributes
    ----------
    module : cupy.RawModule
        Must live as long as the handle is used.
    handle : int
        The driver's ``CUfunction``.
    """

    module: Any
    handle: int


def compile_for(kernel: Kernel, device: int) -> Compiled:
    """Return a kernel compiled for a device of this machine, by CuPy, which is imported now and keeps what it compiles.

    Raises
    ------
    ImportError
        If there is no CuPy.
    """
    cupy = importlib.import_module("cupy")
    with cupy.cuda.Device(device):
        module = cupy.RawModule(code=kernel.source, options=OPTIONS)
        return Compiled(module, module.get_function(kernel.entry).kernel.ptr)


def kernel_of(
    columns: Sequence[KernelColumn], stages: Sequence[Stage], *, batched: bool = True, entry: str = "queuecore_widen"
) -> Kernel:
    """Return the kernel that does what stages do to a batch.

    Parameters
    ----------
    columns : sequence of KernelColumn
        The raw batch.
    stages : sequence of Stage
        Each stage gets the output of the one before it. Without stages, the components are only split off.
    batched : bool, default True
        Whether components have a batch dimension in front. If not, stages get a row, and the kernel does the same to
        each row of a batch.
    entry : str
        The function's name.

    Raises
    ------
    UnimplementedError
        If a kernel can't do a stage, or can't hold a dtype.
    InvalidArgumentError
        If a stage can't work on its input.
    """
    try:
        tensors = [_column(column, batched) for column in columns]
    except UnimplementedError as error:
        raise _refusal("a batch", error) from error
    for stage in stages:
        step = stage.bind([tensor.component() for tensor in tensors])
        if isinstance(step, PythonStep):
            raise _refusal(repr(stage), step.why)
        try:
            tensors = stage.on_device(tensors)
            tensors = [tensor.output(made, batched) for tensor, made in zip(tensors, step.outputs, strict=True)]
        except UnimplementedError as error:
            raise _refusal(repr(stage), error) from error
    for tensor in tensors:
        try:
            _type(tensor.dtype)
        except UnimplementedError as error:
            raise _refusal("an output", error) from error
    return _written(tensors, entry)


def _refusal(what: str, why: object) -> UnimplementedError:
    return UnimplementedError(f"{what}: no kernel can do this on a device: {why}")


def _items(shape: Any) -> int:
    return math.prod(shape)


def _type(dtype: np.dtype[Any]) -> str:
    found = "Brain" if is_bfloat16(dtype) else _TYPES.get(dtype.str[1:])
    if found is None:
        raise UnimplementedError(f"arrays of {'bytes' if dtype.kind == 'S' else dtype} can't be on a device")
    return found


# -- what is computed --------------------------------------------------------------------------------------------------


class KernelTensor:
    """A component on a device: the way to compute any of its items.

    Shapes and axes in the arguments of methods are those that a user sees, with the batch dimension in front. Each
    method returns another tensor, or raises `UnimplementedError` with no more than a reason.

    Attributes
    ----------
    dtype : numpy.dtype
        Of the items; ``S`` for raw bytes, of which the items are strings of `nbytes`, as pointers.
    shape : tuple of int
        The shape of a row.
    rows : bool
        Whether each row of a batch has its own, so that there is a batch dimension.
    batch : int or None
        How many rows a batch has, if that is always the same.
    item : callable
        Writes the code that computes the item at an index into the row; returns its expression.
    largest : int
        The largest index that is computed on the way.
    alignment : int
        For raw bytes: the number of which their addresses are multiples.
    """

    __slots__ = ("alignment", "batch", "dtype", "item", "largest", "name", "nbytes", "rows", "shape")

    def __init__(
        self, dtype: np.dtype[Any], shape: Sequence[int], item: Item, like: KernelTensor | None = None
    ) -> None:
        self.dtype = dtype
        self.shape = tuple(shape)
        self.item = item
        self.rows: bool = like.rows if like is not None else False
        self.batch: int | None = like.batch if like is not None else None
        self.largest: int = max(_items(self.shape), like.largest if like is not None else 0)
        self.name: str | None = like.name if like is not None else None
        self.nbytes: int | None = None
        self.alignment = 1

    def component(self) -> Component:
        """Return the host's view of the component."""
        shape: tuple[int | None, ...] = (self.batch, *self.shape) if self.rows else self.shape
        return Component(self.dtype, shape, self.nbytes, self.name)

    def named(self, name: str | None) -> KernelTensor:
        """Return this tensor under a name."""
        made = copy.copy(self)
        made.name = name
        return made

    def output(self, component: Component, rows: bool) -> KernelTensor:
        """Return this tensor as a stage's output, which the host describes by `component`."""
        if self.rows != rows:
            raise UnimplementedError("it makes something that isn't there for each row of a batch")
        pairs = zip(self.component().shape or (), component.shape or (), strict=True)
        assert self.dtype == component.dtype and all(None in pair or pair[0] == pair[1] for pair in pairs)
        return self.named(component.name)

    def _own(self, body: _Body, k: str) -> str:
        """Write the code that computes an item, once."""
        key = (id(self), k)
        if key not in body.known:
            body.known[key] = self.item(body, k)
        return body.known[key]

    # -- numbers

    def constant(self, array: np.ndarray[Any, Any]) -> KernelTensor:
        """Return a constant, independent of this tensor."""
        flat = array.ravel()
        if flat.size == 1:
            return KernelTensor(array.dtype, array.shape, lambda body, k: _literal(flat[0]))
        if flat.size > _MOST_CONSTANT:
            raise UnimplementedError(f"a constant of {flat.size} numbers")
        return KernelTensor(array.dtype, array.shape, lambda body, k: f"{body.table(flat)}[{k}]")

    def cast(self, dtype: np.dtype[Any]) -> KernelTensor:
        """Return this tensor in another dtype."""
        if dtype == self.dtype:
            return self
        ctype = _type(dtype)

        def item(body: _Body, k: str) -> str:
            return body.let(ctype, f"converted<{ctype}>({self._own(body, k)})")

        return KernelTensor(dtype, self.shape, item, self)

    def call(
        self, name: str, loop: Sequence[np.dtype[Any]], values: Sequence[KernelTensor | np.ndarray[Any, Any]]
    ) -> KernelTensor:
        """Return what a function of NumPy's makes of these, of which this is one; the last dtype is the result's."""
        if name == "positive":
            return self.cast(loop[0])
        if name not in _CALLS.split() or (name != "where" and len(set(loop[:-1])) > 1):
            raise UnimplementedError(f"numpy.{name} of {', '.join(map(str, loop[:-1]))}")
        operands = [operand if isinstance(operand, KernelTensor) else self.constant(operand) for operand in values]
        operands = [operand.cast(dtype) for operand, dtype in zip(operands, loop, strict=False)]
        like = next((operand for operand in operands if operand.rows), self)
        rank = max(len(operand.shape) + operand.rows for operand in operands)
        shapes = []
        for operand in operands:
            shape = operand.shape
            if like.rows and len(shape) + operand.rows == rank and not operand.rows:
                if shape[0] != 1:
                    raise UnimplementedError("a constant with another number for each row of a batch")
                shape = shape[1:]
            elif operand.rows and len(shape) + 1 < rank:
                raise UnimplementedError("the rows of a batch are combined with another dimension")
            shapes.append(shape)
        dims = np.broadcast_shapes(*shapes)
        places = [_Reached.broadcast(shape, dims) for shape in shapes]
        ctype = _type(loop[-1])

        def item(body: _Body, k: str) -> str:
            items = [operand._own(body, place.at(body, k)) for operand, place in zip(operands, places, strict=True)]
            return body.let(ctype, f"loops::{name}({', '.join(items)})")

        tensor = KernelTensor(loop[-1], dims, item, like)
        tensor.largest = max(tensor.largest, *(operand.largest for operand in operands))
        return tensor

    def one_hot(self, depth: int, on: bytes, off: bytes, dtype: np.dtype[Any]) -> KernelTensor:
        """Return a row for each item, with one value at its place and another one everywhere else."""
        ctype = _type(dtype)
        values = [_literal(np.frombuffer(value, dtype)[0]) for value in (on, off)]
        index = self.cast(np.dtype(np.int64))

        def item(body: _Body, k: str) -> str:
            hot = index._own(body, body.index(f"{k} / {depth}") if _items(self.shape) > 1 else "0")
            return body.let(ctype, f"{hot} == int64_t({k} % {depth}) ? {values[0]} : {values[1]}")

        return KernelTensor(dtype, (*self.shape, depth), item, self)

    # -- other shapes

    def reshape(self, shape: Sequence[int]) -> KernelTensor:
        """Return the same items, in the same order, in another shape, which has -1 once at most."""
        sides = list(shape)
        count = _items(self.shape)
        if self.rows:
            if not sides or sides[0] not in (-1, self.batch):
                raise UnimplementedError("a shape that doesn't keep the rows of a batch")
            del sides[0]
        known = math.prod(side for side in sides if side >= 0)
        sides = [side if side >= 0 else count // known if known else 0 for side in sides]
        if math.prod(sides) != count:
            raise UnimplementedError("a shape that doesn't keep the rows of a batch")
        return KernelTensor(self.dtype, sides, self._own, self)

    def view(self, axes: Sequence[tuple[int, int]], starts: Sequence[int], shape: Sequence[int | None]) -> KernelTensor:
        """Return a part of this tensor.

        Parameters
        ----------
        axes : sequence of tuple
            For each dimension, which one of this tensor's it is, and with what step; (-1, 0) for a new one.
        starts : sequence of int
            Where it begins, for each dimension of this tensor.
        shape : sequence of int or None
            How long each dimension is; of that of a batch it doesn't matter.
        """
        lead = int(self.rows)
        if lead:
            whole = bool(axes) and tuple(axes[0]) == (0, 1) and not starts[0]
            if not whole or (None not in (shape[0], self.batch) and shape[0] != self.batch):
                raise UnimplementedError("it takes a batch apart, or puts another dimension before its rows")
        strides = _strides(self.shape)
        dims = [int(side or 0) for side in shape[lead:]]
        steps = [strides[axis - lead] * step if axis >= 0 else 0 for axis, step in axes[lead:]]
        first = sum(start * stride for start, stride in zip(starts[lead:], strides, strict=True))
        place = _Reached(dims, steps, first)
        return KernelTensor(self.dtype, dims, lambda body, k: self._own(body, place.at(body, k)), self)

    def transpose(self, perm: Sequence[int]) -> KernelTensor:
        """Return this tensor with its axes in another order."""
        shape = self.component().shape or ()
        return self.view([(axis, 1) for axis in perm], [0] * len(perm), [shape[axis] for axis in perm])

    def slice(self, begin: Sequence[int], size: Sequence[int]) -> KernelTensor:
        """Return a part of it; a size of -1: to the end."""
        shape = self.component().shape or ()
        sides = [
            size_ if size_ >= 0 else None if side is None else side - start
            for side, start, size_ in zip(shape, begin, size, strict=True)
        ]
        if self.rows and self.batch is None and size[0] >= 0:
            raise UnimplementedError("it takes a batch apart")
        return self.view([(axis, 1) for axis in range(len(begin))], begin, sides)

    # -- raw bytes

    def fields(self, leaves: Sequence[RecordLeaf]) -> list[KernelTensor]:
        """Return the fields that leaves of a record are cut into, from each string."""
        return [self._field(leaf) for leaf in leaves]

    def _field(self, leaf: RecordLeaf) -> KernelTensor:
        ctype, size = _type(leaf.dtype), leaf.dtype.itemsize
        items_per_row, piece = _items(leaf.shape), leaf.piece_bytes // size
        unit = size // 2 if leaf.dtype.kind == "c" else size
        aligned = not any(offset % unit for offset in (self.alignment, *leaf.offsets))
        load = f"Load<{ctype}, {_word(leaf.swap > 1)}, {_word(aligned)}>::at"

        def item(body: _Body, k: str) -> str:
            several = _items(self.shape) > 1
            string = self._own(body, body.index(f"{k} / {items_per_row}") if several else "0")
            j = body.index(f"{k} % {items_per_row}") if several else k
            if len(leaf.offsets) == 1:
                place = str(leaf.offsets[0])
            else:
                offsets = np.array(leaf.offsets, np.uint64)
                place = f"{body.table(offsets)}[{j} / {piece}]"
                j = body.index(f"{j} % {piece}")
            if piece > 1:
                place += f" + uint64_t({j}) * {size}"
            return body.let(ctype, f"{load}({string} + {place})")

        return KernelTensor(leaf.dtype, (*self.shape, *leaf.shape), item, self)


def _column(column: KernelColumn, batched: bool) -> KernelTensor:
    component = column.component
    shape = component.shape
    if shape is None or None in shape[batched:] or component.ragged or (batched and not shape):
        raise UnimplementedError("the shape of its rows isn't known before the data is")
    row = tuple(side or 0 for side in shape[batched:])
    if component.dtype == BYTES:
        if component.nbytes is None:
            raise UnimplementedError("strings of any length")
        length, strings = component.nbytes, row
    else:
        _type(component.dtype)
        length, strings = _items(row) * component.dtype.itemsize, ()
    stride = length * _items(strings) if column.stride is None else column.stride

    def item(body: _Body, k: str) -> str:
        at = f" + {column.offset}" if column.offset else ""
        first = body.let("const uint8_t*", f"in{at} + uint64_t(row) * {stride}")
        return first if k == "0" else f"{first} + uint64_t({k}) * {length}"

    raw = KernelTensor(BYTES, strings, item)
    raw.rows, raw.batch = batched, shape[0] if batched else None
    raw.nbytes = length
    raw.alignment = math.gcd(ALIGNMENT, column.offset, stride, length if strings else 0)
    made = raw
    if component.dtype != BYTES:
        (made,) = raw.fields([RecordLeaf(component.dtype, row, 0, (0,), length)])
    made.name = component.name
    return made


# -- how it is written -------------------------------------------------------------------------------------------------


class _Body:
    """The code that computes one item of an output: a statement for each thing that is computed, and none twice.

    Attributes
    ----------
    known : dict
        The variables of what is already computed, by tensor and place.
    """

    def __init__(self, tables: dict[tuple[str, bytes], np.ndarray[Any, Any]]) -> None:
        self.lines: list[str] = []
        self.known: dict[tuple[int, str], str] = {}
        self._names: dict[str, str] = {}
        self._tables = tables

    def let(self, kind: str, expression: str) -> str:
        """Return the variable that has this value."""
        if expression not in self._names:
            self._names[expression] = f"v{len(self._names)}"
            self.lines.append(f"{kind} {self._names[expression]} = {expression};")
        return self._names[expression]

    def index(self, expression: str) -> str:
        """Return the variable that has this index."""
        return self.let("Place", expression)

    def table(self, items: np.ndarray[Any, Any]) -> str:
        """Return the array that has these constants."""
        key = (_type(items.dtype), items.tobytes())
        self._tables.setdefault(key, items)
        return f"table{list(self._tables).index(key)}"


class _Reached:
    """A part of a row-major array: from an index into the part, the one into the array.

    Parameters
    ----------
    dims : sequence of int
        Of the part.
    steps : sequence of int
        How far apart items are in the array, for each dimension.
    first : int
        Where the part begins.
    """

    def __init__(self, dims: Sequence[int], steps: Sequence[int], first: int = 0) -> None:
        # Dimensions that belong together are one: (length, step, and how many items of the part each has).
        self._parts: list[tuple[int, int, int]] = []
        self._first = first
        self._items = math.prod(dims)
        inner = self._items
        for side, step in zip(dims, steps, strict=True):
            inner = inner // side if side else 0
            if self._parts and (side == 1 or self._parts[-1][1] == step * side):
                last = self._parts.pop()
                self._parts.append((last[0] * side, step if side > 1 else last[1], inner))
            elif side != 1:
                self._parts.append((side, step, inner))

    @classmethod
    def broadcast(cls, shape: Sequence[int], dims: Sequence[int]) -> _Reached:
        """Return where the items of an array are that is repeated to these dimensions."""
        strides = [0 if side == 1 else stride for side, stride in zip(shape, _strides(shape), strict=True)]
        return cls(dims, [0] * (len(dims) - len(shape)) + strides)

    def at(self, body: _Body, k: str) -> str:
        """Write down the index into the array."""
        if not self._items:
            return k
        terms = [str(self._first)] if self._first else []
        for number, (side, step, inner) in enumerate(self._parts):
            one = f"{k} / {inner}" if inner > 1 else k
            one = f"{one} % {side}" if number else one
            if step:
                one = one if one == k else body.index(one)
                terms.append(f"{one} * {step}" if step not in (1, -1) else one if step > 0 else f"-{one}")
        # Indices are unsigned: a subtraction on the way is undone by wrapping.
        if len(terms) == 1 and terms[0].isidentifier():
            return terms[0]
        return body.index(" + ".join(terms)) if terms else "0"


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _literal(value: Any) -> str:
    """Return a number as C++ has it, bit for bit."""
    dtype = value.dtype
    kind = _type(dtype)
    bits = f"0x{int.from_bytes(value.tobytes(), 'little'):x}"
    if kind in ("float", "double"):
        if not math.isfinite(value):
            return f"{kind}_of_bits({bits})"
        return f"{float(value).hex()}{'f' if kind == 'float' else ''}"
    if kind in ("Bool", "Half", "Brain"):
        return f"{kind}{{{bits}}}"
    return f"{kind}({bits}{'ull' if dtype.itemsize == 8 else ''})"


def _written(tensors: Sequence[KernelTensor], entry: str) -> Kernel:
    header = Path(__file__).parents[1].joinpath("_core", "device.hpp").read_text(encoding="utf-8")
    tables: dict[tuple[str, bytes], np.ndarray[Any, Any]] = {}
    functions: list[str] = []
    calls: list[str] = []
    for number, tensor in enumerate(tensors):
        count, kind = _items(tensor.shape), _type(tensor.dtype)
        if count:
            functions.append(_function(number, tensor, count, kind, tables))
            calls.append(f"  run{number}(in, out, uint64_t(rows) * {count});")
        calls.append(f"  out += aligned_bytes(uint64_t(rows) * {count * tensor.dtype.itemsize});")
    arrays = []
    for number, ((kind, _), items) in enumerate(tables.items()):
        arrays.append(f"QC_TABLE {kind} table{number}[] = {{{', '.join(map(_literal, items))}}};")
    body = "\n".join(calls[:-1])
    source = f"""{header}
namespace queuecore {{
namespace {entry}_parts {{

{chr(10).join((*arrays, *functions))}

}}  // namespace {entry}_parts
}}  // namespace queuecore

QC_KERNEL {entry}(const unsigned char* in, unsigned char* out, long long rows) {{
  using namespace queuecore;
  using namespace queuecore::{entry}_parts;
{body}
}}
"""
    outputs = tuple(tensor.component()._replace(shape=tensor.shape) for tensor in tensors)
    return Kernel(source, entry, outputs)


def _function(number: int, tensor: KernelTensor, count: int, kind: str, tables: dict[Any, Any]) -> str:
    body = _Body(tables)
    item = tensor._own(body, "k" if count > 1 else "0")
    place = "uint32_t" if tensor.largest < 1 << 31 else "uint64_t"
    lines = "".join(f"    {line}\n" for line in body.lines)
    split = f"i / {count}" if count > 1 else "i"
    # Indices of 64 bits take several times as many instructions.
    return f"""template <class Index>
QC_DEVICE void make{number}(const uint8_t* __restrict__ in, {kind}* __restrict__ out, Index count) noexcept {{
  using Place = {place};
  for (Index i = QC_FIRST; i < count; i += QC_STEP) {{
    [[maybe_unused]] const Index row = {split};
    [[maybe_unused]] const Place k = Place(i - row * {count});
{lines}    out[i] = {item};
  }}
}}

QC_DEVICE void run{number}(const uint8_t* in, uint8_t* out, uint64_t count) noexcept {{
  {kind}* first = reinterpret_cast<{kind}*>(out);
  if (count <= 0x7fffffff) {{
    make{number}<uint32_t>(in, first, uint32_t(count));
  }} else {{
    make{number}<uint64_t>(in, first, count);
  }}
}}
"""
