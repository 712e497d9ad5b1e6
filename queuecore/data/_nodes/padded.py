"""Batches of elements that differ in shape: padded to one, or as rows of different lengths."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from queuecore._checks.lazy import lazy
from queuecore._core.atoms.own import own
from queuecore._core.stream.describe import DENSE, OBJECT, RAGGED, STRINGS
from queuecore._elements.component import BYTES, Component
from queuecore._elements.nests import apart, mapped, plain, structure_of
from queuecore._elements.record import ArraySpec, DatasetSpec
from queuecore._ops.strings import strings_of
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun, leave_out
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.fixed import FixedLengthSource
from queuecore.data._plan.made import Layout, Made, NativeComponent, assembler
from queuecore.data._plan.steps import BatchStep, Count, ShapedBatch
from queuecore.data._rows.chunks import Failed, One, Piece
from queuecore.data._rows.elements import flattened
from queuecore.data._rows.values import stacked
from queuecore.errors import DataLossError, DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged, Sparse, strings

__all__ = [
    "Fit",
    "Joiner",
    "PaddedElements",
    "RowPad",
    "Shapes",
    "Stack",
    "dense_to_ragged",
    "padded",
    "plain_template",
    "shapes_of",
]

Array = np.ndarray[Any, Any]
# The dimensions of a padded row; -1: the longest of the batch.
Sides = tuple[int, ...]

_MOST_SIDE = 2**47


@dataclass(frozen=True)
class ShapeLeaf:
    """The known facts about one array of an element.

    Attributes
    ----------
    dtype : numpy.dtype, optional
        `None` if it is unknown.
    shape : tuple of int or None, optional
        `None` if the number of dimensions is unknown.
    """

    dtype: np.dtype[Any] | None
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Specs:
    """A function from batch dimensions to the specification of a batch; it gives `None` where a dtype is unknown."""

    template: Any
    dtypes: list[np.dtype[Any] | None]
    sides: Sequence[Sides | None]

    def __call__(self, dims: tuple[int | None, ...]) -> Any:
        parts = []
        for dtype, sides in zip(self.dtypes, self.sides, strict=True):
            if dtype is None:
                return None
            shape = None if sides is None else (*dims, *(None if side < 0 else side for side in sides))
            parts.append(ArraySpec(shape, dtype))
        return structure_of(self.template, parts)


# Arguments in the structure of an element


def leaves_of(template: Any) -> Iterator[Any]:
    split = apart(template)
    if split is not None:
        for inner in split[0]:
            yield from leaves_of(inner)
    elif template is not None:
        yield template


def _matched(
    template: Any, argument: Any, argument_name: str, lone: Callable[[Any], bool], position: str = ""
) -> list[Any]:
    # The parts of an argument, one for each leaf. A part for which `lone` holds stands for all leaves below it.
    split = apart(template)
    if split is None:
        return [] if template is None else [argument]
    if argument is None or lone(argument):
        return [argument] * sum(1 for _ in leaves_of(template))
    if isinstance(template, dict):
        if not isinstance(argument, dict) or set(argument) != set(template):
            raise InvalidArgumentError(
                f"padded_batch: {argument_name}{position} must be a dict with the keys {sorted(map(str, template))}, "
                f"not {argument!r}"
            )
        items = [(f"{position}[{name!r}]", inner, argument[name]) for name, inner in template.items()]
    else:
        parts = argument if isinstance(argument, (tuple, list)) else (apart(argument) or ((),))[0]
        if isinstance(argument, dict) or len(parts) != len(split[0]):
            raise InvalidArgumentError(
                f"padded_batch: {argument_name}{position} must be a tuple of {len(split[0])}, "
                f"as an element is, not {argument!r}"
            )
        items = [
            (f"{position}[{index}]", inner, part)
            for index, (inner, part) in enumerate(zip(split[0], parts, strict=True))
        ]
    return [leaf for place, inner, part in items for leaf in _matched(inner, part, argument_name, lone, place)]


def _is_side(value: Any) -> bool:
    return value is None or (isinstance(value, (int, np.integer)) and not isinstance(value, bool))


def _is_shape(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim <= 1
    return isinstance(value, (int, np.integer)) or (isinstance(value, (tuple, list)) and all(map(_is_side, value)))


def _template_of_shapes(shapes: Any) -> Any:
    # Where nothing is known of elements, a list, or a tuple of numbers alone, is a shape.
    if isinstance(shapes, dict):
        return {name: _template_of_shapes(inner) for name, inner in shapes.items()}
    if isinstance(shapes, tuple) and not _is_shape(shapes):
        return tuple(map(_template_of_shapes, shapes))
    return ShapeLeaf(None, None)


def _sides(leaf: ShapeLeaf, shape: Any, index: int) -> Sides:
    # The user's shape and padding for one component.
    if shape is None:
        if leaf.shape is None:
            raise InvalidArgumentError(
                f"padded_batch: nobody knows how many dimensions component {index} has: padded_shapes must say it"
            )
        return tuple(-1 if side is None else side for side in leaf.shape)
    if isinstance(shape, (int, np.integer)) and not isinstance(shape, bool):
        shape = (shape,)
    if isinstance(shape, bool) or not _is_shape(shape):
        raise InvalidArgumentError(
            f"padded_batch: a shape in padded_shapes is a tuple of integers and None, not {shape!r}"
        )
    sides = tuple(-1 if side is None else int(side) for side in shape)
    if any(side < -1 or side > _MOST_SIDE for side in sides):
        raise InvalidArgumentError(f"padded_batch: padded_shapes has {shape!r}; a dimension is at least 0, or None")
    if leaf.shape is None:
        return sides
    if len(sides) != len(leaf.shape):
        raise InvalidArgumentError(
            f"padded_batch: padded_shapes has {shape!r} for component {index}, whose shape is {leaf.shape}"
        )
    for side, limit in zip(sides, leaf.shape, strict=True):
        if limit is not None and 0 <= side < limit:
            raise InvalidArgumentError(
                f"padded_batch: component {index} of shape {leaf.shape} doesn't fit into the {shape!r} of padded_shapes"
            )
    # A known dimension is the longest one of every batch.
    return tuple(
        limit if side < 0 and limit is not None else side for side, limit in zip(sides, leaf.shape, strict=True)
    )


def fill_value(dtype: np.dtype[Any], padding: Any, index: int) -> Any:
    """Return the padding of a component as an array without dimensions, or as bytes."""
    if dtype == BYTES or dtype.kind == "O":
        if padding is None:
            return b""
        value = padding.item() if isinstance(padding, (np.ndarray, np.generic)) and padding.ndim == 0 else padding
        if not isinstance(value, (bytes, str)):
            raise DtypeError(f"padded_batch: component {index} has strings, so its padding can't be {padding!r}")
        return value.encode() if isinstance(value, str) else value
    if padding is None:
        return np.zeros((), dtype)
    value = np.asarray(padding)
    if value.ndim:
        raise InvalidArgumentError(f"padded_batch: a padding value is a scalar, not {padding!r}")
    if dtype.kind == "S":
        well = isinstance(padding, bytes) and len(padding) <= dtype.itemsize
    elif isinstance(padding, (np.generic, np.ndarray)):
        well = value.dtype == dtype
    elif isinstance(padding, bool) or dtype.kind == "b":
        well = isinstance(padding, bool) and dtype.kind == "b"
    elif isinstance(padding, int):
        well = dtype.kind in "fcV" or (dtype.kind in "iu" and np.iinfo(dtype).min <= padding <= np.iinfo(dtype).max)
    elif isinstance(padding, (float, complex)):
        well = dtype.kind == "c" or (dtype.kind in "fV" and isinstance(padding, float))
    else:
        well = False
    if not well:
        raise DtypeError(f"padded_batch: the padding {padding!r} of component {index} is no {dtype}")
    return np.asarray(padding).astype(dtype)


def _probe(index: int, component: Component) -> Any:
    # An element's component that can be recognised.
    if component.dtype == BYTES:
        text = b"component %d" % index
        return text if not component.shape else Ragged.from_list([text])
    return np.ones(tuple(1 if side is None else side for side in component.shape or ()), component.dtype)


def plain_template(result: Made) -> Any:
    """Return the structure of an unbatched element over its components; `None` if it isn't plain structure."""
    if result.assemble is None:
        return result.template
    probes = [_probe(index, component) for index, component in enumerate(result.given)]
    structure = result.assemble(list(probes), False)
    order = []
    for leaf in leaves_of(structure):
        for index, probe in enumerate(probes):
            if leaf is probe or (
                isinstance(leaf, np.ndarray)
                and isinstance(probe, np.ndarray)
                and (leaf.shape, leaf.dtype) == (probe.shape, probe.dtype)
                and np.shares_memory(leaf, probe)
            ):
                order.append(index)
                break
        else:
            return None
    if sorted(order) != list(range(len(probes))):
        return None
    return structure_of(flattened(structure, lambda one, _: one)[0], order)


