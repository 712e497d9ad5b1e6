"""Options of how a dataset runs, apart from what it yields."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from typing import Any, Literal

from queuecore._checks.checks import check_bool, check_int
from queuecore._io.bad_data import Path, Quarantine
from queuecore.errors import InvalidArgumentError

__all__ = ["AUTOTUNE", "Options"]

AUTOTUNE = -1
"""Leaves a number (of threads, of elements to prefetch) to the library."""

_MOST_THREADS = 1024
_MOST_LEASES = 65536
_MOST_RETRIES = 1000
_LEAST_BUDGET = 1 << 20
# Places in a block of text are 32 bits wide.
_MOST_RECORD_BYTES = 2**30


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings that change how a dataset runs and never what it yields.

    Parameters
    ----------
    num_threads : int, optional
        Native worker threads, 1 to 1024. Default (`None` or `AUTOTUNE`): the dataset's ``num_parallel_reads`` if
        given, else the CPUs this process may use (by its affinity, and by the quota of its control groups, rounded up),
        less one for the consumer, at least 1 and at most 8. A consumer that
        finds nothing ready works too, instead of sleeping, unless 1 is given here.
    on_hold : {"copy", "raise"}, optional
        What happens when the consumer holds `max_leases` elements and asks for one more. ``"copy"`` (the default)
        gives it an array of its own, which costs a copy; ``"raise"`` raises `SlotsExhaustedError`.
    max_leases : int, optional
        Elements of which the consumer may hold views at the same time, 1 to 65536. Default 4; a ``for`` loop needs 2.
    retries : int, optional
        How often a read that fails with EIO is tried again, after 10, 20, 40, 80 and then each time 100 ms. Default 0.
    max_record_bytes : int, optional
        The longest record that is let through, where records differ in length. Default: 64 MiB for lines and CSV, 1 GiB
        for TFRecords, whose lengths have a checksum, and for whole files.
    deterministic : bool, optional
        `False` allows steps that wait for several things at a time (functions of Python that run in parallel, for
        example) to deliver what is ready first. The default (`None`) and `True`: the order depends on the steps, the
        seeds and the data alone. Steps that run natively keep that order in any case, and so do all where bad elements
        are left out (``on_error="skip"``), or where what follows needs an order to go on from a saved place: windows, a
        native filter, an interleave, a zip of rows. A step's own ``deterministic`` argument wins.
    memory_budget : int, optional
        Bytes that the buffers of an iterator may take, at least 1 MiB: batches in the making and those that are held,
        what is read ahead, and what a shuffle keeps; of a dataset of other datasets, all of them together. The default
        (`None`) follows from the sizes of batches and the number of threads; what `Dataset.prefetch` asks for beyond
        that takes no more than a quarter of the memory that this process may have (of the machine's, of its control
        groups', of ``ulimit -v``). Less memory means fewer threads, less
        ahead and a smaller `max_leases`. Copies that the consumer gets, Python objects, the places that a shuffle keeps
        (some 40 bytes an element) and the scratch memory of decoders come on top.
    stall_warn : float, optional
        After how many seconds in which nothing moves (no byte is read, no batch begun) a consumer that waits is told so
        by a `RuntimeWarning`, which names the files that are being read. Default 60; ``math.inf``: never.
    stall_timeout : float, optional
        The seconds after which the same stall is a `StallError`, which ends the iterator. Default: never.
    on_error : {"raise", "skip"}, optional
        What becomes of a record that is damaged or can't be decoded, and of a file that can't be opened or in which no
        further record can be found: an error in its place (the default), or it is left out. Faults of the machine
        (failed reads, too many open files, no memory) are always errors.
    max_skips : int, optional
        How many records and files an iterator may leave out; the next one is an error in its place. Default: any.
    identity : {"stat", "content"}, optional
        By what a saved place knows its files again. ``"stat"`` (the default): by size and modification time, as they
        were when they were opened. ``"content"``: by a digest of their bytes, so that files which were copied, or
        written again with the same bytes, go on. That reads each file once more when the first place behind its
        beginning is saved, and once when a place is loaded, in the thread that does so, without the GIL. A loaded place
        is compared by what it was saved with.
    quarantine : path, optional
        Of a log of what is left out: a JSON object on a line for each, with ``path``, ``offset``, ``record``,
        ``reason``, ``message``, ``file`` and ``bytes``. Where it can't be written, that is an error in the place of
        what was to be logged, whose own error is the ``__cause__``; nothing is left out then.

    Raises
    ------
    InvalidArgumentError
        If a value is out of its range.
    ResourceExhaustedError
        From an iterator, if `memory_budget` is too small for one batch in the making.
    TypeError
        If there is no option of that name.

    Notes
    -----
    `None` means "not set": where `Dataset.with_options` merges two of these, the later one wins for what it sets.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.data.Options(num_threads=4)
    Options(num_threads=4)
    """

    num_threads: int | None = None
    on_hold: Literal["copy", "raise"] | None = None
    max_leases: int | None = None
    retries: int | None = None
    max_record_bytes: int | None = None
    on_error: Literal["raise", "skip"] | None = None
    identity: Literal["stat", "content"] | None = None
    max_skips: int | None = None
    quarantine: Path | None = None
    deterministic: bool | None = None
    memory_budget: int | None = None
    stall_warn: float | None = None
    stall_timeout: float | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        check_threads(self.num_threads, "num_threads")
        if self.on_hold not in (None, "copy", "raise"):
            raise InvalidArgumentError(f'on_hold must be "copy" or "raise", not {self.on_hold!r}')
        if self.max_leases is not None:
            check_int(self.max_leases, "max_leases", 1, _MOST_LEASES)
        if self.retries is not None:
            check_int(self.retries, "retries", 0, _MOST_RETRIES)
        if self.max_record_bytes is not None:
            check_int(self.max_record_bytes, "max_record_bytes", 1, _MOST_RECORD_BYTES)
        if self.on_error not in (None, "raise", "skip"):
            raise InvalidArgumentError(f'on_error must be "raise" or "skip", not {self.on_error!r}')
        if self.identity not in (None, "stat", "content"):
            raise InvalidArgumentError(f'identity must be "stat" or "content", not {self.identity!r}')
        Quarantine(self.quarantine, self.max_skips)  # checks both
        if self.deterministic is not None:
            check_bool(self.deterministic, "deterministic")
        if self.memory_budget is not None:
            check_int(self.memory_budget, "memory_budget", _LEAST_BUDGET)
        _seconds(self.stall_warn, "stall_warn")
        _seconds(self.stall_timeout, "stall_timeout")

    def __repr__(self) -> str:
        """Return what is set."""
        shown = [
            f"{field.name}={value!r}" for field in fields(self) if (value := getattr(self, field.name)) is not None
        ]
        return f"Options({', '.join(shown)})"

    def merged(self, later: Options) -> Options:
        """Return these options with everything that `later` sets put in its place.

        Parameters
        ----------
        later : Options
            Options of which those that are not None win.
        """
        # All was checked when it was given. Not again: a log that can't be written any more is of no concern before
        # something is to be logged.
        made = copy(self)
        for field in fields(later):
            value = getattr(later, field.name)
            if value is not None:
                object.__setattr__(made, field.name, value)
        return made


def _seconds(value: float | None, what: str) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0):
        raise InvalidArgumentError(f"{what} must be a positive number of seconds, not {value!r}")


def check_threads(value: Any, what: str, most: int = _MOST_THREADS) -> int | None:
    """Return a number of threads, or `None` where the choice is ours."""
    if value is None:
        return None
    number = check_int(value, what, AUTOTUNE, most)
    if number == 0:
        raise InvalidArgumentError(f"{what} must be at least 1, or AUTOTUNE (-1), not 0")
    return None if number == AUTOTUNE else number
