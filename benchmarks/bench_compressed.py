"""Compressed files as streams, beside the libraries themselves: one call of theirs over the whole file in memory.

The input is 42 MB of CSV (ten columns of numbers), compressed at each format's usual level, warm. The stream is driven
through the core's test hooks (``QUEUECORE_TESTING=1`` builds them): it opens the file, reads it in pieces, and drops
them. The libraries get the compressed file and a buffer that they have written to before. A ratio compares two runs of
the same round. libdeflate, which has no streams, takes part by itself.

Several files at a time: the same text as GZIP, in 8 files of 42 MB and in 2 of 168 MB, one file after the other, as
batches of 4,096 lines. "default" is two threads on these two cores.
"""

from __future__ import annotations

import bz2
import ctypes
import gzip
import lzma
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

import harness  # noqa: E402
from passes import whole_pass  # noqa: E402

Contenders = list[tuple[str, Callable[[], float]]]

SONAMES = {
    **{"libzstd": "libzstd.so.1", "liblz4": "liblz4.so.1", "liblzma": "liblzma.so.5", "libbz2": "libbz2.so.1.0"},
    "libdeflate": "libdeflate.so.0",
}


class ZStream(ctypes.Structure):
    _fields_ = [
        *(("next_in", ctypes.c_void_p), ("avail_in", ctypes.c_uint), ("total_in", ctypes.c_ulong)),
        *(("next_out", ctypes.c_void_p), ("avail_out", ctypes.c_uint), ("total_out", ctypes.c_ulong)),
        ("rest", ctypes.c_uint64 * 8),
    ]


class IsalState(ctypes.Structure):
    _fields_ = [
        *(("next_out", ctypes.c_void_p), ("avail_out", ctypes.c_uint32), ("total_out", ctypes.c_uint32)),
        *(("next_in", ctypes.c_void_p), ("read_in", ctypes.c_uint64), ("avail_in", ctypes.c_uint32)),
        *(("read_in_length", ctypes.c_int32), ("tables", ctypes.c_uint8 * 21132), ("crc_flag", ctypes.c_uint32)),
        ("rest", ctypes.c_uint8 * 66192),
    ]


def whole(kind: str, data: bytes, count: int) -> Callable[[], None]:
    """Return a function that lets a library decompress all of `data`, which gives `count` bytes."""
    into = ctypes.create_string_buffer(count + 1)
    source = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
    if kind == "libisal":
        library = ctypes.CDLL("libisal.so.2")

        def run() -> None:
            state = IsalState()
            library.isal_inflate_init(ctypes.byref(state))
            state.crc_flag = 1  # with GZIP's header and trailer
            state.next_in, state.avail_in = source.value, len(data)
            state.next_out, state.avail_out = ctypes.addressof(into), count + 1
            if library.isal_inflate(ctypes.byref(state)) != 0 or state.total_out != count:
                raise AssertionError("not all was decompressed")
    elif kind in ("libz", "libz-ng"):
        own = kind == "libz"
        library = ctypes.CDLL("libz.so.1" if own else "libz-ng.so.2")
        begin, inflate, end = (
            getattr(library, name if own else f"zng_{name}") for name in ("inflateInit2_", "inflate", "inflateEnd")
        )

        def run() -> None:
            state = ZStream()
            begin(ctypes.byref(state), 31, b"1" if own else b"2", ctypes.sizeof(state) if own else 104)
            state.next_in, state.avail_in = source.value, len(data)
            state.next_out, state.avail_out = ctypes.addressof(into), count + 1
            if inflate(ctypes.byref(state), 4) != 1 or state.total_out != count:
                raise AssertionError("not all was decompressed")
            end(ctypes.byref(state))
    else:
        call = one_call(kind, source, len(data), into, count + 1)

        def run() -> None:
            if call() != count:
                raise AssertionError("not all was decompressed")

    return run


def one_call(kind: str, source: Any, nbytes: int, into: Any, room: int) -> Callable[[], int]:
    """Return a function that decompresses everything and returns the number of bytes, or something else on an error."""
    library = ctypes.CDLL(SONAMES[kind])
    source_size, into_size, took, made_bytes = (ctypes.c_size_t(size) for size in (nbytes, room, 0, 0))
    if kind == "libzstd":
        library.ZSTD_decompress.restype = ctypes.c_size_t
        return lambda: int(library.ZSTD_decompress(into, into_size, source, source_size))
    state = ctypes.c_void_p()
    if kind == "libdeflate":
        library.libdeflate_alloc_decompressor.restype = ctypes.c_void_p
        state.value = library.libdeflate_alloc_decompressor()
        decompress = library.libdeflate_gzip_decompress
        arguments = state, source, source_size, into, into_size, ctypes.byref(made_bytes)
    elif kind == "liblz4":
        library.LZ4F_decompress.restype = ctypes.c_size_t
        library.LZ4F_createDecompressionContext(ctypes.byref(state), 100)
        decompress = library.LZ4F_decompress
        arguments = state, into, ctypes.byref(made_bytes), source, ctypes.byref(took), None
    elif kind == "liblzma":
        decompress = library.lzma_stream_buffer_decode
        limit = ctypes.c_uint64(1 << 30)
        places = ctypes.byref(took), source_size, into, ctypes.byref(made_bytes), into_size
        arguments = ctypes.byref(limit), 0, None, source, *places
    else:
        decompress = library.BZ2_bzBuffToBuffDecompress
        arguments = into, ctypes.byref(made_bytes), source, nbytes, 0, 0  # of the number it uses the lower half

    def call() -> int:
        # Those of LZ4 and BZ2 are told the sizes where they put what they did.
        took.value, made_bytes.value = (nbytes, room) if kind in ("liblz4", "libbz2") else (0, 0)
        return int(made_bytes.value) if decompress(*arguments) == 0 else -1

    return call


