"""The part of a `DataLoader` that the rooms behind it know: the attributes that it adds to PyTorch's own."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

from queuecore._checks.warnings import warn
from queuecore._torch.copies import Shared
from queuecore._torch.package import torch

__all__ = ["Lasting", "Left", "Loader", "LoaderSettings", "keeps_nothing", "let_go"]

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger("queuecore")


# The code whose frames an error doesn't keep. Frames of the user's code stay, for debuggers.
_OWN = ("queuecore.", "torch.utils.data.dataloader")


def let_go(error: BaseException) -> None:
    """Drop from an error, and from those it follows from, what the frames of loaders hold: iterators with workers."""
    ids: set[int] = set()
    errors: list[BaseException | None] = [error]
    while errors:
        one = errors.pop()
        if one is None or id(one) in ids:
            continue
        ids.add(id(one))
        errors += [one.__cause__, one.__context__]
        trace = one.__traceback__
        while trace is not None:
            frame: types.FrameType | None = trace.tb_frame
            # Also those that called it when the error was caught, to be raised later: frames keep their callers.
            while frame is not None and str(frame.f_globals.get("__name__")).startswith(_OWN):
                # To clear a generator's frame would close it: one of a pipeline's threads, which goes on.
                if not frame.f_code.co_flags & inspect.CO_GENERATOR:
                    with contextlib.suppress(RuntimeError):  # it is still running: in a worker, or as a caller
                        frame.clear()
                frame = frame.f_back
            trace = trace.tb_next


def keeps_nothing(function: Callable[P, R]) -> Callable[P, R]:
    """Let the errors of a loader's method hold neither the loader nor what it works on."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            let_go(error)
            del args, kwargs
            raise

    return call


class Left:
    """The place of a loader's newest epoch, also when the loop has left it: then its iterator and its workers are gone.

    Parameters
    ----------
    epoch : Epoch
    """

    def __init__(self, epoch: Any) -> None:
        self.epoch = weakref.ref(epoch)
        self.over = False
        self._state: dict[str, Any] = {}
        self._error: Exception | None = None
        self._counters: dict[str, int] = {}

    def leave(self, epoch: Any) -> None:
        """Note the place of the epoch, which ends."""
        self.over = epoch.over
        self._counters = epoch.stats()
        try:
            self._state = copy.deepcopy(epoch.state_dict())
        except Exception as error:
            self._error = error.with_traceback(None)

    def state_dict(self) -> dict[str, Any]:
        """Return the place, or raise the error there was instead."""
        if self._error is not None:
            raise self._error
        return dict(self._state)

    def stats(self) -> dict[str, int]:
        """Return the counters of the epoch as it was left."""
        return dict(self._counters)


class LoaderSettings(NamedTuple):
    """The facts about a loader that decide how its epochs are made, and that PyTorch's loader has not."""

    collates: bool  # batches are collated as PyTorch does by default
    copy_dataset: str | bool
    worker_type: str | None
    beside: bool  # each worker goes through an iterable dataset of its own
    opened: Callable[[], Any] | None = None  # makes an iterator over a queuecore dataset


class Lasting:
    """The part of a loader that lasts from one epoch to the next. A copy of it has neither workers nor their states.

    Attributes
    ----------
    kept : tuple or None
        The plan and the workers that stay.
    states : list or None
        Of the datasets of workers that stay, or their places.
    seed : int
        Of the newest workers.
    drawn : Tensor or None
        A state for samplers, in place of the global generator's.
    """

    def __init__(self) -> None:
        self.kept: tuple[Any, Any] | None = None
        self.states: list[Any] | None = None
        self.seed = 0
        self.drawn: Any = None
        self._said: frozenset[str] = frozenset()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"kept": None, "states": None}

    def let_workers_go(self) -> None:
        """Keep the workers, and the states of their datasets, no longer."""
        self.kept = self.states = None

    def say(self, what: str) -> None:
        """Log a message, once."""
        if what not in self._said:
            self._said |= {what}
            _log.info("DataLoader: %s", what)

    def warn_of(self, shared: list[Shared], workers: int) -> None:
        """Warn once of objects that the copies of a dataset for so many workers share."""
        new = [part for part in shared if part.path not in self._said]
        self._said |= {part.path for part in new}
        if new and workers > 1:
            named = ", ".join(f"{one.path} ({type(one.handle).__module__}.{type(one.handle).__name__})" for one in new)
            warn(
                f"DataLoader: {named} is shared by the copies of the dataset for {workers} workers, and no "
                "two threads may use it at a time: so the dataset is called by one of them after the other. Open it "
                "where it is used first, or in worker_init_fn for get_worker_info().dataset, or use "
                "worker_type='process'",
                4,
            )


class Loader(torch.utils.data.DataLoader[Any]):
    """The base class of `DataLoader`."""

    settings: LoaderSettings
    lasting: Lasting
    snapshot_every_n_steps: int | None = 1
    _processes = False  # workers are processes
    _state: Mapping[str, Any] | None = None
    _ready: Any = None  # an iterator that was made for its state; the next iteration uses it
    _epoch: Any  # the class of its iterators
    _newest: Any = None  # its newest iterator; a `Left` if that has threads, which end when the loop drops it

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take the attributes of a copy, or those that a pickle of an earlier version has."""
        attributes = dict(state)
        if "settings" not in attributes:
            attributes["settings"] = LoaderSettings(
                attributes.pop("_collates"),
                attributes.pop("_copy_dataset", "shallow"),
                attributes.pop("_worker_type", None),
                attributes["_epoch"].beside,
                attributes.pop("_opened", None),
            )
            attributes["lasting"] = Lasting()
            attributes["lasting"].seed, attributes["lasting"].drawn = (
                attributes.pop("_seed", 0),
                attributes.pop("_drawn", None),
            )
        self.__dict__.update(attributes)

    @property
    def _iterator(self) -> Any:
        """The newest iterator, or the place where it was left; `None`: there is none."""
        newest = self._newest
        epoch = newest.epoch() if isinstance(newest, Left) else None
        return newest if epoch is None else epoch

    @_iterator.setter
    def _iterator(self, epoch: Any) -> None:
        if epoch is None or not epoch.has_threads:
            self._newest = epoch
            return
        self._newest = left = Left(epoch)
        epoch.left = weakref.ref(left)