def padded(chain: Chain, size: int, drop: bool, shapes: Any, values: Any) -> tuple[Node | None, ShapedBatch]:
    """Return a padded batch, and the node that must come before it, if there is one."""
    if not any(isinstance(step, BatchStep) for step in chain.steps):
        result = chain.made
        template = None if result.components[0][0] == OBJECT else plain_template(result)
        if template is not None:
            step = _native(result, template, size, drop, shapes, values)
            if step is not None:
                bare = isinstance(chain.source, FixedLengthSource) and not chain.stages
                through = bare and any(pad is not None for pad in step.changes["pads"])
                return (PaddedElements((chain,), None) if through else None), step
    return _of_objects(chain, size, drop, shapes, values)


def _words(sides: Sequence[Sides | None], fills: list[Any]) -> list[Any]:
    return [[None if one is None else list(one) for one in sides], [_hex(one) for one in fills]]


def _hex(fill: Any) -> str | None:
    if fill is None:
        return None
    return (fill if isinstance(fill, bytes) else np.asarray(fill).tobytes()).hex()


def _native(result: Made, template: Any, size: int, drop: bool, shapes: Any, values: Any) -> ShapedBatch | None:
    # None: there is no native way.
    order = list(leaves_of(template))
    leaves = [ShapeLeaf(one.dtype, one.shape) for one in result.given]
    given_shapes = _matched(template, shapes, "padded_shapes", _never)
    given_values = _matched(template, values, "padding_values", _is_scalar)
    sides: list[Sides] = [()] * len(order)
    fills: list[Any] = [None] * len(order)
    pads: list[Any] = [None] * len(order)
    for index, shape, value in zip(order, given_shapes, given_values, strict=True):
        leaf = leaves[index]
        sides[index] = _sides(leaf, shape, index)
        fills[index] = fill_value(leaf.dtype, value, index)
        if sides[index] == leaf.shape:
            continue
        if result.components[index][0] == STRINGS:
            if fills[index]:
                return None
            pads[index] = sides[index], np.int64(0).tobytes()
        else:
            pads[index] = sides[index], np.asarray(fills[index]).tobytes()

    specs = Specs(template, [leaf.dtype for leaf in leaves], sides)
    changes = {"template": template, "assemble": assembler(template), "pads": pads}
    return ShapedBatch(size, drop, ["padded_batch", *_words(sides, fills)], changes, specs)


