"""The command line: ``queuecore demo``, ``stream``, ``verify``, ``convert`` and ``cache``.

Exit codes: 0 done, 1 the data or the machine is at fault, 2 wrong use, 130 Ctrl-C, 128 + n for signal n.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import glob
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from queuecore import __version__

if TYPE_CHECKING:
    import numpy as np

    from queuecore.cli.measure import MeasuredSource

__all__ = ["main"]

# What to do about an error, by the most precise class that has an entry.
_REMEDIES = {
    "SourceChangedError": "stream files that nobody writes to",
    "NotFoundError": "check the name",
    "NotAFileError": "name the files in it, for example DIR/*.bin",
    "PermissionDeniedError": "make it readable for this user",
    "ResourceExhaustedError": "use a smaller --batch or --shuffle, or fewer --threads",
}


class _InputError(Exception):
    """Files that can't be streamed: one line, exit code 1."""


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (try {self.prog} --help)\n")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


# argparse puts this name into its message for a ValueError.
_positive.__name__ = _not_negative.__name__ = "whole number"


def parse_dtype(spec: str) -> np.dtype[Any]:
    """Turn the text of ``--dtype`` into a dtype, without evaluating any code.

    Parameters
    ----------
    spec : str
        Either what ``np.dtype`` takes as a string (``"u1,(3,32,32)u1"``), or a Python literal of a list or dict
        (``"[('label', 'u1'), ('image', 'u1', (3, 32, 32))]"``).

    Returns
    -------
    numpy.dtype
        With at least one byte, and without Python objects.

    Raises
    ------
    ValueError
        If the text is neither, or describes something that no file holds.
    """
    import numpy as np

    text = spec.strip()
    try:
        dtype = np.dtype(ast.literal_eval(text) if text.startswith(("[", "{")) else text)
    except (ValueError, TypeError, SyntaxError, KeyError, RecursionError, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{spec!r} is not a dtype ({reason}); "
            "write it like \"u1,(3,32,32)u1\" or \"[('label','u1'),('image','u1',(3,32,32))]\""
        ) from error
    if dtype.hasobject:
        raise ValueError(f"{spec!r} holds Python objects, which a file of bytes can't")
    if not dtype.itemsize:
        raise ValueError(f"{spec!r} describes records of 0 bytes")
    return dtype


