"""Sources, and the chains of steps behind them: every dataset is one.

A source may take its elements from other chains, its inputs, so the two know each other. This module knows neither the
kinds of sources nor `queuecore.data.Dataset`, by which users hold a chain.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from queuecore import _machine
from queuecore._checks.lazy import once, without_kept
from queuecore._core.io.names import FileList
from queuecore._core.stream.describe import Description, Ops
from queuecore._core.stream.marks import ShuffleCounter
from queuecore._elements.nests import mapped
from queuecore._elements.record import DatasetSpec
from queuecore._io import remote
from queuecore._ops.stage import Stage
from queuecore.data._plan.made import Layout, Made, row_bytes_of
from queuecore.data._plan.specs import class_of, classes_of
from queuecore.data._plan.steps import (
    BatchStep,
    Count,
    Map,
    Permute,
    PlannedStep,
    Prefetch,
    Repeat,
    ShapedBatch,
    Shard,
    Shuffle,
    Unknown,
)
from queuecore.data.options import Options, check_threads
from queuecore.errors import InvalidArgumentError, QueueCoreError, shown_name

__all__ = [
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Chain",
    "Chained",
    "Source",
    "chain_of",
    "dataset_of",
    "register",
]

INFINITE_CARDINALITY = -1
"""The answer of `Dataset.cardinality` for an endless dataset."""

UNKNOWN_CARDINALITY = -2
"""The answer of `Dataset.cardinality` where only reading the files would tell."""

_DEFAULT_MOST_THREADS = 8
# The bytes and the rows that are handed from one native stream to another at a time.
_CHUNK_BYTES = 512 << 10
_CHUNK_ROWS = 16384
# The count of an endless repeat where the passes of a shuffle are numbered; more elements than are ever made ahead.
_MANY = 1 << 20


class Source(abc.ABC):
    """The origin of elements: files, or whatever a node hands in. Immutable.

    Attributes
    ----------
    name : str
        The user's name for it.
    files : FileList
        The files that the source's own native stream reads.
    num_threads : int or None
        The number of threads that a user gave it.
    inputs : tuple of Chain
        The chains that the source takes its elements from.
    """

    name: str
    files: FileList
    num_threads: int | None
    inputs: tuple[Chain, ...]

    # Whether a Python thread hands the elements in.
    fed: ClassVar[bool] = False
    # Whether it only hands on what it has, or what its inputs give: it never waits for code of a user's.
    hands_on: ClassVar[bool] = False
    # Whether it uses the first pass of its first input for all of its own passes.
    keeps: ClassVar[bool] = False
    # Whether it would read any other files by the same rules, so that the sources of many files may become one.
    takes_any_files: ClassVar[bool] = False
    # Whether it has elements; one without them only keeps the settings of the node that it is an input of.
    has_elements: ClassVar[bool] = True
    # How many elements of its input it takes for one of its own, one by one; 0: any number, or rows.
    at_a_time: int = 0
    # Whether a user marked its function for a device, where it can't run.
    on_device: bool = False

    @abc.abstractmethod
    def count(self, min_count: int | None) -> Count:
        """Return the number of elements, or any number not below `min_count` once that many are certain.

        Raises
        ------
        Unknown
            If only making the elements would tell.
        QueueCoreError
            The error of a reader on its way to the element `min_count`.
        """

    @abc.abstractmethod
    def made(self, stages: list[Stage]) -> Made:
        """Return the result of stages on an element."""

    @abc.abstractmethod
    def native(self, stages: list[Stage]) -> Description:
        """Return the description for the native stream."""

    @abc.abstractmethod
    def limited(self, max_record_bytes: int | None) -> Source:
        """Return this source with another limit for the bytes of a record; `None` keeps the limit."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what decides the elements, as plain values."""

    def read_files(self) -> FileList:
        """Return the files that the source reads, natively or in Python, without those of its inputs."""
        return self.files

    def check_sizes(self) -> None:
        """Raise an error if a file's size says that it can't be read to its end: of files of its own, and of inputs."""
        for one in self.inputs:
            one.source.check_sizes()

    def label(self) -> str:
        """Return the user's name for the source, in one line."""
        count, more = self.files.known, "" if self.files.whole else " and more"  # whose folders are being listed
        return f"{self.name} of {shown_name(self.files[0]) if count == 1 else f'{count} files'}{more}"

    def where(self) -> str:
        """Return where the source's work is done, and what forces it into Python."""
        work = self.work()
        return f"native: {work}; fsspec reads, in threads of Python's" if self.files.remote else f"native: read, {work}"

    def work(self) -> str:
        """Return in words what is done with the bytes of files."""
        return "cut"

    def cold(self, options: Options) -> str:
        """Return what reads the bytes of local files that the page cache doesn't have; empty if there are no files."""
        del options
        return ""

    @property
    def gives_many(self) -> bool:
        """True if native steps can get many records of the source at once: the shape of each is known."""
        return True

    @property
    def has_objects(self) -> bool:
        """True if the elements are Python objects."""
        return False

    @property
    def is_quick(self) -> bool:
        """True if no code of a user's makes the elements, so that a chunk of them never waits long for its last one."""
        return not self.fed or (self.hands_on and all(chain.source.is_quick for chain in self.inputs))

    @property
    def keeps_workers(self) -> bool:
        """True if workers have work all the time that the consumer's thread can't help with."""
        return False

    @property
    def uses_up(self) -> bool:
        """True if nothing that it took from its inputs is kept for a later element: then their order doesn't matter."""
        return False

    def leaves_free(self, options: Options) -> bool:
        """Return whether the source leaves the order of its elements free, and so notes it."""
        del options
        return False

    def is_free(self, options: Options) -> bool:
        """Return whether it, or a source below it, leaves the order of its elements free."""
        return self.leaves_free(options) or any(chain.is_free(options) for chain in self.inputs)

    def lister(self) -> remote.RemoteStore | None:
        """Return by what URLs are opened that come as elements, if they were listed with options of a store."""
        stores = (chain.source.lister() for chain in self.inputs)
        return next((store for store in stores if store is not None), None)

    @property
    def by_number(self) -> bool:
        """True if the source has `chosen`."""
        return False

    def chosen(self, index: np.ndarray[Any, Any]) -> Any:
        """Return the elements of an array of their numbers, which stay the same in every pass."""
        raise NotImplementedError

    def streams(self) -> int:
        """Return how many native streams work for the source at a time and share the memory budget."""
        return sum(chain.streams() for chain in self.inputs)

    def feeder(self, run: Any) -> Any:
        """Return the starter of the thread that hands the elements in, if there is one; `run`: the iterator's."""
        raise NotImplementedError

    def reserved(self, needs: list[int]) -> list[int]:
        """Take as many passes of each of the inputs' shuffles as one run needs; return the number of each first one."""
        del needs
        return []


