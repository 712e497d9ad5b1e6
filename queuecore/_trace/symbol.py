"""Tracing: a Python function, called once with symbols for an element, as a native stage.

A graph records what the function does to its symbols: operations of `queuecore.ops`, parts of arrays, and calls of
NumPy's element-wise functions. `queuecore._trace.graph` makes native steps of it. Any other use of a symbol ends the
trace, so that the function has to run in Python; and so does every operation whose result may differ by even one bit
from the function's own.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import math
import operator
import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from queuecore._checks.checks import MAX_DIMS
from queuecore._core.steps.stages import PythonStep, Step
from queuecore._elements.dtypes import as_dtype
from queuecore._ops.chain import Cast, Links, Reshape, Scale, Transpose, merged
from queuecore._ops.stage import Stage
from queuecore._ops.texts import SplitStage, comparison
from queuecore._trace.graph import Dims, Side, TraceGraph, Value
from queuecore.errors import InvalidArgumentError, QueueCoreError

__all__ = ["Symbol", "Untraced", "parts_of", "stop"]


class Untraced(NamedTuple):
    """The reason for which a function has to run in Python.

    Attributes
    ----------
    reason : str
        In words.
    where : str
        The place in the user's code: ``"file.py:12: `if x > 3:`"``; empty where there is none.
    missing : str or None
        The key that it asked for, if it ended because there is none.
    """

    reason: str
    where: str
    missing: str | None = None

    def __str__(self) -> str:
        """Return both, in one line."""
        return f"{self.reason} ({self.where})" if self.where else self.reason


class GiveUp(BaseException):
    """The end of a trace. Not an `Exception`: no ``except Exception`` of the function's catches it."""


# Every bit of these functions' results follows from the operands alone, not from their place in memory.
_EXACT_NAMES = """
    add subtract multiply divide true_divide floor_divide remainder mod fmod negative positive absolute fabs sign
    equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor invert bitwise_not left_shift right_shift maximum minimum fmax fmin
    sqrt square reciprocal floor ceil trunc rint isnan isinf isfinite signbit copysign nextafter spacing gcd lcm
    deg2rad rad2deg degrees radians heaviside bitwise_count conjugate power
"""
_CLIP = np._core.umath.clip  # type: ignore[attr-defined]
_EXACT = frozenset((_CLIP, *(getattr(np, name) for name in _EXACT_NAMES.split() if hasattr(np, name))))
# The same holds for these if the items are contiguous: NumPy picks one of several algorithms by that.
_SMOOTH_NAMES = """
    exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh cbrt
"""
_SMOOTH = frozenset(getattr(np, name) for name in _SMOOTH_NAMES.split())
# NumPy functions that are also methods of arrays.
_METHODS = frozenset((np.transpose, np.reshape, np.ravel, np.clip, np.copy))
_MOST_CONSTANT = 64 << 20  # bytes
_MOST_LISTED = 16
_MOST_PILED = 64  # arrays; each takes a few steps of an expression


class Tracer:
    """One traced call of a function.

    Attributes
    ----------
    lead : int
        The number of batch dimensions in front of an element's.
    graph, rows : Graph
        The operations on the element; the operations on one row of it, where the function does the same to each row.
    """

    def __init__(self, lead: int, function: Any) -> None:
        self.lead = lead
        self.place = _defined(function)
        self.graph = TraceGraph()
        self.rows = TraceGraph()
        self.active = True
        self.failure: Untraced | None = None

    def give_up(self, reason: str, where: str | None = None) -> NoReturn:
        """End the trace; the first reason is the one that counts."""
        if not self.active:
            raise InvalidArgumentError("this stood for an element while a function was traced; there is no value of it")
        if self.failure is None:
            self.failure = _untraced(reason, sys._getframe(1)) if where is None else Untraced(reason, where)
        raise GiveUp

    def refuse(self, reason: str, frame: FrameType | None) -> NoReturn:
        """End the trace before the function does what a trace must not do for it."""
        self.distrust(reason, frame)
        raise GiveUp

    def distrust(self, reason: str, frame: FrameType | None) -> None:
        """Record that the result can't be trusted, and let the function go on."""
        if self.active and self.failure is None:
            self.failure = Untraced(reason, self.place) if frame is None else _untraced(reason, frame)


_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_MOST_LETTERS = 80
_LIBRARY = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
# These may lie inside.
_PACKAGES = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})


