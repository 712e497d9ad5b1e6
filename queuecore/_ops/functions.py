"""Functions of users as steps: compiled ones without the GIL, Python ones with it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from queuecore._checks.checks import MAX_DIMS
from queuecore._core.steps.calls import MOST_ARGUMENTS, CallStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import BYTES, Component
from queuecore._ops.stage import Components, Stage, python_step
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["cfunc", "python"]


_FUNCTION: Any = type(ctypes.CFUNCTYPE(None)()).__mro__[1]  # what all ctypes functions are
_PYTHON_API = 4  # ctypes' flag of functions that need the GIL
_MOST_BYTES = 1 << 46


def cfunc(function: Any, outputs: Any) -> Stage:
    """Call a compiled function: a native step.

    Parameters
    ----------
    function : numba ``@cfunc`` or ctypes function
        With a declared signature: pointers to the items of each input, in their order; then pointers to the items of
        each output; then, optionally, the number of items of each input, as 64-bit integers. Returns nothing, or a
        32-bit or 64-bit integer, where anything but 0 is an error.
    outputs : list of (dtype, shape), or dict of them by name
        The dtype and shape of each output: booleans or numbers, in shapes without `None`.

    Returns
    -------
    Stage
        A step for any number of inputs, strings of bytes (as ``uint8``) among them. With `on` it gets one component.

    Raises
    ------
    InvalidArgumentError
        If it is no such function, or a shape isn't fixed. In a program: if its arguments aren't as many as described,
        or, for a record, if it returns anything but 0.
    DtypeError
        If a dtype can't be; in a program, if a pointer is to another type than the component's.

    Notes
    -----
    The function runs without the GIL, in any number of threads at once. It must not write to its inputs, keep a
    pointer, or touch anything of Python's. Pointers are aligned to the items, and outputs hold any values before it
    writes them. Nothing guards the rest of the process against what it does with them.

    numba's ``CPointer(uint8)`` is a pointer to ``uint8``, ``intp`` and ``int64`` are 64-bit integers. An exception in a
    ``@cfunc`` is lost: return an error code. ctypes functions that come from a library need ``argtypes`` and
    ``restype``.

    Examples
    --------
    >>> import ctypes, numpy as np, queuecore as qc
    >>> swab = ctypes.CDLL(None).swab  # of the C library: exchanges neighbouring bytes
    >>> swab.argtypes = [ctypes.POINTER(ctypes.c_uint8), ctypes.POINTER(ctypes.c_uint16), ctypes.c_int64]
    >>> swab.restype = None
    >>> stage = qc.ops.cfunc(swab, outputs=[(np.uint16, (2,))])
    >>> stage.bind([qc.ops.Component(np.dtype("S"), (), 4)])(b"abcd")[0].tobytes()
    b'badc'
    """
    name = str(getattr(function, "__name__", "function"))
    label = f"cfunc({name})"
    pointer, arguments, result = _signature(label, function)
    declared = _outputs(label, outputs, True)
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    if not address:
        raise InvalidArgumentError(f"{label}: a null pointer")

    def bind(components: Components) -> Step:
        pointers = len(components) + len(declared)
        if len(arguments) not in (pointers, pointers + len(components)):
            raise InvalidArgumentError(
                f"{label}: expected {pointers} arguments, for {len(components)} inputs and {len(declared)} outputs, or "
                f"{pointers + len(components)} with the numbers of items, got {len(arguments)}"
            )
        if len(arguments) > MOST_ARGUMENTS:
            raise InvalidArgumentError(f"{label}: {len(arguments)} arguments; at most {MOST_ARGUMENTS} are possible")
        for index, (argument, component) in enumerate(zip(arguments, (*components, *declared), strict=False)):
            dtype = component.dtype
            if dtype == BYTES and component.shape != ():
                raise InvalidArgumentError(f"{label}: component {index} is more than one string")
            if not _points_to(argument, dtype):
                word = "uint8, for bytes" if dtype == BYTES else str(dtype)
                raise DtypeError(f"{label}: argument {index}: expected a pointer to {word}, got {_word(argument)}")
        for index in range(pointers, len(arguments)):
            if _integer(arguments[index]) != 8:
                raise DtypeError(
                    f"{label}: argument {index}: expected a 64-bit integer, for the number of items, "
                    f"got {_word(arguments[index])}"
                )
        return CallStep(label, components, declared, address, result, len(arguments) > pointers, (function, pointer))

    return Stage(label, bind)


def is_native(function: Any) -> bool:
    """Return whether a function is compiled, so that `cfunc` takes it."""
    return isinstance(getattr(function, "ctypes", function), _FUNCTION)


def _signature(label: str, function: Any) -> tuple[Any, list[Any], int]:
    """Return a ctypes function, the types of its arguments, and the size of the integer that it returns."""
    try:
        pointer = getattr(function, "ctypes", function)  # numba's are made when they are asked for
    except TypeError as error:
        raise InvalidArgumentError(f"{label}: its signature can't be said in ctypes: {error}") from error
    if not isinstance(pointer, _FUNCTION):
        raise InvalidArgumentError(f"{label}: expected a numba @cfunc or a ctypes function, got {function!r}")
    kind: Any = type(pointer)
    arguments = pointer.argtypes
    if not arguments:
        raise InvalidArgumentError(f"{label}: the types of its arguments are not declared (argtypes)")
    if kind._flags_ & _PYTHON_API or any(
        type(one).__name__ == "CThunkObject" for one in (getattr(pointer, "_objects", None) or {}).values()
    ):
        raise InvalidArgumentError(f"{label}: it needs the GIL: give the Python function itself")
    result: Any = pointer.restype
    if result is None:
        return pointer, list(arguments), 0
    if _integer(result) not in (4, 8) or np.dtype(result).kind != "i":
        raise InvalidArgumentError(
            f"{label}: it must return nothing, or a signed integer of 32 or 64 bits, not {_word(result)}"
        )
    return pointer, list(arguments), _integer(result)


def _integer(kind: Any) -> int:
    """Return the size of a ctypes integer, or -1."""
    if not (isinstance(kind, type) and issubclass(kind, ctypes._SimpleCData)) or kind is ctypes.c_void_p:
        return -1
    try:
        dtype = np.dtype(kind)
    except TypeError:
        return -1
    return dtype.itemsize if dtype.kind in "iu" else -1


def _points_to(argument: Any, dtype: np.dtype[Any]) -> bool:
    if argument is ctypes.c_void_p:
        return True
    if argument is ctypes.c_char_p:
        return dtype == BYTES
    try:
        found = np.dtype(argument._type_)
    except (AttributeError, TypeError):
        return False
    if dtype == BYTES or dtype == np.bool_:
        return issubclass(argument, ctypes._Pointer) and found.itemsize == 1
    return issubclass(argument, ctypes._Pointer) and found == dtype


def _word(argument: Any) -> str:
    return str(getattr(argument, "__name__", argument))


def _outputs(label: str, outputs: Any, fixed: bool) -> Components:
    """Return the components that (dtype, shape) pairs describe; `fixed`: only numbers of known shapes."""
    named = isinstance(outputs, Mapping)
    if not named and (isinstance(outputs, (str, bytes)) or not isinstance(outputs, Sequence)) or not len(outputs):
        raise InvalidArgumentError(f"{label}: outputs must be a list of (dtype, shape), or a dict, not {outputs!r}")
    return tuple(
        _output(label, one, None if name is None else str(name), fixed)
        for name, one in (outputs.items() if named else ((None, one) for one in outputs))
    )


def _output(label: str, pair: Any, name: str | None, fixed: bool) -> Component:
    try:
        given, sides, *_ = pair
        dtype = np.dtype(given).newbyteorder("=")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{label}: outputs: expected (dtype, shape), got {pair!r}: {error}") from error
    if isinstance(pair, Component) and name is None:
        name = pair.name
    if dtype.kind not in "biufc" and (fixed or dtype != BYTES) or dtype.itemsize > 16:
        expected = "booleans or numbers" if fixed else "booleans, numbers or bytes"
        raise DtypeError(f"{label}: outputs: expected {expected}, got {dtype}")
    if sides is None and not fixed:
        return Component(dtype, None, name=name)
    shape = (sides,) if hasattr(sides, "__index__") else sides
    if not isinstance(shape, (list, tuple)) or len(shape) > MAX_DIMS:
        _no_shape(label, sides)
    known = [side for side in shape if side is not None]
    if any(isinstance(side, bool) or not hasattr(side, "__index__") or side < 0 for side in known):
        _no_shape(label, sides)
    if fixed and (len(known) < len(shape) or math.prod(map(int, known)) * dtype.itemsize > _MOST_BYTES):
        _no_shape(label, sides)
    return Component(dtype, tuple(None if side is None else int(side) for side in shape), name=name)


def _no_shape(label: str, shape: Any) -> NoReturn:
    raise InvalidArgumentError(f"{label}: outputs: {shape!r} is no shape that can be here")


def python(function: Callable[..., Any], outputs: Any = None) -> Stage:
    r"""Call a Python function: a step that takes the GIL, once for each element.

    Parameters
    ----------
    function : callable
        Gets the components as arguments, in their order: arrays, or bytes where a component is one string (an object
        array of them where it is more). Arrays that a native step made are its own, to keep or to change. Returns an
        array or bytes; of several components a tuple or a list of them, or a dict by their names.
    outputs : list of (dtype, shape), or dict of them by name, optional
        The outputs' dtypes and shapes, so that native steps can follow: booleans, numbers, or bytes of any length; a
        side that may differ, or a whole shape that is unknown, is `None`. Results are converted as by
        `QueueBase.enqueue`. Without `outputs`, the function may return anything that can be enqueued, and only Python
        steps can follow.

    Returns
    -------
    Stage
        Callables given to a `StageProgram` directly are wrapped by this, without `outputs`.

    Raises
    ------
    InvalidArgumentError
        If it can't be called, or the outputs are no such description; in a program, for an element, if what it returns
        doesn't fit.
    PipelineError
        In a program, for an element, if it raises: that exception is the ``__cause__``. `KeyboardInterrupt` and
        `SystemExit` come out as they are.

    Notes
    -----
    Runs in the thread of the `QueueRunner`. Threads that share a program call it at the same time.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> stage = qc.ops.compose(
    ...     qc.ops.python(lambda line: [int(word) for word in line.split()], outputs=[(np.int32, ())] * 2),
    ...     qc.ops.on(0, qc.ops.scale(a=0.5)),
    ... )
    >>> stage.bind([qc.ops.Component(np.dtype("S"), ())])(b"7 11")
    [array(3.5, dtype=float32), array(11, dtype=int32)]
    """
    if not callable(function):
        raise InvalidArgumentError(f"python: expected a callable, got {function!r}")
    label = f"python({getattr(function, '__name__', type(function).__name__)})"
    return _Python(label, function, None if outputs is None else _outputs(label, outputs, False))


class _Python(Stage):
    __slots__ = ("_function", "_outputs")

    def __init__(self, label: str, function: Callable[..., Any], outputs: Components | None) -> None:
        super().__init__(label, self._step)
        self._function = function
        self._outputs = outputs

    def bind(self, components: Sequence[Component] | None) -> Step:
        return self._step(None if components is None else tuple(components))

    def _step(self, components: Components | None) -> Step:
        return python_step(self._text, components, self._function, self._outputs, "it is a function of Python", False)
