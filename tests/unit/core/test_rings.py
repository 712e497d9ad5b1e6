"""The rings, one call at a time, against a deque; with indices that begin anywhere."""

from __future__ import annotations

import os
import platform
from collections import deque

import pytest
from hypothesis import given, settings, strategies as st

native = pytest.importorskip("queuecore._core.testing.rings", reason="no test hooks (QUEUECORE_TESTING=1)")

SEAL = (1 << 24) - 1
tokens = st.integers(0, SEAL - 1)


@st.composite
def rings(draw):
    """Return a capacity, and a start shortly before something wraps: 32 bits, 40 bits of laps, the word."""
    capacity = draw(st.integers(1, 9))
    size = 2
    while size < capacity + 1:
        size *= 2
    wrap = draw(st.sampled_from([0, 1 << 32, size << 40, 1 << 63, 1 << 64]))
    return capacity, max(0, wrap - draw(st.integers(0, 3 * size))) % (1 << 64)


fifo_calls = st.lists(
    st.one_of(
        st.tuples(st.just("push"), tokens),
        st.tuples(st.just("push"), tokens),
        st.tuples(st.just("pop"), st.booleans()),
        st.tuples(st.just("pop_many"), st.integers(1, 12), st.booleans()),
        st.sampled_from([("turn_take",), ("turn_give",), ("lag_tail",)]),
        st.tuples(st.sampled_from(["seal", "fill", "drain"])),
    ),
    max_size=80,
)


class FifoModel:
    """What a FifoRing has to answer."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows: deque[int] = deque()
        self.sealed = self.owned = False

    def push(self, token: int) -> str:
        if self.sealed:
            return "sealed"
        if len(self.rows) == self.capacity:
            return "full"
        self.rows.append(token)
        return "ok"

    def pop_many(self, n: int, owner: bool) -> list[int] | str:
        if self.owned and not owner:
            return "owned"
        if not self.rows:
            return "sealed" if self.sealed else "empty"
        return [self.rows.popleft() for _ in range(min(n, len(self.rows)))]

    def pop(self, owner: bool) -> int | str:
        got = self.pop_many(1, owner)
        return got if isinstance(got, str) else got[0]

    def seal(self) -> bool:
        was, self.sealed = self.sealed, True
        return not was

    def turn_take(self) -> bool:
        was, self.owned = self.owned, True
        return not was


@pytest.mark.thorough
@given(ring=rings(), calls=fifo_calls)
@settings(max_examples=400, deadline=None)
def test_fifo_against_a_deque(ring, calls):
    fifo, model = native.Fifo(*ring), FifoModel(ring[0])
    assert fifo.capacity() == model.capacity
    pushed = False  # just now, so that tail could have been left behind
    for name, *arguments in calls:
        just, pushed = pushed, False
        if name == "turn_give":
            if model.owned:
                fifo.turn_give()
                model.owned = False
        elif name == "lag_tail":
            if just:
                fifo.lag_tail()
                assert fifo.size() <= len(model.rows)
                assert fifo.push(1) == model.push(1)
        elif name == "fill":
            while (answer := model.push(len(model.rows))) == "ok":
                assert fifo.push(len(model.rows) - 1) == "ok"
            assert fifo.push(0) == answer
        elif name == "drain":
            while isinstance(expected := model.pop(True), int):
                assert fifo.pop(True) == expected
            assert fifo.pop(True) == expected
        else:
            answer = getattr(fifo, name)(*arguments)
            assert answer == getattr(model, name)(*arguments)
            pushed = name == "push" and answer == "ok"
        assert fifo.size() == len(model.rows)


@pytest.mark.parametrize("capacity", [1, 2, 3, 4, 7, 8])
def test_a_tail_that_lags_behind_head(capacity):
    fifo = native.Fifo(capacity, (1 << 63) - 2)
    for number in range(5 * capacity):
        assert fifo.push(number) == "ok"
        fifo.lag_tail()
        assert fifo.pop() == number
        assert fifo.size() == 0  # tail is one behind head
        assert fifo.pop() == "empty"
    assert fifo.push(7) == "ok"
    fifo.lag_tail()
    assert fifo.seal()
    assert not fifo.seal()
    assert fifo.pop_many(4) == [7]
    assert fifo.pop() == "sealed"


@pytest.mark.parametrize("capacity", [1, 3, 8, 100])
def test_a_full_ring_can_be_sealed(capacity):
    fifo = native.Fifo(capacity)
    rows = list(range(capacity))
    assert {fifo.push(row) for row in rows} == {"ok"}
    assert fifo.push(0) == "full"
    assert fifo.seal()
    assert fifo.push(0) == "sealed"
    assert fifo.size() == capacity
    assert fifo.pop_many(capacity + 5) == rows
    assert fifo.pop() == "sealed"
    assert fifo.push(0) == "sealed"


def test_capacities_that_no_ring_has():
    for capacity in (0, 1 << 24):
        with pytest.raises(MemoryError):
            native.Fifo(capacity)


def test_the_largest_ring():
    fifo = native.Fifo(SEAL)
    assert fifo.push(SEAL - 1) == "ok"
    assert fifo.pop() == SEAL - 1
    assert fifo.pop() == "empty"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only there is the barrier used")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on, where there are threads
def test_parking_is_light_also_in_a_forked_child():
    if not native.light_parking():
        pytest.skip("this kernel has no membarrier, or refuses it")
    child = os.fork()
    if child == 0:
        os._exit(0 if native.light_parking() and native.stress_blocking(1, 200, True) == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
