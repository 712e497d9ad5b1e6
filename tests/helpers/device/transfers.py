"""Workloads of the transfer to a device, on the fake driver: what is wrong after each, in a process of its own.

    python -P -m helpers.device.transfers TREE LIBRARY WORKLOAD SCHEDULE...

prints one line for each schedule: JSON of the faults that the fake counted, and of what the workload itself found.
A mistake shows as one of these, as an error, or as a line that never comes.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from helpers.device.devices import FakeArray, Plane, entered, nobody_works, plane
from helpers.device.fake_cuda import ONCE, SCHEDULED, UNTIL_GO_ON, check
from helpers.process import PATIENCE, soon

import queuecore
from queuecore._core.device.lease import DeviceLease
from queuecore._core.device.staged import Staged
from queuecore.data import Dataset, Options
from queuecore.device import record_stream
from queuecore.errors import InternalError, ResourceExhaustedError

BUFFERS = 3
Array = np.ndarray[Any, Any]


class Feed:
    """Batches that are put together as fast as there is room for them, by a thread."""

    def __init__(self, plane: Plane, batches: list[Array]) -> None:
        self.plane = plane
        self.staged = Staged(plane.device, BUFFERS)
        self.batches = batches
        self.thread = threading.Thread(target=self._put)
        self.thread.start()

    def _put(self) -> None:
        for batch in self.batches:
            if self.staged.put([batch]) is None:
                return
        self.staged.end()

    def leases(self) -> Iterator[tuple[DeviceLease, Array]]:
        """Yield what arrives, and what it should be."""
        for batch in self.batches:
            if not self.staged.wait():
                break
            yield self.staged.take(*self.plane.arrays.stream()), batch

    def consume(self, memory: Any, expected: Array) -> None:
        """Let the consumer's stream read a batch at a place in memory, and for longer the one aside if there is one."""
        read(self.plane, memory, expected, SCHEDULED)

    def stop(self) -> None:
        self.staged.stop()
        self.thread.join(PATIENCE)


def read(plane: Plane, memory: Any, expected: Array, delay: int) -> None:
    """As `Feed.consume`. `delay`: of the last stream that reads."""
    array = FakeArray(plane.arrays, memory, 0, expected.shape, expected.dtype)
    side = plane.streams[1] if len(plane.streams) > 1 else 0
    if not side:
        array.consume(expected, delay)
        return
    array.consume(expected)
    plane.order(plane.arrays.current, side)
    array.consume(expected, 3000 if delay == SCHEDULED else delay, side)
    record_stream(array, side)


def made(count: int, size: int = 4096, seed: int = 0) -> list[Array]:
    """Return batches of random bytes."""
    return list(np.random.default_rng(seed).integers(0, 256, (count, size), np.uint8))


def staged(plane: Plane) -> Counter[str]:
    """Python's batches, each read once."""
    feed = Feed(plane, made(60))
    count = 0
    for lease, batch in feed.leases():
        feed.consume(plane.arrays.memory(lease), batch)
        lease.end()
        count += 1
    feed.stop()
    return Counter(missing=60 - count)


def growing(plane: Plane) -> Counter[str]:
    """Each batch needs more memory than the one before."""
    feed = Feed(plane, [batch for i in range(20) for batch in made(1, 512 * (i + 1), i)])
    for lease, batch in feed.leases():
        feed.consume(plane.arrays.memory(lease), batch)
        lease.end()
    feed.stop()
    return Counter()


def native(plane: Plane) -> Counter[str]:
    """Batches of the native stream, which has few slots, and fills them again at once."""
    return _streamed(plane, 0, None)


def widened(plane: Plane) -> Counter[str]:
    """A kernel is behind the copy. Some consumers are slower than several of them."""
    return _streamed(plane, 7, lambda x: x ^ 7)


def _streamed(plane: Plane, key: int, function: Callable[[Any], Any] | None) -> Counter[str]:
    size, count = 64, 100
    rows = np.concatenate(made(count, size * 512)).reshape(-1, 512)
    few = Options(num_threads=1, memory_budget=1 << 20)
    ds = plane.of(Dataset.from_tensor_slices(rows).batch(size).with_options(few), BUFFERS)
    if function is not None:
        ds = ds.map(function)
    kernels = 0
    with iter(ds) as it:
        for at, got in zip(range(count), it, strict=True):
            slow = function is not None and at % 20 == 0
            got.consume(rows[size * at : size * (at + 1)] ^ key, 5000 if slow else SCHEDULED)
            kernels += function is not None
            del got
    return Counter(missing_kernels=kernels - plane.fake.count("cuLaunchKernel"))


def kept(plane: Plane) -> Counter[str]:
    """All but one slot are held, so batches go through that one, and are copies."""
    feed = Feed(plane, made(40))
    held_batches = []
    for at, (lease, batch) in enumerate(feed.leases()):
        if at < BUFFERS - 1:
            memory = plane.arrays.memory(lease)
            held_batches.append((memory, batch))
        else:
            memory = plane.arrays.allocate(batch.nbytes)
            lease.copy_to(plane.device, plane.arrays.address(memory))
        feed.consume(memory, batch)
        del lease
    for memory, batch in held_batches:
        feed.consume(memory, batch)
    feed.stop()
    return Counter()


