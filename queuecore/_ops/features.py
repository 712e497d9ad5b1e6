"""Descriptions of features for `ops.parse_example` and its like, and their way to columns and back.

Native code knows columns: the values of one key in one form. A description (`FixedLenFeature` and so on) needs one or
more of them, and two may share one. Sparse and ragged components are put together from columns here, for a whole batch
at a time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from queuecore.errors import DtypeError, InvalidArgumentError, ResourceExhaustedError
from queuecore.ragged import Ragged, Sparse

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SparseFeature",
    "VarLenFeature",
]

# The numbers are those of example.pxd.
_BYTES, _FLOAT, _INT = 1, 2, 3
_FIXED, _PADDED, _FLAT = 0, 1, 2
_DTYPES: dict[int, np.dtype[Any]] = {_BYTES: np.dtype("S"), _FLOAT: np.dtype(np.float32), _INT: np.dtype(np.int64)}
_MAX_DIMS = 30
_MAX_VALUES = 2**48
# The limit on rows without values that the ids of one batch may add, beyond a few for each value.
_SPARE_ROWS = 2**24

Array = np.ndarray[Any, Any]


def _kind(label: str, dtype: Any) -> int:
    """Return the number of a dtype: int64, float32 or bytes."""
    try:
        value_dtype = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"{label}: {dtype!r} is no dtype: {error}") from error
    for kind, known in _DTYPES.items():
        if value_dtype == known and dtype is not None:
            return kind
    raise DtypeError(f"{label}: the dtype must be int64, float32 or bytes, not {value_dtype}")


def _dims(label: str, shape: Any) -> tuple[int, ...]:
    """Return a shape in which every dimension is known."""
    sides = list(shape) if isinstance(shape, (Sequence, np.ndarray)) else [shape]
    if any(side is None for side in sides):
        hint = ". FixedLenSequenceFeature takes any number of rows" if sides[0] is None else ""
        raise InvalidArgumentError(f"{label}: all dimensions of the shape must be known, not {shape}{hint}")
    try:
        dims = tuple(int(side) for side in sides)
    except (TypeError, ValueError):
        dims = (-1,)
    total = 1
    for side in dims:
        total *= max(side, 1)
    if any(side < 0 for side in dims) or any(dim != side for dim, side in zip(dims, sides, strict=False)):
        raise InvalidArgumentError(f"{label}: a shape is a tuple of whole numbers from 0 on, not {shape!r}")
    if len(dims) > _MAX_DIMS or total > _MAX_VALUES:
        raise InvalidArgumentError(f"{label}: the shape {shape} is too large")
    return dims


def _default(label: str, kind: int, count: int, default: Any) -> Any:
    """Return a default's values: a flat array, or a list of bytes."""
    array = np.asarray(default, object if kind == _BYTES else None)
    if array.size != count:
        raise InvalidArgumentError(f"{label}: default_value has {array.size} values, but {count} are needed")
    if kind == _BYTES:
        flat = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
        if not all(isinstance(one, bytes) for one in flat):
            raise DtypeError(f"{label}: default_value must be bytes, not {default!r}")
        return [bytes(one) for one in flat]
    dtype = _DTYPES[kind]
    # An integer beyond int64 is an array of uint64 or of objects.
    fits = array.dtype.kind in ("iu" if kind == _INT else "iuf") and not (kind == _INT and array.dtype == np.uint64)
    if not fits and array.size:
        raise DtypeError(f"{label}: default_value must be {dtype}, not {default!r}")
    return np.ascontiguousarray(array.reshape(-1), dtype)


def _splits_dtype(label: str, dtype: Any) -> np.dtype[Any]:
    splits_dtype: np.dtype[Any]
    try:
        splits_dtype = np.dtype(dtype)
    except (TypeError, ValueError):
        splits_dtype = np.dtype(object)
    if splits_dtype not in (np.int32, np.int64):
        raise DtypeError(f"{label}: row_splits_dtype must be int32 or int64, not {dtype!r}")
    return splits_dtype


