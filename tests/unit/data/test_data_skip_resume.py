"""``Options(on_error="skip")`` where elements change streams: what follows a saved place is what followed there."""

import json

import numpy as np
import pytest
from helpers.data.chains import write_files
from helpers.data.functions import in_python
from helpers.data.transformed import places, run, values
from helpers.formats import tfrecords

import queuecore as qc
from queuecore.data import Dataset, Options, TFRecordDataset

COUNT = 40
BAD = (0, 5, 6, 21, 30, 39)
GOOD = [number for number in range(COUNT) if number not in BAD]


@pytest.fixture
def records(tmp_path):
    """Numbers, some of which are damaged."""
    data = bytearray(tfrecords.stream([bytes([number]) for number in range(COUNT)]))
    for number in BAD:
        data[(number + 1) * 17 - 1] ^= 1
    return TFRecordDataset(write_files(tmp_path, [bytes(data)])).map(
        qc.ops.decode_raw(out_type=np.uint8, fixed_length=1)
    )


PIPELINES = {
    "zip": lambda ds: Dataset.zip((ds, Dataset.range(1000))),
    "zip of batches": lambda ds: Dataset.zip((ds.batch(1), Dataset.range(1000))),
    "enumerate": lambda ds: ds.enumerate(),
    "concatenate": lambda ds: ds.concatenate(ds.take(20)),
    "concatenate of batches": lambda ds: ds.batch(1).concatenate(Dataset.range(3).map(np.uint8).batch(1).batch(1)),
    # The elements are laid out anew.
    "concatenate of other shapes": lambda ds: Dataset.from_tensor_slices(np.zeros((3, 2), np.uint8)).concatenate(ds),
    "window": lambda ds: ds.window(3, 2),
    "windows stacked": lambda ds: ds.window(3, 2).flat_map(lambda w: w.batch(3)),
    "unbatch": lambda ds: ds.batch(1).unbatch(),
    "rebatch": lambda ds: ds.batch(1).rebatch(3),
    "choose": lambda ds: Dataset.choose_from_datasets([ds, ds], Dataset.range(2).repeat()),
    "interleave": lambda ds: Dataset.range(3).interleave(lambda n: ds, 2, 2),
    "map": lambda ds: ds.map(in_python(lambda x: x + 1), num_parallel_calls=2),
    "map, batch": lambda ds: ds.map(in_python(lambda x: {"x": x + 1})).batch(3),
    "filter": lambda ds: ds.filter(lambda x: x[0] % 3 > 0),
    "padded": lambda ds: ds.padded_batch(3),
    "cache": lambda ds: ds.cache(),
    "shard": lambda ds: ds.shard(3, 1, uneven="pad"),
    "nodes behind nodes": lambda ds: Dataset.zip((ds.enumerate().batch(1).unbatch(), ds)).window(2),
}


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("threads", [1, 4])
def test_from_every_place(records, name, threads):
    def make(passes=1):
        ds = PIPELINES[name](records.repeat(passes))
        return ds.with_options(Options(on_error="skip", num_threads=threads, max_leases=1000))

    for passes in (1, 2):
        expected = run(make(passes), values)
        assert expected
        places(lambda passes=passes: make(passes), threads, expected, values)


def test_all_that_is_left_out_is_told(tmp_path, records):
    """By who came to a place, or by who goes on there; by both, maybe, where elements change streams."""
    for number, make in enumerate(PIPELINES.values()):
        count = len(run(make(records).with_options(Options(on_error="skip", max_leases=1000)), values))
        log = tmp_path / f"log-{number}"
        ds = make(records).with_options(Options(on_error="skip", quarantine=log, max_leases=1000))
        with iter(ds) as it:
            for _ in range(count * 3 // 5):
                next(it)
            state = it.state_dict()
        with iter(ds) as it:
            it.load_state_dict(state)
            assert len(list(it)) == count - count * 3 // 5
        assert {json.loads(line)["record"] for line in log.read_text().splitlines()} == set(BAD)
