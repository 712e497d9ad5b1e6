"""Sequences in segments: batches of equal parts of long examples, with a state that goes from one part to the next."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from queuecore.errors import CancelledError, InvalidArgumentError, OutOfRangeError, QueueCoreError
from queuecore.tf1._graph.graph import Operation, Tensor, constant_value, convert_to_tensor, get_default_graph
from queuecore.tf1._graph.values import TensorShape, int32, int64, name_of, resource, string
from queuecore.tf1._input.queues import FIFOQueue, PriorityQueue
from queuecore.tf1._input.runners import fill
from queuecore.tf1._ops import summaries
from queuecore.tf1._ops.arrays import shape
from queuecore.tf1._ops.math import cast

__all__ = ["NextQueuedSequenceBatch", "SequenceQueueingStateSaver", "batch_sequences_with_states"]

_FIRST_INDEX = -(2**63)
# What a segment has besides sequences, context and states: its key, the next one's, its place, their number, lengths.
_HEAD = (string, string, int32, int32, int32, int32)


class _Waiting:
    # A segment that lacks states.
    def __init__(self, index: int, parts: list[Any]) -> None:
        self.index = index
        self.parts = parts
        self.states: dict[str, Any] = {}


class _Segments:
    # The segments of one session: ready ones are in a queue, in the order of their examples; others wait for states.
    # After a close all lie in another queue, so that runs that wait for a whole batch look again.
    def __init__(self, saver: SequenceQueueingStateSaver, session: Any) -> None:
        self.name = saver.name
        self.waiting: dict[bytes, _Waiting] = {}
        self._ready, self._rest, self._tokens = (queue.of(session) for queue in saver._queues)
        self._small = saver._allow_small_batch
        self._state_names = list(saver._states)
        self._lock = threading.Lock()
        self._inserted = 0
        self._active: set[bytes] = set()
        self._closed = self._cancelled = False
        self._failure: BaseException | None = None

    def ready_size(self) -> int:
        """Return how many segments could be taken now."""
        return int(self._ready.size()) + int(self._rest.size())

    def is_closed(self) -> bool:
        return bool(self._tokens.is_closed())

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        for queue in (self._tokens, self._ready, self._rest):
            queue._fail(error)

    def _put(self, index: int, parts: list[Any], states: list[Any]) -> None:
        queue = self._rest if self._closed else self._ready
        if not queue.is_closed():  # else no batch of it will be whole, and it is dropped
            queue.enqueue([np.int64(index), *parts, *states])

    def insert(self, run: Any, key: bytes, segments: list[list[Any]], states: list[Any]) -> None:
        """Add an example, once there are few enough."""
        self._tokens.enqueue([np.int32(0)], timeout=run.left())
        with self._lock:
            if key in self._active:
                self._tokens.dequeue()
                raise InvalidArgumentError(f"{self.name}: the key {key!r} is that of an example that isn't done yet")
            self._active.add(key)
            index = _FIRST_INDEX + self._inserted
            self._inserted += 1
            for parts in segments[1:]:
                self.waiting[parts[0]] = _Waiting(index, parts)
            self._put(index, segments[0], states)

    def save(self, name: str, keys: Any, values: Any) -> None:
        """Give segments one of their states; segments that have all are ready."""
        with self._lock:
            if self._cancelled:
                raise CancelledError(f"{self.name} is closed")
            for key, value in zip(keys, values, strict=True):
                segment = self.waiting.get(key)
                if segment is None or name in segment.states:
                    raise InvalidArgumentError(f"{self.name}: no segment {key!r} waits for the state {name!r}")
                segment.states[name] = value
                if len(segment.states) == len(self._state_names):
                    del self.waiting[key]
                    self._put(segment.index, segment.parts, [segment.states[one] for one in self._state_names])

    def take(self, run: Any, count: int) -> list[Any]:
        """Return so many segments, stacked; fewer, if the data is over and small batches are allowed."""
        rows = self._taken(run, count)
        done = rows[3] + 1 >= rows[4]
        with self._lock:
            self._active.difference_update(key.partition(b":")[2] for key in rows[1][done])
            finished = int(np.sum(done))
            if finished:
                self._tokens.dequeue_many(finished)
            if self._closed and not self._small and self._tokens.size() < count:
                self._rest.close()  # there will be no whole batch any more
        return rows

    def _taken(self, run: Any, count: int) -> list[Any]:
        while True:
            with self._lock:
                queue = self._rest if self._closed else self._ready
                if self._closed:
                    available = int(self._rest.size() if self._small else self._tokens.size())
                    if available < (1 if self._small else max(count, 1)):
                        why = f", since what fills it failed: {self._failure!r}" if self._failure else ""
                        raise OutOfRangeError(
                            f"Barrier '{self.name}' is closed and has insufficient elements (requested {count}, total "
                            f"size {available}){why}"
                        ) from self._failure
                    if self._small:
                        small: list[Any] = queue.dequeue_up_to(min(count, available))
                        return small
            try:
                take = queue.dequeue_up_to if self._small else queue.dequeue_many
                rows: list[Any] = take(count, timeout=run.left())
                return rows
            except OutOfRangeError:
                with self._lock:
                    if self._cancelled or not self._closed or queue is self._rest:
                        raise

    def close(self, cancel: bool) -> None:
        """Take no more examples; examples that are in go on, unless they are cancelled."""
        with self._lock:
            if self._closed and not cancel:
                raise CancelledError(f"Barrier '{self.name}' is already closed.")
            self._tokens.close(cancel)
            if not self._closed:
                self._closed = True
                self._ready.close()
                with contextlib.suppress(OutOfRangeError):  # runs that waited have taken them
                    while self._ready.size():
                        self._rest.enqueue_many(self._ready.dequeue_up_to(self._ready.size()))
            if cancel:
                self._cancelled = True
                self._rest.close(True)


class _Barrier:
    # What programs ask a saver's `barrier`.
    def __init__(self, saver: SequenceQueueingStateSaver) -> None:
        self._saver = saver
        self.barrier_ref = saver._ref

    @property
    def name(self) -> str:
        return self.barrier_ref.op.name

    def ready_size(self, name: str | None = None) -> Tensor:
        return self._asked("BarrierReadySize", lambda segments: segments.ready_size(), name)

    def incomplete_size(self, name: str | None = None) -> Tensor:
        return self._asked("BarrierIncompleteSize", lambda segments: len(segments.waiting), name)

    def _asked(self, type_: str, answer: Any, name: str | None) -> Tensor:
        saver = self._saver
        kernel = lambda run: np.int32(answer(saver.of(run.session)))  # noqa: E731
        return self.barrier_ref.graph.create_op(type_, [], [(int32, ())], kernel, name).outputs[0]


def _named(subject: str, tensors: Any, first: int = 0) -> dict[str, Tensor]:
    # Tensors by name, in the order of names, whose shapes are known from a dimension on.
    if not isinstance(tensors, Mapping):
        raise TypeError(f"{subject} must be a dict")
    by_key = {}
    for key in tensors:
        if not isinstance(key, str):
            raise TypeError(f"{subject} key must be string: {key}")
        if ":" in key:
            raise ValueError(f"{subject} key may not have a colon: {key!r}")
    for key in sorted(tensors):
        tensor = convert_to_tensor(tensors[key], name=f"{subject}_{key}")
        if tensor.shape.sides is None or not tensor.shape.with_rank_at_least(first)[first:].is_fully_defined():
            raise ValueError(f"Shape for {subject} {key} is not fully defined: {tensor.shape}")
        by_key[key] = tensor
    return by_key


class SequenceQueueingStateSaver:
    """Divides long examples into segments, and batches segments of several examples, with states between them.

    Parameters
    ----------
    batch_size : int or Tensor
        Segments in a batch, each of another example.
    num_unroll : int
        The length of a segment.
    input_length : Tensor of int32, scalar
        How much of the example's sequences isn't padding.
    input_key : Tensor of str, scalar
        A name of the example, which no other one has at the same time.
    input_sequences : dict of str to Tensor, shape (padded length, ...)
        What is divided along the first dimension, which is a multiple of `num_unroll` and may be unknown.
    input_context : dict of str to Tensor
        What all segments of the example have. Shapes must be known whole.
    initial_states : dict of str to Tensor
        The states of its first segment, at least one. Shapes must be known whole.
    capacity : int, optional
        How many examples are there at a time; at least `batch_size`. Default: any number.
    allow_small_batch : bool, default False
        Whether there are smaller batches at the end. If not, what is left is dropped.
    name : str, optional

    Raises
    ------
    TypeError
        If something has another type.
    ValueError
        If there is no sequence or no state, a shape isn't known, or the capacity is too small.

    Notes
    -----
    Each run of `prefetch_op` adds an example, and waits for room. A run that needs `next_batch` takes segments, and
    waits for a batch of them; the next segment of an example is ready when all its states have been saved, by
    `NextQueuedSequenceBatch.save_state`. Segments of examples that came first are taken first. At the end, runs get an
    `OutOfRangeError`; unlike in TensorFlow, also those that wait for segments that nobody works on.
    """

    def __init__(
        self, batch_size: Any, num_unroll: int, input_length: Any, input_key: Any, input_sequences: Any,
        input_context: Any, initial_states: Any, capacity: int | None = None, allow_small_batch: bool = False,
        name: str | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(batch_size, Tensor) and capacity is not None and capacity < batch_size:
            raise ValueError(f"capacity {capacity} needs to be >= batch_size {batch_size}")
        self._capacity = capacity
        self._num_unroll = int(num_unroll)
        self._allow_small_batch = allow_small_batch
        self._prefetch_op: Operation | None = None
        self._next_batch: NextQueuedSequenceBatch | None = None
        self._graph = get_default_graph()
        with self._graph.name_scope(name or "InputQueueingStateSaver") as scope:
            self._scope = scope
            self._batch_size = convert_to_tensor(batch_size, int32)
            self._length = convert_to_tensor(input_length, name="length")
            self._key = convert_to_tensor(input_key, name="key")
            for what, scalar, wanted in (("length", self._length, int32), ("key", self._key, string)):
                scalar.shape.with_rank(0)
                if scalar.dtype != wanted:
                    raise TypeError(f"{what} dtype must be {name_of(wanted)}, but received: {name_of(scalar.dtype)}")
            self._sequences = _named("sequence", input_sequences, 1)
            self._context = _named("context", input_context)
            self._states = _named("state", initial_states)
            if not self._sequences:
                raise ValueError("must have at least one sequence tensor")
            if not self._states:
                raise ValueError("initial_states may not be empty: without a state, no segment would follow another")
            rows = [TensorShape([self._num_unroll]).concatenate(part.shape[1:]) for part in self._sequences.values()]
            rest = [*self._context.values(), *self._states.values()]
            dtypes = [*_HEAD, *(part.dtype for part in [*self._sequences.values(), *rest])]
            self._shapes = [*([TensorShape([])] * len(_HEAD)), *rows, *(part.shape for part in rest)]
            self._dtypes = dtypes
            self._queues = (
                PriorityQueue(-1, dtypes, self._shapes, name="ready_segments"),
                PriorityQueue(-1, dtypes, self._shapes, name="last_segments"),
                FIFOQueue(-1 if capacity is None else capacity, [int32], [()], name="capacity_queue"),
            )
            op = self._graph.create_op(
                "Barrier", [], [(resource, ())], lambda run: self.of(run.session), "barrier"
            )  # fmt: skip
            op.attributes["queue"] = self
            self._ref = op.outputs[0]

    def of(self, session: Any) -> _Segments:
        """Return its segments in a session."""
        segments: _Segments = session.resource(self, lambda: _Segments(self, session))
        return segments

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self._ref.op.name

    @property
    def barrier(self) -> Any:
        """Its segments: `ready_size()` and `incomplete_size()` return tensors that count them."""
        return _Barrier(self)

    @property
    def batch_size(self) -> Any:
        """The number of segments in a batch."""
        return self._batch_size

    @property
    def num_unroll(self) -> int:
        """The length of a segment."""
        return self._num_unroll

    @property
    def prefetch_op(self) -> Operation:
        """The operation that adds an example; made at the first use."""
        if self._prefetch_op is None:
            inputs = [self._length, self._key, *self._sequences.values(), *self._context.values(),
                      *self._states.values()]  # fmt: skip
            with self._graph.name_scope(self._scope):
                self._prefetch_op = self._graph.create_op(
                    "StateSaverPrefetch", inputs, [], self._add, "StateSaverPrefetchGroup", blocking=True
                )
        return self._prefetch_op

    def _check_batch(self, size: Any) -> None:
        if self._capacity is not None and size is not None and self._capacity < size:
            raise InvalidArgumentError(f"capacity needs to be >= batch_size: {self._capacity}, {size}")

    def _add(self, run: Any, length: Any, key: Any, *values: Any) -> None:
        self._check_batch(constant_value(self._batch_size))
        split = len(self._sequences)
        sequences, rest = values[:split], values[split:]
        padded, size = len(sequences[0]), self._num_unroll
        label = next(iter(self._sequences))
        if padded % size or not padded:
            raise InvalidArgumentError(
                f"Tensor {label} first dimension should be a multiple of: {size}, but saw value: {padded}. Consider "
                "setting pad=True."
            )
        for name, sequence in zip(self._sequences, sequences, strict=True):
            if len(sequence) != padded:
                raise InvalidArgumentError(
                    f"Dimension 0 of tensor labeled sorted_sequences_{name} should be: {padded}, shape received: "
                    f"{','.join(map(str, np.shape(sequence)))}"
                )
        if length > padded:
            raise InvalidArgumentError(f"Input length should be <= than length from sequences: {length} vs. {padded}")
        count = padded // size
        keys = [b"%05d_of_%05d:%b" % (place, count, key) for place in range(count)]
        context, states = rest[: len(self._context)], rest[len(self._context) :]
        segments = [
            [
                keys[place], (keys[1:] + [b"STOP:" + key])[place], np.int32(place), np.int32(count),
                np.int32(min(max(int(length) - place * size, 0), size)), np.int32(length),
                *(sequence[place * size :][:size] for sequence in sequences), *context,
            ]
            for place in range(count)
        ]  # fmt: skip
        self.of(run.session).insert(run, key, segments, list(states))

    @property
    def next_batch(self) -> NextQueuedSequenceBatch:
        """The batch that a run takes; made at the first use."""
        if self._next_batch is None:
            known = None if self._allow_small_batch else constant_value(self._batch_size)
            rows = TensorShape([None if known is None else int(known)])
            outputs = [(int64, rows)]
            outputs += [(dtype, rows.concatenate(side)) for dtype, side in zip(self._dtypes, self._shapes, strict=True)]

            def kernel(run: Any, count: Any) -> Any:
                self._check_batch(count)
                try:
                    return self.of(run.session).take(run, int(count))
                except QueueCoreError as error:
                    if run.session._closed:
                        raise CancelledError(f"the session was closed while a batch was waited for ({error})") from None
                    raise

            with self._graph.name_scope(self._scope):
                op = self._graph.create_op(
                    "BarrierTakeMany", [self._batch_size], outputs, kernel, "BarrierTakeMany", blocking=True
                )
                self._next_batch = NextQueuedSequenceBatch(self, op.outputs)
        return self._next_batch

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that takes no more examples; examples that are in go on, unless it cancels them."""

        def kernel(run: Any) -> None:
            self.of(run.session).close(cancel_pending_enqueues)

        return self._graph.create_op("BarrierClose", [], [], kernel, name or "SQSSClose")


