"""Datasets of the records of files."""

from __future__ import annotations

import csv
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, SupportsIndex

from queuecore._checks.checks import check_bool, check_int, check_name
from queuecore._elements.component import BYTES, Component
from queuecore._elements.record import compile_bytes, compile_record
from queuecore._io import remote
from queuecore._io.compression import compression_of, encoding_number
from queuecore._io.names import Filename, expand_filenames, file_list
from queuecore._ops.csv import csv_columns, csv_format
from queuecore.data._plan.blocks import MOST_BYTES, block_source, blocks_of_fixed
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.fixed import FixedLengthSource
from queuecore.data._plan.npy import npy_source
from queuecore.data.dataset import Dataset
from queuecore.data.options import check_threads
from queuecore.errors import InvalidArgumentError

__all__ = [
    "CsvDataset",
    "FixedLengthRecordDataset",
    "NumpyDataset",
    "TFRecordDataset",
    "TextLineDataset",
    "WholeFileDataset",
]

_LINE_BYTES = 64 << 20
_LONG_BYTES = 1 << 30
_HEADING_BYTES = 64 << 10


class FixedLengthRecordDataset(Dataset):
    """Records of one length from files, one file after the other.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        One name, or a sequence of names; of none, the dataset is empty. A single name with ``*``, ``?`` or ``[`` in it,
        which isn't itself a file's name, is a glob pattern: it is expanded here and now, sorted by bytes. Names in a
        sequence are always taken literally.
    record_bytes : int, optional
        Length of a record in bytes. The element is then a row of bytes: dtype ``uint8``, shape ``(record_bytes,)``.
    header_bytes, footer_bytes : int, default 0
        Bytes to leave out at the beginning and at the end of every file.
    buffer_size : int, optional
        Not used: how much is read at a time is our choice.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2"}, optional
        How files are compressed. A compressed file is read from its start.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.
    name : str, optional
        An identifier, else it is an `InvalidArgumentError`. Not used.
    record : dtype, optional
        What a record is, as anything that `numpy.dtype` takes: its fields with their offsets, byte orders, shapes and
        padding. The element is a dict with a contiguous array per field, in native byte order; dicts in dicts for
        structures in structures; for a dtype without fields just the array. Either this or `record_bytes`.
    hop_bytes : int, default 0
        From the start of a record to the start of the next one, in bytes; 0: the length of a record. Less makes records
        overlap, more leaves gaps.
    tail : {"error", "drop"}, default "error"
        What to do about a file that ends inside a record: raise `TruncatedRecordError`, or leave the rest out and count
        it in ``stats()["dropped_tails"]``.
    storage_options : dict, optional
        What fsspec needs to know to open files that are URLs, such as ``{"key": …, "endpoint_url": …}``: the arguments
        of its class for the scheme. They hold for this dataset alone, and go along when it is pickled.

    Raises
    ------
    InvalidArgumentError
        If a number is out of its range, both or neither of `record` and `record_bytes` are given, a
        pattern matches nothing, or a name has a NUL in it.
    DtypeError
        If `record` is no dtype, holds Python objects, or has fields that overlap.

    Notes
    -----
    Files are opened when their turn comes, and not here: a missing one, or a directory, is an error
    in its place in the order, after all good records before it. Only the sizes of the first 64 files are looked at
    when an iteration begins, by threads of its own: ``iter()`` raises `TruncatedRecordError` if one ends inside a
    record, most often because records have another length, unless `tail` or ``Options(on_error="skip")`` leaves such a
    rest out. Of later files, of URLs, and where the size doesn't tell, in a compressed file, the whole records come
    first. It names the file, and where it applies the offset and
    the record. Its classes are `NotFoundError`, `PermissionDeniedError`, `NotAFileError`, `UnavailableError`,
    `TruncatedRecordError`, `SourceChangedError` (a file that was written to or replaced while it was in use:
    when the last of it was read, bytes that it had when it was opened must not have changed, by its size and
    modification time; to append, to rename, to delete is no change, but a later pass must find the file as it was).

    A file that says that it has 0 bytes and can be read, as those in ``/proc``, is an `UnavailableError`.
    A file of 0 bytes has no records and is no error; it is counted in ``stats()["empty_files"]``. One that is shorter
    than its header and footer together is a `TruncatedRecordError`.

    Booleans are made 0 or 1: any other byte counts as 1.

    The class follows ``tf.data.FixedLengthRecordDataset``; new are `record`, `hop_bytes` and `tail`. tf.data refuses a
    file with a cut record before the first record of that file.

    Examples
    --------
    >>> import numpy as np
    >>> import queuecore as qc
    >>> record = np.dtype([("label", "u1"), ("point", ">f4", (2,))])
    >>> rows = np.array([(0, (0.5, 1)), (1, (2, 4)), (2, (8, 16))], dtype=record)
    >>> rows.tofile("points-0.bin")
    >>> ds = qc.data.FixedLengthRecordDataset("points-*.bin", record=record).batch(2)
    >>> ds.element_spec["point"]
    ArraySpec(shape=(None, 2), dtype=dtype('float32'))
    >>> for batch in ds:
    ...     print(batch["label"], batch["point"].tolist())
    [0 1] [[0.5, 1.0], [2.0, 4.0]]
    [2] [[8.0, 16.0]]
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        record_bytes: SupportsIndex | None = None,
        header_bytes: SupportsIndex | None = 0,
        footer_bytes: SupportsIndex | None = 0,
        buffer_size: SupportsIndex | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
        *,
        record: Any = None,
        hop_bytes: SupportsIndex = 0,
        tail: Literal["error", "drop"] = "error",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        del buffer_size
        check_name(name)
        if (record is None) == (record_bytes is None):
            raise InvalidArgumentError("give either record_bytes or record, and not both")
        plan = (
            compile_record(record)
            if record is not None
            else compile_bytes(check_int(record_bytes, "record_bytes", 1, MOST_BYTES))
        )
        # tf.data's defaults for these two are None.
        header = check_int(0 if header_bytes is None else header_bytes, "header_bytes", 0, MOST_BYTES)
        footer = check_int(0 if footer_bytes is None else footer_bytes, "footer_bytes", 0, MOST_BYTES)
        hop = check_int(hop_bytes, "hop_bytes", 0, MOST_BYTES)
        if tail not in ("error", "drop"):
            raise InvalidArgumentError(f'tail must be "error" or "drop", not {tail!r}')
        store = remote.store_of(storage_options)
        files = file_list(filenames, store)
        threads = check_threads(num_parallel_reads, "num_parallel_reads")
        encoding = encoding_number(compression_type)
        hop = hop or plan.record_bytes
        fixed = FixedLengthSource(files, plan, header, footer, hop, tail == "drop", threads)
        self._chain = Chain(fixed)
        if encoding:
            words = {"compression": compression_of(compression_type), **fixed.describe()}
            self._chain = Chain(replace(blocks_of_fixed(fixed), encoding=encoding, words=words))


class NumpyDataset(Dataset):
    """Rows of the arrays in ``.npy`` files, one file after the other.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`, but at least one.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.
    storage_options : dict, optional
        As of `FixedLengthRecordDataset`.

    Raises
    ------
    InvalidArgumentError
        If an argument is out of its range, `filenames` is empty, a pattern matches nothing, or a name has a NUL in it;
        if an array has no dimension, or rows without bytes, or if rows of two files differ in shape.
    DtypeError
        If an array holds Python objects or structures, or if arrays of two files differ in dtype or byte order.
    NotFoundError, PermissionDeniedError, NotAFileError, UnavailableError
        If a file can't be read.
    DataLossError
        If a file is none of ``.npy``, has a damaged header, or more bytes than its array takes.
    TruncatedRecordError
        If a file has fewer bytes than its array takes.

    Notes
    -----
    An element is an array, with the dtype of the files in native byte order and the shape of the files' arrays without
    the first dimension. Its values are those of ``numpy.load(file)[row]``; booleans are made 0 or 1. Versions 1.0 to
    3.0 of the format are read, and headers of up to 10,000 bytes. An array of 0 rows has no elements; it is counted in
    ``stats()["empty_files"]``.

    The header of every file is read here: so dtype, shape and length are known, and what is wrong with a header is an
    error at once. Rows are read when their turn comes, by native threads and without the GIL. A file that has another
    header by then, or fewer bytes, is a `SourceChangedError` in its place in the order. Bytes that are appended aren't
    read. A dataset that is pickled has the headers in it.

    Nothing is mapped, and no file is loaded as a whole. Where an array is saved in Fortran's order, a row is gathered
    out of all columns by reads of at most 16 KiB. That is quick for batches of narrow rows. It takes a read for each
    number where rows are drawn one by one, by `permute` or by a shuffle of wide rows, and where a row has 256 KiB or
    more. Save what is read often by ``numpy.save(file, numpy.ascontiguousarray(array))``.

    Examples
    --------
    >>> import numpy as np
    >>> import queuecore as qc
    >>> np.save("x-0.npy", np.arange(6, dtype=">f4").reshape(3, 2))
    >>> np.save("x-1.npy", np.asfortranarray(np.ones((2, 2), ">f4")))
    >>> ds = qc.data.NumpyDataset("x-*.npy")
    >>> ds.element_spec, len(ds)
    (ArraySpec(shape=(2,), dtype=dtype('float32')), 5)
    >>> for batch in ds.batch(4):
    ...     print(batch.tolist())
    [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [1.0, 1.0]]
    [[1.0, 1.0]]
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        num_parallel_reads: int | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        threads = check_threads(num_parallel_reads, "num_parallel_reads")
        store = remote.store_of(storage_options)
        paths = expand_filenames(filenames, store)
        if not paths:
            raise InvalidArgumentError("filenames is empty: only a file says what the rows are")
        self._chain = Chain(npy_source(paths, threads, store))


class TextLineDataset(Dataset):
    r"""Lines of text files, one file after the other.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2"}, optional
        How files are compressed.
    buffer_size : int, optional
        Not used: files are read in blocks of 256 KiB.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.
    skip_header_lines : int, default 0
        Lines to leave out at the top of each file.
    name : str, optional
        An identifier, else it is an `InvalidArgumentError`. Not used.
    storage_options : dict, optional
        As of `FixedLengthRecordDataset`.

    Raises
    ------
    InvalidArgumentError
        If an argument is out of its range, a pattern matches nothing, or a name has a NUL in it.
    UnimplementedError
        If there is no library for the compression on this machine.

    Notes
    -----
    An element is a line, as `bytes`, without its end: LF or CR LF. The last one needs none. In batches they are a
    `Ragged`: the bytes of all lines side by side, and where each begins. Lines of more than `Options.max_record_bytes`
    (64 MiB) are refused with a `RecordTooLargeError`, of which no more than that is ever in memory.

    Several threads work on one file at a time, and never change the order. Elements that a ``shuffle`` holds take a few
    times their own size in memory, most if records are short.

    The class follows ``tf.data.TextLineDataset``; `skip_header_lines` is ours.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> file = pathlib.Path("words.txt")
    >>> _ = file.write_text("to\nbe\nor\n")
    >>> list(qc.data.TextLineDataset(file))
    [b'to', b'be', b'or']
    >>> for batch in qc.data.TextLineDataset(file).batch(2):
    ...     print(batch)
    Ragged([b'to', b'be'], dtype=bytes)
    Ragged([b'or'], dtype=bytes)
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        compression_type: str | None = None,
        buffer_size: SupportsIndex | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
        *,
        skip_header_lines: SupportsIndex = 0,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        check_name(name)
        del buffer_size
        header = check_int(skip_header_lines, "skip_header_lines", 0, MOST_BYTES)
        source = block_source(
            "TextLineDataset",
            filenames,
            "lines",
            compression_type,
            num_parallel_reads,
            storage_options=storage_options,
            components=(Component(BYTES, ()),),
            template=0,
            words={"skip_header_lines": header},
            guess=64,
            max_record_bytes=_LINE_BYTES,
            header=header,
        )
        self._chain = Chain(source)


class TFRecordDataset(Dataset):
    r"""Records of TFRecord files, one file after the other.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2"}, optional
        How files are compressed.
    buffer_size : int, optional
        Not used: files are read in blocks of 256 KiB.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.
    name : str, optional
        An identifier, else it is an `InvalidArgumentError`. Not used.
    storage_options : dict, optional
        As of `FixedLengthRecordDataset`.

    Raises
    ------
    InvalidArgumentError
        If an argument is out of its range, a pattern matches nothing, or a name has a NUL in it.
    UnimplementedError
        If there is no library for the compression on this machine.

    Notes
    -----
    An element is the data of a record, as `bytes`; in batches a `Ragged`. Both checksums of every record are verified,
    that of the length before anything is believed of it: a `ChecksumError`, `TruncatedRecordError` or
    `RecordTooLargeError` (over `Options.max_record_bytes`, 1 GiB) comes in its place in the order.

    Several threads work on one file at a time, and never change the order. Elements that a ``shuffle`` holds take a few
    times their own size in memory, most if records are short.

    The class follows ``tf.data.TFRecordDataset``.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> file = pathlib.Path("numbers.tfrecord")
    >>> with qc.TFRecordWriter(file) as writer:
    ...     writer.write(b"\x01\x02")
    ...     writer.write(b"\x03\x04")
    >>> for batch in qc.data.TFRecordDataset(file).map(qc.ops.decode_raw(out_type="u1")).batch(2):
    ...     print(batch)
    [[1 2]
     [3 4]]
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        compression_type: str | None = None,
        buffer_size: SupportsIndex | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        check_name(name)
        del buffer_size
        source = block_source(
            "TFRecordDataset",
            filenames,
            "tfrecord",
            compression_type,
            num_parallel_reads,
            storage_options=storage_options,
            components=(Component(BYTES, ()),),
            template=0,
            guess=1024,
            max_record_bytes=_LONG_BYTES,
        )
        self._chain = Chain(source)


class WholeFileDataset(Dataset):
    r"""Files, each a record.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2"}, optional
        How files are compressed.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.
    storage_options : dict, optional
        As of `FixedLengthRecordDataset`.

    Raises
    ------
    InvalidArgumentError
        If an argument is out of its range, a pattern matches nothing, or a name has a NUL in it.
    UnimplementedError
        If there is no library for the compression on this machine.

    Notes
    -----
    An element is a tuple of two `bytes`, the file's name and its content: `queuecore.ops.on` has operations for one of
    them. A file of no bytes has an empty content. A file of more than `Options.max_record_bytes` (1 GiB) is
    refused (`RecordTooLargeError`) in its place in the order.

    The class is tf.data's ``list_files`` with a ``map`` that reads each file.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> for name in "ab":
    ...     _ = pathlib.Path(name).write_text(name * 3)
    >>> for name, content in qc.data.WholeFileDataset("*"):
    ...     print(pathlib.Path(name.decode()).name, content)
    a b'aaa'
    b b'bbb'
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        source = block_source(
            "WholeFileDataset",
            filenames,
            "whole",
            compression_type,
            num_parallel_reads,
            storage_options=storage_options,
            components=(Component(BYTES, ()), Component(BYTES, ())),
            template=(0, 1),
            guess=64 << 10,
            max_record_bytes=_LONG_BYTES,
        )
        self._chain = Chain(source)


class CsvDataset(Dataset):
    r"""Rows of CSV files, one file after the other.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`.
    record_defaults : sequence
        Of each column a dtype (float32, float64, int32, int64, uint8, bool or bytes), if there must be a value, or the
        value that stands for none.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2"}, optional
        How files are compressed.
    buffer_size : int, optional
        At least 1, and not used: files are read in blocks of 256 KiB.
    header : bool, default False
        Leave out the first row of each file.
    field_delim : str, default ","
        One byte.
    use_quote_delim : bool, default True
        Whether quotes stand around fields that hold delimiters, newlines or quotes.
    na_value : str, default ""
        What stands for no value, besides nothing.
    select_cols : sequence of int or str, optional
        The columns to take, rising; `record_defaults` are theirs. Or their names in any order, which elements have too:
        those in the header of the first file, which is read for it here and now.
    exclude_cols : sequence of int or str, optional
        The columns to leave out, instead.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.
    as_dict : bool, default False
        Whether elements are dicts by the names of the columns in the header of the first file, which is read for it
        here and now.
    storage_options : dict, optional
        As of `FixedLengthRecordDataset`.

    Raises
    ------
    InvalidArgumentError, DtypeError
        If an argument doesn't fit, a pattern matches nothing, or a name has a NUL in it; if names are asked for, and
        there are none, or no such one.
    UnimplementedError
        If there is no library for the compression on this machine.

    Notes
    -----
    An element is a tuple with a number, or `bytes`, for each column; in batches, arrays and `Ragged`. A number has its
    exact value: a float is what ``float`` makes of the same text. A bad field, or another number of fields, is a
    `CsvError` with `line`, `field` and, where files have a header, `column` in its place in the order. A uint8 is
    written as digits alone; a bool as 1, true, True or TRUE, and 0, false, False or FALSE. tf.data refuses these two
    types. Rows of more than `Options.max_record_bytes` (64 MiB) are refused: so a quote that is never closed doesn't
    fill the memory.

    Several threads work on one file at a time, and never change the order. Elements that a ``shuffle`` holds take a few
    times their own size in memory, most if records are short.

    The class follows ``tf.data.experimental.CsvDataset``.

    Examples
    --------
    >>> import pathlib
    >>> import numpy as np, queuecore as qc
    >>> file = pathlib.Path("points.csv")
    >>> _ = file.write_text("x,name\n1.5,a\n,\"b,c\"\n")
    >>> for x, name in qc.data.CsvDataset(file, [0.0, bytes], header=True).batch(2):
    ...     print(x, name)
    [1.5 0. ] Ragged([b'a', b'b,c'], dtype=bytes)
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        record_defaults: Sequence[Any],
        compression_type: str | None = None,
        buffer_size: SupportsIndex | None = None,
        header: bool = False,
        field_delim: str | bytes = ",",
        use_quote_delim: bool = True,
        na_value: str | bytes = "",
        select_cols: Sequence[int | str] | None = None,
        exclude_cols: Sequence[int | str] | None = None,
        *,
        num_parallel_reads: int | None = None,
        as_dict: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if buffer_size is not None:
            check_int(buffer_size, "buffer_size", 1)
        columns = csv_columns(record_defaults, "CsvDataset")
        delim = field_delim.encode() if isinstance(field_delim, str) else bytes(field_delim)
        encoding = encoding_number(compression_type)
        store = remote.store_of(storage_options)
        headings = _Headings(delim, encoding, use_quote_delim, store) if header else None
        if isinstance(filenames, Iterator):
            filenames = list(filenames)
        choice = _Wanted(filenames, headings, len(columns), store)
        select_cols, order, most = choice.numbers(select_cols, exclude_cols)
        columns = [columns[at] for at in order]
        options = (field_delim, use_quote_delim, na_value, select_cols)
        make = _CsvFormats(columns, options, most)
        make(_LINE_BYTES)
        if delim in b"\r\n" or (use_quote_delim and delim == b'"'):
            raise InvalidArgumentError(
                f"CsvDataset: field_delim can't be {field_delim!r}: it ends rows, or quotes fields"
            )
        names = choice.names(select_cols) if check_bool(as_dict, "as_dict") else None
        words = [None if default is None else default.hex() for _, default in columns]
        source = block_source(
            "CsvDataset",
            filenames,
            "csv",
            compression_type,
            num_parallel_reads,
            storage_options=storage_options,
            components=tuple(
                Component(dtype, (), name=name)
                for (dtype, _), name in zip(columns, names or itertools.repeat(None), strict=False)
            ),
            template=tuple(map(order.index, range(len(order)))) if names is None else _by_name(names, order),
            words={
                "header": check_bool(header, "header"),
                "columns": [[dtype.str, word] for (dtype, _), word in zip(columns, words, strict=True)],
                "options": [repr(one) for one in options],
            },
            guess=64,
            max_record_bytes=_LINE_BYTES,
            header=int(header),
            csv=make,
            headings=headings,
        )
        self._chain = Chain(source)


