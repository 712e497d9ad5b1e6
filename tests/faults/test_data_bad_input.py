"""Functions, structures and states that are wrong: each a clear error in its place, and the iterator closed."""

import asyncio
import itertools

import numpy as np
import pytest
from helpers.data.functions import in_python, pulled
from helpers.data.kinds import KINDS, SOURCES, all_of, objects, rows
from helpers.data.matrix import numbers_in

from queuecore.data import Dataset, Iterator, Options
from queuecore.errors import (
    DataLossError,
    DtypeError,
    FailedPreconditionError,
    InvalidArgumentError,
    PipelineError,
    ResumeMismatchError,
)

# ---- functions that raise --------------------------------------------------------------------------------------------

AT = 23


def generated(function):
    def generate():
        for x in range(60):
            function(x)
            yield x

    return Dataset.from_generator(generate)


# Each calls a function with every number in order, and gives one element for each, whatever it returns.
PLACES = {
    "map": lambda ds, f: ds.map(in_python(lambda x: (f(x), int(x))[1])),
    "map in threads": lambda ds, f: ds.map(in_python(lambda x: (f(x), int(x))[1]), 3),
    "map of batches": lambda ds, f: ds.batch(1).map(in_python(lambda x: (f(x[0]), x)[1]), 2),
    "filter": lambda ds, f: ds.filter(in_python(lambda x: (f(x), True)[1])),
    "filter of batches": lambda ds, f: ds.batch(1).filter(in_python(lambda x: (f(x[0]), True)[1])),
    "take while": lambda ds, f: ds.take_while(in_python(lambda x: (f(x), True)[1])),
    "flat map": lambda ds, f: ds.flat_map(lambda x: (f(x), Dataset.from_tensors(x))[1]),
    "interleave": lambda ds, f: ds.interleave(lambda x: (f(x), Dataset.from_tensors(x))[1], 2),
    "parallel interleave": lambda ds, f: ds.parallel_interleave(lambda x: (f(x), Dataset.from_tensors(x))[1], 3),
    "buckets": lambda ds, f: ds.bucket_by_sequence_length(in_python(lambda x: (f(x), 1)[1]), [2], [1, 1]),
    "generator": lambda ds, f: generated(f),
}


def raising(error):
    def function(x):
        if x == AT:
            raise error

    return function


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("place", PLACES)
def test_what_a_function_raises_comes_in_its_place(place, kind):
    for error in (
        *(ValueError("mine"), StopIteration(), MemoryError(), GeneratorExit(), asyncio.CancelledError()),
        *(KeyboardInterrupt(), SystemExit(3)),
    ):
        ds = PLACES[place](SOURCES[kind](), raising(error))
        for _ in range(2):  # a new iterator works, as far as that one did
            it = iter(ds)
            results, met = [], None
            try:
                for x in it:
                    results += numbers_in(x)
            except BaseException as caught:
                met = caught
            assert results == list(range(AT))
            if isinstance(error, KeyboardInterrupt | SystemExit):
                assert met is error
            else:
                assert isinstance(met, PipelineError)
                cause = met.__cause__
                if place == "generator" and isinstance(error, StopIteration):  # Python itself makes that of it
                    assert isinstance(cause, RuntimeError)
                    cause = cause.__cause__
                assert cause is error
                assert met.record == AT
                assert type(error).__name__ in str(met)
            state, behind = it.state_dict(), AT + 1
            if isinstance(error, KeyboardInterrupt | SystemExit):
                behind = AT
                with pytest.raises(FailedPreconditionError) as after:
                    next(it)
                assert after.value.__cause__ is met
                del after
            elif place == "generator":  # one that raised is at its end
                assert next(it, None) is None
            else:
                assert [n for x in it for n in numbers_in(x)] == list(range(AT + 1, 60))
            it.close()
        # A place saved after the error is the one behind that element, in a pipeline that works too.
        with iter(PLACES[place](SOURCES[kind](), lambda x: None)) as it:
            it.load_state_dict(state)
            assert [n for x in it for n in numbers_in(x)] == list(range(behind, 60))
        del it, met, ds
        error.__traceback__ = error.__context__ = None


# ---- functions that use what they are part of ------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_a_function_that_uses_its_own_iterator(place):
    box, uses = [], []

    def function(x):
        if x == AT and box:
            it, state = box
            assert it.state_dict()["version"] == state["version"]  # to look is allowed
            assert it.stats()["elements"] <= AT
            for use in (it.__next__, it.get_next, it.close, lambda: it.load_state_dict(state)):
                with pytest.raises(FailedPreconditionError):
                    use()
                uses.append(use)
            next(it)

    for kind in SOURCES:
        with iter(PLACES[place](SOURCES[kind](), function)) as it:
            box[:] = it, it.state_dict()
            got = []
            with pytest.raises(PipelineError) as caught:
                for x in it:
                    got += numbers_in(x)
            assert got == list(range(AT))
            assert isinstance(caught.value.__cause__, FailedPreconditionError)
        assert len(uses) == 4
        box.clear()
        uses.clear()
        del caught


# ---- what functions return -------------------------------------------------------------------------------------------

