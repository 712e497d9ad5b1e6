"""Tables that are filled from datasets."""

from __future__ import annotations

from typing import Any

from queuecore.tf1._data.datasets import Dataset, checked
from queuecore.tf1._data.nests import LeafSpec
from queuecore.tf1._graph.graph import Tensor
from queuecore.tf1._graph.values import as_dtype, string
from queuecore.tf1._ops.lookup import FastHashSpec, HasherSpec, IdTableWithHashBuckets, StaticHashTable

__all__ = ["DatasetInitializer", "index_table_from_dataset", "table_from_dataset"]


class DatasetInitializer:
    """The contents of a table: the elements of a dataset, which are pairs of a key and its value.

    Parameters
    ----------
    dataset : Dataset
        With an end. All of it is read when the table is initialised.

    Raises
    ------
    ValueError
        If it is no dataset, or elements are no pairs of single tensors.
    """

    def __init__(self, dataset: Dataset) -> None:
        if not isinstance(dataset, Dataset):
            raise ValueError(f"`dataset` must be a tf.data.Dataset, not {dataset!r:.60}")
        spec = dataset._spec
        if not isinstance(spec, tuple) or len(spec) != 2:
            raise ValueError(f"element_spec of `dataset` must be a 2-tuple; got {spec!r}")
        for leaf in spec:
            if not isinstance(leaf, LeafSpec) or leaf.shape.ndims not in (0, None):
                raise ValueError(f"elements of `dataset` must be pairs of single tensors; got {leaf!r}")
        self.inputs = [dataset._variant]
        self.key_dtype, self.value_dtype = (leaf.dtype for leaf in spec)

    def pairs(self, dataset: Any) -> tuple[Any, Any]:
        """Return the keys and the values."""
        with iter(dataset) as elements:
            found = [(_plain(key), _plain(value)) for key, value in elements]
        return [key for key, _ in found], [value for _, value in found]


def _plain(value: Any) -> Any:
    return value if isinstance(value, bytes) else value.item()


def table_from_dataset(
    dataset: Dataset | None = None,
    num_oov_buckets: int = 0,
    vocab_size: Any = None,
    default_value: Any = None,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: Any = string,
    name: str | None = None,
) -> Any:
    """Return a table of the pairs of keys and values that a dataset gives.

    Parameters
    ----------
    dataset : Dataset
        Of pairs.
    num_oov_buckets : int, default 0
        How many numbers, behind the table's, keys share that aren't there.
    vocab_size : int or Tensor, optional
        How many elements count; the dataset has as many or more. Default: all.
    default_value : object
        Without such numbers, the value of keys that aren't there.
    hasher_spec : HasherSpec
    key_dtype : dtype
    name : str, optional

    Returns
    -------
    StaticHashTable or IdTableWithHashBuckets

    Raises
    ------
    ValueError
        If a number is wrong, or the dataset doesn't give pairs of single tensors.
    TypeError
        If keys are neither integers nor strings.
    """
    if num_oov_buckets < 0:
        raise ValueError(f"`num_oov_buckets` must be greater than or equal to 0, got {num_oov_buckets}.")
    if vocab_size is not None and not isinstance(vocab_size, Tensor) and vocab_size < 1:
        raise ValueError(f"`vocab_size` must be greater than 0, got {vocab_size}.")
    kind = as_dtype(key_dtype)
    if kind != string and not kind.is_integer:
        raise TypeError("`key_dtype` must be either an integer or string type.")
    if vocab_size is not None:
        dataset = checked(dataset, "table_from_dataset").take(vocab_size).assert_cardinality(vocab_size)
    table = StaticHashTable(
        DatasetInitializer(checked(dataset, "table_from_dataset")),
        0 if default_value is None and num_oov_buckets else default_value,
        name or "string_to_index",
    )
    return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=kind) if num_oov_buckets else table


def index_table_from_dataset(
    dataset: Dataset | None = None,
    num_oov_buckets: int = 0,
    vocab_size: Any = None,
    default_value: Any = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: Any = string,
    name: str | None = None,
) -> Any:
    """Return a table of the places of the keys that a dataset gives; parameters and errors as of `table_from_dataset`.

    Elements of the dataset are keys: the first one has the number 0.
    """
    pairs = checked(dataset, "index_table_from_dataset").enumerate().map(lambda number, key: (key, number))
    return table_from_dataset(pairs, num_oov_buckets, vocab_size, default_value, hasher_spec, key_dtype, name)
