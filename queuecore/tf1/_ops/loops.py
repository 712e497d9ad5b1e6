"""Loops in a run: operations that are executed as often as a value says."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from queuecore.errors import CancelledError, InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, convert_to_tensor, get_default_graph
from queuecore.tf1._graph.values import TensorShape, as_dtype, as_shape, name_of, string
from queuecore.tf1._ops.control import Branch, flattened

__all__ = ["foldl", "foldr", "map_fn", "scan", "while_loop"]


def _symbol(dtype: Any, shape: Any) -> Tensor:
    # Stands for a value in the function of a loop.
    def kernel(run: Any) -> Any:
        raise InvalidArgumentError("a value of a loop can't be used outside of the loop's functions")

    with get_default_graph().symbolic():
        return apply_op("Enter", [], dtype, shape, kernel, None, pure=False)


def _tensors(made: Any) -> tuple[list[Tensor], Callable[[list[Any]], Any]]:
    flat: list[Any] = []
    structure = flattened(made, flat)
    return [convert_to_tensor(one) for one in flat], structure


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Return what becomes of tensors when a function is applied to them as long as a condition holds.

    Parameters
    ----------
    cond : callable
        Takes the variables of the loop, and returns a scalar of bool. Called once, now.
    body : callable
        Takes the variables of the loop, and returns their next values. Called once, now.
    loop_vars : list, tuple or dict of Tensor
        The first values.
    shape_invariants : structure of TensorShape, optional
        The shapes that hold in all rounds. Default: those of the first values.
    parallel_iterations, back_prop, swap_memory
        Accepted, and not used: rounds run one after the other.
    name : str, optional
    maximum_iterations : int or Tensor, optional
        The largest number of rounds.
    return_same_structure : bool, default False
        Whether a list of one variable is returned as such.

    Returns
    -------
    Tensor, or structure of them
        As `loop_vars`.

    Raises
    ------
    TypeError, ValueError
        If a function can't be called, or returns something of another structure, type or shape.
    """
    del parallel_iterations, back_prop, swap_memory
    if not callable(cond) or not callable(body):
        raise TypeError("'cond' and 'body' must be callable.")
    if not loop_vars:
        raise ValueError("'loop_vars' must be provided.")
    graph = get_default_graph()
    with graph.name_scope(name or "while"):
        first, structure = _tensors(loop_vars)
        shapes = [tensor.shape for tensor in first]
        if shape_invariants is not None:
            shapes = _invariants(shape_invariants, first)
        limit = None if maximum_iterations is None else convert_to_tensor(maximum_iterations)
        rounds = [_symbol(tensor.dtype, shape) for tensor, shape in zip(first, shapes, strict=True)]
        variables = structure(list(rounds))
        arguments = variables if isinstance(variables, (list, tuple)) else [variables]
        test = Branch(graph, lambda: cond(*arguments))
        step = Branch(graph, lambda: body(*arguments))
        _check_round(test, step, rounds, shapes)
        captured = [tensor for tensor in dict.fromkeys([*test.captured, *step.captured]) if tensor not in set(rounds)]
        inputs = [*first, *captured, *([] if limit is None else [limit])]

        def kernel(run: Any, *values: Any) -> Any:
            now = list(values[: len(first)])
            fixed = dict(zip(captured, values[len(first) :], strict=False))
            countdown = None if limit is None else int(values[-1])
            while countdown is None or countdown > 0:
                known = {**fixed, **dict(zip(rounds, now, strict=True))}
                if not test.run(run, known)[0]:
                    break
                now = step.run(run, known)
                countdown = None if countdown is None else countdown - 1
                if run.session.is_closed:
                    raise CancelledError("the operation was cancelled: the session was closed")
            return now[0] if len(now) == 1 else now

        with graph.control_dependencies([*test.controls, *step.controls]):
            outputs = [(tensor.dtype, shape) for tensor, shape in zip(first, shapes, strict=True)]
            op = graph.create_op("While", inputs, outputs, kernel, "Exit", blocking=test.blocking or step.blocking)
    made = structure(list(op.outputs))
    if not return_same_structure and isinstance(made, (list, tuple)) and len(made) == 1:
        return made[0]
    return made


