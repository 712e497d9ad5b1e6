"""Iterators of a graph. Each session has its own place in each of them, which is an iterator of `queuecore.data`."""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import warnings
from collections.abc import Iterator as Threads
from typing import Any

import numpy as np

import queuecore.data as eager
from queuecore.data.iterator import stream_of
from queuecore.errors import (
    CsvError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
    PipelineError,
    QueueCoreError,
)
from queuecore.tf1._data.functions import evaluated
from queuecore.tf1._data.nests import (
    VARIANT,
    DatasetBase,
    Described,
    LeafSpec,
    Nested,
    RaggedLeaf,
    SparseLeaf,
    joined,
    leaf_of,
    leaves,
    matched,
    outputs_of,
    packed,
    parts,
    same_structure,
    shapes,
    shown,
    split,
    tensors_of,
    types,
)
from queuecore.tf1._graph.graph import Operation, Tensor, apply_op, convert_to_tensor, get_default_graph
from queuecore.tf1._graph.plans import planned
from queuecore.tf1._graph.texts import Text, retell
from queuecore.tf1._graph.values import name_of, string
from queuecore.tf1._ops.decoders import CSV_ROWS
from queuecore.tf1._ops.ragged import RaggedTensor
from queuecore.tf1._ops.sparse import SparseTensor

__all__ = [
    "Iterator",
    "Optional",
    "components",
    "get_next_as_optional",
    "get_output_classes",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]

_numbers = itertools.count()
_SLICE = 0.05
# Calls of get_next of one iterator that a program may have reason for.
_MANY_CALLS = 32


def _unequal(found: re.Match[str]) -> str:
    first, other = (found[at].replace(" ", "") for at in (1, 3))
    return (
        "Cannot batch tensors with different shapes in component 0. First element had shape "
        f"{first} and element {found[2]} had shape {other}"
    )


# Of elements of one component: TensorFlow names it, and the error doesn't know it.
_ROWS: list[Text] = [(r"cannot batch elements of unequal shapes: (\[.*?\]) and, (\d+) later, (\[.*?\])", _unequal)]


class _Place:
    # A place in a dataset, of one session.
    def __init__(self, spec: Any, once: Any = None) -> None:
        self.spec = spec
        # Makes the dataset when the first element is asked for, if there is no initializer.
        self._once = once
        self.iterator: eager.Iterator | None = None
        self.handle = b"queuecore.tf1.Iterator/%d" % next(_numbers)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def _held(self, run: Any) -> Threads[None]:
        left = run.left()
        if not self._lock.acquire(timeout=-1 if left is None else left):
            raise DeadlineExceededError("the run timed out while another one was waiting for the same iterator")
        try:
            yield
        finally:
            self._lock.release()

    def begin(self, dataset: eager.Dataset) -> None:
        made = iter(dataset)
        # TensorFlow programs keep the results of runs: some are copied then, and no warning is given.
        stream_of(made).warned = True
        before, self.iterator = self.iterator, made
        if before is not None:  # which also ends a run that waits for it
            before.close()

    def next(self, run: Any) -> Any:
        with self._held(run):
            if self.iterator is None:
                if self._once is None:
                    raise FailedPreconditionError(
                        "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
                        "initializer operation for this iterator before getting the next element."
                    )
                self.begin(self._once(run))
            iterator: Any = self.iterator
            if run.deadline is not None:
                while not stream_of(iterator).poll(min(run.left(), _SLICE)):
                    if not run.left():
                        raise DeadlineExceededError("the run timed out while it was waiting for an element")
            try:
                return next(iterator)
            except StopIteration:
                raise OutOfRangeError("End of sequence") from None
            except InvalidArgumentError as error:
                if isinstance(error, CsvError):
                    retell(error, *CSV_ROWS)
                elif len(leaves(self.spec)) == 1:
                    retell(error, *_ROWS)
                raise
            except PipelineError as error:
                # The user gets the exception that an operation of a function raised.
                cause = error.__cause__
                if not isinstance(cause, QueueCoreError):
                    raise
                cause.add_note(str(error))
                raise cause from cause.__cause__

    def _end(self) -> None:
        if self.iterator is not None:
            self.iterator.close()


def components(spec: Any, element: Any) -> Any:
    """Return an element of `queuecore.data` as the outputs of an operation.

    Raises
    ------
    InvalidArgumentError
        If a part has another type or shape.
    """
    values: list[Any] = []
    for leaf, part in zip(leaves(spec), parts(spec, element), strict=True):
        found = split(leaf, part)
        if isinstance(leaf, LeafSpec):
            _check_value(leaf, found[0], len(values))
        values += found
    return values[0] if len(values) == 1 else values


