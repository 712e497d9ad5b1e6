"""What nodes share that read several datasets: rows that wait for others, and elements that are handed on in groups."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from queuecore._stages import Component
from queuecore.data._columns import converted
from queuecore.data._elements import sizes_of_objects
from queuecore.data._nodes import Chunk, Layout, Objects, Rows, Run
from queuecore.data._source import Unknown
from queuecore.errors import DtypeError, PipelineError, QueueCoreError

if TYPE_CHECKING:
    from queuecore._quarantine import Quarantine
    from queuecore.data.dataset import Dataset

__all__ = ["Waiting", "called", "components_of", "count_of", "grouped", "known_count", "laid_out"]

_GROUP = 64
_GROUP_BYTES = 512 << 10
_GROUP_NS = 1_000_000


class Waiting:
    """The elements of a dataset that were read and not used.

    Attributes
    ----------
    left : int
        How many they are.
    """

    __slots__ = ("_chunk", "_chunks", "_first", "left")

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self._chunk: Chunk | None = None
        self._first = 0
        self.left = 0

    def fill(self) -> bool:
        """Read more, if there are none left. False: there are no more."""
        while not self.left:
            self._chunk = None  # which gives its memory back before more is read
            self._chunk = next(self._chunks, None)
            if self._chunk is None:
                return False
            self._first, self.left = 0, self._chunk.n
        return True

    def take(self, n: int) -> Any:
        """Return the next `n` elements: columns, where they begin in these, and where they end; or a list."""
        at = self._first
        chunk = self._chunk
        self._first += n
        self.left -= n
        if not self.left:
            self._chunk = None
        if isinstance(chunk, Rows):
            return chunk.columns, chunk.first + at, chunk.first + at + n
        return [] if chunk is None else chunk.part(at, at + n).elements


def grouped(elements: Iterable[Any]) -> Generator[Objects]:
    """Yield elements in groups, none of which waits long for its last one. What is raised comes in its place."""
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


def laid_out(
    run: Run, index: int, pass_: int, start: int, layout: Layout, skips: Quarantine | None = None
) -> Generator[Chunk]:
    """Yield the elements of an input, from number `start` on, as rows of a layout that its own fits; or as objects."""
    if layout.components is None:
        with contextlib.closing(run.elements(index, pass_, start, skips)) as elements:
            yield from grouped(elements)
        return
    convert = converted(components_of(Layout.of(run.input(index))), layout.components)
    with contextlib.closing(run.rows(index, pass_, start, skips)) as chunks:
        for rows in chunks:
            yield rows if convert is None else Rows(rows.n, convert(rows.columns, rows.n))