class NextQueuedSequenceBatch:
    """A batch of segments; see `SequenceQueueingStateSaver.next_batch`.

    Attributes
    ----------
    insertion_index : Tensor of int64, shape (batch,)
        The number of each segment's example, from ``-2**63`` on.
    key, next_key : Tensor of str, shape (batch,)
        ``"00001_of_00003:name"``, and the key of the example's next segment, ``"STOP:name"`` for the last one.
    sequence, sequence_count : Tensor of int32, shape (batch,)
        The place of each segment in its example, and how many the example has.
    length, total_length : Tensor of int32, shape (batch,)
        How much of the segment, and of the example, isn't padding.
    batch_size : Tensor of int32, scalar
        How many segments there are.
    sequences : dict of str to Tensor, shape (batch, num_unroll, ...)
    context : dict of str to Tensor, shape (batch, ...)
    """

    def __init__(self, state_saver: SequenceQueueingStateSaver, outputs: Any) -> None:
        self._saver = state_saver
        parts = iter(outputs)
        self.insertion_index: Tensor = next(parts)
        self.key: Tensor = next(parts)
        self.next_key: Tensor = next(parts)
        self.sequence: Tensor = next(parts)
        self.sequence_count: Tensor = next(parts)
        self.length: Tensor = next(parts)
        self.total_length: Tensor = next(parts)
        self.sequences = {name: next(parts) for name in state_saver._sequences}
        self.context = {name: next(parts) for name in state_saver._context}
        self._states = {name: next(parts) for name in state_saver._states}
        self.batch_size: Tensor = shape(self.length)[0]

    def state(self, state_name: str) -> Tensor:
        """Return a state of the segments: the initial one, or what was saved with the segment before.

        Raises
        ------
        KeyError
            If there is no such state.
        """
        state: Tensor = self._states[state_name]
        return state

    def save_state(self, state_name: str, value: Any, name: str | None = None) -> Operation:
        """Return an operation that saves a state for the next segments of the batch's examples.

        Parameters
        ----------
        state_name : str
        value : Tensor, shape (batch, ...)
            Of the initial state's type and shape.
        name : str, optional

        Raises
        ------
        KeyError
            If there is no such state.
        ValueError
            If the value has another type or shape.
        InvalidArgumentError
            In a run, if it has another shape, or the state was saved already.

        Notes
        -----
        A run that takes a batch must save all states: else the next segments of its examples are never ready.
        """
        if state_name not in self._states:
            raise KeyError(f"state was not declared: {state_name}")
        state = self._states[state_name]
        saver = self._saver
        with saver._graph.name_scope(name or "InputQueueingStateSaver_SaveState"):
            new_state = convert_to_tensor(value, state.dtype, name=f"convert_{state_name}")
            try:
                new_state.shape.assert_has_rank(len(state.shape.sides or ()))
            except ValueError as error:
                raise ValueError(f"Rank check failed for {state_name}: {error}") from error
            new_state.shape.assert_is_compatible_with(state.shape)

            def kernel(run: Any, old: Any, keys: Any, places: Any, counts: Any, new: Any) -> None:
                if np.ndim(new) != np.ndim(old):
                    raise InvalidArgumentError(
                        f"Rank of tensor convert_{state_name}:0 should be: {np.ndim(old)}, shape received:] "
                        f"[{' '.join(map(str, np.shape(new)))}]"
                    )
                if np.shape(new) != np.shape(old):
                    raise InvalidArgumentError(
                        f"Shape of tensor convert_{state_name}:0 should be: {list(np.shape(old))}, shape received: "
                        f"{list(np.shape(new))}"
                    )
                left = places + 1 < counts
                saver.of(run.session).save(state_name, keys[left], new[left])

            inputs = [state, self.next_key, self.sequence, self.sequence_count, new_state]
            return saver._graph.create_op("BarrierInsertMany", inputs, [], kernel, f"BarrierInsertState_{state_name}")


