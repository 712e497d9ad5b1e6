"""What is tried with an exception at each site (helpers.faults.raising): small runs, judged by plain numbers.

A scenario makes what it needs in a folder, and returns the function that is run once for every site.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from helpers.data.functions import in_python
from helpers.data.matrix import numbers_in
from helpers.faults.raise_queues import QUEUES
from helpers.faults.raising import Cut, Trial

import queuecore as qc
from queuecore._io.names import Listing
from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset
from queuecore.errors import FailedPreconditionError

warnings.simplefilter("ignore")

Scenario = Callable[[Trial], None]

COUNT = 22
FEW = Options(num_threads=1)


def numbers(element: Any) -> list[int]:
    """The numbers of an element, in order."""
    return [int(one) for one in numbers_in(element)]


def elements(make: Callable[[], Dataset], expected: list[list[int]], state: bool = False) -> Scenario:
    """Read all elements of a dataset, and again what a call that was cut short has not given.

    After an exception the same element comes again; or the iterator is closed and says so, and another one goes on from
    its place; or, in the call that gives the error of one element, that element is away, and all of a generator that
    raises. What the interpreter dropped on the way back is away, too.
    """

    def run(trial: Trial) -> None:
        it = trial.again(lambda: iter(make()))
        results: list[Any] = []
        may_lack = 0
        while True:
            try:
                results.append(trial(next, it))
                if state:
                    trial.again(it.state_dict)
                continue
            except StopIteration:
                break
            except Cut:
                may_lack = trial.at_return or it.goes_on
            except FailedPreconditionError:
                assert it.closed and trial.came_out
                it = _elsewhere(it, make)
        check(expected, [numbers(one) for one in results], may_lack, trial.others)
        trial.again(it.close)

    return run


def _elsewhere(it: Any, make: Callable[[], Dataset]) -> Any:
    """A fresh iterator at the place of one that is closed."""
    place = it.state_dict()
    it.close()
    fresh = iter(make())
    fresh.load_state_dict(place)
    return fresh


def check(expected: list[list[int]], results: list[list[int]], may_lack: bool, may_be_short: bool) -> None:
    """Compare elements; one may be away, or one record, with which another batch ends; or all behind an error.

    `may_be_short`: the error of a thread that makes elements may have cut a batch short, but no record is away.
    """
    flat, flat_expected = list(itertools.chain(*results)), list(itertools.chain(*expected))
    if results == expected or (may_be_short and flat == flat_expected):
        return
    assert may_lack, f"expected {expected}, got {results}"
    lacking = [expected[:i] + expected[i + 1 :] for i in range(len(expected))]
    without_one = [flat_expected[:i] + flat_expected[i + 1 :] for i in range(len(flat_expected))]
    assert results in lacking or flat in without_one or flat == flat_expected[: len(flat)], (
        f"expected {expected}, got {results}"
    )


def batches(of: list[Any], size: int) -> list[list[int]]:
    """What batches of so many have."""
    return [list(map(int, of[i : i + size])) for i in range(0, len(of), size)]


# ---- streams ----


def _fixed(folder: Path) -> Dataset:
    path = folder / "numbers.bin"
    path.write_bytes(np.arange(COUNT, dtype="<i8").tobytes())
    return FixedLengthRecordDataset(path, record=np.dtype("<i8"))


def fixed(folder: Path) -> Scenario:
    """Batches of records of one size."""
    ds = _fixed(folder)
    return elements(lambda: ds.batch(4).with_options(FEW), batches(list(range(COUNT)), 4))


def _lines(folder: Path) -> Dataset:
    path = folder / "lines.txt"
    path.write_text("".join(f"{x:0{1 + x % 5}}\n" for x in range(COUNT)))
    return TextLineDataset(path)


def lines(folder: Path) -> Scenario:
    """Batches of lines."""
    ds = _lines(folder)
    return elements(lambda: ds.batch(4).with_options(FEW), batches(list(range(COUNT)), 4))


def listed(folder: Path) -> Scenario:
    """Records of files in two folders, of which the caller lists the second as the stream begins."""
    for name, (first, end) in {"a": (0, 9), "b": (9, COUNT)}.items():
        (folder / name).mkdir()
        (folder / name / "numbers.bin").write_bytes(np.arange(first, end, dtype="<i8").tobytes())

    def run(trial: Trial) -> None:
        with patch.object(Listing, "start", lambda listing, files: setattr(listing, "_pid", 0)):
            read(trial)

    read = elements(
        lambda: FixedLengthRecordDataset(folder / "*/*.bin", record=np.dtype("<i8")).batch(4).with_options(FEW),
        batches(list(range(COUNT)), 4),
    )
    return run


def records(folder: Path) -> Scenario:
    """Records one by one, out of chunks, with a state after each."""
    ds = _fixed(folder)
    return elements(lambda: ds.with_options(FEW), batches(list(range(COUNT)), 1), state=True)


def copies(folder: Path) -> Scenario:
    """Batches of lines of which more are held than may be: copies."""
    ds = _lines(folder)
    return elements(
        lambda: ds.batch(4).with_options(Options(num_threads=1, max_leases=2)), batches(list(range(COUNT)), 4)
    )


def shuffled(folder: Path) -> Scenario:
    """Two passes, shuffled: the same order whatever happens."""
    ds = _lines(folder).shuffle(9, 1, False).repeat(2).batch(4)
    with iter(ds) as it:
        expected = [numbers(one) for one in it]
    assert sorted(itertools.chain(*expected)) == sorted([*range(COUNT), *range(COUNT)])
    return elements(lambda: ds.with_options(FEW), expected, state=True)


def csv(folder: Path) -> Scenario:
    """Rows of a CSV file."""
    path = folder / "rows.csv"
    path.write_text("a,b\n" + "".join(f"{x},{x}.5\n" for x in range(COUNT)))
    ds = qc.data.CsvDataset(path, [np.int64, np.float64], header=True).batch(4).with_options(FEW)
    rows = [list(range(i, min(i + 4, COUNT))) * 2 for i in range(0, COUNT, 4)]
    return elements(lambda: ds, rows)


def examples(folder: Path) -> Scenario:
    """TFRecords of Examples, parsed in batches, into dense, ragged and sparse features."""
    from helpers.formats.example_messages import example, feature

    path = folder / "examples"
    with qc.TFRecordWriter(path) as writer:
        for x in range(COUNT):
            writer.write(example(x=feature(*[x] * (x % 3 + 1)), y=feature(x)))
    features = {"x": qc.ops.RaggedFeature(np.int64), "y": qc.ops.FixedLenFeature([], np.int64)}
    parse = qc.ops.parse_example(features=features)
    groups = [range(i, min(i + 4, COUNT)) for i in range(0, COUNT, 4)]
    expected = [[x for x in group for _ in range(x % 3 + 1)] + list(group) for group in groups]
    return elements(lambda: qc.data.TFRecordDataset(path).batch(4).map(parse).with_options(FEW), expected)


def bad_records(folder: Path) -> Scenario:
    """Lines that can't be parsed are left out, and logged."""
    path, log = folder / "some.txt", folder / "log"
    path.write_text("".join(f"{x}\n" if x % 7 else "?\n" for x in range(COUNT)))
    ds = TextLineDataset(path).map(qc.ops.decode_csv(record_defaults=[np.int64])).batch(4)
    ds = ds.with_options(Options(num_threads=1, on_error="skip", quarantine=log))
    read = elements(lambda: ds, batches([x for x in range(COUNT) if x % 7], 4))

    def run(trial: Trial) -> None:
        log.unlink(missing_ok=True)
        read(trial)

    return run


