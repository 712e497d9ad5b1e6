"""Chains of operations on numbers, each run by one native step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore._checks.checks import LARGEST, MAX_DIMS, whole
from queuecore._checks.usercode import running
from queuecore._core.steps.elementwise import MAX_LINKS, ChainStep
from queuecore._core.steps.stages import SequenceStep, Step, joined
from queuecore._elements.component import Component, shape_text
from queuecore._elements.dtypes import is_bfloat16, kind_of
from queuecore._ops.stage import Stage
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = [
    "FLOAT",
    "NUMBERS",
    "Cast",
    "Composed",
    "Link",
    "Links",
    "Reshape",
    "Scale",
    "Shape",
    "Transpose",
    "array_of",
    "check_array_size",
    "code_of",
    "lone_array",
    "merged",
    "number_of",
    "place_of",
    "run_eagerly",
    "run_together",
]

Shape = tuple[int | None, ...] | None
# The dtypes that the native loops know, with their numbers.
NUMBERS = {
    code: index
    for index, code in enumerate(("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "bfloat16"))
}
_WIDE = ("i4", "u4", "i8", "u8", "f8")
FLOAT = np.dtype(np.float32)


def number_of(label: str, dtype: np.dtype[Any]) -> int:
    """Return the number of a dtype in the native loops. `DtypeError`: it has none."""
    number = NUMBERS.get(code_of(dtype))
    if number is None:
        raise DtypeError(f"{label}: expected booleans, integers or floats of at most 64 bits, got {dtype_word(dtype)}")
    return number


def code_of(dtype: np.dtype[Any]) -> str:
    """Return the letters of a dtype: its key in `NUMBERS`."""
    return "bfloat16" if is_bfloat16(dtype) else dtype.str[1:]


def dtype_word(dtype: np.dtype[Any]) -> str:
    """Return a dtype as messages show it."""
    return "bytes" if dtype.kind == "S" else "objects" if dtype.kind == "O" else str(dtype)


def lone_array(label: str, components: tuple[Component, ...]) -> Component:
    """Return the only component, which must be of numbers."""
    if len(components) != 1:
        raise InvalidArgumentError(f"{label}: expected one component, got {len(components)}")
    dtype = components[0].dtype
    if kind_of(dtype) not in "biufc" or dtype.itemsize > 16:
        raise DtypeError(f"{label}: expected numbers, got {dtype_word(dtype)}")
    return components[0]


def place_of(label: str, element: Any, epoch: Any) -> dict[str, int]:
    """Return the numbers that random draws depend on. Without any: those of the function that a dataset calls."""
    if element is None and epoch is None:
        return {"element": running.element, "epoch": running.epoch}
    named = {"element": element, "epoch": epoch}
    return {what: 0 if number is None else whole(label, what, number) for what, number in named.items()}


def run_eagerly(label: str, stage: Stage, value: Any, element: Any = None, epoch: Any = None) -> Any:
    """Run a stage on a value at once, and return the result."""
    array = array_of(label, value)
    step = stage.bind([Component(array.dtype, array.shape)])
    return step(array, **place_of(label, element, epoch))[0]


def run_together(label: str, stage: Stage, operands: Sequence[Any], element: Any = None, epoch: Any = None) -> Any:
    """Run a stage on several arrays at once, or add it to the trace that one of them is a symbol of."""
    for operand in operands:
        if hasattr(type(operand), "_traced_together"):
            return operand._traced_together(label, stage, operands)
    values = [array_of(label, operand) for operand in operands]
    step = stage.bind([Component(value.dtype, value.shape) for value in values])
    results = step(*values, **place_of(label, element, epoch))
    return results[0] if len(results) == 1 else tuple(results)


class _Pass:
    """One pass over an element: the links that fit into it, and the dtype and shape after them."""

    def __init__(self, given: Component) -> None:
        self.given = given
        self.dtype = given.dtype
        self.shape: Shape = given.shape
        self.links: list[Any] = []
        self.turned = False
        # The channel counts of the scales before a transposition; None: the scaled axis is no longer the last one.
        self.channels: set[int] | None = set()

    def step(self) -> Step:
        kept = self.given.ragged and self.shape == self.given.shape
        made = Component(self.dtype, self.shape, name=self.given.name, ragged=kept)
        return ChainStep((self.given,), (made,), self.links)

    def cast(self, dtype: np.dtype[Any], label: str = "cast") -> None:
        number = number_of(label, self.dtype)
        if dtype == self.dtype:
            return
        codes = {code_of(self.dtype), code_of(dtype)}
        if "f2" in codes and not codes & {"f4", "f8"}:
            # Going through float32 gives the same result, and the processor converts between float16 and float32.
            self.cast(FLOAT, label)
            number = number_of(label, FLOAT)
        self.links.append(("cast", number, number_of(label, dtype), dtype.itemsize))
        self.dtype = dtype


class Cast(NamedTuple):
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"cast({self.dtype})"

    def join(self, chain: _Pass) -> bool:
        chain.cast(self.dtype)
        return True

    def of(self, tensor: Any) -> Any:
        return tensor.cast(self.dtype)


class Scale(NamedTuple):
    a: np.ndarray
    b: np.ndarray
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"scale({self.a.tolist()}, {self.b.tolist()}, {self.dtype})"

    def join(self, chain: _Pass) -> bool:
        number_of("scale", chain.dtype)
        channels = 0
        if self.a.ndim:
            channels = self.a.size
            last = None if chain.shape is None else chain.shape[-1] if chain.shape else 0
            if last not in (None, channels):
                raise InvalidArgumentError(
                    f"scale: expected {channels} channels on the last axis, got shape {shape_text(chain.shape)}"
                )
            if chain.channels is not None:
                chain.channels.add(channels)
        between, a, b = self._between(chain.dtype)
        chain.cast(between, "scale")
        chain.links.append(("scale", between.itemsize == 8, a.tobytes(), b.tobytes(), channels))
        chain.cast(self.dtype, "scale")
        return True

    def _between(self, given: np.dtype[Any]) -> tuple[np.dtype[Any], np.ndarray, np.ndarray]:
        """Return the dtype of the computation, and `a` and `b` converted to it."""
        wide = any(dtype.str[1:] in _WIDE for dtype in (given, self.dtype))
        between = np.dtype(np.float64 if wide else np.float32)
        with np.errstate(over="ignore"):
            return between, self.a.astype(between), self.b.astype(between)

    def of(self, tensor: Any) -> Any:
        between, a, b = self._between(tensor.dtype)
        loop = (between,) * 3
        product = tensor.call("multiply", loop, [tensor, a])
        return product.call("add", loop, [product, b]).cast(self.dtype)


class Reshape(NamedTuple):
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"reshape({list(self.shape)})"

    def join(self, chain: _Pass) -> bool:
        shape: tuple[int | None, ...] = tuple(None if side < 0 else side for side in self.shape)
        if chain.shape is not None and None not in chain.shape:
            count = math.prod(chain.shape)  # type: ignore[arg-type]
            product = math.prod(side for side in self.shape if side >= 0)
            if count % product if None in shape and product else count != product or None in shape:
                raise InvalidArgumentError(
                    f"reshape: expected values for shape {list(self.shape)}, got {count} values "
                    f"{shape_text(chain.shape)}"
                )
            shape = tuple(count // product if side < 0 else side for side in self.shape)
        if chain.channels and chain.channels != {shape[-1] if shape else None}:
            chain.channels = None
        chain.shape = shape
        chain.links.append(("reshape", self.shape))
        return True

    def of(self, tensor: Any) -> Any:
        return tensor.reshape(self.shape)


class Transpose(NamedTuple):
    perm: tuple[int, ...]

    def __str__(self) -> str:
        return f"transpose({list(self.perm)})"

    def join(self, chain: _Pass) -> bool:
        if chain.shape is not None and len(chain.shape) != len(self.perm):
            raise InvalidArgumentError(
                f"transpose: expected {len(self.perm)} dimensions, got shape {shape_text(chain.shape)}"
            )
        if chain.turned or chain.channels is None:
            return False
        chain.turned = self.perm != tuple(range(len(self.perm)))
        shape = chain.shape
        chain.shape = tuple(None if shape is None else shape[axis] for axis in self.perm)
        chain.links.append(("transpose", self.perm))
        return True

    def of(self, tensor: Any) -> Any:
        return tensor.transpose(self.perm)


Link = Cast | Scale | Reshape | Transpose


class Links(Stage):
    """Links that are taken in as few passes as possible."""

    __slots__ = ("links",)

    def __init__(self, *links: Link) -> None:
        self.links = links
        rowwise = all(isinstance(link, (Cast, Scale)) for link in links)
        super().__init__(", ".join(map(str, links)), self._steps, rowwise=rowwise, device=self._tensors)

    def joined(self, after: Stage) -> Stage | None:
        """Return both stages as one, if `after` has links too."""
        return Links(*self.links, *after.links) if isinstance(after, Links) else None

    def _steps(self, components: tuple[Component, ...]) -> Step:
        chain = _Pass(lone_array(str(self.links[0]).partition("(")[0], components))
        passes = [chain]
        for link in self.links:
            # A scale adds at most five links.
            if len(chain.links) > MAX_LINKS - 5 or not link.join(chain):
                chain = _Pass(Component(chain.dtype, chain.shape, name=chain.given.name, ragged=chain.given.ragged))
                passes.append(chain)
                link.join(chain)
        steps = [one.step() for one in passes]
        return steps[0] if len(steps) == 1 else SequenceStep(steps)

    def _tensors(self, given: list[Any]) -> list[Any]:
        (tensor,) = given
        for link in self.links:
            tensor = link.of(tensor)
        return [tensor]


class Composed(Stage):
    __slots__ = ("stages",)

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = list(stages)
        super().__init__(
            f"compose({', '.join(map(repr, stages))})",
            self._steps,
            self.stages[-1].structure,
            all(stage.rowwise for stage in stages),
            device=self._tensors,
        )

    def _steps(self, components: tuple[Component, ...]) -> Step:
        steps: list[Step] = []
        for stage in merged(self.stages):
            steps.append(stage.bind(steps[-1].outputs if steps else components))
        return joined(steps)

    def _tensors(self, given: list[Any]) -> list[Any]:
        for stage in self.stages:
            given = stage.on_device(given)
        return given


def merged(stages: Sequence[Stage]) -> list[Stage]:
    """Return the same operations, with neighbours merged where one step can do both."""
    result: list[Stage] = []
    for stage in stages:
        for part in merged(stage.stages) if isinstance(stage, Composed) else [stage]:
            both = result[-1].joined(part) if result else None
            if both is None:
                result.append(part)
            else:
                result[-1] = both
    return result


def check_array_size(label: str, shape: tuple[int | None, ...], dtype: np.dtype[Any]) -> None:
    """Raise `InvalidArgumentError` if an array has more dimensions or bytes than are possible."""
    if len(shape) > MAX_DIMS:
        raise InvalidArgumentError(f"{label}: {len(shape)} dimensions; at most {MAX_DIMS} are possible")
    if math.prod(side for side in shape if side is not None) * dtype.itemsize > LARGEST:
        raise InvalidArgumentError(f"{label}: an array of shape {shape_text(shape)} is too large")


def array_of(label: str, value: Any) -> np.ndarray:
    """Return a value as an array of numbers."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidArgumentError(f"{label}: {error}") from error
    if kind_of(array.dtype) not in "biufc":
        raise DtypeError(f"{label}: expected numbers, got {dtype_word(array.dtype)}")
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")
