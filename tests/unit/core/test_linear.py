"""Time that reading takes: as many times as much for as many times as many bytes, however they are cut."""

import time

import numpy as np
import pytest
from helpers.data.blocks import plain, small

from queuecore.data import CsvDataset, Options, TextLineDataset
from queuecore.errors import RecordTooLargeError

pytest.importorskip("queuecore._core.testing.syscalls", reason="no test hooks (QUEUECORE_TESTING=1)")

# One row of about so many bytes, and what its second field is then.
ROWS = {
    "bare": lambda n: (b"x" * n, b"x" * n),
    "quoted": lambda n: (b'"' + b"ab,\r\n\n" * (n // 6) + b'"', b"ab,\r\n\n" * (n // 6)),
    "doubled": lambda n: (b'"' + b'a""b\r' * (n // 6) + b'"', b'a"b\r' * (n // 6)),
    "fields": lambda n: (b"x" + b',"yy"' * (n // 5), b"x"),
}


def seconds(work):
    """Of the processor, for whatever it is done in; the least of some tries."""
    least = 1e9
    for _ in range(3):
        begun = time.process_time()
        work()
        least = min(least, time.process_time() - begun)
    return least


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [*ROWS, "open", "line"])
def test_a_row_in_many_pieces(tmp_path, kind):
    def read(n):
        file = tmp_path / f"{n}"
        if kind == "line":
            expected = [b"x" * n, b"y"]
            file.write_bytes(b"\n".join(expected) + b"\n")
            ds = TextLineDataset(file)
        else:
            text, field = (b'"' + b"x" * n, b"") if kind == "open" else ROWS[kind](n)
            expected = [(1, field), (2, b"y")]
            file.write_bytes(b"1," + text + (b"" if kind == "open" else b"\n2,y\n"))
            ds = CsvDataset(file, [np.int32, bytes], select_cols=[0, 1])
        results = []
        with iter(small(ds, 64).with_options(Options(num_threads=1))) as it:
            try:
                for element in it:
                    results.append(plain(element))
            except ValueError:
                assert kind == "open"
        assert kind == "open" or results == expected

    least = 100_000 if kind in ("bare", "doubled", "fields") else 400_000  # what looks for one byte is fast
    few = seconds(lambda: read(least))
    many = seconds(lambda: read(8 * least))
    assert many < 24 * few  # 8 times as much, and not 64 times


def test_rows_that_differ_in_their_number_of_fields(tmp_path):
    # As many bytes; of one kind, no two rows that follow each other are alike.
    (tmp_path / "alike").write_bytes(b"1,2\n1,3\n" * 60_000)
    (tmp_path / "ragged").write_bytes(b"1,2\n1\n11\n" * 53_000)

    def read(name):
        ds = CsvDataset(tmp_path / name, [np.int32], select_cols=[0]).batch(1000)
        assert sum(len(batch) for (batch,) in ds.with_options(Options(num_threads=1))) in (120_000, 159_000)

    alike = seconds(lambda: read("alike"))
    assert seconds(lambda: read("ragged")) < 40 * alike


def test_few_rows_at_once(tmp_path):
    (tmp_path / "a").write_bytes(b"1,2.5\n" * 80_000)
    ds = CsvDataset(tmp_path / "a", [np.int32, np.float32]).with_options(Options(num_threads=1))

    def read(ds):
        assert sum(len(batch) for batch, _ in ds.batch(1000)) == 80_000

    together = seconds(lambda: read(ds))
    assert seconds(lambda: read(ds.shuffle(1000, 1))) < 30 * together


@pytest.mark.parametrize("kind", ["csv", "lines"])
def test_what_lies_behind_a_record_that_is_too_long(tmp_path, kind):
    # Pieces that nobody wants may be looked through all the same: nothing goes on in them.
    (tmp_path / "a").write_bytes(b"1\n" + b'"' * (kind == "csv") + b"x" * 200_000)
    source = CsvDataset(tmp_path / "a", [bytes]) if kind == "csv" else TextLineDataset(tmp_path / "a")
    for threads in (1, 4):
        options = Options(max_record_bytes=1000, num_threads=threads)
        with iter(small(source, 64).with_options(options)) as it:
            assert plain(next(it)) in (b"1", (b"1",))
            with pytest.raises(RecordTooLargeError):
                next(it)
