"""Requests for memory and for threads that are refused, one after the other, in a process of their own."""

from __future__ import annotations

import ctypes
import gc
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest
from helpers.data.chains import threads
from helpers.data.kinds import KINDS, SOURCES, all_of, file
from helpers.data.matrix import numbers_in
from helpers.process import open_descriptors, soon, thread_ids

from queuecore.data import Dataset
from queuecore.errors import FailedPreconditionError, PipelineError, UnavailableError

NOTHING, MEMORY, THREADS = range(3)


SOURCE = pathlib.Path(__file__).with_suffix(".c")


def library(folder: pathlib.Path, source: pathlib.Path = SOURCE) -> pathlib.Path:
    """Compile what refuses, or another library to preload, or skip."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    if os.environ.get("LD_PRELOAD"):
        pytest.skip("something else is preloaded, a sanitizer most likely, which has its own malloc")
    made = folder / source.with_suffix(".so").name
    subprocess.run([compiler, "-O1", "-fPIC", "-shared", "-o", made, source, "-ldl"], check=True)
    return made


def preloaded(made: pathlib.Path) -> dict[str, str]:
    """Return the variables by which a process preloads a library. LD_PRELOAD can't name a folder with a space."""
    folders = [os.fspath(made.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {"LD_PRELOAD": made.name, "LD_LIBRARY_PATH": os.pathsep.join(folders)}


def preload(patch: pytest.MonkeyPatch, folder: pathlib.Path, source: pathlib.Path) -> None:
    """Compile a library into a folder, or skip; processes that are started from now on preload it."""
    for name, value in preloaded(library(folder, source)).items():
        patch.setenv(name, value)


def sweep(call: int, number: int, offset: int, stride: int, folder: str, names: list[str]) -> int:
    """Refuse one request after the other, each in a run of its own. Returns how many runs there were.

    `number`: of threads. `offset`, `stride`: which requests.
    """
    calls = ctypes.CDLL(None)
    calls.requests.restype = ctypes.c_long
    calls.refuse.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_int]
    sources: dict[str, Callable[[], Dataset]] = {**SOURCES, "file": lambda: file(pathlib.Path(folder))}
    runs = 0
    for index, name in enumerate(names):
        # A sample is one of the sources too.
        chosen = [list(sources)[index % len(sources)]] if stride > 1 else list(sources)
        for place in chosen:
            source = sources[place]
            nth = 1 + (offset + runs) % stride
            expected = all_of(KINDS[name](source()))
            before, files = thread_ids(), open_descriptors()
            met = True
            while met:
                met = _refused(calls, threads(KINDS[name](source()), number), call, nth, expected, f"{name}, {place}")
                assert soon(lambda before=before: gone(before)), (name, place, nth)
                assert soon(lambda files=files: open_descriptors() <= files), (name, place, nth)
                nth += stride
                runs += 1
    return runs


def gone(before: set[str]) -> bool:
    """Whether there are no more threads than before; what cycles hold is given back."""
    return thread_ids() <= before or bool(gc.collect() and thread_ids() <= before)


def _refused(calls: ctypes.CDLL, ds: Dataset, call: int, nth: int, expected: list[list[int]], place: str) -> bool:
    """Run a pipeline once with a refusal, and once without. Returns whether it met that."""
    results = []
    met = it = None
    sticky = nth % 2
    calls.refuse(call, nth, sticky)
    try:
        it = iter(ds)
        for x in it:
            results.append(list(numbers_in(x)))
    except BaseException as error:
        met = error
    requests = calls.requests()
    calls.refuse(NOTHING, 0, 0)
    # An error cuts a batch short, of buckets each one's; and shuffles give what they have.
    cut = 0 if met is None else len(results) if "shuffle" in place else 3 if "bucket" in place else 1
    good = results[: max(len(results) - cut, 0)]
    assert good == expected[: len(good)], (place, nth)
    if met is not None:
        cause = met.__cause__ if isinstance(met, PipelineError) else met
        kinds = (MemoryError, UnavailableError) if call == MEMORY else UnavailableError
        if not isinstance(cause, kinds):
            raise AssertionError(f"{place}: refusal {nth} ends in {met!r}") from met
        if it is not None:
            try:
                results += [list(numbers_in(x)) for x in it]
                assert results == expected, (place, nth)
            except FailedPreconditionError as error:
                assert error.__cause__ is met, (place, nth)  # noqa: PT017
        it = met = None
    else:
        assert results == expected, (place, nth)
    assert all_of(ds) == expected, (place, nth)
    return requests >= nth


if __name__ == "__main__":
    given = sys.argv[1:]
    print(sweep(*map(int, given[:4]), given[4], given[5:] or list(KINDS)))
