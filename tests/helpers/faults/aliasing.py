"""Random programs whose user keeps, writes and drops what it has, and the values that it must receive.

A dataset is drawn twice from one seed. The quiet one hands in new arrays only; it is read to its end, and every value
is copied at once. Between the elements of the other one a hostile user acts. The laws: it receives the same values;
what it keeps stays as it was received or as the user wrote it.
"""

from __future__ import annotations

import collections
import copy
import gc
import pathlib
import random
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import queuecore as qc
from queuecore import tf1
from queuecore.data import Dataset

COUNT, WIDTH = 40, 3
NUMBERS = np.arange(COUNT * WIDTH, dtype=np.int64).reshape(COUNT, WIDTH)


def write(folder: pathlib.Path) -> None:
    """Write the numbers as two files."""
    np.save(folder / "numbers-0.npy", NUMBERS[:17])
    np.save(folder / "numbers-1.npy", NUMBERS[17:])


def leaves(element: Any) -> list[np.ndarray]:
    """Return the arrays of an element, those of ragged rows among them; no array is copied."""
    if isinstance(element, qc.Ragged):
        return [element.values, element.row_splits]
    if isinstance(element, (tuple, list)):
        return [leaf for part in element for leaf in leaves(part)]
    return [np.asarray(element)]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Return whether two lists of arrays hold the same values."""
    return len(one) == len(other) and all(map(np.array_equal, one, other))


class Holder:
    """Arrays that a user holds, each with the values that it must have.

    Parameters
    ----------
    state : random.Random
        Decides which arrays are written to, kept, and dropped.
    """

    def __init__(self, state: random.Random) -> None:
        self._state = state
        self._held: list[tuple[Any, np.ndarray]] = []

    def receive(self, arrays: list[np.ndarray]) -> None:
        """Write into some of an element's arrays, and keep some of them or views of them."""
        for array in arrays:
            if self._state.random() < 0.5:
                overwrite(array)
        for array in arrays:
            if self._state.random() < 0.6:
                view = self._state.choice(VIEWS)(array)
                self._held.append((view, np.array(view)))

    def drop(self) -> None:
        """Let another thread drop some of the arrays in any order."""
        self._state.shuffle(self._held)
        parts = [self._held.pop() for _ in range(len(self._held) // 2)]
        thread = threading.Thread(target=parts.clear)
        thread.start()
        thread.join()
        gc.collect(0)

    def check(self) -> None:
        """Fail if any array isn't what it was."""
        for view, wanted in self._held:
            assert np.array_equal(np.asarray(view), wanted), "what a user keeps was written to"


VIEWS: list[Callable[[np.ndarray], Any]] = [
    lambda array: array,
    lambda array: array[..., :1],
    lambda array: array.T,
    lambda array: memoryview(array),
    lambda array: array.view(np.uint8) if array.flags.c_contiguous and array.ndim else array,
]


def overwrite(array: np.ndarray) -> None:
    """Write into an array; one that is read-only must refuse."""
    if array.flags.writeable:
        array[...] = -7
        return
    try:
        array[...] = -7
    except ValueError:
        return
    raise AssertionError("a read-only array took a write")


def spoil(value: Any) -> None:
    """Empty a saved state, and every list, dict and array in it."""
    if isinstance(value, dict):
        for part in value.values():
            spoil(part)
        value.clear()
    elif isinstance(value, list):
        for part in value:
            spoil(part)
        value.clear()
    elif isinstance(value, np.ndarray):
        overwrite(value)


class Drawn:
    """A random dataset.

    Parameters
    ----------
    seed : int
        The same seed draws the same dataset.
    folder : Path
        Where `write` wrote.
    quiet : bool
        The user's functions return new arrays, instead of views of their arguments or a buffer that they refill.

    Attributes
    ----------
    dataset : Dataset
    given : list of arrays
        Arrays that were handed in; the user may write to them at any time.
    text : str
        The steps, to be read.
    """

    def __init__(self, seed: int, folder: pathlib.Path, quiet: bool = False) -> None:
        state = random.Random(seed)
        self.result: Callable[[np.ndarray], np.ndarray] = np.array if quiet else lambda array: array
        self.given: list[np.ndarray] = []
        kind = state.choice(["files", "slices", "generator"])
        self.dataset: Dataset = getattr(self, f"_{kind}")(folder)
        self.text = kind
        for _ in range(state.randrange(1, 4)):
            self._then(state.choice(STEPS), state)
        self._then(state.choice(ENDS), state)

    def _then(self, step: Any, state: random.Random) -> None:
        self.dataset = step(self, self.dataset, state)
        self.text += f".{step.__name__[1:]}"

    def _files(self, folder: pathlib.Path) -> Dataset:
        return qc.data.NumpyDataset(f"{folder}/numbers-*.npy")

    def _slices(self, folder: pathlib.Path) -> Dataset:
        self.given.append(NUMBERS.copy())
        return Dataset.from_tensor_slices(self.given[0])

    def _generator(self, folder: pathlib.Path) -> Dataset:
        def refill() -> Any:
            buffer = np.empty(WIDTH, np.int64)
            for row in NUMBERS:
                buffer[:] = row
                yield self.result(buffer)

        return Dataset.from_generator(refill)


def _view(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds.map(lambda x: (int(x[0]), drawn.result(x[::-1]))[1])  # int(): a function that isn't traced


def _refill(pipeline: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    local = threading.local()

    def refill(x: Any) -> Any:
        if not hasattr(local, "buffer"):
            local.buffer = np.empty(WIDTH, np.int64)
        local.buffer[:] = x + int(x[0])
        return pipeline.result(local.buffer)

    return ds.map(refill, num_parallel_calls=state.choice([None, 2]))


def _shuffle(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds.shuffle(state.choice([3, 100]), 5, reshuffle_each_iteration=False)


def _cache(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds.cache().repeat(2).take(COUNT + 10)


def _rebatch(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds.batch(state.randint(1, 9)).unbatch()


def _window(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds.window(4, shift=3).flat_map(lambda w: w)


def _prefetch(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds.prefetch(state.randint(1, 4))


def _plain(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds


def _batch(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds.batch(state.randint(1, 9))


def _zip(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return Dataset.zip((ds, ds)).batch(state.randint(1, 9))


def _padded(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds.map(lambda x: x[: 1 + int(x[0]) % WIDTH]).padded_batch(state.randint(1, 9))


def _ragged(drawn: Drawn, ds: Dataset, state: random.Random) -> Dataset:
    return ds.map(lambda x: x[: 1 + int(x[0]) % WIDTH]).ragged_batch(state.randint(1, 9))


STEPS = [_view, _refill, _shuffle, _cache, _rebatch, _window, _prefetch]
ENDS = [_plain, _batch, _zip, _padded, _ragged]


def dataset_law(seed: int, folder: pathlib.Path) -> None:
    """Let a hostile user iterate over one random dataset, and fail if anything that it receives or keeps is wrong."""
    quiet = Drawn(seed, folder, quiet=True)
    expected = [[np.array(leaf) for leaf in leaves(element)] for element in quiet.dataset]
    pipeline, state = Drawn(seed, folder), random.Random(~seed)
    holder = Holder(state)
    for array in pipeline.given:
        array[...] = -1
    end, position, place = state.randint(1, len(expected)), 0, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # more batches are kept than may be views
        iterator, beside = iter(pipeline.dataset), iter(pipeline.dataset)
        while position < end:
            arrays = leaves(next(iterator))
            assert same(arrays, expected[position]), f"seed {seed}: element {position} of {pipeline.text}"
            position += 1
            holder.receive(arrays)
            del arrays
            action = state.randrange(8)
            if action == 0:
                holder.drop()
            elif action == 1:
                returned = iterator.state_dict()
                place = position, copy.deepcopy(returned)
                spoil(returned)
            elif action == 2 and place is not None:
                position, loaded = place[0], copy.deepcopy(place[1])
                iterator.load_state_dict(loaded)
                spoil(loaded)
                place = None
            elif action == 3 and (arrays := next(beside, None)) is not None:
                holder.receive(leaves(arrays))
                del arrays
        if state.random() < 0.5:
            iterator.close()
        del iterator
        gc.collect(0)
        holder.check()
        again = [[np.array(leaf) for leaf in leaves(element)] for element in pipeline.dataset]
        assert len(again) == len(expected) and all(map(same, again, expected)), (
            f"seed {seed}: a later pass of {pipeline.text}"
        )
    holder.check()
    beside.close()


def queue_law(seed: int) -> None:
    """Let a hostile user put rows into a queue and take them out, and fail if anything received or kept is wrong."""
    state = random.Random(seed)
    queue = qc.FIFOQueue(8, ["i8"], [(WIDTH,)])
    model: collections.deque[int] = collections.deque()
    holder, number = Holder(state), 0
    for _ in range(60):
        room = 8 - len(model)
        count = state.randint(1, 4)
        putting = count <= room and (len(model) < count or state.random() < 0.5)
        if putting:
            rows = np.repeat(np.arange(number, number + count), WIDTH).reshape(count, WIDTH)
            if state.random() < 0.5:
                queue.enqueue_many([rows])
            else:
                with queue.reserve(count) as reserved:
                    reserved[0][:] = rows
                    kept = reserved[0]
                holder.receive([kept])
                del kept, reserved
            overwrite(rows)
            model.extend(range(number, number + count))
            number += count
        elif len(model) >= count:
            if state.random() < 0.5:
                array = queue.dequeue_many(count)
            else:
                with queue.lease(count) as leased:
                    array = leased[0]
                del leased
            wanted = [model.popleft() for _ in range(count)]
            assert (array == np.array(wanted)[:, None]).all(), f"seed {seed}: rows {wanted}"
            holder.receive([array])
            del array
        if state.random() < 0.2:
            holder.drop()
    queue.close()
    del queue
    holder.check()


def session_law(seed: int) -> None:
    """Let a hostile user feed and fetch arrays, and fail if anything that a graph's queue gives is wrong."""
    state = random.Random(seed)
    holder, model = Holder(state), collections.deque[int]()
    with tf1.Graph().as_default(), tf1.Session() as session:
        fed = tf1.placeholder(tf1.int64, [WIDTH])
        constant = np.arange(WIDTH)
        added = fed + tf1.constant(constant)
        overwrite(constant)
        queue = tf1.FIFOQueue(8, [tf1.int64], [[WIDTH]])
        put, get = queue.enqueue(fed), queue.dequeue()
        buffer = np.empty(WIDTH, np.int64)
        for number in range(40):
            buffer[:] = number
            plain, total = session.run([fed, added], {fed: buffer})
            assert (total == number + np.arange(WIDTH)).all(), f"seed {seed}: sum {number}"
            holder.receive([plain, total])
            buffer[:] = number
            if len(model) < 8:
                session.run(put, {fed: buffer})
                model.append(number)
            overwrite(buffer)
            if len(model) == 8 or state.random() < 0.5:
                array = session.run(get)
                assert (array == model.popleft()).all(), f"seed {seed}: row before {number}"
                holder.receive([array])
            if state.random() < 0.2:
                holder.drop()
    holder.check()