@dataclass(frozen=True, eq=False)
class Chain:
    """A source, and the steps behind it. Immutable.

    Attributes
    ----------
    source : Source
    steps : tuple of Step
    options : Options
    """

    source: Source
    steps: tuple[PlannedStep, ...] = ()
    options: Options = Options()

    @classmethod
    def of(cls, source: Source) -> Chain:
        """Return a source without steps, with the options of its inputs."""
        options = cls.options  # the default: none is set
        for one in source.inputs:
            if one.options is not cls.options:
                options = options.merged(one.options)
        return cls(source, (), options)

    def then(self, *steps: PlannedStep) -> Chain:
        """Return this chain with further steps."""
        return replace(self, steps=(*self.steps, *steps))

    def with_options(self, options: Options) -> Chain:
        """Return this chain with the options that `options` sets replaced."""
        if not isinstance(options, Options):
            raise InvalidArgumentError(f"options must be a queuecore.data.Options, not {options!r}")
        merged = self.options.merged(options)
        if options.cache_dir is not None:
            remote.kept(None, merged)  # whether it can be used
        return replace(self, options=merged)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: everything that can't be made again."""
        return without_kept(vars(self))

    # -- elements ------------------------------------------------------------------------------------------------------

    @property
    def stages(self) -> list[Stage]:
        """The stages of the maps."""
        return [step.stage for step in self.steps if isinstance(step, Map)]

    @property
    def batches(self) -> list[BatchStep]:
        """The batches, the first one first."""
        return [step for step in self.steps if isinstance(step, BatchStep)]

    @property
    def shaped(self) -> ShapedBatch | None:
        """The padded or ragged batch, if there is one."""
        return next((step for step in self.steps if isinstance(step, ShapedBatch)), None)

    @property
    @once
    def made(self) -> Made:
        """The result of all stages on a record."""
        return self.source.made(self.stages)

    def check(self) -> None:
        """Raise `InvalidArgumentError` if a stage can't work on its input."""
        self.source.made(self.stages)

    @property
    @once
    def layout(self) -> Layout:
        """The components and the structure of the elements."""
        if self.source.has_objects or self.batches:
            return Layout(None)
        result = self.made
        return Layout(result.given, result.template, result.structure)

    @property
    def element_spec(self) -> Any:
        """The specification of an element; `None` if it is unknown."""
        dims: tuple[int | None, ...] = ()
        for batch in self.batches:
            dims = (batch.batch_size if batch.drop_remainder else None, *dims)
        shaped = self.shaped
        spec = self.made.spec(dims) if shaped is None else shaped.specs(dims)
        return mapped(lambda leaf: leaf, spec)  # dicts of its own

    @property
    def element_classes(self) -> Any:
        """The classes of an element, in its structure."""
        shaped = self.shaped
        if shaped is not None:
            return mapped(shaped.class_of, shaped.specs(()))
        if self.source.has_objects:
            spec = self.element_spec
            return object if spec is None else mapped(_class_of, spec)
        return classes_of(self.made, bool(self.batches))

    def chunk_rows(self, budget: int = 0) -> int:
        """Return how many elements make a chunk of rows, within a budget of bytes; 0: no limit."""
        row_bytes = sum(row_bytes_of(one) for one in self.made.components)
        chunk_bytes = min(_CHUNK_BYTES, budget // 32) if budget else _CHUNK_BYTES
        return max(min(chunk_bytes // max(row_bytes, 1), _CHUNK_ROWS), 1)

    # -- how many ------------------------------------------------------------------------------------------------------

    def count(self, min_count: int | None = None, depth: int | None = None) -> Count:
        """Return the number of elements, or any number not below `min_count` once that many are certain.

        Parameters
        ----------
        min_count : int or None
            `None`: all that there are.
        depth : int, optional
            Number of steps to include. Default: all.

        Raises
        ------
        Unknown
            If only reading them would tell.
        QueueCoreError
            The error of a reader on its way to these elements.
        """
        depth = len(self.steps) if depth is None else depth
        if min_count == 0:  # nothing is asked of what is below, so nothing there can fail
            return 0
        if depth == 0:
            with remote.looked_at(self.options):
                return self.source.count(min_count)
        return self.steps[depth - 1].count(min_count, lambda below: self.count(below, depth - 1))

    def cardinality(self) -> int:
        """Return the number of elements; `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY` if there is no number."""
        try:
            total = self.count()
        except Unknown:
            return UNKNOWN_CARDINALITY
        return INFINITE_CARDINALITY if isinstance(total, float) else total

    def known_count(self, min_count: int | None = None) -> Count | None:
        """Return the number of elements as `count` does; `None` if only reading them would tell."""
        try:
            return self.count(min_count)
        except (Unknown, QueueCoreError):  # an error comes out where it belongs, when the elements are read
            return None

    def endless(self, min_count: int | None) -> float:
        """Return infinity, if these elements have no end. `Unknown`: only reading tells how many are made of them."""
        if min_count is None and self.known_count() == math.inf:
            return math.inf
        raise Unknown

    def check_shards(self) -> None:
        """Raise `InvalidArgumentError` if a shard with ``uneven="raise"`` gets another number than the others."""
        for depth, step in enumerate(self.steps, 1):
            if isinstance(step, Shard) and step.uneven == "raise":
                try:
                    self.count(None, depth)
                except Unknown:
                    pass
                except InvalidArgumentError:
                    raise
                except QueueCoreError:  # a file that can't be read is an error in its place in the order
                    pass

    # -- shuffles ------------------------------------------------------------------------------------------------------

    @property
    def own_shuffles(self) -> list[Shuffle | Permute]:
        """The shuffles among the steps."""
        return [step for step in self.steps if isinstance(step, Shuffle | Permute)]

    @property
    def shuffles(self) -> list[Shuffle | Permute]:
        """The shuffles among the steps, and those of the inputs."""
        return self.own_shuffles + [shuffle for chain in self.source.inputs for shuffle in chain.shuffles]

    def iterations(self, is_repeat: bool = False) -> list[int]:
        """Return, for each shuffle, how many of its passes one pass over this chain takes.

        `is_repeat`: the next pass over this chain, for which kept elements need none.
        """
        needs: list[int] = []
        pass_count = 1
        for step in reversed(self.steps):
            if isinstance(step, Repeat):
                pass_count *= _MANY if step.number < 0 else max(step.number, 1)
            elif isinstance(step, Shuffle | Permute):
                needs.insert(0, pass_count)
        for index, one in enumerate(self.source.inputs):
            times = int(not is_repeat) if self.source.keeps and index == 0 else pass_count
            needs += [times * need for need in one.iterations(is_repeat)]
        return needs

    # -- how it runs ---------------------------------------------------------------------------------------------------

    def streams(self) -> int:
        """Return how many native streams run for the chain at a time."""
        return 1 + self.source.streams()

    def is_free(self, options: Options) -> bool:
        """Return whether its source, or one below that, leaves the order of elements free."""
        return self.source.is_free(self.options.merged(options))

    def threads(self, options: Options | None = None) -> tuple[int, bool]:
        """Return how many threads read, and whether the consumer's thread helps them."""
        wanted = check_threads((options or self.options).num_threads, "num_threads") or self.source.num_threads
        if wanted is not None:
            return wanted, wanted != 1
        # One CPU is the consumer's own: with few of them a worker more would only take turns with it, if it helps.
        cpus = _machine.cpus() - (0 if self.source.keeps_workers else 1)
        return min(max(cpus, 1), _DEFAULT_MOST_THREADS), True

    def prefetch_elements(self) -> int:
        """Return how many elements are made ahead; -1: the library chooses."""
        peak = -1
        stacked = 1
        for step in reversed(self.steps):
            if isinstance(step, BatchStep):
                stacked *= step.batch_size
            elif isinstance(step, Prefetch) and step.buffer_size > 0:
                # A prefetch below a batch counts what goes into batches.
                peak = max(peak, -(-step.buffer_size // stacked))
        return peak

    def ahead_elements(self) -> int:
        """Return how many elements the last steps make ahead of the consumer, and no more; -1: the library chooses."""
        ahead = -1
        for step in reversed(self.steps):
            if isinstance(step, Prefetch):
                if step.buffer_size < 0:
                    return -1
                ahead = min(max(ahead, 0) + step.buffer_size, _MANY)
            elif not isinstance(step, Map):
                break
        return ahead

    def native(self, options: Options) -> Description:
        """Return the description of the source and the maps for the native stream."""
        given = self.source.limited(options.max_record_bytes).native(self.stages)
        shaped = self.shaped
        if shaped is not None:
            given.elements = given.elements.changed(**shaped.changes)
        return given

    def add_steps(self, ops: Ops, seeds: Sequence[tuple[tuple[int, int], ShuffleCounter]]) -> None:
        """Add the steps to a native order; `seeds`: the pair and the counter of each shuffle among them."""
        given = iter(seeds)
        for one in self.steps:
            if isinstance(one, Shuffle | Permute):
                one.add_to(ops, *next(given))
            else:
                one.add_to(ops)

    # -- what a state says of it ---------------------------------------------------------------------------------------

    def names(self) -> tuple[int, int]:
        """Return the number of files, those of inputs included, and the digest of their names."""
        count, digest = len(self.source.files), self.source.files.digest
        for one in self.source.inputs:
            more, other = one.names()
            count, digest = count + more, (digest * 0x9E3779B97F4A7C15 + other) % 2**64
        return count, digest

    def file_lists(self) -> Iterator[FileList]:
        """Yield the list of the source's files, then those of the inputs."""
        yield self.source.read_files()
        for one in self.source.inputs:
            yield from one.file_lists()

    def paths(self) -> Iterator[bytes]:
        """Yield the names of the files, then those of the inputs."""
        for files in self.file_lists():
            yield from (files[index] for index in range(len(files)))

    def describe(self) -> dict[str, Any]:
        """Return what decides the elements and their order, as plain values."""
        steps = [words for words in (step.describe() for step in self.steps) if words is not None]
        return {"source": self.source.describe(), "ops": steps}


class Chained:
    """The base class of `queuecore.data.Dataset`, by which a user holds a chain."""

    _chain: Chain

    @property
    def element_spec(self) -> Any:
        """The structure of an element."""
        raise NotImplementedError

    def __iter__(self) -> Any:
        """Return an iterator over the elements."""
        raise NotImplementedError

    @classmethod
    def _of(cls, chain: Chain) -> Self:
        made = object.__new__(cls)
        made._chain = chain
        return made


_public: type[Chained] = Chained


def register(public: type[Chained]) -> None:
    """Register the class of users' datasets: `queuecore.data.dataset` stands above."""
    global _public
    _public = public


def dataset_of(chain: Chain) -> Any:
    """Return the dataset of a chain, for a user."""
    return _public._of(chain)


def chain_of(dataset: Chained) -> Chain:
    """Return the chain of a user's dataset."""
    return dataset._chain


def _class_of(spec: Any) -> type[Any]:
    return _public if isinstance(spec, DatasetSpec) else class_of(spec)
