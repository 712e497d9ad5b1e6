"""Exceptions that cut a call of an iterator short: each batch comes to exactly one caller, and with its own bytes."""

import contextlib
import gc
import itertools
import signal
import sys
import textwrap
import warnings

import numpy as np
import pytest
from helpers.data.chains import write_files
from helpers.data.functions import in_python
from helpers.data.matrix import numbers_in
from helpers.faults.memory import call_without
from helpers.process import run_python

import queuecore as qc
from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset

pytestmark = pytest.mark.unwatched
COUNT = 60


class Mine(Exception):
    """What is raised in the midst of a call."""


class Nth:
    """Raises at the n-th place within a call where Python looks for signals: as a function begins, and after a call."""

    def __init__(self, n):
        self.left = n

    def __call__(self, frame, event, arg):
        # What happens in the frame that calls is the caller's own.
        if event in ("call", "c_return") and frame.f_globals["__name__"] != __name__:
            self.left -= 1
            if not self.left:
                raise Mine


def interrupted(call):
    """Call it, and raise at each such place, until it gets to its end. Returns also how many there were."""
    for n in itertools.count(1):
        sys.setprofile(Nth(n))
        try:
            made = call()
        except Mine:
            continue
        finally:
            sys.setprofile(None)
        return made, n - 1
    raise AssertionError


def short_of_memory(call):
    """Call it, and refuse each piece of memory within, until it gets to its end."""
    for n in itertools.count(1):
        with contextlib.suppress(MemoryError):
            return call_without(n, call), n - 1
    raise AssertionError


def _fixed(folder):
    rows = np.arange(COUNT, dtype="<i8")
    return FixedLengthRecordDataset(write_files(folder, [rows.tobytes()]), record=rows.dtype)


def _fields(folder):
    rows = np.zeros(COUNT, [("a", ">i4"), ("b", "u1", (3,))])
    rows["a"] = np.arange(COUNT)
    return FixedLengthRecordDataset(write_files(folder, [rows.tobytes()]), record=rows.dtype)


def _lines(folder):
    (path,) = write_files(folder, ["".join(f"{x:0{1 + x % 7}}\n" for x in range(COUNT)).encode()])
    return TextLineDataset(path)


def _examples(folder):
    from helpers.formats.example_messages import example, feature

    with qc.TFRecordWriter(folder / "examples") as writer:
        for x in range(COUNT):
            writer.write(example(x=feature(*[x] * (x % 3 + 1)), y=feature(x)))
    parse = qc.ops.parse_example(features={"x": qc.ops.VarLenFeature(np.int64), "y": qc.ops.RaggedFeature(np.int64)})
    return qc.data.TFRecordDataset(folder / "examples").batch(4).map(parse)


def _bad_lines(folder):
    # The last of each seven can't be parsed.
    (path,) = write_files(folder, ["".join(f"{x}\n" if x % 7 else "?\n" for x in range(COUNT)).encode()])
    ds = TextLineDataset(path).map(qc.ops.decode_csv(record_defaults=[np.int64]))
    return ds.with_options(Options(on_error="skip", quarantine=folder / "log"))


double = in_python(lambda x: 2 * x)

KINDS = {
    "fixed": lambda folder: _fixed(folder).batch(4),
    "fields": lambda folder: _fields(folder).batch(4),
    "records": _fixed,
    "records with fields": _fields,
    "batches of batches": lambda folder: _fixed(folder).batch(3).batch(2),
    "batches of batches of lines": lambda folder: _lines(folder).batch(3).batch(2),
    "lines": lambda folder: _lines(folder).batch(4),
    "lines, one by one": _lines,
    "shuffled": lambda folder: _lines(folder).shuffle(9, 1, False).repeat(2).batch(4),
    "padded": lambda folder: _lines(folder).map(qc.ops.decode_raw(out_type=np.uint8)).padded_batch(4),
    "padded strings": lambda folder: _lines(folder).batch(2).padded_batch(2),
    "sparse": _examples,
    "mapped": lambda folder: _fixed(folder).map(double).batch(4),
    "objects": lambda folder: Dataset.from_generator(lambda: iter(range(COUNT))),
    "filtered": lambda folder: _lines(folder).filter(in_python(lambda x: len(x) > 3)).batch(4),
    "natively filtered": lambda folder: _fixed(folder).filter(lambda x: x % 2 == 0).batch(4),
    "zip": lambda folder: Dataset.zip(_fixed(folder), Dataset.range(7, 7 + COUNT)).batch(4),
    "zip of lines": lambda folder: Dataset.zip(_lines(folder), Dataset.range(7, 7 + COUNT)),
}
# Views, and copies.
LEASES = {"views": COUNT * 3, "copies": 2}