def _check_value(leaf: LeafSpec, value: Any, index: int) -> None:
    dtype = string if isinstance(value, bytes) or value.dtype == object else value.dtype
    if dtype != leaf.dtype:
        raise InvalidArgumentError(
            f"expected component {index} of an element to be of {name_of(leaf.dtype)}, got {dtype}"
        )
    if not leaf.shape.is_compatible_with(np.shape(value)):
        raise InvalidArgumentError(
            f"expected component {index} of an element to have the shape {leaf.shape}, got {np.shape(value)}"
        )


class Iterator(Described):
    """Takes the elements of a dataset, one in each run of what `get_next` returns.

    Made by `make_one_shot_iterator`, `make_initializable_iterator`, `Iterator.from_structure` and
    `Iterator.from_string_handle`.

    Parameters
    ----------
    iterator_resource : Tensor
        The tensor whose value is the iterator.
    initializer : Operation or None
        The attribute of this name, if there is one.
    output_types, output_shapes, output_classes : structure
        The attributes of these names.

    Attributes
    ----------
    initializer : Operation
        The operation that starts it, and restarts it; only iterators of `make_initializable_iterator` have it.
    output_types, output_shapes, output_classes : structure
        The dtypes, the static shapes and the classes of an element.

    Notes
    -----
    Runs of all threads of a session share its place. From the end on, each run raises `OutOfRangeError`; before the
    start, `FailedPreconditionError`. After the error of an element the next run takes the next element, as in
    TensorFlow; after an error of the source the iterator is closed.
    """

    def __init__(
        self, iterator_resource: Tensor, initializer: Operation | None, output_types: Any, output_shapes: Any,
        output_classes: Any = None,
    ) -> None:  # fmt: skip
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        self._spec = _declared(output_types, output_shapes, output_classes)
        self._string_handle = _handle_of(iterator_resource)
        self._calls = 0

    @property
    def initializer(self) -> Operation:
        """The operation that starts it, and restarts it."""
        if self._initializer is None:
            raise ValueError(
                "The iterator does not have an initializer: make it with `make_initializable_iterator()`. Those of "
                "Iterator.from_structure() have `make_initializer(dataset)`"
            )
        return self._initializer

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: str | None = None, output_classes: Any = None
    ) -> Iterator:
        """Return an iterator that can be switched from dataset to dataset, each time to the beginning.

        Parameters
        ----------
        output_types : structure of dtype
        output_shapes : structure of shapes, optional
            Default: any.
        shared_name : str, optional
            Iterators of this name share their place in a session.
        output_classes : structure of classes, optional
            `SparseTensor` where a part is sparse.
        """
        spec = _declared(output_types, output_shapes, output_classes)
        return _iterator("IteratorV2", spec, shared_name)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """Return an iterator that takes each element from another one, which a handle names.

        Parameters
        ----------
        string_handle : str or Tensor
            The other iterator's `string_handle` in the same session; usually a placeholder.
        output_types, output_shapes, output_classes
            As of `from_structure`.

        Notes
        -----
        Switching loses no place. A run with a handle of no iterator raises `InvalidArgumentError`.
        """
        spec = _declared(output_types, output_shapes, output_classes)
        handle = convert_to_tensor(string_handle, string, "string_handle")

        def kernel(run: Any, name: bytes) -> _Place:
            found = run.session.resource("handles", dict).get(name)
            if found is None:
                raise InvalidArgumentError(f"{name!r} is no handle of an iterator of this session")
            place: _Place = found
            _check(spec, place.spec, InvalidArgumentError)
            return place

        made = apply_op("IteratorFromStringHandleV2", [handle], VARIANT, (), kernel, None, pure=False)
        return _of(made, None, spec)

    def make_initializer(self, dataset: DatasetBase, name: str | None = None) -> Operation:
        """Return an operation that switches to a dataset, each time to its beginning.

        Raises
        ------
        TypeError, ValueError
            If its elements have another structure, other types, or shapes that don't fit.
        """
        _check(self._spec, dataset._spec, TypeError)

        def kernel(_: Any, values: eager.Dataset, place: _Place) -> None:
            place.begin(values)

        inputs = [dataset._variant, self._iterator_resource]
        op: Operation = dataset.graph.create_op("MakeIterator", inputs, [], kernel, name or "make_initializer")
        return op

    def get_next(self, name: str | None = None) -> Any:
        """Return the tensors of the next element: a run takes one element for all of them that it reads.

        Each call makes another operation, which takes an element of its own. A program that calls it in its training
        loop, not once before, makes a graph that grows, and is warned.
        """
        self._calls += 1
        if self._calls > _MANY_CALLS:
            warnings.warn(
                f"Iterator.get_next() was called {self._calls} times on one iterator: each call adds operations to the "
                "graph, and runs become slower. Call it once, before the loop, and run its result in each step",
                stacklevel=2,
            )

        def kernel(run: Any, place: _Place) -> Any:
            return components(self._spec, place.next(run))

        op = self._iterator_resource.graph.create_op(
            "IteratorGetNext", [self._iterator_resource], outputs_of(self._spec), kernel, name, blocking=True
        )
        return shown(self._spec, op.outputs)

    def string_handle(self, name: str | None = None) -> Tensor:
        """Return a string that identifies it in this session, for `from_string_handle`.

        Without a name, each call returns the same tensor, which is there from the beginning: so the graph may be
        finalized before.
        """
        return self._string_handle if name is None else _handle_of(self._iterator_resource, name)