def _invariants(invariants: Any, first: Sequence[Tensor]) -> list[TensorShape]:
    flat: list[TensorShape] = []

    def walk(nest: Any) -> None:
        if isinstance(nest, TensorShape):
            flat.append(nest)
        elif isinstance(nest, dict):
            for key in nest:
                walk(nest[key])
        else:
            for part in nest:
                walk(part)

    walk(invariants)
    if len(flat) != len(first):
        raise ValueError(f"shape_invariants: {len(flat)} shapes for {len(first)} variables of the loop")
    for tensor, shape in zip(first, flat, strict=True):
        if not shape.most_general_with(tensor.shape) == shape and shape.sides is not None:
            raise ValueError(
                f"The shape invariant specified for {tensor.name} is not compatible with the initial shape of the loop "
                f"variable. It enters the loop with shape {tensor.shape}, but the specified shape invariant is {shape}."
            )
    return flat


def _check_round(test: Branch, step: Branch, rounds: Sequence[Tensor], shapes: Sequence[TensorShape]) -> None:
    if len(test.results) != 1 or not isinstance(test.results[0], Tensor) or name_of(test.results[0].dtype) != "bool":
        raise TypeError("cond must return one boolean scalar")
    if len(step.results) != len(rounds):
        raise ValueError(
            f"Number of inputs and outputs of body must match loop_vars: {len(rounds)}, {len(step.results)}"
        )
    _check_next(step, rounds, shapes)


def _check_next(step: Branch, rounds: Sequence[Tensor], shapes: Sequence[TensorShape]) -> None:
    for symbol, result, shape in zip(rounds, step.results, shapes, strict=True):
        if not isinstance(result, Tensor) or result.dtype != symbol.dtype:
            raise TypeError(f"the body changes the type of {symbol.name} from {name_of(symbol.dtype)} to {result!r}")
        if shape.sides is not None and shape.most_general_with(result.shape) != shape:
            raise ValueError(
                f"Input tensor {symbol.name!r} enters the loop with shape {shape}, but has shape {result.shape} after "
                "one iteration. To allow the shape to vary across iterations, use the `shape_invariants` argument of "
                "tf.while_loop to specify a less-specific shape."
            )


def _nesting(value: Any) -> Any:
    # The lists, tuples and dicts of a structure, as text.
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_nesting(one)}' for key, one in value.items())}}}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(_nesting, value))
        return f"[{inner}]" if isinstance(value, list) else f"{type(value).__name__}({inner})"
    return "."


