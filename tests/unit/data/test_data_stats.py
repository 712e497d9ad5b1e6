"""Counters of iterators: records, bytes and files are those of the sources, whatever steps stand above them.

The right values are those of the files: how many lines they have, and how many bytes.
"""

import numpy as np
import pytest

from queuecore.data import CsvDataset, Dataset, Options, TextLineDataset

LINES = 2000


def number_of(line):
    return int(bytes(line).decode())


def counted(ds):
    with iter(ds) as it:
        elements = sum(1 for _ in it)
        found = it.stats()
    later = it.stats()
    names = ("records", "bytes_read", "files_known", "skipped", "skipped_files")
    assert [later[name] for name in names] == [found[name] for name in names]
    assert found["elements"] == elements
    return elements, [found[name] for name in names]


# From the dataset of lines: how many elements come out, how many times the file is read, and as how many files.
COUNTED = {
    "nothing": (lambda ds: ds, LINES, 1, 1),
    "batch": (lambda ds: ds.batch(100), 20, 1, 1),
    "map": (lambda ds: ds.map(number_of), LINES, 1, 1),
    "map, batch": (lambda ds: ds.map(number_of).batch(100), 20, 1, 1),
    "batch, map": (lambda ds: ds.batch(100).map(lambda lines: len(list(lines))), 20, 1, 1),
    "map, map, batch": (lambda ds: ds.map(number_of).map(lambda x: int(x)).batch(100), 20, 1, 1),
    "parallel map": (lambda ds: ds.map(number_of, 3).batch(7), 286, 1, 1),
    "filter": (lambda ds: ds.filter(lambda line: number_of(line) % 2 == 0).batch(10), 100, 1, 1),
    "shuffle": (lambda ds: ds.map(number_of).shuffle(100, 1).batch(10), 200, 1, 1),
    "repeat": (lambda ds: ds.map(number_of).repeat(3).batch(10), 600, 3, 1),
    "cache": (lambda ds: ds.cache().repeat(2).batch(10), 400, 1, 1),
    "window": (lambda ds: ds.window(10).flat_map(lambda window: window.batch(10)), 200, 1, 1),
    "unbatch": (
        lambda ds: ds.batch(64).map(lambda lines: np.array([number_of(one) for one in lines])).unbatch(),
        LINES,
        1,
        1,
    ),
    "concatenate": (lambda ds: ds.concatenate(ds).batch(7), 572, 2, 2),
    "zip": (lambda ds: Dataset.zip((ds, ds.map(number_of))).batch(50), 40, 2, 2),
    "scan": (lambda ds: ds.scan(0, lambda state, line: (state + 1, state)).batch(40), 50, 1, 1),
    "ignore_errors": (lambda ds: ds.map(number_of).ignore_errors().batch(10), 200, 1, 1),
}


@pytest.mark.parametrize(("chain", "elements", "times", "files"), COUNTED.values(), ids=COUNTED)
def test_records_and_bytes_are_those_of_the_sources(tmp_path, chain, elements, times, files):
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(LINES)))
    right = [LINES * times, path.stat().st_size * times, files, 0, 0]
    assert counted(chain(TextLineDataset(path))) == (elements, right)


@pytest.mark.parametrize("function", [TextLineDataset, lambda name: TextLineDataset(name).map(number_of)])
@pytest.mark.parametrize("how", ["interleave", "flat_map"])
def test_records_of_datasets_that_functions_make(tmp_path, how, function):
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(LINES)))
    names = Dataset.from_tensor_slices([str(path)] * 20)
    made = names.interleave(function, 2) if how == "interleave" else names.flat_map(function)
    right = [20 * LINES, 20 * path.stat().st_size, 20, 0, 0]
    assert counted(made.batch(1000)) == (20 * LINES // 1000, right)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "step", [lambda ds: ds, lambda ds: ds.map(lambda x: int(x)), lambda ds: ds.map(lambda x: x + 1)]
)
def test_what_is_left_out_is_counted_wherever_it_happens(tmp_path, step, batch):
    path = tmp_path / "numbers"
    path.write_text("".join(f"{number}\n" if number % 10 else "x\n" for number in range(100)))
    ds = step(CsvDataset([path, tmp_path / "missing"], [0]).map(lambda row: row))
    skipping = Options(on_error="skip")
    for dataset in (
        ds.ignore_errors(),
        ds.with_options(skipping),
        ds.ignore_errors().with_options(skipping),
        ds.ignore_errors().map(lambda x: int(x)),
        ds.ignore_errors().filter(lambda x: int(x) >= 0).ignore_errors(),
    ):
        elements, found = counted(dataset.batch(9) if batch else dataset)
        assert elements == (10 if batch else 90)
        assert found[0] == 90 and found[1] >= path.stat().st_size  # blocks with bad rows are read again
        assert found[3:] == [10, 1]


def test_elements_that_a_function_refuses_are_counted(tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(LINES)))
    ds = TextLineDataset(path).map(lambda line: 1 // (number_of(line) % 10))
    for made in (ds.ignore_errors(), ds.with_options(Options(on_error="skip"))):
        elements, found = counted(made.batch(3))
        assert elements == 600 and found == [LINES, path.stat().st_size, 1, 200, 0]
