"""Targets: the device that batches go to, and the kernel that widens them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

from queuecore._checks.checks import check_int
from queuecore._checks.warnings import warn
from queuecore._core.device.driver import Device
from queuecore._device.arrays import Arrays, chosen
from queuecore._device.kernels import Compiled, Kernel, KernelColumn, kernel_of
from queuecore._elements.component import Component
from queuecore._ops.stage import Stage
from queuecore.errors import (
    InvalidArgumentError,
    SlotsExhaustedError,
)

__all__ = ["Asked", "Target", "Widening", "target_of"]

_MOST_BUFFERS = 64


class Asked(NamedTuple):
    """A user's wish: the arguments of `Dataset.prefetch_to_device`."""

    device: str
    buffers: int
    mode: str
    pinned: str


class Target(NamedTuple):
    """The device that batches go to.

    Attributes
    ----------
    device : Device
    arrays : Arrays
        Makes arrays there.
    buffers : int
        Batches that may be there at a time.
    ring : bool
        Whether a batch is good only until the next one is taken, and not as long as its arrays are.
    prefer : bool
        Whether host memory that can't be page-locked is accepted.
    widening : Widening, optional
        The stages that run on a batch there.
    """

    device: Device
    arrays: Arrays
    buffers: int
    ring: bool
    prefer: bool
    widening: Widening | None = None

    def say_held(self, forbidden: bool, was_said: bool) -> None:
        """Raise, or warn once, because as many batches are held as may be, and another one is taken."""
        batches_held = f"{self.buffers - 1} batches of this iterator are"
        if forbidden:
            raise SlotsExhaustedError(
                f"{batches_held} still held on cuda:{self.device.ordinal}, and on_hold='raise' allows no more. Drop or "
                "copy them, use more buffers, or on_hold='copy'"
            )
        if not was_said:
            warn(
                f"more than {batches_held} held on cuda:{self.device.ordinal}; further ones are copies of their own, "
                "which costs time and memory. prefetch_to_device(buffers=...) allows more; Options(on_hold='copy') "
                "asks for copies, 'raise' forbids them",
                3,
            )


@dataclass(frozen=True)
class Widening:
    """The stages behind the copy, as one kernel.

    Native steps after a batch make the same of the batch as of its rows one by one. So here, as on the host,
    all stages get rows, and where the batch comes between them doesn't matter.

    Attributes
    ----------
    given : sequence of Component
        The components of a raw row.
    stages : list of Stage
    template : nested
        The structure of an element, over the outputs.
    arrays : Arrays
        Compiles the kernel.
    """

    given: Sequence[Component]
    stages: list[Stage]
    template: Any
    arrays: Arrays

    def kernel(self, offsets: Sequence[int]) -> Kernel:
        """Return the kernel for batches whose components begin at these bytes."""
        columns = [KernelColumn(one, offset) for one, offset in zip(self.given, offsets, strict=True)]
        return kernel_of(columns, self.stages, batched=False)

    def compiled(self, offsets: Sequence[int]) -> tuple[Kernel, Compiled]:
        """Return that kernel, and its compiled form."""
        kernel = self.kernel(offsets)
        return kernel, self.arrays.compiled(kernel)


def target_of(device: str, buffers: SupportsIndex, mode: str, pinned: str) -> tuple[Target | None, int]:
    count = check_int(buffers, "buffers", 2, _MOST_BUFFERS)
    if mode not in ("lease", "ring"):
        raise InvalidArgumentError(f'mode must be "lease" or "ring", not {mode!r}')
    if pinned not in ("require", "prefer"):
        raise InvalidArgumentError(f'pinned must be "require" or "prefer", not {pinned!r}')
    found = chosen(device)
    return None if found is None else Target(*found, count, mode == "ring", pinned == "prefer"), count
