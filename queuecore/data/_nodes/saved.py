"""Datasets saved in a directory: written once, and loaded by any program.

The files are those of a cache, and the index also says what elements are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from queuecore._checks.usercode import called_at, name_of
from queuecore._elements.component import BYTES, Component
from queuecore._elements.dtypes import as_dtype, is_bfloat16
from queuecore._elements.nests import apart, bare, mapped
from queuecore._elements.record import ArraySpec, SparseSpec
from queuecore.data._nodes.arrays import Items
from queuecore.data._nodes.asserted import AssertCardinality
from queuecore.data._nodes.cache_files import Files, Index, Lock, Paths
from queuecore.data._nodes.cache_store import Key
from queuecore.data._nodes.run import open_chain, rows_of
from queuecore.data._nodes.snapshot import OneShard, ShardWriter, in_turns
from queuecore.data._plan.chain import Chain, Chained, chain_of, dataset_of
from queuecore.data._plan.made import Layout
from queuecore.data._plan.specs import fits
from queuecore.data._plan.steps import BatchStep
from queuecore.data._rows.chunks import Chunk, Objects
from queuecore.data._rows.elements import flattened
from queuecore.errors import AbortedError, DtypeError, FailedPreconditionError, InvalidArgumentError, NotFoundError

__all__ = ["loaded", "save"]

_STAGE = "save"


def _paths(path: str) -> Paths:
    name = os.path.join(path, "dataset")
    return Paths(f"{name}.index", f"{name}.data-00000-of-00001", f"{name}_0.lockfile")


def save(chain: Chain, path: str, compress: bool, shard: Callable[..., Any] | None) -> None:
    """Write all elements of a chain; see `Dataset.save`."""
    os.makedirs(path, exist_ok=True)
    paths = _paths(path)
    lock = Lock(paths.lock)
    owner = lock.take()
    if owner is not None:
        raise AbortedError(f"{path} is being written by {owner} (the lock is {paths.lock})", path=path, stage=_STAGE)
    store = Files(os.path.join(path, "dataset"), compress=compress)
    try:
        writer = _SavedWriter(shard, chain, store, paths, Key([], []), lock)
    except BaseException:
        lock.give()
        raise
    try:
        with contextlib.closing(_chunks(chain)) as chunks:
            for chunk in chunks:
                writer.add(chunk)
                if writer.error is not None:
                    raise writer.error
        writer.commit(False)
    except BaseException:
        writer.abandon()
        raise


def _chunks(chain: Chain) -> Generator[Chunk]:
    chain.check_shards()
    if chain.layout.components is not None:
        yield from rows_of(open_chain(chain.then(BatchStep(chain.chunk_rows(), False))))
        return
    with open_chain(chain) as elements:
        for element in elements:
            yield Objects([element])


class _SavedWriter(ShardWriter):
    """Writes elements, and what they are. Without a function all are one shard."""

    def _by_number(self, first: int, stop: int) -> np.ndarray[Any, Any]:
        return np.zeros(stop - first, np.int64)

    def plain(self, element: Any) -> Any:
        return bare(element)

    def more(self) -> dict[str, Any]:
        layout, spec = self._dataset.layout, self._dataset.element_spec
        saved: dict[str, Any] = {"spec": ["unknown"] if spec is None else mapped(_said, bare(spec)), "rows": None}
        if layout.components is not None:
            leaves = flattened(spec, lambda leaf, where: leaf)[1]
            numbers = flattened(layout.template, lambda leaf, where: leaf)[1]
            # Elements that are made by more than their structure come as the user sees them.
            plain = layout.structure is None and len(numbers) == len(leaves)
            saved["rows"] = [list(one._replace(dtype=_word(one.dtype))) for one in layout.components] if plain else None
            saved["template"] = bare(layout.template)
        return {**super().more(), "saved": saved}


def _word(dtype: np.dtype[Any]) -> Any:
    return "bfloat16" if is_bfloat16(dtype) else "bytes" if dtype == BYTES else dtype.str


def _dtype(word: str) -> np.dtype[Any]:
    return BYTES if word == "bytes" else as_dtype(word)


def _said(leaf: Any) -> Any:
    if not isinstance(leaf, ArraySpec):
        raise InvalidArgumentError(f"save: elements that are {leaf!r:.60} can't be written to a file")
    shape = None if leaf.shape is None else list(leaf.shape)
    return ["sparse" if isinstance(leaf, SparseSpec) else "array", _word(leaf.dtype), shape]


def _read(leaf: Any) -> Any:
    if leaf == ["unknown"]:
        return None
    kind, word, shape = leaf
    sides = None if shape is None else tuple(shape)
    return (SparseSpec if kind == "sparse" else ArraySpec)(sides, _dtype(word))


def loaded(path: str, element_spec: Any, reader: Callable[[Any], Any] | None) -> Chain:
    """Return the chain of a saved dataset; see `Dataset.load`."""
    paths = _paths(path)
    try:
        fd = os.open(paths.listing, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"there is no saved dataset in {path}", path=path, stage="load") from error
    try:
        index = Index(paths, fd, os.fstat(fd))
    finally:
        os.close(fd)
    if index.saved is None:
        raise FailedPreconditionError(f"{paths.listing} is of a cache: no dataset was saved here", path=path)
    spec = mapped(_read, index.saved["spec"])
    if element_spec is not None and spec is not None:
        fits(bare(element_spec), spec, "load")
        spec = element_spec
    layout = _layout(index, spec)
    numbers = index.shards() or [0]
    shards = [Chain(OneShard((), index, number, layout, spec)) for number in numbers]
    if reader is None:
        if len(shards) == 1:
            return shards[0]
        made = in_turns(len(shards))(_dataset_of(shards))
        return Chain.of(AssertCardinality((chain_of(made),), index.ends[-1]))
    made = called_at("load", 0, reader, _dataset_of(shards))
    if not isinstance(made, Chained):
        raise DtypeError(f"load: {name_of(reader)} must return a dataset, not {made!r:.60}")
    return chain_of(made)


def _dataset_of(shards: list[Chain]) -> Any:
    return dataset_of(Chain(Items((), list(map(dataset_of, shards)))))


def _layout(index: Index, spec: Any) -> Layout:
    rows = index.saved["rows"]
    if rows is None:
        return Layout(None)
    components = [
        Component(_dtype(word), None if shape is None else tuple(shape), *more) for word, shape, *more in rows
    ]
    template = index.saved["template"]
    if apart(spec) is not None:
        # The user's structure, with its names.
        order = flattened(template, lambda leaf, where: leaf)[1]
        template = mapped(order.__getitem__, flattened(spec, lambda leaf, where: leaf)[0])
    return Layout(tuple(components), template)