def _handle_of(resource: Tensor, name: str | None = None) -> Tensor:
    def kernel(run: Any, place: _Place) -> bytes:
        run.session.resource("handles", dict)[place.handle] = place
        return place.handle

    return apply_op("IteratorToStringHandle", [resource], string, (), kernel, name, pure=False)


def _declared(output_types: Any, output_shapes: Any, output_classes: Any = None) -> Any:
    flat_types = leaves(output_types)
    sides: list[Any] = [None] * len(flat_types)
    kinds: list[Any] = [Tensor] * len(flat_types)
    if output_shapes is not None:
        if isinstance(output_types, tuple) and isinstance(output_shapes, list):
            raise TypeError(
                "output_shapes: the two structures don't have the same sequence type: "
                f"{output_types!r} is a tuple, and {output_shapes!r} is a list"
            )
        sides = matched(output_types, output_shapes, "output_shapes")
    if output_classes is not None:
        kinds = matched(output_types, output_classes, "output_classes")

    def one(type_: Any, shape: Any, kind: Any) -> Any:
        if isinstance(type_, Nested):
            return type_
        leaf = leaf_of(type_, shape)
        if kind is RaggedTensor:
            sides = leaf.shape.sides or ()
            return RaggedLeaf(leaf.shape, leaf.dtype, max([1, *(at for at, side in enumerate(sides) if side is None)]))
        return SparseLeaf(leaf.shape, leaf.dtype) if kind is SparseTensor else leaf

    return packed(output_types, [one(*all_of) for all_of in zip(flat_types, sides, kinds, strict=True)])


def _check(spec: Any, dataset_spec: Any, error: type[Exception]) -> None:
    if not same_structure(spec, dataset_spec):
        raise ValueError(f"The two structures don't have the same nested structure: {spec!r} and {dataset_spec!r}")
    for leaf, other in zip(leaves(spec), leaves(dataset_spec), strict=True):
        if type(leaf) is not type(other) or isinstance(leaf, Nested):
            if leaf != other:
                raise error(f"Expected {leaf!r} but got dataset with {other!r}")
        elif leaf.dtype != other.dtype or getattr(leaf, "ragged_rank", 0) != getattr(other, "ragged_rank", 0):
            raise error(
                f"Expected output types {types(spec)!r} but got dataset with output types {types(dataset_spec)!r}."
            )
        elif not leaf.shape.is_compatible_with(other.shape):
            raise error(
                f"Expected output shapes compatible with {shapes(spec)!r} but got dataset with output shapes "
                f"{shapes(dataset_spec)!r}."
            )


def _of(resource: Tensor, initializer: Operation | None, spec: Any) -> Iterator:
    made: Iterator = object.__new__(Iterator)
    made._iterator_resource, made._initializer, made._spec = resource, initializer, spec
    made._string_handle, made._calls = _handle_of(resource), 0
    return made


def _iterator(type_: str, spec: Any, shared_name: str | None, once: Any = None) -> Iterator:
    def kernel(run: Any) -> _Place:
        place: _Place
        if shared_name is None:
            place = run.session.resource(op, lambda: _Place(spec, once))
            return place
        place = run.session.resource(("iterator", shared_name), lambda: _Place(spec))
        _check(spec, place.spec, InvalidArgumentError)
        return place

    op = get_default_graph().create_op(type_, [], [(VARIANT, ())], kernel)
    return _of(op.outputs[0], None, spec)