def _never(given: Any) -> bool:
    del given
    return False


def _is_scalar(given: Any) -> bool:
    return not isinstance(given, (dict, tuple, list))


# Elements that are Python objects


@dataclass(frozen=True, eq=False)
class PaddedElements(Node):
    """The elements of another dataset as they come: as rows; or as objects that `fit` makes."""

    name = "elements"

    fit: Callable[[Any], Any] | None

    def count(self, min_count: int | None) -> Count:
        return self.inputs[0].count(min_count)

    def where(self) -> str:
        return "Python: hands on rows, a chunk at a time" if self.fit is None else "Python: arrays of each element"

    def layout(self) -> Layout:
        return self.inputs[0].layout if self.fit is None else Layout(None)

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    @property
    def uses_up(self) -> bool:
        return True

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        if self.fit is None:
            yield from run.rows(0, pass_, start, None, True)
        else:
            # If some are left out, the number of an element shows only when all before it were seen. And the first one
            # may decide what the others must be like.
            first = 0 if run.skips is not None or (isinstance(self.fit, Fit) and self.fit.undecided) else start
            with contextlib.closing(run.elements(0, pass_, first, None, True)) as elements:
                yield from self._fitting(run, enumerate(elements, first), start - first)

    def _fitting(self, run: NodeRun, elements: Iterator[tuple[int, Any]], skip_count: int) -> Generator[Piece]:
        fit = self.fit
        assert fit is not None
        for number, element in elements:
            # Errors that nobody leaves out have numbers, too.
            passed = run.skips is None and skip_count > 0
            if isinstance(element, Failed):
                skip_count -= passed
                if not passed:
                    yield element
                continue
            try:
                if isinstance(fit, Fit) and fit.undecided:
                    fit = fit.decided(element)
                padded_element = fit(element)
            except DataLossError as error:
                if passed:
                    skip_count -= 1
                    continue
                error.args = (f"{error} (element {number})",)
                error.stage, error.record = "padded_batch", number
                yield from leave_out(run.skips, error, skip_count > 0)
                continue
            if skip_count:
                skip_count -= 1
            else:
                yield One(padded_element)


