"""What a test of a fault may not say by itself: the promises that hold after every fault, of every object it used.

`judged` watches the iterators and the queues of a test. After the test, each iterator that raised, and each queue that
is still there, must keep what `tests/faults/matrix.toml` promises.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import os
import time
import weakref
from collections.abc import Generator, Mapping
from typing import Any

import pytest
from helpers.data.functions import plain
from helpers.process import AT_ONCE

from queuecore._core.io.remote import is_url
from queuecore._queues.base import QueueBase
from queuecore.data._nodes.calls import FunctionCall, StageCall
from queuecore.data._plan.chain import Chain, Source
from queuecore.data.iterator import Iterator
from queuecore.data.options import Options
from queuecore.errors import (
    CancelledError,
    FailedPreconditionError,
    InternalError,
    OutOfRangeError,
    QueueCoreError,
    ResourceExhaustedError,
)

__all__ = ["judged"]

# Elements of an iterator that are remembered, and made again; iterators and queues of a test that are judged.
_FIRST = 64
_MOST = 4
# More bytes than that in an element aren't remembered.
_LARGE = 1 << 20
# Seconds that no test takes.
_LONG = 3600.0


# What a call gave: its kind, and the value or the words.
_Outcome = tuple[str, Any]


class _Seen:
    """What an iterator gave before its first error: the first elements, and of which chain."""

    def __init__(self, chain: Chain, on_host: bool) -> None:
        self.files = _stamps(chain)
        self.elements: list[Any] = []
        self.chain: Chain | None = None
        self.from_start = on_host
        self.unnamed = ""


@contextlib.contextmanager
def judged() -> Generator[None]:
    """Watch a test; judge what it used at its end."""
    histories: weakref.WeakKeyDictionary[Iterator, _Seen] = weakref.WeakKeyDictionary()
    failed: list[_Seen] = []
    queues: list[weakref.ref[QueueBase]] = []
    begin, follow, load_state = Iterator.__init__, Iterator.__next__, Iterator.load_state_dict
    make_queue = QueueBase.__init__

    def begun(it: Iterator, chain: Chain, target: Any = None, whole: Chain | None = None) -> None:
        begin(it, chain, target, whole)
        histories[it] = _Seen(chain, target is None)

    def following(it: Iterator) -> Any:
        history = histories.get(it)
        if history is None:  # it is older than the test
            return follow(it)
        try:
            element = follow(it)
        except QueueCoreError as error:
            if history.chain is None and len(failed) < _MOST and not isinstance(error, FailedPreconditionError):
                history.chain = it._stream.chain
                history.unnamed = _unnamed(error)
                failed.append(history)
            raise
        if history.chain is None and len(history.elements) < _FIRST:
            history.elements.append(_told(element))
        return element

    def moving(it: Iterator, state: Mapping[str, Any]) -> None:
        if it in histories:
            histories[it].from_start = False
        load_state(it, state)

    def made(queue: QueueBase, *args: Any, **kwargs: Any) -> None:
        make_queue(queue, *args, **kwargs)
        queues.append(weakref.ref(queue))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Iterator, "__init__", begun)
        patch.setattr(Iterator, "__next__", following)
        patch.setattr(Iterator, "load_state_dict", moving)
        patch.setattr(QueueBase, "__init__", made)
        yield
    for one in failed:
        _judge_iterator(one)
    for queue in [queue for one in queues if (queue := one()) is not None][:_MOST]:
        _judge_queue(queue)


def _unnamed(error: QueueCoreError) -> str:
    """What an error should say, and doesn't."""
    if error.stage is None and not isinstance(error, (ResourceExhaustedError, InternalError)):
        return f"no stage in {error!r}"
    path = os.fspath(error.path or "")
    if path not in str(error) and repr(path)[1:-1] not in str(error):
        return f"no path in the words of {error!r}"
    return ""


def _told(element: Any) -> Any:
    """An element as a value that stays, and that an equal one equals."""
    return repr(plain(element))[:_LARGE]


