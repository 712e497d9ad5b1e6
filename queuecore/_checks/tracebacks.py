"""Tracebacks of errors that come out of a stream which goes on."""

from __future__ import annotations

import inspect
from types import CodeType, TracebackType

__all__ = ["without_generators"]


def without_generators(error: BaseException) -> None:
    """Take the frames of queuecore's generators out of the tracebacks of an error and of its causes.

    The ``assertRaises`` of `unittest`, for one, clears the frames of the traceback that it caught. That closes each
    generator among them, and a stream that waits in one would end without a word.
    """
    seen: set[int] = set()
    chained: BaseException | None = error
    while chained is not None and id(chained) not in seen:
        seen.add(id(chained))
        entries = []
        entry = chained.__traceback__
        while entry is not None:
            entries.append(entry)
            entry = entry.tb_next
        if any(_is_own_generator(entry) for entry in entries):
            kept: TracebackType | None = None
            for entry in reversed(entries):
                if not _is_own_generator(entry):
                    kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
            chained.__traceback__ = kept
        chained = chained.__cause__ or chained.__context__


def _is_own_generator(entry: TracebackType) -> bool:
    code: CodeType = entry.tb_frame.f_code
    own = entry.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "queuecore"
    return own and bool(code.co_flags & inspect.CO_GENERATOR)
