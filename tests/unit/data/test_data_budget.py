"""Options.memory_budget: what running pipelines take, against what they may; and that nothing else changes by it."""

import itertools
import os
import random

import numpy as np
import pytest
from helpers.data.chains import own, write_files
from helpers.data.padding import given
from helpers.formats.tfrecords import stream
from helpers.process import PATIENCE, soon

import queuecore as qc
from queuecore._elements.component import Component
from queuecore.data import FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import InvalidArgumentError, ResourceExhaustedError
from queuecore.ragged import Ragged

MIB = 1 << 20
# Under a sanitizer everything takes other turns, and batches are seen to grow late.
SLACK = 1.1 if "LD_PRELOAD" in os.environ else 1


def plans(folder):
    """Pipelines by name; without a budget most of them take tens of MiB."""
    state = np.random.default_rng(0)
    records = state.integers(0, 256, (3000, 3073), np.uint8)
    texts = [bytes(row[: int(row[0]) * 8]) for row in records[:1000]]
    lines = b"".join(b"%d\n" % (n * n * n) for n in range(200_000))
    images, text, examples = write_files(folder, [records.tobytes(), lines, stream(texts)])
    fixed = FixedLengthRecordDataset(images, 3073)
    letters = TextLineDataset(text).map(qc.ops.decode_raw(out_type="u1"))
    return {
        "batches": fixed.batch(16),
        "records": fixed,
        "prefetched": fixed.batch(16).prefetch(2000),
        "small": FixedLengthRecordDataset(images, 439).batch(7),
        "stored shuffle": FixedLengthRecordDataset(images, 439).shuffle(1500, 1, False).batch(32),
        "shuffle": fixed.shuffle(2000, 1, False).batch(8),
        "shuffled batches": fixed.batch(8).shuffle(5, 1, False),
        "lines": TextLineDataset(text).batch(1000),
        "single lines": TextLineDataset(text).take(50_000),
        "tfrecords": TFRecordDataset(examples).repeat(3).batch(20),
        "padded": letters.padded_batch(1000),
        "buckets": letters.take(10_000).bucket_by_sequence_length(len, [8, 13], [100, 50, 70]),
        "behind a node": given([np.full(9, n) for n in range(3000)], Component(np.dtype(int), (9,)), 50).batch(64),
    }


@pytest.fixture(scope="module")
def every_plan(tmp_path_factory):
    return plans(tmp_path_factory.mktemp("plans"))


def plain(element):
    return element.to_list() if isinstance(element, Ragged) else own(element)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [
        *("batches", "records", "prefetched", "small", "stored shuffle", "shuffle", "shuffled batches"),
        *("lines", "single lines", "tfrecords", "padded", "buckets", "behind a node"),
    ],
)
def test_a_budget_is_kept_and_changes_nothing(every_plan, name):
    ds = every_plan[name]
    expected = [hash_of(element) for element in ds.with_options(Options(num_threads=4))]
    for budget, workers in itertools.product((MIB, 3 * MIB, 24 * MIB), (1, 4)):
        peak = 0
        results = []
        with iter(ds.with_options(Options(num_threads=workers, memory_budget=budget))) as it:
            for number, element in enumerate(it):
                results.append(hash_of(element))
                if number % 16 == 0:
                    peak = max(peak, it.stats()["memory_bytes"])
            peak = max(peak, it.stats()["memory_bytes"])
        assert results == expected
        assert 0 < peak <= SLACK * budget, (budget, workers)


def hash_of(element):
    made = plain(element)
    return hash(made.tobytes() if isinstance(made, np.ndarray) else repr(made))


def test_without_a_budget_much_more_is_taken(every_plan):
    with iter(every_plan["prefetched"].repeat()) as it:
        next(it)
        # Slots count once a batch has had them: the workers go on while nobody takes any.
        assert soon(lambda: it.stats()["memory_bytes"] > 24 * MIB, PATIENCE)