@dataclass(frozen=True)
class FixedLenFeature:
    """A feature with the same number of values in every Example: a dense array.

    Parameters
    ----------
    shape : int or tuple of int
        Of one Example's array; ``()`` for one value.
    dtype : dtype
        ``np.int64``, ``np.float32`` or ``bytes``.
    default_value : optional
        The values of an Example that lacks the feature: as many as the shape has. Without it, a missing feature is an
        error. A feature that is there but has no values is an error in any case.
    """

    shape: Any
    dtype: Any
    default_value: Any = None


@dataclass(frozen=True)
class VarLenFeature:
    """A feature with any number of values: a `Sparse`, in whose rows the values stand first.

    Parameters
    ----------
    dtype : dtype
        ``np.int64``, ``np.float32`` or ``bytes``.
    """

    dtype: Any


@dataclass(frozen=True)
class FixedLenSequenceFeature:
    """A feature of any number of rows of one shape: a dense array; in a batch, padded to the longest Example.

    Parameters
    ----------
    shape : int or tuple of int
        Of one row.
    dtype : dtype
        ``np.int64``, ``np.float32`` or ``bytes``.
    allow_missing : bool, default False
        Whether an Example without it has no rows. Must be `True`, but in feature lists.
    default_value : optional
        One value that fills up shorter Examples of a batch; 0 or ``b""`` if not given. Not for feature lists.

    Notes
    -----
    The longest Example sets the size of the whole batch. `RaggedFeature` takes no more memory than there are values.
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


@dataclass(frozen=True)
class SparseFeature:
    """Two or more features that together are a sparse array: one of values, the others of their indices.

    Parameters
    ----------
    index_key : str, or list of str
        The feature with the indices; a list has one for each dimension.
    value_key : str
        The feature with the values.
    dtype : dtype
        Of the values: ``np.int64``, ``np.float32`` or ``bytes``.
    size : int, or list of int
        The length of each dimension. Indices are not compared with it.
    already_sorted : bool, default False
        Whether values are in the order of their indices, and need not be sorted.
    """

    index_key: Any
    value_key: Any
    dtype: Any
    size: Any
    already_sorted: bool = False


@dataclass(frozen=True)
class RaggedFeature:
    """A feature with any number of values, as a `Ragged`; other features may divide its values into rows.

    Parameters
    ----------
    dtype : dtype
        ``np.int64``, ``np.float32`` or ``bytes``.
    value_key : str, optional
        The feature with the values; the description's own key if not given.
    partitions : sequence of partitions, default ()
        How values are divided into rows, these into rows of rows, and so on, outermost first:
        ``RaggedFeature.RowSplits(key)``, ``RowLengths``, ``RowStarts``, ``RowLimits`` or ``ValueRowIds`` name an int64
        feature that says it; ``UniformRowLength(length)`` needs none.
    row_splits_dtype : dtype, default int32
        ``np.int32`` or ``np.int64``.
    validate : bool, default False
        Not used: partitions are always checked against the values.
    """

    @dataclass(frozen=True)
    class RowSplits:
        """The partition by bounds of rows: a 0, and the end of each row; `key` names the feature."""

        key: Any

    @dataclass(frozen=True)
    class RowLengths:
        """The partition by the length of each row; `key` names the feature."""

        key: Any

    @dataclass(frozen=True)
    class RowStarts:
        """The partition by the place where each row begins; `key` names the feature."""

        key: Any

    @dataclass(frozen=True)
    class RowLimits:
        """The partition by the place where each row ends; `key` names the feature."""

        key: Any

    @dataclass(frozen=True)
    class ValueRowIds:
        """The partition by the row of each value; `key` names the feature. A row that no value names is empty."""

        key: Any

    @dataclass(frozen=True)
    class UniformRowLength:
        """The partition into rows of `length` items each."""

        length: Any

    KEYED: ClassVar[tuple[type[Any], ...]] = (RowSplits, RowLengths, RowStarts, RowLimits, ValueRowIds)

    dtype: Any
    value_key: Any = None
    partitions: Any = ()
    row_splits_dtype: Any = np.int32
    validate: bool = False


class FeatureColumn(NamedTuple):
    """The values of one key in one form."""

    section: int
    key: bytes
    kind: int
    form: int
    dims: tuple[int, ...]
    required: bool
    default: Any

    def outputs(self, batch: bool) -> list[tuple[str, np.dtype[Any], tuple[Any, ...]]]:
        """Return name, dtype and shape of each output, with "n" for the number of records and "m" for one more."""
        name = self.key.decode(errors="backslashreplace")
        outer = ("n",) if batch else ()
        int64 = _DTYPES[_INT]
        if self.form == _FIXED:
            return [(name, _DTYPES[self.kind], (*outer, *self.dims))]
        if self.form == _PADDED:
            made: list[tuple[str, np.dtype[Any], tuple[Any, ...]]]
            made = [(name, _DTYPES[self.kind], (*outer, None, *self.dims))]
            return made + [(f"{name}.lengths", int64, ("n",))] * (self.section == 1 and batch)
        made = [(f"{name}.values", _DTYPES[self.kind], (None,))]
        made += [(f"{name}.step_splits", int64, (None,))] * (self.section == 1)
        return made + [(f"{name}.row_splits", int64, ("m",))] * batch


class _Rows(NamedTuple):
    """A flat column after parsing: splits of steps in feature lists, splits of records in a batch."""

    values: Any
    step_splits: Array | None
    row_splits: Array | None


def _key(label: str, key: Any) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise InvalidArgumentError(f"{label}: a key must be a string, not {key!r}")


_FEATURES = (FixedLenFeature, FixedLenSequenceFeature, VarLenFeature, SparseFeature, RaggedFeature)


class ExamplePlan:
    """The columns that some descriptions of features need, and the way back to components.

    Parameters
    ----------
    label : str
        For messages.
    sections : list of dict
        Descriptions by key: of the features (the context), and of feature lists.
    sequence : bool
        Whether these are SequenceExamples, with narrower rules.
    """

    def __init__(self, label: str, sections: Sequence[Mapping[Any, Any] | None], sequence: bool) -> None:
        self.label = label
        self.sequence = sequence
        self.columns: list[FeatureColumn] = []
        self.sections = [dict(section or {}) for section in sections]
        self._flat: dict[tuple[int, bytes], int] = {}
        # The columns of each description, by section and the description's key.
        self._needs: list[dict[Any, list[int]]] = [{}, {}]
        kinds: dict[tuple[int, bytes], int] = {}
        for number, section in enumerate(self.sections):
            for key, feature in section.items():
                if isinstance(feature, _FEATURES):  # lists in it are the user's
                    section[key] = feature = copy.deepcopy(feature)
                where = f"{label}: feature {key!r}"
                self._needs[number][key] = self._add(where, number, _key(where, key), feature)
        for column in self.columns:
            if kinds.setdefault(column[:2], column.kind) != column.kind:
                raise InvalidArgumentError(f"{label}: {column.key!r} is asked for with two different dtypes")

    def bound(self, batch: bool) -> tuple[list[Any], list[tuple[str, np.dtype[Any], tuple[Any, ...]]]]:
        """Return the columns for native code, and their outputs."""
        outputs: list[tuple[str, np.dtype[Any], tuple[Any, ...]]] = []
        columns = []
        for column in self.columns:
            columns.append((*column, len(outputs)))
            prefix = ("context.", "feature_lists.")[column.section] if self.sequence else ""
            outputs += [(prefix + name, dtype, shape) for name, dtype, shape in column.outputs(batch)]
        return columns, outputs

    def _add(self, place: str, section: int, key: bytes, feature: Any) -> list[int]:
        if isinstance(feature, FixedLenFeature) and section == 0:
            return [self._fixed(place, key, feature)]
        if isinstance(feature, FixedLenSequenceFeature) and (section == 1 or not self.sequence):
            return [self._padded(place, section, key, feature)]
        if isinstance(feature, VarLenFeature):
            return [self._column(section, key, _kind(place, feature.dtype))]
        if isinstance(feature, SparseFeature) and not self.sequence:
            self._sizes(place, feature)
            needs = [self._column(0, _key(place, feature.value_key), _kind(place, feature.dtype))]
            return needs + [self._column(0, _key(place, one), _INT) for one in _listed(feature.index_key)]
        if isinstance(feature, RaggedFeature):
            return self._ragged(place, section, key, feature)
        part = ("the context", "feature lists")[section] if self.sequence else "features"
        raise InvalidArgumentError(f"{place}: {type(feature).__name__} does not go into {part}: {feature!r}")

    def _column(self, section: int, key: bytes, kind: int) -> int:
        """Return the flat column of a key."""
        made = FeatureColumn(section, key, kind, _FLAT, (), False, None)
        at = self._flat.setdefault((section, key), len(self.columns))
        if at == len(self.columns):
            self.columns.append(made)
        elif self.columns[at].kind != kind:
            raise InvalidArgumentError(f"{self.label}: {key!r} is asked for with two different dtypes")
        return at

    def _fixed(self, where: str, key: bytes, feature: FixedLenFeature) -> int:
        kind = _kind(where, feature.dtype)
        dims = _dims(where, feature.shape)
        default = feature.default_value
        if default is not None:
            default = _default(where, kind, math.prod(map(int, dims)), default)
        self.columns.append(FeatureColumn(0, key, kind, _FIXED, dims, default is None, default))
        return len(self.columns) - 1

    def _padded(self, place: str, section: int, key: bytes, feature: FixedLenSequenceFeature) -> int:
        kind = _kind(place, feature.dtype)
        dims = _dims(place, feature.shape)
        if 0 in dims:
            raise InvalidArgumentError(f"{place}: a row of shape {dims} has no values, so that rows can't be counted")
        default: Any = feature.default_value
        if section == 1:
            if default is not None:
                raise InvalidArgumentError(f"{place}: default_value must be None in feature lists")
        elif not feature.allow_missing:
            raise InvalidArgumentError(f"{place}: FixedLenSequenceFeature requires allow_missing to be True")
        if default is None:
            default = b"" if kind == _BYTES else 0
        default = _default(place, kind, 1, default)
        self.columns.append(FeatureColumn(section, key, kind, _PADDED, dims, not feature.allow_missing, default))
        return len(self.columns) - 1

    def _sizes(self, place: str, feature: SparseFeature) -> list[int]:
        keys, sizes = feature.index_key, feature.size
        if _is_list(keys) != _is_list(sizes) or len(_listed(keys)) != len(_listed(sizes)) or not _listed(keys):
            raise InvalidArgumentError(f"{place}: index_key and size must be one each, or equally long lists")
        made = []
        for size in _listed(sizes):
            if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 0:
                raise InvalidArgumentError(f"{place}: size must be whole numbers from 0 on, not {sizes!r}")
            made.append(int(size))
        return made

    def _ragged(self, place: str, section: int, key: bytes, feature: RaggedFeature) -> list[int]:
        _splits_dtype(place, feature.row_splits_dtype)
        if feature.value_key is not None:
            key = _key(place, feature.value_key)
        needs = [self._column(section, key, _kind(place, feature.dtype))]
        for part in feature.partitions:
            if isinstance(part, RaggedFeature.KEYED):
                needs.append(self._column(section, _key(place, part.key), _INT))
            elif not isinstance(part, RaggedFeature.UniformRowLength):
                raise InvalidArgumentError(f"{place}: {part!r} is no partition")
            elif not isinstance(part.length, (int, np.integer)) or part.length < 1:
                raise InvalidArgumentError(f"{place}: rows must be of a whole number of values, not {part.length!r}")
        return needs

    # ---- back ------------------------------------------------------------------------------------------------------

    def assemble(self, arrays: list[Any], batch: bool) -> tuple[list[dict[Any, Any]], dict[Any, Any]]:
        """Return the components by key, of each section, and the lengths of padded feature lists."""
        at = 0
        columns: list[Any] = []
        for column in self.columns:
            count = len(column.outputs(batch))
            part = arrays[at : at + count]
            at += count
            if column.form != _FLAT:
                columns.append(part)
            else:
                columns.append(_Rows(part[0], part[1] if column.section else None, part[-1] if batch else None))
        components: list[dict[Any, Any]] = [{}, {}]
        lengths: dict[Any, Any] = {}
        for number, section in enumerate(self.sections):
            for key, feature in section.items():
                needs = [columns[index] for index in self._needs[number][key]]
                place = f"{self.label}: feature {key!r}"
                if isinstance(feature, VarLenFeature):
                    components[number][key] = _sparse(needs[0])
                elif isinstance(feature, SparseFeature):
                    components[number][key] = _placed(place, feature, self._sizes(place, feature), needs)
                elif isinstance(feature, RaggedFeature):
                    components[number][key] = _nested(place, feature, needs)
                else:
                    components[number][key] = needs[0][0]
                    if number == 1:
                        lengths[key] = needs[0][1] if batch else np.array(len(needs[0][0]), np.int64)
        return components, lengths

    def assembled(self, arrays: list[Any], batch: bool) -> dict[Any, Any]:
        """Return the components by key, of Examples parsed one by one: flat columns of a batch are `Ragged`.

        Without `batch` also of a vector of Examples, parsed as one element.
        """
        if not batch and len(arrays) == sum(len(column.outputs(True)) for column in self.columns):
            return self.assemble(arrays, True)[0][0]
        parts: list[Any] = []
        for column, part in zip(self.columns, arrays, strict=True):
            if not batch or column.form == _FIXED:
                parts.append(part)
            elif column.form == _FLAT:
                parts += [part.values, part.row_splits]
            else:
                parts.append(_padded(part, column))
        return self.assemble(parts, batch)[0][0]

    def spec(self, fill: Callable[[np.dtype[Any], tuple[Any, ...]], Any]) -> dict[Any, Any]:
        """Return, by key, the result of `fill` for each component's dtype and shape; `None`: a side may differ."""
        specs = {}
        for key, feature in self.sections[0].items():
            column = self.columns[self._needs[0][key][0]]
            shape: tuple[int | None, ...] = column.dims
            if isinstance(feature, SparseFeature):
                shape = tuple(self._sizes(key, feature))
            elif isinstance(feature, RaggedFeature):
                shape = (None,) * (1 + len(feature.partitions))
            elif column.form != _FIXED:
                shape = (None, *shape)
            specs[key] = fill(_DTYPES[column.kind], shape)
        return specs


