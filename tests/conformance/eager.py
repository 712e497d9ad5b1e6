"""TensorFlow's functions on values, for tests in eager mode: NumPy's, and `queuecore.data`.

Only what functions that tests give to datasets are made of; traced, they are native where NumPy's functions are.
"""

from __future__ import annotations

import builtins
import time
from typing import Any

import numpy as np

import queuecore as qc
import queuecore.data as data
import queuecore.tf1 as tf
from queuecore.errors import InvalidArgumentError

# dtypes: NumPy's, where tests compare them with those of datasets

_DTYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"


class DType:
    """A type of TensorFlow's that is equal to a NumPy dtype."""

    def __init__(self, name: str, dtype: Any) -> None:
        self.name, self.as_numpy_dtype, self._dtype = name, np.dtype(dtype).type, np.dtype(dtype)

    def __eq__(self, other: object) -> bool:
        other = getattr(other, "_dtype", other)
        try:
            return np.dtype(other) == self._dtype or (self._dtype.kind == "S" and np.dtype(other).kind in "SO")
        except TypeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dtype)

    @property
    def dtype(self) -> Any:  # for np.dtype(...)
        return self._dtype

    @property
    def max(self) -> Any:
        return (np.iinfo if self._dtype.kind in "iu" else np.finfo)(self._dtype).max

    def __repr__(self) -> str:
        return f"tf.{self.name}"


def dtype_of(given: Any) -> Any:
    """Return NumPy's dtype of one of TensorFlow's."""
    return given if given is None else np.dtype(getattr(given, "_dtype", given))


def _array(value: Any, dtype: Any = None) -> Any:
    # What TensorFlow makes of a value of Python's: 32 bits, and bytes.
    if isinstance(value, (np.ndarray, np.generic)) or not isinstance(
        value, (builtins.bool, int, float, str, bytes, list, tuple)
    ):
        return value if dtype is None else value.astype(dtype_of(dtype))
    if dtype is not None and dtype_of(dtype).kind == "S" and np.size(value) == 0:
        return np.empty(np.shape(value), "S1")
    array = np.asarray(value, dtype_of(dtype) if dtype is not None and dtype_of(dtype).kind != "S" else None)
    if array.dtype.kind == "U":
        array = np.char.encode(array)
    if array.dtype.kind == "S" and isinstance(value, (list, tuple)):
        return _strings(value)
    if dtype is None and array.dtype in (np.int64, np.float64):
        small = array.astype({"i": np.int32, "f": np.float32}[array.dtype.kind])
        array = array if array.dtype.kind == "i" and (small != array).any() else small
    return array


def _strings(value: Any) -> Any:
    # With the zeros at their ends, which NumPy's strings lose.
    made = np.asarray(value, object)
    flat = [one.encode() if isinstance(one, str) else one for one in made.ravel().tolist()]
    return np.fromiter(flat, object, len(flat)).reshape(made.shape)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = None) -> Any:
    """Return a value as an array."""
    try:
        made = _array(value, dtype)
    except ValueError:
        return qc.Ragged.from_list(value)  # a ragged constant
    if shape is None:
        return made
    return np.broadcast_to(made, shape).copy() if np.size(made) == 1 else np.reshape(made, shape)


def cast(x: Any, dtype: Any, name: Any = None) -> Any:
    """Return a value in another type."""
    return (x if hasattr(x, "astype") else _array(x)).astype(dtype_of(dtype))


def _shape(value: Any) -> Any:
    return tuple(int(one) for one in value) if isinstance(value, (list, tuple, np.ndarray)) else (int(value),)


def fill(dims: Any, value: Any, name: Any = None) -> Any:
    """Return an array full of one value."""
    return np.full(_shape(dims), _array(value))


