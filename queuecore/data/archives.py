"""Datasets of the samples in tar archives."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

from queuecore._checks.checks import check_bool
from queuecore._core.io.tar import SampleStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import BYTES, Component
from queuecore._io.names import Filename
from queuecore._ops.stage import Stage
from queuecore.data._plan.blocks import block_source
from queuecore.data._plan.chain import Chain
from queuecore.data.dataset import Dataset
from queuecore.errors import InvalidArgumentError

__all__ = ["TarDataset"]

_SAMPLE_BYTES = 1 << 30
_GUESS = 64 << 10
_MOST_KEYS = 64
# Archives that are read side by side where their order is drawn.
_SIDE_BY_SIDE = 4


class TarDataset(Dataset):
    r"""Samples of tar archives, by WebDataset's convention.

    Parameters
    ----------
    filenames : str, bytes, os.PathLike, or a sequence of them
        As of `FixedLengthRecordDataset`; also with braces: ``train-{000..127}.tar`` are 128 names, ``{train,val}.tar``
        are two.
    keys : sequence of str
        The keys of the files that an element has, such as ``["jpg", "cls"]``. ``"jpg;png"`` is the first of these that
        a sample has; the element calls it by the first word. ``"__key__"`` is the sample's name.
    shuffle : bool, default False
        Whether the order of the archives is drawn, anew for each pass; samples of a few archives then come in turns.
        `shuffle` behind it draws the order of samples.
    seed : int, optional
        Of that order. Default: one that is drawn.
    compression_type : {"", "GZIP", "ZLIB", "ZSTD", "LZ4", "XZ", "BZ2"}, optional
        How archives are compressed.
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
    Files of an archive that follow each other, and whose names are alike up to the first dot behind the last slash, are
    a sample; the part behind the dot is a file's key, in small letters. Other members (folders, links, names without a
    dot) are passed over. An element is a dict of `bytes`: maps decode them, natively.

    A sample that lacks a key, or has a key twice, is an `InvalidArgumentError` in its place; an archive that is damaged
    or cut a `DataLossError`. Headers of POSIX (ustar, pax), GNU tar and old tars are read. A sample of more than
    `Options.max_record_bytes` (1 GiB) is refused (`RecordTooLargeError`). Nothing is written to a disk, whatever names
    an archive has.

    Archives are cut by native threads: no Python runs for a file or a sample.

    Examples
    --------
    >>> import io, tarfile
    >>> import queuecore as qc
    >>> with tarfile.open("a.tar", "w") as archive:
    ...     for number in range(3):
    ...         for key, content in (("txt", b"word" * number), ("cls", b"%d" % number)):
    ...             member = tarfile.TarInfo(f"train/{number:03}.{key}")
    ...             member.size = len(content)
    ...             archive.addfile(member, io.BytesIO(content))
    >>> for sample in qc.data.TarDataset("a.tar", ["__key__", "txt", "cls"]):
    ...     print(sample)
    {'__key__': b'train/000', 'txt': b'', 'cls': b'0'}
    {'__key__': b'train/001', 'txt': b'word', 'cls': b'1'}
    {'__key__': b'train/002', 'txt': b'wordword', 'cls': b'2'}
    """

    def __init__(
        self,
        filenames: Filename | Iterable[Filename],
        keys: Sequence[str],
        *,
        shuffle: bool = False,
        seed: SupportsIndex | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        has_key, choices = _wanted(keys)
        is_shuffled = check_bool(shuffle, "shuffle")
        names = ["__key__"] * has_key + [one[0] for one in choices]

        def bind(components: tuple[Component, ...]) -> Step:
            outputs = tuple(Component(BYTES, (), name=name) for name in names)
            return SampleStep(components, outputs, [[os.fsencode(key) for key in one] for one in choices], has_key)

        source = block_source(
            "TarDataset",
            _with_braces(filenames),
            "tar",
            compression_type,
            num_parallel_reads,
            storage_options=storage_options,
            words={"keys": list(keys)},
            components=(Component(BYTES, ()),),
            template=0,
            guess=_GUESS,
            max_record_bytes=_SAMPLE_BYTES,
            first=Stage(f"sample({', '.join(keys)})", bind),
        )
        self._chain = Chain(source)
        if is_shuffled:
            files = [source.files[number] for number in range(len(source.files))]

            def archive(name: Any) -> TarDataset:
                return TarDataset(
                    name,
                    keys,
                    compression_type=compression_type,
                    num_parallel_reads=num_parallel_reads,
                    storage_options=storage_options,
                )

            order = Dataset.from_tensor_slices(files).shuffle(len(files), seed)
            self._chain = order.interleave(archive, cycle_length=_SIDE_BY_SIDE)._chain


def _wanted(keys: Any) -> tuple[bool, list[list[str]]]:
    """Return whether the name is wanted, and for each other key the words for it."""
    if isinstance(keys, str):
        raise InvalidArgumentError(f"TarDataset: keys must be a list of them, not {keys!r}")
    words = list(keys)
    if not words or not all(isinstance(one, str) and all(one.split(";")) for one in words):
        raise InvalidArgumentError(f"TarDataset: keys must be names of keys, not {keys!r}")
    choices = [one.lower().split(";") for one in words if one != "__key__"]
    every = list(itertools.chain.from_iterable(choices))
    if len(set(every)) < len(every) or words.count("__key__") > 1:
        raise InvalidArgumentError(f"TarDataset: a key is there twice: {words}")
    if len(every) > _MOST_KEYS:
        raise InvalidArgumentError(f"TarDataset: {len(every)} keys; at most {_MOST_KEYS} are possible")
    return "__key__" in words, choices


def _with_braces(filenames: Any) -> Any:
    """Return the names of files, with those that braces mean."""
    if isinstance(filenames, str):
        names = list(_expanded(filenames))
        return names if len(names) > 1 else filenames
    if isinstance(filenames, (list, tuple)):
        return [each for name in filenames for each in (_expanded(name) if isinstance(name, str) else [name])]
    return filenames


def _expanded(name: str) -> Iterator[str]:
    """Yield the names that one with braces stands for, as a shell does."""
    begin = name.find("{")
    cuts, depth = [begin], 0
    for place in range(begin, len(name) if begin >= 0 else begin):
        depth += {"{": 1, "}": -1}.get(name[place], 0)
        if depth == 1 and name[place] == "," or depth == 0:
            cuts.append(place)
        if depth == 0:
            break
    if begin < 0 or depth > 0:
        yield name
        return
    words = [name[first + 1 : last] for first, last in itertools.pairwise(cuts)]
    numbers = re.fullmatch(r"(\d+)\.\.(\d+)", words[0]) if len(words) == 1 else None
    if numbers is not None and int(numbers[1]) <= int(numbers[2]):
        width = max(map(len, numbers.groups())) if any(bound.startswith("0") for bound in numbers.groups()) else 0
        words = [f"{number:0{width}}" for number in range(int(numbers[1]), int(numbers[2]) + 1)]
    elif len(words) == 1:
        words = [f"{{{word}}}" for word in _expanded(words[0])]
    else:
        words = [choice for word in words for choice in _expanded(word)]
    for word, rest in itertools.product(words, _expanded(name[cuts[-1] + 1 :])):
        yield name[:begin] + word + rest
