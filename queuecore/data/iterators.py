"""The base class of iterators, and the kinds of them whose dataset comes, or changes, after they were made."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self

from queuecore._checks.usercode import called
from queuecore._core.stream.stream import Above, Gets, Refused
from queuecore._elements.nests import mapped
from queuecore._elements.optional import Optional
from queuecore._io.names import Filename
from queuecore._observe.trace import Trace
from queuecore.data._plan.chain import Chained
from queuecore.data._plan.specs import check_element, fits, made_spec, shape_of, type_of
from queuecore.errors import (
    FailedPreconditionError,
    ForkedPipelineError,
    InvalidArgumentError,
)

__all__ = ["FeedableIterator", "InitializableIterator", "IteratorBase", "ReinitializableIterator"]

_numbers = itertools.count()
# Weak: a handle keeps no iterator alive.
_named: weakref.WeakValueDictionary[str, IteratorBase] = weakref.WeakValueDictionary()
_handles: weakref.WeakKeyDictionary[IteratorBase, str] = weakref.WeakKeyDictionary()
# By shared_name.
_shared: weakref.WeakValueDictionary[str, _Shared] = weakref.WeakValueDictionary()


class IteratorBase(Gets):
    """The base class of all iterators of datasets.

    ``iter(dataset)`` and `Dataset.make_one_shot_iterator` make an `Iterator`, `Dataset.make_initializable_iterator` an
    `InitializableIterator`, `from_structure` a `ReinitializableIterator`, and `from_string_handle` a
    `FeedableIterator`.

    Notes
    -----
    Any thread may call any method at any time. Threads that ask for elements take turns; each element comes to one of
    them. Waits hold no GIL.
    """

    __slots__ = ()

    def __next__(self) -> Any:
        """Return the next element; `StopIteration` at the end, now and ever after."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Return the number of elements that are left; see `Iterator`."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        """Return `True`, always; else it would be whether elements are left."""
        return True

    @property
    def element_spec(self) -> Any:
        """The structure of an element: an `ArraySpec`, or dicts and tuples of them."""
        raise NotImplementedError

    @property
    def output_classes(self) -> Any:
        """The classes of an element, in its structure, as in `Dataset.output_classes`."""
        raise NotImplementedError

    def close(self, timeout: float | None = 1.0) -> None:
        """Stop what works for this iterator; see `Iterator.close`."""
        raise NotImplementedError

    def stats(self) -> dict[str, int]:
        """Return counters; see `Iterator.stats`."""
        raise NotImplementedError

    def stages(self) -> list[dict[str, Any]]:
        """Return where the time goes; see `Iterator.stages`."""
        raise NotImplementedError

    def trace(self, path: Filename, *, mask: bool = False) -> Trace:
        """Draw what the native threads do from now on; see `Iterator.trace`."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last element; see `Iterator.state_dict`."""
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place; see `Iterator.load_state_dict`."""
        raise NotImplementedError

    @staticmethod
    def from_structure(output_types: Any, output_shapes: Any = None) -> ReinitializableIterator:
        """Return an iterator that can be switched from dataset to dataset, to the beginning of each.

        Parameters
        ----------
        output_types : dtype, or dict or tuple of them
            Of an element: those of any dataset that it will be switched to (`Dataset.output_types`). ``bytes`` for
            strings.
        output_shapes : tuple of int or None, or dict or tuple of them, optional
            The shapes of the same components; `None` in one for a side that isn't known, instead of one for a shape of
            which nothing is known, as for all of them by default.

        Returns
        -------
        ReinitializableIterator

        Raises
        ------
        DtypeError
            If a type is no dtype.
        InvalidArgumentError
            If a shape is none, or the two structures differ.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(5)))
        >>> train = qc.data.FixedLengthRecordDataset(file, record="u1").batch(3)
        >>> test = train.take(1)
        >>> it = qc.data.Iterator.from_structure(train.output_types, train.output_shapes)
        >>> to_train, to_test = it.make_initializer(train), it.make_initializer(test)
        >>> for epoch in range(2):
        ...     to_train()
        ...     print([batch.tolist() for batch in it])
        ...     to_test()
        ...     print([batch.tolist() for batch in it])
        [[0, 1, 2], [3, 4]]
        [[0, 1, 2]]
        [[0, 1, 2], [3, 4]]
        [[0, 1, 2]]
        >>> it.close()
        """
        return ReinitializableIterator(made_spec(output_types, output_shapes))

    @staticmethod
    def from_string_handle(
        handle: str | Callable[[], str], output_types: Any, output_shapes: Any = None
    ) -> FeedableIterator:
        """Return an iterator that takes each element from another one, named by a handle.

        Parameters
        ----------
        handle : str or callable
            What `string_handle` of an iterator returns; or a callable that returns that, which is asked for every
            element.
        output_types, output_shapes
            As of `from_structure`.

        Returns
        -------
        FeedableIterator

        Raises
        ------
        DtypeError, InvalidArgumentError
            As `from_structure`; `InvalidArgumentError` also if `handle` is neither.

        Examples
        --------
        >>> import pathlib
        >>> import queuecore as qc
        >>> file = pathlib.Path("numbers.bin")
        >>> _ = file.write_bytes(bytes(range(5)))
        >>> numbers = qc.data.FixedLengthRecordDataset(file, record="u1")
        >>> train, test = iter(numbers), iter(numbers.skip(3))
        >>> fed = train
        >>> it = qc.data.Iterator.from_string_handle(lambda: fed.string_handle(), numbers.output_types)
        >>> int(it.get_next()), int(it.get_next())
        (0, 1)
        >>> fed = test
        >>> int(it.get_next())
        3
        >>> fed = train
        >>> int(it.get_next())
        2
        >>> train.close()
        >>> test.close()
        """
        return FeedableIterator(handle, made_spec(output_types, output_shapes))

    @property
    def output_types(self) -> Any:
        """The dtypes of an element, in its structure; ``dtype("S")`` for strings of any length."""
        return mapped(type_of, self.element_spec)

    @property
    def output_shapes(self) -> Any:
        """The shapes of an element, in its structure; `None` where a side, or all of a shape, is unknown."""
        return mapped(shape_of, self.element_spec)

    @property
    def initializer(self) -> Callable[[], None]:
        """The callable that begins, or begins again. Only an `InitializableIterator` has one: others raise."""
        raise InvalidArgumentError(
            "this iterator has no initializer: only those of Dataset.make_initializable_iterator() have one, and "
            "those of Iterator.from_structure() have make_initializer(dataset)"
        )

    def _optional(self) -> Optional:
        return Optional.empty()

    def string_handle(self) -> str:
        """Return a name of this iterator, for `from_string_handle`.

        Returns
        -------
        str
            Always the same. It is valid as long as the iterator exists, in this process and not in forked children, and
            doesn't keep it alive.
        """
        handle = _handles.get(self)
        if handle is None:
            handle = _handles[self] = f"queuecore.data.Iterator/{os.getpid()}/{next(_numbers)}"
            _named[handle] = self
        return handle

    def __iter__(self) -> Self:
        """Return this iterator."""
        return self

    def __enter__(self) -> Self:
        """Return this iterator."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: threads and open files can't be."""
        raise TypeError("an iterator can't be pickled or copied: pickle its dataset and its state_dict() instead")


