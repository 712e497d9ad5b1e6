"""Stage programs: what a native thread of a `QueueRunner` does, over and over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from queuecore._core.programs import NativeProgram
from queuecore._core.readers import NativeReader
from queuecore._core.runtime import StopEvent
from queuecore._core.stages import Step
from queuecore._ops_numbers import merged
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ops import Component, Stage
from queuecore.queues import QueueBase, _Component, _text
from queuecore.readers import ReaderBase, _check_names, _check_names_queue

__all__ = ["StageProgram"]


class StageProgram:
    """Read records, run native operations on them, and hand over the results: an op of `QueueRunner`, without the GIL.

    Parameters
    ----------
    reader : ReaderBase
        Gives the records: any but an `LMDBReader`. Threads that share it take their records in turn, from one file at a
        time; for several files at once give each program a reader of its own.
    work : QueueBase or iterable
        Names of files, as in ``reader.read``. Programs that share a reader must name the same `work`.
    *ops : Stage
        What `queuecore.ops` return when they are given no input. The first gets the record's value, each further one
        what the one before it made. Without any, elements are the record's key and value. Neighbours that can share a
        pass over the element do, as in `queuecore.ops.compose`.

    Raises
    ------
    InvalidArgumentError
        If it is no reader, no such work, or an operation that doesn't fit what it gets.

    Notes
    -----
    A runner's thread runs the program from the first record to the last without taking the GIL; names that come from a
    Python iterable are the exception, one at a time. ``queue`` gets one element for each record: its components, in
    their order, or by name where both sides have names. Their dtypes must be the queue's: nothing is cast.

    An error says which record of which file it was, and closes the queue with it as the cause. A record that a stop or
    a close finds on its way into the queue is lost, as in TensorFlow.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, queuecore as qc
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.bin")
    >>> _ = file.write_bytes(bytes(range(6)))
    >>> queue = qc.FIFOQueue(10, [np.uint8], [(3,)])
    >>> program = qc.StageProgram(qc.FixedLengthRecordReader(3), [file], qc.ops.decode_raw(out_type=np.uint8))
    >>> coord = qc.Coordinator()
    >>> threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
    >>> sorted(row.tolist() for row in queue)
    [[0, 1, 2], [3, 4, 5]]
    >>> coord.join(threads)
    """

    def __init__(self, reader: ReaderBase, work: QueueBase | Iterable[Any], *ops: Stage) -> None:
        if not isinstance(reader, ReaderBase):
            raise InvalidArgumentError(f"reader must be one of queuecore's readers, not {reader!r}")
        native = reader._native
        if not isinstance(native, NativeReader):
            raise InvalidArgumentError(
                f"{reader!r} needs Python for each record, so no native program can read from it. Enqueue what it "
                "reads in a Python op of the QueueRunner, or write the records to TFRecord files first"
            )
        if isinstance(work, QueueBase):
            _check_names_queue(work)
        else:
            _check_names(work)
        components: tuple[Component, ...] = reader._components()
        steps: list[Step] = []
        for op in ops:
            if not isinstance(op, Stage):
                raise InvalidArgumentError(
                    f"{op!r} is no native stage: an operation of queuecore.ops, called without input, makes one"
                )
        for op in merged(ops):
            steps.append(op.bind(components if steps else components[1:]))
            components = steps[-1].outputs
        self._reader = reader
        self._work = work
        self._ops = ops
        self._outputs = components
        self._native = NativeProgram(native, steps)

    @property
    def outputs(self) -> tuple[Component, ...]:
        """The components of its elements."""
        return self._outputs

    def __repr__(self) -> str:
        """Return reader, work and operations."""
        return f"StageProgram({', '.join(map(repr, (self._reader, self._work, *self._ops)))})"

    def check(self, queue: QueueBase) -> None:
        """Raise `InvalidArgumentError` if its elements are not those of the queue."""
        self._plan(queue)

    def start(self, queue: QueueBase, stop: StopEvent) -> None:
        """Fill the queue until `stop` is set, or an error; the end of the work is an `OutOfRangeError`."""
        order, placed = self._plan(queue)
        work = self._work
        # Strings of a fixed number of characters are UCS-4, and objects are Python's.
        if isinstance(work, QueueBase) and (work.dtypes[0].kind == "S" or work.dtypes[0] == np.dtype("U")):
            self._native.run(queue._native, stop, work._native, None, order, placed)
        else:
            self._native.run(queue._native, stop, None, self._reader._next_name(work), order, placed)

    def _plan(self, queue: Any) -> tuple[list[int], list[int]]:
        """Return which output each component of the queue gets, and in whose place each output may be made."""
        if not isinstance(queue, QueueBase):
            raise InvalidArgumentError(f"a stage program fills queuecore's queues, not {queue!r}")
        components = queue._components
        if len(components) != len(self._outputs):
            raise InvalidArgumentError(
                f"{queue.name!r} has {len(components)} components, and {self!r} makes {len(self._outputs)}"
            )
        order = list(range(len(components)))
        labels = [one.name for one in self._outputs]
        if queue.names is not None and None not in labels:
            if set(queue.names) != set(labels):
                raise InvalidArgumentError(f"{queue.name!r} has the names {queue.names}, and {self!r} makes {labels}")
            order = [labels.index(label) for label in queue.names]
        placed = [-1] * len(components)
        for index, component in enumerate(components):
            made = self._outputs[order[index]]
            self._check_component(component, made)
            if component.shape is not None and made.shape == component.shape and None not in component.shape:
                placed[order[index]] = index
        return order, placed

    def _check_component(self, component: _Component, made: Component) -> None:
        if component.dtype != made.dtype:
            raise DtypeError(f"{component.label}: expected {_word(component)}, got {made.dtype} from {self!r}")
        if component.shape is None or made.shape is None:
            return
        if len(component.shape) != len(made.shape) or any(
            None not in (side, there) and side != there
            for side, there in zip(component.shape, made.shape, strict=False)
        ):
            raise InvalidArgumentError(
                f"{component.label}: expected shape {_text(component.shape)}, got {_text(made.shape)} from {self!r}"
            )


def _word(component: _Component) -> str:
    return {"S": "bytes", "U": "str", "O": "objects"}.get(component.dtype.kind, str(component.dtype))