RETURNED = {
    "map: another structure": (lambda ds: ds.map(in_python(lambda x: (1, 2) if x == AT else 1)), InvalidArgumentError),
    "map: another dtype": (lambda ds: ds.map(in_python(lambda x: 1.5 if x == AT else 1), 2), InvalidArgumentError),
    "map: nothing": (lambda ds: ds.map(in_python(lambda x: None if x == AT else 1)), InvalidArgumentError),
    "filter: a number": (lambda ds: ds.filter(in_python(lambda x: 3 if x == AT else True)), InvalidArgumentError),
    "take while: nothing": (
        lambda ds: ds.take_while(in_python(lambda x: None if x == AT else True)),
        InvalidArgumentError,
    ),
    "flat map: no dataset": (
        lambda ds: ds.flat_map(lambda x: 3 if x == AT else Dataset.from_tensors(x)),
        DtypeError,
    ),
    "flat map: another dtype": (
        lambda ds: ds.flat_map(lambda x: Dataset.from_tensors(1.5 if x == AT else int(x))),
        DtypeError,
    ),
    "flat map: another structure": (
        lambda ds: ds.interleave(lambda x: Dataset.from_tensors((x, x) if x == AT else x), 1),
        DtypeError,
    ),
    "buckets: no length": (
        lambda ds: ds.bucket_by_sequence_length(lambda x: "long" if x == AT else 1, [2], [1, 1]),
        InvalidArgumentError,
    ),
    "generator: another dtype": (
        lambda ds: Dataset.from_generator(lambda: (1.5 if x == AT else x for x in range(60)), np.int64),
        InvalidArgumentError,
    ),
    "generator: another shape": (
        lambda ds: Dataset.from_generator(lambda: ([1] * (1 + (x == AT)) for x in range(60)), np.int64, (1,)),
        InvalidArgumentError,
    ),
    "padded batch: too long": (
        lambda ds: ds.map(in_python(lambda x: np.zeros(1 + (x == AT), int))).padded_batch(1, [1]),
        DataLossError,
    ),
    "unbatch: other lengths": (
        lambda ds: ds.map(in_python(lambda x: ([x], [x] * (1 + (x == AT))))).unbatch(),
        InvalidArgumentError,
    ),
    "choices": (
        lambda ds: Dataset.choose_from_datasets([ds], rows().map(lambda x: x // AT)),
        InvalidArgumentError,
    ),
}


@pytest.mark.parametrize("subject", RETURNED)
def test_what_a_function_returns_is_checked_in_its_place(subject):
    make, kind = RETURNED[subject]
    for source in SOURCES.values():
        it = iter(make(source()))
        results, error = pulled(it)
        assert len(results) == AT
        assert type(error) is kind
        assert str(AT) in str(error)
        rest, again = pulled(it)
        if subject == "choices":  # nobody knows whose element was meant
            assert (rest, type(again)) == ([], FailedPreconditionError)
        else:  # it goes on behind that element
            assert (len(results) + len(rest), again) == (59, None)
        left_out, error = pulled(make(source()).with_options(Options(on_error="skip")))
        if subject.split(":")[0] in ("map", "filter", "padded batch", "buckets", "generator"):
            assert error is None
            assert len(left_out) == 59


# ---- datasets that don't fit each other ------------------------------------------------------------------------------


def test_structures_that_do_not_match():
    integers, halves, pairs = rows(), rows().map(lambda x: x / 2), Dataset.zip(rows(), rows())
    for one, other in itertools.permutations((integers, halves, pairs), 2):
        for make in (
            lambda one=one, other=other: one.concatenate(other),
            lambda one=one, other=other: Dataset.choose_from_datasets([one, other], Dataset.range(2)),
            lambda one=one, other=other: Dataset.sample_from_datasets([one, other]),
            lambda one=one, other=other: Iterator.from_structure(one.output_types).make_initializer(other),
        ):
            with pytest.raises(InvalidArgumentError):
                make()
    for make in (
        lambda: pairs.padded_batch(2, [None]),
        lambda: integers.padded_batch(2, padding_values=b"x"),
        lambda: integers.unbatch(),
        lambda: Dataset.zip(integers, 3),
        lambda: integers.flat_map(3),
        lambda: integers.interleave(lambda x: integers, 0),
    ):
        with pytest.raises(InvalidArgumentError):
            make()


def test_lengths_that_nobody_knows():
    for ds in (objects(), rows().filter(lambda x: x > 3), rows().flat_map(lambda x: rows()), rows().repeat()):
        with pytest.raises(InvalidArgumentError):
            list(ds.permute(seed=1).take(1))
        with pytest.raises(TypeError):
            len(ds)
        assert ds.cardinality() < 0


# ---- states of other plans -------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_state_of_any_other_plan_is_refused():
    pairs = [*zip(KINDS, itertools.cycle(SOURCES)), ("nothing", "objects"), ("map", "rows")]
    datasets = {(name, where): KINDS[name](SOURCES[where]()) for name, where in pairs}
    states = {}
    for key, ds in datasets.items():
        with iter(ds) as it:
            next(it)
            next(it)
            states[key] = it.state_dict()
    for key, ds in datasets.items():
        with iter(ds) as it:
            first = list(numbers_in(next(it)))
            for other, state in states.items():
                if other != key:
                    with pytest.raises(ResumeMismatchError):
                        it.load_state_dict(state)
            # It stays where it is.
            second = list(numbers_in(next(it)))
            it.load_state_dict(states[key])
            rest = [list(numbers_in(x)) for x in it]
        assert [first, second, *rest] == all_of(ds), key