class _Headings:
    """Tells the names of columns from the headers of files, plain ones and those that zlib decompresses, for errors."""

    def __init__(self, delim: bytes, encoding: int, quotes: bool, store: remote.RemoteStore | None) -> None:
        self._delim = delim
        self._store = store
        self._encoding = encoding
        self._quotes = quotes
        self._known: tuple[bytes, list[str]] = (b"", [])

    def __call__(self, path: bytes, column: int) -> str | None:
        """Return the name of a column in the header of a file; `None`: it has none, or it can't be read."""
        names = self.of(path)
        return names[column] if column < len(names) else None

    def of(self, path: bytes) -> list[str]:
        """Return the names in the header of a file; none if it can't be read."""
        if self._known[0] != path:
            self._known = path, self._row(path)
        return self._known[1]

    def _row(self, path: bytes) -> list[str]:
        try:
            if remote.is_url(path):
                start = remote.opened(path, self._store).beginning(_HEADING_BYTES)
            else:
                with open(path, "rb") as file:
                    start = file.read(_HEADING_BYTES)
            if self._encoding:
                start = zlib.decompressobj(wbits=47).decompress(start, _HEADING_BYTES)
            text = io.StringIO(start.decode(errors="surrogateescape"), newline="")
            quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self._quotes else csv.QUOTE_NONE
            return next(csv.reader(text, delimiter=self._delim.decode("latin-1"), quoting=quoting), [])
        except (OSError, ValueError, zlib.error, csv.Error):
            return []


