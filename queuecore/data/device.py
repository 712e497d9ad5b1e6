"""Datasets whose batches go to a device: the last step of an input pipeline.

Where every component of a batch has one size, the batches of the native stream go there as they lie in its page-locked
slots, and no Python is involved until the consumer takes them. All others are copied together into page-locked memory
by a thread, and the same native transfer goes on from there: elements of a queue of numbers without the GIL from the
first to the last, those of Python's functions, rows of varying length and strings as elements, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, SupportsIndex

from queuecore._checks.lazy import lazy
from queuecore._core.stream.describe import FIXED
from queuecore._device.arrays import Arrays
from queuecore._device.staging import KINDS, Staging
from queuecore._device.target import Asked, Target, Widening, target_of
from queuecore._elements.component import BYTES, Component
from queuecore._io.names import Filename
from queuecore._observe.trace import Trace
from queuecore._ops.raw import record_stage
from queuecore._ops.stage import Stage
from queuecore.data._nodes.map import mapped_chain
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.explain import lines_of, written
from queuecore.data._plan.fixed import FixedLengthSource
from queuecore.data._plan.steps import Map, PlannedStep, Prefetch, ShapedBatch
from queuecore.data.iterator import Iterator, left_after
from queuecore.data.iterators import IteratorBase
from queuecore.data.options import Options
from queuecore.errors import (
    UnimplementedError,
)

__all__ = ["DeviceDataset", "device_dataset"]


class _Parts(NamedTuple):
    """The steps that are done on the host, and those on a device.

    Attributes
    ----------
    host : Chain
        The chain whose elements are copied.
    widening : Widening, optional
        The stages that run on the device.
    kept : dict of int to str
        For each map that is marked for the device and runs on the host, by its place in `host`: the reason.
    """

    host: Chain
    widening: Widening | None
    kept: dict[int, str]


class DeviceDataset:
    """Elements of a dataset, on a device. Made by `Dataset.prefetch_to_device`.

    It can be iterated over as often as you like, as the dataset. Its elements have the structure of the dataset's;
    their arrays are CuPy's, or NumPy's if the device is the host. Values that are no arrays of numbers (strings,
    `Ragged`, `Sparse`, objects) stay on the host.

    An array is valid as long as anything refers to it, or to a view of it: after that the batch's memory on the device
    is used again, behind the work that the consumer's stream had received by then. The stream is CuPy's current one, of
    the thread that calls ``next()``; it is ordered after the copy before ``next()`` returns, so `__dlpack__` and all
    work on the same stream need nothing else. A stream that takes an array by DLPack is ordered after it, and waited
    for. Work on any other stream must be ordered after this one, and be done before the array is dropped, or the stream
    must be named by `queuecore.device.record_stream`. With ``mode="ring"``, a batch is only valid until the next one is
    taken, whatever refers to it.

    If you hold ``buffers`` batches or more, further ones are copies on the device, and one `RuntimeWarning` says so,
    unless ``Options(on_hold="copy")`` asks for that; with ``Options(on_hold="raise")``, ``next()`` raises
    `SlotsExhaustedError`.

    Its iterators have the methods of `Iterator`, `state_dict` included: a place saved on a device can be loaded on the
    host, and the other way round.

    In a forked child, its iterators raise `ForkedPipelineError`, and the page-locked memory of the parent isn't mapped:
    a raw pointer into it is a segmentation fault there.

    It can be pickled and copied if its dataset can. A copy asks again for the device that was asked for, in the process
    in which it is made: in a process without a GPU, ``"auto"`` is the host, and ``"cuda"`` a `DeviceUnavailableError`.

    Parameters
    ----------
    chain : Chain
        The steps of the dataset.
    target : Target or None
        The device, and the maker of its arrays; None: the host.
    asked : Asked
        The arguments of `Dataset.prefetch_to_device`.
    """

    def __init__(self, chain: Chain, target: Target | None, asked: Asked) -> None:
        self._chain = chain
        self._target = target
        self._asked = asked

    def __iter__(self) -> IteratorBase:
        """Return an iterator over the elements."""
        target = self._target
        if target is None:
            return _opened(self._chain.then(Prefetch(self._asked.buffers)))
        host, widening, _ = self._parts
        if not goes_as_it_lies(host):
            return StagedIterator(Iterator(host), target, host.options.on_hold)
        return Iterator(host, target._replace(widening=widening), self._chain)

    @lazy
    def _parts(self) -> _Parts:
        return _parted(self._chain, self._target)

    def map(self, map_func: Stage | Callable[..., Any]) -> DeviceDataset:
        """Make something else of each element, on the device if that is possible.

        Parameters
        ----------
        map_func : callable or Stage
            As `Dataset.map` takes it.

        Returns
        -------
        DeviceDataset

        Notes
        -----
        All maps behind each other are one kernel, launched in the copy's stream: so little data goes to the device, and
        becomes more there. Maps before `Dataset.prefetch_to_device` join them if they are marked (``on_device`` of
        `Dataset.map`). A kernel can be made of functions that are traced, and of native operations, on batches of
        one size: casts, arithmetic, comparison, `scale`, `one_hot`, `reshape`, `transpose`, `decode_raw` and fields of
        records. The results are those of the host, bit for bit. All others are done on the host, before the copy;
        `plan` says which, and why.
        """
        return DeviceDataset(mapped_chain(self._chain, map_func, None, None, True), self._target, self._asked)

    @property
    def element_spec(self) -> Any:
        """The structure of an element, as in `Dataset.element_spec`; the arrays are the device's."""
        return self._chain.element_spec

    def cardinality(self) -> int:
        """Return the number of elements, as `Dataset.cardinality` does."""
        return self._chain.cardinality()

    def with_options(self, options: Options) -> DeviceDataset:
        """Set how the dataset runs, as `Dataset.with_options` does.

        Parameters
        ----------
        options : Options
            Options to set; the others stay.
        """
        return DeviceDataset(self._chain.with_options(options), self._target, self._asked)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the pickled form: a copy asks for a device where it is made."""
        return device_dataset, (self._chain, *self._asked)

    def plan(self) -> str:
        """Return the steps and where each runs, as `Dataset.plan` does, and why a map doesn't run on the device.

        A reason is given only for maps meant for the device: marked ones, or maps behind `Dataset.prefetch_to_device`.
        """
        host, widening, reasons = self._parts
        stages = [] if widening is None else widening.stages
        lines = [
            (f"map({stage.shown})", "device: one kernel, in the stream of the copies") for stage in reversed(stages)
        ]
        device, where = "cpu", "native: batches stay on the host"
        if self._target is not None:
            device, where = f"cuda:{self._target.device.ordinal}", "native: one thread copies batches as they lie"
            if not goes_as_it_lies(host):
                where = "Python copies an element's arrays together, one native thread copies those"
        lines.append((f"prefetch_to_device({device!r}, {self._asked.buffers})", where))
        lines += lines_of(host, "", reasons)
        return written(lines)


def _opened(chain: Chain) -> Iterator:
    chain.check_shards()
    return Iterator(chain)


def _parted(chain: Chain, target: Target | None) -> _Parts:
    """Return where the steps of a dataset run: as many of the last maps on the device as possible."""
    steps = chain.steps
    first = len(steps)
    while first and _lets_by(steps[first - 1]):
        first -= 1
    maps = [index for index in range(first, len(steps)) if isinstance(steps[index], Map)]
    reasons: dict[int, str] = {}
    for number, index in enumerate(maps):
        there = maps[number:]
        host = replace(chain, steps=tuple(step for i, step in enumerate(steps) if i not in there))
        try:
            if target is None:
                raise UnimplementedError("batches stay on the host")
            return _Parts(host, _widening(chain, host, target.arrays), reasons)
        except UnimplementedError as error:
            reasons[index] = str(error)
    return _Parts(chain, None, reasons)


def _lets_by(step: PlannedStep) -> bool:
    """Return whether this step allows a map before it to run behind the copy."""
    # Steps other than maps only decide which elements come, and when; but padding depends on the shapes that it gets.
    return step.on_device if isinstance(step, Map) else not isinstance(step, ShapedBatch)


def _widening(chain: Chain, host: Chain, arrays: Arrays) -> Widening:
    """Return the device form of a dataset's last maps, which `host` lacks, or raise UnimplementedError."""
    if len(host.batches) != 1 or not goes_as_it_lies(host):
        raise UnimplementedError("elements are no batches of one size")
    result = chain.made
    if result.assemble is not None:
        raise UnimplementedError("it makes something else than arrays")
    source, before = host.source, host.stages
    given = source.made(before).given
    if isinstance(source, FixedLengthSource) and not before:
        # A record without stages has no known names, by which the first stage may ask for fields.
        given = record_stage(source.record).bind((Component(BYTES, (), source.record.record_bytes),)).outputs
    widening = Widening(given, chain.stages[len(before) :], result.template, arrays)
    widening.kernel([0] * len(given))
    return widening


