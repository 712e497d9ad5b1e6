"""A target of the fuzzer under libFuzzer: fuzz.py TARGET [libFuzzer's arguments].

.ci/fuzz starts it, with libFuzzer and the address sanitizer in the process from its start.
"""

from __future__ import annotations

import ctypes
import sys

from helpers.faults import fuzz_targets

from queuecore._core.testing import fuzz


def main() -> None:
    """Hand over to libFuzzer, which ends the process."""
    name = sys.argv[1]
    callback = fuzz_targets.entry(name) if name in fuzz_targets.TARGETS else ctypes.c_void_p(fuzz.entry(name))
    # libFuzzer starts itself anew by its arguments, the first of which is the program.
    words = [f"{sys.executable} -P {__file__} {name}", *sys.argv[2:]]
    arguments = (ctypes.c_char_p * (len(words) + 1))(*map(str.encode, words), None)
    place = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_char_p))
    # The GIL is given up meanwhile: a native target has no use for it, and one in Python takes it.
    raise SystemExit(
        ctypes.CDLL(None).LLVMFuzzerRunDriver(ctypes.byref(ctypes.c_int(len(words))), ctypes.byref(place), callback)
    )


if __name__ == "__main__":
    main()