def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Return what a function makes of each row of tensors, stacked.

    Parameters
    ----------
    fn : callable
        Takes a row of each tensor, in the structure of `elems`. Called once, now.
    elems : Tensor, or structure of them
        With as many rows each.
    dtype, fn_output_signature : dtype, or structure of them, optional
        The types that `fn` returns. Default: those of `elems`.
    parallel_iterations, back_prop, swap_memory
        Accepted, and not used: rows come one after the other.
    infer_shape : bool, default True
        Whether all results have the shape that is known of one.
    name : str, optional

    Returns
    -------
    Tensor, or structure of them
        As `fn` returns, with a dimension more in front.

    Raises
    ------
    TypeError, ValueError
        If `fn` can't be called or returns other types, or a tensor has no rows.
    InvalidArgumentError
        In a run, if the tensors have different numbers of rows.
    """
    del parallel_iterations, back_prop, swap_memory
    if not callable(fn):
        raise TypeError(f"The provided function {fn!r} is not callable.")
    graph = get_default_graph()
    with graph.name_scope(name or "map"):
        operands, structure = _tensors(elems)
        if not operands:
            raise ValueError(
                f"elems must be a Tensor or (possibly nested) sequence of Tensors. Got {elems!r}, which has none"
            )
        for operand in operands:
            if operand.shape.ndims == 0:
                if isinstance(elems, (list, tuple, Mapping)):
                    raise ValueError("Elements in elems must be 1+ dimensional Tensors, not scalars")
                raise ValueError("elems must be a 1+ dimensional Tensor, not a scalar")
        rows = [
            _symbol(operand.dtype, None if operand.shape.sides is None else operand.shape[1:]) for operand in operands
        ]
        returned: list[Any] = []

        def call() -> Any:
            returned.append(fn(structure(list(rows))))
            return _typed(returned[0], [row.dtype for row in rows] if signature is None else _leaves(signature))

        signature = dtype if fn_output_signature is None else fn_output_signature
        branch = Branch(graph, call)
        if signature is not None and _nesting(returned[0]) != _nesting(signature):
            raise TypeError(
                "The two structures don't have the same nested structure: the function returns "
                f"{_nesting(returned[0])}, and dtype is {_nesting(signature)}"
            )
        dtypes = [one.dtype for one in operands] if signature is None else [as_dtype(one) for one in _leaves(signature)]
        found = [result.dtype if isinstance(result, Tensor) else None for result in branch.results]
        if found != dtypes:
            raise TypeError(f"the function returns {list(map(str, found))}, and dtype says {list(map(str, dtypes))}")
        captures = [tensor for tensor in branch.captured if tensor not in set(rows)]
        count = TensorShape([None])
        for operand in operands:
            if operand.shape.sides is not None:
                count = count.merge_with([operand.shape.sides[0]])
        shapes = [count.concatenate(result.shape if infer_shape else None) for result in branch.results]

        def kernel(run: Any, *values: Any) -> Any:
            parts = values[: len(operands)]
            fixed = dict(zip(captures, values[len(operands) :], strict=True))
            lengths = {len(part) for part in parts}
            if len(lengths) > 1:
                raise InvalidArgumentError(f"map_fn: the tensors have different numbers of rows: {sorted(lengths)}")
            done = [branch.run(run, {**fixed, **dict(zip(rows, row, strict=True))}) for row in zip(*parts, strict=True)]
            made = [_stacked([results[at] for results in done], dtype_, shape)
                    for at, (dtype_, shape) in enumerate(zip(dtypes, shapes, strict=True))]  # fmt: skip
            return made[0] if len(made) == 1 else made

        with graph.control_dependencies(branch.controls):
            outputs = list(zip(dtypes, shapes, strict=True))
            op = graph.create_op("MapFn", [*operands, *captures], outputs, kernel, "TensorArrayStack",
                                 blocking=branch.blocking)  # fmt: skip
    return branch.structure(list(op.outputs))


def _leaves(told: Any) -> list[Any]:
    if isinstance(told, dict):
        return [leaf for key in told for leaf in _leaves(told[key])]
    if isinstance(told, (list, tuple)):
        return [leaf for one in told for leaf in _leaves(one)]
    return [told]


def _typed(result: Any, dtypes: Sequence[Any]) -> Any:
    # Numbers of Python's take the types that are told.
    flat: list[Any] = []
    structure = flattened(result, flat)
    if len(flat) != len(dtypes) or all(isinstance(part, Tensor) for part in flat):
        return result
    plain = (bool, int, float, complex, str, bytes)
    return structure([
        convert_to_tensor(part, dtype) if isinstance(part, plain) else part
        for part, dtype in zip(flat, dtypes, strict=True)
    ])  # fmt: skip


def _stacked(values: list[Any], dtype: Any, shape: TensorShape) -> Any:
    kind = object if dtype == string else dtype.dtype
    if not values:
        return np.zeros([side or 0 for side in as_shape(shape).sides or (0,)], kind)
    array = np.empty((len(values), *np.shape(values[0])), kind)
    for index, value in enumerate(values):
        if np.shape(value) != array.shape[1:]:
            raise InvalidArgumentError(
                f"the function returned shape {list(np.shape(value))} for row {index}, and "
                f"{list(array.shape[1:])} for the first"
            )
        array[index] = value
    return array


class _Fold:
    # A function of a state and a row, applied to one row after the other.
    def __init__(self, what: str, fn: Callable[..., Any], elems: Any, initializer: Any, backward: bool) -> None:
        if not callable(fn):
            raise TypeError("fn must be callable.")
        self.what = what
        self.backward = backward
        self.graph = get_default_graph()
        self.operands, structure = _tensors(elems)
        if not self.operands:
            raise ValueError(f"elems must hold at least one tensor, and is {elems!r}")
        self.count = TensorShape([None])
        for operand in self.operands:
            if operand.shape.sides is not None:
                self.count = self.count.merge_with(operand.shape.with_rank_at_least(1)[:1])
        rows = [_symbol(operand.dtype, operand.shape[1:] if operand.shape.sides else None) for operand in self.operands]
        self.initial, self.structure = ([], structure) if initializer is None else _tensors(initializer)
        states = [_symbol(part.dtype, part.shape) for part in (self.initial or rows)]
        self.facts = [(state.dtype, state.shape) for state in states]
        packed = self.structure(list(states))
        returned: list[Any] = []

        def call() -> Any:
            returned.append(fn(packed, structure(list(rows))))
            return returned[0]

        self.step = Branch(self.graph, call)
        if _nesting(returned[0]) != _nesting(packed):
            raise ValueError(
                "The two structures don't have the same nested structure: the state is "
                f"{_nesting(packed)}, and the function returns {_nesting(returned[0])}"
            )
        _check_next(self.step, states, [shape for _, shape in self.facts])
        self._symbols = [*states, *rows]
        self._captured = [tensor for tensor in self.step.captured if tensor not in set(self._symbols)]

    def op(self, outputs: list[tuple[Any, Any]], kernel: Callable[..., Any], name: str) -> Any:
        """Return the outputs of an operation, in the state's structure; its kernel gets the states one by one."""

        def whole(run: Any, *values: Any) -> Any:
            results = kernel(self._states(run, values))
            return results[0] if len(results) == 1 else results

        with self.graph.control_dependencies(self.step.controls):
            inputs = [*self.operands, *self.initial, *self._captured]
            op = self.graph.create_op(self.what, inputs, outputs, whole, name, blocking=self.step.blocking)
        return self.structure(list(op.outputs))

    def _states(self, run: Any, values: Sequence[Any]) -> Iterator[list[Any]]:
        # The first one is that before the first row, or of it.
        parts, state = values[: len(self.operands)], list(values[len(self.operands) :][: len(self.initial)])
        fixed = dict(zip(self._captured, values[len(self.operands) + len(self.initial) :], strict=True))
        lengths = {len(part) for part in parts}
        if len(lengths) > 1:
            raise InvalidArgumentError(f"{self.what}: the tensors have different numbers of rows: {sorted(lengths)}")
        rows = zip(*[part[::-1] if self.backward else part for part in parts], strict=True)
        if not state:
            state = list(next(rows, ()))
            if not state:
                raise InvalidArgumentError(f"{self.what}: there are no rows, and no initializer")
        yield state
        for row in rows:
            if run.session.is_closed:
                raise CancelledError("the operation was cancelled: the session was closed")
            state = self.step.run(run, {**fixed, **dict(zip(self._symbols, [*state, *row], strict=True))})
            yield state