def _array(value: Any) -> Array:
    if type(value) is np.ndarray and value.dtype.kind not in "OU":
        return value
    if isinstance(value, Ragged) and value.is_bytes:
        return value.to_object()
    if isinstance(value, (Ragged, Sparse)):
        raise InvalidArgumentError(f"{type(value).__name__} components can't be batched like this: make arrays of them")
    if isinstance(value, (bytes, str)):
        made = np.empty((), object)
        made[()] = strings_of("batch", value)
        return made
    array = np.asarray(value)
    if array.dtype.kind in "OU":
        array = np.asarray(strings_of("batch", array), object)
    return array


@dataclass(frozen=True)
class Fit:
    """Makes arrays of an element's components, and checks their shapes.

    Attributes
    ----------
    template : object
        The structure of an element.
    sides : list of tuple or None, optional
        The shapes that arrays are padded to; `None` in it: the first element decides the number of dimensions. `None`:
        arrays are only stacked.
    told : bool
        Whether the structure is that of the first element, and is told of each one, behind its arrays.
    """

    template: Any
    sides: Sequence[Sides | None] | None
    told: bool = False

    @lazy
    def open(self) -> list[bool]:
        """For each component, True if it takes any shape with that number of dimensions."""
        return [max(sides or (), default=-1) < 0 for sides in self.sides or []]

    @property
    def undecided(self) -> bool:
        """True if it waits for the first element."""
        return (self.told and self.sides is None) or any(sides is None for sides in self.sides or [])

    def decided(self, element: Any) -> Fit:
        """Return one for elements that are like this one."""
        if self.told:
            template, leaves = flattened(element, lambda leaf, where: leaf)
            return replace(self, template=template, sides=[(-1,) * _array(leaf).ndim for leaf in leaves])
        ranks = [_array(part).ndim for part in self._flat(element)]
        return replace(
            self,
            sides=[(-1,) * rank if one is None else one for one, rank in zip(self.sides or [], ranks, strict=True)],
        )

    def _flat(self, element: Any) -> list[Any]:
        return [element] if type(self.template) is int else list(_parts(self.template, element))

    def __call__(self, element: Any) -> list[Any]:
        arrays = self._fitting(element)
        return [*arrays, self.template] if self.told else arrays

    def _fitting(self, element: Any) -> list[Array]:
        arrays: list[Any] = [
            part if self.sides is None and _is_stackable(part) else _array(part) for part in self._flat(element)
        ]
        for index, (array, sides) in enumerate(zip(arrays, self.sides or [], strict=bool(self.sides))):
            assert sides is not None
            if array.ndim == len(sides) and self.open[index]:
                continue
            if array.ndim != len(sides):
                raise DataLossError(
                    f"padded_batch: component {index} has the shape {array.shape}, not {len(sides)} dimensions"
                )
            for axis, (side, most) in enumerate(zip(array.shape, sides, strict=True)):
                if 0 <= most < side:
                    raise DataLossError(
                        f"padded_batch: component {index} is {side} long in dimension {axis}, more than the {most} "
                        "that padded_shapes has for it"
                    )
        return arrays