def _judge_iterator(history: _Seen) -> None:
    chain = history.chain
    assert chain is not None
    assert not history.unnamed, history.unnamed
    chain = chain.with_options(Options(stall_warn=_LONG, stall_timeout=_LONG))  # a busy machine stands still, too
    runs = [_outcomes(chain.with_options(Options(num_threads=threads)))[0] for threads in (1, 2, 8)]
    if chain.shuffles or chain.is_free(chain.options) or not _is_repeatable(chain.source):
        return
    assert runs[0] == runs[1] == runs[2], runs
    if history.from_start and _stamps(chain) == history.files:
        # One run may have come further, and its error may have cut the last batch short.
        for before, (kind, after) in zip(history.elements[:-1], runs[0], strict=False):
            assert kind != "element" or before == after
    _judge_places(chain, runs[0])


def _outcomes(chain: Chain, state: Any = None, limit: int = _FIRST) -> tuple[list[_Outcome], Any]:
    """What a new iterator gives, and the place behind it. Each call behind the last one ends at once."""
    results: list[_Outcome] = []
    try:
        it = Iterator(chain)
    except QueueCoreError as error:
        return [_outcome(error)], None
    if state is not None:
        it.load_state_dict(state)
    while len(results) < limit and (not results or results[-1][0] != "end"):
        try:
            results.append(("element", _told(next(it))))
        except StopIteration:
            results.append(("end", None))
        except QueueCoreError as error:
            results.append(_outcome(error))
            if it.closed:
                _judge_closed(it, error)
            if not it.goes_on:
                break
    place = it.state_dict() if state is None and len(results) == limit else None
    begun = time.monotonic()
    it.close()
    assert time.monotonic() - begun < AT_ONCE
    return results, place


def _outcome(error: QueueCoreError) -> _Outcome:
    return type(error).__name__, str(error)


def _judge_closed(it: Iterator, first: QueueCoreError) -> None:
    """An iterator that an error has closed says so, at once."""
    begun = time.monotonic()
    with pytest.raises(FailedPreconditionError) as raised:
        next(it)
    assert time.monotonic() - begun < AT_ONCE
    assert raised.value.__cause__ is first


def _judge_places(chain: Chain, run: list[_Outcome]) -> None:
    """A place saved before the error leads to what came after it, and to the error."""
    good = next((i for i, (kind, _) in enumerate(run) if kind != "element"), len(run))
    for upto in {good // 2, good} if good else ():
        before, place = _outcomes(chain, None, upto)
        assert before == run[:upto]
        if place is not None and not _drops(chain):
            after, _ = _outcomes(chain, place, _FIRST - upto)
            assert after == run[upto:]


def _drops(chain: Chain) -> bool:
    """Whether an error drops records of batches that don't fit together; those that follow a place may fit."""
    with contextlib.closing(Iterator(chain)) as it:
        with contextlib.suppress(QueueCoreError):
            collections.deque(itertools.islice(it, _FIRST), 0)
        return it.stats()["dropped_records"] > 0


def _judge_queue(queue: QueueBase) -> None:
    """All that is in it comes out, and then each call ends at once."""
    begun = time.monotonic()
    queue.close(cancel_pending_enqueues=True)
    for _ in range(queue.size()):
        queue.dequeue(timeout=0)
    with pytest.raises((OutOfRangeError, CancelledError)):
        queue.dequeue()
    assert time.monotonic() - begun < AT_ONCE


def _is_repeatable(source: Source) -> bool:
    """Whether no function of the test's, and no chance, has a say in the elements."""
    values = [getattr(source, field.name) for field in dataclasses.fields(source)]
    if any(callable(one) or isinstance(one, (FunctionCall, StageCall)) for one in values):
        return False
    return all(not one.shuffles and _is_repeatable(one.source) for one in source.inputs)


def _stamps(chain: Chain) -> list[object]:
    """The sizes and times of a chain's files. What a store has counts as changed each time."""
    stamps: list[object] = []
    for path in chain.paths():
        if is_url(path):
            stamps.append(object())
            continue
        try:
            status = os.stat(path)
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_size, status.st_mtime_ns))
    return stamps
