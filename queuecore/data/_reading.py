"""What nodes share that read several datasets: rows that wait for others, and elements that are handed on in groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from queuecore._stages import Component
from queuecore.data._columns import Converter, sliced
from queuecore.data._elements import sizes_of_objects
from queuecore.data._nodes import Column, Layout, Objects, Rows
from queuecore.data._source import Unknown
from queuecore.errors import DtypeError, PipelineError, QueueCoreError

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["Waiting", "called", "components_of", "count_of", "grouped", "known_count"]

_GROUP = 64
_GROUP_BYTES = 512 << 10
_GROUP_NS = 1_000_000


class Waiting:
    """The rows of a dataset that were read and not used.

    Attributes
    ----------
    left : int
        How many they are.
    """

    __slots__ = ("_columns", "_convert", "_first", "_rows", "left")

    def __init__(self, rows: Iterator[Rows], convert: Converter | None = None) -> None:
        self._rows = rows
        self._convert = convert
        self._columns: list[Column] = []
        self._first = 0
        self.left = 0

    def fill(self) -> bool:
        """Read more, if there are none left. False: there are no more."""
        while not self.left:
            rows = next(self._rows, None)
            if rows is None:
                return False
            self._columns, self._first, self.left = rows.columns, rows.first, rows.n
            if self._convert is not None:
                self._columns = self._convert(sliced(rows.columns, rows.first, rows.first + rows.n), rows.n)
                self._first = 0
        return True

    def take(self, n: int) -> tuple[list[Column], int, int]:
        """Return columns with the next `n` rows, where these begin, and where they end."""
        at = self._first
        self._first += n
        self.left -= n
        columns = self._columns
        if not self.left:
            self._columns = []
        return columns, at, at + n


def grouped(elements: Iterable[Any]) -> Generator[Objects]:
    """Yield elements in groups, none of which waits long for its last one. What is raised comes after what was before it."""
    group: list[Any] = []
    most = until = 0
    try:
        for element in elements:
            if not group:
                most = min(max(_GROUP_BYTES // max(sizes_of_objects(element), 1), 1), _GROUP)
                until = time.monotonic_ns() + _GROUP_NS
            group.append(element)
            if len(group) >= most or time.monotonic_ns() >= until:
                yield Objects(group)
                group = []
    except GeneratorExit:
        raise
    except BaseException:
        if group:
            yield Objects(group)
        raise
    if group:
        yield Objects(group)


def called(label: str, element: int, function: Callable[..., Any], argument: Any) -> Any:
    """Return what a function of the user's makes of an element; a tuple gives it several arguments.

    Raises
    ------
    PipelineError
        If it raises: that exception is the ``__cause__``. `KeyboardInterrupt` and `SystemExit` come out as they are.
    """
    try:
        return function(*argument) if isinstance(argument, tuple) else function(argument)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise PipelineError(
            f"the function of {label} raised {type(error).__name__}: {error} (element {element})",
            stage=label,
            record=element,
        ) from error


def components_of(layout: Layout) -> tuple[Component, ...]:
    """Return the components of a layout that has some."""
    if layout.components is None:
        raise DtypeError("elements are Python objects")
    return layout.components


def count_of(dataset: Dataset, needed: int | None) -> int | float:
    """Return the number of a dataset's elements, or any number not below `needed` once that many are certain."""
    return dataset._count(len(dataset._ops), needed)


def known_count(dataset: Dataset, needed: int | None = None) -> int | float | None:
    """Return the number of a dataset's elements as `count_of` does; `None` if only reading them would tell."""
    try:
        return count_of(dataset, needed)
    except (Unknown, QueueCoreError):  # an error comes out where it belongs, when the elements are read
        return None