def _is_stackable(part: Any) -> bool:
    return isinstance(part, Sparse) or (isinstance(part, Ragged) and not part.is_bytes)


def _parts(template: Any, element: Any) -> Iterator[Any]:
    if isinstance(template, dict):
        if not isinstance(element, dict) or set(element) != set(template):
            raise InvalidArgumentError(f"an element is a dict of {list(template)}, and this one is {element!r:.100}")
        for name, inner in template.items():
            yield from _parts(inner, element[name])
    elif (split := apart(template)) is not None:
        parts = element if isinstance(element, list) else (apart(element) or ((),))[0]
        if isinstance(element, dict) or len(parts) != len(split[0]):
            raise InvalidArgumentError(f"an element has {len(split[0])} parts, and this one is {element!r:.100}")
        for inner, part in zip(split[0], parts, strict=True):
            yield from _parts(inner, part)
    elif template is not None:
        yield element


@dataclass(frozen=True)
class Joiner:
    """Makes a batch of the elements that `Fit` made.

    Attributes
    ----------
    template : object
        The structure of the elements, over the indices of its leaves.
    joins : list of callable
        For each component, a function from a list of arrays to the component of the batch.
    """

    template: Any
    joins: Sequence[Callable[[list[Array]], Any]]

    def __call__(self, parts: list[Any], batch: bool) -> Any:
        if not batch:
            return parts[0]
        made = [join([element[index] for element in parts[0]]) for index, join in enumerate(self.joins)]
        return structure_of(self.template, made)


@dataclass(frozen=True)
class OpenJoiner:
    """Makes a padded batch of elements of which nothing was known before they came, and which tell their structure."""

    values: Any

    def __call__(self, parts: list[Any], batch: bool) -> Any:
        if not batch:
            return parts[0]
        template = parts[0][0][-1]
        given = _matched(template, self.values, "padding_values", _is_scalar)
        joins = [RowPad(index, None, value) for index, value in enumerate(given)]
        return Joiner(template, joins)(parts, batch)


def _same_dtype(arrays: list[Array], index: int) -> np.dtype[Any]:
    dtype: np.dtype[Any] = arrays[0].dtype
    for array in arrays:
        if array.dtype != dtype:
            raise DtypeError(
                f"cannot batch component {index}: it is {dtype} in one element and {array.dtype} in another"
            )
    return dtype


@dataclass(frozen=True)
class RowPad:
    """Pads arrays to `sides` with the user's value, and stacks them; without `sides`, to the longest of the batch."""

    index: int
    sides: Sides | None
    value: Any

    def __call__(self, arrays: list[Array]) -> Any:
        dtype = _same_dtype(arrays, self.index)
        sides = (-1,) * arrays[0].ndim if self.sides is None else self.sides
        fill = fill_value(dtype, self.value, self.index)
        lengths = np.array([array.shape for array in arrays], np.int64).reshape(len(arrays), len(sides))
        shape = tuple(int(longest) if side < 0 else side for side, longest in zip(sides, lengths.max(0), strict=True))
        batch = np.full((len(arrays), *shape), fill, dtype)
        if (lengths == shape).all():
            batch = np.stack(arrays)
        elif len(sides) == 1:
            batch[np.arange(shape[0]) < lengths] = np.concatenate(arrays)
        else:
            for row, array in enumerate(arrays):
                batch[row][tuple(slice(side) for side in array.shape)] = array
        return _strings(batch) if dtype.kind == "O" else batch


