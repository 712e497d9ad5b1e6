"""Files named by a chain: one native stream reads their records."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from queuecore._core.io.names import FileList
from queuecore._elements.component import BYTES
from queuecore._io import remote
from queuecore._io.names import name_to_read
from queuecore.data._nodes.arrays import Slices
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.pad_shards import Padded
from queuecore.data._nodes.permute import Permuted, numbers_at
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.blocks import BlockSource, blocks_of_fixed
from queuecore.data._plan.chain import Chain, Chained, chain_of
from queuecore.data._plan.fixed import FixedLengthSource
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Prefetch, Repeat, Shard, Shuffle, Skip, Take, Unknown
from queuecore.data._rows.chunks import Failed, Rows
from queuecore.data._rows.columns import compacted

__all__ = ["Named", "of_names", "uniform"]

# Bytes of a chunk of records.
_CHUNK_BYTES = 512 << 10

# Files of which a stream is made: each pass takes their names.
_MOST_FILES = 1 << 20

# Names that any function is called with beforehand, to find out whether it makes the same of each.
_MOST_NAMES = 1000


@dataclass(frozen=True, eq=False)
class Named(Node):
    """The records of files named by the input, whose order differs in each pass: one native stream a pass.

    Attributes
    ----------
    method : str
        The method that the user called.
    source : BlockSource or FixedLengthSource
        The source of any such files.
    """

    name = "interleave"

    method: str
    source: BlockSource | FixedLengthSource

    def words(self) -> dict[str, Any]:
        return {"files": self.source.describe()}

    def label(self) -> str:
        cycle, block = self.source.interleave if isinstance(self.source, BlockSource) else (1, 1)
        return f"{self.method}({self.source.name}, {cycle}, {block})"

    def where(self) -> str:
        return "native: one stream a pass, whose rows Python hands on, a chunk at a time"

    def count(self, min_count: int | None) -> int:
        raise Unknown

    def layout(self) -> Layout:
        made = self.source.made([])
        return Layout(made.given, made.template, made.structure)

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Rows | Failed]:
        with contextlib.closing(run.elements(0, pass_)) as elements:  # whose errors are those of the list
            names = [name_to_read(bytes(name)) for name in elements]
        if not names:
            return
        chain = Chain(replace(self.source, files=FileList(names, self.source.files.store)))
        guess = self.source.guess if isinstance(self.source, BlockSource) else 1
        most = max(_CHUNK_BYTES // guess, 1)
        yield from run.rows_of(chain, 0, start, most, True)


def shapes_of_components(layout: Layout) -> list[Any]:
    return [(one.dtype, one.shape, one.ragged) for one in layout.components or ()]


def of_names(
    chain: Chain, function: Callable[..., Any], method: str, cycle: int, block: int
) -> Named | BlockSource | FixedLengthSource | None:
    """Return the source of records of interleaved files, if a chain consists of their names; otherwise `None`.

    As `uniform`; a node where the names come in an order that is drawn for each pass.
    """
    with remote.listed_by(chain.source.lister()):
        found = uniform(chain, function)
    if found is None:
        return None
    source, names = found, [found.files[index] for index in range(len(found.files))]
    if isinstance(source, BlockSource):
        source = replace(source, interleave=(cycle, block))
    elif cycle > 1:
        source = replace(blocks_of_fixed(source), interleave=(cycle, block))
    if not isinstance(chain.source, Slices) or any(isinstance(step, Shuffle) for step in chain.steps):
        return Named((chain,), method, source)
    numbers = numbers_at(chain, np.arange(chain.known_count() or 0, dtype=np.int64))
    if not len(numbers):
        return None
    return replace(source, files=FileList([names[number] for number in numbers.tolist()], source.files.store))


def uniform(chain: Chain, function: Callable[..., Any]) -> BlockSource | FixedLengthSource | None:
    """Return the source of all files, if a chain consists of their names and a function makes records of each.

    Parameters
    ----------
    chain : Chain
        Of names that are known beforehand, of which some may be left out or come several times, in any order.
    function : callable
        Called with each name; if it is a class of dataset, or a partial call of one, with the first two.

    Returns
    -------
    source or None
        With all files, in the order of the names before any step. `None`: it is not so simple.
    """
    total = chain.known_count()
    if total is None or total > _MOST_FILES:
        return None
    while isinstance(chain.source, Permuted | Padded) and _chooses(chain):
        chain = chain.source.inputs[0]
    source = chain.source
    if not isinstance(source, Slices) or not _chooses(chain):
        return None
    if source.given.template != 0 or shapes_of_components(source.given) != [(BYTES, (), False)]:
        return None
    rows = source.rows
    data, ends, _ = compacted(rows.columns, rows.first, rows.n, rows.rows)[0]
    text = data.tobytes()
    names = [text[first:end] for first, end in itertools.pairwise(ends.tolist())]
    callee = function.func if isinstance(function, functools.partial) else function
    if not isinstance(callee, type) and len(names) > _MOST_NAMES:
        return None
    sources: list[Any] = []
    facts: list[Any] = []
    paths: list[bytes] = []
    for index, name in enumerate(names):
        try:
            paths.append(name_to_read(name))
            if index > 1 and isinstance(callee, type):
                continue
            dataset = function(name)
        except Exception:  # noqa: BLE001 - it comes out where it belongs, when elements are asked for
            return None
        chain_of_one = chain_of(dataset) if isinstance(dataset, Chained) else None
        if chain_of_one is None or chain_of_one.steps or chain_of_one.options.has_effect:
            return None
        file_source = chain_of_one.source
        if not isinstance(file_source, BlockSource | FixedLengthSource) or not file_source.takes_any_files:
            return None
        if len(file_source.files) != 1 or file_source.files[0] != paths[-1]:
            return None
        sources.append(file_source)
        facts.append(_facts(file_source))
        if facts[0] != facts[-1]:
            return None
    if not sources:
        return None
    files = FileList(paths, sources[0].files.store)
    source_of_all: BlockSource | FixedLengthSource = replace(sources[0], files=files)
    return source_of_all


def _chooses(chain: Chain) -> bool:
    return all(isinstance(step, Take | Skip | Repeat | Shard | Shuffle | Prefetch) for step in chain.steps)


def _facts(source: BlockSource | FixedLengthSource) -> list[Any]:
    # Formats and stages are what the words of the source say of them.
    apart = ("files", "csv", "first", "record", "headings")
    facts = [getattr(source, one.name) for one in fields(source) if one.name not in apart]
    return [type(source), source.describe(), facts, source.files.store]
