"""What nodes share that read several datasets: rows that wait for others, and elements as they come."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from queuecore._stages import Component
from queuecore.data._columns import converted
from queuecore.data._nodes import Chunk, Layout, Objects, Rows, Run
from queuecore.data._source import Unknown
from queuecore.errors import DtypeError, PipelineError, QueueCoreError

if TYPE_CHECKING:
    from queuecore._quarantine import Quarantine
    from queuecore.data.dataset import Dataset
    from queuecore.data.iterator import Iterator as Elements

__all__ = [
    "MOST_OBJECTS",
    "Waiting",
    "called",
    "components_of",
    "count_of",
    "known_count",
    "laid_out",
    "objects_of",
    "relaid",
]

# Elements of a dataset that are taken at once where they are Python objects: about as many as may be views.
MOST_OBJECTS = 8


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


def objects_of(iterator: Elements) -> Generator[Objects]:
    """Yield the elements of an iterator, those together that are there already, and close it."""
    with iterator:
        for element in iterator:
            group = [element]
            # What else is there already.
            try:
                while len(group) < MOST_OBJECTS and iterator._poll(0):
                    group.append(next(iterator))
            except StopIteration:
                pass
            except BaseException:
                yield Objects(group)
                raise
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
        yield from objects_of(run.open(index, pass_, start, 0, skips))
        return
    yield from relaid(run.rows(index, pass_, start, skips), Layout.of(run.input(index)), layout)


def relaid(chunks: Generator[Rows], given: Layout, layout: Layout) -> Generator[Rows]:
    """Yield rows of one layout as those of a more general one."""
    convert = converted(components_of(given), components_of(layout))
    with contextlib.closing(chunks):
        for rows in chunks:
            yield rows if convert is None else rows._replace(columns=convert(rows.columns, rows.first + rows.n))
