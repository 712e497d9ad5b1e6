"""Elements of a user's list, as columns of rows, or as objects."""

from __future__ import annotations

from typing import Any

from queuecore.data._plan.made import Layout
from queuecore.data._rows.chunks import Column
from queuecore.data._rows.columns import agreed, converted, joined
from queuecore.data._rows.elements import element_of, rows_of_element
from queuecore.data._rows.values import converted as as_element, general, same_structure, shown
from queuecore.errors import DtypeError

__all__ = ["objects_of_list", "rows_of_list"]


def rows_of_list(values: list[Any]) -> tuple[list[Column], Layout] | None:
    """Return elements as columns of rows; `None` if columns can't hold them all.

    Raises
    ------
    InvalidArgumentError, DtypeError
        If one can't be an element, or they differ in structure or dtypes.
    """
    rows = []
    for value in values:
        row = rows_of_element(value)
        if row is None:
            return None
        rows.append(row)
    layout = agreed([own for _, own in rows], "from_list")
    if layout.components is None:
        return None
    parts = []
    for columns, own in rows:
        convert = converted(own.components or (), layout.components)
        parts.append((columns if convert is None else convert(columns, 1), 0, 1))
    return joined(parts), layout


def objects_of_list(values: list[Any]) -> tuple[list[Any], Any]:
    """Return elements as objects, and the specification that all of them meet; errors as of `rows_of_list`."""
    elements, spec, first = [], None, None
    for number, value in enumerate(values):
        element, element_spec = element_of(value)
        structure = as_element(element)[1]
        if not number:
            spec, first = element_spec, structure
        elif not same_structure(structure, first):
            raise DtypeError(f"from_list: elements must be alike, not {shown(first)} and {shown(structure)}")
        else:
            spec = general(spec, element_spec)
        elements.append(element)
    return elements, spec