def _padded(sequences: Any, num_unroll: int) -> tuple[Tensor, dict[str, Tensor]]:
    # The length of sequences, and the sequences, filled up to a multiple with zeros or empty strings.
    by_key = _named("sequence", sequences, 1)
    if not by_key:
        raise ValueError("must have at least one sequence tensor")

    def kernel(*values: Any) -> Any:
        lengths = [len(value) for value in values]
        if len(set(lengths)) > 1:
            raise InvalidArgumentError(f"All sequence lengths must match, but received lengths: {lengths}")
        filled = []
        for value in values:
            padding = np.full((-len(value) % num_unroll, *value.shape[1:]), b"" if value.dtype == object else 0)
            filled.append(np.concatenate([value, padding.astype(value.dtype)]))
        return np.int32(lengths[0]), *filled

    outputs = [(int32, TensorShape([])), *(
        (part.dtype, TensorShape([None]).concatenate(part.shape[1:])) for part in by_key.values()
    )]  # fmt: skip
    op = get_default_graph().create_op("PadSequences", list(by_key.values()), outputs, kernel, None, pure=True)
    return op.outputs[0], dict(zip(by_key, op.outputs[1:], strict=True))


def batch_sequences_with_states(
    input_key: Any, input_sequences: Any, input_context: Any, input_length: Any, initial_states: Any, num_unroll: int,
    batch_size: Any, num_threads: int = 3, capacity: int = 1000, allow_small_batch: bool = True, pad: bool = True,
    name: str | None = None,
) -> NextQueuedSequenceBatch:  # fmt: skip
    """Return batches of segments of long examples, with states; a runner's threads add the examples.

    Parameters
    ----------
    input_key, input_sequences, input_context, initial_states, num_unroll, batch_size
        As of `SequenceQueueingStateSaver`.
    input_length : Tensor of int32, scalar, or None
        As there. `None`, with `pad` only: the length of the sequences.
    num_threads : int, default 3
        Threads that compute examples.
    capacity : int, default 1000
        How many examples are there at a time; at least `batch_size`.
    allow_small_batch : bool, default True
        Whether there are smaller batches at the end.
    pad : bool, default True
        Whether sequences are filled up to a multiple of `num_unroll`, with zeros or empty strings.
    name : str, optional

    Returns
    -------
    NextQueuedSequenceBatch

    Raises
    ------
    TypeError, ValueError
        As of `SequenceQueueingStateSaver`, or if the length is missing.
    """
    if not isinstance(num_unroll, (int, np.integer)):
        raise ValueError(f"Unsupported num_unroll expected int, got: {num_unroll}")
    if input_length is None and not pad:
        raise ValueError("input_length must be given, unless sequences are padded")
    with get_default_graph().name_scope(name or "batch_sequences_with_states"):
        sequences, length = input_sequences, input_length
        if pad:
            whole, sequences = _padded(input_sequences, int(num_unroll))
            length = whole if input_length is None else input_length
        saver = SequenceQueueingStateSaver(
            batch_size, num_unroll, length, input_key, sequences, input_context, initial_states, capacity,
            allow_small_batch,
        )  # fmt: skip
        barrier = saver.barrier
        summaries.scalar(f"queue/{barrier.name}/ready_segment_batches_", cast(barrier.ready_size(), np.float32))
        queue: Any = saver
        fill(queue, [saver.prefetch_op], num_threads)
        return saver.next_batch