def _padded(rows: Ragged, column: FeatureColumn) -> Any:
    longest = _longest(rows.row_splits)
    if column.kind == _BYTES:
        fill = column.default[0]
        lists = [row + [fill] * (longest - len(row)) for row in rows.to_list()]
        strings = Ragged.from_list([one for row in lists for one in row]) if longest else Ragged.from_list([b""])[:0]
        return Ragged(strings, np.arange(len(rows) + 1) * longest)
    outer, place = _places(rows.row_splits)
    values: Any = rows.values
    made = np.full((len(rows), longest, *column.dims), column.default, values.dtype)
    made[outer, place] = values
    return made


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray))


def _listed(value: Any) -> list[Any]:
    return list(value) if _is_list(value) else [value]


def _places(splits: Array) -> tuple[Array, Array]:
    """Return, for each value, its row and its place in that row."""
    lengths = np.diff(splits)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, np.arange(splits[-1]) - np.repeat(splits[:-1], lengths)


def _longest(splits: Array) -> int:
    return int(np.diff(splits).max(initial=0))


def _sparse(rows: _Rows) -> Sparse:
    """Return a `Sparse` in which the values of each row stand first."""
    splits = rows.step_splits if rows.step_splits is not None else rows.row_splits
    count = len(rows.values)
    if splits is None:
        return Sparse(np.arange(count)[:, None], rows.values, [count])
    outer, place = _places(splits)
    if rows.step_splits is None or rows.row_splits is None:
        return Sparse(np.stack([outer, place], 1), rows.values, [len(splits) - 1, _longest(splits)])
    record, step = _places(rows.row_splits)
    shape = [len(rows.row_splits) - 1, _longest(rows.row_splits), _longest(splits)]
    return Sparse(np.stack([record[outer], step[outer], place], 1), rows.values, shape)


