"""Methods that write a dataset to files, and name it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Self, SupportsIndex

import numpy as np

from queuecore._io.names import Filename, local_text
from queuecore.data._nodes.saved import loaded, save
from queuecore.data._plan.chain import Chained, dataset_of
from queuecore.errors import DtypeError, InvalidArgumentError, UnimplementedError

__all__ = ["Keeping"]


class Keeping(Chained):
    """The methods of `queuecore.data.Dataset` that have to do with files of its own, and with its identity."""

    def save(
        self,
        path: Filename,
        compression: str | None = None,
        shard_func: Callable[..., SupportsIndex] | None = None,
        checkpoint_args: Any = None,
    ) -> None:
        """Write all elements to files of a directory, for `load`.

        Parameters
        ----------
        path : str, bytes or os.PathLike
            The directory, which is made if it is missing. A dataset that was saved there before is replaced, when the
            new one is complete.
        compression : {"GZIP", "AUTO", "NONE"}, optional
            Of the files. ``"AUTO"`` and `None` (the default): none.
        shard_func : callable, optional
            From an element to the number of the shard that it belongs to, from 0 on; the parts of a tuple are arguments
            of their own. Default: all are in one.
        checkpoint_args : None
            Not supported.

        Raises
        ------
        InvalidArgumentError
            If `path` is no file name, `compression` another word, or `shard_func` no function or doesn't return such a
            number; if an element has something else in it than numbers, strings, arrays, `Ragged` and `Sparse`.
        UnimplementedError
            If there are `checkpoint_args`.
        AbortedError
            If another process is writing there.
        PipelineError
            If `shard_func` raises.

        Notes
        -----
        Reads the dataset in the calling thread, without the GIL as far as `plan` says. The files have checksums, and
        are those of a `cache`, not TensorFlow's. An error, of an element too, leaves what was there before.

        Follows ``tf.data.Dataset.save``.

        Examples
        --------
        >>> import queuecore as qc
        >>> qc.data.Dataset.range(3).save("kept")
        >>> [int(x) for x in qc.data.Dataset.load("kept")]
        [0, 1, 2]
        """
        if checkpoint_args is not None:
            raise UnimplementedError("save: checkpoint_args isn't supported: files are written whole, or not at all")
        if shard_func is not None and not callable(shard_func):
            raise InvalidArgumentError(f"save: shard_func must be a function, not {shard_func!r:.60}")
        save(self._chain, _folder(path), _compresses(compression), shard_func)

    @classmethod
    def load(
        cls,
        path: Filename,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Any], Any] | None = None,
        wait: bool = False,
    ) -> Self:
        """Return a dataset of what `save` wrote.

        Parameters
        ----------
        path : str, bytes or os.PathLike
            The directory.
        element_spec : structure of ArraySpec, optional
            What elements are. The files know it; what it adds is classes of tuples with names and of records.
        compression : {"GZIP", "AUTO", "NONE"}, optional
            Not used: the files know it.
        reader_func : callable, optional
            From a dataset of the shards, which are datasets of their elements, rising by their numbers, to a dataset.
            It is called once, now. Default: the shards in turns, an element of each.
        wait : bool, default False
            Only `False`.

        Returns
        -------
        Dataset

        Raises
        ------
        NotFoundError
            If no dataset was saved there.
        InvalidArgumentError
            If an argument doesn't fit; DtypeError if `element_spec` doesn't, or `reader_func` returns no dataset.
        ChecksumError, TruncatedRecordError, DataLossError
            While iterating, for what is damaged; for the index, at once.

        Examples
        --------
        >>> import queuecore as qc
        >>> qc.data.Dataset.range(6).save("kept", shard_func=lambda x: x % 2)
        >>> in_order = qc.data.Dataset.load("kept", reader_func=lambda shards: shards.flat_map(lambda x: x))
        >>> [int(x) for x in in_order], [int(x) for x in qc.data.Dataset.load("kept")]
        ([0, 2, 4, 1, 3, 5], [0, 1, 2, 3, 4, 5])
        """
        if wait:
            raise InvalidArgumentError("The `wait` argument is only supported for distributed tf.data snapshot.")
        _compresses(compression)
        if reader_func is not None and not callable(reader_func):
            raise InvalidArgumentError(f"load: reader_func must be a function, not {reader_func!r:.60}")
        made: Self = dataset_of(loaded(_folder(path), element_spec, reader_func))
        return made

    def fingerprint(self) -> np.uint64:
        """Return a number that two datasets share if they are made by the same steps.

        Returns
        -------
        numpy.uint64

        Notes
        -----
        Steps, numbers, arrays, names of files and seeds that a user gave count; functions in Python by their names,
        and the contents of files don't. The numbers aren't TensorFlow's.

        Examples
        --------
        >>> import queuecore as qc
        >>> qc.data.Dataset.range(3).fingerprint() == qc.data.Dataset.range(3).fingerprint()
        np.True_
        >>> qc.data.Dataset.range(3).fingerprint() == qc.data.Dataset.range(4).fingerprint()
        np.False_
        """
        seeds = [list(one.seeds.pair) if one.seeds.seeded else None for one in self._chain.shuffles]
        said = json.dumps([self._chain.describe(), self._chain.names(), seeds], sort_keys=True)
        return np.uint64(int.from_bytes(hashlib.blake2b(said.encode(), digest_size=8).digest(), "little"))


def _folder(path: Any) -> str:
    try:
        name = local_text(path)
    except TypeError:
        raise DtypeError(f"path must be str, bytes or os.PathLike, not {path!r:.60}") from None
    if not name or "\0" in name:
        raise InvalidArgumentError(f"path can't be {path!r}")
    return name


def _compresses(compression: Any) -> bool:
    if compression not in ("AUTO", "NONE", "GZIP", "", None):
        raise InvalidArgumentError(f'compression must be "AUTO", "NONE" or "GZIP", not {compression!r}')
    return bool(compression == "GZIP")