def is_users(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith((_OURS, _NUMPY))


def _is_written_by_users(frame: FrameType) -> bool:
    """Return whether a place in the frame's code tells users something: it isn't in the standard library either."""
    name = frame.f_code.co_filename
    in_library = name.startswith(_LIBRARY) or name.startswith("<frozen ")
    return is_users(frame) and (not in_library or name.startswith(_PACKAGES))


def _untraced(reason: str, frame: FrameType | None) -> Untraced:
    """Return what ends a trace, with its place in the user's code and the library's function that is called there."""
    called = ""
    while frame is not None and not _is_written_by_users(frame):
        if is_users(frame):
            called = f", in {frame.f_globals.get('__name__')}.{frame.f_code.co_qualname.rpartition('.')[2]}()"
        frame = frame.f_back
    return Untraced(reason + called, "" if frame is None else _place(frame, frame.f_lineno))


def _quoted(name: str, line: int, text: str) -> str:
    """Return a place in a file and what stands there, or the beginning of that."""
    if len(text) > _MOST_LETTERS:
        text = text[: _MOST_LETTERS - 1] + "…"
    return f"{os.path.basename(name)}:{line}" + (f": `{text}`" if text else "")


def _place(frame: FrameType, line: int) -> str:
    name = frame.f_code.co_filename
    text = linecache.getline(name, line, frame.f_globals).strip()
    return _quoted(name, line, text)


def _defined(function: Any) -> str:
    """Return where a Python function is defined; empty for anything else."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    text = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return _quoted(code.co_filename, code.co_firstlineno, text)


def where_raised(traceback: TracebackType | None) -> str:
    place = ""
    while traceback is not None:
        if _is_written_by_users(traceback.tb_frame):
            place = _place(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place


def _stopper(words: str) -> Any:
    def stop(self: Symbol, *_: Any, **__: Any) -> NoReturn:
        self._number(words)
        self._stop(words)

    return stop


def _comparison(ufunc: Any, how: str) -> Any:
    def compare(self: Symbol, other: Any) -> Symbol:
        if self._value.opaque == "bytes":
            return _texts_compared(self, how, other)
        return _operated(self, ufunc, (self, other))

    return compare


def _operators(ufunc: Any) -> tuple[Any, Any, Any]:
    """Return the methods of an operator: with the symbol on the left, on the right, and in place."""

    def forth(self: Symbol, other: Any) -> Symbol:
        return _operated(self, ufunc, (self, other))

    def swapped(self: Symbol, other: Any) -> Symbol:
        return _operated(self, ufunc, (other, self))

    def inplace(self: Symbol, other: Any) -> Symbol:
        # For a number, `x += y` only gives the name another number. But operations and numpy.where make arrays, even
        # without dimensions, which it changes.
        node = self._value.node
        number = node.kind == "input" or node.kind == "call" and node.what[0] is not np.where
        if self._sides("an operation in place") or not number:
            self._stop("an operation that changes an array in place")
        return _operated(self, ufunc, (self, other))

    return forth, swapped, inplace


def _unary(ufunc: Any) -> Any:
    return lambda self: _operated(self, ufunc, (self,))


class Symbol:
    """The stand-in for an array, a number, or bytes, which a function gets while it is traced.

    It supports arithmetic, comparison, NumPy's element-wise functions, operations of `queuecore.ops`; constant indices;
    ``astype``, ``reshape``, ``transpose``; and the parts of dtype and shape that are known before the data are read.
    Anything else ends the trace.
    """

    __slots__ = ("_row", "_tracer", "_value")

    def __init__(self, tracer: Tracer, value: Value, row: Value | None) -> None:
        self._tracer = tracer
        self._value = value
        self._row = row

    # -- what is known of it -------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype."""
        return self._number("dtype").dtype

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return len(self._sides("ndim"))

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, if all of it is known."""
        return self._known("shape")

    @property
    def size(self) -> int:
        """The number of its items, if that is known."""
        return math.prod(self._known("size"))

    def __len__(self) -> int:
        dims = self._sides("len()")
        if not dims:
            self._stop("len() of a number")
        if not isinstance(dims[0], int):
            self._stop("len() is not known before the data is")
        return dims[0]

    def __iter__(self) -> Any:
        return iter([self[index] for index in range(len(self))])

    def _number(self, what: str) -> Value:
        if self._value.opaque or not self._tracer.active:
            self._stop(f"{what} of {self._value.opaque}{_HINTS.get(what, '') * (self._value.opaque == 'bytes')}")
        return self._value

    def _sides(self, what: str) -> Dims:
        dims = self._number(what).dims
        if dims is None:
            self._stop(f"{what} is not known before the data is")
        return dims

    def _known(self, what: str) -> tuple[int, ...]:
        dims = self._sides(what)
        known = tuple(side for side in dims if isinstance(side, int))
        if len(known) < len(dims):
            self._stop(f"{what} is not known before the data is")
        return known

    def _side(self, axis: int) -> Any:
        dims = self._sides("a dimension's length")
        if not -len(dims) <= axis < len(dims) or not isinstance(dims[axis], int):
            self._stop("a dimension's length is not known before the data is")
        return dims[axis]

    def _stop(self, reason: str) -> NoReturn:
        self._tracer.give_up(reason)

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Symbol:
        if method != "__call__" or options:
            how = f".{method}" if method != "__call__" else f" with {', '.join(options)}"
            self._stop(f"numpy.{ufunc.__name__}{how}")
        return _call(self._tracer, ufunc, inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not kwargs and function is np.where and len(args) == 3:
            return _choice(self._tracer, args)
        if not kwargs and function in _METHODS and type(args[0]) is Symbol:
            made: Symbol = getattr(args[0], function.__name__)(*args[1:])
            return made
        if not kwargs and function is np.size and len(args) == 2 and type(args[1]) is int:
            return self._side(args[1])
        if not kwargs and function is np.stack and type(args[0]) in (list, tuple):
            return _piled(self._tracer, args[0], *args[1:])
        self._stop(f"numpy.{function.__name__}")

    __add__, __radd__, __iadd__ = _operators(np.add)
    __sub__, __rsub__, __isub__ = _operators(np.subtract)
    __mul__, __rmul__, __imul__ = _operators(np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _operators(np.true_divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators(np.floor_divide)
    __mod__, __rmod__, __imod__ = _operators(np.remainder)
    __and__, __rand__, __iand__ = _operators(np.bitwise_and)
    __or__, __ror__, __ior__ = _operators(np.bitwise_or)
    __xor__, __rxor__, __ixor__ = _operators(np.bitwise_xor)
    __lshift__, __rlshift__, __ilshift__ = _operators(np.left_shift)
    __rshift__, __rrshift__, __irshift__ = _operators(np.right_shift)
    __eq__ = _comparison(np.equal, "==")
    __ne__ = _comparison(np.not_equal, "!=")
    __lt__ = _comparison(np.less, "<")
    __le__ = _comparison(np.less_equal, "<=")
    __gt__ = _comparison(np.greater, ">")
    __ge__ = _comparison(np.greater_equal, ">=")
    __neg__ = _unary(np.negative)
    __pos__ = _unary(np.positive)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)
    __ipow__ = _stopper("an operation that changes an array in place")

    def __pow__(self, other: Any) -> Any:
        return _power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _call(self._tracer, np.power, (other, self))

    # -- other shapes --------------------------------------------------------------------------------------------------

    def astype(self, dtype: Any, **options: Any) -> Symbol:
        """Return it in another dtype."""
        value = self._number("astype")
        if set(options) - {"copy"}:
            self._stop(f"astype with {', '.join(options)}")
        try:
            target = as_dtype(dtype)
        except (TypeError, ValueError, QueueCoreError) as error:
            self._stop(f"astype: {error}")
        if not target.isnative or not is_native_dtype(target) or not is_native_dtype(value.dtype):
            self._stop(f"astype from {value.dtype} to {target}")
        if value.dtype.kind == "f" and target.kind in "iu":
            self._stop(
                f"astype from {value.dtype} to {target}: NumPy promises no value for numbers that don't fit; "
                "queuecore.ops.cast is native"
            )
        return self._cast(target, True)

    def _cast(self, dtype: np.dtype[Any], numpys: bool) -> Symbol:
        tracer = self._tracer
        row = None if self._row is None else tracer.rows.cast(self._row, dtype, numpys)
        return Symbol(tracer, tracer.graph.cast(self._value, dtype, numpys), row)

    def __getitem__(self, key: Any) -> Symbol:
        node = self._value.node
        if node.kind == "stage" and isinstance(node.what[0], SplitStage) and type(key) is int and not self._tracer.lead:
            values = self._bound(self._tracer.graph, node.what[0].at(key), node.given[0])
            return Symbol(self._tracer, values[0], None)
        dims = self._sides("an index")
        if not dims:
            self._stop("an index of a number")
        items = list(key) if type(key) is tuple else [key]
        indexed = sum(item is not None and item is not Ellipsis for item in items)
        if sum(item is Ellipsis for item in items) > 1 or indexed > len(dims):
            self._stop("an index that doesn't fit")
        if not any(item is Ellipsis for item in items):
            items.append(Ellipsis)
        axes: list[tuple[int, int]] = []
        starts = [0] * len(dims)
        sides: list[Side] = []
        axis = 0
        for item in items:
            if item is None:
                axes.append((-1, 0))
                sides.append(1)
            elif item is Ellipsis:
                for _ in range(len(dims) - indexed):
                    axes.append((axis, 1))
                    sides.append(dims[axis])
                    axis += 1
            elif type(item) is slice:
                start, step, side = self._slice(item, dims[axis])
                axes.append((axis, step))
                starts[axis] = start
                sides.append(side)
                axis += 1
            else:
                starts[axis] = self._index(item, dims[axis])
                axis += 1
        return self._view(axes, starts, sides)

    def _index(self, item: Any, side: Side) -> int:
        if type(item) is Symbol or type(item) is not int and not isinstance(item, np.integer):
            self._stop("an index that is no constant integer, slice, ... or None")
        if not isinstance(side, int):
            self._stop("an index into a dimension whose length is not known before the data is")
        number = int(item)
        if not -side <= number < side:
            self._stop(f"the index {number} in a dimension of {side}")
        return number % side

    def _slice(self, item: slice, side: Side) -> tuple[int, int, Side]:
        if item == slice(None):
            return 0, 1, side
        parts = (item.start, item.stop, item.step)
        if any(type(part) is Symbol for part in parts) or not all(
            part is None or type(part) is int or isinstance(part, np.integer) for part in parts
        ):
            self._stop("a slice whose ends are no constant integers")
        if not isinstance(side, int):
            self._stop("a slice of a dimension whose length is not known before the data is")
        if item.step == 0:
            self._stop("a slice with step 0")
        chosen = range(*item.indices(side))
        return (chosen.start if len(chosen) else 0), chosen.step, len(chosen)

    def _view(self, axes: Sequence[tuple[int, int]], starts: Sequence[int], sides: Sequence[Side]) -> Symbol:
        if len(axes) > MAX_DIMS:
            self._stop(f"{len(axes)} dimensions")
        tracer = self._tracer
        row, lead = None, tracer.lead
        dims = self._value.dims or ()
        whole = all(axes[i : i + 1] == [(i, 1)] and not starts[i] and sides[i] == dims[i] for i in range(lead))
        if self._row is not None and whole:
            inner = [(axis - lead if axis >= 0 else -1, step) for axis, step in axes[lead:]]
            row = tracer.rows.view(self._row, inner, starts[lead:], tuple(sides[lead:]))
        return Symbol(tracer, tracer.graph.view(self._value, axes, starts, tuple(sides)), row)

    def transpose(self, *axes: Any) -> Symbol:
        """Return it with its axes in another order; by default in reverse."""
        dims = self._sides("transpose")
        order: Any = axes[0] if len(axes) == 1 and not hasattr(axes[0], "__index__") else axes
        if order is None or not len(order):
            order = range(len(dims))[::-1]
        try:
            perm = [operator.index(axis) for axis in order]
        except TypeError:
            self._stop("axes that are no constant integers")
        if any(not -len(dims) <= axis < len(dims) for axis in perm) or len({axis % len(dims) for axis in perm}) != len(
            dims
        ):
            self._stop(f"the axes {perm} of {len(dims)} dimensions")
        perm = [axis % len(dims) for axis in perm]
        return self._view([(axis, 1) for axis in perm], [0] * len(dims), [dims[axis] for axis in perm])

    @property
    def T(self) -> Symbol:  # noqa: N802
        """It with its axes in reverse."""
        return self.transpose()

    def reshape(self, *shape: Any, **options: Any) -> Symbol:
        """Return the same items in another shape."""
        self._sides("reshape")
        if options:
            self._stop(f"reshape with {', '.join(options)}")
        target: Any = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
        try:
            sides = tuple(operator.index(side) for side in target)
        except TypeError:
            self._stop("a shape that isn't of constant integers")
        if len(sides) > MAX_DIMS or sides.count(-1) > 1 or any(side < -1 for side in sides):
            self._stop(f"the shape {sides}")
        return self._reshape(sides)

    def ravel(self) -> Symbol:
        """Return all items in one dimension."""
        return self.reshape(-1)

    flatten = ravel

    def copy(self) -> Symbol:
        """Return itself: nothing changes it."""
        self._number("copy")
        return self

    def clip(self, *limits: Any, **options: Any) -> Symbol:
        """Return it with values beyond the two limits moved to them."""
        if len(limits) != 2 or options or any(one is None for one in limits):
            self._stop("clip with other arguments than two limits")
        return _call(self._tracer, _CLIP, (self, *limits))

    def _reshape(self, sides: tuple[int, ...]) -> Symbol:
        tracer = self._tracer
        try:
            value = tracer.graph.reshape(self._value, sides)
        except QueueCoreError as error:
            self._stop(str(error))
        row = None
        if self._row is not None and tracer.lead == 1 and sides:
            # A row keeps its number of items; the batch takes the rest.
            dims = self._row.dims or ()
            known = [side for side in dims if isinstance(side, int)]
            items = math.prod(known)
            batch = (self._value.dims or (0,))[0]
            fits = len(known) == len(dims) and -1 not in sides[1:] and items == math.prod(sides[1:])
            if fits and (sides[0] == batch or sides[0] == -1 and items):
                value.dims = (batch, *sides[1:])
                row = tracer.rows.reshape(self._row, sides[1:])
        return Symbol(tracer, value, row)

    # -- operations of queuecore.ops -----------------------------------------------------------------------------------

    def _traced_operation(
        self, op: Callable[..., Any], name: str, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        if not self._tracer.active:
            self._number(name)
        if name == "transpose" and not args and options.get("perm") is None:
            return self.transpose()
        if options.get("element") or options.get("epoch"):
            self._stop(f"{name} with a number of the element")
        stage = op(None, *args, **options)
        results = self._apply(stage)
        if stage.structure is not None:
            try:
                return stage.structure.assemble(results, self._tracer.lead > 0)
            except GiveUp:
                failure = self._tracer.failure
                if failure is not None:
                    self._tracer.failure = failure._replace(reason=f"{name} makes a Ragged or a Sparse")
                raise
        if name == "decode_csv":
            return results
        if len(results) != 1:
            self._stop(f"{name}, which makes several things")
        return results[0]

    def _traced_together(self, name: str, stage: Stage, operands: Sequence[Any]) -> Any:
        """Return the result of a stage on several symbols and constant strings; a tuple of several results."""
        tracer = self._tracer
        if not tracer.active:
            self._number(name)
        values: list[Value] = []
        rows: list[Value] = []
        for operand in operands:
            if type(operand) is Symbol:
                if operand._tracer is not tracer:
                    tracer.give_up("a symbol of another trace")
                values.append(operand._value)
                rows += [] if operand._row is None else [operand._row]
            elif type(operand) in (bytes, str):
                text = operand.encode() if type(operand) is str else operand
                values.append(tracer.graph.constant(text))
                rows.append(tracer.rows.constant(text))
            else:
                tracer.give_up(f"{name} of a {type(operand).__name__}")
        results = tracer.graph.stage(stage, stage.bind([value.component() for value in values]), values)
        if len(results) > 1:
            return tuple(Symbol(tracer, part, None) for part in results)
        result, row = results[0], None
        if tracer.lead and stage.rowwise and len(rows) == len(values):
            row = tracer.rows.stage(stage, stage.bind([value.component() for value in rows]), rows)[0]
            outer = next(operand._value.dims for operand in operands if type(operand) is Symbol)
            result.dims = (*(outer or ())[: tracer.lead], *(result.dims or ())[tracer.lead :])
        return Symbol(tracer, result, row)

    def _apply(self, stage: Stage) -> list[Symbol]:
        """Return the results of a stage on it."""
        tracer = self._tracer
        if isinstance(stage, Links) and all(isinstance(link, (Cast, Reshape, Transpose)) for link in stage.links):
            # Expressions include the work of these stages.
            result = self
            for link in stage.links:
                if isinstance(link, Cast):
                    # bind refuses what it can't cast
                    merged([stage])[0].bind((self._value.component(),))
                    result = result._cast(link.dtype, False)
                elif isinstance(link, Reshape):
                    result._number("reshape")
                    result = result._reshape(link.shape)
                elif isinstance(link, Transpose):
                    dims = result._sides("transpose")
                    if len(dims) != len(link.perm):
                        result._stop(f"a transposition of {len(link.perm)} dimensions, for {len(dims)}")
                    result = result.transpose(link.perm)
            return [result]
        values = self._bound(tracer.graph, stage, self._value)
        rows: list[Value] | None = None
        if stage.rowwise and self._row is not None:
            # A stage that can't work on a row, or that makes several rows of one, means something else by a batch.
            with contextlib.suppress(QueueCoreError):
                rows = self._bound(tracer.rows, stage, self._row)
        if rows is not None and len(rows) != len(values):
            rows = None
        if rows is not None:
            batch = (self._value.dims or ())[: tracer.lead]
            for value in values:
                if value.dims is not None and len(value.dims) >= tracer.lead:
                    value.dims = (*batch, *value.dims[tracer.lead :])
        return [Symbol(tracer, value, None if rows is None else rows[i]) for i, value in enumerate(values)]

    def _bound(self, graph: TraceGraph, stage: Stage, value: Value) -> list[Value]:
        step: Step = stage.bind((value.component(),))
        if isinstance(step, PythonStep):
            self._stop(step.why)
        values = graph.stage(stage, step, (value,))
        if isinstance(stage, Links) and all(isinstance(link, (Cast, Scale)) for link in stage.links):
            values[0].dims = value.dims
            values[0].ragged = value.ragged
        return values

    # -- what ends a trace ---------------------------------------------------------------------------------------------

    __bool__ = _stopper("the truth of a value (if, while, and, or, not, in)")
    __int__ = _stopper("int()")
    __float__ = _stopper("float()")
    __complex__ = _stopper("complex()")
    __index__ = _stopper("an array or a number as an index")
    __hash__ = _stopper("a value as a key or in a set (hash())")
    __array__ = _stopper("numpy.asarray(), or a function of NumPy's that begins with it")
    __setitem__ = _stopper("an assignment to a part of an array")
    __delitem__ = _stopper("del of a part of an array")
    __contains__ = _stopper("in")
    __format__ = _stopper("format() or an f-string")
    __bytes__ = _stopper("bytes()")
    __round__ = _stopper("round()")
    __trunc__ = _stopper("math.trunc()")
    __floor__ = _stopper("math.floor()")
    __ceil__ = _stopper("math.ceil()")
    __reversed__ = _stopper("reversed()")
    __divmod__ = _stopper("divmod()")
    __rdivmod__ = _stopper("divmod()")
    __matmul__ = _stopper("@")
    __rmatmul__ = _stopper("@")
    __call__ = _stopper("a call of it")
    __enter__ = _stopper("with")
    __reduce_ex__ = _stopper("a copy or a pickle of it")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # NumPy and the interpreter ask for all kinds of these
        self._number(f"the attribute {name!r}")
        self._stop(f"the attribute {name!r}")

    def _asked(self) -> type:
        # isinstance() reads it, unless it is asked for Symbol itself.
        if self._tracer.active:
            self._stop("a question for its type (isinstance())")
        return Symbol

    __class__ = property(_asked)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __repr__(self) -> str:
        if self._tracer.active:
            self._stop("repr(), str() or print()")
        return "<Symbol of a trace that is over>"

    __str__ = __repr__


# What is native in the place of what a function does with bytes.
_HINTS = {
    "the attribute 'split'": ": queuecore.ops.split is native",
    "the attribute 'join'": ": queuecore.ops.join is native",
    "a value as a key or in a set (hash())": ": queuecore.ops.table is native",
}


def _texts_compared(self: Symbol, relation: str, other: Any) -> Symbol:
    """Return the result of a comparison of two strings by an operator of Python's."""
    texts = [one for one in (self, other) if type(one) is Symbol]
    if any(one._value.opaque != "bytes" or one._value.dims != () for one in texts):
        self._stop("a comparison of several strings: queuecore.ops.equal, not_equal and less are native")
    if type(other) is not bytes and len(texts) < 2:
        self._stop(f"a comparison of bytes with a {type(other).__name__}")
    answer: Symbol = self._traced_together(relation, comparison(relation), [self, other])
    answer._value.truth = True
    return answer


_BITWISE = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)
_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def _operated(self: Symbol, ufunc: Any, inputs: Sequence[Any]) -> Symbol:
    """Return what an operator of Python's gives. Results for bools, which are whole numbers, differ from NumPy's."""
    truths = [type(one) is bool or type(one) is Symbol and one._value.truth for one in inputs]
    made = all(truths)
    if made and ufunc not in _BITWISE and ufunc not in _COMPARISONS:
        self._stop(f"numpy.{ufunc.__name__} of what a comparison of bytes gives, which is a bool of Python's")
    result = _call(self._tracer, ufunc, inputs)
    result._value.truth = made
    return result