def states(folder: Path) -> Scenario:
    """A place is taken over whole, or not at all, or the iterator is closed and says so."""
    ds = _lines(folder).shuffle(9, 1, False).batch(4).with_options(FEW)
    with iter(ds) as it:
        expected, places = [], []
        for batch in it:
            expected.append(numbers(batch))
            places.append(it.state_dict())

    def run(trial: Trial) -> None:
        it = trial.again(lambda: iter(ds))
        may: list[int] = [0]
        for place, behind in ((places[0], 1), (None, 2), (places[2], 3)):
            try:
                trial(it.load_state_dict, place) if place else trial(next, it)
                may = [behind]
            except Cut:  # a place may have been reached just then
                may = [*may, behind] if trial.at_return or place else may
            if it.closed:
                break
        if it.closed:
            assert trial.came_out
        else:
            rest = [numbers(batch) for batch in it]
            assert rest in [expected[first:] for first in may], (rest, may)
        it.close()

    return run


# ---- functions of Python's ----


def mapped(folder: Path) -> Scenario:
    """A map in two threads of Python, in order."""
    ds = _fixed(folder).map(in_python(lambda x: 2 * x), 2).batch(4).with_options(FEW)
    return elements(lambda: ds, batches([2 * x for x in range(COUNT)], 4))