def _placed(place: str, feature: SparseFeature, sizes: list[int], needs: list[_Rows]) -> Sparse:
    """Return the `Sparse` of a `SparseFeature`: its values, then the indices of each dimension."""
    first, *rest = needs
    splits = _splits(first)
    for key, rows in zip(_listed(feature.index_key), rest, strict=True):
        others = _splits(rows)
        if not np.array_equal(splits, others):
            record = int(np.argmax(np.diff(splits) != np.diff(others)))
            raise InvalidArgumentError(
                f"{place}: record {record} of the batch has {np.diff(splits)[record]} values in {feature.value_key!r}, "
                f"but {np.diff(others)[record]} indices in {key!r}"
            )
    columns = [rows.values for rows in rest]
    shape = list(sizes)
    if first.row_splits is not None:
        columns.insert(0, _places(splits)[0])
        shape.insert(0, len(splits) - 1)
    values, indices = first.values, np.stack(columns, 1)
    if not feature.already_sorted:
        # lexsort sorts by its last key first; equal indices stay in order.
        order = np.lexsort(columns[::-1])
        if (order[1:] < order[:-1]).any():
            values, indices = values[order], indices[order]
    return Sparse(indices, values, shape)


def _splits(rows: _Rows) -> Array:
    """Return the splits of the innermost rows: of steps, of records, or of the only one."""
    if rows.step_splits is not None:
        return rows.step_splits
    return rows.row_splits if rows.row_splits is not None else np.array([0, len(rows.values)])


