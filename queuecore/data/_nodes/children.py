"""The datasets that a function makes of elements: each is a stream of its own, which reads ahead of its turn."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from queuecore._elements.nests import plain
from queuecore.data._nodes.at_hand import at_hand
from queuecore.data._nodes.combine import general_spec
from queuecore.data._nodes.inputs import objects_of
from queuecore.data._nodes.interleave_files import shapes_of_components
from queuecore.data._nodes.run import NodeRun, Opened, rows_of
from queuecore.data._plan.chain import Chain
from queuecore.data._rows.chunks import Failed, Rows
from queuecore.data._rows.columns import compacted
from queuecore.data._rows.elements import flattened
from queuecore.data._rows.gathered import Gathering
from queuecore.data._rows.values import general, spec_of
from queuecore.data.options import Options
from queuecore.errors import DtypeError, QueueCoreError
from queuecore.ragged import Ragged

__all__ = ["Child", "Children", "InPlace", "PATIENCE", "check_alike"]

# Of datasets, where the passes of the shuffles in them are numbered.
_MANY = 1 << 20
# Seconds of a short wait, after which somebody else may be ready.
PATIENCE = 0.002
# Seconds that pending elements may wait for those after them.
_MOMENT = 100e-6


class Child:
    """A dataset that takes turns.

    Attributes
    ----------
    left : int
        Elements that were read and not yet given; while elements are only counted, all elements that there are.
    """

    def __init__(self, run: NodeRun, chain: Chain, number: int, like: Chain | None, threads: int | None) -> None:
        self.number = number % _MANY
        self.left = 0
        self.ended = False
        self.taken = 0
        # Of these, how many are to be made again because one was an error.
        self.again = 0
        self.error: BaseException | None = None
        # Of the next element alone.
        self.failed: Failed | None = None
        self.columns: list[Any] = []
        self.first = 0
        self._run = run
        self._dataset = chain
        if threads is not None and chain.options.num_threads is None and run.options.num_threads is None:
            self._dataset = chain.with_options(Options(num_threads=threads))
        self._number = number
        self._like = like
        self._rows = like is not None and like.layout.components is not None
        self._iterator: Opened | None = None
        self._chunks: Generator[Any] | None = None
        self.total: int | float | None = None

    def begin(self) -> None:
        """Let the dataset read ahead, from its current element."""
        if self._chunks is not None or self.error is not None:
            return
        try:
            first = 0 if self.again else self.taken
            self._chunks = at_hand(self._dataset, self._run, first, self._rows)
            if self._chunks is not None:
                return
            as_rows = self._rows and self._dataset.layout.components is not None
            batch = self._dataset.chunk_rows(self._run.budget) if as_rows else 0
            self._iterator = self._run.open_other(self._dataset, self._number, first, batch)
            self._chunks = rows_of(self._iterator, True) if as_rows else objects_of(self._iterator, True)
            if self._like is not None and self._rows and not as_rows:
                self._chunks = _as_rows(self._chunks, self._like)
            self._iterator.poll(0)
        except BaseException as error:  # noqa: BLE001 - it comes out in its turn
            self.error = error

    def count_only(self) -> None:
        """Find out how many elements there are without reading them, if the number is known."""
        self.total = None if self._run.skips is not None else self._dataset.known_count()
        if self.total is not None:
            self.left = int(min(self.total, 1 << 62)) - self.taken
            self.ended = not self.left

    def read(self) -> None:
        """Read elements from now on instead of only counting them."""
        if self.total is not None:
            self.total = None
            self.left = 0

    def ready(self) -> bool:
        """Return whether `fill` would not wait."""
        if self.left or self.ended or self.error is not None or self.failed is not None:
            return True
        self.begin()
        return self._iterator is None or self._iterator.poll(0)

    def wait(self) -> None:
        """Wait a short time for the dataset to be ready."""
        if self._iterator is not None:
            self._iterator.poll(PATIENCE)

    def fill(self) -> None:
        """Read more, if nothing is left; afterwards there is some, or it has ended, with an error or without."""
        if self.left or self.ended or self.error is not None or self.failed is not None:
            return
        self.begin()
        self.columns = []  # gives its memory back before more is read
        try:
            chunk = None if self._chunks is None else next(self._chunks, None)
            while self.again and chunk is not None:
                passed = min(self.again, chunk.n)
                self.again -= passed
                chunk = chunk.part(passed, chunk.n) if passed < chunk.n else next(self._chunks, None)  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 - it comes out in its turn
            self.error = error
            return
        if self.error is not None:
            return
        if chunk is None:
            self.ended = True
            return
        if isinstance(chunk, Failed):
            self.failed = chunk
            return
        self.left = chunk.n
        if isinstance(chunk, Rows):
            if chunk.rows is not None:
                chunk = Rows(chunk.n, compacted(chunk.columns, 0, chunk.n, chunk.rows))
            self.columns, self.first = chunk.columns, chunk.first
        else:
            self.columns, self.first = chunk.elements, 0

    def take(self, n: int) -> int:
        """Take the next `n` of the elements that are left; return the first one's index."""
        first = self.first
        self.first += n
        self.taken += n
        self.left -= n
        if self.total is not None and not self.left:
            self.ended = True
        return first

    def stop(self) -> None:
        """Ask the dataset to end soon."""
        if self._iterator is not None:
            self._iterator.stop()

    def close(self) -> None:
        """Release the dataset's stream and memory."""
        self.columns = []
        if self._iterator is not None:
            self._iterator.close()