def left(plane: Plane) -> Counter[str]:
    """One stream of batches after the other is left in the middle, and the next one gets its page-locked memory."""
    for run in range(10):
        feed = Feed(plane, made(20, seed=run))
        for at, (lease, batch) in enumerate(feed.leases()):
            feed.consume(plane.arrays.memory(lease), batch)
            del lease
            if at == 3:
                break
        feed.stop()
        feed.staged.join(PATIENCE)
        del feed
    return Counter()


def again(plane: Plane) -> Counter[str]:
    """Streams without and with a kernel follow each other, and use the same memory. All is the size of a slot.

    The last batches of each stream without one are read until all has been done that the next stream doesn't let wait.
    """
    rows = np.concatenate(made(8, 64 * 512)).reshape(-1, 512)
    ds = plane.of(Dataset.from_tensor_slices(rows).batch(64), BUFFERS)
    kernels = plane.fake.count("cuLaunchKernel")
    for run in range(6):
        key = run % 2 * 7
        with iter(ds.map(lambda x: x ^ 7) if key else ds) as it:
            for index, result in zip(range(8), it, strict=True):
                if key and index == 0:
                    plane.fake.settle()
                    with entered(plane.fake):
                        plane.fake.go_on(plane.arrays.current)
                last = not key and index >= 8 - BUFFERS
                result.consume(rows[64 * index : 64 * (index + 1)] ^ key, UNTIL_GO_ON if last else SCHEDULED)
                del result
        del it
        assert soon(nobody_works, PATIENCE)
    return Counter(missing_kernels=kernels + 3 * 8 - plane.fake.count("cuLaunchKernel"))


def crowded(plane: Plane) -> Counter[str]:
    """A stream needs the memory that is kept of another one, from which a consumer still reads."""
    (batch,) = made(1)
    feed = Feed(plane, [batch])
    for lease, _ in feed.leases():
        read(plane, plane.arrays.memory(lease), batch, UNTIL_GO_ON)
        del lease
    feed.stop()
    feed.staged.join(PATIENCE)
    del feed
    if len(plane.streams) > 1:
        with entered(plane.fake):  # the consumer's own stream is done
            check(plane.fake.driver.cuStreamSynchronize(plane.arrays.current))
    plane.fake.set(total_memory=2 * batch.nbytes)
    feed = Feed(plane, made(1, 2 * batch.nbytes))
    refused = False
    try:
        feed.staged.wait()
    except ResourceExhaustedError:
        refused = True
    feed.stop()
    plane.fake.go_on(plane.streams[-1])
    return Counter(memory_that_is_read=not refused)


def kept_aside(plane: Plane) -> Counter[str]:
    """Batches are copies, in memory that is used again in the order of the consumer's stream."""
    plane.aside()
    feed = Feed(plane, made(40))
    other = plane.arrays.allocate(4096)

    class Own:
        """Memory that somebody else gets when nobody refers to it any more, and writes to at once."""

        def __init__(self, address: int) -> None:
            self.address = address

        def __del__(self) -> None:
            with entered(plane.fake):
                check(plane.fake.driver.cuMemcpyDtoDAsync_v2(self.address, other[0], 4096, plane.arrays.current))

    for lease, batch in feed.leases():
        address = plane.arrays.address(plane.arrays.allocate(batch.nbytes))
        lease.copy_to(plane.device, address, Own(address))
        feed.consume(plane.arrays.memory(lease), batch)
        del lease
    feed.stop()
    return Counter()


def aside(plane: Plane) -> Counter[str]:
    """Two streams read each batch."""
    plane.aside()
    return staged(plane)


def left_aside(plane: Plane) -> Counter[str]:
    """As `left`, with two streams that read."""
    plane.aside()
    return left(plane)


def growing_aside(plane: Plane) -> Counter[str]:
    """As `growing`, with two streams that read."""
    plane.aside()
    return growing(plane)


def crowded_aside(plane: Plane) -> Counter[str]:
    """As `crowded`; a stream aside reads."""
    plane.aside()
    return crowded(plane)


def queued(plane: Plane) -> Counter[str]:
    """A queue's elements of many shapes; the first one is held until as many are on their way as can be."""
    arrays = [np.resize(one, (n % 5 + 1, 100 * (n % 7) + 1)) for n, one in enumerate(made(40))]
    queue = queuecore.FIFOQueue(40, [np.uint8, np.int64])
    for n, one in enumerate(arrays):
        queue.enqueue([one, np.arange(n % 3)])
    queue.close()
    with plane.dequeued(queue, BUFFERS) as it:
        first_batch = next(it)
        full = soon(lambda: queue.size() == 40 - 2 * BUFFERS - 1, PATIENCE)  # held here, on the device, page-locked
        count = 0
        for n, got in enumerate(itertools.chain([first_batch], it)):
            got[0].consume(arrays[n])
            got[1].consume(np.arange(n % 3))
            first_batch = None
            count += 1
            del got
    return Counter(missing=40 - count, not_full=not full)


