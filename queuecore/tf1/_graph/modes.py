"""Switches of TensorFlow's behaviour: that of version 1 is on, and can't be switched off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from queuecore.errors import UnimplementedError
from queuecore.tf1._graph.graph import get_default_graph, name_scope

__all__ = [
    "colocate_with",
    "control_flow_v2_enabled",
    "disable_control_flow_v2",
    "disable_eager_execution",
    "disable_resource_variables",
    "disable_tensor_equality",
    "disable_v2_behavior",
    "disable_v2_tensorshape",
    "enable_control_flow_v2",
    "enable_eager_execution",
    "enable_resource_variables",
    "enable_tensor_equality",
    "enable_v2_behavior",
    "enable_v2_tensorshape",
    "init_scope",
    "op_scope",
    "resource_variables_enabled",
]


def disable_v2_behavior() -> None:
    """Do nothing: everything is as in TensorFlow 1."""


def _refuse(name: str) -> NoReturn:
    raise UnimplementedError(f"tf.{name}: operations make a graph, which a session runs, as in TensorFlow 1")


def enable_v2_behavior() -> NoReturn:
    """Raise `UnimplementedError`: everything is as in TensorFlow 1."""
    _refuse("enable_v2_behavior")


def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> NoReturn:
    """Raise `UnimplementedError`: operations make a graph, which a session runs. `queuecore.data` needs no graph."""
    del config, device_policy, execution_mode
    _refuse("enable_eager_execution")


def enable_v2_tensorshape() -> NoReturn:
    """Raise `UnimplementedError`: sides of shapes are `Dimension` objects."""
    _refuse("enable_v2_tensorshape")


def enable_tensor_equality() -> NoReturn:
    """Raise `UnimplementedError`: a tensor is equal to itself only; `tf.equal` compares values."""
    _refuse("enable_tensor_equality")


disable_eager_execution = disable_v2_tensorshape = disable_tensor_equality = disable_v2_behavior
disable_resource_variables = enable_resource_variables = disable_v2_behavior
disable_control_flow_v2 = enable_control_flow_v2 = disable_v2_behavior


def resource_variables_enabled() -> bool:
    """Return `False`: assignments of variables are atomic in any case."""
    return False


def control_flow_v2_enabled() -> bool:
    """Return `False`."""
    return False


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """As `Graph.colocate_with` of the default graph."""
    return get_default_graph().colocate_with(op, ignore_existing)


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Add operations meanwhile outside of all scopes and dependencies."""
    graph = get_default_graph()
    with graph.control_dependencies(None), graph.name_scope(None):
        yield


def op_scope(values: Any, name: str | None, default_name: str | None = None) -> Any:
    """As `name_scope`, with the arguments in an older order."""
    return name_scope(name, default_name, values)
