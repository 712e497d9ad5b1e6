"""Datasets that begin with values in memory, or with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, SupportsIndex

from queuecore._checks.checks import check_bool, check_name
from queuecore.data._nodes.arrays import Items, Slices
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.random import RandomNumbers
from queuecore.data._nodes.tables import HuggingFace, HuggingFaceTable, Tables
from queuecore.data._plan.chain import Chain, Chained, dataset_of
from queuecore.data._rows.chunks import Rows
from queuecore.data._rows.lists import objects_of_list, rows_of_list
from queuecore.errors import DtypeError, InvalidArgumentError

__all__ = ["Sources"]


class Sources(Chained):
    """The static methods of `queuecore.data.Dataset` that begin with values or numbers."""

    @classmethod
    def from_list(cls, tensors: list[Any], name: str | None = None) -> Self:
        """Return a dataset of the items of a list.

        Parameters
        ----------
        tensors : list
            The elements, as that of `from_tensors`: of one structure, and with the same dtypes. Shapes may differ.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `tensors` is no list, or is empty; as of `from_tensors`.
        DtypeError
            If elements differ in structure or dtypes; as of `from_tensors`.

        Notes
        -----
        Elements are copied, once.

        Examples
        --------
        >>> import queuecore as qc
        >>> list(qc.data.Dataset.from_list([(1, "a"), (2, "b")]))
        [(np.int64(1), b'a'), (np.int64(2), b'b')]
        >>> list(qc.data.Dataset.from_list([[1], [2, 3]]))
        [array([1]), array([2, 3])]
        """
        check_name(name)
        if not isinstance(tensors, list):
            raise InvalidArgumentError("Invalid `tensors`. `tensors` must be a list.")
        if not tensors:
            raise InvalidArgumentError("Invalid `tensors`. `tensors` should not be empty.")
        rows = rows_of_list(tensors)
        node: Node = (
            Items((), *objects_of_list(tensors)) if rows is None else Slices((), Rows(len(tensors), rows[0]), rows[1])
        )
        made: Self = dataset_of(Chain.of(node))
        return made

    @classmethod
    def from_hugging_face(cls, dataset: Any, columns: Sequence[str] | None = None) -> Self:
        """Return a dataset of the rows of a dataset of Hugging Face's package ``datasets``: dicts of their columns.

        Parameters
        ----------
        dataset : datasets.Dataset or datasets.IterableDataset
            In whatever format, which makes no difference.
        columns : sequence of str, optional
            Those that are wanted, in their order. Default: all.

        Returns
        -------
        Dataset
            With ``len()``, and for `permute`, if `dataset` has a length.

        Raises
        ------
        DtypeError
            If it is no such dataset, or a column is of a type that has no dtype here.
        InvalidArgumentError
            If there is no such column.

        Notes
        -----
        Values become what `ParquetDataset` makes of them: pictures and sounds (``Image()``, ``Audio()``) are their
        encoded bytes, which ``map`` decodes natively; a `ClassLabel` is its number.

        Slices of Arrow tables are taken, some megabytes at a time; no Python runs for a row. Shuffles, shards and
        saved places are those of this dataset, which they know by its columns and the number of its rows; transforms
        that were set by ``set_transform`` aren't called.

        Examples
        --------
        >>> import datasets
        >>> import queuecore as qc
        >>> rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 1, 0]})
        >>> for batch in qc.data.Dataset.from_hugging_face(rows, columns=["label"]).batch(2):
        ...     print(batch)
        {'label': array([0, 1])}
        {'label': array([0])}
        """
        packages = {kind.__module__.partition(".")[0] for kind in type(dataset).__mro__}
        if "datasets" not in packages or not hasattr(dataset, "with_format") or isinstance(dataset, dict):
            split = "; take one of its splits" if isinstance(dataset, dict) else ""
            raise DtypeError(f"from_hugging_face: {type(dataset).__name__} is no dataset of Hugging Face's{split}")
        if isinstance(columns, str):
            raise InvalidArgumentError(f"from_hugging_face: columns must be a list of names, not {columns!r}")
        reader = HuggingFaceTable if hasattr(dataset, "__len__") else HuggingFace
        node = Tables((), "from_hugging_face", reader(dataset, columns))
        node.layout()
        made: Self = dataset_of(Chain.of(node))
        return made

    @classmethod
    def random(
        cls,
        seed: SupportsIndex | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Return a dataset of random numbers that has no end.

        Parameters
        ----------
        seed : int, optional
            Together with the graph-level seed (`queuecore.set_random_seed`) it decides the numbers. With no seed at all
            one is drawn from the operating system, now; ``state_dict()`` holds it.
        rerandomize_each_iteration : bool, optional
            Whether every pass has numbers of its own. `None` (the default): no.
        name : str, optional
            An identifier, else it is an `InvalidArgumentError`. Not used.

        Returns
        -------
        Dataset
            Of int64, from 0 to 2**32 - 1.

        Notes
        -----
        The same seeds give TensorFlow's own numbers, bit for bit.

        Examples
        --------
        >>> import queuecore as qc
        >>> [int(x) for x in qc.data.Dataset.random(seed=4).take(2)]
        [3128586565, 2023892699]
        """
        check_name(name)
        again = check_bool(
            False if rerandomize_each_iteration is None else rerandomize_each_iteration, "rerandomize_each_iteration"
        )
        made: Self = dataset_of(Chain.of(RandomNumbers.of(seed, again)))
        return made
