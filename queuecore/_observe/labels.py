"""The words for what native threads do."""

from __future__ import annotations

__all__ = ["WORK"]

# The kinds of a native thread's units of work, in the order of their numbers (`_core/stream/pipe.pxd`).
WORK = ("make rows", "fill the shuffle", "open files", "read", "keep for the shuffle")
