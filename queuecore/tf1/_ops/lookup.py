"""Tables that operations look keys up in. Each session has its own contents of a table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore.errors import FailedPreconditionError, InvalidArgumentError
from queuecore.tf1._graph.graph import (
    GraphKeys,
    Operation,
    Tensor,
    add_to_collection,
    apply_op,
    convert_to_tensor,
    folded_value,
    get_default_graph,
)
from queuecore.tf1._graph.values import DType, TensorShape, as_dtype, as_value, int64, name_of, string
from queuecore.tf1._ops.hashes import fingerprint64, keyed_hash
from queuecore.tf1._ops.ragged import RaggedTensor
from queuecore.tf1._ops.sparse import SparseTensor
from queuecore.tf1._ops.strings import number_of

__all__ = [
    "DenseHashTable",
    "FastHashSpec",
    "HashTable",
    "HasherSpec",
    "IdTableWithHashBuckets",
    "KeyValueTensorInitializer",
    "MutableHashTable",
    "StaticHashTable",
    "StaticVocabularyTable",
    "StrongHashSpec",
    "TextFileIdTableInitializer",
    "TextFileIndex",
    "TextFileInitializer",
    "TextFileStringTableInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]

Pairs = Callable[[Any], "tuple[Any, Any]"]


class _Held:
    # A table's contents in one session.
    def __init__(self) -> None:
        self.items: dict[Any, Any] = {}
        self.ready = False
        self.lock = threading.Lock()


def _keys(value: Any) -> list[Any]:
    return [value] if isinstance(value, bytes) else np.ravel(value).tolist()


def _shaped(values: list[Any], like: Any, dtype: DType) -> Any:
    made = np.empty(len(values), object if dtype == string else dtype.dtype)
    made[:] = values
    shaped = made.reshape(np.shape(like))
    return as_value(shaped) if dtype == string else shaped[()]


def _looked_up(keys: Any, look: Callable[[Tensor], Tensor]) -> Any:
    # The values of a tensor of keys, or of the keys that one of several parts has.
    if isinstance(keys, SparseTensor):
        return SparseTensor(keys.indices, look(keys.values), keys.dense_shape)
    if isinstance(keys, RaggedTensor):
        return keys.with_flat_values(look(keys.flat_values))
    return look(convert_to_tensor(keys))


class _Table:
    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, name: str) -> None:
        self.key_dtype = as_dtype(key_dtype)
        self.value_dtype = as_dtype(value_dtype)
        self.default_value = convert_to_tensor(default_value, self.value_dtype)
        self._check_default(self.default_value.shape)
        self.name = name

    def _check_default(self, shape: TensorShape) -> None:
        shape.ranked(0)

    def _held(self, run: Any) -> _Held:
        held: _Held = run.session.resource(self, _Held)
        if not held.ready:
            raise FailedPreconditionError(f"Table not initialized: {self.name}. Run tf.tables_initializer() first")
        return held

    def _checked(self, keys: Tensor) -> Tensor:
        if keys.dtype != self.key_dtype:
            raise TypeError(
                f"Signature mismatch. Keys must be dtype {name_of(self.key_dtype)}, got {name_of(keys.dtype)}."
            )
        return keys

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Return the value of each key, and the default value for those that aren't there.

        Parameters
        ----------
        keys : Tensor, SparseTensor or RaggedTensor
        name : str, optional

        Returns
        -------
        Tensor, SparseTensor or RaggedTensor
            As `keys`.

        Raises
        ------
        TypeError
            If the keys have another dtype.
        FailedPreconditionError
            In a run, if the table has no contents yet.
        """

        def look(given: Tensor) -> Tensor:
            inputs = [self._checked(given), self.default_value]
            shape = self._found_shape(given.shape)
            return apply_op("LookupTableFind", inputs, self.value_dtype, shape, self._find, name, pure=False)

        return _looked_up(keys, look)

    def _find(self, run: Any, keys: Any, default: Any) -> Any:
        items = self._held(run).items
        return _shaped([items.get(one, default) for one in _keys(keys)], keys, self.value_dtype)

    def _found_shape(self, keys: TensorShape) -> TensorShape:
        return keys

    def __getitem__(self, keys: Any) -> Any:
        """Return what `lookup` does."""
        return self.lookup(keys)

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys, and their values."""

        def kernel(run: Any) -> Any:
            items = self._held(run).items
            like = np.empty(len(items))
            return _shaped(list(items), like, self.key_dtype), _shaped(list(items.values()), like, self.value_dtype)

        outputs = [(self.key_dtype, [None]), (self.value_dtype, [None])]
        op = get_default_graph().create_op("LookupTableExport", [], outputs, kernel, name or "LookupTableExport")
        return op.outputs[0], op.outputs[1]

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of its keys, int64."""
        return apply_op("LookupTableSize", [], int64, (), lambda run: np.int64(len(self._held(run).items)), name,
                        pure=False)  # fmt: skip