@pytest.mark.parametrize("name", ["lines", "padded", "stored shuffle", "buckets"])
def test_a_place_saved_with_another_budget(every_plan, name):
    ds = every_plan[name]
    expected = [hash_of(element) for element in ds]
    for first, then in ((None, 2 * MIB), (2 * MIB, 24 * MIB), (3 * MIB, None)):
        with iter(ds.with_options(Options(memory_budget=first))) as it:
            got = [hash_of(next(it)) for _ in range(21)]
            state = it.state_dict()
        with iter(ds.with_options(Options(memory_budget=then))) as it:
            it.load_state_dict(state)
            got += map(hash_of, it)
        assert got == expected


def test_nested_streams_share_a_budget(tmp_path):
    records = np.arange(400_000, dtype=np.int32).reshape(-1, 40)
    (path,) = write_files(tmp_path, [records.tobytes()])
    # Each padded batch makes a stream behind one that reads.
    ds = FixedLengthRecordDataset(path, record=np.dtype(("<i4", (40,)))).padded_batch(50, [60]).padded_batch(2)
    with iter(ds.with_options(Options(memory_budget=3 * MIB))) as it:
        for batch, expected in zip(it, records.reshape(-1, 2, 50, 40), strict=True):
            np.testing.assert_array_equal(batch[..., :40], expected)
            assert it.stats()["memory_bytes"] <= 3 * MIB


def test_too_small_for_one_batch(tmp_path):
    (path,) = write_files(tmp_path, [bytes(8 << 20)])
    big = FixedLengthRecordDataset(path, 1 << 20).batch(2)
    with pytest.raises(ResourceExhaustedError, match=r"need 1\d{7}:"):
        iter(big.with_options(Options(memory_budget=4 * MIB)))
    assert sum(len(batch) for batch in big.with_options(Options(memory_budget=24 * MIB))) == 8
    # What varies shows only when it is there.
    lines = [b"x" * 10, b"y" * (3 << 20), b"z"]
    (path,) = write_files(tmp_path, [b"".join(line + b"\n" for line in lines)])
    with pytest.raises(ResourceExhaustedError, match="memory_budget"):
        list(TextLineDataset(path).batch(3).with_options(Options(memory_budget=MIB)))
    (batch,) = TextLineDataset(path).batch(3).with_options(Options(memory_budget=64 * MIB))
    assert batch.to_list() == lines


def test_a_shuffle_that_keeps_more_than_there_may_be(tmp_path):
    (path,) = write_files(tmp_path, [b"".join(b"%d\n" % (n * n) for n in range(300_000))])
    ds = TextLineDataset(path).shuffle(200_000, seed=1).batch(100)
    with pytest.raises(ResourceExhaustedError, match="memory_budget"):
        for _ in ds.with_options(Options(memory_budget=MIB)):
            pass
    with iter(TextLineDataset(path).shuffle(500, seed=1).batch(100).with_options(Options(memory_budget=8 * MIB))) as it:
        assert sum(len(batch) for batch in it) == 300_000
        assert it.stats()["memory_bytes"] <= 8 * MIB


def test_batches_that_are_held_are_copies_sooner(tmp_path):
    (path,) = write_files(tmp_path, [random.Random(0).randbytes(100 * 40_000)])
    ds = FixedLengthRecordDataset(path, 40_000).batch(3).with_options(Options(memory_budget=MIB, max_leases=30))
    with pytest.warns(RuntimeWarning, match="held"):
        held = list(ds)
    data = path.read_bytes()
    assert b"".join(batch.tobytes() for batch in held) == data
    with pytest.raises(ResourceExhaustedError):
        iter(ds.with_options(Options(on_hold="raise")))


def test_arguments():
    for budget in (0, -1, MIB - 1, 2.0**21, "1MiB", True):
        with pytest.raises(InvalidArgumentError):
            Options(memory_budget=budget)
    for deterministic in (0, 1, "no"):
        with pytest.raises(InvalidArgumentError):
            Options(deterministic=deterministic)
    both = Options(memory_budget=MIB, deterministic=False)
    assert repr(both) == "Options(deterministic=False, memory_budget=1048576)"
    assert both.merged(Options(deterministic=True)) == Options(memory_budget=MIB, deterministic=True)
    assert both.merged(Options()) == both
