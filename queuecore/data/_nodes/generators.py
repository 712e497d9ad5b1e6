"""Datasets of what users' generators yield."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from queuecore._checks.usercode import element_error, name_of, placed
from queuecore._core.atoms.own import own, own_next
from queuecore._elements.component import BYTES
from queuecore._elements.dtypes import as_dtype
from queuecore._elements.nests import apart, plain
from queuecore._elements.record import ArraySpec, DatasetSpec, SparseSpec
from queuecore.data._nodes.node import ObjectNode
from queuecore.data._nodes.run import NodeRun, leave_out
from queuecore.data._plan.chain import Chained
from queuecore.data._plan.made import Layout
from queuecore.data._plan.specs import check_element, fits
from queuecore.data._plan.steps import Count, Unknown
from queuecore.data._rows.chunks import One, Piece
from queuecore.data._rows.gathered import Gathering, layout_of
from queuecore.data._rows.values import Types, converted, depth_of, settled, shown, spec_of
from queuecore.errors import DtypeError, InvalidArgumentError, QueueCoreError
from queuecore.ragged import Ragged, Sparse

__all__ = ["Generated", "argument_of", "signature_of"]


def signature_of(output_types: Any, output_shapes: Any, output_signature: Any) -> Any:
    """Return the signature of elements, a nest of ArraySpec; `None` allows any element."""
    if output_signature is not None:
        if output_types is not None or output_shapes is not None:
            raise InvalidArgumentError("from_generator: give either output_signature or output_types and output_shapes")
        return _checked(output_signature)
    if output_types is None:
        if output_shapes is not None:
            raise InvalidArgumentError("from_generator: output_shapes needs output_types")
        return None
    return _typed(output_types, output_shapes)


def argument_of(value: Any) -> Any:
    """Return a value as an array or bytes, of which the generator gets copies."""
    made = converted(own(value))[0]
    return np.array(made) if isinstance(made, np.generic) else made


def _checked(spec: Any) -> Any:
    if isinstance(spec, ArraySpec):
        return type(spec)(None if spec.shape is None else _dims(spec.shape), _dtype(spec.dtype))
    if spec is None or isinstance(spec, DatasetSpec):
        return spec
    split = apart(spec)
    if split is not None:
        return split[1](list(map(_checked, split[0])))
    raise DtypeError(
        f"from_generator: output_signature must be an ArraySpec, or tuples and dicts of them, not {spec!r:.80}"
    )


def _typed(types: Any, shapes: Any) -> Any:
    if isinstance(types, dict):
        if shapes is not None and (not isinstance(shapes, dict) or shapes.keys() != types.keys()):
            raise InvalidArgumentError(f"from_generator: output_shapes {shapes!r} is not of the structure of {types!r}")
        return {name: _typed(one, None if shapes is None else shapes[name]) for name, one in types.items()}
    if isinstance(types, tuple):
        if shapes is not None and (not isinstance(shapes, tuple | list) or len(shapes) != len(types)):
            raise InvalidArgumentError(f"from_generator: output_shapes {shapes!r} is not of the structure of {types!r}")
        return tuple(_typed(one, None if shapes is None else shapes[i]) for i, one in enumerate(types))
    dtype = _dtype(types)
    return ArraySpec(None if shapes is None else _dims(shapes), dtype)


def _dtype(word: Any) -> np.dtype[Any]:
    try:
        dtype = as_dtype(word)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"from_generator: {word!r} is no dtype") from error
    if dtype.kind in "SU":
        return BYTES
    if dtype.kind in "OMm":
        raise DtypeError(f"from_generator: elements can't be of {dtype}")
    return dtype.newbyteorder("=")


def _dims(shape: Any) -> tuple[int | None, ...]:
    sides = [shape] if hasattr(shape, "__index__") else shape
    if not isinstance(sides, tuple | list):
        raise InvalidArgumentError(f"from_generator: {shape!r} is no shape")
    made: list[int | None] = []
    for side in sides:
        if side is not None and (isinstance(side, bool) or not hasattr(side, "__index__") or side.__index__() < -1):
            raise InvalidArgumentError(f"from_generator: {shape!r} is no shape")
        made.append(None if side is None or side.__index__() == -1 else side.__index__())
    return tuple(made)


def _fitted(value: Any, spec: Any, place: str = "") -> Any:
    """Return a value as an element of a signature."""
    if type(spec) is ArraySpec:
        return _fitted_leaf(value, spec, place)
    if isinstance(spec, dict):
        if not isinstance(value, dict) or value.keys() != spec.keys():
            raise InvalidArgumentError(f"expected a dict with the keys {list(spec)}{place}, got {value!r:.80}")
        return {name: _fitted(value[name], inner, f" at {name!r}{place}") for name, inner in spec.items()}
    if spec is None:
        if value is not None:
            raise InvalidArgumentError(f"expected None{place}, got {value!r:.80}")
        return None
    if isinstance(spec, DatasetSpec | SparseSpec):
        kind: Any = Sparse if isinstance(spec, SparseSpec) else Chained
        if not isinstance(value, kind):
            raise InvalidArgumentError(f"expected a {kind.__name__}{place}, got {value!r:.80}")
        fits(spec, spec_of(value), "from_generator")
        check_element(spec, value)
        return value
    split = apart(spec)
    if split is None:
        return _fitted_leaf(value, spec, place)
    # A list of values is accepted where a tuple is expected.
    parts = value if isinstance(value, list) else (apart(value) or ((),))[0]
    if isinstance(value, dict) or len(parts) != len(split[0]):
        raise InvalidArgumentError(f"expected a tuple of {len(split[0])}{place}, got {value!r:.80}")
    pairs = enumerate(zip(parts, split[0], strict=True))
    return split[1]([_fitted(part, inner, f" at {index}{place}") for index, (part, inner) in pairs])


def _fitted_leaf(value: Any, spec: ArraySpec, place: str) -> Any:
    if isinstance(value, tuple):  # as NumPy has it
        value = list(value)
    leaf = _cast(value, spec, place)
    if spec.shape is None:
        return leaf
    if isinstance(leaf, Ragged) and spec.dtype != BYTES:
        raise InvalidArgumentError(f"expected an array of the shape {spec.shape}{place}, got a Ragged: give no shape")
    shape = (len(leaf), *[None] * (depth_of(leaf) - 1)) if isinstance(leaf, Ragged) else getattr(leaf, "shape", ())
    if shape != spec.shape and (
        len(shape) != len(spec.shape)
        or any(side not in (None, here) for side, here in zip(spec.shape, shape, strict=True))
    ):
        raise InvalidArgumentError(f"expected the shape {spec.shape}{place}, got {shape}")
    return leaf


def _cast(value: Any, spec: ArraySpec, place: str) -> Any:
    dtype = spec.dtype
    leaf, structure = converted(value)
    if structure is dtype:  # an array, a number or a string of just this dtype
        return leaf
    if isinstance(structure, tuple):
        leaf, _ = settled(leaf, structure, spec)
    if isinstance(leaf, bytes | Ragged) or (isinstance(leaf, np.ndarray) and leaf.dtype.hasobject):
        if dtype != (leaf.dtype if isinstance(leaf, Ragged) else BYTES):
            raise InvalidArgumentError(f"expected {shown(dtype)}{place}, got {value!r:.80}")
        return leaf
    if not isinstance(leaf, np.ndarray | np.generic):
        raise InvalidArgumentError(f"expected {shown(dtype)}{place}, got {value!r:.80}")
    if leaf.dtype == dtype:
        return leaf
    fits = dtype != BYTES and np.can_cast(leaf.dtype, dtype, "same_kind")
    if dtype.kind == "u" and leaf.dtype.kind == "i" or (leaf.size == 0 and dtype != BYTES):
        fits = True
    if not fits:
        raise InvalidArgumentError(f"expected {shown(dtype)}{place}, got {leaf.dtype} ({value!r:.80})")
    with np.errstate(all="ignore"):
        cast = leaf.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(cast, leaf):
        raise InvalidArgumentError(f"expected {dtype}{place}, which {value!r:.80} doesn't fit")
    return cast


@dataclass(frozen=True, eq=False)
class Generated(ObjectNode):
    """The elements that a generator yields: rows, if a signature says of which dtypes and dimensions.

    Attributes
    ----------
    generator : callable
        Returns something to iterate over, once for each pass.
    args : tuple
        The arguments of `generator`; each call gets its own arrays.
    signature : object
        As `signature_of` returns it.
    """

    name = "from_generator"

    generator: Callable[..., Iterable[Any]]
    args: tuple[Any, ...]
    signature: Any

    def words(self) -> dict[str, Any]:
        return {"generator": name_of(self.generator), "signature": repr(plain(self.signature))}

    def label(self) -> str:
        return f"from_generator({name_of(self.generator)})"

    def where(self) -> str:
        return "Python: the generator is one"

    def layout(self) -> Layout:
        return Layout(None) if self.signature is None else layout_of(self.signature)

    def count(self, min_count: int | None) -> Count:
        raise Unknown

    def spec(self) -> Any:
        return self._first_spec if self.signature is None else self.signature

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        # From the first one on: a generator can't begin in the middle.
        skip_count = start
        number = 0
        types = Types()
        name = name_of(self.generator)
        layout = self.layout()
        piece: Callable[[Any], Piece] = One if layout.components is None else Gathering(layout).row

        def handed(elements: list[Any]) -> Iterator[Piece]:
            nonlocal skip_count
            passed = min(skip_count, len(elements))
            skip_count -= passed
            return map(piece, elements[passed:] if passed else elements)

        with contextlib.ExitStack() as stack:
            try:
                values = self._begin(stack)
                while (item := self._next(values)) is not None:
                    try:
                        if self.signature is None:
                            elements = types.add(*converted(item[0]))
                        else:
                            elements = [_fitted(item[0], self.signature)]
                    except QueueCoreError as error:
                        yield from handed(types.rest())
                        yield from leave_out(run.skips, placed("from_generator", name, error, number), skip_count > 0)
                    else:
                        yield from handed(elements)
                    number += 1
                yield from handed(types.rest())
            except _Raised as failed:
                yield from handed(types.rest())
                cause = failed.error
                if isinstance(cause, KeyboardInterrupt | SystemExit):
                    raise cause from None
                broken = element_error("from_generator", name, cause, number)
                broken.__cause__ = cause
                # Nothing follows: a generator that raised is at its end.
                yield from leave_out(run.skips, broken, False)

    def _begin(self, stack: contextlib.ExitStack) -> Iterator[Any]:
        try:
            values = iter(self.generator(*own(self.args)))
        except BaseException as error:
            raise _Raised(error) from None
        close = getattr(values, "close", None)
        if close is not None:
            stack.callback(_closed, close)
        return values

    def _next(self, values: Iterator[Any]) -> tuple[Any] | None:
        try:
            return own_next(values)
        except BaseException as error:
            raise _Raised(error) from None


class _Raised(Exception):
    """Carries what the generator raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _closed(close: Callable[[], None]) -> None:
    # Nobody receives what a generator raises while it is closed.
    with contextlib.suppress(BaseException):
        close()
