"""Every stage can be left anywhere and gone on with, also by another number of threads, and in the same order."""

import itertools
import json

import pytest
from helpers.data.chains import THREADS, threads
from helpers.data.matrix import PIPELINES, numbers_in, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("matrix"))


@pytest.mark.parametrize("name", PIPELINES)
def test_the_same_for_any_number_of_threads(folder, name):
    runs = [[list(numbers_in(x)) for x in threads(PIPELINES[name](folder), number)] for number in THREADS]
    assert runs[0]
    assert all(one == runs[0] for one in runs)


@pytest.mark.sampled(18)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_state_of_every_element(folder, name):
    make = PIPELINES[name]
    states, expected = [], []
    with iter(threads(make(folder), 2)) as it:
        states.append(json.dumps(it.state_dict()))
        for element in it:
            expected.append(list(numbers_in(element)))
            states.append(json.dumps(it.state_dict()))
        states.append(json.dumps(it.state_dict()))
    assert max(map(len, states)) < 4096
    for index, (state, number) in enumerate(zip(states, itertools.cycle(THREADS), strict=False)):
        with iter(threads(make(folder), number)) as it:
            it.load_state_dict(json.loads(state))
            limit = 2 if index % 13 else None
            got = [list(numbers_in(x)) for x in itertools.islice(it, limit)]
            assert got == expected[index:][:limit], index


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", PIPELINES)
def test_states_of_a_run_that_was_resumed_itself(folder, name):
    make = PIPELINES[name]
    expected = [list(numbers_in(x)) for x in make(folder)]
    results, state, number = [], None, itertools.cycle(THREADS)
    while True:
        with iter(threads(make(folder), next(number))) as it:
            if state is not None:
                it.load_state_dict(json.loads(state))
            part = [list(numbers_in(x)) for x in itertools.islice(it, 5)]
            state = json.dumps(it.state_dict())
        results += part
        if len(part) < 5:
            break
    assert results == expected
