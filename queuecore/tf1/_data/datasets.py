"""Datasets of a graph: operations whose values are the datasets of `queuecore.data`.

Each transformation is an operation that reads its input datasets, and tensors: numbers, names, and tensors that its
function has captured. An iterator's initializer runs these operations, and so makes the datasets anew, from the
tensors' present values.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import queuecore.data as eager
from queuecore._checks.seeds import Pair, draw_pair, paired
from queuecore._elements.record import SparseSpec
from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.tf1._data.functions import Function
from queuecore.tf1._data.iterators import components, make_initializable_iterator, make_one_shot_iterator
from queuecore.tf1._data.nests import (
    VARIANT,
    DatasetBase,
    LeafSpec,
    Nested,
    NoneLeaf,
    RaggedLeaf,
    SparseLeaf,
    joined,
    leaf_of,
    leaves,
    mapped,
    matched,
    outputs_of,
    packed,
    parts,
    plain,
    same_structure,
    shown,
    split,
    stacked,
    tensors_of,
    unbatched,
)
from queuecore.tf1._data.options import Options
from queuecore.tf1._data.padding import Padding, padded_shape
from queuecore.tf1._graph.graph import (
    Operation,
    Tensor,
    constant_value,
    convert_to_tensor,
    get_default_graph,
    seed_pair,
    tensor_in,
)
from queuecore.tf1._graph.values import TensorShape, as_dtype, as_shape, bool_, int32, int64, string
from queuecore.tf1._ops.math import cast
from queuecore.tf1._ops.sparse import SparseTensor

__all__ = [
    "AUTOTUNE",
    "STRING",
    "Dataset",
    "batch_tensors",
    "bound_all",
    "captured_of",
    "checked",
    "count_tensor",
    "dataset_op",
    "general_spec",
    "int_tensor",
    "known_leaf",
    "names_of",
    "scalar_of",
    "seeds_of",
    "settled",
    "variant_of",
]

AUTOTUNE = -1


class Dataset(DatasetBase):
    """A stream of elements: a source and the steps after it, in a graph.

    Make one with its static methods, or of files; take its elements with an iterator. Each session makes a
    `queuecore.data.Dataset` of it: see there for the steps, and which of them run natively. Functions that are given
    to `map`, `filter` and `reduce` are written with tensors, and run natively if all their operations can.

    Attributes
    ----------
    output_types, output_shapes, output_classes : structure
        Of an element.

    Notes
    -----
    Numbers, names and arrays may be tensors, placeholders too: they are read when an iterator is initialised. A list is
    one tensor; tuples and dicts are structure.
    """

    # ---- iterators

    def make_one_shot_iterator(self) -> Any:
        """Return an iterator over it that needs no initializer.

        Raises
        ------
        ValueError
            If it reads a placeholder, a variable, or something else that isn't the same in each run.
        """
        return make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """Return an iterator over it that begins when its initializer runs, and begins again then.

        Parameters
        ----------
        shared_name : str, optional
            Iterators of this name share their place in a session.
        """
        return make_initializable_iterator(self, shared_name)

    def options(self) -> Options:
        """Return the options that were set for it and its inputs, to read: the last ones set win."""
        return _options(self._variant).fix()

    # ---- sources

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset of one element."""
        spec, inputs = tensors_of(tensors, "from_tensors")

        def kernel(_: Any, *values: Any) -> Any:
            return eager.Dataset.from_tensors(joined(spec, list(values)))

        return dataset_op("TensorDataset", inputs, spec, kernel, name)

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset of the slices of tensors along their first dimension, or of the datasets of a list.

        Raises
        ------
        ValueError
            If one is a scalar, or they have different lengths.
        """
        if isinstance(tensors, list) and tensors and all(isinstance(one, Dataset) for one in tensors):
            inputs = [one._variant for one in tensors]
            nested = Nested(general(tensors, "from_tensor_slices"))
            return dataset_op(
                "TensorSliceDataset", inputs, nested, lambda _, *values: eager.Dataset.from_tensor_slices(list(values))
            )
        spec, inputs = tensors_of(tensors, "from_tensor_slices")
        rows = TensorShape([None])
        for leaf in leaves(spec):
            if isinstance(leaf, Nested):
                raise TypeError("from_tensor_slices takes tensors, not datasets")
            if leaf.shape.ndims == 0:
                raise ValueError(f"Unbatching a tensor is only supported for rank >= 1: {leaf!r} is a scalar")
            rows = rows.merge_with(leaf.shape[:1])
        return dataset_op(
            "TensorSliceDataset",
            inputs,
            mapped(unbatched, spec),
            lambda _, *values: eager.Dataset.from_tensor_slices(joined(spec, list(values))),
            name,
        )

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
        """Return a dataset of the rows of a sparse tensor, each as its indices, its values and its dense shape.

        Parameters
        ----------
        sparse_tensor : SparseTensor
            With indices in order, as far as their first numbers go.

        Raises
        ------
        TypeError
            If it is none.
        InvalidArgumentError
            When an iterator is initialised, if indices aren't in order.
        """
        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(f"`sparse_tensor` must be a `tf.SparseTensor` object. Was {sparse_tensor!r:.80}.")
        inputs = [sparse_tensor.indices, sparse_tensor.values, sparse_tensor.dense_shape]
        rank = None if sparse_tensor.shape.ndims is None else sparse_tensor.shape.ndims - 1
        spec = (
            leaf_of(int64, [None, rank]), leaf_of(sparse_tensor.dtype, [None]), leaf_of(int64, [rank])
        )  # fmt: skip

        def kernel(_: Any, places: Any, values: Any, shape: Any) -> Any:
            if (np.diff(places[:, 0]) < 0).any():
                raise InvalidArgumentError(
                    "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is "
                    "not currently supported."
                )
            leaf = SparseLeaf(TensorShape(None), sparse_tensor.dtype)
            rows = eager.Dataset.from_tensor_slices(joined(leaf, [places, values, shape]))
            return rows.map(lambda row: (row.indices, row.values, row.dense_shape))

        return dataset_op("SparseTensorSliceDataset", inputs, spec, kernel)

    @staticmethod
    def range(*args: Any, output_type: Any = np.int64, name: str | None = None) -> Dataset:
        """Return a dataset of the numbers of a range: ``stop``; ``start, stop``; or ``start, stop, step``."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Invalid `args`. The length of `args` should be between 1 and 3 but was {len(args)}.")
        inputs = [int_tensor(one, what) for one, what in zip(args, _RANGE[len(args)], strict=True)]
        dtype = as_dtype(output_type)
        return dataset_op(
            "RangeDataset",
            inputs,
            leaf_of(dtype, []),
            lambda _, *values: eager.Dataset.range(*map(int, values), output_type=dtype),
            name,
        )

    @staticmethod
    def counter(start: Any = 0, step: Any = 1, dtype: Any = np.int64, name: str | None = None) -> Dataset:
        """Return a dataset that counts, without an end.

        Parameters
        ----------
        start, step : number or Tensor
        dtype : dtype, default tf.int64
            Of the numbers.
        name : str, optional
        """
        kind = as_dtype(dtype)
        inputs = [convert_to_tensor(one, kind, what) for one, what in ((start, "start"), (step, "step"))]
        return dataset_op(
            "CounterDataset",
            inputs,
            leaf_of(kind, []),
            lambda _, first, more: eager.Dataset.counter(first, more, kind.dtype),
            name,
        )

    @staticmethod
    def random(seed: Any = None, rerandomize_each_iteration: bool | None = None, name: str | None = None) -> Dataset:
        """Return a dataset of random int64 numbers, from 0 to 2**32 - 1, that has no end.

        Parameters
        ----------
        seed : int or Tensor, optional
            Decides the numbers, together with the graph's (`set_random_seed`): they are TensorFlow's own then.
        rerandomize_each_iteration : bool, optional
            Ignored with a warning, as in TensorFlow's graphs.
        name : str, optional
        """
        if rerandomize_each_iteration is not None:
            warnings.warn("The `rerandomize_each_iteration` argument is ignored in a graph", stacklevel=2)
        pair, extra = seeds_of(seed)

        def kernel(_: Any, *seeds: Any) -> Any:
            return eager.Dataset.random(pair(*seeds))

        return dataset_op("RandomDataset", extra, leaf_of(int64, []), kernel, name)

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Return a dataset that takes each element from one of several, as a dataset of int64 numbers says.

        Parameters
        ----------
        datasets : sequence of Dataset
        choice_dataset : Dataset
            Of numbers of datasets.
        stop_on_empty_dataset : bool, default True
            Whether to end when a dataset without further elements is asked.

        Raises
        ------
        TypeError, ValueError
            If elements differ in structure or type, or choices are no such numbers.
        """
        spec = _alike(datasets, "choose_from_datasets")
        if not isinstance(choice_dataset, Dataset):
            raise TypeError(
                "Invalid `choice_dataset`. `choice_dataset` should be a `tf.data.Dataset` but is "
                f"{type(choice_dataset)}."
            )
        choice = choice_dataset._spec
        if not isinstance(choice, LeafSpec) or choice.dtype != int64 or choice.shape.ndims not in (0, None):
            raise TypeError(f"`choice_dataset` must be a dataset of scalar `tf.int64` tensors, not of {choice!r}")

        def kernel(_: Any, *values: Any) -> Any:
            return eager.Dataset.choose_from_datasets(list(values[:-1]), values[-1], stop_on_empty_dataset)

        inputs = [one._variant for one in (*datasets, choice_dataset)]
        return dataset_op("DirectedInterleaveDataset", inputs, spec, kernel)

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset],
        weights: Any = None,
        seed: Any = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Return a dataset of elements of several ones, at random.

        Parameters
        ----------
        datasets : sequence of Dataset
        weights : sequence of float, Tensor or Dataset, optional
            How often each dataset is asked, in proportion.
        seed : int or Tensor, optional
        stop_on_empty_dataset : bool, default False
            Whether to end when a dataset without further elements is asked.
        rerandomize_each_iteration : bool, optional
            Whether every pass of a `repeat` has turns of its own. Default: no.

        Notes
        -----
        The turns are those of `queuecore.data.Dataset.sample_from_datasets`, and not TensorFlow's.
        """
        spec = _alike(datasets, "sample_from_datasets")
        pair, extra = seeds_of(seed)
        count = len(datasets)
        if weights is None:
            weights_tensor = convert_to_tensor(np.ones(count))
        else:
            weights_tensor = weights._variant if isinstance(weights, Dataset) else convert_to_tensor(weights)
            if not isinstance(weights, Dataset) and not weights_tensor.shape.is_compatible_with([count]):
                raise ValueError(
                    f"Invalid `weights`. `weights` should have the same length as `datasets`, {count}, but it is "
                    f"{weights!r}."
                )
            if not isinstance(weights, Dataset) and weights_tensor.dtype not in (np.float32, np.float64):
                raise TypeError(
                    "Invalid `weights`. `weights` type must be either `tf.float32` or `tf.float64` but is "
                    f"{weights_tensor.dtype!r}."
                )

        def kernel(_: Any, *values: Any) -> Any:
            shares = values[count]
            if not isinstance(shares, eager.Dataset) and not np.any(shares):
                return values[0].take(0)  # no dataset is ever asked
            return eager.Dataset.sample_from_datasets(
                list(values[:count]),
                shares if isinstance(shares, eager.Dataset) else [float(share) for share in shares],
                pair(*values[count + 1 :]),
                stop_on_empty_dataset,
                rerandomize_each_iteration,
            )

        return dataset_op(
            "SampleFromDatasets", [*[dataset._variant for dataset in datasets], weights_tensor, *extra], spec, kernel
        )

    @staticmethod
    def load(
        path: Any,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Dataset], Dataset] | None = None,
        wait: bool = False,
    ) -> Dataset:
        """Return a dataset of what `save` wrote.

        Parameters
        ----------
        path : str or Tensor
            The directory.
        element_spec : structure
            What elements are: the `element_spec` of the dataset that was saved. Default: what its files say, which are
            read for it here and now.
        compression : {"GZIP", "AUTO", "NONE"}, optional
            Not used: the files know it.
        reader_func : callable, optional
            From a dataset of the shards, which are datasets of their elements, to a dataset. Default: the shards in
            turns, an element of each.
        wait : bool, default False
            Only `False`.

        Raises
        ------
        ValueError
            If there is no `element_spec`, and only a run tells the `path`; or with `wait`.
        NotFoundError
            When an iterator is initialised, or the files are asked, if no dataset was saved there.
        """
        path_tensor = convert_to_tensor(path, string, "path")
        if wait:
            raise ValueError("The `wait` argument is only supported for distributed tf.data snapshot.")
        if element_spec is None:
            known = constant_value(path_tensor)
            if known is None:
                raise ValueError("In graph mode the `element_spec` argument must be provided.")
            element_spec = mapped(known_leaf, eager.Dataset.load(known).element_spec)
        spec = mapped(_leaf_like, element_spec)
        function = None
        if reader_func is not None:
            function = Function(path_tensor.graph, reader_func, [Nested(Nested(spec))], "reader_func")
        result_spec = spec if function is None else _dataset_spec(function, "reader_func")

        def kernel(run: Any, where: Any, *values: Any) -> Any:
            reader = None if function is None else function.bound(run, values)
            return eager.Dataset.load(where, None, compression, reader)

        return dataset_op("LoadDataset", [path_tensor, *(function.captured if function else ())], result_spec, kernel)

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: Any = None, name: str | None = None
    ) -> Dataset:
        """Return a dataset of the names of files that match a pattern, or several.

        Parameters
        ----------
        file_pattern : str, list of str or Tensor
        shuffle : bool, optional
            Whether the order is another one each time. Default: it is; otherwise names are sorted.
        seed : int, optional
            The seed of that order.
        name : str, optional
        """
        patterns = convert_to_tensor(file_pattern, string)
        shuffled = shuffle is None or bool(shuffle)
        pair, extra = seeds_of(seed)

        def kernel(_: Any, given: Any, *seeds: Any) -> Any:
            return eager.Dataset.list_files(names_of(given), shuffled, pair(*seeds) if shuffled else None)

        return dataset_op("MatchingFilesDataset", [patterns, *extra], STRING, kernel, name)

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Return a dataset of what a generator of Python's yields.

        Parameters
        ----------
        generator : callable
            Returns something to iterate over; called for each pass.
        output_types : structure of dtype
        output_shapes : structure of shapes, optional
            Default: any.
        args : sequence, optional
            Tensors whose values are the generator's arguments.
        output_signature : structure of what has a dtype and a shape, optional
            Instead of types and shapes.
        name : str, optional

        Raises
        ------
        TypeError
            If `generator` can't be called.
        ValueError
            If structures differ, or there are no types.
        """
        del name
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable.")
        if output_signature is not None:
            if output_types is not None or output_shapes is not None:
                raise TypeError("The `output_types` and `output_shapes` arguments can't be used with output_signature")
            spec = mapped(_leaf_like, output_signature)
            if not all(isinstance(leaf, LeafSpec) for leaf in leaves(spec)):
                raise TypeError(f"from_generator: `output_signature` may have tensors only, not {output_signature!r}")
        elif output_types is None:
            raise TypeError("Either output_signature or output_types must be specified")
        else:
            sides: list[Any] = [None] * len(leaves(output_types))
            if output_shapes is not None:
                sides = matched(output_types, output_shapes, "from_generator: output_shapes")
            spec = packed(output_types, [leaf_of(*pair) for pair in zip(leaves(output_types), sides, strict=True)])
        inputs = [convert_to_tensor(argument) for argument in args or ()]
        leaf_specs = leaves(spec)
        dtypes = plain(spec, [leaf.dtype.dtype for leaf in leaf_specs])
        known = plain(spec, [leaf.shape.sides for leaf in leaf_specs])

        def kernel(_: Any, *values: Any) -> Any:
            return eager.Dataset.from_generator(generator, dtypes, known, [_writable(value) for value in values])

        return dataset_op("GeneratorDataset", inputs, spec, kernel)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Return a dataset whose elements consist of those of a structure of datasets. It ends with the shortest.

        Raises
        ------
        TypeError
            If a part is no dataset.
        """
        structure = datasets if datasets is not None else args[0] if len(args) == 1 else args
        if isinstance(structure, list):
            raise TypeError("zip takes a tuple or a dict of datasets: a list would be one tensor")
        members = leaves(structure)
        for member in members:
            checked(member, "zip")
        spec = mapped(lambda member: member._spec, structure)

        def kernel(_: Any, *values: Any) -> Any:
            return eager.Dataset.zip(datasets=plain(structure, list(values)))

        return dataset_op("ZipDataset", [member._variant for member in members], spec, kernel, name)

    # ---- steps

    def _step(
        self, type_: str, spec: Any, kernel: Callable[..., Any], tensors: Sequence[Tensor] = (), name: str | None = None
    ) -> Dataset:
        return dataset_op(type_, [self._variant, *tensors], spec, kernel, name)

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        """Go over the elements several times; `None` or -1: endlessly."""
        return self._step(
            "RepeatDataset", self._spec, lambda _, ds, n: ds.repeat(max(int(n), -1)), [count_tensor(count)], name
        )

    def take(self, count: Any, name: str | None = None) -> Dataset:
        """Keep the first elements; -1: all."""
        return self._step(
            "TakeDataset", self._spec, lambda _, ds, n: ds.take(max(int(n), -1)), [count_tensor(count)], name
        )

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        """Leave out the first elements; -1: all."""
        return self._step(
            "SkipDataset", self._spec, lambda _, ds, n: ds.skip(max(int(n), -1)), [count_tensor(count)], name
        )

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Keep one element of each `num_shards`."""
        inputs = [int_tensor(num_shards, "num_shards"), int_tensor(index, "index")]
        return self._step("ShardDataset", self._spec, lambda _, ds, n, i: ds.shard(int(n), int(i)), inputs, name)

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Dataset:
        """Make this many elements ahead; -1, or `None`: a number chosen by the pipeline."""
        inputs = [int_tensor(AUTOTUNE if buffer_size is None else buffer_size, "buffer_size")]
        return self._step("PrefetchDataset", self._spec, lambda _, ds, n: ds.prefetch(int(n)), inputs, name)

    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Keep the elements of the first pass: in files whose names begin so, or in memory until the next initializer.

        See `queuecore.data.Dataset.cache`.
        """
        inputs = [convert_to_tensor(filename, string)]
        return self._step("CacheDataset", self._spec, lambda _, ds, file: ds.cache(file), inputs, name)

    def shuffle(
        self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool | None = None, name: str | None = None
    ) -> Dataset:
        """Draw elements at random from a window that moves over them.

        Parameters
        ----------
        buffer_size : int or Tensor
        seed : int or Tensor, optional
            Decides the order, together with the graph's (`set_random_seed`). Without both, the order differs each time.
        reshuffle_each_iteration : bool, optional
            Whether every pass of a `repeat` has an order of its own. Default: it has. An initializer begins with the
            first one again.
        name : str, optional
        """
        again = reshuffle_each_iteration is None or bool(reshuffle_each_iteration)
        pair, extra = seeds_of(seed)

        def kernel(_: Any, ds: Any, size: Any, *seeds: Any) -> Any:
            return ds.shuffle(int(size), pair(*seeds), again)

        return self._step("ShuffleDataset", self._spec, kernel, [int_tensor(buffer_size, "buffer_size"), *extra], name)

    def batch(
        self,
        batch_size: Any,
        drop_remainder: Any = False,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements that follow each other; `drop_remainder`: leave out a last batch that isn't full."""
        del num_parallel_calls, deterministic
        inputs, size = batch_tensors(batch_size, drop_remainder)
        spec = mapped(lambda leaf: stacked(leaf, size), self._spec)
        return self._step("BatchDataset", spec, lambda _, ds, n, drop: ds.batch(int(n), bool(drop)), inputs, name)

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements that follow each other, the smaller ones padded at their ends.

        Parameters
        ----------
        batch_size : int or Tensor
        padded_shapes : structure of shapes, optional
            `None` or -1 in a shape: the longest of the batch. Default: of each unknown dimension.
        padding_values : structure of scalars, optional
            Default: 0, `False` or the empty string.
        drop_remainder : bool or Tensor, default False
        name : str, optional

        Raises
        ------
        ValueError, TypeError
            If a structure, a shape or a type doesn't fit.
        """
        inputs, size = batch_tensors(batch_size, drop_remainder)
        padding = Padding(self, padded_shapes, padding_values)
        left = iter(padding.shapes)
        spec = mapped(lambda leaf: stacked(LeafSpec(next(left), leaf.dtype), size), self._spec)

        def kernel(_: Any, ds: Any, n: Any, drop: Any, *shapes: Any) -> Any:
            return ds.padded_batch(int(n), padding.sides(shapes), padding.values, bool(drop))

        return self._step("PaddedBatchDataset", spec, kernel, [*inputs, *padding.tensors], name)

    def unbatch(self, name: str | None = None) -> Dataset:
        """Take elements apart, along their first dimension.

        Raises
        ------
        ValueError
            If its sizes are known, and differ.
        """
        self._rows("unbatch")
        rows = TensorShape([None])
        for leaf in leaves(self._spec):
            if leaf.shape.sides is not None:
                if not rows.is_compatible_with(leaf.shape[:1]):
                    raise ValueError(
                        "`unbatch()` is only supported for datasets of elements whose components have a matching "
                        f"leading dimension. Encountered both {rows[0]} and {leaf.shape[0]}."
                    )
                rows = rows.merge_with(leaf.shape[:1])
        return self._step("UnbatchDataset", mapped(unbatched, self._spec), lambda _, ds: ds.unbatch(), (), name)

    def enumerate(self, start: Any = 0, name: str | None = None) -> Dataset:
        """Pair each element with its number, an int64."""
        spec = (leaf_of(int64, []), self._spec)
        inputs = [int_tensor(start, "start")]
        return self._step("EnumerateDataset", spec, lambda _, ds, n: ds.enumerate(int(n)), inputs, name)

    def rebatch(self, batch_size: Any, drop_remainder: Any = False, name: str | None = None) -> Dataset:
        """Make batches of another size: `unbatch`, and then `batch`.

        Parameters
        ----------
        batch_size : int, list of int, or Tensor
            Several sizes take turns.
        drop_remainder : bool or Tensor, default False
            Leave out a last batch that isn't full.
        name : str, optional
        """
        size = int_tensor(batch_size, "batch_size")
        drop = convert_to_tensor(drop_remainder, bool, "drop_remainder")
        turns, full = constant_value(size), bool(constant_value(drop))
        rows = None
        if turns is not None and np.ndim(turns) == 1 and len(turns) and (turns == turns[0]).all():
            turns = turns[0]  # turns of one size
        if turns is not None and np.ndim(turns) == 0 and turns > 0:
            sides = [None if leaf.shape.sides is None else leaf.shape.sides[0] for leaf in self._rows("rebatch")]
            rows = int(turns) if full or all(side and side % turns == 0 for side in sides) else None
        spec = mapped(lambda leaf: stacked(unbatched(leaf), rows), self._spec)

        def kernel(_: Any, ds: Any, n: Any, drop: Any) -> Any:
            return ds.rebatch(np.asarray(n).tolist(), bool(drop))

        return self._step("RebatchDataset", spec, kernel, [size, drop], name)

    def _rows(self, what: str) -> list[Any]:
        # The parts of an element, which have rows.
        leaf_specs = leaves(self._spec)
        if any(isinstance(leaf, Nested) or leaf.shape.ndims == 0 for leaf in leaf_specs):
            raise ValueError(f"Cannot {what} an input with scalar components.")
        return leaf_specs

    def ragged_batch(
        self, batch_size: Any, drop_remainder: Any = False, row_splits_dtype: Any = int64, name: str | None = None
    ) -> Dataset:
        """Stack elements that follow each other, which may differ in shape, as ragged tensors.

        Parameters
        ----------
        batch_size : int or Tensor
        drop_remainder : bool or Tensor, default False
            Leave out a last batch that isn't full.
        row_splits_dtype : dtype, default tf.int64
            Of the splits.
        name : str, optional
        """
        inputs, size = batch_tensors(batch_size, drop_remainder)
        kind = as_dtype(row_splits_dtype)

        def one(leaf: Any) -> Any:
            batched = stacked(leaf, size)
            sides = leaf.shape.sides
            if not isinstance(leaf, LeafSpec) or sides is None or None not in sides:
                return batched
            return RaggedLeaf(batched.shape, batched.dtype, len(sides) - list(reversed(sides)).index(None), kind)

        def kernel(_: Any, ds: Any, n: Any, drop: Any) -> Any:
            return ds.ragged_batch(int(n), bool(drop))

        return self._step("DenseToRaggedBatchDataset", mapped(one, self._spec), kernel, inputs, name)

    def sparse_batch(self, batch_size: Any, row_shape: Any, name: str | None = None) -> Dataset:
        """Stack elements that follow each other, which may differ in shape, as sparse tensors.

        Parameters
        ----------
        batch_size : int or Tensor
        row_shape : shape
            That an element has in a batch. `None` or -1 in it: the longest of the batch.
        name : str, optional

        Raises
        ------
        TypeError
            If an element is more than one tensor.
        InvalidArgumentError, DataLossError
            When elements are read, if one doesn't fit.
        """
        if not isinstance(self._spec, LeafSpec):
            raise TypeError(f"`sparse_batch` requires an input dataset whose elements are one tensor, not {self._spec}")
        # Elements that don't fit are errors of a run, as in TensorFlow.
        sides = padded_shape(row_shape, TensorShape(None)).sides or ()
        spec = SparseLeaf(TensorShape([None, *sides]), self._spec.dtype)

        def kernel(_: Any, ds: Any, n: Any) -> Any:
            return ds.sparse_batch(int(n), list(sides))

        return self._step("DenseToSparseBatchDataset", spec, kernel, [int_tensor(batch_size, "batch_size")], name)

    def unique(self, name: str | None = None) -> Dataset:
        """Leave out elements that came before.

        Raises
        ------
        TypeError
            If a part of an element isn't of int32, int64 or strings.
        """
        for leaf in leaves(self._spec):
            if not isinstance(leaf, LeafSpec) or leaf.dtype not in (int32, int64, string):
                raise TypeError(
                    f"`unique` does not support {leaf!r}: only `tf.int32`, `tf.int64`, and `tf.string` are supported."
                )
        return self._step("UniqueDataset", self._spec, lambda _, ds: ds.unique(), (), name)

    def assert_cardinality(self, expected_cardinality: Any, name: str | None = None) -> Dataset:
        """State how many elements there are: see `queuecore.data.Dataset.assert_cardinality`."""
        inputs = [int_tensor(expected_cardinality, "expected_cardinality")]
        return self._step(
            "AssertCardinalityDataset", self._spec, lambda _, ds, n: ds.assert_cardinality(int(n)), inputs, name
        )

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Append the elements of another dataset.

        Raises
        ------
        TypeError
            If they have another structure, or other types.
        """
        spec = general([self, checked(dataset, "concatenate")], "concatenate")
        return self._step("ConcatenateDataset", spec, lambda _, a, b: a.concatenate(b), [dataset._variant], name)

    def window(
        self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: bool = False, name: str | None = None
    ) -> Dataset:
        """Make datasets of elements that follow each other: see `queuecore.data.Dataset.window`."""
        shift = size if shift is None else shift
        counts = [int_tensor(size, "size"), int_tensor(shift, "shift"), int_tensor(stride, "stride")]
        drop = bool(drop_remainder)

        def kernel(_: Any, ds: Any, *numbers: Any) -> Any:
            return ds.window(*map(int, numbers), drop_remainder=drop)

        return self._step("WindowDataset", mapped(Nested, self._spec), kernel, counts, name)

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Leave out elements whose computation fails."""
        return self._step(
            "IgnoreErrorsDataset", self._spec, lambda _, ds: ds.ignore_errors(bool(log_warning)), (), name
        )

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Return the dataset that a function makes of this one.

        Raises
        ------
        TypeError
            If it returns something else than a dataset.
        """
        return checked(transformation_func(self), "`transformation_func` must return a `tf.data.Dataset`: apply")

    def with_options(self, options: Any, name: str | None = None) -> Dataset:
        """Set how it runs: what `Options` set."""
        if not isinstance(options, eager.Options):
            raise TypeError(f"options must be a tf.data.Options, not {options!r}")
        found: Any = eager.Options.merged(Options(), options)
        made = self._step("OptionsDataset", self._spec, lambda _, ds: ds.with_options(found), (), name)
        made._variant.op.attributes["options"] = found
        return made

    # ---- functions

    def _function(self, function: Callable[..., Any], what: str) -> Function:
        if not callable(function):
            raise TypeError(f"{what} must be callable, not {function!r}")
        return Function(self.graph, function, [self._spec], what)

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
        **unused: Any,
    ) -> Dataset:
        """Replace each element by a function's result.

        Parameters
        ----------
        map_func : callable
            From the tensors of an element, the parts of a tuple as arguments of their own, to a structure of tensors.
            It is called once, now.
        num_parallel_calls : int or Tensor, optional
            The number of threads that run the function if it isn't native.
        deterministic : bool, optional
            Whether elements keep their order then.
        name : str, optional
        **unused
            Taken, and not used.
        """
        del unused
        function = self._function(map_func, "map_func")
        calls = [] if num_parallel_calls is None else [int_tensor(num_parallel_calls, "num_parallel_calls")]

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            threads = int(values[0]) if calls else None
            return ds.map(function.bound(run, values[len(calls) :]), threads, deterministic)

        return self._step("MapDataset", function.spec, kernel, [*calls, *function.captured], name)

    def map_with_legacy_function(
        self, map_func: Callable[..., Any], num_parallel_calls: Any = None, deterministic: bool | None = None
    ) -> Dataset:
        """Replace each element by a function's result: the same as `map`."""
        return self.map(map_func, num_parallel_calls, deterministic)

    def filter_with_legacy_function(self, predicate: Callable[..., Any]) -> Dataset:
        """Keep the elements for which a function returns true: the same as `filter`."""
        return self.filter(predicate)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Keep the elements for which a function returns true.

        Raises
        ------
        ValueError
            If it doesn't return one bool.
        """
        function = _predicate(self, predicate)

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            return ds.filter(function.bound(run, values))

        return self._step("FilterDataset", self._spec, kernel, function.captured, name)

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Keep the elements before the first one for which a function returns false."""
        function = _predicate(self, predicate)

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            return ds.take_while(function.bound(run, values))

        return self._step("TakeWhileDataset", self._spec, kernel, function.captured, name)

    def flat_map(self, map_func: Callable[..., Dataset], name: str | None = None) -> Dataset:
        """Make a dataset of each element, and chain these datasets.

        Raises
        ------
        TypeError
            If the function doesn't return a dataset.
        """
        function, spec = self._datasets(map_func, "flat_map")

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            return ds.flat_map(function.bound(run, values))

        return self._step("FlatMapDataset", spec, kernel, function.captured, name)

    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: Any = None,
        block_length: Any = None,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Make a dataset of each element, and take turns among several of these.

        Parameters
        ----------
        map_func : callable
            From the tensors of an element to a dataset.
        cycle_length : int or Tensor, optional
            How many take turns. Default, and -1: 1, or as many as `num_parallel_calls`, whatever the number of CPUs.
        block_length : int or Tensor, default 1
            How many elements each gives in its turn.
        num_parallel_calls : int or Tensor, optional
            How many are begun ahead of their turn; -1: all that take turns.
        deterministic : bool, optional
            `False`: one whose next element isn't ready loses its turn.
        name : str, optional

        Raises
        ------
        TypeError
            If the function doesn't return a dataset.
        """
        function, spec = self._datasets(map_func, "interleave")
        inputs = [int_tensor(AUTOTUNE if cycle_length is None else cycle_length, "cycle_length"),
                 int_tensor(1 if block_length is None else block_length, "block_length")]  # fmt: skip
        parallel = num_parallel_calls is not None
        if parallel:
            inputs.append(int_tensor(num_parallel_calls, "num_parallel_calls"))

        def kernel(run: Any, ds: Any, cycle: Any, block: Any, *values: Any) -> Any:
            calls = int(values[0]) if parallel else None
            turns = max(calls or 1, 1) if cycle == AUTOTUNE else int(cycle)
            bound = function.bound(run, values[1:] if parallel else values)
            return ds.interleave(bound, turns, int(block), calls, deterministic)

        return self._step("InterleaveDataset", spec, kernel, [*inputs, *function.captured], name)

    def _parallel_interleave(
        self, map_func: Any, cycle: Any, block: Any, sloppy: Any, prefetch_input_elements: Any
    ) -> Dataset:
        function, spec = self._datasets(map_func, "parallel_interleave")
        inputs = [int_tensor(cycle, "cycle_length"), int_tensor(block, "block_length"),
                 convert_to_tensor(sloppy, bool), count_tensor(prefetch_input_elements)]  # fmt: skip

        def kernel(run: Any, ds: Any, cycle: Any, block: Any, sloppy: Any, ahead: Any, *values: Any) -> Any:
            bound = function.bound(run, values)
            return ds.parallel_interleave(bound, int(cycle), int(block), bool(sloppy), None, int(ahead))

        return self._step("ParallelInterleaveDataset", spec, kernel, [*inputs, *function.captured])

    def _sharding(self, function: Any) -> Function:
        # A function from an element to the number of its shard, of 32 or 64 bits.
        try:
            return scalar_of(self._function(_number(function, "shard_func", True), "shard_func"), "shard_func")
        except ValueError as error:
            raise TypeError(str(error)) from None

    def _datasets(self, function: Any, what: str) -> tuple[Function, Any]:
        found = self._function(function, "map_func")
        return found, _dataset_spec(found, "map_func", what)

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements of about the same length: see `queuecore.data.Dataset.bucket_by_sequence_length`."""
        boundaries, sizes = list(bucket_boundaries), list(bucket_batch_sizes)
        if len(sizes) != len(boundaries) + 1:
            raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
        function = self._function(element_length_func, "element_length_func")
        padding = None if no_padding else Padding(self, padded_shapes, padding_values)
        count = len(function.captured)

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            bound = function.bound(run, values[:count])
            pads = (None, None) if padding is None else (padding.sides(values[count:]), padding.values)
            return ds.bucket_by_sequence_length(
                bound, boundaries, sizes, *pads, pad_to_bucket_boundary, no_padding, drop_remainder
            )

        left = iter([leaf.shape for leaf in leaves(self._spec)] if padding is None else padding.shapes)
        size = sizes[0] if drop_remainder and len(set(sizes)) == 1 else None
        spec = mapped(lambda leaf: stacked(replace(leaf, shape=next(left)), size), self._spec)
        inputs = [*function.captured, *(() if padding is None else padding.tensors)]
        return self._step("BucketBySequenceLengthDataset", spec, kernel, inputs, name)

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Dataset],
        window_size: Any = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Make datasets of elements with the same key, and chain what a function makes of them.

        Parameters
        ----------
        key_func : callable
            From the tensors of an element to its key, an int64.
        reduce_func : callable
            From a key and a dataset of elements that have it to a dataset.
        window_size : int or Tensor, optional
            How many elements make such a dataset.
        window_size_func : callable, optional
            Gives that number for a key. Either this or `window_size`.
        name : str, optional

        Raises
        ------
        ValueError
            If both or neither of the sizes are given, or `key_func` or `window_size_func` doesn't return one int64.
        TypeError
            If `reduce_func` doesn't return a dataset.
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError("Either the `window_size` argument or the `window_size_func` argument must be specified.")
        key = scalar_of(self._function(_number(key_func, "key_func"), "key_func"), "key_func")
        number = leaf_of(int64, [])
        reduced = Function(self.graph, reduce_func, [number, Nested(self._spec)], "reduce_func")
        spec = _dataset_spec(reduced, "reduce_func")
        functions, inputs = [key, reduced], [int_tensor(0 if window_size is None else window_size, "window_size")]
        if window_size_func is not None:
            sizes = Function(self.graph, _number(window_size_func, "window_size_func"), [number], "window_size_func")
            functions.append(scalar_of(sizes, "window_size_func"))

        def kernel(run: Any, ds: Any, size: Any, *values: Any) -> Any:
            keys, reduces, *size_of = bound_all(functions, run, values)
            return ds.group_by_window(keys, reduces, None if size_of else int(size), *size_of)

        return self._step("GroupByWindowDataset", spec, kernel, [*inputs, *captured_of(functions)], name)

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Leave out elements at random, so that their classes come as often as wanted.

        Parameters
        ----------
        class_func : callable
            From the tensors of an element to its class, an integer from 0 on.
        target_dist : list of float or Tensor
            How often each class is to come, in proportion.
        initial_dist : list of float or Tensor, optional
            How often each comes. Default: that is estimated from the elements.
        seed : int or Tensor, optional
        name : str, optional

        Returns
        -------
        Dataset
            Of pairs: the class and the element.

        Notes
        -----
        The choice is that of `queuecore.data.Dataset.rejection_resample`, and not TensorFlow's.
        """
        function = self._function(class_func, "class_func")
        pair, extra = seeds_of(seed)
        shares = [convert_to_tensor(target_dist)]
        if initial_dist is not None:
            shares.append(convert_to_tensor(initial_dist))
        first, last = len(shares), len(shares) + len(extra)

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            target, *initial = (np.asarray(one, np.float64).tolist() for one in values[:first])
            bound = function.bound(run, values[last:])
            return ds.rejection_resample(bound, target, *(initial or [None]), pair(*values[first:last]))

        inputs = [*shares, *extra, *function.captured]
        return self._step("RejectionResampleDataset", (function.spec, self._spec), kernel, inputs, name)

    def scan(
        self, initial_state: Any, scan_func: Callable[[Any, Any], tuple[Any, Any]], name: str | None = None
    ) -> Dataset:
        """Replace each element by a function's result, with a state that passes from element to element.

        Parameters
        ----------
        initial_state : structure of tensors
            The state of the first call.
        scan_func : callable
            From the state and an element, structures of tensors, to a pair: the next state and the new element.
        name : str, optional

        Raises
        ------
        TypeError
            If the function doesn't return a pair, or the state's structure or types change.
        """
        spec, state = tensors_of(initial_state, "initial_state")
        spec, function = settled(self, scan_func, spec, "scan_func", _state_of_scan)

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            initial = joined(spec, [_numpy(one) for one in values[: len(state)]])
            return ds.scan(initial, function.bound(run, values[len(state) :]))

        return self._step("ScanDataset", function.spec[1], kernel, [*state, *function.captured], name)

    def snapshot(
        self,
        path: Any,
        compression: str | None = "AUTO",
        reader_func: Callable[[Dataset], Dataset] | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Keep the elements of the first pass in files of a directory: see `queuecore.data.Dataset.snapshot`.

        Parameters
        ----------
        path : str or Tensor
            The directory.
        compression : {"AUTO", "NONE", "GZIP"}, optional
        reader_func : callable, optional
            From a dataset of the shards, which are datasets of their elements, to a dataset.
        shard_func : callable, optional
            From the tensors of an element to the number of its shard.
        name : str, optional
        """
        spec, functions = self._spec, []
        if reader_func is not None:
            functions.append(Function(self.graph, reader_func, [Nested(Nested(spec))], "reader_func"))
            spec = _dataset_spec(functions[0], "reader_func")
        if shard_func is not None:
            functions.append(self._sharding(shard_func))

        def kernel(run: Any, ds: Any, where: Any, *values: Any) -> Any:
            bound = bound_all(functions, run, values)
            reader = bound.pop(0) if reader_func is not None else None
            return ds.snapshot(where, compression, reader, *bound)

        inputs = [convert_to_tensor(path, string, "path"), *captured_of(functions)]
        return self._step("SnapshotDatasetV2", spec, kernel, inputs, name)

    def save(
        self,
        path: Any,
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Any = None,
    ) -> Operation:
        """Return an operation that writes all elements to files of a directory, for `load`.

        Parameters
        ----------
        path : str or Tensor
            The directory, which is made if it is missing.
        compression : {"GZIP", "AUTO", "NONE"}, optional
        shard_func : callable, optional
            From the tensors of an element to the number of its shard.
        checkpoint_args : None
            Not supported.
        """
        if checkpoint_args is not None:
            raise UnimplementedError("save: checkpoint_args isn't supported: files are written whole, or not at all")
        functions = []
        if shard_func is not None:
            functions.append(self._sharding(shard_func))

        def kernel(run: Any, ds: Any, where: Any, *values: Any) -> None:
            ds.save(where, compression, *bound_all(functions, run, values))

        inputs = [self._variant, convert_to_tensor(path, string, "path"), *captured_of(functions)]
        return self.graph.create_op("SaveDatasetV2", inputs, [], kernel, blocking=True)

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None) -> Any:
        """Fold all elements with a function, one after the other.

        Parameters
        ----------
        initial_state : structure of tensors
        reduce_func : callable
            From the state and an element, structures of tensors, to the next state.
        name : str, optional

        Returns
        -------
        structure of Tensor
            Each run goes over the dataset.

        Raises
        ------
        TypeError
            If the state's structure or types change.
        """
        spec, state = tensors_of(initial_state, "initial_state")
        spec, function = settled(self, reduce_func, spec, "reduce_func", lambda function: function.spec)
        old_leaves = leaves(spec)

        def kernel(run: Any, ds: Any, *values: Any) -> Any:
            initial = joined(spec, [_numpy(one) for one in values[: len(state)]])
            after = ds.reduce(initial, function.bound(run, values[len(state) :]))
            results = [
                value for leaf, part in zip(old_leaves, parts(spec, after), strict=True) for value in split(leaf, part)
            ]
            return results[0] if len(results) == 1 else results

        op = self.graph.create_op(
            "ReduceDataset", [self._variant, *state, *function.captured], outputs_of(spec), kernel, name, blocking=True
        )
        return shown(spec, op.outputs)

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the element of a dataset that has only one, as tensors."""
        op = self.graph.create_op(
            "DatasetToSingleElement",
            [self._variant],
            outputs_of(self._spec),
            lambda _, ds: components(self._spec, ds.get_single_element()),
            name,
            blocking=True,
        )
        return shown(self._spec, op.outputs)


Dataset.register()

# What steps are made of

STRING = leaf_of(string, [])
_RANGE = {1: ["stop"], 2: ["start", "stop"], 3: ["start", "stop", "step"]}


def dataset_op(
    type_: str, tensors: Sequence[Tensor], spec: Any, kernel: Callable[..., Any], name: str | None = None
) -> Dataset:
    """Return the dataset that an operation makes of tensors."""
    return Dataset(variant_of(type_, tensors, kernel, name), spec)


def variant_of(type_: str, tensors: Sequence[Tensor], kernel: Callable[..., Any], name: str | None = None) -> Tensor:
    graph = tensors[0].graph if tensors else get_default_graph()
    # The default graph, of which parameters are constants, may be another one than the dataset's.
    known = [None if one.graph is graph else constant_value(one) for one in tensors]
    inputs = [
        one if value is None else tensor_in(graph, value, one.dtype, one.op.name)
        for one, value in zip(tensors, known, strict=True)
    ]
    op = graph.create_op(type_, inputs, [(VARIANT, ())], kernel, name)
    op.attributes["dataset"] = True
    return op.outputs[0]


def checked(dataset: Any, what: str) -> Dataset:
    """Return a dataset. `TypeError`: the object is none."""
    if not isinstance(dataset, Dataset):
        raise TypeError(f"{what}: expected a tf.data.Dataset, got {dataset!r:.80}")
    return dataset


def general(datasets: Sequence[Dataset], what: str) -> Any:
    """Return the facts that hold for the elements of several datasets; errors as of `general_spec`."""
    first, *others = [one._spec for one in datasets]
    for other in others:
        first = general_spec(first, other, what)
    return first


def general_spec(first: Any, second: Any, label: str) -> Any:
    """Return the facts that hold for two elements.

    Raises
    ------
    TypeError
        If they have other structures, or other types.
    """
    found, other = leaves(first), leaves(second)
    if not same_structure(first, second) or any(not _of_one_type(a, b) for a, b in zip(found, other, strict=True)):
        raise TypeError(f"{label}: Incompatible dataset elements: {first!r} vs. {second!r}")
    made = [a if isinstance(a, (Nested, NoneLeaf)) else replace(a, shape=a.shape.most_general_with(b.shape))
            for a, b in zip(found, other, strict=True)]  # fmt: skip
    return packed(first, made)


def _of_one_type(first: Any, second: Any) -> bool:
    # Whether two parts are of one kind and type: all else may differ.
    if isinstance(first, LeafSpec) and isinstance(second, LeafSpec):
        return bool(first.dtype == second.dtype)
    if type(first) is not type(second):
        return False
    return isinstance(first, (Nested, NoneLeaf)) or bool(replace(first, shape=second.shape) == second)


def _alike(datasets: Sequence[Dataset], what: str) -> Any:
    if not datasets:
        raise ValueError(f"Invalid `datasets`. `datasets` should not be empty: {what}.")
    given = [checked(one, what) for one in datasets]
    try:
        return general(given, what)
    except TypeError as error:
        raise TypeError(f"Invalid `datasets`. `datasets` must have compatible element specs. {error}") from None


def _options(variant: Tensor) -> Options:
    made = Options()
    for tensor in variant.op.operands:
        if "dataset" in tensor.op.attributes:
            made = made.merged(_options(tensor))
    return made.merged(variant.op.attributes.get("options", Options()))


def known_leaf(spec: Any) -> Any:
    """Return what is known of a part of an element of `queuecore.data`."""
    kind = SparseLeaf if isinstance(spec, SparseSpec) else LeafSpec
    return kind(as_shape(spec.shape), as_dtype(spec.dtype))


def _leaf_like(spec: Any) -> Any:
    return spec if isinstance(spec, (LeafSpec, Nested, RaggedLeaf, SparseLeaf)) else leaf_of(spec.dtype, spec.shape)


def _dataset_spec(function: Function, what: str, step: str = "") -> Any:
    if not isinstance(function.spec, Nested):
        raise TypeError(
            f"The `{what}` argument must return a `Dataset` object. Got {function.result!r}"
            + (f" in {step}" if step else "")
        )
    return function.spec.spec


def scalar_of(function: Function, what: str) -> Function:
    """Return a function. `ValueError`: it returns something else than one int64."""
    spec = function.spec
    if not isinstance(spec, LeafSpec) or spec.dtype != int64 or spec.shape.ndims not in (0, None):
        raise ValueError(f"Invalid `{what}`. `{what}` must return a single `tf.int64` scalar tensor, not {spec!r}.")
    return function


def _number(function: Any, what: str, is_short: bool = False) -> Callable[..., Any]:
    # A function that may return a number of Python's, which is an int64 then; `is_short`: and one of 32 bits.
    if not callable(function):
        raise TypeError(f"{what} must be callable, not {function!r}")

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        made = function(*arguments)
        if not isinstance(made, Tensor):
            return convert_to_tensor(made, np.int64)
        return cast(made, np.int64) if is_short and made.dtype == int32 else made

    return call


def _check_state(spec: Any, new_spec: Any) -> None:
    """Raise `TypeError` unless a state keeps its structure and its types."""
    if not same_structure(spec, new_spec) or any(
        isinstance(a, Nested) or not _of_one_type(a, b) for a, b in zip(leaves(spec), leaves(new_spec), strict=True)
    ):
        raise TypeError(
            f"The element types for the new state must match the initial state. Expected {spec} but got {new_spec}."
        )


def settled(
    dataset: Dataset, function: Callable[..., Any], spec: Any, label: str, state_of: Callable[[Function], Any]
) -> tuple[Any, Function]:
    """Return what is known of a state, and the function called with it.

    These are the facts of a shape that the function doesn't change: it is called again if it changed any.
    """
    while True:
        found = Function(dataset.graph, function, [spec, dataset._spec], label)
        after = state_of(found)
        _check_state(spec, after)
        kept = general_spec(spec, after, label)
        if kept == spec:
            return spec, found
        spec = kept


def _state_of_scan(function: Function) -> Any:
    if not isinstance(function.spec, tuple) or len(function.spec) != 2:
        raise TypeError(
            "`scan_func` should return a pair consisting of new state and the output value. Instead its return value "
            f"is {function.result!r}"
        )
    return function.spec[0]


def captured_of(functions: Sequence[Function]) -> list[Tensor]:
    """Return what functions have captured, for `bound_all`."""
    return [tensor for one in functions for tensor in one.captured]


def bound_all(functions: Sequence[Function], run: Any, values: Sequence[Any]) -> list[Callable[..., Any]]:
    """Return functions with the values of what they have captured."""
    left = iter(values)
    return [one.bound(run, [next(left) for _ in one.captured]) for one in functions]


def int_tensor(value: Any, name: str) -> Tensor:
    """Return an integer as a tensor of 64 bits."""
    return convert_to_tensor(value, np.int64, name)


def count_tensor(value: Any) -> Tensor:
    """Return a count as a tensor; `None`: -1."""
    return int_tensor(-1 if value is None else value, "count")


def batch_tensors(batch_size: Any, drop_remainder: Any) -> tuple[list[Tensor], int | None]:
    """Return batch size and `drop_remainder` as tensors, and the number of rows if all batches have it."""
    size = int_tensor(batch_size, "batch_size")
    drop = convert_to_tensor(drop_remainder, bool, "drop_remainder")
    known = constant_value(size) if constant_value(drop) else None
    return [size, drop], None if known is None or known < 1 else int(known)


def _predicate(dataset: Dataset, predicate: Any) -> Function:
    function = dataset._function(predicate, "predicate")
    spec = function.spec
    if not isinstance(spec, LeafSpec) or spec.dtype != bool_ or spec.shape.ndims not in (0, None):
        raise ValueError(
            f"Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor, but its return type is {spec!r}."
        )
    return function


def seeds_of(seed: Any) -> tuple[Callable[..., Any], list[Tensor]]:
    """Return a function that makes the pair of seeds in a run, and the tensors that it reads."""
    graph_seed = get_default_graph().seed
    if isinstance(seed, Tensor):
        return lambda value: paired(graph_seed, int(value)), [seed]
    if seed is None and graph_seed is None:
        return lambda: Pair(draw_pair()), []
    pair = seed_pair(None if seed is None else int(seed))
    return lambda: pair, []


def names_of(value: Any) -> list[bytes]:
    return [value] if isinstance(value, bytes) else [bytes(one) for one in np.ravel(value)]


def _writable(value: Any) -> Any:
    return np.array(value) if isinstance(value, np.ndarray) and value.dtype != object else value


def _numpy(value: Any) -> Any:
    return value if isinstance(value, bytes) else np.asarray(value)[()]