def span(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: Any = None) -> Any:
    """Return a range of numbers."""
    start, limit = (0, start) if limit is None else (start, limit)
    given = [one for one in (start, limit, delta) if isinstance(one, (np.ndarray, np.generic))]
    found = dtype_of(dtype) or (given[0].dtype if given else np.dtype(np.int32))
    return np.arange(start, limit, delta, dtype=found)


def check_numerics(tensor: Any, message: str, name: Any = None) -> Any:
    """Return a value that is finite."""
    if not np.isfinite(np.asarray(tensor)).all():
        kind = "NaN" if np.isnan(np.asarray(tensor)).any() else "Inf"
        raise InvalidArgumentError(f"{message} : Tensor had {kind} values")
    return tensor


def as_string(input: Any, name: Any = None) -> Any:  # noqa: A002
    """Return numbers as text."""
    return np.char.encode(np.asarray(input).astype(str))[()]


def py_func(func: Any, inp: Any, Tout: Any, stateful: Any = True, name: Any = None) -> Any:  # noqa: N803
    """Return what a function of Python's makes of arrays."""
    made = func(*[np.asarray(one) for one in inp])
    if isinstance(Tout, (list, tuple)):
        parts = made if isinstance(made, (list, tuple)) else [made]
        return [np.asarray(one, dtype_of(kind)) for one, kind in zip(parts, Tout, strict=True)]
    return np.asarray(made, dtype_of(Tout))


def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, **named: Any) -> Any:
    """Return what one of two functions returns."""
    return true_fn() if pred else false_fn()


def assert_that(compare: Any) -> Any:
    """Return an assertion: an error unless a comparison holds."""

    def check(x: Any, y: Any, data: Any = None, message: Any = None, name: Any = None) -> None:
        if not np.all(compare(np.asarray(x), np.asarray(y))):
            raise InvalidArgumentError(f"assertion failed: [{message or ''}] [{x}] [{y}]")

    return check


def get_shapes(dataset: Any) -> Any:
    """Return the shapes of a dataset's components, as TensorFlow's."""
    return _shapes(dataset.output_shapes)


def _shapes(shapes: Any) -> Any:
    if isinstance(shapes, dict):
        return {key: _shapes(inner) for key, inner in shapes.items()}
    if shapes is None or (isinstance(shapes, tuple) and all(side is None or isinstance(side, int) for side in shapes)):
        return tf.TensorShape(shapes)
    parts = [_shapes(inner) for inner in shapes]
    return type(shapes)(*parts) if hasattr(shapes, "_fields") else tuple(parts)


def sparse(indices: Any, values: Any, dense_shape: Any) -> Any:
    """Return a sparse array."""
    return qc.Sparse(np.asarray(indices, np.int64).reshape(-1, len(dense_shape)), _array(values), _shape(dense_shape))


class RaggedTensor:
    """The class of ragged tensors, as far as its constructors go."""

    from_row_lengths = staticmethod(
        lambda values, row_lengths, **named: qc.Ragged(_array(values), np.concatenate([[0], np.cumsum(row_lengths)]))
    )
    from_row_splits = staticmethod(
        lambda values, row_splits, **named: qc.Ragged(_array(values), np.asarray(row_splits, np.int64))
    )


def decode_csv(records: Any, record_defaults: Any, *given: Any, **named: Any) -> Any:
    """Return the columns of records."""
    if "field_delim" not in named and given:
        named["field_delim"], *given = given  # type: ignore[assignment]
    return qc.ops.decode_csv(records, csv_defaults(record_defaults), *given, **named)


def csv_defaults(given: Any) -> list[Any]:
    """Return the defaults of columns, types as NumPy's."""
    return [dtype_of(one) if isinstance(one, DType) else one for one in given]


def csv_dataset(filenames: Any, record_defaults: Any, *given: Any, **named: Any) -> Any:
    """Return a dataset of rows."""
    return data.CsvDataset(filenames, csv_defaults(record_defaults), *given, **named)