def values(elements):
    return [list(numbers_in(_plain(x))) for x in elements]


def _plain(element):
    if isinstance(element, dict):
        return [_plain(part) for part in element.values()]
    return [element.indices, element.values] if isinstance(element, qc.Sparse) else element


def expected_of(ds):
    with iter(ds) as it:
        return [values([x])[0] for x in it]


def steps(it, way):
    """The elements, each call of which is interrupted in each way possible; all are kept."""
    elements, times = [], 0
    try:
        while True:
            it._stream.poll(20)  # what waits is another matter
            made, n = way(it.__next__)
            elements.append(made)
            times += n
    except StopIteration:
        pass
    return elements, times


def interrupt_all(ds, way, leases):
    expected = expected_of(ds)
    ds = ds.with_options(Options(max_leases=leases, num_threads=2))
    with iter(ds) as it, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        elements, times = steps(it, way)
        assert values(elements) == expected
        del times  # of some kinds, none: what no Python runs in, no signal cuts short
        stats = it.stats()
        assert stats["elements"] == len(expected)
        assert stats["leases"] <= min(leases, len(expected))
        records = stats["records"]
        del elements
        gc.collect()
        assert it.stats()["leases"] == 0
    with iter(ds) as it:
        for _ in it:
            pass
        assert it.stats()["records"] == records


@pytest.mark.sampled(6)
@pytest.mark.parametrize("leases", LEASES)
@pytest.mark.parametrize("name", KINDS)
def test_a_call_that_is_cut_short_has_not_happened(tmp_path, name, leases):
    interrupt_all(KINDS[name](tmp_path), interrupted, LEASES[leases])


# NumPy's own arrays, of copies and of lengths, crash where there is no memory for them.
WITHOUT_COPIES = ("fixed", "fields", "batches of batches", "records", "records with fields", "mapped", "objects", "zip")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", WITHOUT_COPIES)
def test_a_call_without_memory_has_not_happened(tmp_path, name):
    interrupt_all(KINDS[name](tmp_path), short_of_memory, LEASES["views"])


def _unknown_sides(ds):
    """An iterator that checks each element."""
    it = qc.data.Iterator.from_structure(ds.output_types)
    it.make_initializer(ds)()
    return it


def _torch(ds):
    pytest.importorskip("torch", reason="PyTorch is not installed: make doors")
    from queuecore._torch.tensors import ElementTensors

    return ElementTensors(iter(ds))


WAYS = {
    "get_next": lambda ds: iter(ds).get_next,
    "get_next_as_optional": lambda ds: iter(ds).get_next_as_optional,
    "initializable": lambda ds: _unknown_sides(ds).__next__,
    "torch": lambda ds: _torch(ds).__next__,
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=pytest.mark.doors if way == "torch" else ()) for way in WAYS])
def test_what_is_made_of_an_element_is_a_part_of_the_call(tmp_path, way):
    ds = _fixed(tmp_path).batch(4).with_options(Options(max_leases=COUNT))
    call = WAYS[way](ds)
    kept = [interrupted(call)[0] for _ in range(COUNT // 4)]
    if way == "get_next_as_optional":
        kept = [one.get_value() for one in kept]
    assert values(kept) == [list(range(x, x + 4)) for x in range(0, COUNT, 4)]


def test_what_runs_within_a_call_may_take_the_element(tmp_path, monkeypatch):
    ds = _lines(tmp_path).batch(4).with_options(Options(max_leases=2))
    expected = expected_of(ds)
    with iter(ds) as it:
        elements = [next(it), next(it)]

        def show(*_, **__):
            elements.append(next(it))

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "showwarning", show)
            elements += it
        assert values(elements) == expected
        assert it.stats()["elements"] == len(expected)


def test_what_runs_within_a_call_may_go_elsewhere(tmp_path, monkeypatch):
    ds = _lines(tmp_path).batch(4).with_options(Options(max_leases=2))
    expected = expected_of(ds)
    with iter(ds) as it:
        start = it.state_dict()
        kept = [next(it), next(it)]
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "showwarning", lambda *_, **__: it.load_state_dict(start))
            kept += it
        assert values(kept) == expected[:2] + expected


