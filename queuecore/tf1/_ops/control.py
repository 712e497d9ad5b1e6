"""Operations that act in a run: printing, checks, Python functions, and branches of which one runs."""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from queuecore._core.atoms.own import own_result
from queuecore.errors import (
    InvalidArgumentError,
    OutOfRangeError,
    QueueCoreError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)
from queuecore.tf1._graph.graph import (
    Graph,
    Operation,
    Tensor,
    constant_value,
    convert_to_tensor,
    get_default_graph,
)
from queuecore.tf1._graph.plans import RunPlan, do, planned, run_beside
from queuecore.tf1._graph.values import DType, as_dtype, as_shape, as_value, bool_, name_of, string
from queuecore.tf1._ops.variables import Variable, no_op

__all__ = ["Assert", "Print", "case", "cond", "numpy_function", "py_func"]  # what `tf` has; loops take the rest


# Printing


def item_text(value: Any) -> str:
    """Return a number or a string as TensorFlow's kernels write it."""
    if isinstance(value, bytes):
        text = value.decode(errors="backslashreplace")
        return "".join([_escaped(one) for one in text])
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, np.floating):
        if not np.isfinite(value):
            return str(float(value))
        if value.dtype.itemsize < 4:
            value = np.float32(value)
        short, long = (15, 17) if value.dtype.itemsize == 8 else (6, 9)
        text = f"{value:.{short}g}"
        return text if type(value)(text) == value else f"{float(value):.{long}g}"
    return str(value)


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}


def _escaped(one: str) -> str:
    if one in _ESCAPES:
        return _ESCAPES[one]
    return f"\\{ord(one):03o}" if ord(one) < 32 or ord(one) == 127 else one


def summarized(value: Any, count: int) -> str:
    """Return the first items of an array as TensorFlow writes them; -1: all."""
    flat = [value] if isinstance(value, bytes) else np.ravel(value).tolist() if np.asarray(value).dtype == object else [
        one for one in np.ravel(value)]  # fmt: skip
    limit = len(flat) if count < 0 else min(count, len(flat))
    items = iter(map(item_text, flat[:limit]))
    sides = np.shape(value)
    text = "".join(_rows(sides, items, [limit])) if sides else "".join(items)
    return text + ("..." if limit < len(flat) else "")


def _rows(sides: Sequence[int], items: Iterator[str], budget: list[int], inner: bool = False) -> Iterator[str]:
    if len(sides) == 1:
        row = list(itertools.islice(items, min(sides[0], budget[0])))
        budget[0] -= len(row)
        yield " ".join(row)
        if inner and len(row) < sides[0]:
            yield "..."
        return
    for _ in range(sides[0]):
        if budget[0] <= 0:
            return
        yield "["
        yield from _rows(sides[1:], items, budget, True)
        yield "]"


