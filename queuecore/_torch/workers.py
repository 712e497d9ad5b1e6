"""Workers that aren't processes: the answer of PyTorch's `get_worker_info` in them, and their random states."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import random
import sys
import threading
from collections.abc import Generator
from types import MethodType
from typing import Any

import numpy as np

from queuecore._torch.base import Loader
from queuecore._torch.package import torch
from queuecore._torch.random import States

__all__ = ["LoaderWorker", "answer_in_threads", "bound_to", "info_of"]

_here = threading.local()
_swap = threading.RLock()  # held by the thread that has a worker's random states swapped in
_worker_info: Any = None  # for `_answer`, which runs as PyTorch's function: PyTorch's global of this name


def _info_here() -> Any:
    """Return the answer for the worker of this thread; `None` if it is no worker thread."""
    info = getattr(_here, "info", None)
    if info is not None and sys._getframe(2).f_globals.get("__name__") == "torch.utils.data._utils.collate":
        return None  # PyTorch's collation asks, to find out whether its batches go to another process
    return info


def _answer() -> Any:
    info = _queuecore_info_here()  # type: ignore[name-defined] # noqa: F821
    return _worker_info if info is None else info


def answer_in_threads() -> None:
    """Let PyTorch's `get_worker_info` answer in worker threads too.

    The function gets new code instead of being replaced, since other modules have imported it already.
    """
    function = torch.utils.data.get_worker_info
    if "_queuecore_info_here" not in function.__globals__:
        function.__globals__["_queuecore_info_here"] = _info_here
        function.__code__ = _answer.__code__


def info_of(number: int, workers: int, seed: int, dataset: Any) -> Any:
    """Return the answer of PyTorch's `get_worker_info` in a worker."""
    kind: Any = torch.utils.data._utils.worker.WorkerInfo
    return kind(id=number, num_workers=workers, seed=seed, dataset=dataset)


def bound_to(function: Any, dataset: Any, own: Any) -> Any:
    """Return a function for a worker: a method of `dataset` becomes one of `own`, the worker's copy of it."""
    if isinstance(function, MethodType) and function.__self__ is dataset:
        return MethodType(function.__func__, own)
    return function


def _seed_worker(base: int, number: int) -> None:
    # As PyTorch's worker processes do, so that the worker draws the same numbers.
    random.seed(base + number)
    torch.default_generator.manual_seed(base + number)
    np.random.seed(torch.utils.data._utils.worker._generate_state(base, number))


class LoaderWorker:
    """A worker that is no process, with its copy of the dataset and its random states.

    Parameters
    ----------
    number : int
        The worker's number, from 0.
    loader : Loader
    base : int
        The seed of the epoch's workers; this worker's is `base` + `number`.
    dataset : object
        The worker's copy.

    Attributes
    ----------
    pid : int
        The process, as of a worker process.
    """

    def __init__(self, number: int, loader: Loader, base: int, dataset: Any) -> None:
        self.info = info_of(number, loader.num_workers, base + number, dataset)
        self.pid = os.getpid()
        # What epochs that were left had asked of it, and their jobs: a worker that stays does that first.
        self.left: collections.deque[tuple[Any, Any]] = collections.deque()
        self._begin = bound_to(loader.worker_init_fn, loader.dataset, dataset)
        self._left = threading.Event()  # no thread works as this worker
        self._left.set()
        others = [(torch.default_generator.get_state, torch.default_generator.set_state)]
        self._states = States(functools.partial(_seed_worker, base, number), others)

    @contextlib.contextmanager
    def at_work(self, states: bool) -> Generator[None]:
        """Let the thread be this worker; if `states`, with its random states in place of the process's."""
        outer_info, _here.info = getattr(_here, "info", None), self.info
        try:
            if states:
                with _swap, self._states.swapped_in():
                    yield
            else:
                yield
        finally:
            _here.info = outer_info

    def come(self) -> None:
        """Note that a thread is about to work as this worker."""
        self._left.clear()

    def leave(self) -> None:
        """Note that the worker's thread ends."""
        self._left.set()

    def is_alive(self) -> bool:
        """Return whether a thread works as this worker."""
        return not self._left.is_set()

    @property
    def exitcode(self) -> int | None:
        """None while a thread works as this worker, then 0: as of a process that has ended."""
        return 0 if self._left.is_set() else None

    def join(self, timeout: float | None = None) -> None:
        """Wait until the worker's thread has ended, or for `timeout` seconds."""
        self._left.wait(timeout)

    def terminate(self) -> None:
        """Do nothing: a thread ends by itself, with its iterator."""

    def begin(self) -> BaseException | None:
        """Call the functions for the start of a worker; return their error, or `None`."""
        begin, self._begin = self._begin, None
        try:
            if begin is not None:
                begin(self.info.id)
        except BaseException as error:
            return error
        return None
