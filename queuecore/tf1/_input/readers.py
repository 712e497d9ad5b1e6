"""Readers of a graph. Each session has its own readers, which are `queuecore` readers."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore._readers import kinds as eager
from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Operation, Tensor, apply_op, convert_to_tensor, get_default_graph
from queuecore.tf1._graph.texts import retold
from queuecore.tf1._graph.values import resource, string
from queuecore.tf1._input.queues import queue_of

__all__ = [
    "FixedLengthRecordReader",
    "IdentityReader",
    "LMDBReader",
    "ReaderBase",
    "TFRecordReader",
    "TextLineReader",
    "WholeFileReader",
]


class ReaderBase:
    """The base class of all readers. Make one of the classes below, not this one.

    Parameters
    ----------
    name : str or None
        The operation's name. Default: the kind.
    *arguments, **options
        The arguments of queuecore's reader of the same name, which each session makes for itself.

    Attributes
    ----------
    reader_ref : Tensor
        The tensor that operations use as the reader.
    supports_serialize : bool
        Whether its state can be saved.
    """

    _kind = ""
    _eager: Any = None
    supports_serialize = False

    def __init__(self, name: str | None, *arguments: Any, **options: Any) -> None:
        self._arguments = (arguments, options)
        op = get_default_graph().create_op(
            f"{self._kind}V2", [], [(resource, ())], lambda run: self.of(run.session), name or f"{self._kind}V2"
        )
        self.reader_ref = op.outputs[0]

    def make(self) -> Any:
        """Return a reader of `queuecore` like it."""
        arguments, options = self._arguments
        return self._eager(*arguments, **options)

    def component(self) -> Any:
        """Return what is known of a record's value."""
        return self.make()._components()[1]

    def of(self, session: Any) -> Any:
        """Return the reader itself, of a session."""
        return session.resource(self, self.make)

    def read(self, queue: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return the key and the value of the next record; work units are taken from a queue of strings.

        Parameters
        ----------
        queue : QueueBase or Tensor
        name : str, optional

        Returns
        -------
        key, value : Tensor
            Strings. A run that reaches the end raises `OutOfRangeError`.
        """
        op = self._reading("ReaderReadV2", queue, [], (), lambda reader, work: reader.read(work), name, False)
        return op.outputs[0], op.outputs[1]

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return keys and values of the next records: `num_records`, or as many as the work unit still has.

        Parameters
        ----------
        queue : QueueBase or Tensor
        num_records : int or Tensor
        name : str, optional

        Returns
        -------
        keys, values : Tensor
            Vectors of strings.
        """
        count = convert_to_tensor(num_records, np.int64)

        def take(reader: Any, work: Any, number: Any) -> tuple[Any, Any]:
            if number < 1:
                raise InvalidArgumentError(f"num_records must be positive, not {number}")
            keys, values = reader.read_up_to(work, int(number))
            return _vector(keys), _vector(values)

        op = self._reading("ReaderReadUpToV2", queue, [count], (None,), take, name, True)
        return op.outputs[0], op.outputs[1]

    def _reading(
        self, type_: str, queue: Any, inputs: list[Tensor], shape: Any, take: Any, name: str | None, is_batch: bool
    ) -> Operation:
        work = queue_of(queue)
        if len(work.dtypes) != 1:
            raise InvalidArgumentError(f"Expected single component queue, got {len(work.dtypes)} components: {work!r}")
        if work.dtypes[0] != string:
            raise InvalidArgumentError(f"Expected queue with single string component, got {work.dtypes[0]}: {work!r}")

        def kernel(run: Any, *values: Any) -> Any:
            return take(self.of(run.session), work.of(run.session), *values)

        graph = self.reader_ref.graph
        op: Operation = graph.create_op(
            type_, inputs, [(string, shape), (string, shape)], kernel, name or type_, blocking=True
        )
        op.attributes.update(reader=self, work=work, many=is_batch)
        return op

    def _counter(self, type_: str, method: str, name: str | None) -> Tensor:
        return apply_op(type_, [], np.int64, (), lambda run: np.int64(getattr(self.of(run.session), method)()),
                        name or type_, pure=False)  # fmt: skip

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return how many records it has returned, as an int64."""
        return self._counter("ReaderNumRecordsProducedV2", "num_records_produced", name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return how many work units it has finished, as an int64."""
        return self._counter("ReaderNumWorkUnitsCompletedV2", "num_work_units_completed", name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Return its state, a string."""
        return apply_op("ReaderSerializeStateV2", [], string, (), self._serialized,
                        name or "ReaderSerializeState", pure=False)  # fmt: skip

    def _serialized(self, run: Any) -> bytes:
        with retold(("can't save its place", "Reader SerializeState")):
            state: bytes = self.of(run.session).serialize_state()
            return state

    def _restored(self, run: Any, state: bytes) -> None:
        shown = state.decode(errors="backslashreplace")
        theirs = f"Could not parse state for {self._kind} '{self.reader_ref.op.name}': {shown}"
        with retold(("is no reader's state", lambda _: theirs), ("can't save its place", "Reader RestoreState")):
            self.of(run.session).restore_state(state)

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """Return an operation that gives it a state."""
        given = convert_to_tensor(state, string)
        given.shape.ranked(0)
        op: Operation = self.reader_ref.graph.create_op(
            "ReaderRestoreStateV2", [given], [], self._restored,
            name or "ReaderRestoreState",
        )  # fmt: skip
        return op

    def reset(self, name: str | None = None) -> Operation:
        """Return an operation that returns it to its first state."""
        op: Operation = self.reader_ref.graph.create_op(
            "ReaderResetV2", [], [], lambda run: self.of(run.session).reset(), name or "ReaderReset"
        )
        return op


def _vector(strings: Any) -> Any:
    made = np.empty(len(strings), object)
    made[:] = [bytes(one) for one in strings]
    return made


class WholeFileReader(ReaderBase):
    """A reader of whole files: the key is the name, the value the content.

    Parameters
    ----------
    name : str, optional
        The operation's name.
    """

    _kind = "WholeFileReader"
    _eager = eager.WholeFileReader
    supports_serialize = True

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)


class IdentityReader(ReaderBase):
    """A reader that reads no file: key and value are the work unit.

    Parameters
    ----------
    name : str, optional
        The operation's name.
    """

    _kind = "IdentityReader"
    _eager = eager.IdentityReader
    supports_serialize = True

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)


class TextLineReader(ReaderBase):
    """Reads the lines of files, without their ends.

    Parameters
    ----------
    skip_header_lines : int, optional
        Left out at the beginning of each file.
    name : str, optional
    """

    _kind = "TextLineReader"
    _eager = eager.TextLineReader

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(name, skip_header_lines or 0)


class FixedLengthRecordReader(ReaderBase):
    """Reads records of one length.

    Parameters
    ----------
    record_bytes, header_bytes, footer_bytes, hop_bytes : int
        As of `queuecore.FixedLengthRecordReader`.
    name : str, optional
    encoding : {"ZLIB", "GZIP"}, optional
    """

    _kind = "FixedLengthRecordReader"
    _eager = eager.FixedLengthRecordReader

    def __init__(
        self, record_bytes: int, header_bytes: int | None = None, footer_bytes: int | None = None,
        hop_bytes: int | None = None, name: str | None = None, encoding: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, record_bytes, header_bytes or 0, footer_bytes or 0, hop_bytes or 0, encoding)


class TFRecordReader(ReaderBase):
    """Reads the records of TFRecord files.

    Parameters
    ----------
    name : str, optional
    options : TFRecordOptions, optional
    """

    _kind = "TFRecordReader"
    _eager = eager.TFRecordReader

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        super().__init__(name, options)


class LMDBReader(ReaderBase):
    """Reads the entries of LMDB databases, in the order of their keys.

    Parameters
    ----------
    name : str, optional
    options : optional
        Taken, and not used.
    """

    _kind = "LMDBReader"
    _eager = eager.LMDBReader

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        del options
        super().__init__(name)