@dataclass(frozen=True)
class Stack:
    """Stacks arrays of one shape; or makes rows of them that may differ in length in the first `ragged` dimensions.

    Sparse and ragged ones are stacked.
    """

    index: int
    ragged: int

    def __call__(self, arrays: list[Array]) -> Any:
        dtype = _same_dtype(arrays, self.index)
        if _is_stackable(arrays[0]):
            return stacked(arrays, self.index)
        shape = arrays[0].shape
        for array in arrays:
            if array.shape[self.ragged :] != shape[self.ragged :] or array.ndim != len(shape):
                raise InvalidArgumentError(
                    f"cannot batch elements of unequal shapes: component {self.index} has the shape {shape} in one and "
                    f"{array.shape} in another. Use padded_batch"
                    + ("" if self.ragged else ", or dense_to_ragged_batch, or reshape them first"),
                    stage="batch",
                )
        if not self.ragged:
            made = np.stack(arrays)
            return _strings(made) if dtype.kind == "O" else made
        return _nested(arrays, self.ragged)


def _nested(arrays: list[Array], depth: int) -> Ragged:
    """Return arrays as the rows of a `Ragged`; they may differ in their first `depth` dimensions."""
    splits = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=splits[1:])
    if depth > 1:
        none = np.empty((0, *arrays[0].shape[2:]), arrays[0].dtype)
        inner = [row for array in arrays for row in array]
        return Ragged(_nested(inner or [none], depth - 1)[: len(inner)], splits)
    rows = np.concatenate(arrays)
    return Ragged(_strings(rows) if rows.dtype.kind == "O" else rows, splits)


def _strings(array: Array) -> Ragged:
    flat = array.ravel().tolist()
    offsets = np.zeros(len(flat) + 1, np.int64)
    np.cumsum([len(one) for one in flat], out=offsets[1:])
    return strings(np.frombuffer(b"".join(flat), "S1"), offsets, array.shape)


@dataclass(frozen=True)
class Shapes:
    """The shapes to which elements that are Python objects are padded.

    Attributes
    ----------
    template : object
        The structure of the elements, over the numbers of their components.
    dtypes : list of numpy.dtype or None
        The dtype of each component; `None` if it is unknown.
    sides : list of tuple or None
        The padded shape of each component; `None`: as many dimensions as the first element has.
    values : list
        The padding of each component, as the user gave it.
    words : list
        All of these as plain values.
    """

    template: Any
    dtypes: list[np.dtype[Any] | None]
    sides: Sequence[Sides | None]
    values: list[Any]
    words: list[Any]

    @property
    def known(self) -> list[Sides]:
        """Return the padded shapes, where none waits for the first element."""
        return [one for one in self.sides if one is not None]

    @property
    def specs(self) -> Specs:
        """Return the function from batch dimensions to the specification of an element."""
        return Specs(self.template, self.dtypes, self.sides)


def shapes_of(
    chain: Chain,
    shapes: Any,
    values: Any,
    takes_shapes: bool = True,
    caller: str = "bucket_by_sequence_length",
    later: bool = False,
) -> Shapes:
    """Return the padding that a user's shapes and values describe for the elements of a dataset; `caller`: for errors.

    Raises
    ------
    InvalidArgumentError
        If they don't fit the elements; or if the number of dimensions is unknown, unless that is known `later`.
    """
    spec = chain.element_spec
    try:
        return _shapes_of(spec, shapes, values, takes_shapes, later)
    except InvalidArgumentError as error:
        said = str(error).replace("padded_batch:", f"{caller}:", 1)
        if not takes_shapes:
            said = said.replace(": padded_shapes must say it", ", so they can't be stacked")
        error.args = (said,)
        raise