def is_native_dtype(dtype: np.dtype[Any]) -> bool:
    """Return whether expressions may have items of it."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def _power(base: Symbol, exponent: Any) -> Any:
    if base._number("**").dtype.kind == "b":
        base._stop("a power of booleans")  # whose dtype depends on whether the exponent happens to be 2
    if base._number("**").dtype.kind == "f":
        # NumPy squares arrays directly for the exponent 2; it raises numbers by another function than arrays.
        if type(exponent) in (int, float) and exponent == 2 and base._sides("**"):
            return _call(base._tracer, np.square, (base,))
        base._stop("a power of floats")
    return _call(base._tracer, np.power, (base, exponent))


def _call(tracer: Tracer, ufunc: Any, inputs: Sequence[Any]) -> Symbol:
    """Return the result of an element-wise function of NumPy's."""
    name = ufunc.__name__
    if ufunc not in _EXACT and ufunc not in _SMOOTH:
        tracer.give_up(f"numpy.{name}")
    operands, dtypes = _operands(tracer, name, inputs)
    try:
        loop = ufunc.resolve_dtypes((*dtypes, None))
    except Exception as error:
        tracer.give_up(f"numpy.{name}: {error}")
    if ufunc in _SMOOTH:
        value = operands[0]._value
        if value.node.kind == "view" or not value.dims:
            tracer.give_up(f"numpy.{name} of a part of an array or of a number, whose last bit may differ")
        if loop[-1].itemsize < 4:
            tracer.give_up(f"numpy.{name} of {loop[-1]}, whose last bit may differ")
    if ufunc in (np.fmax, np.fmin) and loop[-1].kind == "f":
        tracer.give_up(f"numpy.{name} of floats: which of two zeros comes out depends on where they lie")
    if ufunc is np.power:
        exponent = operands[1]
        least = exponent if type(exponent) is int else exponent.min(initial=0) if type(exponent) is np.ndarray else -1
        if loop[-1].kind == "f" or loop[1].kind == "i" and least < 0:
            tracer.give_up("a power of floats, or one with an exponent that may be negative")
    return _looped(tracer, ufunc, loop, operands)


