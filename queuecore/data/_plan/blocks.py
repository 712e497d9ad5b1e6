"""Sources whose records have no known places: text, TFRecords, CSV, and compressed files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from queuecore._core.io.codecs import library
from queuecore._core.io.csv import CsvFormat
from queuecore._core.io.names import FileList
from queuecore._core.stream.describe import Description, Frames, Records
from queuecore._elements.component import BYTES, Component
from queuecore._elements.record import compile_bytes
from queuecore._io import remote
from queuecore._io.compression import compression_of, encoding_number
from queuecore._io.names import Filename, file_list
from queuecore._ops.raw import record_stage
from queuecore._ops.stage import Stage
from queuecore.data._plan.chain import Source
from queuecore.data._plan.fixed import FixedLengthSource
from queuecore.data._plan.made import Made, made_by
from queuecore.data._plan.steps import Unknown
from queuecore.data.options import Options, check_threads

__all__ = ["MOST_BYTES", "BlockSource", "block_source", "blocks_of_fixed"]

MOST_BYTES = 2**56
"""Far above any file, and low enough that sums of a few of these fit an int64."""


@dataclass(frozen=True, eq=False)
class BlockSource(Source):
    """Files whose records are found by reading them.

    Attributes
    ----------
    name : str
        What a user calls the dataset.
    files : FileList
        The names, shared by all iterators.
    framing : str
        "lines", "tfrecord", "csv", "whole" or "fixed".
    encoding : int
        The compression of the files, a number of `queuecore._io.compression`.
    components : tuple of Component
        The components of a record.
    template : object
        The structure of the components.
    words : dict
        Plain values that decide which records there are and how an element looks.
    guess : int
        The approximate bytes of a record.
    max_record_bytes : int
        The longest record that is accepted, in bytes.
    header : int
        Lines or rows to leave out at the top of each file.
    fixed : tuple
        For "fixed": bytes of record, header, footer and hop, and whether cut tails are dropped.
    csv : callable or None
        Makes the native format, with a limit for rows.
    first : Stage or None
        The stage that runs on every record.
    num_threads : int or None
        The ``num_parallel_reads`` of the user.
    interleave : tuple of int
        How many files are open at a time, and how many records each gives in its turn.
    first_number : int
        The number of the first file, for random draws, if files are records.
    pieces : dict
        Other sizes of reads, for tests.
    """

    inputs = ()
    takes_any_files = True

    name: str
    files: FileList
    framing: str
    encoding: int
    components: tuple[Component, ...]
    template: Any
    words: dict[str, Any]
    guess: int
    max_record_bytes: int
    header: int = 0
    fixed: tuple[Any, ...] = (1, 0, 0, 1, False)
    csv: Callable[[int], CsvFormat] | None = None
    headings: Callable[[bytes, int], str | None] | None = None
    first: Stage | None = None
    num_threads: int | None = None
    interleave: tuple[int, int] = (1, 1)
    first_number: int = 0
    pieces: dict[str, int] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        paths = [self.files[index] for index in range(len(self.files))]
        rest = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "files"}
        return _rebuild, (paths, rest, remote.options_of(self.files.store))

    def cold(self, options: Options) -> str:
        """Return what reads the bytes that the page cache doesn't have."""
        if self.files.remote:
            return ""
        return "the workers" if self.encoding or options.io == "pread" else "threads"

    def describe(self) -> dict[str, Any]:
        """Return plain values that decide which records there are and how an element looks."""
        order = {} if self.interleave[0] == 1 else {"interleave": list(self.interleave)}
        return {"source": self.framing, **self.words, **order}

    def count(self, min_count: int | None) -> int:
        """Return the number of whole files. Of other records it shows only when they are read: raise `Unknown`."""
        if self.framing == "whole":
            return len(self.files)
        raise Unknown

    @property
    def gives_many(self) -> bool:
        """True if native steps can get many records at once: they aren't whole files."""
        return self.framing != "whole"

    @property
    def keeps_workers(self) -> bool:
        """True if there are several compressed files: workers alone decompress, each another file."""
        return self.encoding != 0 and (self.files.known > 1 or not self.files.whole)

    def work(self) -> str:
        """Return in words what is done with the bytes of files."""
        return f"decompressed by {library(self.encoding)}, cut" if self.encoding else "cut"

    def check_sizes(self) -> None:
        """Raise an error if the size alone of a file says that it ends inside a record."""
        if self.framing == "fixed" and not self.encoding:
            length, header, footer, hop, drop = self.fixed
            FixedLengthSource(self.files, compile_bytes(length), header, footer, hop, drop, None).check_sizes()

    def made(self, stages: list[Stage]) -> Made:
        """Return the result of stages on a record."""
        return made_by(self.components, self.template, stages if self.first is None else [self.first, *stages])

    def limited(self, max_record_bytes: int | None) -> BlockSource:
        """Return this source with another limit for its records; `None` keeps the limit."""
        return self if max_record_bytes is None else replace(self, max_record_bytes=max_record_bytes)

    def native(self, stages: list[Stage]) -> Description:
        """Return the description for the native stream."""
        frames = Frames(self.framing, self.guess, self.max_record_bytes)
        frames.encoding = self.encoding
        frames.header = self.header
        frames.first_number = self.first_number
        frames.records = Records(*self.fixed)
        frames.cycle, frames.lane_records = self.interleave
        frames.piece_bytes = self.pieces.get("piece_bytes", 0)
        frames.headroom = self.pieces.get("headroom", 0)
        if self.csv is not None:
            frames.csv = self.csv(self.max_record_bytes)
        frames.headings = self.headings
        return Description(self.files, self.made(stages).elements(), frames=frames)


def blocks_of_fixed(source: FixedLengthSource) -> BlockSource:
    """Return the source of the same records that is read in blocks, so that files can be interleaved."""
    length = source.record.record_bytes
    return BlockSource(
        name=source.name,
        files=source.files,
        framing="fixed",
        encoding=0,
        components=(Component(BYTES, (), length),),
        template=0,
        words=source.describe(),
        guess=length,
        max_record_bytes=MOST_BYTES,
        fixed=(length, source.header_bytes, source.footer_bytes, source.hop_bytes, source.drop_tail),
        first=record_stage(source.record),
        num_threads=source.num_threads,
    )


def _rebuild(paths: list[bytes], rest: dict[str, Any], options: dict[str, Any] | None = None) -> BlockSource:
    return BlockSource(files=FileList(paths, remote.unpickled(options)), **rest)


def block_source(
    name: str,
    filenames: Filename | Iterable[Filename],
    framing: str,
    compression_type: str | None,
    num_parallel_reads: int | None,
    *,
    storage_options: Any = None,
    words: dict[str, Any] | None = None,
    **rest: Any,
) -> BlockSource:
    """Return the source for a user's arguments; `rest` as for `BlockSource`."""
    store = remote.store_of(storage_options)
    files = file_list(filenames, store)
    encoding = encoding_number(compression_type)
    return BlockSource(
        name=name,
        files=files,
        framing=framing,
        encoding=encoding,
        words={"compression": compression_of(compression_type), **(words or {})},
        num_threads=check_threads(num_parallel_reads, "num_parallel_reads"),
        **rest,
    )