def device_dataset(chain: Chain, device: str, buffers: SupportsIndex, mode: str, pinned: str) -> DeviceDataset:
    """Return the dataset for a user's arguments."""
    target, count = target_of(device, buffers, mode, pinned)
    return DeviceDataset(chain, target, Asked(device, count, mode, pinned))


def goes_as_it_lies(chain: Chain) -> bool:
    """Return whether the slots of a chain's native stream can be copied as they are."""
    given = chain.native(chain.options).elements
    if given.assemble is not None or given.pads:
        return False
    if given.components is None:
        return bool(given.leaves) and all(leaf[0].kind in KINDS for leaf in given.leaves)
    return all(kind == FIXED and dtype.kind in KINDS for kind, dtype, _ in given.components)


class StagedIterator(Staging, IteratorBase):
    """Elements of an iterator, with their arrays on a device."""

    _elements: Iterator

    def __len__(self) -> int:
        """Return the number of elements that are left; see `Iterator`."""
        over = self._closed or self._ended
        return 0 if over else left_after(self._elements, self._state["position"]["elements"])

    @property
    def element_spec(self) -> Any:
        """The structure of an element."""
        return self._elements.element_spec

    @property
    def output_classes(self) -> Any:
        """The classes of an element."""
        return self._elements.output_classes

    def stages(self) -> list[dict[str, Any]]:
        """Return where the time goes; see `Iterator.stages`. The consumer is the thread that sends elements on."""
        return self._elements.stages()

    def trace(self, path: Filename, *, mask: bool = False) -> Trace:
        """Draw what the native threads do from now on; see `Iterator.trace`. As `stages`; the copies have no row."""
        return self._elements.trace(path, mask=mask)
