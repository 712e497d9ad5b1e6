"""What every transformation must do: the same elements for any number of threads, repeated, and from every place on."""

from __future__ import annotations

import itertools
import json
import pathlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from helpers.data.chains import THREADS, dataset, threads, write_files
from helpers.process import soon, thread_ids

from queuecore.data import Dataset
from queuecore.errors import QueueCoreError
from queuecore.ragged import Ragged


def plain(element: Any) -> Any:
    """An element as Python's own objects, with dtypes, that hold no view."""
    if isinstance(element, dict):
        return {name: plain(part) for name, part in element.items()}
    if isinstance(element, tuple):
        return tuple(plain(part) for part in element)
    if isinstance(element, Dataset):
        return "dataset", [plain(part) for part in element]
    if isinstance(element, Ragged):
        return "ragged", str(element.dtype), element.to_list()
    if isinstance(element, np.ndarray | np.generic):
        return str(element.dtype), element.shape, element.tolist()
    return element


def values(element: Any) -> Any:
    """The same without dtypes and shapes."""
    if isinstance(element, dict):
        return {name: values(part) for name, part in element.items()}
    if isinstance(element, tuple):
        return tuple(values(part) for part in element)
    if isinstance(element, Dataset):
        return [values(part) for part in element]
    if isinstance(element, Ragged):
        return element.to_list()
    return element.tolist() if isinstance(element, np.ndarray | np.generic) else element


def pulled(iterator: Any, limit: int | None = None, own: Callable[[Any], Any] = plain) -> tuple[list[Any], Any]:
    """The (next `limit`) elements, and the error that ended them."""
    results: list[Any] = []
    try:
        for element in itertools.islice(iterator, limit):
            results.append(own(element))
    except QueueCoreError as error:
        return results, error
    return results, None


def run(ds: Dataset, own: Callable[[Any], Any] = plain) -> list[Any]:
    """All elements."""
    with iter(ds) as it:
        return [own(element) for element in it]


def check(make: Callable[[], Dataset], expected: Iterable[Any], own: Callable[[Any], Any] = plain) -> None:
    """Check a dataset's elements, by any number of threads, repeated, and from every saved place on.

    `make` builds it anew each time; `expected` is what `own` makes of the elements.
    """
    expected = list(expected)
    for number in THREADS:
        assert run(threads(make(), number), own) == expected
    total = make().cardinality()
    assert total in (len(expected), -2)
    assert run(make().repeat(2).skip(1).take(2 * len(expected)), own) == (expected * 2)[1:]
    places(make, 1, expected, own)
    places(lambda: make().repeat(2), 2, expected * 2, own)


def places(make: Callable[[], Dataset], number: int, expected: list[Any], own: Callable[[Any], Any] = plain) -> None:
    """Check that what follows every saved place is what follows there."""
    states = []
    with iter(threads(make(), number)) as it:
        states.append(json.loads(json.dumps(it.state_dict())))
        for element in it:
            del element
            states.append(json.loads(json.dumps(it.state_dict())))
    assert len(states) == len(expected) + 1
    fresh = make()
    for index, state in enumerate(states):
        with iter(fresh) as it:
            it.load_state_dict(state)
            upto = None if index % 7 == 0 else 3
            got, error = pulled(it, upto, own)
            assert error is None
            assert got == expected[index:][:upto], index


def stops_at_once(ds: Dataset, elements: int) -> None:
    """Check that no thread is left when an iterator is dropped after some elements."""
    before = thread_ids()
    it = iter(ds)
    for _ in range(elements):
        next(it)
    del it
    assert soon(lambda: thread_ids() <= before), [one.name for one in threading.enumerate()]


def bytes_of_files(folder: pathlib.Path, contents: Iterable[bytes]) -> Dataset:
    """A dataset of the bytes of files, as numbers."""
    return dataset(write_files(folder, contents), np.dtype("u1"))
