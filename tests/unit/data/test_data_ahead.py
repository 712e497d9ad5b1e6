"""`prefetch` says how many elements are made ahead of the consumer: functions in Python are called for no more."""

import threading

import numpy as np
import pytest

from queuecore.data import Dataset, Options

MOST = 1000
TAKEN = 10
WAIT_SECONDS = 60


class Calls:
    """Counts calls, and notes those that come too early: for element n, once n - ahead have been asked for."""

    def __init__(self, ahead, each=1, more=0):
        self.limit = lambda asked: (asked + ahead) * each + more
        self.asked = 0
        self.count = 0
        self.early = []
        self.changed = threading.Condition()

    def __call__(self, number):
        with self.changed:
            if self.count >= self.limit(self.asked):
                self.early.append((int(number), self.asked))
            self.count += 1
            self.changed.notify_all()
        return number

    def follow(self, ds):
        """Take some elements, and wait for the calls that may then come."""
        with iter(ds) as iterator:
            for _ in range(TAKEN):
                with self.changed:
                    self.asked += 1
                next(iterator)
            with self.changed:
                assert self.changed.wait_for(lambda: self.count >= self.limit(TAKEN), WAIT_SECONDS), self.count
        assert self.early == []
        assert self.count == self.limit(TAKEN)


def numbers(calls):
    return Dataset.range(MOST).map(lambda x: calls(np.int64(x.item())))


def generated(calls):
    return Dataset.from_generator(lambda: map(calls, range(MOST)), output_types=np.int64)


@pytest.mark.parametrize("source", [numbers, generated])
@pytest.mark.parametrize("ahead", [0, 1, 2, 7, 100])
def test_elements(source, ahead):
    calls = Calls(ahead)
    calls.follow(source(calls).prefetch(ahead))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_threads_make_one_more_each(threads, ahead):
    calls = Calls(ahead, more=threads)
    calls.follow(
        Dataset.range(MOST).map(lambda x: calls(np.int64(x.item())), num_parallel_calls=threads).prefetch(ahead)
    )


@pytest.mark.parametrize("source", [numbers, generated])
@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_batches(source, ahead):
    calls = Calls(ahead, each=4)
    calls.follow(source(calls).batch(4).prefetch(ahead))


@pytest.mark.parametrize("ahead", [0, 3])
def test_what_operators_keep_and_drop(ahead):
    calls = Calls(ahead, more=5)
    calls.follow(numbers(calls).skip(5).prefetch(ahead))
    calls = Calls(ahead, each=2)
    calls.follow(numbers(calls).shard(2, 1).prefetch(ahead))
    calls = Calls(ahead + 1, more=1)
    calls.follow(numbers(calls).skip(1).prefetch(1).prefetch(ahead))


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_passes_places_and_errors_go_on(ahead):
    def fails(x):
        if x % 7 == 3:
            raise ValueError(x)
        return np.int64(x.item())

    ds = Dataset.range(20).map(fails).repeat(3).prefetch(ahead)
    expected = [x for x in range(20) if x % 7 != 3] * 3

    def rest(iterator):
        elements = []
        while True:
            try:
                elements.append(int(next(iterator)))
            except StopIteration:
                return elements
            except Exception as error:
                assert "ValueError" in str(error)

    with iter(ds) as iterator:
        assert rest(iterator) == expected
    for taken in (1, 3, 4, 17, 30):
        with iter(ds) as iterator:
            elements = []
            while len(elements) < taken:
                try:
                    elements.append(int(next(iterator)))
                except Exception:
                    continue
            state = iterator.state_dict()
        with iter(ds) as iterator:
            iterator.load_state_dict(state)
            assert elements + rest(iterator) == expected
    skipped = ds.batch(4).prefetch(ahead).with_options(Options(on_error="skip"))
    assert [int(x) for batch in skipped for x in batch] == expected


def test_the_last_of_what_is_there_ends_nothing_early():
    for ahead in (0, 1, 3):
        assert [int(x) for x in Dataset.range(10).map(lambda x: np.int64(x.item())).take(4).prefetch(ahead)] == [
            0,
            1,
            2,
            3,
        ]
        shuffled = Dataset.range(10).map(lambda x: np.int64(x.item())).shuffle(4, 1).batch(3).prefetch(ahead)
        assert sorted(int(x) for batch in shuffled for x in batch) == list(range(10))


@pytest.mark.parametrize("most", [2**40, 2**62, 2**63 - 1])
def test_any_number_is_good(most):
    numbers_ = list(range(10))
    ds = Dataset.range(10).map(lambda x: np.int64(x.item()))
    assert [int(x) for x in ds.prefetch(most).prefetch(most)] == numbers_
    assert [batch.tolist() for batch in ds.batch(most).prefetch(most)] == [numbers_]