class InPlace:
    """The error in the place of a dataset that can't be made; nothing, once the error was given."""

    def __init__(self, number: int, failed: Failed | None) -> None:
        self.number = number
        self.failed = failed


class Children:
    """The datasets that a function makes of the elements of an input, in the order of these.

    Parameters
    ----------
    run : NodeRun
    pass_ : int
        Of the input.
    make : callable
        Makes the chain of an element, given its number too.
    like : Chain, optional
        The first one: all are like it.
    threads : int, optional
        Native threads of each, where its own options don't say.

    Attributes
    ----------
    ahead : bool
        Whether a dataset begins to read as soon as it is made.
    counting : bool
        Whether its elements are only counted, as far as their number is known.
    ended : bool
        Whether the input has ended.
    n : int
        Elements of the input so far.
    """

    def __init__(
        self, run: NodeRun, pass_: int, make: Callable[[Any, int], Chain], like: Chain | None, threads: int | None
    ) -> None:
        self.ahead = False
        self.counting = False
        self.ended = False
        self.n = 0
        self._run = run
        self._make = make
        self._like = like
        self._threads = threads
        self._first_number = pass_ * _MANY
        self._input = run.open(0, pass_)
        self._waiting: deque[Child | InPlace | BaseException] = deque()
        # Seconds that making the last dataset took, as far as somebody waited for it.
        self._took = math.inf

    def waiting(self) -> list[Child]:
        """Return the datasets that were made and not yet asked for."""
        return [child for child in self._waiting if isinstance(child, Child)]

    def all_given(self) -> bool:
        """Return whether there are no more datasets."""
        return self.ended and not self._waiting

    def next(self) -> Child | InPlace | None:
        """Return the next dataset, or what takes its place; `None`: there is none."""
        if not self._waiting and not self.ended:
            begun = time.monotonic()
            self._pull()
            self._took = time.monotonic() - begun
        if not self._waiting:
            return None
        child = self._waiting.popleft()
        if isinstance(child, BaseException):
            raise child
        return child

    def numbered(self, number: int) -> Child | InPlace | BaseException:
        """Return the dataset of an element of the input; earlier ones that nobody asked for wait."""
        while self.n <= number and not self.ended:
            self._pull()
        for index, child in enumerate(self._waiting):
            if isinstance(child, BaseException) or child.number == number:
                del self._waiting[index]
                return child
        return InPlace(number, None)

    def look_ahead(self, most: int) -> None:
        """Make datasets until so many wait, as far as that needs no wait."""
        while not self.ended and not self.counting and len(self._waiting) < most and self._input.poll(0):
            self._pull()

    def ready(self) -> bool:
        """Return whether one waits, or can be made now."""
        return bool(self._waiting) or (not self.ended and self._input.poll(0))

    def soon(self) -> bool:
        """Return whether what `next` gives will be there before pending elements are late."""
        return bool(self._waiting) or self.ended or (self._took < _MOMENT and self._input.poll(0))

    def wait(self) -> None:
        """Wait a short time for the input."""
        self._input.poll(PATIENCE)

    def stop(self) -> None:
        """Ask the input, and the datasets that wait, to end soon."""
        self._input.stop()
        for child in self.waiting():
            child.stop()

    def close(self) -> None:
        """Close the datasets that wait, and the input."""
        for child in self.waiting():
            child.close()
        self._input.close()

    def _pull(self) -> None:
        """Make the dataset of the next element."""
        while True:
            number = self.n
            try:
                element = next(self._input)
            except StopIteration:
                self.ended = True
                return
            except BaseException as error:  # noqa: BLE001 - it comes out in its turn
                if not isinstance(error, Exception) or not self._input.goes_on:
                    self._fail(error)
                else:
                    self.n += 1
                    self._waiting.append(InPlace(number, Failed(error)))
                return
            self.n += 1
            try:
                chain = self._make(element, number)
            except QueueCoreError as error:
                if self._run.skips is None:
                    self._waiting.append(InPlace(number, Failed(error)))
                    return
                try:
                    self._run.skips.skip(error)
                except QueueCoreError as last:
                    self._fail(last)
                    return
                continue
            except BaseException as error:  # noqa: BLE001
                self._fail(error)
                return
            child = Child(self._run, chain, self._first_number + number, self._like, self._threads)
            if self.counting:
                child.count_only()
            elif self.ahead:
                child.begin()
            self._waiting.append(child)
            return

    def _fail(self, error: BaseException) -> None:
        self.ended = True
        self._waiting.append(error)