def _shapes_of(spec: Any, shapes: Any, values: Any, takes_shapes: bool, later: bool) -> Shapes:
    if spec is None and shapes is None:
        if takes_shapes:
            raise InvalidArgumentError(
                "padded_batch: nobody knows how many dimensions the elements have: padded_shapes must say it"
            )
        raise InvalidArgumentError("padded_batch: nobody knows what the elements consist of, so they can't be stacked")
    nest = _template_of_shapes(shapes) if spec is None else spec
    template, leaves = flattened(nest, _leaf)
    given_shapes = _matched(template, shapes, "padded_shapes", _never)
    given_values = _matched(template, own(values), "padding_values", _is_scalar)
    sides = [
        None if later and leaf.shape is None and shape is None else _sides(leaf, shape, index)
        for index, (leaf, shape) in enumerate(zip(leaves, given_shapes, strict=True))
    ]
    fills = [
        _untyped(value) if leaf.dtype is None else fill_value(leaf.dtype, value, index)
        for index, (leaf, value) in enumerate(zip(leaves, given_values, strict=True))
    ]
    return Shapes(template, [leaf.dtype for leaf in leaves], sides, given_values, _words(sides, fills))


def _leaf(spec: Any, where: str) -> ShapeLeaf:
    if isinstance(spec, DatasetSpec):
        raise InvalidArgumentError(f"elements{where} are datasets, which can't be stacked: make arrays of them first")
    return spec if isinstance(spec, ShapeLeaf) else ShapeLeaf(spec.dtype, spec.shape)


def _of_objects(chain: Chain, size: int, drop: bool, shapes: Any, values: Any) -> tuple[Node, ShapedBatch]:
    if shapes is None and chain.element_spec is None:
        return _of_anything(chain, size, drop, own(values))
    padding = shapes_of(chain, shapes, values, caller="padded_batch", later=True)
    joins = [
        RowPad(index, side, value)
        for index, (side, value) in enumerate(zip(padding.sides, padding.values, strict=True))
    ]
    step = ShapedBatch(
        size, drop, ["padded_batch", *padding.words], {"assemble": Joiner(padding.template, joins)}, padding.specs
    )
    return PaddedElements((chain,), Fit(padding.template, padding.sides)), step


def _of_anything(chain: Chain, size: int, drop: bool, values: Any) -> tuple[Node, ShapedBatch]:
    fills = plain(mapped(lambda value: _hex(_untyped(value)), values))
    step = ShapedBatch(size, drop, ["padded_batch", None, fills], {"assemble": OpenJoiner(values)}, lambda dims: None)
    return PaddedElements((chain,), Fit(None, None, True)), step


def _untyped(value: Any) -> Any:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else np.asarray(value)


def _ragged_of_objects(chain: Chain, size: int, drop: bool) -> tuple[Node, ShapedBatch]:
    if chain.element_spec is None and chain.known_count() == 0:  # nothing will ever be stacked
        step = ShapedBatch(
            size, drop, ["dense_to_ragged_batch", None], {"assemble": OpenJoiner(None)}, lambda dims: None
        )
        return PaddedElements((chain,), Fit(None, None, True)), step
    made = shapes_of(chain, None, None, False, "dense_to_ragged_batch")
    joins = [Stack(index, max((at + 1 for at, one in enumerate(side) if one < 0), default=0))
             for index, side in enumerate(made.known)]  # fmt: skip
    step = ShapedBatch(size, drop, ["dense_to_ragged_batch"], {"assemble": Joiner(made.template, joins)}, made.specs)
    return PaddedElements((chain,), Fit(made.template, None)), step


def dense_to_ragged(chain: Chain, size: int, drop: bool) -> tuple[Node | None, ShapedBatch]:
    """Return a batch in which rows may differ in length, and the node that must come before it, if there is one."""
    if any(isinstance(step, BatchStep) for step in chain.steps):
        return _ragged_of_objects(chain, size, drop)
    result = chain.made
    if result.components[0][0] == OBJECT:
        return _ragged_of_objects(chain, size, drop)
    components = list(result.components)
    for index, (kind, dtype, shape) in enumerate(components):
        if kind != DENSE:
            continue
        if None in shape[1:]:
            return _ragged_of_objects(chain, size, drop)
        components[index] = NativeComponent(RAGGED, np.dtype((dtype, shape[1:])), shape[1:])
    changes = {} if components == result.components else {"components": components}
    return None, ShapedBatch(size, drop, ["dense_to_ragged_batch"], changes, result.spec)
