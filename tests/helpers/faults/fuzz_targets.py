"""Targets of the fuzzer that are parsers in Python, or go through Python: states, messages, LMDB, the command line.

Each takes bytes, and returns or raises what the parser may raise. Lines of queuecore's own files that run are told to
libFuzzer as if native code had counted them.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import queuecore as qc
from queuecore._io.lmdb import LmdbRecords
from queuecore.cli.main import _parser, parse_dtype
from queuecore.data import Dataset, FixedLengthRecordDataset, Options
from queuecore.data._plan.state import _check
from queuecore.errors import QueueCoreError
from queuecore.tf1 import train

__all__ = ["TARGETS", "entry"]

_LINES = 1 << 14
_FOLDER = os.path.dirname(qc.__file__)


# ---- states ----


_folder = functools.cache(tempfile.TemporaryDirectory)


@functools.cache
def _datasets() -> list[Dataset]:
    file = Path(_folder().name) / "numbers"
    file.write_bytes(np.arange(40, dtype="<i4").tobytes())
    numbers = FixedLengthRecordDataset([file, file], record="<i4")
    datasets = [
        numbers.batch(3),
        numbers.shuffle(5, seed=1).repeat(2).batch(4).prefetch(1),
        qc.data.TextLineDataset(file).batch(2),
        Dataset.range(30).map(_opaque, 2, deterministic=False).batch(3),
        Dataset.range(5).interleave(lambda x: Dataset.range(x, x + 4), cycle_length=2, block_length=1),
        numbers.filter(_third).shuffle(4).batch(2),
    ]
    return [ds.with_options(Options(num_threads=1)) for ds in datasets]


def _opaque(x: Any) -> int:
    if int(x) == 7:
        raise ValueError("seven")
    return int(x)


def _third(x: Any) -> bool:
    return int(str(x)) % 3 == 0


@functools.cache
def _states() -> list[str]:
    states = []
    for ds in _datasets():
        with iter(ds) as it:
            for _ in range(5):
                with contextlib.suppress(QueueCoreError, StopIteration):
                    next(it)
            states.append(json.dumps(it.state_dict()))
    return states


def _places(value: Any, position: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all parts of a state, and to one behind the end of each list."""
    if isinstance(value, dict):
        return [way for key, one in value.items() for way in ((*position, key), *_places(one, (*position, key)))]
    if isinstance(value, list):
        inner = [way for i, one in enumerate(value) for way in ((*position, i), *_places(one, (*position, i)))]
        return [*inner, (*position, len(value))]
    return []


def _value(kind: int, number: int) -> Any:
    some = [number, number % 64, -number, None, [], [number], {}, str(number), number / 3, True, 2**63 + number]
    return some[kind % len(some)]


def state(data: bytes) -> None:
    """A state with some of its parts exchanged, whose check is right: it is refused, or leads to a place."""
    index = data[0] % len(_datasets()) if data else 0
    forged = json.loads(_states()[index])
    for i in range(1, len(data) - 10, 11):
        places = _places(forged)
        if not places:  # all parts were taken away
            break
        way = places[int.from_bytes(data[i : i + 2], "little") % len(places)]
        holder = forged
        for key in way[:-1]:
            holder = holder[key]
        value = _value(data[i + 2], int.from_bytes(data[i + 3 : i + 11], "little"))
        if isinstance(holder, list) and way[-1] == len(holder):
            holder.append(value)
        elif data[i + 2] >= 128:
            del holder[way[-1]]
        else:
            holder[way[-1]] = value
    forged["check"] = _check(forged)
    with contextlib.suppress(QueueCoreError), iter(_datasets()[index]) as it:
        it.load_state_dict(forged)
        for _ in range(4):
            with contextlib.suppress(StopIteration):
                next(it)
        it.state_dict()


# ---- others ----


def message(data: bytes) -> None:
    """A serialized message, of a kind that the first byte chooses."""
    kinds = [train.Example, train.SequenceExample, train.Features]
    kind = kinds[data[0] % len(kinds)] if data else train.Example
    with contextlib.suppress(QueueCoreError, ValueError):
        made = kind.FromString(data[1:])
        told = made.SerializeToString()
        assert kind.FromString(told).SerializeToString() == told  # not the messages: NaN is not itself
        repr(made)