def make_csv_dataset(*given: Any, column_defaults: Any = None, **named: Any) -> Any:
    """Return a dataset of batches of rows."""
    columns = column_defaults if column_defaults is None else csv_defaults(column_defaults)
    return data.experimental.make_csv_dataset(*given, column_defaults=columns, **named)


def map_fn(fn: Any, elems: Any, dtype: Any = None, **named: Any) -> Any:
    """Return an array of what a function makes of each row."""
    made = np.stack([np.asarray(fn(one)) for one in elems])
    return made if dtype is None else made.astype(dtype_of(dtype))


def are_compatible(spec: Any, other: Any) -> bool:
    """Return whether two specifications of `queuecore.data` are of the same types, and of shapes that fit."""
    if isinstance(spec, dict):
        alike = isinstance(other, dict) and spec.keys() == other.keys()
        return alike and all(are_compatible(spec[key], other[key]) for key in spec)
    if isinstance(spec, tuple):
        return isinstance(other, tuple) and len(spec) == len(other) and all(map(are_compatible, spec, other))
    fits = tf.TensorShape(spec.shape).is_compatible_with(other.shape)
    return type(spec) is type(other) and spec.dtype == other.dtype and fits


def sleep(microseconds: int) -> Any:
    """Return a step that waits before each element."""

    def wait(*element: Any) -> Any:
        time.sleep(microseconds / 1e6)
        return element if len(element) > 1 else element[0]

    return lambda dataset: dataset.map(wait)


def _reduction(function: Any) -> Any:
    return lambda x, axis=None, keepdims=False, name=None: function(x, axis=axis, keepdims=keepdims)


def _two(function: Any) -> Any:
    return lambda x, y, name=None: function(x, y)


def _one(function: Any) -> Any:
    return lambda x, name=None: function(x)


_UNARY = {
    "square": np.square, "abs": np.abs, "negative": np.negative, "sqrt": np.sqrt, "exp": np.exp, "log": np.log,
    "logical_not": np.logical_not, "floor": np.floor, "is_nan": np.isnan, "identity": np.asarray,
    "zeros_like": np.zeros_like, "ones_like": np.ones_like, "transpose": np.transpose,
}  # fmt: skip
_BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "floordiv": np.floor_divide,
    "mod": np.mod, "floormod": np.mod, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal, "maximum": np.maximum,
    "minimum": np.minimum, "logical_and": np.logical_and, "logical_or": np.logical_or, "pow": np.power,
    "matmul": np.matmul,
}  # fmt: skip
_REDUCTIONS = {
    "reduce_sum": np.sum, "reduce_mean": np.mean, "reduce_max": np.max, "reduce_min": np.min, "reduce_prod": np.prod,
    "reduce_all": np.all, "reduce_any": np.any,
}  # fmt: skip

