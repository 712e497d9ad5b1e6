"""The part of a `DataLoader` that the rooms behind it know: the attributes that it adds to PyTorch's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from queuecore._checks.warnings import warn
from queuecore._torch.copies import Shared
from queuecore._torch.package import torch

__all__ = ["Loader"]

_log = logging.getLogger("queuecore")


class Loader(torch.utils.data.DataLoader[Any]):
    """The base class of `DataLoader`. Pickles made before an attribute was added get the default value here."""

    _opened: Callable[[], Any] | None = None  # makes an iterator over a queuecore dataset
    _collates: bool  # batches are collated as PyTorch does by default
    _copy_dataset: str | bool = "shallow"
    _worker_type: str | None = None
    snapshot_every_n_steps: int | None = 1
    _kept: tuple[Any, Any] | None = None  # the plan and the workers that stay
    _seed = 0  # of the newest workers
    _drawn: Any = None  # a state for samplers, in place of the global generator's
    _states: list[Any] | None = None  # of the datasets of workers that stay, or their places
    _said: frozenset[str] = frozenset()  # messages that were logged
    _state: Mapping[str, Any] | None = None
    _ready: Any = None  # an iterator that was made for its state; the next iteration uses it
    _epoch: Any  # the class of its iterators

    def _keep(self, plan: Any, workers: Any) -> None:
        """Keep the workers for later epochs, if `persistent_workers` is set."""
        if self.persistent_workers:
            self._kept = plan, workers

    def _say(self, what: str) -> None:
        if what not in self._said:
            self._said |= {what}
            _log.info("DataLoader: %s", what)

    def _warn_of(self, shared: list[Shared]) -> None:
        new = [one for one in shared if one.path not in self._said]
        self._said |= {one.path for one in new}
        if new and self.num_workers > 1:
            named = ", ".join(f"{one.path} ({type(one.handle).__module__}.{type(one.handle).__name__})" for one in new)
            warn(
                f"DataLoader: {named} is shared by the copies of the dataset for {self.num_workers} workers, and no "
                "two threads may use it at a time: so the dataset is called by one of them after the other. Open it "
                "where it is used first, or in worker_init_fn for get_worker_info().dataset, or use "
                "worker_type='process'",
                4,
            )