def other_formats(content: bytes, absences: dict[str, str]) -> dict[str, tuple[int, bytes]]:
    """Return the numbers of the other encodings, and the content in each, by the names of their libraries."""
    formats = {}
    for library, number, command in (
        ("libzstd", 3, ["zstd", "--quiet", "--stdout", "--check"]),
        ("liblz4", 4, ["lz4", "-q", "-z", "-c"]),
    ):
        if shutil.which(command[0]):
            packed = subprocess.run(command, input=content, stdout=subprocess.PIPE, check=True).stdout
            formats[library] = (number, packed)
        else:
            absences[library] = f"there is no program {command[0]} to make the file"
    return formats | {"liblzma": (5, lzma.compress(content)), "libbz2": (6, bz2.compress(content))}


def several(folder: Path, data: bytes, text: bytes) -> Contenders:
    """Return the ways to read lists of files of lines, in MB of text a second. Each file repeats the same member."""
    import queuecore as qc

    lines = text.count(b"\n")

    def rate(dataset: Any, members: int) -> float:
        rows, seconds = whole_pass(dataset)
        if rows != members * lines:
            raise AssertionError(f"{rows} lines instead of {members * lines}")
        return members * len(text) / seconds / 1e6

    contenders: Contenders = []
    for files, members in ((8, 1), (2, 4)):
        names = [str(folder / f"{files}-{index}.gz") for index in range(files)]
        for name in names:
            Path(name).write_bytes(data * members)
        harness.reread_files(names)
        for threads, label in ((1, "1 thread"), (None, "default")):
            ds = qc.data.TextLineDataset(names, "GZIP").batch(4096).with_options(qc.data.Options(num_threads=threads))
            contenders.append((f"{files} files: {label}", lambda ds=ds, total=files * members: rate(ds, total)))
    return contenders


def run(options: harness.Options) -> dict[str, Any]:
    """Measure GZIP with each library, the other formats, and lists of files."""
    import numpy as np

    from queuecore._core.testing import parsers

    rows, rounds = (60_000, 3) if options.quick else (600_000, 15)
    numbers = np.random.default_rng(0).normal(size=(rows, 10))
    content = "\n".join(",".join(f"{value:.4f}" for value in row) for row in numbers.tolist()).encode()
    packed = gzip.compress(content, 6)
    absences: dict[str, str] = {}
    formats = dict.fromkeys(("libisal", "libz-ng", "libz"), (1, packed)) | other_formats(content, absences)
    contenders: Contenders = []
    # What is compared with what, in which words, and the target.
    pairs: list[tuple[str, str, str, float | None]] = []

    def timed(work: Callable[[], None], library: str) -> float:
        parsers.prefer_library(library if library in ("libisal", "libz-ng", "libz") else "")
        start = time.perf_counter()
        work()
        return len(content) / (time.perf_counter() - start) / 1e6

    with harness.scratch(options) as folder:
        for library, (encoding, data) in formats.items():
            found = parsers.prefer_library(library) if encoding == 1 else parsers.find_library(encoding)
            if found is None or library not in found:
                absences[library] = "it is not installed"
                continue
            path = folder / library
            path.write_bytes(data)
            own = f"{library}: itself, one call"
            alone = whole(library, data, len(content))
            contenders.append((own, lambda work=alone, library=library: timed(work, library)))
            for piece in (4 << 10, 64 << 10, 1 << 20) if library not in ("liblzma", "libbz2") else (64 << 10,):

                def stream(path: Path = path, encoding: int = encoding, piece: int = piece) -> None:
                    opened = parsers.FileStream(path, encoding)
                    if opened.skip(piece) != len(content):
                        raise AssertionError("not all was read")
                    opened.close()

                name = f"{library}: stream, {piece >> 10} KiB a read"
                contenders.append((name, lambda work=stream, library=library: timed(work, library)))
                pairs.append((name, own, "of the library", 0.9 if encoding == 1 else None))
        try:
            alone = whole("libdeflate", packed, len(content))
            contenders.append(("libdeflate: itself, one call", lambda work=alone: timed(work, "")))
        except OSError:
            absences["libdeflate"] = "it is not installed"
        raw = harness.rotate(contenders, rounds)
        parsers.prefer_library("")
        raw |= harness.rotate(several(folder, gzip.compress(content + b"\n", 6), content + b"\n"), rounds)
    pairs.append(("8 files: default", "8 files: 1 thread", "of one thread", 1.7))
    pairs.append(("2 files: default", "2 files: 1 thread", "of one thread", None))
    findings = [harness.finding(name, "MB/s", values) for name, values in raw.items()]
    for name, own, unit, target in pairs:
        ratios = [rate / other for rate, other in zip(raw[name], raw[own], strict=True)]
        findings.append(harness.finding(name, unit, ratios, at_least=target))
    return harness.report(
        "compressed",
        "decompressed bytes of files, beside the library alone and one thread",
        findings,
        raw,
        parameters={"bytes": len(content), "gzip_bytes": len(packed), "rounds": rounds},
        notes=[f"Python's zlib is {zlib.ZLIB_RUNTIME_VERSION}"],
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
