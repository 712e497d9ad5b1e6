"""Methods that put elements together by their keys, their classes and their numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self, SupportsIndex

from queuecore._checks.checks import check_int, check_name
from queuecore.data._nodes.asserted import AssertCardinality
from queuecore.data._nodes.groups import GroupByWindow, key_of
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.resample import Resample
from queuecore.data._nodes.sparse import SparseBatch
from queuecore.data._nodes.whole import WholeCall
from queuecore.data._plan.chain import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Chain, Chained, chain_of, dataset_of
from queuecore.errors import InvalidArgumentError

__all__ = ["Grouping"]


class Grouping(Chained):
    """The methods of `queuecore.data.Dataset` that put elements together."""

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: SupportsIndex | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Make datasets of elements with the same key, and concatenate what a function makes of them.

        Parameters
        ----------
        key_func : callable
            From an element to its key, an integer; the parts of a tuple are arguments of their own.
        reduce_func : callable
            From a key, as int64, and a dataset of elements that follow each other and have that key, to a dataset.
        window_size : int, optional
            How many elements make such a dataset. At the end there are smaller ones, by rising keys.
        window_size_func : callable, optional
            Gives that number for a key. Either this or `window_size`.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Its number of elements is unknown before they are made.

        Raises
        ------
        InvalidArgumentError
            If both or neither of the sizes are given, a function can't be called, or `key_func` is known not to return
            one integer; while iterating, in its place, if it doesn't, or a size isn't above 0.
        DtypeError
            While iterating, if `reduce_func` returns something else, or datasets of elements that aren't alike.

        Notes
        -----
        `key_func` runs in Python, for each element, and `reduce_func` for each window, and once more beforehand, for
        the first element: the structure of the elements shows in what it returns. An error becomes a `PipelineError`
        in its place. Elements wait in memory until their window is full. To go on from a saved place, all elements
        before it are made again.

        Examples
        --------
        >>> import queuecore as qc
        >>> ds = qc.data.Dataset.range(10).group_by_window(lambda x: x % 2, lambda key, window: window.batch(3), 3)
        >>> for batch in ds:
        ...     print(batch)
        [0 2 4]
        [1 3 5]
        [6 8]
        [7 9]
        """
        check_name(name)
        label = "group_by_window"
        if (window_size is None) == (window_size_func is None):
            raise InvalidArgumentError("Must pass either window_size or window_size_func, but not both.")
        for function, word in ((reduce_func, "reduce_func"), (window_size_func or len, "window_size_func")):
            if not callable(function):
                raise InvalidArgumentError(f"{label}: {word} must be a function, not {function!r:.60}")
        size: int | WholeCall = (
            check_int(window_size, "window_size", -(2**63))
            if window_size_func is None
            else WholeCall(label, window_size_func)
        )
        return self._made(GroupByWindow((self._chain,), key_of(self._chain, key_func, label), reduce_func, size))

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Sequence[float],
        initial_dist: Sequence[float] | None = None,
        seed: SupportsIndex | None = None,
        name: str | None = None,
    ) -> Self:
        """Leave out elements at random, so that their classes come as often as wanted.

        Parameters
        ----------
        class_func : callable
            From an element to its class, an integer from 0 on; as that of `map`.
        target_dist : sequence of float
            How often each class is to come, in proportion.
        initial_dist : sequence of float, optional
            How often each comes. `None` (the default): that is estimated from the elements, 32 at a time, beginning
            with classes that are equally frequent.
        seed : int, optional
            Together with the graph-level seed it decides which elements are left out. With no seed at all one is drawn,
            now.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Of pairs: the class and the element. Its number of elements is unknown before they are made.

        Raises
        ------
        InvalidArgumentError
            If the distributions aren't numbers from 0 on, or of different lengths; while iterating, in its place, if
            there is no such class.

        Notes
        -----
        An element of class c is kept with a probability in proportion to ``target_dist[c] / initial_dist[c]``, and the
        largest of these is 1. The choice isn't TensorFlow's own, but as well defined: see `sample_from_datasets`. To go
        on from a saved place, the elements before it are made again.

        Examples
        --------
        >>> import queuecore as qc
        >>> ds = qc.data.Dataset.range(1000).rejection_resample(lambda x: x % 2, [0.9, 0.1], [0.5, 0.5], seed=1)
        >>> classes = [int(number) for number, _ in ds]
        >>> classes.count(0), classes.count(1) in range(30, 90)
        (500, True)
        """
        check_name(name)
        if not callable(class_func):
            raise InvalidArgumentError(f"rejection_resample: class_func must be a function, not {class_func!r:.60}")
        pairs: Any = dataset_of(self._chain).map(_Paired(class_func, type(self._chain.element_spec) is tuple))
        return self._made(Resample.of(chain_of(pairs), target_dist, initial_dist, seed))

    def sparse_batch(
        self, batch_size: SupportsIndex, row_shape: Sequence[SupportsIndex | None], name: str | None = None
    ) -> Self:
        """Stack elements that follow each other, which may differ in shape, as sparse arrays.

        Parameters
        ----------
        batch_size : int
            Elements in a batch, at least 1.
        row_shape : sequence of int or None
            The shape that an element has in a batch. `None` (or -1) in it: the longest of the batch.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Of `Sparse` with one dimension more, in front, that have all values of their elements.

        Raises
        ------
        InvalidArgumentError
            If an element isn't one array, or of another number of dimensions.

        Notes
        -----
        An element that is larger than `row_shape` allows is a `DataLossError`, in its place. NumPy puts batches
        together, in the thread of the step.

        Examples
        --------
        >>> import numpy as np, queuecore as qc
        >>> ds = qc.data.Dataset.range(1, 4).map(lambda n: np.arange(int(n)))
        >>> next(iter(ds.sparse_batch(3, [4])))
        Sparse([[0, 0], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]], array([0, 0, 1, 0, 1, 2]), [3, 4])
        """
        check_name(name)
        return self._made(SparseBatch.of(self._chain, check_int(batch_size, "batch_size", 1), row_shape))

    def assert_cardinality(self, expected_cardinality: SupportsIndex, name: str | None = None) -> Self:
        """State how many elements there are.

        Parameters
        ----------
        expected_cardinality : int
            The number of elements; `INFINITE_CARDINALITY` (-1): there is no end; `UNKNOWN_CARDINALITY` (-2): nothing is
            stated.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            `cardinality` and ``len()`` have that number.

        Raises
        ------
        InvalidArgumentError
            If the number is less than -2.
        FailedPreconditionError
            While iterating, behind the elements that are there, or as many as were stated, if there are fewer or more.

        Examples
        --------
        >>> import queuecore as qc
        >>> ds = qc.data.Dataset.range(10).filter(lambda x: x % 2 == 0).assert_cardinality(5)
        >>> len(ds), len(list(ds))
        (5, 5)
        """
        check_name(name)
        number = check_int(expected_cardinality, "expected_cardinality", UNKNOWN_CARDINALITY)
        if number == UNKNOWN_CARDINALITY:
            return self._of(replace(self._chain))
        return self._made(AssertCardinality((self._chain,), math.inf if number == INFINITE_CARDINALITY else number))

    def _made(self, node: Node) -> Self:
        made: Self = dataset_of(Chain.of(node))
        return made


class _Paired:
    """From an element to a pair of its class and itself."""

    def __init__(self, function: Callable[..., Any], unpacked: bool) -> None:
        self._function = function
        self._unpacked = unpacked
        self.__qualname__ = getattr(function, "__qualname__", type(function).__qualname__)

    def __call__(self, *element: Any) -> tuple[Any, Any]:
        made = self._function(*element)
        return made, element if self._unpacked else element[0]
