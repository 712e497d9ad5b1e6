"""What a dataset does, in words: its steps as a tree, and where each of them runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from queuecore.data import _calls
from queuecore.data._nodes import Node
from queuecore.data._ops import Map, Prefetch
from queuecore.data._source import FixedLengthSource

if TYPE_CHECKING:
    from queuecore.data.dataset import Dataset

__all__ = ["lines_of", "source_label", "step_labels"]


def step_labels(dataset: Dataset) -> list[str]:
    """Return the steps of a dataset's own stream, in their order."""
    labels = []
    for op in dataset._ops:
        words = op.describe() or ["prefetch", *vars(op).values()]
        shown = [str(word) if isinstance(op, Map) else repr(word) for word in words[1:]]
        labels.append(f"{words[0]}({', '.join(shown)})")
    return labels


def source_label(dataset: Dataset) -> str:
    """Return a dataset's source."""
    source = dataset._source
    if isinstance(source, Node):
        return source.label()
    count = len(source.files)
    files = os.fsdecode(source.files[0]) if count == 1 else f"{count} files"
    if isinstance(source, FixedLengthSource):
        files += f", {source.record.record_bytes} bytes a record"
    return f"{source.name} of {files}"


def lines_of(dataset: Dataset, front: str = "", kept: Mapping[int, str] | None = None) -> list[tuple[str, str]]:
    """Return what is done and where it is done, the last step first, the inputs of a node behind it and further in.

    Parameters
    ----------
    dataset : Dataset
        All of it is done on the host.
    front : str
        What lines begin with.
    kept : mapping of int to str, optional
        Where a device follows: for steps that are marked for it, by their place, what keeps them on the host; where it
        says nothing, that is a step behind them.
    """
    lines = []
    for at, (op, label) in reversed(list(enumerate(zip(dataset._ops, step_labels(dataset), strict=True)))):
        what = ": how far ahead" if isinstance(op, Prefetch) else "" if isinstance(op, Map) else ": order"
        if kept is not None and isinstance(op, Map) and op.on_device:
            what += f"; not on the device: {kept.get(at, 'a step behind it is done on the host')}"
        lines.append((front + label, "native" + what))
    source = dataset._source
    if not isinstance(source, Node):
        lines.append((front + source_label(dataset), "native: read, cut"))
        return lines
    where = source.where()
    if kept is not None and isinstance(source, _calls.Map) and source.on_device:
        where += "; not on the device: it runs in Python"
    lines.append((front + source.label(), where))
    for one in source.inputs:
        lines += lines_of(one, front + "    ", None if kept is None else {})
    return lines
