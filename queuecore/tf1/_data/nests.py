"""Structures of a dataset's elements: tuples and dicts of what is known of each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.ragged import Ragged, Sparse
from queuecore.tf1._data.specs import (
    RaggedTensorSpec as RaggedLeaf,
    SparseTensorSpec as SparseLeaf,
    TensorSpec as LeafSpec,
)
from queuecore.tf1._graph.graph import Graph, Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.values import DType, TensorShape, int64, name_of, string, variant
from queuecore.tf1._ops.ragged import RaggedTensor, RaggedTensorValue, ragged_of
from queuecore.tf1._ops.sparse import SparseTensor, SparseTensorValue

__all__ = [
    "VARIANT",
    "DatasetBase",
    "Described",
    "LeafSpec",
    "Nested",
    "NoneLeaf",
    "RaggedLeaf",
    "RaggedRow",
    "SparseLeaf",
    "classes",
    "joined",
    "leaf_of",
    "leaves",
    "mapped",
    "matched",
    "outputs_of",
    "packed",
    "parts",
    "plain",
    "same_structure",
    "shapes",
    "shown",
    "split",
    "stacked",
    "tensors_of",
    "types",
    "unbatched",
]

VARIANT = variant


class Described:
    """The facts known of the elements of a dataset, or of an iterator."""

    _spec: Any

    @property
    def output_types(self) -> Any:
        """The dtypes of an element, in its structure."""
        return types(self._spec)

    @property
    def output_shapes(self) -> Any:
        """The shapes of an element, as far as they are known, in its structure."""
        return shapes(self._spec)

    @property
    def output_classes(self) -> Any:
        """`Tensor`, or `Dataset`, in the structure of an element."""
        return classes(self._spec)

    @property
    def element_spec(self) -> Any:
        """The specification of an element, in its structure."""
        return self._spec


class DatasetBase(Described):
    """A dataset in a graph, as far as structures know it: its tensor, and the facts known of an element.

    Datasets inside of elements come to users as its subclass `Dataset`, which has no parameters of its own.

    Parameters
    ----------
    variant_tensor : Tensor
        The tensor whose value is the dataset.
    spec : structure
        The structure, dtypes and shapes of an element.
    """

    _seen: ClassVar[list[type[DatasetBase]]] = []

    def __init__(self, variant_tensor: Tensor, spec: Any) -> None:
        self._variant = variant_tensor
        self._spec = spec

    @property
    def graph(self) -> Graph:
        """The graph that it is part of."""
        return self._variant.graph

    def __repr__(self) -> str:
        """Return the step and what is known of an element."""
        return f"<{self._variant.op.type} element_spec={self._spec!r}>"

    def __iter__(self) -> NoReturn:
        """Raise: it has no elements before the graph runs."""
        raise RuntimeError(
            "a tf.data.Dataset of a graph is not iterable: make an iterator (make_one_shot_iterator(), "
            "make_initializable_iterator()) and run its get_next(). queuecore.data.Dataset is iterable"
        )

    def __bool__(self) -> bool:
        """Return `True`."""
        return True

    def __len__(self) -> NoReturn:
        """Raise: it has no elements before the graph runs."""
        # TensorFlow's words: programs match on them.
        raise TypeError(
            "`tf.data.Dataset` only supports `len` in eager mode: it is not supported while tracing functions. Use "
            "`tf.data.Dataset.cardinality` instead"
        )

    def as_numpy_iterator(self) -> NoReturn:
        """Raise: it has no elements before the graph runs."""
        raise RuntimeError(
            "as_numpy_iterator() is not supported while a graph is made: make an iterator "
            "(make_one_shot_iterator()) and run its get_next(). queuecore.data.Dataset has it"
        )

    def cardinality(self, name: str | None = None) -> Tensor:
        """Return the number of elements, an int64; -1: infinite, -2: unknown before they are read."""
        return self._fact("DatasetCardinality", int64, lambda ds: np.int64(ds.cardinality()), name)

    def fingerprint(self, name: str | None = None) -> Tensor:
        """Return a number that two datasets share if they are made by the same steps, a uint64.

        See `queuecore.data.Dataset.fingerprint`.
        """
        return self._fact("DatasetFingerprint", np.uint64, lambda ds: ds.fingerprint(), name)

    def _fact(self, type_: str, dtype: Any, found: Callable[[Any], Any], name: str | None) -> Tensor:
        return apply_op(type_, [self._variant], dtype, (), lambda _, ds: found(ds), name, pure=False)

    @classmethod
    def register(cls) -> None:
        """Make this class what users see."""
        DatasetBase._seen[:] = [cls]

    @staticmethod
    def seen() -> type[DatasetBase]:
        """Return the class that users see."""
        return DatasetBase._seen[0]


@dataclass(frozen=True)
class RaggedRow(LeafSpec):
    """The specification of a tensor that was a row of a ragged one: a batch of these is ragged.

    Attributes
    ----------
    shape, dtype, name
        As of `LeafSpec`.
    row_splits_dtype : numpy.dtype
        Of the splits in a batch.
    """

    row_splits_dtype: DType = int64

    def __repr__(self) -> str:
        """Return all of it, as of a ragged tensor without divided dimensions."""
        return f"RaggedTensorSpec({self.shape}, {name_of(self.dtype)}, 0, {name_of(self.row_splits_dtype)})"


@dataclass(frozen=True)
class Nested:
    """The specification of a part of an element that is a dataset.

    Attributes
    ----------
    spec : structure of Leaf
        Of that one's elements.
    """

    spec: Any

    def __repr__(self) -> str:
        """Return the elements' one."""
        return f"DatasetSpec({self.spec!r})"


