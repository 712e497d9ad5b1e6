"""Records about as long as a piece that is read at a time, and longer: their memory is used again."""

import random

import pytest
from helpers.formats.tfrecords import stream

from queuecore.data import Options, TextLineDataset, TFRecordDataset

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
    syscalls.reset_faults()
    assert list(ds) == expected
    # Of 128 pieces, one or two in three cut off a record that is too long for the headroom at first.
    assert syscalls.call_counts()["map"] <= 24
