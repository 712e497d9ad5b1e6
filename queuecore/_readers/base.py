"""The base class of readers: the records of one file after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex

from queuecore._checks.checks import check_index
from queuecore._core.io.readers import NativeReader
from queuecore._elements.component import BYTES, Component
from queuecore._io.lmdb import LmdbRecords
from queuecore._io.names import name_to_read
from queuecore._queues.base import QueueBase
from queuecore._readers.state import pack_state, parse_state
from queuecore._readers.work import check_names, check_names_queue, unit_of
from queuecore.errors import InvalidArgumentError, OutOfRangeError, QueueCoreError, UnimplementedError
from queuecore.ragged import Ragged

__all__ = ["ReaderBase", "check_count"]


class ReaderBase:
    """The base class of all readers. Make one of a kind, such as `TextLineReader`, not this one.

    A reader takes *work units*, names of files, and gives their records, each with a key. It takes the next unit when
    the last one is at its end, from the `work` that the call names.

    Parameters
    ----------
    native : NativeReader or LmdbRecords
        The reader of records.
    text : str
        The class and its options, as ``repr`` shows them.

    Notes
    -----
    Every call may come from any thread. One thread at a time reads; others wait for it, without the GIL, also while it
    waits for its next work unit. The counters don't wait.

    If a file can't be opened or read, the call raises and gives the file up; the next call goes on with the next file.
    After a record whose checksum doesn't match, the next call gives the record after it.
    Readers can't be used in a forked child (`ForkedPipelineError`).
    """

    __slots__ = ("_iterator", "_native", "_taken", "_text", "_work")

    _value_bytes: int | None = None
    _opens = True  # whether work units are files
    _serializes = False

    def __init__(self, native: NativeReader | LmdbRecords, text: str) -> None:
        self._native = native
        self._text = text
        self._work: Any = None
        self._iterator: Iterator[Any] | None = None
        self._taken: tuple[Any, Any] | None = None  # a work, and a unit of it that isn't handed on yet

    def __repr__(self) -> str:
        """Return the class and its options."""
        return self._text

    def read(self, work: QueueBase | Iterable[Any]) -> tuple[bytes, bytes]:
        """Return the next record.

        Parameters
        ----------
        work : QueueBase or iterable
            Names of files: a queue of one component of strings, or anything that can be iterated over. The reader keeps
            the iterator of the last one, so that a list that is given again goes on where it was.

        Returns
        -------
        key : bytes
            Which record it is: the file's name, a colon and a number, or the name alone.
        value : bytes
            The record.

        Raises
        ------
        OutOfRangeError
            If there is no more work: the queue is closed and empty, or the iterable is at its end.
        InvalidArgumentError
            If `work` is no such thing, or one of its elements no single string.
        NotFoundError, PermissionDeniedError, UnavailableError
            If a file can't be opened or read.
        DataLossError
            If a file is damaged, ends in the middle of its header, or was changed while it was read.
        RecordTooLargeError
            If a record is longer than the reader's limit.

        Notes
        -----
        Waits for the disk, and for names to come. Empty files are passed over.
        """
        return self._native.read(self._next_name(work))

    def read_up_to(self, work: QueueBase | Iterable[Any], num_records: SupportsIndex) -> tuple[Ragged, Ragged]:
        """Return the next records of one work unit.

        Parameters
        ----------
        work : QueueBase or iterable
            As of `read`.
        num_records : int
            How many at most, at least 1. There are fewer at the end of a file, and where the next one would have to be
            waited for (`retries`, `allow_special`), but never none.

        Returns
        -------
        keys, values : Ragged
            Of bytes, equally long. What `queuecore.ops` take as a batch, without a copy.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError, DataLossError, RecordTooLargeError
            As `read`.
        NotFoundError, PermissionDeniedError, UnavailableError
            As `read`. An error after the first record is raised by the next call.
        """
        count = check_count(num_records, "num_records", 1)
        keys, key_splits, values, splits = self._native.read_up_to(self._next_name(work), count)
        return Ragged(keys.view("S1"), key_splits), Ragged(values.view("S1"), splits)

    def num_records_produced(self) -> int:
        """Return how many records were read so far."""
        return self._native.produced

    def num_work_units_completed(self) -> int:
        """Return how many work units are done; failed ones don't count."""
        return self._native.completed

    def reset(self) -> None:
        """Forget the file in progress, and begin to count anew."""
        self._native.reset()

    @property
    def supports_serialize(self) -> bool:
        """True if `serialize_state` and `restore_state` work: for readers of which a file is one record."""
        return self._serializes

    def serialize_state(self) -> bytes:
        """Return the counters and the last work unit, for `restore_state`; in TensorFlow's format.

        Raises
        ------
        UnimplementedError
            Unless `supports_serialize`.
        """
        self._check_serializes()
        done, produced, last = self._native.state()
        return pack_state(done, produced, last)

    def restore_state(self, state: bytes) -> None:
        """Set the counters and the last work unit to what `serialize_state` returned.

        Parameters
        ----------
        state : bytes
            The result of `serialize_state` of a reader of the same class.

        Raises
        ------
        UnimplementedError
            Unless `supports_serialize`.
        InvalidArgumentError
            If `state` is no such thing. The reader is reset then.
        """
        self._check_serializes()
        try:
            started, done_count, produced, last = parse_state(state)
        except (IndexError, ValueError) as error:
            self.reset()
            raise InvalidArgumentError(f"{self!r}: {state!r:.60} is no reader's state: {error}") from error
        if min(done_count, produced) < 0 or started != done_count:
            self.reset()
            raise InvalidArgumentError(
                f"{self!r}: a state with {started} units begun, {done_count} done and {produced} records can't be"
            )
        self._native.reset(done_count, produced, last)

    def _check_serializes(self) -> None:
        if not self._serializes:
            raise UnimplementedError(f"{self!r} can't save its place inside a file")

    def _components(self) -> tuple[Component, Component]:
        return Component(BYTES, (), name="key"), Component(BYTES, (), self._value_bytes, "value")

    def _local(self, unit: bytes) -> bytes:
        return name_to_read(unit) if self._opens else unit

    def _next_name(self, work: Any) -> Callable[[], bytes]:
        """Return a function that returns the next name."""
        if isinstance(work, QueueBase):
            check_names_queue(work)

            def take() -> Any:
                return work.dequeue()
        else:
            check_names(work)

            def take() -> Any:
                if self._iterator is None or self._work is not work:
                    self._work, self._iterator = work, iter(work)
                try:
                    return next(self._iterator)
                except StopIteration:
                    raise OutOfRangeError("the work of this reader is at its end") from None

        def next_name() -> bytes:
            # A taken record stays until it is handed on: Ctrl-C may come in between.
            if self._taken is None or self._taken[0] is not work:
                self._taken = work, take()
            try:
                name = self._local(unit_of(self._taken[1]))
            except (QueueCoreError, ValueError):  # it is no name
                self._taken = None
                raise
            self._taken = None
            return name

        return next_name


def check_count(value: SupportsIndex, label: str, least: int = 0) -> int:
    """Return an argument as an int that is not below `least`."""
    count = check_index(value, label)
    if count < least:
        raise InvalidArgumentError(f"{label} must be at least {least}, not {count}")
    return count