def _nested(place: str, feature: RaggedFeature, needs: list[_Rows]) -> Any:
    """Return the component of a `RaggedFeature`: its values, then the columns of its partitions."""
    dtype = _splits_dtype(place, feature.row_splits_dtype)
    first = needs[0]
    # Rows are steps in feature lists, else records; a lone Example is a batch of one until the end.
    rows = [_splits(one) for one in needs]
    if first.step_splits is not None and any(len(splits) != len(rows[0]) for splits in rows):
        raise InvalidArgumentError(f"{place}: values and partitions do not have the same steps")
    if first.row_splits is not None and first.step_splits is not None:
        for one in needs:
            if not np.array_equal(one.row_splits, first.row_splits):  # type: ignore[arg-type]
                raise InvalidArgumentError(f"{place}: values and partitions do not have the same steps")
    _check_size(place, dtype, len(first.values))
    ragged = Ragged(first.values, rows[0].astype(dtype))
    level = len(needs)
    for part in reversed(feature.partitions):
        if isinstance(part, RaggedFeature.UniformRowLength):
            ragged = _uniform(place, ragged, int(part.length))
        else:
            level -= 1
            ragged = _divided(place, ragged, part, needs[level].values, rows[level], dtype)
    if first.step_splits is None and first.row_splits is None:
        return ragged.values
    if first.step_splits is not None and first.row_splits is not None:
        return Ragged(ragged, first.row_splits.astype(dtype))
    return ragged


