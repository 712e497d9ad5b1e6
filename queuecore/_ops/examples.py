"""Operations on Examples and SequenceExamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from queuecore._core.steps.example import ExampleStep
from queuecore._core.steps.stages import Step
from queuecore._elements.component import BYTES, Component, Structure
from queuecore._ops.features import (
    ExamplePlan,
)
from queuecore._ops.stage import Stage, traceable
from queuecore._ops.strings import lone_strings
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged

__all__ = [
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
]


@overload
def parse_example(
    serialized: None = None, features: Mapping[Any, Any] | None = ..., name: str | None = ..., example_names: Any = ...
) -> Stage: ...


@overload
def parse_example(
    serialized: Any, features: Mapping[Any, Any], name: str | None = ..., example_names: Any = ...
) -> dict[Any, Any]: ...


@traceable
def parse_example(
    serialized: Any = None,
    features: Mapping[Any, Any] | None = None,
    name: str | None = None,
    example_names: Any = None,
) -> Any:
    r"""Parse a batch of serialized ``tf.train.Example`` messages.

    Parameters
    ----------
    serialized : list or array of bytes, Ragged of bytes, or bytes, optional
        The messages. A lone one is parsed as by `parse_single_example`. Without any, the result is a `Stage`.
    features : dict
        What to take from each: `FixedLenFeature`, `VarLenFeature`, `FixedLenSequenceFeature`, `SparseFeature` or
        `RaggedFeature` by key.
    name : str, optional
        Not used.
    example_names : list of str, optional
        A name for each message, for errors.

    Returns
    -------
    dict
        By the keys of `features`: an array of shape ``(n, *shape)`` for a `FixedLenFeature`, ``(n, longest, *shape)``
        for a `FixedLenSequenceFeature`, else a `Sparse` or a `Ragged`. Arrays of bytes are a `Ragged` too: of ``(n,)``
        strings, or with a level more for each further dimension.

    Raises
    ------
    InvalidArgumentError
        If there are no features, or a description is at odds with itself; if an Example lacks a feature that has no
        default, or has values of another dtype or in a number that doesn't fit.
    ProtoError
        If a message doesn't parse.
    DtypeError
        If a dtype is none of int64, float32 and bytes, or the input is no bytes.

    Notes
    -----
    One native call parses all, without the GIL. Follows TensorFlow's ``io.parse_example``. Of several entries with
    one key the last one counts; a feature of no kind counts as missing; a feature without values is present. Values
    that no description names are skipped unchecked, as are unknown fields; known fields of the wrong wire type are
    errors. Unlike TensorFlow, the partitions of a `RaggedFeature` are always checked, and bad features raise the same
    error for one and for many Examples.

    A stage gives the columns as they come off the wire, each a component of its own. A `FixedLenFeature` is one dense
    component with the feature's key as its name, and so is a `FixedLenSequenceFeature`. The others share the flat
    columns of the keys that they name: ``key.values``, all values one after the other, and in a batch
    ``key.row_splits`` (int64), where the values of each record begin and end. A stage that gets one record parses it
    as `parse_single_example` does.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> one = bytes.fromhex("0a0e0a0c0a016112071a050a0301ac02")
    >>> qc.ops.parse_example([one, one], {"a": qc.ops.FixedLenFeature(2, np.int64)})
    {'a': array([[  1, 300],
           [  1, 300]])}
    >>> qc.ops.parse_example([one, b""], {"a": qc.ops.RaggedFeature(np.int64)})
    {'a': Ragged([[1, 300], []], dtype=int64)}
    """
    del name
    _some_features("parse_example", features)
    return _examples("parse_example", serialized, [features], example_names, None)


@overload
def parse_single_example(
    serialized: None = None, features: Mapping[Any, Any] | None = ..., name: str | None = ..., example_names: Any = ...
) -> Stage: ...


@overload
def parse_single_example(
    serialized: Any, features: Mapping[Any, Any], name: str | None = ..., example_names: Any = ...
) -> dict[Any, Any]: ...


@traceable
def parse_single_example(
    serialized: Any = None,
    features: Mapping[Any, Any] | None = None,
    name: str | None = None,
    example_names: Any = None,
) -> Any:
    r"""Parse one serialized ``tf.train.Example`` message.

    Parameters
    ----------
    serialized : bytes, optional
        The message. Without it, the result is a `Stage`.
    features : dict
        As for `parse_example`.
    name, example_names : str, optional
        Not used.

    Returns
    -------
    dict
        By the keys of `features`: an array of the shape asked for (`bytes` for one string), a `Sparse`, or, for a
        `RaggedFeature`, an array of the values, and a `Ragged` once they are partitioned. Arrays of bytes are a
        `Ragged`.

    Raises
    ------
    InvalidArgumentError, ProtoError, DtypeError
        As `parse_example`.

    Notes
    -----
    As for `parse_example`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> one = bytes.fromhex("0a0c0a0a0a016212050a030a0178")
    >>> qc.ops.parse_single_example(one, {"b": qc.ops.FixedLenFeature((), bytes)})
    {'b': b'x'}
    >>> qc.ops.parse_single_example(features={"b": qc.ops.FixedLenFeature((), bytes)})
    parse_single_example(b)
    """
    del name, example_names
    _some_features("parse_single_example", features)
    return _examples("parse_single_example", serialized, [features], None, False)


@traceable
def parse_sequence_example(
    serialized: Any = None,
    context_features: Mapping[Any, Any] | None = None,
    sequence_features: Mapping[Any, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> Any:
    r"""Parse a batch of serialized ``tf.train.SequenceExample`` messages.

    Parameters
    ----------
    serialized : list or array of bytes, Ragged of bytes, or bytes, optional
        The messages, or a lone one. Without any, the result is a `Stage`.
    context_features : dict, optional
        `FixedLenFeature`, `VarLenFeature` or `RaggedFeature` by key.
    sequence_features : dict, optional
        `FixedLenSequenceFeature`, `VarLenFeature` or `RaggedFeature` by key, of the feature lists.
    example_names : list of str, optional
        A name for each message, for errors.
    name : str, optional
        Not used.

    Returns
    -------
    context, sequences, lengths : dict
        By key: the context as by `parse_example`; feature lists, with a dimension for the steps after that of the
        batch; and of each `FixedLenSequenceFeature` how many steps the messages have, an array of int64.

    Raises
    ------
    InvalidArgumentError, ProtoError, DtypeError
        As `parse_example`; also if a feature list is missing for which `allow_missing` is not set.

    Notes
    -----
    As for `parse_example`. A stage's components are named ``context.key`` and ``feature_lists.key``; a padded feature
    list in a batch has also ``.lengths``, a flat one ``.step_splits``, where the values of each step begin and end,
    and its ``.row_splits`` are those of the steps.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> one = bytes.fromhex("12170a150a017412100a061a040a0201020a061a040a020304")
    >>> asked = {"t": qc.ops.FixedLenSequenceFeature(2, np.int64)}
    >>> qc.ops.parse_sequence_example([one], sequence_features=asked)
    ({}, {'t': array([[[1, 2],
            [3, 4]]])}, {'t': array([2])})
    """
    del name
    sections = _some_sections("parse_sequence_example", context_features, sequence_features)
    return _examples("parse_sequence_example", serialized, sections, example_names, None)


@traceable
def parse_single_sequence_example(
    serialized: Any = None,
    context_features: Mapping[Any, Any] | None = None,
    sequence_features: Mapping[Any, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> Any:
    """Parse one serialized ``tf.train.SequenceExample`` message.

    Parameters
    ----------
    serialized : bytes, optional
        The message. Without it, the result is a `Stage`.
    context_features, sequence_features : dict, optional
        As for `parse_sequence_example`.
    example_name, name : str, optional
        Not used.

    Returns
    -------
    context, sequences : dict
        As by `parse_sequence_example`, without the dimension of the batch.

    Raises
    ------
    InvalidArgumentError, ProtoError, DtypeError
        As `parse_sequence_example`.

    Notes
    -----
    As for `parse_sequence_example`.

    Examples
    --------
    >>> import numpy as np, queuecore as qc
    >>> asked = {"t": qc.ops.FixedLenSequenceFeature((), np.int64, allow_missing=True)}
    >>> qc.ops.parse_single_sequence_example(b"", sequence_features=asked)
    ({}, {'t': array([], dtype=int64)})
    """
    del name, example_name
    label = "parse_single_sequence_example"
    made = _examples(label, serialized, _some_sections(label, context_features, sequence_features), None, False)
    return made if isinstance(made, Stage) else made[:2]


def _some_features(label: str, features: Any) -> None:
    if not isinstance(features, Mapping) or not features:
        raise InvalidArgumentError(f"{label}: features must be a dict that is not empty, not {features!r}")


def _some_sections(label: str, context: Any, sequences: Any) -> list[Any]:
    for part, features in (("context_features", context), ("sequence_features", sequences)):
        if features is not None and not isinstance(features, Mapping):
            raise InvalidArgumentError(f"{label}: {part} must be a dict, not {features!r}")
    if not context and not sequences:
        raise InvalidArgumentError(f"{label}: one of context_features and sequence_features must name a feature")
    return [context, sequences]


def _examples(label: str, serialized: Any, sections: list[Any], names: Any, batch: bool | None) -> Any:
    """Parse, or return a stage. `batch`: False accepts lone messages only."""
    plan = ExamplePlan(label, sections, len(sections) > 1)
    if serialized is None:
        return _example_stage(label, plan, batch)
    strings = _messages(label, serialized)
    is_batch = not isinstance(strings, bytes)
    if is_batch and batch is False:
        raise InvalidArgumentError(f"{label}: expected one string of bytes, not a batch of {len(strings)}")
    if is_batch and names is not None and len(names) != len(strings):
        raise InvalidArgumentError(f"{label}: {len(names)} example_names for {len(strings)} messages")
    step = _example_step(label, plan, Component(BYTES, (len(strings),) if is_batch else ()))
    components, lengths = plan.assemble(step.parse(strings, names if is_batch else None), is_batch)
    return (*components, lengths) if plan.sequence else components[0]


def _messages(label: str, value: Any) -> bytes | Sequence[bytes] | Ragged:
    """Return the messages: bytes for one, a sequence or a `Ragged` for many."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, Ragged) and value.is_bytes:
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "S":
        # A message may well end with a zero byte.
        raise DtypeError(f"{label}: arrays of {value.dtype} lose the zeros at the end of strings; use a list")
    if isinstance(value, np.ndarray) and value.dtype == object:
        if value.ndim > 1:
            raise InvalidArgumentError(f"{label}: expected a string or a list of them, got {value.ndim} dimensions")
        value = value.tolist()
        if isinstance(value, bytes):
            return value
    if isinstance(value, (list, tuple)):
        kinds = set(map(type, value))
        if kinds <= {bytes}:
            return value
        if all(issubclass(kind, (bytes, bytearray, memoryview)) for kind in kinds):
            return [bytes(one) for one in value]
        value = next(one for one in value if not isinstance(one, (bytes, bytearray, memoryview)))
    raise DtypeError(f"{label}: expected a string of bytes or a list of them, got {type(value).__name__}")


def _example_step(label: str, plan: ExamplePlan, component: Component) -> ExampleStep:
    shape = component.shape or ()
    columns, outputs = plan.bound(len(shape) == 1)
    count = shape[0] if shape else None
    sides = {"n": count, "m": None if count is None else count + 1}
    components = [
        Component(
            dtype,
            tuple(sides[side] if isinstance(side, str) else side for side in dims),
            name=name,
            ragged=not shape and dims[:1] == (None,),
        )
        for name, dtype, dims in outputs
    ]
    return ExampleStep(label, (component,), tuple(components), columns)


def _example_stage(label: str, plan: ExamplePlan, batch: bool | None) -> Stage:
    def bind(components: tuple[Component, ...]) -> Step:
        given = lone_strings(label, components)
        if given.shape is None or len(given.shape) > (0 if batch is False else 1):
            expected = "one string" if batch is False else "one string, or a batch of them"
            raise InvalidArgumentError(f"{label}: expected {expected}, got components of shape {given.shape}")
        return _example_step(label, plan, given)

    shown = ", ".join(str(key) for section in plan.sections for key in section)
    structure = None if plan.sequence else Structure(plan.assembled, plan.spec)
    return Stage(f"{label}({shown})", bind, structure, True)