def generated(folder: Path) -> Scenario:
    """A generator of Python's, whose elements a batch takes."""
    del folder
    ds = Dataset.from_generator(lambda: iter(range(COUNT)), np.int64).batch(4).with_options(FEW)
    return elements(lambda: ds, batches(list(range(COUNT)), 4))


def objects(folder: Path) -> Scenario:
    """A generator's objects, of which none is an array."""
    del folder
    return elements(lambda: Dataset.from_generator(lambda: iter(range(9))), batches(list(range(9)), 1))


def filtered(folder: Path) -> Scenario:
    """A filter in Python."""
    ds = _lines(folder).filter(in_python(lambda x: int(x) % 3 > 0)).batch(4).with_options(FEW)
    return elements(lambda: ds, batches([x for x in range(COUNT) if x % 3], 4))


def flat(folder: Path) -> Scenario:
    """Datasets made of elements, one behind the other."""
    del folder
    ds = Dataset.range(4).flat_map(lambda x: Dataset.range(int(x), int(x) + 3)).with_options(FEW)
    return elements(lambda: ds, batches([y for x in range(4) for y in range(x, x + 3)], 1))


def interleaved(folder: Path) -> Scenario:
    """Datasets made of elements, in turn."""
    del folder
    ds = Dataset.range(4).interleave(lambda x: Dataset.range(int(x), int(x) + 3), 2, 1).batch(2).with_options(FEW)
    return elements(lambda: ds, batches([0, 1, 1, 2, 2, 3, 2, 3, 3, 4, 4, 5], 2))


def scanned(folder: Path) -> Scenario:
    """Sums so far."""
    del folder
    ds = Dataset.range(9).scan(np.int64(0), in_python(lambda s, x: (s + x, s + x))).batch(2).with_options(FEW)
    return elements(lambda: ds, batches(list(itertools.accumulate(range(9))), 2))


def reduced(folder: Path) -> Scenario:
    """A sum of all; a call that is cut has no result, and the next one all."""
    ds = _lines(folder).with_options(FEW)

    def run(trial: Trial) -> None:
        total = trial.again(ds.reduce, np.int64(0), in_python(lambda s, x: s + int(x)))
        assert int(total) == sum(range(COUNT))

    return run


def arrow(folder: Path) -> Scenario:
    """A batch of lines, exported through Arrow's C interface."""
    ds = _lines(folder).batch(4).with_options(FEW)

    def run(trial: Trial) -> None:
        it = trial.again(lambda: iter(ds))
        first = next(it)
        capsules = trial.again(first.__arrow_c_array__)
        del capsules
        assert numbers(first) == [0, 1, 2, 3]
        del first
        it.close()

    return run


SCENARIOS: dict[str, Callable[[Path], Scenario]] = QUEUES | {
    one.__name__: one
    for one in (
        *(fixed, lines, listed, records, copies, shuffled, csv, examples, bad_records, states),
        *(mapped, generated, objects, filtered, flat, interleaved, scanned, reduced, arrow),
    )
}