class _Wanted:
    """The columns that a user names, by their numbers.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        The files.
    headings : _Headings or None
        The names of columns.
    count : int
        How many columns are to be taken.
    store : RemoteStore, optional
        By what URLs are opened.
    """

    def __init__(
        self, filenames: Any, headings: _Headings | None, count: int, store: remote.RemoteStore | None
    ) -> None:
        self._filenames = filenames
        self._store = store
        self._headings = headings
        self._count = count

    def _all(self) -> list[str]:
        paths = expand_filenames(self._filenames, self._store)
        names = self._headings.of(paths[0]) if self._headings is not None and paths else []
        if not names:
            raise InvalidArgumentError(
                "CsvDataset: columns have no names without a header, which is in the first row of the first file, with "
                "header=True"
            )
        return names

    def _number(self, column: Any, what: str) -> int:
        if not isinstance(column, str):
            return check_int(column, what, 0)
        names = self._all()
        if names.count(column) != 1:
            raise InvalidArgumentError(f"CsvDataset: {what} has {column!r}, and the columns are {names}")
        return names.index(column)

    def numbers(self, select: Any, exclude: Any) -> tuple[Any, list[int], int]:
        """Return the columns to take, rising, `None` for all; which of the user's columns each is; and the `most`.

        That is the number of fields that a row may have, 0 if they decide nothing.
        """
        order = list(range(self._count))
        if select is not None and exclude is not None:
            raise InvalidArgumentError("CsvDataset: give select_cols or exclude_cols, and not both")
        if exclude is not None:
            without = {self._number(column, "exclude_cols") for column in exclude}
            left = (number for number in itertools.count() if number not in without)
            return list(itertools.islice(left, self._count)), order, next(left)
        if select is None or not any(isinstance(column, str) for column in select):
            return select, order, 0
        numbers = [self._number(column, "select_cols") for column in select]
        if len(set(numbers)) != len(numbers) or len(numbers) != self._count:
            raise InvalidArgumentError(
                f"CsvDataset: select_cols {list(select)!r} must be {self._count} different columns, as record_defaults"
            )
        order.sort(key=numbers.__getitem__)
        return sorted(numbers), order, 0

    def names(self, select: Any) -> list[str]:
        """Return the names of the columns to take."""
        every = self._all()
        names = every if select is None else [every[at] for at in select if at < len(every)]
        if len(names) != self._count or len(set(names)) != len(names):
            raise InvalidArgumentError(
                f"CsvDataset: as_dict needs {self._count} different names, and the columns are {every}"
            )
        return names


def _by_name(names: list[str], order: list[int]) -> dict[str, int]:
    """Return the structure of an element: names in the order in which the user named the columns."""
    return {names[at]: at for at in map(order.index, range(len(order)))}


class _CsvFormats:
    """Makes native formats with a limit for rows; can be pickled, which a native format can't."""

    def __init__(self, columns: Any, options: Any, most: int) -> None:
        self._columns = columns
        self._options = options
        self._most = most

    def __call__(self, max_record_bytes: int) -> Any:
        delim, quotes, na_value, select = self._options
        return csv_format(self._columns, delim, quotes, na_value, select, max_record_bytes, "CsvDataset", self._most)
