"""Records about as long as a piece that is read at a time, and longer: their memory is used again."""

import itertools
import random
import zlib

import numpy as np
import pytest
from helpers.formats.tfrecords import stream

from queuecore import ops
from queuecore.data import Options, TextLineDataset, TFRecordDataset, WholeFileDataset

# Only a build with QUEUECORE_TESTING=1 has it; release wheels don't.
syscalls = pytest.importorskip("queuecore._core.testing.syscalls")

PLAIN = bytes(byte if byte not in b"\r\n" else 32 for byte in range(256))


def records(nbytes):
    # No two have the same length, so that no two places in a piece are the same.
    state = random.Random(nbytes)
    return [state.randbytes(nbytes - 100 * number).translate(PLAIN) for number in range(32_000_000 // nbytes)]


@pytest.mark.parametrize("nbytes", [110_000, 250_000, 900_000])
@pytest.mark.parametrize("framing", ["lines", "records"])
def test_memory_is_mapped_once(tmp_path, framing, nbytes):
    name, expected = tmp_path / "file", records(nbytes)
    name.write_bytes(stream(expected) if framing == "records" else b"".join(line + b"\n" for line in expected))
    ds = (TFRecordDataset if framing == "records" else TextLineDataset)(str(name)).with_options(Options(num_threads=1))
    assert list(ds) == expected
    syscalls.reset_faults()
    assert list(ds) == expected
    # Of 128 pieces, one or two in three cut off a record.
    assert syscalls.call_counts()["map"] <= 12


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("framing", ["lines", "records"])
def test_long_records_among_short_ones(tmp_path, framing, threads):
    """Of all sizes beside a piece's and a long piece's, in two files, from the start and from saved places."""
    state = random.Random(1)
    expected, names = [], []
    for number in range(2):
        names.append(str(tmp_path / f"{number}"))
        lengths = [0, 17, 600_000, 524_288 - 12, 3, 1_500_000, 1_048_576, 17_000_000, 5, 80_000, 2_000_000]
        state.shuffle(lengths)
        contents = [state.randbytes(length).translate(PLAIN) for length in lengths]
        with open(names[-1], "wb") as file:
            file.write(stream(contents) if framing == "records" else b"".join(line + b"\n" for line in contents))
        expected += contents
    ds = TFRecordDataset(names) if framing == "records" else TextLineDataset(names)
    ds = ds.with_options(Options(num_threads=threads))
    with iter(ds) as it:
        for number, record in enumerate(expected):
            saved = it.state_dict()
            assert next(it) == record
            if number % 3 == 0:
                with iter(ds) as resumed:
                    resumed.load_state_dict(saved)
                    assert next(resumed) == record
        assert next(it, None) is None


@pytest.mark.parametrize("nbytes", [40_000, 250_000])
@pytest.mark.parametrize("framing", ["whole", "records"])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_an_element_waits_for_few_others(tmp_path, threads, framing, nbytes):
    """Elements share a chunk, but not one of hundreds of long records."""
    expected = [record[:nbytes] for record in records(250_000) for _ in range(250_000 // nbytes)]
    if framing == "records":
        (tmp_path / "file").write_bytes(stream(expected))
        ds = TFRecordDataset(str(tmp_path / "file"))
    else:
        for number, record in enumerate(expected):
            (tmp_path / f"{number:04}").write_bytes(record)
        ds = WholeFileDataset(f"{tmp_path}/*").map(lambda _, contents: contents)
    with iter(ds.with_options(Options(num_threads=threads))) as it:
        assert next(it) == expected[0]
        stats = it.stats()
        # However fast the threads are: of 32 MB, what may be ahead; for each thread, what its blocks and batches take.
        assert stats["bytes_read"] <= 16_000_000
        assert stats["memory_bytes"] <= 8_000_000 * (threads + 1)
        assert list(it) == expected[1:]


@pytest.mark.parametrize("threads", [1, 2])
def test_few_elements_are_made_ahead_if_steps_make_them_large(tmp_path, threads):
    """Of about 310 bytes, 300,000: as pictures of one colour."""
    state = random.Random(3)
    expected = [bytes([state.randrange(256)]) * 300_000 for _ in range(1500)]
    (tmp_path / "file").write_bytes(stream([zlib.compress(row) for row in expected]))
    ds = TFRecordDataset(str(tmp_path / "file")).map(ops.decode_compressed(compression_type="ZLIB"))
    with iter(ds.with_options(Options(num_threads=threads))) as it:
        assert list(itertools.islice(it, 500)) == expected[:500]
        assert it.stats()["memory_bytes"] <= 80_000_000  # of 450
        assert list(it) == expected[500:]


@pytest.mark.parametrize("batched", [False, True])
def test_rows_come_in_memory_that_was_used_before(tmp_path, batched):
    """Of other lengths than their records, as pictures are; several units make a batch."""
    name = tmp_path / "file"
    state = np.random.default_rng(0)
    expected = [state.integers(0, 256, 400_000 - 1000 * number, np.uint8) for number in range(64)]
    name.write_bytes(stream([row.tobytes() for row in expected]))
    ds = TFRecordDataset([str(name)] * 24).map(ops.decode_raw(out_type=np.uint8))
    ds = (ds.ragged_batch(16) if batched else ds).with_options(Options(num_threads=2))
    syscalls.reset_faults()
    sums = [int(row.sum(dtype=np.int64)) for element in ds for row in (element if batched else [element])]
    assert sums == [int(row.sum(dtype=np.int64)) for row in expected] * 24
    assert syscalls.call_counts()["map"] <= 200  # each of 768 units makes two rows


SPLITS = {
    "itself": lambda x: x,
    "twice": lambda x: (x, x),
    "other and itself": lambda x: (x * 2, x),
    "itself and others": lambda x: (x, x + 1, -x),
    "named": lambda x: {"sum": x + x, "number": x, "same": x},
}


def flat(element):
    return list(element.values()) if isinstance(element, dict) else list(element)


@pytest.mark.parametrize("form", ["one by one", "ragged", "padded"])
@pytest.mark.parametrize("little_endian", [True, False])
@pytest.mark.parametrize("split", SPLITS)
def test_rows_that_steps_write_where_they_lie(tmp_path, split, little_endian, form):
    """Of varying lengths, so that the memory they lie in moves; some have no number, some a piece of one."""
    state = random.Random(4)
    strings = [state.randbytes(state.choice([0, 4, 400, 3001, 80_000, 200_000])) for _ in range(60)]
    (tmp_path / "file").write_bytes(stream(strings))
    rows = [np.frombuffer(x, "<i4" if little_endian else ">i4").astype("=i4") for x in strings if len(x) % 4 == 0]
    expected = [[rows[n]] if split == "itself" else flat(SPLITS[split](rows[n])) for n in range(len(rows))]
    ds = TFRecordDataset(str(tmp_path / "file")).map(ops.decode_raw(out_type=np.int32, little_endian=little_endian))
    ds = ds.map(SPLITS[split]).with_options(Options(num_threads=2, on_error="skip", on_hold="copy"))
    if form == "ragged":
        ds = ds.ragged_batch(7)
    elif form == "padded":
        ds = ds.padded_batch(7)
    assert not [line for line in str(ds.plan()).splitlines() if line.startswith("Python") and "map" in line]
    given = []
    for element in ds:
        parts = [element] if split == "itself" else flat(element)
        given += [parts] if form == "one by one" else [list(row) for row in zip(*parts, strict=True)]
    for row, right in zip(given, expected, strict=True):
        for part, values in zip(row, right, strict=True):
            padding = np.asarray(part)[values.size :]
            assert np.array_equal(np.asarray(part)[: values.size], values) and not padding.any()
            assert padding.size == 0 or form == "padded"
