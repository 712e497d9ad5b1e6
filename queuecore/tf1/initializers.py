"""``tf.initializers``: what makes a variable's first value, and operations that initialise."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._ops.initializers import (
    constant_initializer as constant,
    ones_initializer as ones,
    random_normal_initializer as random_normal,
    random_uniform_initializer as random_uniform,
    zeros_initializer as zeros,
)
from queuecore.tf1._ops.variables import (
    global_variables_initializer as global_variables,
    local_variables_initializer as local_variables,
    tables_initializer,
    variables_initializer as variables,
)

__all__ = [
    "constant",
    "global_variables",
    "local_variables",
    "ones",
    "random_normal",
    "random_uniform",
    "tables_initializer",
    "variables",
    "zeros",
]

__getattr__ = _refusing("tf.initializers")