def _last(states: Iterator[list[Any]]) -> list[Any]:
    return collections.deque(states, 1)[0]


def foldl(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Return the last state of a function that makes a state of the one before and of a row, from the first row on.

    Parameters
    ----------
    fn : callable
        Takes the state, and a row of each tensor in the structure of `elems`; returns the next state. Called once, now.
    elems : Tensor, or structure of them
        With as many rows each.
    initializer : Tensor, or structure of them, optional
        The state before the first row. Default: the first row itself, which `fn` then doesn't get as a row.
    parallel_iterations, back_prop, swap_memory
        Accepted, and not used: rows come one after the other.
    name : str, optional

    Returns
    -------
    Tensor, or structure of them
        As the state.

    Raises
    ------
    TypeError, ValueError
        If `fn` can't be called, or changes the state's structure, types or shapes; if a tensor has no rows.
    InvalidArgumentError
        In a run, if the tensors have different numbers of rows, or none and there is no `initializer`.
    """
    del parallel_iterations, back_prop, swap_memory
    with get_default_graph().name_scope(name or "foldl"):
        fold = _Fold("foldl", fn, elems, initializer, False)
        return fold.op(fold.facts, _last, "Exit")


def foldr(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Return the last state as `foldl` does, from the last row on; parameters and errors are those of `foldl`."""
    del parallel_iterations, back_prop, swap_memory
    with get_default_graph().name_scope(name or "foldr"):
        fold = _Fold("foldr", fn, elems, initializer, True)
        return fold.op(fold.facts, _last, "Exit")


def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Return all states of `foldl`, stacked: the state behind each row.

    Parameters
    ----------
    fn, elems, initializer
        As of `foldl`. Without an `initializer` the first row is also the first state.
    parallel_iterations, back_prop, swap_memory
        Accepted, and not used.
    infer_shape : bool, default True
        Whether all states have the shape that is known of the first.
    reverse : bool, default False
        Whether rows come from the last on. The state behind a row has the row's place.
    name : str, optional

    Returns
    -------
    Tensor, or structure of them
        As the state, with a dimension more in front.

    Raises
    ------
    TypeError, ValueError, InvalidArgumentError
        As of `foldl`.
    """
    del parallel_iterations, back_prop, swap_memory
    with get_default_graph().name_scope(name or "scan"):
        fold = _Fold("scan", fn, elems, initializer, reverse)
        facts = [
            (dtype, fold.count.concatenate(shape if infer_shape else TensorShape(None))) for dtype, shape in fold.facts
        ]

        def kernel(states: Iterator[list[Any]]) -> list[Any]:
            sequence = list(states)
            # The state before the first row says of which shape no states at all are.
            kept = sequence[1:] if fold.initial else sequence
            order = kept[::-1] if reverse else kept
            return [
                _stacked([state[at] for state in order], dtype, TensorShape([0, *np.shape(sequence[0][at])]))
                for at, (dtype, _) in enumerate(facts)
            ]

        return fold.op(facts, kernel, "TensorArrayStack")
