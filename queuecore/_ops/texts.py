"""Operations on strings of bytes: pieces of them, strings put together, comparisons, and tables of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast, overload

import numpy as np

from queuecore._checks.checks import whole
from queuecore._core.steps.stages import Step
from queuecore._core.steps.strings import CompareStep, JoinStep, SplitStep, TableStep
from queuecore._elements.component import BYTES, Component
from queuecore._elements.dtypes import kind_of
from queuecore._ops.raw import component_of
from queuecore._ops.stage import Stage, traceable
from queuecore._ops.strings import lone_strings, strings_of
from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.ragged import Ragged

__all__ = ["SplitStage", "Table", "comparison", "equal", "join", "less", "not_equal", "split", "table"]

_INT64 = np.dtype(np.int64)
_BOOL = np.dtype(np.bool_)


def _text_of(label: str, what: str, value: Any) -> bytes:
    """Return an argument that is bytes, or text, as bytes."""
    if not isinstance(value, (bytes, str)):
        raise InvalidArgumentError(f"{label}: {what} must be bytes or str, not {value!r:.60}")
    return value.encode() if isinstance(value, str) else value


def _is_symbol(value: Any) -> bool:
    return hasattr(type(value), "_traced_together")


def _rows_of(value: Any) -> Ragged | None:
    """Return a `Ragged` whose rows are made of rows themselves; of anything else `None`."""
    return value if isinstance(value, Ragged) and isinstance(value.values, Ragged) else None


def _run(label: str, stage: Stage, values: Sequence[Any]) -> Any:
    """Run a stage on strings at once: on those of all rows, where the first value is rows of them."""
    rows = _rows_of(values[0])
    if rows is not None:
        others = [one if _rows_of(one) is None else one.values for one in values[1:]]
        return Ragged(_as_values(_run(label, stage, [rows.values, *others])), rows.row_splits)
    strings = [strings_of(label, one) for one in values]
    return _scalar(stage.bind([component_of(one) for one in strings])(*strings)[0])


def _scalar(made: Any) -> Any:
    """Return what a step made: a number instead of an array without dimensions."""
    return made[()] if isinstance(made, np.ndarray) and not made.ndim else made


def _as_values(made: Any) -> Any:
    """Return strings, or numbers, as the values of a `Ragged`."""
    return Ragged.from_list(made.tolist()) if isinstance(made, np.ndarray) and made.dtype.hasobject else made


# ---- pieces ----


class SplitStage(Stage):
    """The pieces of strings; `at` returns the stage of only one piece of each."""

    __slots__ = ("_most", "_separator", "index")

    def __init__(self, separator: bytes, most: int, index: int | None) -> None:
        self._separator, self._most, self.index = separator, most, index
        text = f"split({separator!r}, {most})" if index is None else f"split({separator!r}, {most})[{index}]"
        super().__init__(text, self._step, rowwise=index is not None)

    def at(self, index: int) -> SplitStage:
        """Return the stage that gives piece `index` of each string."""
        return SplitStage(self._separator, self._most, index)

    def _step(self, components: tuple[Component, ...]) -> Step:
        component = lone_strings("split", components)
        if self.index is not None:
            outputs: tuple[Component, ...] = (Component(BYTES, component.shape, name=component.name),)
        elif component.shape == ():
            outputs = (Component(BYTES, (None,), name=component.name),)
        else:
            raise UnimplementedError("split: the pieces of several strings have no one shape: index= takes one of each")
        return SplitStep((component,), outputs, self._separator, self._most, self.index)

    def rows(self, strings: Any) -> Ragged:
        """Return all pieces of an array of strings: a row for each string, in rows for each further dimension."""
        given = component_of(strings)
        outputs = (Component(BYTES, (None,)), Component(_INT64, given.shape))
        step = SplitStep((given,), outputs, self._separator, self._most, None)
        pieces, counts = step(strings)
        made = Ragged.from_list(pieces.tolist()) if pieces.size else _NO_STRINGS
        made = Ragged(made, np.concatenate([[0], np.cumsum(counts.ravel())]))
        for axis in range(counts.ndim - 1, 0, -1):
            outer = int(np.prod(counts.shape[:axis]))
            made = Ragged(made, np.arange(outer + 1) * counts.shape[axis])
        return made


_NO_STRINGS = Ragged(np.empty(0, "S1"), np.zeros(1, np.int64))


@overload
def split(input: None = None, sep: Any = ..., maxsplit: int = ..., *, index: int | None = ...) -> Stage: ...
@overload
def split(input: Any, sep: Any = ..., maxsplit: int = ..., *, index: int | None = ...) -> Any: ...
@traceable
def split(input: Any = None, sep: Any = None, maxsplit: int = -1, *, index: int | None = None) -> Any:
    """Cut strings into the pieces between separators.

    Parameters
    ----------
    input : bytes, or array, list or Ragged of bytes, optional
        Without it, the result is a `Stage`.
    sep : bytes or str, optional
        The separator; pieces between two that follow each other are empty. Without one, or if it is empty: blanks,
        however many, and no piece is empty.
    maxsplit : int, default -1
        How often a string is cut at most; negative: any number of times.
    index : int, optional
        Return only this piece of each string; a negative one counts from the last piece.

    Returns
    -------
    ndarray of object, or Ragged
        Of one string: its pieces, as an array of one dimension; a constant index of that is native in a traced
        function. Of several strings: a row of pieces for each. With `index`, one piece for each string, in the input's
        shape.

    Raises
    ------
    InvalidArgumentError
        If a string has no piece of that index.
    DtypeError
        If the input is no bytes.

    Notes
    -----
    Runs without the GIL. Follows ``bytes.split`` and TensorFlow's ``strings.split``; `index` is ours.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.ops.split(b"train/cat/1.jpg", "/")
    array([b'train', b'cat', b'1.jpg'], dtype=object)
    >>> qc.ops.split([b"train/cat/1.jpg", b"test/dog/2.jpg"], "/", index=-2)
    array([b'cat', b'dog'], dtype=object)
    >>> qc.ops.split([b"to be", b""]).to_list()
    [[b'to', b'be'], []]
    """
    separator = b"" if sep is None else _text_of("split", "sep", sep)
    most = whole("split", "maxsplit", maxsplit)
    stage = SplitStage(separator, max(most, -1), None if index is None else whole("split", "index", index))
    if input is None:
        return stage
    if index is not None:
        return _run("split", stage, [input])
    if (rows := _rows_of(input)) is not None:
        return Ragged(split(rows.values, sep, maxsplit), rows.row_splits)
    strings = strings_of("split", input)
    return _run("split", stage, [strings]) if isinstance(strings, bytes) else stage.rows(strings)


# ---- strings together ----


@overload
def join(inputs: None = None, separator: Any = ...) -> Stage: ...
@overload
def join(inputs: Any, separator: Any = ...) -> Any: ...
def join(inputs: Any = None, separator: Any = "") -> Any:
    """Put strings together.

    Parameters
    ----------
    inputs : sequence of bytes, str, arrays or Ragged; or one array or Ragged, optional
        A list or tuple: strings of the same place are put together; a lone string goes with every one. An array: the
        strings of its last dimension, and of a `Ragged` of rows, those of each row. Without it, the result is a
        `Stage`, for elements of one or more strings.
    separator : bytes or str, default ""
        What comes between them.

    Returns
    -------
    bytes, ndarray of object, or Ragged

    Raises
    ------
    InvalidArgumentError
        If there are no inputs, or they differ in shape.
    DtypeError
        If an input is no bytes.

    Notes
    -----
    Runs without the GIL. Follows TensorFlow's ``strings.join``, and for an array ``strings.reduce_join`` along the last
    axis.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.ops.join([[b"cat", b"dog"], b"jpg"], ".")
    array([b'cat.jpg', b'dog.jpg'], dtype=object)
    >>> qc.ops.join(qc.ops.split(b"a b c"), "-")
    b'a-b-c'
    """
    between = _text_of("join", "separator", separator)
    if inputs is None:
        return _join_stage(between, None)
    listed = not _is_symbol(inputs) and isinstance(inputs, (list, tuple))
    parts: list[Any] = list(inputs) if listed else [inputs]
    if not parts:
        raise InvalidArgumentError("join: expected inputs, got none")
    stage = _join_stage(between, not listed)
    symbol: Any = next(filter(_is_symbol, parts), None)
    if symbol is not None:
        return symbol._traced_together("join", stage, parts)
    rows = next((one for one in map(_rows_of, parts) if one is not None), None)
    if rows is not None and not listed:
        return Ragged.from_list([join(row, between) for row in rows])
    if rows is not None:
        made = join([one if _rows_of(one) is None else one.values for one in parts], between)
        return Ragged(_as_values(made), rows.row_splits)
    return _run("join", stage, parts)


def _join_stage(between: bytes, reduced: bool | None) -> Stage:
    """Return the stage; `None`: strings of one component are those that are put together."""

    def bind(components: tuple[Component, ...]) -> Step:
        if not components or any(one.dtype != BYTES for one in components):
            raise InvalidArgumentError("join: expected components of bytes, at least one")
        along = len(components) == 1 if reduced is None else reduced
        shape = components[0].shape[:-1] if along and components[0].shape else _shape_of(components)
        return JoinStep(components, (Component(BYTES, shape),), between, along)

    return Stage(f"join({between!r})" if reduced is not False else f"join_each({between!r})", bind, rowwise=not reduced)


def _shape_of(components: Sequence[Component]) -> tuple[int | None, ...] | None:
    """Return the shape of what is made of strings of one shape and lone strings."""
    shape: tuple[int | None, ...] | None = ()
    for component in components:
        if component.shape is None:
            return None
        if component.shape and shape and len(component.shape) != len(shape):
            raise InvalidArgumentError(
                f"strings of shape {list(shape)} and of shape {list(component.shape)} can't be combined"
            )
        shape = component.shape if not shape or None in shape else shape
    return shape


# ---- comparisons ----


def comparison(relation: str) -> Stage:
    """Return the stage that compares two strings, or strings of one shape."""

    def bind(components: tuple[Component, ...]) -> Step:
        if len(components) != 2 or any(one.dtype != BYTES for one in components):
            raise InvalidArgumentError(f"{relation}: expected two components of bytes, got {len(components)}")
        return CompareStep(components, (Component(_BOOL, _shape_of(components)),), relation)

    return Stage(f"compare({relation})", bind, rowwise=True)


def _compared(name: str, relation: str, x: Any, y: Any) -> Any:
    stage = comparison(relation)
    if x is None and y is None:
        return stage
    operands: list[Any] = [x, y]
    for symbol in filter(_is_symbol, operands):
        return symbol._traced_together(name, stage, operands)
    if _rows_of(x) is None and (rows := _rows_of(y)) is not None:
        return Ragged(_compared(name, relation, x, rows.values), rows.row_splits)
    return _run(name, stage, operands)


def equal(x: Any = None, y: Any = None) -> Any:
    """Return whether strings are equal.

    Parameters
    ----------
    x, y : bytes or str, or array, list or Ragged of bytes, optional
        Of one shape; a lone string is compared with every one. Without both, the result is a `Stage` for elements of
        two strings.

    Returns
    -------
    bool, or ndarray or Ragged of bool

    Raises
    ------
    InvalidArgumentError
        If they differ in shape.
    DtypeError
        If one is no bytes.

    Notes
    -----
    Runs without the GIL. In a traced function, ``==``, ``!=``, ``<``, ``<=``, ``>`` and ``>=`` of single strings are
    native too.

    Examples
    --------
    >>> import queuecore as qc
    >>> qc.ops.equal([b"cat", b"dog"], "cat")
    array([ True, False])
    """
    return _compared("equal", "==", x, y)


def not_equal(x: Any = None, y: Any = None) -> Any:
    """Return whether strings differ; parameters, results and errors are those of `equal`."""
    return _compared("not_equal", "!=", x, y)


def less(x: Any = None, y: Any = None) -> Any:
    """Return whether strings `x` come before strings `y`, byte by byte; the rest is that of `equal`."""
    return _compared("less", "<", x, y)


# ---- tables ----


class Table:
    """The values of keys that are strings; `queuecore.ops.table` makes one.

    ``table[keys]`` looks keys up, without the GIL, and natively in a traced function. Tables can be pickled, and never
    change.

    Attributes
    ----------
    dtype : numpy.dtype
        Of the values; ``dtype("S")`` for strings of bytes.
    """

    __slots__ = ("_default", "_keys", "_steps", "_values", "dtype")

    def __init__(self, keys: list[bytes], values: Any, default: bool) -> None:
        self._keys, self._values, self._default = keys, values, default
        self._steps: dict[int, Step] = {}  # by the number of the keys' dimensions, for look-ups at once
        self.dtype = BYTES if isinstance(values, list) else values.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        """Support `pickle` and `copy`."""
        return Table, (self._keys, self._values, self._default)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._keys)

    def __repr__(self) -> str:
        """Return a digest of the content, which plans and saved places compare."""
        digest = hashlib.sha256()
        values = self._values if isinstance(self._values, list) else [self._values.tobytes()]
        for part in (*self._keys, *values):
            digest.update(len(part).to_bytes(8, "little") + part)
        word = "bytes" if self.dtype == BYTES else str(self.dtype)
        default = ", default" * self._default
        return f"table({len(self)} keys{default}, {word}, {digest.hexdigest()[:16]})"

    def stage(self) -> Stage:
        """Return the look-up as a `Stage`, for elements of one component of strings."""
        return Stage(repr(self), self._bound, rowwise=True)

    def _bound(self, components: tuple[Component, ...]) -> Step:
        given = lone_strings("table", components)
        made = Component(self.dtype, given.shape, name=given.name)
        return TableStep((given,), (made,), self._keys, self._values, self._default)

    def lookup(self, keys: Any) -> Any:
        """Return the values of keys.

        Parameters
        ----------
        keys : bytes or str, or array, list or Ragged of bytes

        Returns
        -------
        scalar, bytes, ndarray or Ragged
            Of the keys' shape.

        Raises
        ------
        InvalidArgumentError
            If a string is no key, and there is no default.
        DtypeError
            If the keys are no bytes.
        """
        if _is_symbol(keys):
            return keys._traced_together("table", self.stage(), [keys])
        if (rows := _rows_of(keys)) is not None:
            return Ragged(_as_values(self.lookup(rows.values)), rows.row_splits)
        strings = strings_of("table", keys)
        ndim = len(component_of(strings).shape or ())
        step = self._steps.get(ndim)
        if step is None:
            step = self._steps.setdefault(ndim, self._bound((Component(BYTES, (None,) * ndim),)))
        return _scalar(step(strings)[0])

    __getitem__ = lookup


def table(keys: Any, values: Any = None, default: Any = None) -> Table:
    """Make a table that looks strings up.

    Parameters
    ----------
    keys : sequence of bytes or str, or mapping
        The keys; of a mapping, whose values are the values.
    values : sequence of numbers, bytes or str, optional
        One for each key. Default: the number of each key, from 0 on, as int64.
    default : number, bytes or str, optional
        The value of all other strings. Without it they are an error.

    Returns
    -------
    Table
        ``table[strings]`` has the values.

    Raises
    ------
    InvalidArgumentError
        If there are no keys, not as many values as keys, or two values for one key.
    DtypeError
        If keys are no strings, or values neither numbers nor strings.

    Notes
    -----
    As TensorFlow's ``lookup.StaticHashTable`` with a ``KeyValueTensorInitializer``, where the default is required.

    Examples
    --------
    >>> import queuecore as qc
    >>> labels = qc.ops.table([b"cat", b"dog"], default=-1)
    >>> labels[b"dog"], labels[[b"cat", b"cow"]]
    (np.int64(1), array([ 0, -1]))
    >>> qc.ops.table({"cat": "Felis catus"})["cat"]
    b'Felis catus'
    """
    if isinstance(keys, Mapping):
        if values is not None:
            raise InvalidArgumentError("table: the mapping has the values already")
        keys, values = list(keys), list(keys.values())
    texts = np.atleast_1d(cast(Any, strings_of("table", keys if isinstance(keys, Ragged) else list(keys))))
    names = [one for one in (keys.to_list() if isinstance(keys, Ragged) else texts.ravel().tolist())]
    content = np.arange(len(names)) if values is None else _values_of(values)
    if not names or len(content) != len(names):
        raise InvalidArgumentError(f"table: {len(content)} values for {len(names)} keys")
    place_of: dict[bytes, int] = {}
    for index, name in enumerate(names):
        if content[place_of.setdefault(name, index)] != content[index]:
            raise InvalidArgumentError(f"table: the key {name!r} has two values")
    places = list(place_of.values())
    if isinstance(content, list):
        ends = [] if default is None else [_text_of("table", "default", default)]
        return Table(list(place_of), [content[index] for index in places] + ends, default is not None)
    distinct = content[places]
    if default is not None:
        last = np.asarray(default)
        if last.ndim or not np.can_cast(last.dtype, distinct.dtype, "same_kind") or distinct.dtype.type(last) != last:
            raise InvalidArgumentError(f"table: the default {default!r:.60} is no value of {distinct.dtype}")
        distinct = np.append(distinct, last.astype(distinct.dtype))
    return Table(list(place_of), distinct, default is not None)


def _values_of(values: Any) -> Any:
    """Return values as an array of numbers, or a list of bytes."""
    if isinstance(values, Ragged) and values.is_bytes:
        return values.to_list()
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidArgumentError(f"table: values must have one dimension, not {array.ndim}")
    if kind_of(array.dtype) in "biufc":
        return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    return [_text_of("table", "a value", one) for one in (values if isinstance(values, list) else array.tolist())]