def test_what_runs_within_a_call_may_close(tmp_path, monkeypatch):
    with iter(_lines(tmp_path).batch(4).with_options(Options(max_leases=2))) as it:
        elements = [next(it), next(it)]
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "showwarning", lambda *_, **__: it.close())
            elements.append(next(it))  # it was on its way
            with pytest.raises(qc.errors.FailedPreconditionError, match="closed"):
                next(it)
        assert values(elements) == [list(range(x, x + 4)) for x in (0, 4, 8)]


@pytest.mark.thorough
def test_real_signals_at_any_time(tmp_path, monkeypatch):
    # One may come within a callback of the garbage collector, of another test's tools, where its exception is lost.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    ds = _lines(tmp_path).repeat(40).batch(4).with_options(Options(max_leases=2))
    expected = expected_of(ds)

    def alarm(*_):
        raise Mine

    before = signal.signal(signal.SIGALRM, alarm)
    elements = []
    with warnings.catch_warnings(), iter(ds) as it:
        warnings.simplefilter("ignore")
        try:
            for delay in itertools.cycle(np.linspace(5e-5, 1e-3, 37)):
                if len(elements) >= len(expected):
                    break
                try:
                    signal.setitimer(signal.ITIMER_REAL, delay)
                    elements.extend(itertools.islice(it, 20))  # in C from the element to the list: what came is there
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Mine:
                    pass
        finally:
            signal.signal(signal.SIGALRM, before)
    assert values(elements) == expected


@pytest.mark.parametrize("every", [1, 3])
def test_a_place_is_taken_over_whole_or_not_at_all(tmp_path, every):
    ds = _lines(tmp_path).shuffle(9, seed=1).batch(4)
    with iter(ds) as first:
        states, expected = [], []
        for x in first:
            states.append(first.state_dict())
            expected.append(values([x])[0])
    n = every
    while True:
        with iter(ds) as it:
            it.load_state_dict(states[2])
            next(it)
            sys.setprofile(Nth(n))
            try:
                it.load_state_dict(states[8])
                went = True
            except Mine:
                went = False
            finally:
                sys.setprofile(None)
            if it.closed:  # it says so
                with pytest.raises(qc.errors.FailedPreconditionError):
                    next(it)
            else:
                rest = values(it)
                assert rest == (expected[9:] if went else expected[4:])
            if went:
                break
        n += every


def test_types_without_their_init():
    code = """
    import inspect
    from queuecore._core.stream import course, describe, feed, left_out, link, marks
    from queuecore._core.stream import gate, pipe, pipes, scope, stream, to_device, views
    from queuecore.data import Iterator
    rooms = (course, describe, feed, gate, left_out, link, marks, pipe, pipes, scope, stream, to_device, views)
    found = [one for room in rooms for one in vars(room).values()]
    types = [one for one in found if isinstance(one, type) and one.__module__.startswith("queuecore._core")]
    for kind in [Iterator, *types]:
        try:
            bare = kind.__new__(kind)
        except TypeError:
            continue
        for name in dir(kind):
            if name.startswith("__") and name not in ("__next__", "__iter__"):
                continue
            for arguments in ((), (1,), (1, 2), ({},)):
                try:
                    getattr(bare, name)(*arguments)
                except Exception:
                    pass
        del bare
    print("alive")
    """
    done = run_python(textwrap.dedent(code))
    assert (done.stderr, done.stdout) == ("", "alive\n")