def lmdb(data: bytes) -> None:
    """A file as a database: no more records come than the file has bytes."""
    file = Path(_folder().name) / "database"
    file.write_bytes(data)
    records, names = LmdbRecords(), [os.fsencode(file)]

    def next_name() -> bytes:
        if not names:
            raise StopIteration
        return names.pop()

    count = 0
    with contextlib.suppress(QueueCoreError, StopIteration):
        while count <= len(data):
            key, value = records.read(next_name)
            assert len(key) + len(value) <= len(data)
            count += 1
    assert count <= len(data)
    records.reset()


def arguments(data: bytes) -> None:
    """Words of a command line; and a dtype's."""
    text = data.decode("latin-1")
    with contextlib.suppress(ValueError):
        parse_dtype(text)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        _parser().parse_args(text.split("\n"))


def picture(data: bytes) -> None:
    """A picture, of which a part and a new size are wanted: parts are those of the whole, if there is a whole one."""
    if len(data) < 4:
        return
    (height, width, kind, channels), contents = data[:4], data[4:]
    size = 1 + height % 48, 1 + width % 48
    decoding = {"channels": (0, 3)[channels % 2], "max_pixels": 1 << 14, "apply_exif_orientation": channels % 4 > 1}
    links = [
        [qc.ops.center_crop(size=size)],
        [qc.ops.random_crop(size=(*size, 3), seed=height), qc.ops.flip_left_right()],
        [qc.ops.random_resized_crop(size=size, seed=width, dct_scale=False)],
        [qc.ops.resize(size=size, antialias=True, dct_scale=True)],
    ][kind % 4]
    chain = qc.ops.compose(qc.ops.decode_image(**decoding), *links)
    picture_pixels = part = None
    with contextlib.suppress(QueueCoreError):
        pixels = np.asarray(qc.ops.decode_image(contents, expand_animations=False, **decoding))
        for link in links:
            (pixels,) = link.bind([qc.ops.Component(pixels.dtype, pixels.shape)])(pixels)
        picture_pixels = pixels
    with contextlib.suppress(QueueCoreError):
        (part,) = chain.bind([qc.ops.Component(np.dtype("S"), ())])(contents)
    if picture_pixels is not None and not contents.startswith(b"GIF8"):  # which no native step takes
        assert part is not None
        assert part.shape == picture_pixels.shape
        # What a smaller transform gives is another picture.
        assert kind % 4 == 3 or np.array_equal(part, picture_pixels)


TARGETS: dict[str, Callable[[bytes], None]] = {one.__name__: one for one in (state, message, lmdb, arguments, picture)}


# ---- for libFuzzer ----


def entry(name: str) -> Any:
    """Return a target as libFuzzer calls it; lines that run in queuecore's files are counted for it."""
    library = ctypes.CDLL(None)
    counters = (ctypes.c_uint8 * _LINES)()
    places = (ctypes.c_size_t * (2 * _LINES))(*(x for i in range(_LINES) for x in (i + 1, 0)))
    for register, of in (("__sanitizer_cov_8bit_counters_init", counters), ("__sanitizer_cov_pcs_init", places)):
        start = ctypes.addressof(of)
        getattr(library, register)(ctypes.c_void_p(start), ctypes.c_void_p(start + ctypes.sizeof(of)))

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            i = hash((frame.f_code, frame.f_lineno)) % _LINES
            counters[i] = min(counters[i] + 1, 255)
        return count

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        return count if frame.f_code.co_filename.startswith(_FOLDER) else None

    target = TARGETS[name]

    def one(data: Any, size: int) -> int:
        sys.settrace(called)
        try:
            target(ctypes.string_at(data, size))
        except BaseException:
            sys.settrace(None)
            traceback.print_exc()
            os.abort()
        finally:
            sys.settrace(None)
        return 0

    made = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(one)
    made.keeps = counters, places  # type: ignore[attr-defined]
    return made