def failing_to_send(plane: Plane) -> Counter[str]:
    """A call of the transfer's thread fails: that is an error, behind whole batches."""
    wrong: Counter[str] = Counter()
    for call, nth in SENDING:
        plane.fake.fail(call, nth, FAILURE, ONCE)
        feed = Feed(plane, made(20, seed=nth))
        wrong += _fails(feed, feed.leases(), call)
        feed.stop()
    return wrong


def failing_to_wait(plane: Plane) -> Counter[str]:
    """The consumer's stream can't wait for a batch: an error in the place of the batch."""
    feed = _full(plane)
    plane.fake.fail("cuStreamWaitEvent", 1, FAILURE, ONCE)
    wrong = _fails(feed, feed.leases(), "cuStreamWaitEvent")
    feed.stop()
    return wrong


def failing_to_end(plane: Plane) -> Counter[str]:
    """A lease can't say when its slot may be written again: an error, and nobody writes there."""
    feed = _full(plane)
    leases = feed.leases()
    lease, batch = next(leases)
    feed.consume(plane.arrays.memory(lease), batch)
    plane.fake.drain()
    plane.fake.fail("cuEventRecord", 1, FAILURE, ONCE)
    lease.end()
    plane.leaks = 1
    wrong = _fails(feed, leases, "cuEventRecord")
    feed.stop()
    return wrong


def lost(plane: Plane) -> Counter[str]:
    """A lease can't say when its slot may be written again; streams of batches come that want as much memory."""
    feed = _full(plane)
    lease, batch = next(feed.leases())
    read(plane, plane.arrays.memory(lease), batch, UNTIL_GO_ON)
    plane.fake.fail("cuEventRecord", 1, FAILURE, ONCE)
    lease.end()
    plane.leaks = 1
    feed.stop()
    feed.staged.join(PATIENCE)
    del feed, lease
    consumers = plane.arrays.current
    plane.stream()
    wrong: Counter[str] = Counter()
    for _ in range(2):
        wrong += staged(plane)
    plane.fake.go_on(consumers)
    return wrong


FAILURE = 719
# Which call of the transfer's thread; the consumer makes none of these before a batch was sent.
SENDING = (("cuEventQuery", 1), ("cuStreamWaitEvent", 1), ("cuMemcpyBatchAsync_v2", 5), ("cuEventRecord", 1))


def _full(plane: Plane) -> Feed:
    """Return a feed after all device slots are full: the transfer's thread waits, and makes no call."""
    records = plane.fake.count("cuEventRecord") + 2 * BUFFERS
    feed = Feed(plane, made(20))
    assert soon(lambda: plane.fake.count("cuEventRecord") == records, PATIENCE)
    return feed


def _fails(feed: Feed, leases: Iterator[tuple[DeviceLease, Array]], call: str) -> Counter[str]:
    try:
        for lease, batch in leases:
            feed.consume(feed.plane.arrays.memory(lease), batch)
            lease.end()
    except InternalError as error:
        return Counter() if str(FAILURE) in str(error) else Counter({f"{call}: {error}": 1})
    return Counter({f"{call}: no error": 1})


WORKLOADS: dict[str, Callable[[Plane], Counter[str]]] = {
    one.__name__: one
    for one in (
        *(staged, growing, native, widened, kept, left, again, crowded),
        *(aside, left_aside, growing_aside, crowded_aside, kept_aside),
        queued,
        *(failing_to_send, failing_to_wait, failing_to_end, lost),
    )
}


def wrong(library: Path, workload: str, schedule: str) -> dict[str, int]:
    """Run a workload; return what is wrong, and how often."""
    faults: Counter[str] = Counter()
    try:
        with contextlib.contextmanager(plane)(library) as cuda:
            cuda.fake.schedule(schedule, 1)
            cuda.stream()
            try:
                faults += WORKLOADS[workload](cuda)
                context = ctypes.c_void_p()
                check(cuda.fake.driver.cuCtxGetCurrent(ctypes.byref(context)))
                faults["the consumer's thread is in another context"] += context.value is not None
            finally:
                cuda.fake.drain()
                faults += Counter(cuda.fake.faults())
    except Exception as error:
        faults[f"{type(error).__name__}: {error}"[:500]] += 1
    return dict(+faults)


def main(tree: str, library: str, workload: str, *schedules: str) -> None:
    assert Path(queuecore.__file__).is_relative_to(tree), f"queuecore came from {queuecore.__file__}, not from {tree}"
    for schedule in schedules:
        print(json.dumps(wrong(Path(library), workload, schedule)), flush=True)
    os._exit(0)  # without waiting for threads that a mistake left behind


if __name__ == "__main__":
    main(*sys.argv[1:])
