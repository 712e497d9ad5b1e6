"""Arguments are checked where a dataset is described."""

import numpy as np
import pytest
from helpers.data.chains import run, values, write_files

import queuecore as qc
from queuecore.data import AUTOTUNE, UNKNOWN_CARDINALITY, Dataset, FixedLengthRecordDataset, Options
from queuecore.errors import InvalidArgumentError

BAD_COUNTS = [-2, 1.0, True, np.True_, "1", 2**63, object()]


@pytest.mark.parametrize("bad", [0, -1, 1.0, 3072.5, True, "3073", 2**60, [1]])
def test_record_bytes(tmp_path, bad):
    with pytest.raises(InvalidArgumentError):
        FixedLengthRecordDataset(tmp_path / "x", bad)


@pytest.mark.parametrize("name", ["header_bytes", "footer_bytes", "hop_bytes"])
@pytest.mark.parametrize("bad", [-1, 1.0, True, "1", 2**60])
def test_frame(tmp_path, name, bad):
    with pytest.raises(InvalidArgumentError):
        FixedLengthRecordDataset(tmp_path / "x", 4, **{name: bad})


def test_one_of_record_and_record_bytes(tmp_path):
    with pytest.raises(InvalidArgumentError):
        FixedLengthRecordDataset(tmp_path / "x")
    with pytest.raises(InvalidArgumentError):
        FixedLengthRecordDataset(tmp_path / "x", 4, record="u4")


@pytest.mark.parametrize("bad", ["raise", "", None, True, 0])
def test_tail(tmp_path, bad):
    with pytest.raises(InvalidArgumentError):
        FixedLengthRecordDataset(tmp_path / "x", 4, tail=bad)


@pytest.mark.parametrize("bad", [0, -2, 1.5, True, 100_000])
def test_threads(tmp_path, bad):
    with pytest.raises(InvalidArgumentError):
        FixedLengthRecordDataset(tmp_path / "x", 4, num_parallel_reads=bad)
    with pytest.raises(InvalidArgumentError):
        Options(num_threads=bad)


@pytest.mark.parametrize("bad", BAD_COUNTS)
@pytest.mark.parametrize("method", ["repeat", "take", "skip", "prefetch"])
def test_counts(tmp_path, method, bad):
    with pytest.raises(InvalidArgumentError):
        getattr(FixedLengthRecordDataset(tmp_path / "x", 4), method)(bad)


@pytest.mark.parametrize("bad", [*BAD_COUNTS, 0, -1])
@pytest.mark.parametrize("method", ["batch", "shuffle"])
def test_sizes(tmp_path, method, bad):
    if method == "shuffle" and bad == UNKNOWN_CARDINALITY:
        bad = -3
    with pytest.raises(InvalidArgumentError):
        getattr(FixedLengthRecordDataset(tmp_path / "x", 4), method)(bad)


def test_sizes_that_no_memory_holds(tmp_path):
    ds = FixedLengthRecordDataset(tmp_path / "x", 4)
    with pytest.raises(InvalidArgumentError):
        ds.shuffle(2**31)
    with pytest.raises(InvalidArgumentError):
        ds.batch(2**41)
    with pytest.raises(InvalidArgumentError):
        ds.batch(2**20).batch(2**21)


@pytest.mark.parametrize("bad", [0, "yes", 1.0])
def test_flags(tmp_path, bad):
    ds = FixedLengthRecordDataset(tmp_path / "x", 4)
    with pytest.raises(InvalidArgumentError):
        ds.batch(4, bad)
    with pytest.raises(InvalidArgumentError):
        ds.shuffle(4, None, bad)


@pytest.mark.parametrize("options", [{"on_hold": "wait"}, {"on_hold": True}, {"max_leases": 0}, {"max_leases": 2.0}])
def test_options(options):
    with pytest.raises(InvalidArgumentError):
        Options(**options)


def test_unknown_options():
    with pytest.raises(TypeError):
        Options(num_thread=3)
    with pytest.raises(TypeError):
        Options(3)


def test_with_options_takes_options(tmp_path):
    with pytest.raises(InvalidArgumentError):
        FixedLengthRecordDataset(tmp_path / "x", 4).with_options({"num_threads": 2})


def test_later_options_win_for_what_they_set(tmp_path):
    ds = FixedLengthRecordDataset(tmp_path / "x", 4).with_options(Options(num_threads=3, max_leases=8))
    ds = ds.batch(2).with_options(Options(on_hold="raise", num_threads=5))
    assert ds._chain.options == Options(num_threads=5, on_hold="raise", max_leases=8)


def test_threads_and_helping(tmp_path):
    def chosen(option=None, reads=None):
        ds = FixedLengthRecordDataset(tmp_path / "x", 4, num_parallel_reads=reads)
        return ds.with_options(Options(num_threads=option))._chain.threads()

    workers, helps = chosen()
    assert 1 <= workers <= 8
    assert helps
    assert chosen(AUTOTUNE, AUTOTUNE) == chosen()
    assert chosen(1) == (1, False)
    assert chosen(5) == (5, True)
    assert chosen(None, 3) == (3, True)
    assert chosen(2, 3) == (2, True)


def test_prefetch_counts_elements_of_the_top(tmp_path):
    ds = FixedLengthRecordDataset(tmp_path / "x", 4)
    assert ds._chain.prefetch_elements() == -1
    assert ds.batch(8).prefetch(3)._chain.prefetch_elements() == 3
    assert ds.prefetch(100).batch(8)._chain.prefetch_elements() == 13
    assert ds.prefetch(100).batch(8).prefetch(2)._chain.prefetch_elements() == 13
    assert ds.prefetch(10).batch(8).prefetch(5).prefetch(0).prefetch(AUTOTUNE)._chain.prefetch_elements() == 5
    assert ds.prefetch(0)._chain.prefetch_elements() == -1


def test_a_dataset_is_abstract_and_immutable(tmp_path):
    with pytest.raises(TypeError):
        Dataset()
    paths = write_files(tmp_path, [bytes(range(6))])
    ds = FixedLengthRecordDataset(paths, 1)
    ds.batch(2)
    ds.shuffle(3).take(1)
    assert values(run(ds)[0]) == list(range(6))
    assert bool(FixedLengthRecordDataset(tmp_path / "not there", 1))


def test_repr_names_the_steps(tmp_path):
    ds = FixedLengthRecordDataset(tmp_path / "x", 4).shuffle(10, 1).batch(2, True).prefetch(3)
    assert repr(ds).endswith(".shuffle(10, True).batch(2, True).prefetch(3)")


def test_tensorflows_own_spelling(tmp_path):
    # None for the two ends of a file, positional arguments, integers of NumPy's.
    paths = write_files(tmp_path, [bytes(range(6))])
    ds = FixedLengthRecordDataset(paths, np.int32(1), None, None).shuffle(np.int64(1), None, None).repeat(None).take(9)
    assert values(run(ds)[0]) == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    assert values(run(ds.batch(np.uint8(4), np.False_))[0]) == [[0, 1, 2, 3], [4, 5, 0, 1], [2]]


def test_errors_are_the_builtins_too():
    assert issubclass(qc.errors.InvalidArgumentError, ValueError)
