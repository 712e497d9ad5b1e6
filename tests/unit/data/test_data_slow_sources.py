"""Elements that Python makes slowly come as they are made: no node behind them waits for more than it needs."""

import contextlib
import threading

import numpy as np
import pytest

from queuecore.data import Dataset

# So many elements are made at once. The next one comes only when the first result was taken.
AT_ONCE = 40
WAIT_SECONDS = 20

SOURCES = {
    "generator": lambda make: Dataset.from_generator(lambda: map(make, range(1000)), output_types=np.int64),
    "map": lambda make: Dataset.range(1000).map(lambda x: make(int(x))),
    "generator in a flat_map": lambda make: Dataset.range(2).flat_map(lambda _: SOURCES["generator"](make)),
    "threads": lambda make: Dataset.range(1000).map(lambda x: make(int(x)), num_parallel_calls=2),
}
FIRST = {
    "as it is": lambda ds: ds,
    "flat_map": lambda ds: ds.flat_map(Dataset.from_tensors),
    "interleave": lambda ds: ds.interleave(Dataset.from_tensors, cycle_length=2),
    "batch": lambda ds: ds.batch(2),
    "unbatch": lambda ds: ds.batch(2).unbatch(),
    "zip": lambda ds: Dataset.zip((ds, Dataset.range(1000))).map(lambda x, _: x),
}
THEN = {
    "map": lambda ds: ds.map(lambda x: x + 1),
    "map in Python": lambda ds: ds.map(lambda x: np.int64(x.sum())),
    "filter": lambda ds: ds.filter(lambda x: x.sum() >= 0),
    "filter in Python": lambda ds: ds.filter(lambda x: bool(x.sum() >= 0)),
    "take": lambda ds: ds.take(900),
    "shuffle": lambda ds: ds.shuffle(3),
    "shard": lambda ds: ds.shard(2, 0),
    "repeat": lambda ds: ds.repeat(2),
    "zip": lambda ds: Dataset.zip((ds, Dataset.range(1000))),
    "enumerate": lambda ds: ds.enumerate(),
    "choose_from_datasets": lambda ds: Dataset.choose_from_datasets([ds, ds], Dataset.range(900).map(lambda i: i % 2)),
    "concatenate": lambda ds: ds.concatenate(ds),
    "cache": lambda ds: ds.cache(),
    "batch": lambda ds: ds.batch(2),
    "padded_batch": lambda ds: ds.padded_batch(2),
    "window": lambda ds: ds.window(2).flat_map(lambda window: window.batch(2)),
    "take_while": lambda ds: ds.take_while(lambda x: x.sum() >= 0),
    "scan": lambda ds: ds.scan(np.int64(0), lambda state, x: (state + 1, x)),
    "ignore_errors": lambda ds: ds.ignore_errors(),
    "flat_map": lambda ds: ds.flat_map(Dataset.from_tensors),
    "interleave": lambda ds: ds.interleave(Dataset.from_tensors, cycle_length=2),
    "prefetch": lambda ds: ds.prefetch(2),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("then", THEN)
def test_the_first_element_waits_for_no_further_ones(source, first, then):
    first_taken = threading.Event()
    in_vain = []

    def make(number):
        if number >= AT_ONCE and not first_taken.is_set() and not first_taken.wait(WAIT_SECONDS):
            in_vain.append(number)
        return number

    with iter(THEN[then](FIRST[first](SOURCES[source](make)))) as iterator:
        next(iterator)
        first_taken.set()
        next(iterator)
    assert in_vain == []


AT_HAND = {
    "arrays": lambda: Dataset.from_tensor_slices(np.zeros((50_000, 32), np.float32)),
    "range": lambda: Dataset.range(50_000),
    "zip": lambda: Dataset.zip((Dataset.range(50_000), AT_HAND["arrays"]())),
    "enumerate": lambda: AT_HAND["zip"]().enumerate(),
    "concatenate": lambda: AT_HAND["range"]().concatenate(AT_HAND["range"]()),
    "unbatch": lambda: AT_HAND["arrays"]().batch(10).unbatch(),
}


@pytest.mark.parametrize("source", AT_HAND)
def test_elements_that_are_there_come_in_whole_chunks(source):
    # Not as many at a time as a consumer of records is given: each chunk costs threads a hand-over.
    node = AT_HAND[source]().enumerate()._chain.source
    with contextlib.closing(node.trial().rows(0, 0)) as rows:
        assert next(rows).n == node.inputs[0].chunk_rows() > 2000
