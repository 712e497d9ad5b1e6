"""Counters of the streams beneath a stream: records, bytes and files of the sources, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["Account", "COUNTED", "SKIPPED", "Counts", "merged", "records_of"]

Counts = dict[str, int]

SKIPPED = ("skipped", "skipped_files", "skipped_bytes")
"""The counters of what was left out."""

# Of each pass anew.
_OF_PASSES = ("records", "bytes_read", "dropped_records", "io_requests", "io_uring_requests", *SKIPPED)
# Of the files, which are the same in each pass over an input.
_OF_FILES = ("files_known", "empty_files", "dropped_tails")

COUNTED = (*_OF_PASSES, *_OF_FILES)
"""The counters of an iterator that are those of its sources."""


class Account:
    """The last counts and errors of a stream, for the one that it works for.

    Parameters
    ----------
    index : int or None
        Which input of the other one it is; `None`: a dataset that a function made.
    note : callable
        Gets the index and the last counts.
    changed : list
        Gets the error of a file that has changed since the stream read a part of it.

    Attributes
    ----------
    asks : bool
        Whether somebody will ask for that error.
    """

    def __init__(self, index: int | None, note: Callable[[int | None, Counts], None], changed: list[Exception]) -> None:
        self.index = index
        self.asks = True
        self.changed = changed
        self._note: Callable[[int | None, Counts], None] | None = note

    @property
    def is_open(self) -> bool:
        """True if the last counts have not come yet."""
        return self._note is not None

    def close(self, counts: Callable[[], Counts]) -> None:
        """Take the last counts, once."""
        note, self._note = self._note, None
        if note is not None:
            note(self.index, counts())


def merged(parts: Iterable[tuple[int | None, Counts]]) -> dict[int | None, Counts]:
    """Return the counts by input; `None`: of datasets that functions made, each of which has files of its own."""
    made: dict[int | None, Counts] = {}
    for index, counts in parts:
        whole = made.setdefault(index, dict.fromkeys(COUNTED, 0))
        for name, count in counts.items():
            whole[name] = max(whole[name], count) if index is not None and name in _OF_FILES else whole[name] + count
    return made


def records_of(whole: dict[int | None, Counts]) -> int:
    """Return how many records the sources gave: those of functions' datasets, if there are any, and not their names."""
    parts = [whole[None]] if whole.get(None, {}).get("records") else whole.values()
    return sum(one["records"] for one in parts)
