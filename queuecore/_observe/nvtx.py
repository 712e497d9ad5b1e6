"""NVTX, NVIDIA's library by which a profiler shows what a program says that its threads do."""

from __future__ import annotations

import ctypes
import functools

__all__ = ["range_functions"]

_LIBRARY = "libnvToolsExt.so.1"


def _functions_anew() -> tuple[int, int]:
    try:
        library = ctypes.CDLL(_LIBRARY)
        push, pop = (ctypes.cast(library[name], ctypes.c_void_p).value for name in ("nvtxRangePushA", "nvtxRangePop"))
    except (OSError, AttributeError):
        return 0, 0
    return push or 0, pop or 0


_functions = functools.cache(_functions_anew)


def range_functions() -> tuple[int, int]:
    """Return the addresses of `nvtxRangePushA` and `nvtxRangePop`; 0: the library isn't there."""
    return _functions()