@dataclass(frozen=True)
class NoneLeaf:
    """The specification of a part of an element that is `None`: it has no tensors."""

    shape: ClassVar[TensorShape] = TensorShape(None)

    def __repr__(self) -> str:
        """Return its name."""
        return "NoneTensorSpec()"


def leaf_of(dtype: Any, shape: Any) -> LeafSpec:
    """Return what is known of a tensor."""
    return LeafSpec(shape, dtype)


# Structures: mappings, whose parts are sorted by key, and tuples, with names or without. All else is a part, also the
# tuples that are values of sparse and ragged tensors.

_VALUES = (SparseTensorValue, RaggedTensorValue)


def leaves(structure: Any) -> list[Any]:
    """Return the parts of a structure, in order."""
    found: list[Any] = []
    _walk(structure, found.append)
    return found


def _walk(structure: Any, take: Callable[[Any], None]) -> None:
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            _walk(structure[key], take)
    elif isinstance(structure, tuple) and not isinstance(structure, _VALUES):
        for one in structure:
            _walk(one, take)
    else:
        take(structure)


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """Return a structure with each part replaced by what a function makes of it."""
    if isinstance(structure, Mapping):
        return _same_mapping(structure, {key: mapped(function, structure[key]) for key in sorted(structure)})
    if isinstance(structure, tuple) and not isinstance(structure, _VALUES):
        return _same_tuple(structure, [mapped(function, one) for one in structure])
    return function(structure)


def packed(structure: Any, values: list[Any]) -> Any:
    """Return a structure like this one, with these parts."""
    left = iter(values)
    return mapped(lambda _: next(left), structure)


def plain(structure: Any, values: list[Any]) -> Any:
    """Return a structure like this one, with these parts, of plain tuples and dicts: as `queuecore.data` has them."""
    return _plain(structure, iter(values))


def _plain(structure: Any, values: Iterator[Any]) -> Any:
    if isinstance(structure, Mapping):
        made = {key: _plain(structure[key], values) for key in sorted(structure)}
        return {key: made[key] for key in structure}
    if isinstance(structure, tuple):
        return tuple([_plain(one, values) for one in structure])
    return next(values)


def parts(structure: Any, element: Any) -> list[Any]:
    """Return the parts of an element of `queuecore.data` that has this structure."""
    found: list[Any] = []
    _parts(structure, element, found)
    return found


def _parts(structure: Any, element: Any, flat: list[Any]) -> None:
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            _parts(structure[key], element[key], flat)
    elif isinstance(structure, tuple):
        for one, part in zip(structure, element, strict=True):
            _parts(one, part, flat)
    else:
        flat.append(element)


def matched(structure: Any, other: Any, label: str) -> list[Any]:
    """Return the parts of another structure where this one has its own; lists are structure where this one has a tuple.

    Raises
    ------
    ValueError, TypeError
        If it is another structure.
    """
    if isinstance(structure, Mapping):
        if not isinstance(other, Mapping) or sorted(other) != sorted(structure):
            raise ValueError(f"{label}: the two structures don't have the same keys: {structure!r} and {other!r}")
        return [part for key in sorted(structure) for part in matched(structure[key], other[key], label)]
    if isinstance(structure, tuple):
        if not isinstance(other, (tuple, list)) or len(other) != len(structure):
            raise ValueError(
                f"{label}: the two structures don't have the same nested structure: {structure!r} and {other!r}"
            )
        pairs = zip(structure, other, strict=True)
        return [part for one, its in pairs for part in matched(one, its, label)]
    return [other]


def _same_mapping(like: Mapping[Any, Any], made: dict[Any, Any]) -> Any:
    pairs = [(key, made[key]) for key in like]
    return dict(pairs) if type(like) is dict else type(like)(pairs)  # type: ignore[call-arg]