def Print(  # noqa: N802
    input_: Any,
    data: Sequence[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the same value, and print others to stderr whenever it is computed.

    Parameters
    ----------
    input_ : Tensor
    data : list of Tensor
    message : str, optional
        Before them.
    first_n : int, optional
        How often it prints in a session; -1, the default: always.
    summarize : int, default 3
        How many items of each it prints; -1: all.
    name : str, optional
    """
    operand = convert_to_tensor(input_)
    operands = [convert_to_tensor(one) for one in data]
    most = -1 if first_n is None else first_n
    items = 3 if summarize is None else summarize

    def kernel(run: Any, value: Any, *values: Any) -> Any:
        counter = run.session.resource(("print", op), itertools.count)
        if most < 0 or next(counter) < most:
            told = "".join([f"[{summarized(array, items)}]" for array in values])
            print((message or "") + told, file=sys.stderr, flush=True)
        return value

    op = operand.graph.create_op(
        "Print", [operand, *operands], [(operand.dtype, operand.shape)], kernel, name or "Print"
    )
    return op.outputs[0]


def Assert(  # noqa: N802
    condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None
) -> Operation:
    """Return an operation that raises `InvalidArgumentError` unless a condition holds.

    Parameters
    ----------
    condition : Tensor of bool
    data : list of Tensor
        What the error shows.
    summarize : int, default 3
        How many items of each.
    name : str, optional
    """
    holds = convert_to_tensor(condition, np.bool_)
    operands = [convert_to_tensor(one) for one in data]
    items = 3 if summarize is None else summarize

    def kernel(run: Any, value: Any, *values: Any) -> None:
        del run
        if not np.all(value):
            told = " ".join([f"[{summarized(array, items)}]" for array in values])
            raise InvalidArgumentError(f"assertion failed: {told}")

    return holds.graph.create_op("Assert", [holds, *operands], [], kernel, name or "Assert")


# Functions of Python's

_MEANT: list[tuple[tuple[type[BaseException], ...], type[QueueCoreError]]] = [
    ((ValueError, TypeError), InvalidArgumentError),
    ((StopIteration,), OutOfRangeError),
    ((MemoryError,), ResourceExhaustedError),
    ((NotImplementedError,), UnimplementedError),
]


def py_func(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,  # noqa: N803
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Return the tensors that a Python function makes of others, in each run.

    Parameters
    ----------
    func : callable
        Takes arrays or scalars of NumPy's, bytes for strings; returns as much as `Tout` says.
    inp : list of Tensor
    Tout : dtype, or list of dtypes
    stateful : bool, default True
        Whether it is called once in each run that needs it. A function that isn't, and whose arguments are constants,
        is called once for each session.
    name : str, optional

    Returns
    -------
    Tensor or list of Tensor
        A list if `Tout` is one. Nothing is known of shapes.

    Raises
    ------
    InvalidArgumentError
        In a run, if the function returns something else, or raises a `ValueError` or `TypeError`.
    OutOfRangeError, ResourceExhaustedError, UnimplementedError
        If it raises `StopIteration`, `MemoryError`, or `NotImplementedError`.
    UnknownError
        If it raises another exception, which is the cause. Errors of queuecore come out as they are.

    Notes
    -----
    Runs under the GIL; operations that need its result aren't lowered. Functions that don't need each other run beside
    each other, each in a thread, as they may wait for one another; a single function runs in the thread that runs the
    session. Nothing can end a function that waits: if another part of the run fails meanwhile, it is left behind.
    """
    # The function may write to its arguments, and reuse the arrays that it returns.
    return python_op(
        func,
        lambda _, *values: own_result(
            func, tuple(np.array(one)[()] if isinstance(one, np.ndarray) else one for one in values)
        ),
        inp,
        Tout,
        "PyFunc" if stateful else "PyFuncStateless",
        name or "PyFunc",
    )


def python_op(func: Any, call: Callable[..., Any], inp: Any, dtypes_of: Any, type_: str, name: str) -> Any:
    """Return the tensors that ``call(run, *values)`` makes of others; it calls `func`. See `py_func`."""
    if not callable(func):
        raise ValueError(f"Expected func to be callable. Received func={func} of type {type(func)}.")
    if not isinstance(inp, (list, tuple)):
        raise ValueError("inp must be a list of tensors")
    several = isinstance(dtypes_of, (list, tuple))
    dtypes = [as_dtype(dtype) for dtype in (dtypes_of if several else [dtypes_of])]
    inputs = [convert_to_tensor(one) for one in inp]

    def kernel(run: Any, *values: Any) -> Any:
        try:
            result = call(run, *values)
        except QueueCoreError:
            raise
        except Exception as error:
            wanted = next((meant for types, meant in _MEANT if isinstance(error, types)), UnknownError)
            trace = "".join(traceback.format_exception(error))
            raise wanted(f"{type(error).__name__}: {error}\n{trace}") from error
        parts = [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]
        if len(parts) != len(dtypes):
            raise InvalidArgumentError(
                f"{op.name} returns {len(parts)} values, but expects to see {len(dtypes)} values: the function returns "
                f"{len(parts)} values, not {len(dtypes)}"
            )
        results = [
            _returned(op.name, i, part, dtype) for i, (part, dtype) in enumerate(zip(parts, dtypes, strict=True))
        ]
        return results[0] if len(results) == 1 else results

    graph = inputs[0].graph if inputs else get_default_graph()
    outputs = [(dtype, None) for dtype in dtypes]
    whole = kernel
    stateful = type_ != "PyFuncStateless"
    if not stateful and dtypes and all(constant_value(tensor) is not None for tensor in inputs):
        whole = lambda run, *values: run.session.resource(op, lambda: (kernel(run, *values),))[0]  # noqa: E731
    op = graph.create_op(type_, inputs, outputs, whole, name, blocking=True)
    if not dtypes and stateful:
        return op
    return list(op.outputs) if several else op.outputs[0]


def _returned(name: str, index: int, value: Any, target: DType) -> Any:
    found = np.asarray(value) if not isinstance(value, (list, tuple)) else np.empty(0)
    if found.dtype.names or found.dtype.kind in "mM":
        raise UnimplementedError(f"Unsupported numpy type {found.dtype.num}: {index}-th value returned by {name}")
    if found.dtype.kind == "O" and not all(isinstance(one, (str, bytes)) for one in found.flat):
        raise UnimplementedError(f"Unsupported object type {type(value).__name__}: {index}-th value returned by {name}")
    try:
        array = as_value(value, None if isinstance(value, (np.ndarray, np.generic)) else target)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{index}-th value returned by {name}: {error}") from error
    dtype = string if isinstance(array, bytes) or array.dtype == object else array.dtype
    if dtype != target:
        raise InvalidArgumentError(
            f"{index}-th value returned by {name} is {name_of(dtype)}, but expects {name_of(target)}"
        )
    return array


def numpy_function(
    func: Any = None,
    inp: Any = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,  # noqa: N803
) -> Any:
    """Return the tensors that a function of Python's makes of others: `py_func`."""
    return py_func(func, inp, Tout, stateful, name)


# Branches


class Branch:
    """The operations that one function adds to the graph; they run only if it is chosen.

    Parameters
    ----------
    graph : Graph
    function : callable
        Called once, now.

    Attributes
    ----------
    results : list of Tensor or Operation or None
        What it returns, flat; `None`: an operation that runs in any case.
    captured : list of Tensor
        What its operations take from outside.
    controls : list of Operation
        Operations outside that must have run before.
    """

    def __init__(self, graph: Graph, function: Callable[[], Any]) -> None:
        op_count = len(graph.get_operations())
        with graph.control_dependencies(None), graph.symbolic():
            self.made = function()
            flat: list[Any] = []
            self.structure = flattened(self.made, flat)
            self.results: list[Any] = [
                part if isinstance(part, (Tensor, Operation)) else convert_to_tensor(part) for part in flat
            ]
        own_ops = set(graph.get_operations()[op_count:])
        self.captured = [
            tensor
            for op in own_ops
            for tensor in op.operands
            if tensor.op not in own_ops
        ]  # fmt: skip
        self.captured += [result for result in self.results if isinstance(result, Tensor) and result.op not in own_ops]
        self.captured = list(dict.fromkeys(self.captured))
        self.controls = [control for op in own_ops for control in op.control_inputs if control not in own_ops]
        for op in own_ops:
            op.control_inputs = [control for control in op.control_inputs if control in own_ops]
            op.attributes["inner"] = True  # it is run by the operation that this is a branch of, and by nothing else
        self.controls += [result for result in self.results if isinstance(result, Operation) and result not in own_ops]
        self.results = [result if isinstance(result, Tensor) or result in own_ops else None for result in self.results]
        self.blocking = any(op.blocking for op in own_ops)
        self.plan: RunPlan = planned([result for result in self.results if result is not None], self.captured)

    def run(self, run: Any, given: Mapping[Tensor, Any]) -> list[Any]:
        """Run the operations with the values of what they take from outside; return those of the results."""
        values: list[Any] = [None] * self.plan.slots
        for tensor, slot in self.plan.feeds:
            values[slot] = given[tensor]
        if self.plan.concurrent:
            run_beside(self.plan, run, values)
        else:
            for step in self.plan.steps:
                do(step, run, values)
        return [values[slot] for slot in self.plan.fetched if slot >= 0]


def flattened(structure: Any, flat: list[Any]) -> Callable[[list[Any]], Any]:
    """Add the parts of a structure to a list; return a function that puts such a list into the structure again."""
    if structure is None:
        flat.append(no_op())
    elif isinstance(structure, (list, tuple)):
        parts = [flattened(one, flat) for one in structure]
        if isinstance(structure, tuple) and hasattr(structure, "_fields"):
            return lambda values: type(structure)(*[part(values) for part in parts])
        return lambda values: type(structure)([part(values) for part in parts])
    elif isinstance(structure, Mapping):
        named = {key: flattened(one, flat) for key, one in structure.items()}
        return lambda values: {key: part(values) for key, part in named.items()}
    elif hasattr(structure, "_with"):  # a TensorArray
        flat.append(structure.flow)
        place = len(flat) - 1
        return lambda values: structure._with(values[place])
    else:
        flat.append(structure.value() if isinstance(structure, Variable) else structure)
    at = len(flat) - 1
    return lambda values: values[at]


def cond(
    pred: Any,
    true_fn: Any = None,
    false_fn: Any = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Any = None,
    fn2: Any = None,
) -> Any:
    """Return the result of one of two functions, of which a run executes only the chosen one.

    Parameters
    ----------
    pred : Tensor of bool, scalar
    true_fn, false_fn : callable
        Called once, now, both. Return tensors in the same structure, of the same types; or operations.
    strict : bool, default False
        Whether a list of one tensor is returned as such.
    name : str, optional
    fn1, fn2 : callable, optional
        Older names of the functions.

    Returns
    -------
    Tensor, or list, tuple or dict of them
        In the place of an operation the value of `pred`.

    Raises
    ------
    TypeError, ValueError
        If the functions return different things.

    Notes
    -----
    Operations made outside of the functions run in any case, even if only one branch needs them.
    """
    true_fn, false_fn = fn1 if true_fn is None else true_fn, fn2 if false_fn is None else false_fn
    if isinstance(pred, (bool, np.bool_)):
        raise TypeError("pred must not be a Python bool")
    for called, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise TypeError(f"{called} must be callable.")
    predicate = convert_to_tensor(pred, np.bool_)
    predicate.shape.ranked(0)
    graph = predicate.graph
    with graph.name_scope(name or "cond"):
        first, second = Branch(graph, true_fn), Branch(graph, false_fn)
        if len(first.results) != len(second.results):
            raise ValueError("true_fn and false_fn must return the same number of things")
        outputs: list[tuple[DType, Any]] = []
        for a, b in zip(first.results, second.results, strict=True):
            if isinstance(a, Tensor) != isinstance(b, Tensor):
                raise TypeError(f"true_fn and false_fn must return the same types: {a!r}, {b!r}")
            if not isinstance(a, Tensor):
                outputs.append((bool_, ()))
                continue
            if a.dtype != b.dtype:
                raise ValueError(
                    f"Outputs of true_fn and false_fn must have the same type: {name_of(a.dtype)}, {name_of(b.dtype)}"
                )
            outputs.append((a.dtype, as_shape(a.shape).most_general_with(b.shape)))
        captures = list(dict.fromkeys([*first.captured, *second.captured]))

        def kernel(run: Any, which: Any, *values: Any) -> Any:
            branch = first if which else second
            found = iter(branch.run(run, dict(zip(captures, values, strict=True))))
            flat = [next(found) if isinstance(one, Tensor) else np.bool_(which) for one in branch.results]
            return flat[0] if len(flat) == 1 else flat

        with graph.control_dependencies([*first.controls, *second.controls]):
            op = graph.create_op(
                "Cond", [predicate, *captures], outputs, kernel, "Merge", blocking=first.blocking or second.blocking
            )
    made = first.structure(list(op.outputs))
    if not strict and isinstance(made, (list, tuple)) and len(made) == 1:
        return made[0]
    return made


def case(
    pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False, name: str = "case"
) -> Any:
    """Return the result of the first function whose condition holds; a run executes only that one.

    Parameters
    ----------
    pred_fn_pairs : list of (Tensor of bool, callable), or dict
    default : callable, optional
        Used if no condition holds; without it, that is an error.
    exclusive : bool, default False
        Whether it is an error if more than one holds.
    strict : bool, default False
        As of `cond`.
    name : str, default "case"

    Returns
    -------
    Tensor, or list, tuple or dict of them
        As of `cond`.

    Raises
    ------
    TypeError, ValueError
        If these are no such pairs, or the functions return different things.
    InvalidArgumentError
        In a run, if no condition holds, or more than one.
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, Mapping) else list(pred_fn_pairs)
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 and callable(pair[1]) for pair in pairs):
        raise TypeError("pred_fn_pairs must be a list of pairs of a condition and a callable, or a dict")
    if default is not None and not callable(default):
        raise TypeError("default must be callable")
    graph = get_default_graph()
    with graph.name_scope(name):
        conditions = [convert_to_tensor(condition, np.bool_) for condition, _ in pairs]
        checks = []
        if exclusive or default is None:

            def check(run: Any, *values: Any) -> None:
                del run
                count = int(np.sum(values))
                if exclusive and count > 1 or default is None and not count:
                    raise InvalidArgumentError(
                        f"case: {count} of the conditions hold: {[bool(value) for value in values]}"
                    )

            checks.append(graph.create_op("Assert", conditions, [], check, "Assert"))
        with graph.control_dependencies(checks):
            # From the last pair backwards; without a default the last function fills the place that is never reached.
            made = default if default is not None else pairs[-1][1]
            rest = list(zip(conditions, [function for _, function in pairs], strict=True))
            for condition, function in reversed(rest if default is not None else rest[:-1]):
                made = _chosen(condition, function, made, strict)
            return made()


def _chosen(condition: Tensor, function: Any, otherwise: Any, strict: bool) -> Callable[[], Any]:
    return lambda: cond(condition, function, otherwise, strict)