class _Above(Above, IteratorBase):
    """An iterator that takes its elements from another one, beneath it."""

    __slots__ = ("__weakref__", "_spec")

    def __init__(self, spec: Any) -> None:
        self._spec = spec

    def _current(self) -> IteratorBase:
        """Return the iterator beneath, or raise if there is none."""
        raise NotImplementedError

    def _optional(self) -> Optional:
        return Optional.empty(self._spec)

    def __len__(self) -> int:
        """Return the number of elements that are left of the iterator beneath; see `Iterator`."""
        try:
            return len(self._current())
        except (FailedPreconditionError, InvalidArgumentError) as error:
            raise TypeError(f"there is no len() now: {error}") from error

    @property
    def element_spec(self) -> Any:
        """The structure of an element, as declared when this iterator was made; an unknown shape is `None`."""
        return self._spec

    @property
    def output_classes(self) -> Any:
        """The classes of an element, in its structure, by the iterator beneath, whose errors this may raise."""
        return self._current().output_classes

    def close(self, timeout: float | None = 1.0) -> None:
        """Close the iterator beneath, if there is one; see `Iterator.close`."""
        try:
            beneath = self._current()
        except (FailedPreconditionError, InvalidArgumentError):
            return
        beneath.close(timeout)

    def stats(self) -> dict[str, int]:
        """Return the counters of the iterator beneath; see `Iterator.stats`."""
        return self._current().stats()

    def stages(self) -> list[dict[str, Any]]:
        """Return where the time of the iterator beneath goes; see `Iterator.stages`."""
        return self._current().stages()

    def trace(self, path: Filename, *, mask: bool = False) -> Trace:
        """Draw what the native threads of the iterator beneath do from now on; see `Iterator.trace`."""
        return self._current().trace(path, mask=mask)

    def state_dict(self) -> dict[str, Any]:
        """Return the place of the iterator beneath; see `Iterator.state_dict`."""
        return self._current().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place, with the iterator beneath; see `Iterator.load_state_dict`."""
        self._current().load_state_dict(state)

    # Else the compiled class's own comes first.
    __reduce__ = IteratorBase.__reduce__

    def _checked(self, element: Any) -> Any:
        try:
            check_element(self._spec, element)
        except InvalidArgumentError as error:
            return Refused(error)
        return element


class _Shared:
    """The iteration that the iterators of one shared name have in common."""

    __slots__ = ("__weakref__", "begun", "spec")

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        # An iterator, and whether none of its elements needs to be checked.
        self.begun: tuple[IteratorBase, bool] | None = None


class _Switched(_Above):
    """An iterator that begins anew with a dataset.

    ``next()`` raises `FailedPreconditionError` if it has not begun with a dataset yet, or is closed; and
    `InvalidArgumentError` if the element has another shape than was declared: the next call goes on with the one after
    it.
    """

    __slots__ = ("_place",)

    _unready: str

    def __init__(self, place: _Shared) -> None:
        super().__init__(place.spec)
        self._place = place

    def _current(self) -> IteratorBase:
        return self._step()[0]

    def _step(self) -> tuple[IteratorBase, Callable[[Any], Any] | None]:
        begun = self._place.begun
        if begun is None:
            raise FailedPreconditionError(self._unready)
        return begun[0], None if begun[1] else self._checked

    def _check(self, dataset: Chained) -> bool:
        if not isinstance(dataset, Chained):
            raise InvalidArgumentError(f"an iterator is initialised with a Dataset, not {dataset!r}")
        return fits(self._spec, dataset.element_spec, repr(dataset))

    def _begin(self, dataset: Chained, settled: bool) -> None:
        made = iter(dataset), settled
        before, self._place.begun = self._place.begun, made
        if before is not None:
            before[0].close()


class InitializableIterator(_Switched):
    """An iterator that begins when it is told to, and begins again. Made by `Dataset.make_initializable_iterator`.

    Before `initialize`, and after `close`, elements can't be had (`FailedPreconditionError`). In a forked child,
    initialize it again.

    Parameters
    ----------
    dataset : Dataset
        The dataset whose elements it gives, unless `initialize` names another one.
    shared_name : str, optional
        A name under which iterators of the process share one place.

    Raises
    ------
    InvalidArgumentError
        If `shared_name` is no str, or names an iterator whose elements differ.
    """

    __slots__ = ("_dataset",)

    _unready = "the iterator has not been initialised: call its initializer() first"

    def __init__(self, dataset: Chained, shared_name: str | None = None) -> None:
        if shared_name is not None and not isinstance(shared_name, str):
            raise InvalidArgumentError(f"shared_name must be a str, not {shared_name!r}")
        spec = dataset.element_spec
        place = _Shared(spec)
        if shared_name:
            place = _shared.setdefault(shared_name, place)
            if place.spec != spec:
                raise InvalidArgumentError(
                    f"the shared iterator {shared_name!r} has elements {place.spec}, but {spec} was asked for"
                )
        super().__init__(place)
        self._dataset = dataset

    @property
    def initializer(self) -> Callable[[], None]:
        """Begin at the first element, and begin again: `initialize`, to be called."""
        return self.initialize

    def initialize(self, dataset: Chained | None = None) -> None:
        """Begin at the first element.

        Parameters
        ----------
        dataset : Dataset, optional
            The dataset whose elements it gives from now on. Default: the dataset that it was made of.

        Raises
        ------
        DtypeError
            If the elements have another structure, or other dtypes, than those of the dataset it was made of.
        InvalidArgumentError
            If their shapes can't be right, or `dataset` is no `Dataset`.

        Notes
        -----
        Closes the earlier iterator beneath, which may wait for its threads, without the GIL. A shuffle that reshuffles
        goes on to its next order.
        """
        if dataset is None:
            self._begin(self._dataset, True)
        else:
            self._begin(dataset, self._check(dataset))


class ReinitializableIterator(_Switched):
    """An iterator that can be switched from dataset to dataset. Made by `Iterator.from_structure`.

    Before the first switch, and after `close`, elements can't be had (`FailedPreconditionError`). In a forked child,
    switch it again.

    Parameters
    ----------
    spec : structure of ArraySpec
        The structure, dtypes and shapes that elements of its datasets must have.
    """

    __slots__ = ()

    _unready = "the iterator has no dataset yet: call what make_initializer(dataset) returns first"

    def __init__(self, spec: Any) -> None:
        super().__init__(_Shared(spec))

    def make_initializer(self, dataset: Chained) -> Callable[[], None]:
        """Return a callable that switches to a dataset, and to its beginning each time.

        Parameters
        ----------
        dataset : Dataset
            A dataset whose elements fit the structure that `Iterator.from_structure` got.

        Returns
        -------
        callable
            A function without arguments that returns None. It closes the earlier iterator beneath, which may wait for
            its threads, without the GIL. To switch without losing places, use `Iterator.from_string_handle`.

        Raises
        ------
        DtypeError
            If the elements have another structure or other dtypes.
        InvalidArgumentError
            If their shapes can't be right, or `dataset` is no `Dataset`. A shape that only the data shows is an error
            with the element.
        """
        settled = self._check(dataset)
        return lambda: self._begin(dataset, settled)


class FeedableIterator(_Above):
    """An iterator that takes each element from another one, named by a handle. Made by `Iterator.from_string_handle`.

    Switching from one iterator to another loses no place: each goes on where it was. ``next()`` raises
    `InvalidArgumentError` if the handle names no iterator, or one whose elements have other shapes than declared;
    `DtypeError` if they have another structure or other dtypes; `ForkedPipelineError` if the iterator was made before a
    fork; `PipelineError` if the callable raises.

    Parameters
    ----------
    handle : str or callable
        The ``string_handle()`` of the iterator to take elements from, or a function without arguments that returns one
        for each element.
    spec : structure of ArraySpec
        The declared structure, dtypes and shapes of elements.

    Raises
    ------
    InvalidArgumentError
        If `handle` is neither a str nor callable.
    """

    __slots__ = ("_known", "_source")

    def __init__(self, handle: str | Callable[[], str], spec: Any) -> None:
        if not isinstance(handle, str) and not callable(handle):
            raise InvalidArgumentError(f"a handle is a str, or a callable that returns one, not {handle!r}")
        super().__init__(spec)
        self._source = handle
        # The iterator whose elements were checked last, and the result of the check.
        self._known: tuple[Callable[[], IteratorBase | None], bool] = (lambda: None, True)

    def _current(self) -> IteratorBase:
        return self._step()[0]

    def _step(self) -> tuple[IteratorBase, Callable[[Any], Any] | None]:
        handle = self._source if isinstance(self._source, str) else called("the handle's callable", self._source)
        beneath = _named.get(handle) if isinstance(handle, str) else None
        if beneath is None:
            raise InvalidArgumentError(
                f"{handle!r} is no handle of an iterator that exists: a handle is what string_handle() returns, and "
                "keeps no iterator alive"
            )
        if handle.split("/")[1] != str(os.getpid()):
            raise ForkedPipelineError("the iterator of this handle was made before os.fork(). Make one in the child")
        known, settled = self._known
        if beneath is not known():
            settled = fits(self._spec, beneath.element_spec, f"the iterator of {handle}")
            self._known = weakref.ref(beneath), settled
        return beneath, None if settled else self._checked

    def string_handle(self) -> str:
        """Return the handle of the iterator that is fed now."""
        return self._current().string_handle()