def _same_tuple(like: tuple[Any, ...], made: list[Any]) -> Any:
    return type(like)(*made) if hasattr(like, "_fields") else tuple(made)


def same_structure(first: Any, second: Any) -> bool:
    """Return whether two structures differ in their parts alone."""
    if isinstance(first, Mapping):
        return (
            isinstance(second, Mapping)
            and first.keys() == second.keys()
            and all(same_structure(part, second[key]) for key, part in first.items())
        )
    if isinstance(first, tuple):
        return isinstance(second, tuple) and len(first) == len(second) and all(map(same_structure, first, second))
    return not isinstance(second, (Mapping, tuple))


# What is known of them


def types(spec: Any) -> Any:
    """Return the dtypes in a specification; of a dataset, itself."""
    return mapped(lambda leaf: leaf if isinstance(leaf, (Nested, NoneLeaf)) else leaf.dtype, spec)


def shapes(spec: Any) -> Any:
    """Return the shapes in a specification."""

    def one(leaf: Any) -> Any:
        return TensorShape([]) if isinstance(leaf, Nested) else leaf if isinstance(leaf, NoneLeaf) else leaf.shape

    return mapped(one, spec)


def classes(spec: Any) -> Any:
    """Return what the parts of an element are: `Tensor`, `SparseTensor`, `RaggedTensor`, `Dataset`, or none of them."""
    kinds: dict[type, type] = {LeafSpec: Tensor, SparseLeaf: SparseTensor, RaggedLeaf: RaggedTensor}
    kinds |= {RaggedRow: Tensor, Nested: DatasetBase.seen(), NoneLeaf: type(None)}
    return mapped(lambda leaf: kinds[type(leaf)], spec)


def stacked(leaf: Any, size: int | None) -> Any:
    """Return what is known of a batch of a part."""
    if isinstance(leaf, Nested):
        raise TypeError("datasets can't be batched: flat_map a window to batches of its elements")
    if isinstance(leaf, NoneLeaf):
        return leaf
    if isinstance(leaf, RaggedRow):
        return RaggedLeaf(TensorShape([size]).concatenate(leaf.shape), leaf.dtype, 1, leaf.row_splits_dtype)
    made = replace(leaf, shape=TensorShape([size]).concatenate(leaf.shape))
    return replace(made, ragged_rank=leaf.ragged_rank + 1) if isinstance(leaf, RaggedLeaf) else made


def unbatched(leaf: Any) -> Any:
    """Return what is known of a row of a part."""
    if isinstance(leaf, NoneLeaf):
        return leaf
    shape = leaf.shape[1:] if leaf.shape.sides is not None else leaf.shape
    if isinstance(leaf, RaggedRow):
        return LeafSpec(shape, leaf.dtype)
    if not isinstance(leaf, RaggedLeaf):
        return replace(leaf, shape=shape)
    return (
        RaggedRow(shape, leaf.dtype, row_splits_dtype=leaf.row_splits_dtype)
        if leaf.ragged_rank == 1
        else replace(leaf, shape=shape, ragged_rank=leaf.ragged_rank - 1)
    )


def outputs_of(spec: Any) -> list[tuple[DType, Any]]:
    """Return types and shapes of the tensors that the parts of an element are, in order."""
    return [output for leaf in leaves(spec) for output in _outputs(leaf)]


def _outputs(leaf: Any) -> list[tuple[DType, Any]]:
    if isinstance(leaf, Nested):
        return [(VARIANT, ())]
    if isinstance(leaf, NoneLeaf):
        return []
    if isinstance(leaf, SparseLeaf):
        rank = leaf.shape.ndims
        return [(int64, [None, rank]), (leaf.dtype, [None]), (int64, [rank])]
    if isinstance(leaf, RaggedLeaf):
        inner = [] if leaf.shape.sides is None else list(leaf.shape.sides[leaf.ragged_rank + 1 :])
        return [(leaf.dtype, [None, *inner]), *[(leaf.row_splits_dtype, [None])] * leaf.ragged_rank]
    return [(leaf.dtype, leaf.shape)]


# Tensors