def make_one_shot_iterator(dataset: DatasetBase) -> Iterator:
    """Return an iterator over a dataset that needs no initializer.

    Raises
    ------
    ValueError
        If the dataset reads a placeholder, a variable, or something else that isn't the same in each run.
    """
    _check_graph(dataset)
    plan = planned([dataset._variant], [])
    for step in plan.steps:
        op = step.op
        if op.type == "Placeholder":
            raise ValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value.")
        if not op.pure and "dataset" not in op.attributes:
            # TensorFlow's words: programs match on them.
            raise ValueError(
                f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value. A likely cause of this "
                "error is that the dataset for which you are calling `make_one_shot_iterator()` captures a stateful "
                "object, such as a `tf.Variable` or `tf.lookup.StaticHashTable`, which is not supported. Use "
                "`make_initializable_iterator()` instead."
            )
    return _iterator("OneShotIterator", dataset._spec, None, lambda run: evaluated(plan, run, [])[plan.fetched[0]])


def make_initializable_iterator(dataset: DatasetBase, shared_name: str | None = None) -> Iterator:
    """Return an iterator over a dataset that is started, and restarted, by its `Iterator.initializer`.

    Parameters
    ----------
    dataset : Dataset
        May read placeholders, which are then fed to the initializer, and variables.
    shared_name : str, optional
        Iterators of this name share their place in a session.
    """
    _check_graph(dataset)
    made = _iterator("IteratorV2", dataset._spec, shared_name)
    made._initializer = made.make_initializer(dataset, "MakeIterator")
    return made


def _check_graph(dataset: DatasetBase) -> None:
    if dataset.graph is not get_default_graph():
        raise ValueError(
            f"{dataset!r} is of another graph than the default one. Please ensure that all datasets in the pipeline "
            "are created in the same graph as the iterator."
        )


def get_output_types(dataset_or_iterator: Any) -> Any:
    """Return the dtypes of an element, in its structure."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """Return what is known of the shapes of an element, in its structure."""
    return dataset_or_iterator.output_shapes


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """Return `Tensor`, or `Dataset`, in the structure of an element."""
    return dataset_or_iterator.output_classes


class Optional:
    """An element that may be missing; made by `get_next_as_optional`, `from_value` and `empty`.

    Parameters
    ----------
    variant : Tensor
        The tensor whose value is the element, or no element.
    spec : structure
        The structure, dtypes and shapes of the element.

    Attributes
    ----------
    element_spec, value_structure : structure
        The specification of the element.
    """

    def __init__(self, variant: Tensor, spec: Any) -> None:
        self._variant = variant
        self._spec = spec

    @staticmethod
    def from_value(value: Any) -> Optional:
        """Return one that has an element: a structure of tensors."""
        spec, tensors = tensors_of(value, "Optional.from_value")

        def kernel(*values: Any) -> Any:
            return eager.Optional.from_value(joined(spec, list(values)))

        return Optional(apply_op("OptionalFromValue", tensors, VARIANT, (), kernel, None), spec)

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """Return one without an element, which would be of this specification."""
        made = apply_op("OptionalNone", [], VARIANT, (), lambda: eager.Optional.empty(), None)
        return Optional(made, element_spec)

    none_from_structure = empty

    @property
    def element_spec(self) -> Any:
        """The specification of the element, in its structure."""
        return self._spec

    @property
    def value_structure(self) -> Any:
        """The same as `element_spec`."""
        return self._spec

    def has_value(self, name: str | None = None) -> Tensor:
        """Return whether there is an element, as a tensor of bool."""
        return apply_op("OptionalHasValue", [self._variant], bool, (), lambda one: np.bool_(one.has_value()), name)

    def get_value(self, name: str | None = None) -> Any:
        """Return the element's tensors. A run of them raises `InvalidArgumentError` if there is no element."""
        op = self._variant.graph.create_op(
            "OptionalGetValue",
            [self._variant],
            outputs_of(self._spec),
            lambda one: components(self._spec, one.get_value()),
            name,
            pure=True,
        )
        return shown(self._spec, op.outputs)


def get_next_as_optional(iterator: Iterator) -> Optional:
    """Return the next element of an iterator, or a missing one at its end, which then is no error."""

    def kernel(run: Any, place: _Place) -> Any:
        try:
            return eager.Optional.from_value(place.next(run))
        except OutOfRangeError:
            return eager.Optional.empty()

    made = apply_op(
        "IteratorGetNextAsOptional", [iterator._iterator_resource], VARIANT, (), kernel, None, pure=False, blocking=True
    )
    return Optional(made, iterator._spec)
