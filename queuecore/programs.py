"""Stage programs: native loops for the threads of a `QueueRunner`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Literal, SupportsIndex

import numpy as np

from queuecore import ops
from queuecore._core.atoms.runtime import StopEvent
from queuecore._core.handoff.programs import NativeProgram
from queuecore._core.io.readers import NativeReader
from queuecore._core.steps.stages import PythonStep, Step
from queuecore._elements.component import shape_text
from queuecore._elements.convert import Converter
from queuecore._io.bad_data import check_on_error
from queuecore._io.names import name_to_read
from queuecore._ops.chain import merged
from queuecore._ops.functions import is_native, python
from queuecore._queues.base import QueueBase
from queuecore._readers.base import ReaderBase
from queuecore._readers.work import check_names, check_names_queue
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ops import Component, Stage

__all__ = ["StageProgram"]


class StageProgram:
    """Read records, run operations on them, and enqueue the results: an op of `QueueRunner`, without the GIL.

    Parameters
    ----------
    reader : ReaderBase
        Gives the records: any but an `LMDBReader`. Threads that share it take their records in turn, from one file at a
        time; for several files at once give each program a reader of its own.
    work : QueueBase or iterable
        Names of files, as in ``reader.read``. Programs that share a reader must name the same `work`.
    *ops : Stage or callable
        Stages: operations of `queuecore.ops` called without input; or Python functions (see `queuecore.ops.python`).
        The first gets the record's value, each further one the results before it. Without any, elements are the
        record's key and value. Neighbours that can share a pass over the element do, as in `queuecore.ops.compose`.
    on_error : {"raise", "skip"}, default "raise"
        How a bad record or file is handled. ``"skip"``: it is left out, counted, and logged; the next one follows.
    max_skips : int, optional
        How many records and files may be left out, by all threads together. The next bad one is raised, with a note.
    quarantine : path, optional
        A log of skipped data, which is appended to: one JSON object a line, with ``path``, ``offset`` (of the
        record, in bytes of the decompressed stream), ``record`` (its index in the file), ``reason`` (the error's
        class), ``message``, ``file`` (whether it is a file, or the rest of one) and ``bytes`` (how many are left out,
        null if unknown). Bytes of a path that are no UTF-8 come back by `json.loads` and `os.fsencode`.

    Raises
    ------
    InvalidArgumentError
        If `reader` or `work` is of another kind, an operation doesn't fit its input, an option is not as described, or
        the log is a file to be read.
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
        If the log can't be written: to a pipe that nobody reads, for example.

    Notes
    -----
    A runner's thread runs the program from the first record to the last without taking the GIL. The exceptions are
    names that come from a Python iterable, one at a time; Python functions, once for each record; and skipped data.
    `explain` says which steps these are. ``queue`` gets one element for each record: its components, in their
    order, or by name where both sides have names. Their dtypes must be the queue's: nothing is cast. If the last step
    is a Python function without ``outputs``, its results are enqueued as by `QueueBase.enqueue`.

    An error names the record and the file, and closes the queue with the error as the cause; earlier records are
    delivered first. An exception of a Python function is the ``__cause__`` of a `PipelineError`, while
    `KeyboardInterrupt` and `SystemExit` come out as they are. Records that a stop or a close finds on their way into
    the queue are lost, as in TensorFlow: of each thread at most 16, or a sixteenth of the queue's capacity.

    What ``on_error="skip"`` leaves out:

    - one record: a checksum of its data that doesn't match, a step or a Python function that refuses it, a shape that
      the queue doesn't take (`DataLossError`, `InvalidArgumentError`, `RecordTooLargeError`, `PipelineError`);
    - a file: one that isn't there, may not be read, or is a directory or a name that can't be one;
    - the rest of a file, in which no further record can be found: a TFRecord whose length is damaged, too long or cut,
      compressed data that are damaged, a line without end, a file that was changed while it was read.

    It never hides errors that are not the data's fault: failed reads, too many open files, no memory; nor these as the
    cause of a `PipelineError`.

    Examples
    --------
    >>> import pathlib
    >>> import numpy as np, queuecore as qc
    >>> file = pathlib.Path("a.bin")
    >>> _ = file.write_bytes(bytes(range(6)))
    >>> queue = qc.FIFOQueue(10, [np.uint8], [(3,)])
    >>> program = qc.StageProgram(qc.FixedLengthRecordReader(3), [file], qc.ops.decode_raw(out_type=np.uint8))
    >>> coord = qc.Coordinator()
    >>> threads = qc.QueueRunner(queue, [program] * 2).create_threads(coord, start=True)
    >>> sorted(row.tolist() for row in queue)
    [[0, 1, 2], [3, 4, 5]]
    >>> coord.join(threads)
    """

    def __init__(
        self,
        reader: ReaderBase,
        work: QueueBase | Iterable[Any],
        *ops: Stage | Callable[..., Any],
        on_error: Literal["raise", "skip"] = "raise",
        max_skips: SupportsIndex | None = None,
        quarantine: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None,
    ) -> None:
        if not isinstance(reader, ReaderBase):
            raise InvalidArgumentError(f"reader must be one of queuecore's readers, not {reader!r}")
        native = reader._native
        if not isinstance(native, NativeReader):
            raise InvalidArgumentError(
                f"{reader!r} needs Python for each record, so no native program can read from it. Enqueue what it "
                "reads in a Python op of the QueueRunner, or write the records to TFRecord files first"
            )
        if isinstance(work, QueueBase):
            check_names_queue(work)
        else:
            check_names(work)
        stages = [op if isinstance(op, Stage) else _stage(op) for op in ops]
        components: tuple[Component, ...] | None = reader._components()
        steps: list[Step] = []
        pairs: list[tuple[Stage, Step]] = []
        for stage in merged(stages):
            steps.append(stage.bind(components if steps or components is None else components[1:]))
            pairs.append((stage, steps[-1]))
            components = steps[-1].outputs
        self._reader = reader
        self._work = work
        self._ops = stages
        self._steps = pairs
        self._outputs = components
        self._quarantine = check_on_error(on_error, max_skips, quarantine)
        if self._quarantine is not None and isinstance(work, (list, tuple)):
            self._quarantine.check_apart(work)
        self._native = NativeProgram(native, steps)

    @property
    def outputs(self) -> tuple[Component, ...] | None:
        """The components of its elements; `None` if a Python function without `outputs` makes them."""
        return self._outputs

    def __repr__(self) -> str:
        """Return reader, work and operations."""
        skips = () if self._quarantine is None else ("on_error='skip'",)
        return f"StageProgram({', '.join((*map(repr, (self._reader, self._work, *self._ops)), *skips))})"

    def explain(self) -> str:
        """Return a line for each step, which says whether it is native, or Python, and why.

        Examples
        --------
        >>> import numpy as np, queuecore as qc
        >>> def halve(values):
        ...     return values // 2
        >>> program = qc.StageProgram(qc.WholeFileReader(), ["a"], qc.ops.decode_raw(out_type=np.uint8), halve)
        >>> print(program.explain())
        names: Python, because they come from an iterable
        WholeFileReader(): native
        decode_raw(uint8): native
        python(halve): Python, because it is a function of Python
        """
        names = "native" if self._names_are_native() else f"Python, because they come from {_source(self._work)}"
        lines = [f"names: {names}", f"{self._reader!r}: native"]
        for stage, step in self._steps:
            how = f"Python, because {step.why}" if isinstance(step, PythonStep) else "native"
            lines.append(f"{stage!r}: {how}")
        return "\n".join(lines)

    def stats(self) -> dict[str, int]:
        """Return counts of the work so far, by all threads that run it.

        Returns
        -------
        dict of int
            ``records``: elements put into the queue. ``skipped``: bad records that were left out. ``skipped_files``:
            files, or rests of files, that were left out. ``skipped_bytes``: the bytes left out, as far as known.

            ``threads``: the most that ran it at once. Their time, added up, in ns: ``blocked_input_ns``, in which they
            waited for names, or for another thread that read; ``blocked_output_ns``, for room in the queue;
            ``busy_ns``, the rest.

        Notes
        -----
        Never blocks. Threads are at work, so the counters need not belong to the same moment.
        """
        counts = {"skipped": 0, "skipped_files": 0, "skipped_bytes": 0}
        return {
            "records": self._native.records,
            **(counts if self._quarantine is None else self._quarantine.counts()),
            **self._native.times.stats(),
        }

    def check(self, queue: QueueBase) -> None:
        """Raise `InvalidArgumentError` if its elements are not those of the queue.

        Parameters
        ----------
        queue : QueueBase
            The queue that the program is to fill.
        """
        self._plan(queue)

    def start(self, queue: QueueBase, stop: StopEvent) -> None:
        """Fill the queue until `stop` is set, or an error; the end of the work is an `OutOfRangeError`.

        Parameters
        ----------
        queue : QueueBase
            The queue that the program fills.
        stop : StopEvent
            Ends all waits of the program when it is set.
        """
        order, places = self._plan(queue)
        work = self._work
        skip = None if self._quarantine is None else self._quarantine.skip
        if isinstance(work, QueueBase) and self._names_are_native():
            self._native.run(queue._native, stop, work._native, None, name_to_read, order, places, skip)
        else:
            names = self._reader._next_name(work)
            self._native.run(queue._native, stop, None, names, name_to_read, order, places, skip)

    def _names_are_native(self) -> bool:
        # Strings of a fixed number of characters are UCS-4, and objects are Python's.
        work = self._work
        return isinstance(work, QueueBase) and (work.dtypes[0].kind == "S" or work.dtypes[0] == np.dtype("U"))

    def _plan(self, queue: Any) -> tuple[list[int], list[int]]:
        """Return the output of each queue component, and the queue component where each output may be made."""
        if not isinstance(queue, QueueBase):
            raise InvalidArgumentError(f"a stage program fills queuecore's queues, not {queue!r}")
        if self._outputs is None:
            return [], []
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
        places = [-1] * len(components)
        for index, component in enumerate(components):
            output = self._outputs[order[index]]
            self._check_component(component, output)
            if component.shape is not None and output.shape == component.shape and None not in component.shape:
                places[order[index]] = index
        return order, places

    def _check_component(self, component: Converter, output: Component) -> None:
        if component.dtype != output.dtype:
            raise DtypeError(f"{component.label}: expected {_word(component)}, got {output.dtype} from {self!r}")
        if component.shape is None or output.shape is None:
            return
        if len(component.shape) != len(output.shape) or any(
            None not in (side, there) and side != there
            for side, there in zip(component.shape, output.shape, strict=False)
        ):
            raise InvalidArgumentError(
                f"{component.label}: expected shape {shape_text(component.shape)}, got {shape_text(output.shape)} from "
                f"{self!r}"
            )


def _source(work: Any) -> str:
    return f"a queue of {work.dtypes[0]}" if isinstance(work, QueueBase) else "an iterable"


def _stage(op: Any) -> Stage:
    if not callable(op) or any(op is getattr(ops, name) for name in ops.__all__):
        raise InvalidArgumentError(
            f"{op!r} is no step: an operation of queuecore.ops, called without input, makes one; so does a function "
            "of Python's"
        )
    if is_native(op):
        raise InvalidArgumentError(f"{op!r} is compiled: say what it makes, by queuecore.ops.cfunc(function, outputs)")
    return python(op)


def _word(component: Converter) -> str:
    return {"S": "bytes", "U": "str", "O": "objects"}.get(component.dtype.kind, str(component.dtype))