NAMES: dict[str, Any] = {
    **{name: DType(name, name) for name in _DTYPES.split()},
    "half": DType("float16", "f2"),
    "double": DType("float64", "f8"),
    "bool": DType("bool", "?"),
    "string": DType("string", "S"),
    **{name: _one(function) for name, function in _UNARY.items()},
    **{name: _two(function) for name, function in _BINARY.items()},
    **{name: _reduction(function) for name, function in _REDUCTIONS.items()},
    "constant": constant,
    "convert_to_tensor": constant,
    "cast": cast,
    "to_int32": lambda x: cast(x, np.int32),
    "to_int64": lambda x: cast(x, np.int64),
    "to_float": lambda x: cast(x, np.float32),
    "fill": fill,
    "range": span,
    "zeros": lambda shape, dtype=np.float32, name=None: np.zeros(_shape(shape), dtype_of(dtype)),
    "ones": lambda shape, dtype=np.float32, name=None: np.ones(_shape(shape), dtype_of(dtype)),
    "shape": lambda x, name=None, out_type=np.int32: np.asarray(
        getattr(x, "dense_shape", None) if isinstance(x, qc.Sparse) else np.shape(x), dtype_of(out_type)
    ),
    "size": lambda x, name=None: np.int32(np.size(x)),
    "rank": lambda x, name=None: np.int32(np.ndim(x)),
    "expand_dims": lambda x, axis=0, name=None: np.expand_dims(x, axis),
    "squeeze": lambda x, axis=None, name=None: np.squeeze(x, axis),
    "reshape": lambda x, shape, name=None: np.reshape(x, _shape(shape)),
    "concat": lambda values, axis, name=None: np.concatenate([_array(one) for one in values], axis),
    "stack": lambda values, axis=0, name=None: np.stack([_array(one) for one in values], axis),
    "tile": lambda x, multiples, name=None: np.tile(_array(x), _shape(multiples)),
    "gather": lambda params, indices, **named: np.take(_array(params), indices, 0),
    "check_numerics": check_numerics,
    "as_string": as_string,
    "py_func": py_func,
    "numpy_function": py_func,
    "eager_py_func": lambda func, inp, Tout, name=None: py_func(func, inp, Tout),
    "cond": cond,
    "no_op": lambda name=None: None,
    "assert_equal": assert_that(np.equal),
    "assert_less": assert_that(np.less),
    "assert_greater": assert_that(np.greater),
    "map_fn": map_fn,
    "parse_example": qc.ops.parse_example,
    "parse_single_example": qc.ops.parse_single_example,
    "string_join": lambda inputs, separator="", name=None: separator.encode().join(
        one.encode() if isinstance(one, str) else bytes(one) for one in inputs
    ),
    "random_uniform": lambda shape, minval=0, maxval=1, **named: np.random.uniform(minval, maxval, _shape(shape)),
    "decode_csv": decode_csv,
    "CsvDataset": csv_dataset,
    "make_csv_dataset": make_csv_dataset,
    "RaggedTensor": RaggedTensor,
    "SparseTensor": sparse,
    "SparseTensorValue": sparse,
    "RaggedTensorValue": lambda values, row_splits: qc.Ragged(_array(values), np.asarray(row_splits, np.int64)),
    "constant_value": lambda rows, **named: qc.Ragged.from_list(rows),
    "TensorShape": lambda dims: dims if dims is None else tuple(dims),
    "Dataset": data.Dataset,
    "DatasetV1": data.Dataset,
    "DatasetV2": data.Dataset,
    **{
        f"{name}{version}": getattr(data, name)
        for name in ("TextLineDataset", "TFRecordDataset", "FixedLengthRecordDataset")
        for version in ("", "V1", "V2")
    },
    "Options": data.Options,
    "AUTOTUNE": data.AUTOTUNE,
    "UNKNOWN": data.UNKNOWN_CARDINALITY,
    "INFINITE": data.INFINITE_CARDINALITY,
    "get_legacy_output_shapes": get_shapes,
    "get_legacy_output_types": lambda dataset: dataset.output_types,
    "get_legacy_output_classes": lambda dataset: dataset.output_classes,
    "get_structure": lambda dataset: dataset.element_spec,
    "TensorSpec": lambda shape=None, dtype=np.float32, name=None: data.ArraySpec(
        shape if shape is None else tuple(shape), dtype_of(dtype)
    ),
    "Optional": data.Optional,
    "are_compatible": are_compatible,
    "type_spec_from_value": lambda value: data.Dataset.from_tensors(value).element_spec,
    "SparseTensorSpec": lambda shape, dtype: data.SparseSpec(tuple(shape), dtype_of(dtype)),
    "sleep": sleep,
    "make_one_shot_iterator": iter,
    "get_next_as_optional": lambda iterator: iterator.get_next_as_optional(),
}  # fmt: skip
# Functions of tf.data.experimental
NAMES |= {
    name: getattr(data.experimental, name)
    for name in dir(data.experimental)
    if not name.startswith("_") and callable(getattr(data.experimental, name)) and name not in NAMES
}
