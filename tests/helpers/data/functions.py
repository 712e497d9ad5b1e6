"""Datasets with functions of Python's in them: what tests of these share."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.data.chains import THREADS, own, threads

from queuecore.data import Dataset
from queuecore.ragged import Ragged, Sparse


def plain(x: Any) -> Any:
    """A value in which equal things compare equal."""
    if isinstance(x, tuple):
        return tuple(map(plain, x))
    if isinstance(x, dict):
        return {name: plain(value) for name, value in x.items()}
    if isinstance(x, Ragged):
        return x.to_list()
    if isinstance(x, Sparse):
        return x.to_dense().tolist()
    return x.tolist() if isinstance(x, (np.ndarray, np.generic)) else x


def in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which no tracer can follow."""

    def opaque(*arguments: Any) -> Any:
        for one in arguments:
            repr(one)
            hash(str(one))
        return function(*arguments)

    return opaque


def pulled(ds: Dataset) -> tuple[list[Any], BaseException | None]:
    """The elements of a dataset, as plain values, and the error that ended them."""
    results = []
    try:
        for element in ds:
            results.append(plain(element))
    except BaseException as error:
        return results, error
    return results, None


def check_resume(make: Callable[[], Dataset], limit: int | None = None) -> list[Any]:
    """Save at every element, go on from each place with other numbers of threads, and return all elements."""
    states, elements = [], []
    with iter(threads(make(), 2)) as it:
        states.append(json.dumps(it.state_dict()))
        for element in itertools.islice(it, limit):
            elements.append(plain(own(element)))
            states.append(json.dumps(it.state_dict()))
    for index, (state, number) in enumerate(zip(states, itertools.cycle(THREADS), strict=False)):
        with iter(threads(make(), number)) as it:
            it.load_state_dict(json.loads(state))
            assert it.state_dict() == json.loads(state)
            most = 3 if index % 7 or limit is not None else None
            rest = [plain(own(x)) for x in itertools.islice(it, most)]
            expected = elements[index:][:most]
            assert rest[: len(expected)] == expected, index
            assert limit is not None or len(rest) == len(expected)
    return elements