class KeyValueTensorInitializer:
    """The contents of a table: keys, and the value of each.

    Parameters
    ----------
    keys, values : Tensor, vector
    key_dtype, value_dtype : dtype, optional
    name : str, optional

    Raises
    ------
    ValueError
        If there are not as many values as keys: if a run finds out, `InvalidArgumentError`.
    """

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        del name
        self.inputs = [convert_to_tensor(keys, key_dtype), convert_to_tensor(values, value_dtype)]
        self.key_dtype, self.value_dtype = (one.dtype for one in self.inputs)
        self.inputs[0].shape.assert_is_compatible_with(self.inputs[1].shape)

    def pairs(self, keys: Any, values: Any) -> tuple[Any, Any]:
        """Return the keys and the values."""
        if np.shape(keys) != np.shape(values):
            raise InvalidArgumentError(f"there are {np.size(values)} values for {np.size(keys)} keys")
        return _keys(keys), _keys(values)


class TextFileIndex:
    """Indices of a line's parts that are no columns: the whole line, or its number."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer:
    """The contents of a table: the lines of a file.

    Parameters
    ----------
    filename : Tensor of a string
    key_dtype : dtype
    key_index : int
        The number of the column of keys; or `TextFileIndex.WHOLE_LINE` or `TextFileIndex.LINE_NUMBER`.
    value_dtype : dtype
    value_index : int
        As `key_index`, of values.
    vocab_size : int, optional
        How many lines count; the file has as many or more. Default: all.
    delimiter : str
        Between columns. Default: a tab.
    name : str, optional

    Raises
    ------
    ValueError
        If a dtype doesn't fit what is read: line numbers are int64, whole lines are strings, as keys also integers.
    """

    def __init__(
        self, filename: Any, key_dtype: Any, key_index: int, value_dtype: Any, value_index: int,
        vocab_size: int | None = None, delimiter: str = "\t", name: str | None = None,
    ) -> None:  # fmt: skip
        del name
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        for column, index, dtype in (("Key", key_index, self.key_dtype), ("Value", value_index, self.value_dtype)):
            if index < -2:
                raise ValueError(f"Invalid {column.lower()} index {index}.")
            if index == TextFileIndex.LINE_NUMBER and dtype != int64:
                raise ValueError(f"Signature mismatch. {column}s must be dtype int64, got {name_of(dtype)}.")
            if index == TextFileIndex.WHOLE_LINE and dtype != string and not (column == "Key" and dtype.is_integer):
                wanted = "integer or string" if column == "Key" else "dtype string"
                raise ValueError(f"Signature mismatch. {column}s must be {wanted}, got {name_of(dtype)}.")
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"Invalid vocab_size {vocab_size}.")
        self.inputs = [convert_to_tensor(filename, string, name="asset_filepath")]
        self.inputs[0].shape.ranked(0)
        add_to_collection(GraphKeys.ASSET_FILEPATHS, self.inputs[0])
        self._columns = key_index, value_index
        self._count = vocab_size
        self._delimiter = delimiter.encode()

    def pairs(self, path: bytes) -> tuple[Any, Any]:
        """Return the keys and the values of a file."""
        from queuecore._readers.kinds import WholeFileReader

        lines = WholeFileReader(max_record_bytes=None).read([path])[1].split(b"\n")
        if not lines[-1]:
            lines.pop()
        lines = [one.removesuffix(b"\r") for one in lines]
        if self._count is not None:
            if len(lines) < self._count:
                raise InvalidArgumentError(
                    f"Invalid vocab_size in {path.decode()}: expected {self._count} but got {len(lines)}"
                )
            lines = lines[: self._count]
        return self._column(lines, 0, self.key_dtype), self._column(lines, 1, self.value_dtype)

    def _column(self, lines: list[bytes], which: int, dtype: DType) -> list[Any]:
        index = self._columns[which]
        if index == TextFileIndex.LINE_NUMBER:
            return list(range(len(lines)))
        column: list[Any] = []
        for number, line in enumerate(lines):
            parts = [line] if index == TextFileIndex.WHOLE_LINE else line.split(self._delimiter)
            if len(parts) <= index:
                raise InvalidArgumentError(
                    f"Invalid number of columns in line {number} ({line!r}): expected at least {index + 1} got "
                    f"{len(parts)}"
                )
            text = parts[max(index, 0)]
            try:
                column.append(text if dtype == string else number_of(text, dtype).item())
            except InvalidArgumentError:
                raise InvalidArgumentError(
                    f"Field {text.decode(errors='backslashreplace')} in line {number} is not a valid {name_of(dtype)}."
                ) from None
        return column


class TextFileIdTableInitializer(TextFileInitializer):
    """The contents of a table: lines of a file, and their numbers from 0 on; parameters as of the base class."""

    def __init__(
        self, filename: Any, key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER, vocab_size: int | None = None, delimiter: str = "\t",
        name: str | None = None, key_dtype: Any = string,
    ) -> None:  # fmt: skip
        super().__init__(filename, key_dtype, key_column_index, int64, value_column_index, vocab_size, delimiter, name)


class TextFileStringTableInitializer(TextFileInitializer):
    """The contents of a table: numbers from 0 on, and the lines of a file; parameters as of the base class."""

    def __init__(
        self, filename: Any, key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE, vocab_size: int | None = None, delimiter: str = "\t",
        name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(filename, int64, key_column_index, string, value_column_index, vocab_size, delimiter, name)


class HashTable(_Table):
    """A table whose contents its initializer gives once: `tf.tables_initializer` runs it.

    Parameters
    ----------
    initializer : KeyValueTensorInitializer or TextFileInitializer
    default_value : object
        The value of keys that aren't there.
    shared_name, name : str, optional

    Attributes
    ----------
    init, initializer : Operation
        Fills the table.
    key_dtype, value_dtype : DType
    default_value : Tensor
    """

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: str | None = None, name: str | None = None
    ) -> None:
        del shared_name
        graph = get_default_graph()
        table_name = graph.unique_name(name or "hash_table")
        super().__init__(initializer.key_dtype, initializer.value_dtype, default_value, table_name.rpartition("/")[2])

        def kernel(run: Any, *values: Any) -> None:
            resource: _Held = run.session.resource(self, _Held)
            with resource.lock:
                if resource.ready:
                    return
                items: dict[Any, Any] = {}
                for key, value in zip(*initializer.pairs(*values), strict=True):
                    if items.setdefault(key, value) != value:
                        raise FailedPreconditionError(
                            f"HashTable has different value for same key. Key {key!r} has {items[key]!r} and trying to "
                            f"add value {value!r}"
                        )
                resource.items, resource.ready = items, True

        self.init = graph.create_op(
            "InitializeTable", initializer.inputs, [], kernel, f"{table_name.rsplit('/')[-1]}_init"
        )
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, self.init)

    @property
    def initializer(self) -> Operation:
        """The operation that fills it."""
        return self.init


class StaticHashTable(HashTable):
    """As `HashTable`.

    Parameters
    ----------
    initializer, default_value
        As of `HashTable`.
    name : str, optional
    experimental_is_anonymous : bool, default False
        Accepted.
    """

    def __init__(
        self, initializer: Any, default_value: Any, name: str | None = None, experimental_is_anonymous: bool = False
    ) -> None:
        del experimental_is_anonymous
        super().__init__(initializer, default_value, name=name)


class MutableHashTable(_Table):
    """A table that runs fill.

    Parameters
    ----------
    key_dtype, value_dtype : dtype
    default_value : object
        The value of keys that aren't there: a scalar, or a vector, and then all values are vectors of its size.
    shared_name, name : str, optional
    checkpoint : bool, default True
        Accepted.

    Raises
    ------
    InvalidArgumentError
        If `default_value` has more dimensions.
    """

    _key_sides: tuple[int, ...] = ()

    def __init__(
        self, key_dtype: Any, value_dtype: Any, default_value: Any, shared_name: str | None = None,
        name: str = "MutableHashTable", checkpoint: bool = True,
    ) -> None:  # fmt: skip
        del checkpoint
        super().__init__(key_dtype, value_dtype, default_value, shared_name or get_default_graph().unique_name(name))

    def _check_default(self, shape: TensorShape) -> None:
        if shape.sides is None or None in shape.sides or len(shape.sides) > 1:
            raise InvalidArgumentError(f"Default value must be a vector, or a scalar, of a known shape: got {shape}")

    @property
    def _value_sides(self) -> tuple[int, ...]:
        sides: tuple[Any, ...] = self.default_value.shape.sides or ()
        return sides

    def _held(self, run: Any) -> _Held:
        held: _Held = run.session.resource(self, _Held)
        return held

    def _names(self, keys: Any) -> list[Any]:
        # The keys in a tensor, as a dict takes them.
        return _keys(keys)

    def _find(self, run: Any, keys: Any, default: Any) -> Any:
        names = self._names(keys)
        held = self._held(run)
        fallback = _rows(default, self._value_sides)[0]
        with held.lock:
            values = [held.items.get(name, fallback) for name in names]
        sides = np.shape(keys)
        return _stacked(values, sides[: len(sides) - len(self._key_sides)], self._value_sides, self.value_dtype)

    def _found_shape(self, keys: TensorShape) -> TensorShape:
        if keys.sides is None:
            return keys
        return TensorShape((*keys.sides[: len(keys.sides) - len(self._key_sides)], *self._value_sides))

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys, and their values."""

        def kernel(run: Any) -> Any:
            held = self._held(run)
            with held.lock:
                items = dict(held.items)
            return (
                _stacked(list(items), [len(items)], self._key_sides, self.key_dtype),
                _stacked(list(items.values()), [len(items)], self._value_sides, self.value_dtype),
            )

        outputs = [(self.key_dtype, [None, *self._key_sides]), (self.value_dtype, [None, *self._value_sides])]
        op = get_default_graph().create_op("LookupTableExport", [], outputs, kernel, name or "LookupTableExport")
        return op.outputs[0], op.outputs[1]

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Return an operation that sets the values of keys."""
        inputs = [self._checked(convert_to_tensor(keys, self.key_dtype)), convert_to_tensor(values, self.value_dtype)]

        def kernel(run: Any, new: Any, items: Any) -> None:
            names = self._names(new)
            wanted = (*np.shape(new)[: np.ndim(new) - len(self._key_sides)], *self._value_sides)
            if np.shape(items) != wanted:
                raise InvalidArgumentError(f"Expected shape {list(wanted)} for value, got {list(np.shape(items))}")
            rows = _rows(items, self._value_sides)
            held = self._held(run)
            with held.lock:
                held.items.update(zip(names, rows, strict=True))

        return get_default_graph().create_op("LookupTableInsert", inputs, [], kernel, name or "LookupTableInsert")

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Return an operation that removes keys; absent ones don't matter."""
        inputs = [self._checked(convert_to_tensor(keys, self.key_dtype))]

        def kernel(run: Any, old: Any) -> None:
            names = self._names(old)
            held = self._held(run)
            with held.lock:
                for key in names:
                    held.items.pop(key, None)

        return get_default_graph().create_op("LookupTableRemove", inputs, [], kernel, name or "LookupTableRemove")


