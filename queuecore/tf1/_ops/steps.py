"""The global step: the variable that counts the rounds of a program's loop."""

from __future__ import annotations

from typing import Any

from queuecore.tf1._graph.graph import Graph, GraphKeys, Tensor, get_default_graph
from queuecore.tf1._graph.values import int64
from queuecore.tf1._ops.initializers import zeros_initializer
from queuecore.tf1._ops.variables import Variable, get_variable

__all__ = [
    "assert_global_step",
    "create_global_step",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
]


def get_global_step(graph: Graph | None = None) -> Any:
    """Return the variable that counts steps, or `None`.

    Parameters
    ----------
    graph : Graph, optional
        Default: the default one.

    Raises
    ------
    TypeError
        If it isn't a scalar of integers.
    """
    graph = graph or get_default_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise ValueError(f"Multiple tensors in global_step collection: {found}")
    if found:
        step = found[0]
    else:
        try:
            step = graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
        named = [one for one in graph.get_collection(GraphKeys.GLOBAL_VARIABLES) if one.name == step.name]
        step = named[0] if named else step
    assert_global_step(step)
    return step


def create_global_step(graph: Graph | None = None) -> Variable:
    """Return a new variable ``global_step``, an int64 that begins at 0. `ValueError`: there is one already."""
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return get_variable(
            "global_step", [], int64, zeros_initializer(), trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )  # fmt: skip


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """Return the variable that counts steps, made if there is none."""
    graph = graph or get_default_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def assert_global_step(global_step_tensor: Any) -> None:
    """Raise `TypeError` unless it is a variable or tensor that can count steps: a scalar of integers."""
    if not isinstance(global_step_tensor, (Variable, Tensor)):
        raise TypeError(f"Existing 'global_step' must be a Variable or Tensor: {global_step_tensor}.")
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(f"Existing 'global_step' does not have integer type: {global_step_tensor.dtype}")
    if global_step_tensor.get_shape().ndims not in (0, None):
        raise TypeError(f"Existing 'global_step' is not scalar: {global_step_tensor.get_shape()}")


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Return the number of steps in a session."""
    return int(sess.run(global_step_tensor))
