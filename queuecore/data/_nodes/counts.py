"""Counters of the streams beneath a stream: records, bytes and files of the sources, and what was left out."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["COUNTED", "SKIPPED", "Counts", "merged", "records_of"]

Counts = dict[str, int]

SKIPPED = ("skipped", "skipped_files", "skipped_bytes")
"""The counters of what was left out."""

# Of each pass anew.
_OF_PASSES = ("records", "bytes_read", "dropped_records", "io_requests", *SKIPPED)
# Of the files, which are the same in each pass over an input.
_OF_FILES = ("files_known", "empty_files", "dropped_tails")

COUNTED = (*_OF_PASSES, *_OF_FILES)
"""The counters of an iterator that are those of its sources."""


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