def _rows(value: Any, sides: tuple[int, ...]) -> list[Any]:
    # The scalars of an array, or its rows, as objects of Python's.
    return [tuple(row) for row in np.reshape(value, (-1, *sides)).tolist()] if sides else _keys(value)


def _stacked(rows: list[Any], outer: Sequence[int], sides: tuple[int, ...], dtype: DType) -> Any:
    array = np.empty((len(rows), *sides), object if dtype == string else dtype.dtype)
    if rows:
        array[:] = rows
    shaped = array.reshape((*outer, *sides))
    return as_value(shaped) if dtype == string else shaped[()]


class DenseHashTable(MutableHashTable):
    """A table that runs fill, whose keys may be vectors.

    Parameters
    ----------
    key_dtype, value_dtype, default_value
        As of `MutableHashTable`.
    empty_key, deleted_key : object
        Two keys that the table can't have: scalars, or vectors, and then all keys are vectors of their size.
    initial_num_buckets : int, optional
        A power of 2. Not used.
    name : str, optional
    checkpoint : bool, default True
        Accepted.
    shared_name : str, optional

    Raises
    ------
    InvalidArgumentError
        If the two keys are equal, or have different shapes, or are known only in a run; or the number is no power of 2.

    Notes
    -----
    Keys of a run have the shape ``(n, *shape of a key)``; a scalar one may also come alone. Others, and those two keys,
    are an `InvalidArgumentError` of the run. Unlike TensorFlow's, `export` gives only keys that the table has.
    """

    def __init__(
        self, key_dtype: Any, value_dtype: Any, default_value: Any, empty_key: Any, deleted_key: Any,
        initial_num_buckets: int | None = None, name: str = "MutableDenseHashTable", checkpoint: bool = True, *,
        shared_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(key_dtype, value_dtype, default_value, shared_name, name, checkpoint)
        empty, deleted = (folded_value(convert_to_tensor(key, self.key_dtype)) for key in (empty_key, deleted_key))
        if empty is None or deleted is None:
            raise InvalidArgumentError("Empty and deleted keys must be constants")
        self._key_sides = np.shape(empty)
        if np.shape(deleted) != self._key_sides:
            raise InvalidArgumentError(
                f"Empty and deleted keys must have same shape, got shapes: {list(self._key_sides)} and "
                f"{list(np.shape(deleted))}"
            )
        buckets = initial_num_buckets or 1
        if buckets < 1 or buckets & (buckets - 1):
            raise InvalidArgumentError(f"Number of buckets must be a power of 2 greater than 0, got {buckets}")
        self._forbidden = {_rows(deleted, self._key_sides)[0]: "deleted_key"}
        if _rows(empty, self._key_sides)[0] in self._forbidden:
            raise InvalidArgumentError("Empty and deleted keys cannot be equal")
        self._forbidden[_rows(empty, self._key_sides)[0]] = "empty_key"

    def _names(self, keys: Any) -> list[Any]:
        sides = np.shape(keys)
        if sides[1:] != self._key_sides or not sides and self._key_sides:
            wanted = [sides[0] if sides else 1, *self._key_sides]
            raise InvalidArgumentError(f"Expected key shape {wanted} got {list(sides)}")
        names = _rows(keys, self._key_sides)
        for name in names:
            if name in self._forbidden:
                raise InvalidArgumentError(f"Using the {self._forbidden[name]} as a table key is not allowed: {name!r}")
        return names


class HasherSpec(NamedTuple):
    """The hash function that gives unknown keys their bucket.

    Attributes
    ----------
    hasher : {"fasthash", "stronghash"}
    key : list of two int, or None
    """

    hasher: str
    key: Any


FastHashSpec = HasherSpec("fasthash", None)


def StrongHashSpec(key: Sequence[int]) -> HasherSpec:  # noqa: N802
    """Return the function with a key of two numbers. `ValueError`: it has another number of them."""
    if len(key) != 2:
        raise ValueError(f"key must have size 2, got {len(key)}.")
    return HasherSpec("stronghash", [int(one) for one in key])


class IdTableWithHashBuckets:
    """A table of numbers in which keys that aren't there share a few further numbers.

    Parameters
    ----------
    table : HashTable or None
        `None`: there are only the shared numbers.
    num_oov_buckets : int
        How many numbers unknown keys share, behind the table's.
    hasher_spec : HasherSpec
    name : str, optional
    key_dtype : dtype, optional
        Default: that of the table, or strings.
    """

    def __init__(
        self, table: Any, num_oov_buckets: int, hasher_spec: HasherSpec = FastHashSpec, name: str | None = None,
        key_dtype: Any = None,
    ) -> None:  # fmt: skip
        if table is None and num_oov_buckets <= 0:
            raise ValueError("table must be provided if num_oov_buckets is not positive")
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"hasher_spec must be of type HasherSpec, got {hasher_spec}")
        self.table = table
        self.name = name or "id_table"
        self.key_dtype = as_dtype(key_dtype or (string if table is None else table.key_dtype))
        self.value_dtype = int64
        self._buckets = num_oov_buckets
        self._hasher = hasher_spec.hasher
        self._hashed = fingerprint64 if hasher_spec.key is None else keyed_hash(hasher_spec.key)

    @property
    def init(self) -> Any:
        """The operation that fills it."""
        return get_default_graph().create_op("NoOp", [], [], lambda run: None, "NoOp") if self.table is None else (
            self.table.init)  # fmt: skip

    initializer = init

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Return the number of each key, int64; parameters and errors as of `HashTable.lookup`.

        `ValueError`: there is no hash function of that name.
        """
        if self._hasher not in ("fasthash", "stronghash"):
            raise ValueError(f"Unknown hasher {self._hasher}: it is 'fasthash' or 'stronghash'")

        def kernel(run: Any, value: Any) -> Any:
            items = {} if self.table is None else self.table._held(run).items
            found = [items[one] if one in items else self._bucket(one, len(items)) for one in _keys(value)]
            return _shaped(found, value, int64)

        def look(given: Tensor) -> Tensor:
            if given.dtype != self.key_dtype and not (given.dtype.is_integer and self.key_dtype.is_integer):
                raise TypeError(
                    f"Signature mismatch. Keys must be dtype {name_of(self.key_dtype)}, got {name_of(given.dtype)}."
                )
            return apply_op("IdTableFind", [given], int64, given.shape, kernel, name, pure=False)

        return _looked_up(keys, look)

    def _bucket(self, key: Any, first: int) -> int:
        return first + self._hashed(key if isinstance(key, bytes) else str(key).encode()) % self._buckets

    def size(self, name: str | None = None) -> Tensor:
        """Return how many numbers there are, int64."""

        def kernel(run: Any) -> Any:
            known = 0 if self.table is None else len(self.table._held(run).items)
            return np.int64(known + self._buckets)

        return apply_op("IdTableSize", [], int64, (), kernel, name, pure=False)


class StaticVocabularyTable(IdTableWithHashBuckets):
    """As `IdTableWithHashBuckets`, of the contents that an initializer gives.

    Parameters
    ----------
    initializer : KeyValueTensorInitializer, TextFileInitializer or None
        Its values are the numbers from 0 on.
    num_oov_buckets : int
    lookup_key_dtype : dtype, optional
    name : str, optional
    experimental_is_anonymous : bool, default False
        Accepted.
    """

    def __init__(
        self, initializer: Any, num_oov_buckets: int, lookup_key_dtype: Any = None, name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:  # fmt: skip
        del experimental_is_anonymous
        if num_oov_buckets <= 0:
            raise ValueError(f"`num_oov_buckets` must be > 0; use StaticHashTable instead. Got {num_oov_buckets}")
        if initializer is not None and initializer.value_dtype != int64:
            raise TypeError(f"Invalid `value_dtype`, expected int64 but got {name_of(initializer.value_dtype)}.")
        table = None if initializer is None else HashTable(initializer, -1, name=name)
        super().__init__(table, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)


def _with_buckets(table: HashTable, buckets: int, hasher_spec: HasherSpec) -> Any:
    return IdTableWithHashBuckets(table, buckets, hasher_spec) if buckets else table


def _check_buckets(buckets: int) -> None:
    if buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {buckets}.")


def index_table_from_tensor(
    mapping: Any, num_oov_buckets: int = 0, default_value: int = -1, hasher_spec: HasherSpec = FastHashSpec,
    dtype: Any = string, name: str | None = None,
) -> Any:  # fmt: skip
    """Return a table of the places of strings in a vector.

    Parameters
    ----------
    mapping : Tensor, vector
    num_oov_buckets : int, default 0
        How many numbers, behind those of places, keys share that aren't there.
    default_value : int, default -1
        Without such numbers, the value of keys that aren't there.
    hasher_spec : HasherSpec
    dtype : dtype
        Of the keys.
    name : str, optional

    Returns
    -------
    HashTable or IdTableWithHashBuckets

    Raises
    ------
    ValueError
        If there is no vector, or `num_oov_buckets` is below 0.
    """
    if mapping is None:
        raise ValueError("mapping must be specified.")
    _check_buckets(num_oov_buckets)
    kind = as_dtype(dtype)
    keys = convert_to_tensor(mapping, kind if kind == string or not isinstance(mapping, Tensor) else None)
    numbers = apply_op("VocabularyPlaces", [keys], int64, keys.shape, lambda x: np.arange(len(x)), None)
    table = HashTable(KeyValueTensorInitializer(keys, numbers), default_value, name=name or "string_to_index")
    return _with_buckets(table, num_oov_buckets, hasher_spec)


def index_table_from_file(
    vocabulary_file: Any = None, num_oov_buckets: int = 0, vocab_size: int | None = None, default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec, key_dtype: Any = string, name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE, value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:  # fmt: skip
    """Return a table of the numbers of a file's lines.

    Parameters
    ----------
    vocabulary_file : str or Tensor of a string
    num_oov_buckets, default_value, hasher_spec, name
        As of `index_table_from_tensor`.
    vocab_size, key_column_index, value_column_index, delimiter
        As of `TextFileInitializer`.
    key_dtype : dtype
        Strings, or int64, as which keys of a column are read.

    Returns
    -------
    HashTable or IdTableWithHashBuckets

    Raises
    ------
    ValueError
        If there is no file's name, or a number is wrong.
    """
    if vocabulary_file is None or isinstance(vocabulary_file, str) and not vocabulary_file:
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    _check_buckets(num_oov_buckets)
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"vocab_size must be greater than 0, got {vocab_size}.")
    kind = as_dtype(key_dtype)
    column = 0 if kind != string and key_column_index == TextFileIndex.WHOLE_LINE else key_column_index
    lines = TextFileIdTableInitializer(vocabulary_file, column, value_column_index, vocab_size, delimiter, None, kind)
    return _with_buckets(HashTable(lines, default_value, name=name or "string_to_index"), num_oov_buckets, hasher_spec)


def index_to_string_table_from_tensor(mapping: Any, default_value: Any = "UNK", name: str | None = None) -> HashTable:
    """Return a table of the strings of a vector by their places; other places have the default value."""
    if mapping is None:
        raise ValueError("mapping must be specified.")
    values = convert_to_tensor(mapping, string)
    numbers = apply_op("VocabularyPlaces", [values], int64, values.shape, lambda x: np.arange(len(x)), None)
    return HashTable(KeyValueTensorInitializer(numbers, values), default_value, name=name or "index_to_string")


def index_to_string_table_from_file(
    vocabulary_file: Any, vocab_size: int | None = None, default_value: Any = "UNK", name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER, value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> HashTable:  # fmt: skip
    """Return a table of the lines of a file by their numbers; parameters as of `index_table_from_file`."""
    if vocabulary_file is None or isinstance(vocabulary_file, str) and not vocabulary_file:
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"vocab_size must be greater than 0, got {vocab_size}.")
    lines = TextFileStringTableInitializer(vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter)
    return HashTable(lines, default_value, name=name or "index_to_string")