def _choice(tracer: Tracer, inputs: Sequence[Any]) -> Symbol:
    """Return the result of numpy.where."""
    operands, dtypes = _operands(tracer, "where", inputs)
    # NumPy's rules for dtypes, asked of arrays without items.
    parts = [one if type(one) in (int, float) else np.empty(0, dtypes[i]) for i, one in enumerate(operands)]
    try:
        made = np.where(np.empty(0, bool), *parts[1:]).dtype
    except (TypeError, ValueError, OverflowError) as error:
        tracer.give_up(f"numpy.where: {error}")
    return _looped(tracer, np.where, (np.dtype(bool), made, made, made), operands)


def _operands(tracer: Tracer, name: str, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the operands: symbols, arrays, and Python numbers; and for each its dtype, or its type."""
    operands: list[Any] = []
    dtypes: list[Any] = []
    for operand in inputs:
        if type(operand) is Symbol:
            if operand._tracer is not tracer:
                tracer.give_up("a symbol of another trace")
            value = operand._number(f"numpy.{name}")
            if value.dims is None:
                tracer.give_up(f"numpy.{name} of an array whose number of dimensions is not known before the data is")
            operands.append(operand)
            dtypes.append(value.dtype)
        elif type(operand) in (int, float):
            operands.append(operand)
            dtypes.append(type(operand))
        else:
            operands.append(constant_of(tracer, operand, f"numpy.{name}"))
            dtypes.append(operands[-1].dtype)
    return operands, dtypes


def _looped(tracer: Tracer, function: Any, loop: Sequence[np.dtype[Any]], operands: list[Any]) -> Symbol:
    """Return the result of a loop over items."""
    name = function.__name__
    dtypes = [operand._value.dtype if type(operand) is Symbol else loop[i] for i, operand in enumerate(operands)]
    if not all(map(is_native_dtype, (*loop, *dtypes))):
        tracer.give_up(f"numpy.{name} of {', '.join(map(str, dtypes))}")
    try:
        for index, operand in enumerate(operands):
            with np.errstate(all="ignore"):
                if type(operand) is np.ndarray:
                    operands[index] = operand.astype(loop[index])
                elif type(operand) is not Symbol:
                    operands[index] = np.asarray(operand, loop[index])
        values = [operand._value if type(operand) is Symbol else operand for operand in operands]
        value = tracer.graph.call(function, loop, values)
    except (OverflowError, ValueError) as error:
        tracer.give_up(f"numpy.{name}: {error}")
    row = _row_call(tracer, function, loop, operands, len(value.dims or ())) if tracer.lead else None
    return Symbol(tracer, value, row)


def _row_call(tracer: Tracer, ufunc: Any, loop: Any, operands: list[Any], ndim: int) -> Value | None:
    """Return the result of the same call on a row, if it means the same."""
    rank = ndim - tracer.lead
    rows: list[Any] = []
    for operand in operands:
        if type(operand) is Symbol:
            if operand._row is None or len(operand._value.dims or ()) != ndim:
                return None
            rows.append(operand._row)
        else:
            outer = operand.shape[: max(operand.ndim - rank, 0)]
            if any(side != 1 for side in outer):
                return None
            rows.append(operand.reshape(operand.shape[len(outer) :]))
    return tracer.rows.call(ufunc, loop, rows)


def constant_of(tracer: Tracer, value: Any, subject: str) -> np.ndarray:
    """Return a value that is no symbol as an array of numbers."""
    if type(value) not in (bool, int, float, list, tuple, np.ndarray) and not isinstance(value, np.generic):
        tracer.give_up(f"{subject} of a {type(value).__name__}")
    array = np.asarray(value)
    if not is_native_dtype(array.dtype):
        tracer.give_up(f"{subject} of {array.dtype}")
    if array.nbytes > _MOST_CONSTANT:
        tracer.give_up(f"a constant of {array.nbytes} bytes")
    return np.array(array, array.dtype.newbyteorder("="), order="C", copy=True)


# -- the call ----------------------------------------------------------------------------------------------------------


def stacked(tracer: Tracer, items: list[Any]) -> Any:
    """Return a list as the array that numpy.asarray makes of it; dtype and shape come from numpy.asarray too."""
    items = [stacked(tracer, item) if type(item) is list else item for item in items]
    if not any(type(item) is Symbol for item in items):
        return constant_of(tracer, items, "a list")
    likes = []
    for item in items:
        if type(item) is Symbol:
            dims = item._known("a list of arrays")
            if not is_native_dtype(item.dtype) or item.size * item.dtype.itemsize > _MOST_CONSTANT:
                tracer.give_up(f"a list of {item.dtype}")
            item = np.zeros(dims, item.dtype)[()]
        likes.append(item)
    try:
        like = np.asarray(likes)
    except ValueError as error:
        tracer.give_up(f"a list that is no array: {error}")
    if not is_native_dtype(like.dtype) or len(items) > _MOST_LISTED:
        tracer.give_up(f"a list of {like.dtype}, {len(items)} long")
    # Start with the last array; over it comes each earlier one where the first index is its number.
    numbers = np.arange(len(items)).reshape(-1, *[1] * (like.ndim - 1))
    result: Any = None
    for index in reversed(range(len(items))):
        item = items[index]
        row: Any = np.asarray([item], like.dtype) if type(item) is not Symbol else None
        if row is None:
            dims = item.shape
            axes = [(-1, 0), *[(axis, 1) for axis in range(len(dims))]]
            row = item._cast(like.dtype, True)._view(axes, [0] * len(dims), (1, *dims))
        result = row if result is None else _choice(tracer, (numbers == index, row, result))
    return _as_called(result, "[{}]", items)


def _as_called(made: Any, text: str, items: Sequence[Any]) -> Any:
    """Return a result, whose last operation shows in a plan as what the user called."""
    if type(made) is Symbol:
        operands = [one._value if type(one) is Symbol else np.asarray(one) for one in items]
        made._value.node.called = (text, operands)
    return made


def _piled(tracer: Tracer, items: Sequence[Any], axis: Any = 0) -> Any:
    """Return the result of numpy.stack: each item where the index along the new axis is its number."""
    arrays = [item if type(item) is Symbol else constant_of(tracer, item, "numpy.stack") for item in items]
    dims = [array._sides("numpy.stack") if type(array) is Symbol else array.shape for array in arrays]
    rank = len(dims[0]) + 1
    if type(axis) is not int or not -rank <= axis < rank or any(shape != dims[0] for shape in dims):
        tracer.give_up("numpy.stack of arrays of several shapes, or along an axis that there isn't")
    if len(arrays) > _MOST_PILED:
        tracer.give_up(f"numpy.stack of {len(arrays)} arrays")
    try:
        dtype = np.result_type(*[array.dtype for array in arrays])
    except TypeError as error:
        tracer.give_up(f"numpy.stack: {error}")
    if not all(map(is_native_dtype, (dtype, *[array.dtype for array in arrays]))):
        tracer.give_up(f"numpy.stack of {dtype}")
    position = axis % rank
    axes = [(dim, 1) for dim in range(rank - 1)]
    axes.insert(position, (-1, 0))
    sides = [*dims[0][:position], 1, *dims[0][position:]]
    numbers = np.arange(len(arrays)).reshape(-1, *[1] * (rank - 1 - position))
    result: Any = None
    for index in reversed(range(len(arrays))):
        array = arrays[index]
        if type(array) is Symbol:
            array = array._cast(dtype, True)._view(axes, [0] * (rank - 1), sides)
        else:
            array = array.astype(dtype).reshape(*array.shape[:position], 1, *array.shape[position:])
        result = array if result is None else _choice(tracer, (numbers == index, array, result))
    return _as_called(result, f"stack([{{}}]{f', {axis}' if axis else ''})", arrays)


def parts_of(symbol: Symbol) -> tuple[Tracer, Value, Any]:
    """Return the trace of a symbol, its value there, and the row that it is a field of."""
    return symbol._tracer, symbol._value, symbol._row


def stop(symbol: Symbol, why: str) -> NoReturn:
    """Give up the trace of a symbol, for a reason."""
    symbol._stop(why)
