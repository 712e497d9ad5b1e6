"""Kernels without a device: run on the host, where their source is plain C++; compiled for real devices by NVRTC."""

import ctypes
import itertools
import math
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import pytest

from queuecore._device.kernels import ALIGNMENT, OPTIONS, KernelColumn

# A shift too far, a place outside of a table, or a load that isn't aligned ends the process.
CHECKS = "alignment,bounds,integer-divide-by-zero,shift,signed-integer-overflow"
FLAGS = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off"]
POISON = 0xCD


def cxx():
    found = shutil.which(os.environ.get("CXX", "g++"))
    if found is None:
        pytest.skip("no C++ compiler")
    return found


class Host:
    """Kernels as functions of this process. All are compiled at once, so give it many."""

    def __init__(self, kernels, replace=("", "")):
        text = "\n".join(kernel.source for kernel in kernels).replace(*replace)
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
            source.write_text(text)
            checks = [f"-fsanitize={CHECKS}", "-fsanitize-undefined-trap-on-error"]
            subprocess.run([cxx(), *FLAGS, *checks, "-o", made, source], check=True)
            self._library = ctypes.CDLL(str(made))

    def __call__(self, kernel, area, rows):
        """Return the outputs for a slot, or one at an address; nothing else of the output area may be touched."""
        function = self._library[kernel.entry]
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong]
        function.restype = None
        room = aligned(kernel.nbytes(rows) + ALIGNMENT)
        room[:] = POISON
        function(area if isinstance(area, int) else area.ctypes.data, room.ctypes.data, rows)
        outputs = []
        pairs = itertools.pairwise(kernel.offsets(rows))
        for (begin, end), output, nbytes in zip(pairs, kernel.outputs, kernel.row_bytes(), strict=True):
            assert begin % ALIGNMENT == 0
            assert (room[begin + rows * nbytes : end] == POISON).all()
            outputs.append(room[begin : begin + rows * nbytes].view(output.dtype).reshape(rows, *output.shape))
        assert (room[kernel.nbytes(rows) :] == POISON).all()
        return outputs


def aligned(nbytes):
    """Return so many bytes that begin where a device's memory does."""
    room = np.zeros(nbytes + ALIGNMENT, np.uint8)
    first = -room.ctypes.data % ALIGNMENT
    return room[first : first + nbytes]


def area_of(columns, arrays):
    """Return a slot that has the rows of these arrays, and anything between them."""
    rows = len(arrays[0])
    placements, end = [], 0
    for column, array in zip(columns, arrays, strict=True):
        plain = np.frombuffer(array.tobytes(), np.uint8).reshape(rows, -1 if rows else 0)
        stride = plain.shape[1] if column.stride is None else column.stride
        placements.append((column.offset, stride, plain))
        end = max(end, column.offset + rows * max(stride, plain.shape[1]))
    area = aligned(end)
    area[:] = np.random.default_rng(7).integers(0, 256, len(area), np.uint8)
    for first, stride, plain in placements:
        for row in plain:
            area[first : first + len(row)] = row
            first += stride
    return area


def columns_of(components, rows):
    """Return the columns of a slot that has room for so many rows."""
    columns, offset = [], 0
    for one in components:
        columns.append(KernelColumn(one, offset))
        offset += -(-math.prod(one.shape[1:]) * one.dtype.itemsize * rows // 64) * 64
    return columns


# -- NVRTC -------------------------------------------------------------------------------------------------------------


def nvrtc():
    """Return NVIDIA's compiler library, of its package or of the system."""
    folder = Path(sysconfig.get_path("purelib"), "nvidia")
    names = [str(one) for one in sorted(folder.glob("c*/lib/libnvrtc.so.*"))]
    for name in [*names, *(f"libnvrtc.so.{number}" for number in (13, 12))]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    pytest.skip("no NVRTC: pip install nvidia-cuda-nvrtc")


def compiled(source, target, options=OPTIONS):
    """Return PTX or, for a target sm_*, machine code."""
    library = nvrtc()

    def check(status):
        if status:
            library.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise AssertionError(library.nvrtcGetErrorString(status).decode() + "\n" + log())

    def text(what):
        size = ctypes.c_size_t()
        if getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)):
            return b""
        made = ctypes.create_string_buffer(size.value)
        check(getattr(library, f"nvrtcGet{what}")(program, made))
        return made.raw

    def log():
        return text("ProgramLog").decode(errors="replace")

    program = ctypes.c_void_p()
    check(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    try:
        words = [word.encode() for word in (*options, f"--gpu-architecture={target}")]
        check(library.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words)))
        return text("CUBIN") if target.startswith("sm_") else text("PTX").rstrip(b"\0").decode()
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