def check_alike(first: Chain, chain: Chain, label: str, number: int, mixed: bool = False) -> None:
    """Raise `DtypeError` if elements of a chain, made for element `number`, aren't like those of the first one.

    `mixed`: rows may be among Python objects, and objects among rows.
    """
    layout, first_layout = chain.layout, first.layout
    of_objects = (first_layout.components is None) + (layout.components is None)
    if of_objects == 2 or (of_objects and mixed):  # of rows among them each element is looked at
        general_spec([first, chain], label)
    elif (
        of_objects
        or shapes_of_components(layout) != shapes_of_components(first_layout)
        or (layout.template != first_layout.template and plain(layout.template) != plain(first_layout.template))
    ):
        raise DtypeError(
            f"{label}: all datasets must have elements alike, not {first.element_spec!r} and, "
            f"from element {number} on, {chain.element_spec!r}",
            stage=label,
            record=number,
        )


def _as_rows(chunks: Generator[Any], like: Chain) -> Generator[Any]:
    """Yield Python objects as rows like those of a chain."""
    gathering, spec = Gathering(like.layout), like.element_spec
    shapes = [component.shape for component in like.layout.components or ()]
    with contextlib.closing(chunks):
        for chunk in chunks:
            if isinstance(chunk, Failed):
                yield chunk
                continue
            for element in chunk.elements:
                try:
                    general(spec, spec_of(element))
                    leaves = flattened(element, lambda leaf, where: leaf)[1]
                    if not all(map(_fits, leaves, shapes)):
                        raise DtypeError(f"elements must be alike, not {spec!r} and {element!r:.80}")
                    columns, row = gathering.row(element)
                except DtypeError as error:
                    yield Failed(error)
                else:
                    yield Rows(1, columns, row)


def _fits(leaf: Any, shape: Any) -> bool:
    if isinstance(leaf, Ragged):  # of strings
        return len(shape) == 1 and shape[0] in (None, len(leaf))
    here = np.shape(leaf)
    return len(here) == len(shape) and all(b is None or a == b for a, b in zip(here, shape, strict=True))