def _check_size(where: str, dtype: np.dtype[Any], count: int) -> None:
    if count > np.iinfo(dtype).max:
        raise InvalidArgumentError(f"{where}: {count} values are too many for splits of {dtype}: set row_splits_dtype")


def _uniform(where: str, ragged: Ragged, length: int) -> Ragged:
    wrong = ragged.row_splits % length != 0
    if wrong.any():
        row = int(np.argmax(wrong)) - 1
        raise InvalidArgumentError(
            f"{where}: row {row} has {ragged.row_lengths()[row]} values, not a multiple of {length}, the row's length"
        )
    splits = ragged.row_splits // length
    values = ragged.values
    if isinstance(values, Ragged) or values.dtype == "S1":
        inner = np.arange(len(values) // length + 1, dtype=splits.dtype) * splits.dtype.type(length)
        return Ragged(Ragged(values, inner), splits)
    return Ragged(values.reshape(-1, length, *values.shape[1:]), splits)


def _divided(place: str, ragged: Ragged, part: Any, values: Array, splits: Array, dtype: np.dtype[Any]) -> Ragged:
    """Return `ragged` with its rows divided as `values` say, of which row i has those from splits[i] on."""
    # Both counted in values of the whole batch: where the new rows end, and where among these ends the old rows do.
    lengths = np.diff(splits)
    starts = np.repeat(ragged.row_splits[:-1].astype(np.int64), lengths)
    firsts = splits[:-1][lengths > 0]
    outer, fits = splits, True
    if isinstance(part, RaggedFeature.RowLengths):
        inner = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    elif isinstance(part, RaggedFeature.RowLimits):
        inner = np.concatenate([np.zeros(1, np.int64), values + starts])
    elif isinstance(part, RaggedFeature.RowStarts):
        inner = np.concatenate([values + starts, [len(ragged.values)]])
        fits = not values[firsts].any()
    elif isinstance(part, RaggedFeature.RowSplits):
        ends = np.ones(len(values), bool)
        ends[firsts] = False
        inner = np.concatenate([np.zeros(1, np.int64), (values + starts)[ends]])
        outer = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.maximum(lengths - 1, 0))])
        fits = not values[firsts].any()
    else:
        inner, outer, fits = _by_ids(place, ragged, values, splits)
    fits = fits and not (inner[1:] < inner[:-1]).any() and inner[0] == 0 and inner[-1] == len(ragged.values)
    if not fits or not np.array_equal(inner[outer], ragged.row_splits):
        raise InvalidArgumentError(f"{place}: {type(part).__name__} of {part.key!r} do not fit the values")
    _check_size(place, dtype, len(inner) - 1)
    return Ragged(Ragged(ragged.values, inner.astype(dtype)), outer.astype(dtype))


def _by_ids(place: str, ragged: Ragged, ids: Array, splits: Array) -> tuple[Array, Array, bool]:
    """Return inner and outer splits as of `_divided`, and whether ids fit."""
    lengths = np.diff(splits)
    nothing = np.zeros(1, np.int64), np.zeros(1, np.int64), False
    if not np.array_equal(splits, ragged.row_splits) or (ids < 0).any():
        return nothing
    same = np.repeat(np.arange(len(lengths)), lengths)
    if ((ids[1:] < ids[:-1]) & (same[1:] == same[:-1])).any():
        return nothing
    # Ids rise, so a row's last id is its largest. The check uses floats first, since their sums can't overflow.
    rows = np.zeros(len(lengths), np.int64)
    rows[lengths > 0] = ids[splits[1:][lengths > 0] - 1]
    if rows.astype(np.float64).sum() + len(rows) > 2 * len(ids) + _SPARE_ROWS:
        raise ResourceExhaustedError(f"{place}: the ids of rows go up to {rows.max()}, and so most rows would be empty")
    rows[lengths > 0] += 1
    outer = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
    counts = np.bincount(ids + np.repeat(outer[:-1], lengths), minlength=int(outer[-1]))
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), outer, True