def _dtype(text: str) -> np.dtype[Any]:
    try:
        return parse_dtype(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _folder(text: str) -> str:
    from queuecore._io.names import local_text
    from queuecore.errors import QueueCoreError

    try:
        folder = local_text(text)
    except QueueCoreError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return folder


def _parser() -> _Parser:
    parser = _Parser(prog="queuecore", description="Stream record files into training loops, without the GIL.")
    parser.add_argument("--version", action="version", version=f"queuecore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_demo(commands)
    _add_stream(commands)
    _add_verify(commands)
    _add_convert(commands)
    _add_cache(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="train on handwritten digits, then stream 600 MB and compare rates",
        description="Train a small classifier from a stream of handwritten digits; then write records in CIFAR-10's "
        "layout to a temporary folder, stream them, and compare the rate with a plain Python loader and with the "
        "fastest that this machine can read.",
    )
    demo.add_argument(
        "--dir", type=_folder, metavar="FOLDER", help="where the temporary folder is made (default: the system's)"
    )
    demo.add_argument("--megabytes", type=_positive, default=600, metavar="N", help="how much to stream (default: 600)")
    # For tests: shorter, and less to look at.
    demo.add_argument("--steps", type=_positive, default=None, help=argparse.SUPPRESS)
    demo.add_argument("--rounds", type=_positive, default=21, help=argparse.SUPPRESS)
    demo.add_argument("--part", choices=("train", "stream", "both"), default="both", help=argparse.SUPPRESS)
    demo.set_defaults(run=_run_demo)


def _add_stream(commands: Any) -> None:
    stream = commands.add_parser(
        "stream",
        help="stream your own files of fixed-length records and compare rates",
        description="Stream files of fixed-length records once, then compare the warm rate with a plain Python loader "
        "and with the fastest that this machine can read.",
    )
    stream.add_argument("pattern", nargs="+", metavar="PATTERN", help="file, or pattern such as 'data/*.bin'")
    kind = stream.add_mutually_exclusive_group(required=True)
    kind.add_argument("--record-bytes", type=_positive, metavar="N", help="record size; batches are rows of N bytes")
    kind.add_argument(
        "--dtype",
        type=_dtype,
        metavar="SPEC",
        help="record as a NumPy dtype, such as \"u1,(3,32,32)u1\" or \"[('label','u1'),('image','u1',(3,32,32))]\"",
    )
    stream.add_argument("--batch", type=_positive, required=True, metavar="N", help="records per batch")
    stream.add_argument("--shuffle", type=_positive, default=0, metavar="N", help="window of a shuffle, in records")
    stream.add_argument("--seed", type=int, default=None, metavar="N", help="seed of the shuffle")
    stream.add_argument("--epochs", type=_positive, default=1, metavar="N", help="first pass: times through the files")
    stream.add_argument(
        "--threads", type=_positive, default=None, metavar="N", help="native threads (default: automatic)"
    )
    stream.add_argument(
        "--header-bytes", type=_not_negative, default=0, metavar="N", help="bytes to skip at each start"
    )
    stream.add_argument("--footer-bytes", type=_not_negative, default=0, metavar="N", help="bytes to skip at each end")
    stream.add_argument("--tail", choices=("error", "drop"), default="error", help="a partial record at a file's end")
    stream.add_argument(
        "--rounds", type=_not_negative, default=5, metavar="N", help="rounds of the comparison (default: 5; 0: none)"
    )
    stream.set_defaults(run=_run_stream)


def _add_verify(commands: Any) -> None:
    verify = commands.add_parser(
        "verify",
        help="check TFRecord files, or files of fixed-length records",
        description="Check files from start to end: every length and checksum of TFRecord files (also after a damaged "
        "record), or with --record-bytes whether files of fixed-length records are whole. Prints a line for each "
        "fault, and a summary. The exit code is 1 if there is any fault.",
    )
    verify.add_argument("pattern", nargs="+", metavar="PATTERN", help="file, or pattern such as 'data/*.tfrecord'")
    verify.add_argument(
        "--compression",
        type=str.upper,
        choices=("NONE", "GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2"),
        default="NONE",
        help="how the files are compressed (default: NONE); places are then counted in what they decompress to",
    )
    verify.add_argument(
        "--max-record-bytes", type=_positive, default=None, metavar="N", help="longest TFRecord that is no fault"
    )
    verify.add_argument(
        "--index",
        action="store_true",
        help="write the places of the good records beside each TFRecord file, as FILE.idx: offset and length of each",
    )
    verify.add_argument(
        "--record-bytes", type=_positive, default=None, metavar="N", help="size of fixed-length records"
    )
    verify.add_argument(
        "--header-bytes", type=_not_negative, default=0, metavar="N", help="with --record-bytes: bytes at each start"
    )
    verify.add_argument(
        "--footer-bytes", type=_not_negative, default=0, metavar="N", help="with --record-bytes: bytes at each end"
    )
    verify.set_defaults(run=_run_verify)


def _add_convert(commands: Any) -> None:
    convert = commands.add_parser(
        "convert",
        help="write a folder of pictures, or archives, as tar or TFRecord shards",
        description="Write the pictures of a folder with a folder for each class, or the samples of tar archives, as "
        "tar archives (WebDataset's convention) or TFRecord files of Examples.",
    )
    convert.add_argument("source", nargs="+", metavar="SOURCE", help="a folder, or archives such as 'a-{000..127}.tar'")
    convert.add_argument("target", metavar="TARGET", help="a name such as 'train-%%06d.tar' or 'train-%%06d.tfrecord'")
    convert.add_argument("--keys", default="", metavar="K,K", help="of archives: the keys that are taken, as jpg,cls")
    convert.add_argument("--shuffle", action="store_true", help="draw the order of all files, or of archives' samples")
    convert.add_argument("--seed", type=int, default=None, metavar="N", help="seed of the shuffle")
    convert.add_argument(
        "--shard-samples", type=_positive, default=None, metavar="N", help="samples of a file (default: no limit)"
    )
    convert.add_argument(
        "--shard-bytes", type=_positive, default=None, metavar="N", help="bytes of a file (default: 1 GB, if numbered)"
    )
    convert.add_argument("--overwrite", action="store_true", help="replace files that are there")
    convert.set_defaults(run=_run_convert)


def _add_cache(commands: Any) -> None:
    cache = commands.add_parser(
        "cache",
        help="list or purge a folder in which remote files are kept",
        description="List the remote files that a folder keeps, the longest unused first (Options(cache_dir=FOLDER) of "
        "a dataset keeps them), or remove what no process uses.",
    )
    cache.add_argument("action", choices=("list", "purge"), help="what to do")
    cache.add_argument("folder", type=_folder, metavar="FOLDER", help="the folder")
    cache.add_argument(
        "--leave", type=_not_negative, default=0, metavar="N", help="purge: leave up to N bytes (default: 0)"
    )
    cache.set_defaults(run=_run_cache)


def _expand(patterns: Sequence[str]) -> list[str]:
    from queuecore._io.names import local_text, matches

    names: list[str] = []
    for pattern in patterns:
        name = local_text(pattern)
        if glob.has_magic(name) and not os.path.lexists(name):
            found = sorted(map(os.fsdecode, matches(os.fsencode(name), recursive=True)))
            if not found:
                raise _InputError(f"{pattern}: no file has such a name; check the pattern and the folder")
            names += found
        else:
            names.append(name)
    return names


def _source(args: argparse.Namespace) -> MeasuredSource:
    from queuecore.cli.measure import MeasuredSource

    names = _expand(args.pattern)
    sizes = []
    for name in names:
        try:
            status = os.stat(name)
        except OSError as error:
            raise _InputError(f"{name}: {error.strerror}; check the name") from error
        if os.path.isdir(name):
            raise _InputError(f"{name}: is a folder; name the files in it, for example {os.path.join(name, '*')!r}")
        if not os.access(name, os.R_OK):
            raise _InputError(f"{name}: permission denied; make it readable for this user")
        sizes.append(status.st_size)
    size = args.dtype.itemsize if args.dtype is not None else args.record_bytes
    source = MeasuredSource(
        tuple(names), tuple(sizes), args.dtype, size, args.header_bytes, args.footer_bytes, args.tail
    )
    if not source.record_count:
        what = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        raise _InputError(
            f"{what}: no whole record of {size:,} bytes in {source.nbytes:,} bytes; check the record size"
        )
    return source


def _run_stream(args: argparse.Namespace) -> int:
    from queuecore.cli.measure import stream_and_compare
    from queuecore.cli.progress import counted

    source = _source(args)
    print(
        f"{source.record_count:,} records of {source.record_bytes:,} bytes in {counted(len(source.paths), 'file')} "
        f"({source.nbytes / 1e6:,.1f} MB), batches of {args.batch:,}",
        flush=True,
    )
    stream_and_compare(
        source,
        args.batch,
        shuffle=args.shuffle,
        seed=args.seed,
        epochs=args.epochs,
        threads=args.threads,
        rounds=args.rounds,
    )
    return 0


def _run_verify(args: argparse.Namespace) -> int:
    from queuecore._core.io.tfrecord import MAX_RECORD_BYTES
    from queuecore._io.compression import encoding_number
    from queuecore.cli.progress import counted
    from queuecore.cli.verify import FixedLengthCheck, TFRecordCheck
    from queuecore.errors import InvalidArgumentError, QueueCoreError

    check: FixedLengthCheck | TFRecordCheck
    encoding = encoding_number(args.compression, "--compression")
    if args.record_bytes is not None:
        if args.index:
            raise InvalidArgumentError("--index is for TFRecords: records of one length have known places")
        check = FixedLengthCheck(args.record_bytes, args.header_bytes, args.footer_bytes, encoding)
    else:
        if args.header_bytes or args.footer_bytes:
            raise InvalidArgumentError("--header-bytes and --footer-bytes need --record-bytes")
        if args.index and encoding:
            raise InvalidArgumentError("--index is for plain files: in a compressed one nobody can go to a place")
        check = TFRecordCheck(encoding, args.max_record_bytes or MAX_RECORD_BYTES, args.index)
    names = _expand(args.pattern)
    fault_count = 0
    for name in names:
        faults = check.faults(os.fsencode(name))
        while True:
            try:
                error, rest = next(faults)
            except StopIteration:
                break
            except QueueCoreError as failure:  # of the file itself: a generator ends with it
                error, rest = failure, ""
            fault_count += 1
            print(f"{type(error).__name__}: {' '.join(str(error).split())}{'; ' if rest else ''}{rest}", flush=True)
    print(
        f"{counted(len(names), 'file')}, {counted(check.records, 'good record')} ({check.nbytes / 1e6:,.1f} MB), "
        f"{counted(fault_count, 'fault')}"
    )
    return 1 if fault_count else 0


def _run_convert(args: argparse.Namespace) -> int:
    from queuecore.cli.convert import Shards, samples_of
    from queuecore.cli.progress import counted

    shards = Shards(args.target, args.shard_samples, args.shard_bytes, args.overwrite)
    keys = [key for key in args.keys.split(",") if key]
    with contextlib.closing(shards.write(samples_of(args.source, keys, args.shuffle, args.seed))) as lines:
        for line in lines:
            print(line, flush=True)
    print(f"{counted(shards.count, 'file')}, {counted(shards.samples, 'sample')} ({shards.nbytes / 1e6:,.1f} MB)")
    return 0


def _run_cache(args: argparse.Namespace) -> int:
    from queuecore._io.cache import RemoteCache
    from queuecore.cli.progress import counted

    cache = RemoteCache(args.folder, None, True)
    if args.action == "purge":
        removed, left = cache.purge(args.leave)
        print(f"{removed / 1e6:,.1f} MB removed, {left / 1e6:,.1f} MB left")
        return 0
    entries = cache.entries()
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        print(f"{used}  {entry.cached_bytes / 1e6:12,.1f} of {entry.size / 1e6:,.1f} MB  {entry.url}")
    print(f"{counted(len(entries), 'file')}, {sum(entry.cached_bytes for entry in entries) / 1e6:,.1f} MB")
    return 0


def _run_demo(args: argparse.Namespace) -> int:
    from queuecore.cli import demo as _demo

    accuracy = 1.0
    with _demo.scratch_directory(args.dir) as folder:
        if args.part in ("train", "both"):
            print("1. Training on handwritten digits", flush=True)
            accuracy = _demo.demo_train(folder, args.steps or _demo.STEPS)
        if args.part in ("stream", "both"):
            print("2. Streaming images in CIFAR-10's layout", flush=True)
            _demo.demo_stream(folder, args.megabytes, rounds=args.rounds)
    if accuracy < _demo.GOAL:
        raise _InputError(f"accuracy {100 * accuracy:.1f}% is below {100 * _demo.GOAL:.0f}%")
    return 0


def _one_line(error: BaseException) -> str:
    """Say what is wrong, where, and what helps, in one line."""
    text = " ".join(str(error).split()).replace("tail='drop'", "--tail drop") or type(error).__name__
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    if path is not None and os.fsdecode(path) not in text:
        text = f"{os.fsdecode(path)}: {text}"
    for cls in type(error).__mro__:
        if (remedy := _REMEDIES.get(cls.__name__)) is not None:
            return f"{text}; {remedy}"
    return text


def _complain(text: str) -> None:
    # Nobody may be listening; the exit code still tells.
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(f"queuecore: {text}", file=sys.stderr, flush=True)


def _mute_stdout() -> None:
    # Python flushes stdout once more on exit and would complain again; see the note on SIGPIPE in the signal module.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _stop(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _guarded(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    try:
        code = run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except BrokenPipeError:
        _mute_stdout()
        return 141
    except _InputError as error:
        _complain(f"error: {error}")
        return 1
    except Exception as error:
        from queuecore.cli.demo import DemoError
        from queuecore.errors import InvalidArgumentError, QueueCoreError

        if not isinstance(error, (QueueCoreError, DemoError, OSError, MemoryError)):
            raise  # a defect of ours: the traceback is what helps
        _complain(f"error: {_one_line(error)}")
        return 2 if type(error) is InvalidArgumentError else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name, by default ``sys.argv[1:]``.

    Returns
    -------
    int
        The exit code.
    """
    args = _parser().parse_args(argv)
    old_handlers = {}
    if threading.current_thread() is threading.main_thread():
        # Ended from outside, the demo must still remove what it wrote.
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                old_handlers[number] = signal.signal(number, _stop)
    try:
        return _guarded(args.run, args)
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
