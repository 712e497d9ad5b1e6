"""Options of how a dataset runs, apart from what it yields."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from queuecore._checks.checks import check_bool, check_int
from queuecore._io.bad_data import Path, Quarantine
from queuecore.data.settings import (
    AutotuneOptions,
    DistributeOptions,
    ExternalStatePolicy,
    OptimizationOptions,
    ServiceOptions,
    Settings,
    ThreadingOptions,
)
from queuecore.errors import InvalidArgumentError

__all__ = ["AUTOTUNE", "Options"]

AUTOTUNE = -1
"""Leaves a number (of threads, of elements to prefetch) to the library."""

_MOST_THREADS = 1024
_MOST_LEASES = 65536
_MOST_RETRIES = 1000
_LEAST_BUDGET = 1 << 20
_LEAST_CACHE = 64 << 20
_MOST_DEPTH = 256
# Places in a block of text are 32 bits wide.
_MOST_RECORD_BYTES = 2**30


@dataclass(kw_only=True, eq=False, repr=False)
class Options(Settings):
    """Settings that change how a dataset runs and never what it yields.

    Parameters
    ----------
    num_threads : int, optional
        Native worker threads, 1 to 1024. Default (`None` or `AUTOTUNE`): the dataset's ``num_parallel_reads`` if
        given, else the CPUs this process may use (by its affinity, and by the quota of its control groups, rounded up),
        less one for the consumer, at least 1 and at most 8. A consumer that
        finds nothing ready works too, instead of sleeping, unless 1 is given here. It doesn't decompress: where there
        are several compressed files, no CPU is left to it.
    on_hold : {"copy", "raise"}, optional
        What happens when the consumer holds `max_leases` elements and asks for one more. ``"copy"`` gives it an array
        of its own, which costs a copy; so does the default, which tells it in a `RuntimeWarning`, once. ``"raise"``
        raises `SlotsExhaustedError`.
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
        (`None`) follows from the sizes of batches and the number of threads; batches that `Dataset.prefetch` asks for
        beyond that take no more than a quarter of the memory that this process may have (of the machine's, of its
        control groups', of ``ulimit -v``). Less memory means fewer threads, less ahead and a smaller `max_leases`.
        Copies that the consumer gets, Python objects, the places that a shuffle keeps (some 40 bytes an element) and
        the scratch memory of decoders come on top.
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
    io : {"auto", "threads", "uring", "pread"}, optional
        Who waits for storage. ``"threads"``: bytes that the page cache doesn't have are read by further native threads,
        a read each, up to 64 of them, so that the number of reads in flight doesn't depend on `num_threads`; they start
        with the first such bytes. ``"uring"``: reads of records of one length, in files on a disk of this machine, are
        handed to the kernel (io_uring), up to 32 at a time by a thread; others are as with ``"threads"``. Where the
        kernel refuses, as in many containers, a warning in the log says so, and threads read. ``"pread"``: the native
        worker threads themselves. Default (`None` or ``"auto"``): ``"threads"``. `Dataset.plan` says what reads. Bytes
        in the page cache are read by the workers in any case.
    io_depth : int, optional
        How many of these reads are in flight at most, 1 to 256. Default: as many as are measured to be good, beginning
        with 8, at most 64.
    page_cache : {"keep", "drop"}, optional
        What becomes of the system's copy of bytes that were read from files. ``"drop"``: the page cache is asked to
        forget them, which keeps what others have there; for data that is far larger than memory, and read once. The
        system keeps a page that it reads or uses at that moment. Default: ``"keep"``, as long as there is room.
    direct : bool, optional
        Whether reads pass over the page cache (``O_DIRECT``): for data much larger than memory, whose bytes would only
        push out what others have there. The disk is asked for whole blocks of 4 KiB. Where the file system refuses,
        the log says so once, and files are read as usual; so are compressed files, and URLs. Default: `False`.
    cache_dir : path, optional
        A folder on a disk of this machine in which remote files are kept, for later passes, later runs, and other
        processes of this user: parts as they are read, with checksums, each by its URL and by what the store says of
        its content. It is made if it isn't there; others may not be able to write to it. Default: nothing is kept.
    cache_bytes : int, optional
        Bytes that files in `cache_dir` may take, at least 64 MiB; the longest unused go first. Each process may exceed
        them by a 32nd. Default: half of what the disk has free or the cache takes already.
    offline : bool, optional
        Whether remote files come from `cache_dir` alone, as they were when they were kept; a file that isn't there is
        an `UnavailableError` in its place. A dataset's reads while it is made (headers of ``.npy`` files, and of CSV
        for names of columns) come from the store. Default: `False`.
    identity : {"stat", "content"}, optional
        By what a saved place knows its files again. ``"stat"`` (the default): by size and modification time, as they
        were when they were opened. ``"content"``: by a digest of their bytes, so that files which were copied, or
        written again with the same bytes, go on. That reads each file once more when the first place behind its
        beginning is saved, and once when a place is loaded, in the thread that does so, without the GIL. A loaded place
        is compared by what it was saved with. URLs are read from the store for that, or from `cache_dir`.
    quarantine : path, optional
        Of a log of what is left out: a JSON object on a line for each, with ``path``, ``offset``, ``record``,
        ``reason``, ``message``, ``file`` and ``bytes``. Where it can't be written, that is an error in the place of
        what was to be logged, whose own error is the ``__cause__``; nothing is left out then. A file that is read can't
        be the log: iterators refuse it.

    Raises
    ------
    InvalidArgumentError
        If a value is out of its range, also when an attribute is set.
    ResourceExhaustedError
        From an iterator, if `memory_budget` is too small for one batch in the making.
    TypeError
        If there is no option of that name.
    AttributeError
        If there is no option of that name, and it is set as an attribute, or asked for.
    DtypeError
        If one of tf.data's options is set to a value of another type.
    ValueError
        If the options come from `Dataset.options`, and an attribute is set.

    Notes
    -----
    `None` means "not set": where `Dataset.with_options` merges two of these, the later one wins for what it sets.
    Attributes can be set. A dataset takes a copy.

    Of tf.data's options, `deterministic` (and ``experimental_deterministic``, its other name) has its meaning. These
    are accepted, kept, and have no effect: ``autotune``, ``dataset_name``, ``experimental_distribute``,
    ``experimental_external_state_policy``, ``experimental_optimization``, ``experimental_service``,
    ``experimental_slack``, ``experimental_symbolic_checkpoint``, ``experimental_warm_start``, ``framework_type``, and
    ``threading`` (``experimental_threading``), with the attributes of those that are groups.

    Examples
    --------
    >>> import queuecore as qc
    >>> options = qc.data.Options(num_threads=4)
    >>> options.deterministic = False
    >>> options
    Options(num_threads=4, deterministic=False)
    """

    num_threads: int | None = None
    on_hold: Literal["copy", "raise"] | None = None
    max_leases: int | None = None
    retries: int | None = None
    max_record_bytes: int | None = None
    on_error: Literal["raise", "skip"] | None = None
    io: Literal["auto", "threads", "uring", "pread"] | None = None
    io_depth: int | None = None
    page_cache: Literal["keep", "drop"] | None = None
    direct: bool | None = None
    cache_dir: str | os.PathLike[str] | None = None
    cache_bytes: int | None = None
    offline: bool | None = None
    identity: Literal["stat", "content"] | None = None
    max_skips: int | None = None
    quarantine: Path | None = None
    deterministic: bool | None = None
    memory_budget: int | None = None
    stall_warn: float | None = None
    stall_timeout: float | None = None

    types: ClassVar[dict[str, type]] = {
        "autotune": AutotuneOptions,
        "dataset_name": str,
        "experimental_distribute": DistributeOptions,
        "experimental_external_state_policy": ExternalStatePolicy,
        "experimental_optimization": OptimizationOptions,
        "experimental_service": ServiceOptions,
        "experimental_slack": bool,
        "experimental_symbolic_checkpoint": bool,
        "experimental_warm_start": bool,
        "framework_type": list,
        "threading": ThreadingOptions,
    }
    aliases: ClassVar[dict[str, str]] = {
        "experimental_deterministic": "deterministic",
        "experimental_threading": "threading",
    }

    def check(self, name: str, value: Any) -> None:
        """Raise an error if an attribute can't have a value.

        Parameters
        ----------
        name : str
            The attribute.
        value : object
            The value.
        """
        if name not in _CHECKS:
            super().check(name, value)
        elif value is not None:
            _CHECKS[name](value, name)

    @property
    def has_effect(self) -> bool:
        """True if anything is set that queuecore uses."""
        return any(getattr(self, name) is not None for name in _CHECKS)

    def merge(self, options: Self) -> Self:
        """Return these options with everything that `options` sets put in its place, as `merged` does.

        Parameters
        ----------
        options : Options
            Options of which those that are set win.

        Returns
        -------
        Options
        """
        return self.merged(options)


def _seconds(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise InvalidArgumentError(f"{what} must be a positive number of seconds, not {value!r}")


def check_threads(value: Any, subject: str, most: int = _MOST_THREADS) -> int | None:
    """Return a number of threads, or `None` where the choice is ours."""
    if value is None:
        return None
    number = check_int(value, subject, AUTOTUNE, most)
    if number == 0:
        raise InvalidArgumentError(f"{subject} must be at least 1, or AUTOTUNE (-1), not 0")
    return None if number == AUTOTUNE else number


def _one_of(*words: str) -> Callable[[Any, str], object]:
    allowed = ", ".join(f'"{one}"' for one in words[:-1]) + f' or "{words[-1]}"'

    def check(value: Any, what: str) -> None:
        if value not in words:
            raise InvalidArgumentError(f"{what} must be {allowed}, not {value!r}")

    return check


def _check_folder(value: Any, what: str) -> None:
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidArgumentError(f"{what} must be the path of a folder, not {value!r}")


def _between(least: int, *most: int) -> Callable[[Any, str], object]:
    return lambda value, what: check_int(value, what, least, *most)


# How each option is checked that has an effect.
_CHECKS: dict[str, Callable[[Any, str], object]] = {
    "num_threads": check_threads,
    "on_hold": _one_of("copy", "raise"),
    "max_leases": _between(1, _MOST_LEASES),
    "retries": _between(0, _MOST_RETRIES),
    "max_record_bytes": _between(1, _MOST_RECORD_BYTES),
    "on_error": _one_of("raise", "skip"),
    "io": _one_of("auto", "threads", "uring", "pread"),
    "io_depth": _between(1, _MOST_DEPTH),
    "page_cache": _one_of("keep", "drop"),
    "direct": check_bool,
    "cache_dir": _check_folder,
    "cache_bytes": _between(_LEAST_CACHE),
    "offline": check_bool,
    "identity": _one_of("stat", "content"),
    "max_skips": lambda value, _: Quarantine(None, value),
    "quarantine": lambda value, _: Quarantine(value, None),
    "deterministic": check_bool,
    "memory_budget": _between(_LEAST_BUDGET),
    "stall_warn": _seconds,
    "stall_timeout": _seconds,
}