def tensors_of(value: Any, label: str) -> tuple[Any, list[Tensor]]:
    """Return what is known of a structure of tensors and of what can be tensors, and these.

    Raises
    ------
    TypeError, ValueError
        If a part can be no tensor, or there is none.
    """
    tensors: list[Tensor] = []

    def one(part: Any) -> Any:
        if isinstance(part, SparseTensorValue):
            part = SparseTensor(*part)
        elif isinstance(part, RaggedTensorValue):
            part = ragged_of(part)
        if isinstance(part, DatasetBase):
            tensors.append(part._variant)
            return Nested(part._spec)
        if isinstance(part, SparseTensor):
            tensors.extend([part.indices, part.values, part.dense_shape])
            return SparseLeaf(part.shape, part.dtype)
        if isinstance(part, RaggedTensor):
            tensors.extend([part.flat_values, *part.nested_row_splits])
            return RaggedLeaf(part.shape, part.dtype, part.ragged_rank, part.row_splits.dtype)
        if part is None:
            return NoneLeaf()
        tensor = convert_to_tensor(part)
        tensors.append(tensor)
        return LeafSpec(tensor.shape, tensor.dtype)

    spec = mapped(one, value)
    if not tensors:
        raise ValueError(f"{label}: there are no tensors in {value!r}")
    return spec, tensors


def shown(spec: Any, tensors: list[Tensor]) -> Any:
    """Return tensors, as many as `outputs_of` says, as an element."""
    parts = iter(tensors)

    def one(leaf: Any) -> Any:
        if isinstance(leaf, Nested):
            return DatasetBase.seen()(next(parts), leaf.spec)
        if isinstance(leaf, NoneLeaf):
            return None
        if isinstance(leaf, SparseLeaf):
            return SparseTensor(next(parts), next(parts), next(parts))
        made: Any = next(parts)
        if isinstance(leaf, RaggedLeaf):
            for splits in reversed([next(parts) for _ in range(leaf.ragged_rank)]):
                made = RaggedTensor(made, splits)
        return made

    return mapped(one, spec)


# Values: those of the tensors, and the parts of elements of `queuecore.data`


def split(leaf: Any, value: Any) -> list[Any]:
    """Return a part of an element as the values of its tensors: strings in arrays of objects.

    Raises
    ------
    InvalidArgumentError
        If rows have different lengths.
    """
    if isinstance(leaf, SparseLeaf):
        values = value.values.to_object() if isinstance(value.values, Ragged) else value.values
        return [value.indices, values, value.dense_shape]
    if isinstance(leaf, NoneLeaf):
        return []
    if isinstance(leaf, RaggedLeaf):
        return _flat_and_splits(leaf, value)
    # A symbol of a trace isn't asked for more than that.
    return [_dense(value, leaf) if type(value) is Ragged else value]


def joined(spec: Any, values: list[Any]) -> Any:
    """Return the values of the tensors of an element as one of `queuecore.data`."""
    parts = iter(values)

    def one(leaf: Any) -> Any:
        if isinstance(leaf, RaggedLeaf):
            rows = next(parts)
            rows = Ragged.from_list(rows.tolist() or [b""])[: len(rows)] if leaf.dtype == string else rows
            for splits in reversed([next(parts) for _ in range(leaf.ragged_rank)]):
                rows = Ragged(rows, splits)
            return rows
        if isinstance(leaf, NoneLeaf):
            return None
        if not isinstance(leaf, SparseLeaf):
            return next(parts)
        indices, values, shape = next(parts), next(parts), next(parts)
        if leaf.dtype == string:
            values = Ragged.from_list(values.tolist() or [b""])[: len(values)]
        return Sparse(indices, values, shape)

    return plain(spec, [one(leaf) for leaf in leaves(spec)])


def _flat_and_splits(leaf: RaggedLeaf, value: Any) -> list[Any]:
    all_splits = []
    for _ in range(leaf.ragged_rank):
        if type(value) is np.ndarray:  # all rows have one length
            count, side = value.shape[:2]
            splits, value = np.arange(count + 1) * side, value.reshape(count * side, *value.shape[2:])
        else:
            splits, value = value.row_splits, value.values
        all_splits.append(splits.astype(leaf.row_splits_dtype.dtype))
    return [_dense(value, None) if type(value) is Ragged else value, *all_splits]


def _dense(rows: Ragged, leaf: Any) -> Any:
    if rows.is_bytes:
        return rows.to_object()
    inner = _dense(rows.values, None) if isinstance(rows.values, Ragged) else rows.values
    lengths = rows.row_lengths()
    if not len(lengths):
        sides = None if leaf is None else leaf.shape.sides
        shape = (0, 0) if sides is None else [0 if side is None else side for side in sides]
        return np.empty(shape, object if rows.dtype == string else rows.dtype)
    if (lengths != lengths[0]).any():
        other = int(np.flatnonzero(lengths != lengths[0])[0])
        raise InvalidArgumentError(
            f"Cannot batch tensors with different shapes. First element had {lengths[0]} items along its first "
            f"dimension and element {other} had {lengths[other]}"
        )
    return inner.reshape(len(lengths), int(lengths[0]), *inner.shape[1:])
